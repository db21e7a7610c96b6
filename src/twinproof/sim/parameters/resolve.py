"""From an id to its parameter and back: what ids mean, and which of them a model has."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING

from twinproof.nouns.errors import SimError
from twinproof.nouns.theta import Theta
from twinproof.sim.parameters.actuators import (
    ActuatorBacklash,
    ActuatorBias,
    ActuatorDelay,
    ActuatorDelayJitter,
    ActuatorForceLimit,
    ActuatorGain,
    ActuatorVelocityGain,
)
from twinproof.sim.parameters.base import Parameter, names, nearest
from twinproof.sim.parameters.beside import (
    AROUND,
    ActuatorNoise,
    Around,
    BodyPush,
    BodyStart,
    JointReadingNoise,
    JointStart,
)
from twinproof.sim.parameters.bodies import COORDINATES, BodyCentre, BodyInertia, BodyMass
from twinproof.sim.parameters.contacts import ContactImpedance, ContactReference, ContactSpring, Friction, Restitution
from twinproof.sim.parameters.geometry import BodyPlace, BodyScale, GeomScale, Gravity, MeshScale
from twinproof.sim.parameters.joints import (
    JointArmature,
    JointDamping,
    JointFriction,
    JointOffset,
    JointRangeOffset,
    JointStiffness,
)
from twinproof.sim.parameters.looks import (
    CameraFieldOfView,
    CameraLens,
    CameraPlace,
    CameraTurn,
    LightDirection,
    LightIntensity,
    LightLevel,
    LightPlace,
    LightSoftness,
)
from twinproof.sim.parameters.sensors import SensorBias, SensorDelay, SensorNoise, SensorQuantum, SignalError
from twinproof.sim.parameters.surfaces import (
    COLOURS,
    GLOSS,
    GeomColour,
    MaterialColour,
    MaterialGloss,
    TextureChoice,
    TextureRepeat,
)

if TYPE_CHECKING:
    from mujoco import MjModel

Maker = Callable[[str], Parameter]


def _contacts(owner: str) -> dict[str, Maker]:
    return {
        **{f"friction_{way}": partial(Friction, owner, direction=way) for way in ("slide", "torsion", "roll")},
        **{f"contact_{e}": partial(ContactReference, owner, entry=e) for e in ("timeconst", "dampratio")},
        **{f"contact_{e}": partial(ContactSpring, owner, entry=e) for e in ("stiffness", "damping")},
        **{f"contact_{e}": partial(ContactImpedance, owner, entry=e) for e in ("dmin", "dmax", "width")},
        "restitution": partial(Restitution, owner),
    }


# kind -> last part of the id -> the parameter of a name
KINDS: dict[str, dict[str, Maker]] = {
    "body": {
        "mass": BodyMass,
        **{f"com_{'xyz'[k]}": partial(BodyCentre, axis=k) for k in range(3)},
        **{f"inertia_{c}": partial(BodyInertia, coordinate=c) for c in COORDINATES},
        **{f"start_{where}": partial(BodyStart, which=where) for where in ("x", "y", "z", "yaw")},
        **{"xyz"[k]: partial(BodyPlace, axis=k) for k in range(3)},
        "push": BodyPush,
        "scale": BodyScale,
        **_contacts("body"),
    },
    "geom": {
        **_contacts("geom"),
        "scale": GeomScale,
        **{colour: partial(GeomColour, colour=colour) for colour in COLOURS},
    },
    "pair": _contacts("pair"),
    "joint": {
        "damping": JointDamping,
        "frictionloss": JointFriction,
        "armature": JointArmature,
        "stiffness": JointStiffness,
        "range_offset": JointRangeOffset,
        "offset": JointOffset,
        "start": JointStart,
        **{f"{what}_noise": partial(JointReadingNoise, which=what) for what in ("position", "velocity", "torque")},
    },
    "actuator": {
        "gain": ActuatorGain,
        "velocity_gain": ActuatorVelocityGain,
        "bias": ActuatorBias,
        "force_limit": ActuatorForceLimit,
        "delay": ActuatorDelay,
        "delay_jitter": ActuatorDelayJitter,
        "backlash": ActuatorBacklash,
        "noise": ActuatorNoise,
    },
    "camera": {
        **{"xyz"[k]: partial(CameraPlace, axis=k) for k in range(3)},
        **{turn: partial(CameraTurn, turn=turn) for turn in ("pitch", "roll", "yaw")},
        "fovy": CameraFieldOfView,
        **{entry: partial(CameraLens, entry=entry) for entry in ("fx", "fy", "cx", "cy")},
    },
    "light": {
        **{"xyz"[k]: partial(LightPlace, axis=k) for k in range(3)},
        **{angle: partial(LightDirection, angle=angle) for angle in ("azimuth", "elevation")},
        **{part: partial(LightLevel, part=part) for part in ("diffuse", "ambient", "specular")},
        "intensity": LightIntensity,
        "softness": LightSoftness,
    },
    "material": {
        **{colour: partial(MaterialColour, colour=colour) for colour in COLOURS},
        **{gloss: partial(MaterialGloss, property_name=gloss) for gloss in GLOSS},
        **{f"texrepeat_{'xy'[k]}": partial(TextureRepeat, axis=k) for k in range(2)},
        "texture": TextureChoice,
    },
    "mesh": {"scale": MeshScale},
    "sensor": {"bias": SensorBias, "noise": SensorNoise, "quantum": SensorQuantum, "delay": SensorDelay},
}
GRAVITY = ("magnitude", "tilt_x", "tilt_y")
SIGNAL = ("delay", "offset_x", "offset_y", "offset_z")  # of a recorded signal, which no model lists
# object.NAME.… are what people say for one thing of the scene; they stand for an id of its body
ALIASES = {"friction": "friction_slide"}


@functools.lru_cache(maxsize=1 << 16)
def parameter(id: str) -> Parameter:
    """The parameter that an id means; whether a model has it is another question."""
    kind, _, rest = id.partition(".")
    name, _, quantity = rest.rpartition(".")
    if kind == "object":
        kind, quantity = "body", ALIASES.get(quantity, quantity)
    if kind == "gravity" and rest in GRAVITY:
        return Gravity(rest)
    if kind == "signal" and name and quantity in SIGNAL:
        return SignalError(name, quantity)
    if kind in AROUND:
        if rest not in AROUND[kind]:
            raise SimError(f"{id!r} is no parameter: {kind} has no {rest!r}. {nearest(rest, AROUND[kind])}")
        return Around(kind, rest)
    if kind not in KINDS:
        raise SimError(
            f"{id!r} is no parameter: it begins with {kind!r}. {nearest(kind, [*KINDS, *AROUND, 'gravity', 'signal'])}"
        )
    if not name or quantity not in KINDS[kind]:
        raise SimError(f"{id!r} is no parameter: a {kind} has no {quantity!r}. {nearest(quantity, KINDS[kind])}")
    return KINDS[kind][quantity](name)


def check_once(ids: Iterable[str]) -> None:
    """No two ids of one Theta mean the same parameter."""
    seen: dict[str, str] = {}
    for id in ids:
        other = seen.setdefault(parameter(id).id, id)
        if other != id:
            raise SimError(f"{other} and {id} are the same parameter, {parameter(id).id}. Give one of them.")


def canonical(theta: Theta) -> Theta:
    """The same values under the parameters' own ids, without aliases."""
    check_once(theta)
    return Theta({parameter(id).id: value for id, value in theta.items()})


