"""Objects that the arms handle, and the cabinet with its drawer."""

from __future__ import annotations

import numpy as np

from twinproof.lab.models.text import Values, box_inertia, cylinder_inertia, inertial, numbers
from twinproof.lab.population import Instance

OBJECT = "object"
TOUCH = 'condim="4" priority="1" solref="0.008 1" solimp="0.92 0.98 0.001"'
CABINET_X_M, PLINTH_M = 0.60, 0.05  # where the closed drawer's front is, and how high the cabinet stands


def object_geoms(thing: Instance) -> tuple[str, ...]:
    """Names of the geoms of an object."""
    return (OBJECT, f"{OBJECT}_stem") if thing.shape == "tee" else (OBJECT,)


def object_material(thing: Instance) -> str:
    """The material of an object: speckled plastic in its colour."""
    return f'<material name="thing" texture="speckle" rgba="{numbers(thing.rgb, 1)}" specular="0.35" shininess="0.45"/>'


def object_body(values: Values, thing: Instance) -> str:
    """A free body with its frame in the middle of its height."""
    x, y, z = thing.half_m
    friction = {geom: values(f"geom.{geom}.friction_slide", thing.friction) for geom in object_geoms(thing)}
    felt = {
        geom: f'friction="{numbers(mu, 0.005, 0.0001)}" {TOUCH} material="thing" group="1"'
        for geom, mu in friction.items()
    }
    com, inertia = (0.0, 0.0, 0.0), box_inertia(thing.mass_kg, thing.half_m)
    match thing.shape:
        case "can":
            geoms = f'<geom name="{OBJECT}" type="cylinder" size="{numbers(x, z)}" {felt[OBJECT]}/>'
            inertia = cylinder_inertia(thing.mass_kg, x, z)
        case "tee":
            com, inertia = _tee_mass(thing)
            stem = f"{OBJECT}_stem"
            geoms = (
                f'<geom name="{OBJECT}" type="box" size="{numbers(x, y, z)}" {felt[OBJECT]}/>'
                f'<geom name="{stem}" type="box" pos="{numbers(0, -x, 0)}" size="{numbers(y, x - y, z)}" {felt[stem]}/>'
            )
        case _:
            geoms = f'<geom name="{OBJECT}" type="box" size="{numbers(x, y, z)}" {felt[OBJECT]}/>'
    return f"""<body name="{OBJECT}" pos="{numbers(0.32, 0, z)}">
      <freejoint name="{OBJECT}"/>
      {inertial(values, OBJECT, thing.mass_kg, com, inertia)}
      {geoms}
    </body>"""


def _tee_mass(thing: Instance) -> tuple[tuple[float, float, float], np.ndarray]:
    """Centre of mass and inertia of the bar with its stem, evenly dense."""
    x, y, z = thing.half_m
    bar, stem = 8 * x * y * z, 8 * y * (x - y) * z
    share = stem / (bar + stem)
    low = -x * share
    parts = ((1 - share, (x, y, z), 0.0), (share, (y, x - y, z), -x))
    inertia = np.zeros(3)
    for weight, half, at in parts:
        mass, off = thing.mass_kg * weight, at - low
        inertia += box_inertia(mass, half) + mass * off * off * np.array([1.0, 0.0, 1.0])
    return (0.0, low, 0.0), inertia


def cabinet(values: Values, thing: Instance) -> str:
    """A cabinet on the table whose drawer slides out towards the arm, with a bar to pull."""
    x, y, z = thing.half_m
    wall = 0.008
    handle = thing.more["handle_m"]
    damping = values("joint.drawer.damping", thing.more["damping"])
    loss = values("joint.drawer.frictionloss", thing.more["frictionloss"])
    middle = z + 0.016
    front = 'type="box" material="thing" group="1"'
    board = 'type="box" material="card" group="1"'
    shell = 'type="box" material="wood" group="1"'
    bar = 'type="capsule" size="0.006" material="steel" condim="4" priority="1" group="1"'
    friction = f'friction="{numbers(values("geom.handle.friction_slide", thing.friction), 0.005, 0.0001)}"'
    back, top = 2 * x + 0.03, 2 * z + 0.03
    return f"""<body name="cabinet" pos="{numbers(CABINET_X_M, 0, PLINTH_M)}">
      <geom {shell} pos="{numbers(back / 2, 0, -PLINTH_M / 2)}" size="{numbers(back / 2 - 0.01, y, PLINTH_M / 2)}"/>
      <geom {shell} pos="{numbers(back / 2, y + 0.012, top / 2)}" size="{numbers(back / 2, 0.006, top / 2)}"/>
      <geom {shell} pos="{numbers(back / 2, -y - 0.012, top / 2)}" size="{numbers(back / 2, 0.006, top / 2)}"/>
      <geom {shell} pos="{numbers(back / 2, 0, top + 0.006)}" size="{numbers(back / 2, y + 0.018, 0.006)}"/>
      <geom {shell} pos="{numbers(back, 0, top / 2)}" size="{numbers(0.006, y + 0.018, top / 2)}"/>
      <geom class="trim" type="cylinder" pos="{numbers(back / 2 - 0.02, 0.3 * y, top + 0.05)}" size="0.034 0.038"
        material="ceramic"/>
      <body name="drawer" pos="{numbers(0, 0, middle)}">
        {inertial(values, "drawer", thing.mass_kg, (x, 0, 0), box_inertia(thing.mass_kg, thing.half_m))}
        <joint name="drawer" type="slide" axis="-1 0 0" range="{numbers(0, 1.5 * x)}" damping="{numbers(damping)}"
          frictionloss="{numbers(loss)}"/>
        <geom {front} name="front" pos="{numbers(wall / 2, 0, 0)}" size="{numbers(wall / 2, y, z)}"/>
        <geom {board} pos="{numbers(x, y - wall / 2, -0.2 * z)}" size="{numbers(x, wall / 2, 0.7 * z)}"/>
        <geom {board} pos="{numbers(x, wall / 2 - y, -0.2 * z)}" size="{numbers(x, wall / 2, 0.7 * z)}"/>
        <geom {board} pos="{numbers(x, 0, wall / 2 - z)}" size="{numbers(x, y, wall / 2)}"/>
        <geom {bar} name="handle" fromto="{numbers(-handle, -0.045, 0, -handle, 0.045, 0)}" {friction}/>
        <geom {bar} fromto="{numbers(0, 0.045, 0, -handle, 0.045, 0)}"/>
        <geom {bar} fromto="{numbers(0, -0.045, 0, -handle, -0.045, 0)}"/>
        <site name="handle" pos="{numbers(-handle, 0, 0)}" size="0.003" rgba="0 0 0 0"/>
      </body>
    </body>"""