def vocabulary(model: MjModel) -> tuple[Parameter, ...]:
    """Every parameter that a model has, in the order of their ids."""
    found = [each for each in _candidates(model) if not each.lacks(model)]
    return tuple(sorted(found, key=lambda each: each.id))


def _candidates(model: MjModel) -> Iterator[Parameter]:
    yield from (Gravity(quantity) for quantity in GRAVITY)
    for kind, makers in KINDS.items():
        for name in filter(None, names(model, kind)):
            yield from (make(name) for make in makers.values())


def matching(model: MjModel, pattern: str) -> tuple[Parameter, ...]:
    """The model's parameters whose ids fit a pattern (joint.*.damping); none at all is an error.

    object.NAME.friction is the slide friction of a body's geoms: one number, or one a geom where they differ.
    """
    if pattern.startswith("object."):
        return _of_objects(model, pattern)
    known = vocabulary(model)
    found = tuple(each for each in known if fnmatchcase(each.id, pattern))
    if not found:
        raise SimError(f"no parameter of the model fits {pattern!r}. {nearest(pattern, [each.id for each in known])}")
    return found


def _of_objects(model: MjModel, pattern: str) -> tuple[Parameter, ...]:
    _, _, rest = pattern.partition(".")
    name, _, quantity = rest.rpartition(".")
    quantity = ALIASES.get(quantity, quantity)
    bodies = [body for body in names(model, "body") if fnmatchcase(body, name)]
    if not bodies or quantity not in KINDS["body"]:
        raise SimError(
            f"no parameter of the model fits {pattern!r}. Write object.NAME.friction, with a body's name: "
            f"{', '.join(filter(None, names(model, 'body')))}."
        )
    found = list[Parameter]()
    for body in bodies:
        whole = parameter(f"body.{body}.{quantity}")
        if not whole.lacks(model):
            found.append(whole)
        elif quantity in KINDS["geom"]:
            geoms = names(model, "geom")
            first, count = int(model.body(body).geomadr[0]), int(model.body(body).geomnum[0])
            found += [parameter(f"geom.{geom}.{quantity}") for geom in geoms[first : first + count]]
    return tuple(found)


def nominal_value(model: MjModel, parameter: Parameter) -> float:
    """The parameter's value in a compiled model."""
    if missing := parameter.lacks(model):
        raise SimError(f"{parameter.id}: {missing}.")
    return parameter.read(model)
