"""A small twin that shows every mistake of frame, scale and colour: no two of its sides look alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from twinproof.nouns.mesh import Mesh
from twinproof.nouns.mesh_files import write_mesh
from twinproof.nouns.pictures import png_bytes
from twinproof.nouns.randomness import stream
from twinproof.nouns.source import Declared, Measured
from twinproof.nouns.splat_files import write_ply
from twinproof.nouns.splats import SH0, Splats, joined
from twinproof.nouns.twin import Alignment, Body, CollisionPart, Twin
from twinproof.sim.anatomy import anatomy
from twinproof.sim.painted import surfaces
from twinproof.sim.render_camera import Camera, Lens
from twinproof.sim.scene import Scene
from twinproof.sim.surface import Surface, display, moved
from twinproof.sim.unlit import albedo

SCENE = """<mujoco model="probe">
 <compiler meshdir="meshes" texturedir="meshes" autolimits="true"/>
 <visual><headlight ambient="1 1 1" diffuse="0 0 0" specular="0 0 0"/></visual>
 <asset>
  <mesh name="wedge" file="wedge.obj"/>
  <texture name="flag" type="2d" file="flag.png"/><material name="flag" texture="flag" specular="0"/>
  <texture name="cube" type="cube" builtin="flat" mark="edge" rgb1="0.9 0.6 0.1" rgb2="0.1 0.2 0.6" markrgb="0 0 0"
   width="16" height="96"/><material name="cube" texture="cube" specular="0"/>
 </asset>
 <worldbody>
  <geom name="table" type="plane" size="0.3 0.25 0.1" pos="0 0 0" material="flag" friction="0.7 0.01 0.0002"/>
  <body name="probe" pos="0.05 -0.04 0.07" quat="0.9 0.1 0.3 0.2"><freejoint name="probe_free"/>
   <geom name="core" type="box" size="0.02 0.02 0.02" rgba="0.5 0.5 0.5 1"/>
   <geom name="x_arm" type="box" pos="0.05 0 0" size="0.03 0.008 0.006" rgba="0.9 0.1 0.1 1"/>
   <geom name="y_arm" type="capsule" pos="0 0.04 0" euler="90 0 0" size="0.007 0.02" rgba="0.1 0.8 0.1 1"/>
   <geom name="z_arm" type="cylinder" pos="0 0 0.05" size="0.006 0.03" rgba="0.15 0.2 0.95 1"/>
   <geom name="face" type="box" pos="-0.03 0 0" size="0.01 0.02 0.015" material="cube"/></body>
  <body name="wedge" pos="-0.1 0.08 0" quat="0.98 0 0 0.2"><freejoint name="wedge_free"/>
   <geom name="wedge" type="mesh" mesh="wedge" mass="0.3"/></body>
  <body name="base" pos="0 0.15 0.02"><geom name="base" type="cylinder" size="0.03 0.02" mass="1" rgba="0.3 0.3 0.3 1"/>
   <body name="arm" pos="0.02 0 0.03" euler="0 0 30">
    <joint name="hinge" type="hinge" axis="0 1 0" pos="0 0 -0.01" range="-60 80" damping="0.2" frictionloss="0.1"
     armature="0.01"/>
    <geom name="arm" type="box" pos="0.05 0 0" size="0.05 0.01 0.01" mass="0.4" rgba="0.8 0.5 0.1 1"/>
    <body name="slider" pos="0.1 0 0"><joint name="slide" type="slide" axis="1 0 0" range="-0.02 0.05" ref="0.01"/>
     <geom name="slider" type="sphere" size="0.012" mass="0.1" rgba="0.6 0.1 0.6 1"/></body>
    <body name="mirror" pos="0.1 0 0.03"><joint name="follower" type="slide" axis="0 0 1"/>
     <geom name="mirror" type="ellipsoid" size="0.012 0.008 0.006" mass="0.1" rgba="0.1 0.6 0.6 1"/></body>
   </body></body>
 </worldbody>
 <equality><joint joint1="follower" joint2="slide" polycoef="0 0.5 0 0 0"/></equality>
 <actuator><position name="turn" joint="hinge" kp="30" kv="2" forcerange="-5 5"/></actuator>
 <sensor><jointpos joint="hinge"/></sensor>
</mujoco>
"""
FLAG = np.repeat(np.repeat(np.array(
    [[(220, 30, 30), (30, 200, 30), (240, 240, 240)], [(30, 60, 220), (128, 128, 128), (20, 20, 20)]], np.uint8
), 8, axis=0), 8, axis=1)  # fmt: skip
CORNERS = np.array([(0, 0, 0), (0.08, 0, 0), (0.08, 0.05, 0), (0, 0.05, 0), (0, 0, 0.04), (0, 0.05, 0.04)])
WEDGE = np.array([(0, 2, 1), (0, 3, 2), (0, 1, 4), (2, 3, 5), (1, 2, 5), (1, 5, 4), (0, 4, 5), (0, 5, 3)])


def seen(width: int = 120, height: int = 90) -> Camera:
    """A camera above the table's edge that looks at the middle."""
    eye, at = np.array([0.28, -0.3, 0.32]), np.array([0.0, 0.05, 0.03])
    ahead = (at - eye) / np.linalg.norm(at - eye)
    right = np.cross(ahead, (0, 0, 1))
    right /= np.linalg.norm(right)
    T = np.eye(4)
    T[:3, :3] = np.stack([right, np.cross(ahead, right), ahead], axis=1)
    T[:3, 3] = eye
    return Camera(Lens(width, height, 1.1 * width, 1.1 * width, (width - 1) / 2, (height - 1) / 2), T)


def splats_on(shown: list[Surface], name: str, apart_m: float = 0.0025) -> Splats:
    """Thin splats scattered over surfaces that stand in the world, with their colours."""
    rng = stream(0, "probe", name)
    places, colours, normals = list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()
    for each in shown:
        corners = each.mesh.vertices[each.mesh.faces]
        normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        area = np.linalg.norm(normal, axis=1) / 2
        count = int(2.5 * area.sum() / apart_m**2) + 1
        face, share = rng.choice(len(area), count, p=area / area.sum()), rng.dirichlet((1, 1, 1), count)
        places.append(np.einsum("nc,ncd->nd", share, corners[face]))
        colours.append(display(albedo(each, face, share)))
        normals.append(normal[face] / (2 * area[face, None]))
    p, c, n = (np.concatenate(rows) for rows in (places, colours, normals))
    half = np.concatenate([1 + n[:, 2:], -n[:, 1:2], n[:, :1], np.zeros((len(n), 1))], axis=1)  # turns z to the normal
    half[half[:, 0] < 1e-6] = (0, 1, 0, 0)
    sh = np.zeros((len(p), 4, 3))
    sh[:, 0] = (c - 0.5) / SH0
    sh[:, 1] = 0.03  # a little of the first degree: it must turn with its splats
    scale = np.log([apart_m, apart_m, apart_m / 10])
    return Splats(p, half, np.tile(scale, (len(p), 1)), np.full(len(p), 4.0), sh, np.zeros(len(p), int), (name,))


def write_probe(root: Path, *, splats: bool = True, scene: str = SCENE) -> Twin:
    """The probe as a Twin in a new folder."""
    (root / "meshes").mkdir(parents=True)
    (root / "scene.xml").write_text(scene)
    (root / "meshes" / "flag.png").write_bytes(png_bytes(FLAG))
    shade = np.array([(0.9, 0.2, 0.2), (0.2, 0.9, 0.2), (0.2, 0.2, 0.9), (0.9, 0.9, 0.2), (0.5, 0.5, 0.5), (1, 1, 1)])
    wedge = Mesh(CORNERS, WEDGE, shade)
    write_mesh(root / "meshes" / "wedge.obj", wedge)
    made = Scene.read(root / "scene.xml")
    whole, runs, parts, first = anatomy(made), dict[str, tuple[int, int]](), list[Splats](), 0
    if splats:
        for link in whole.links:
            shown = [moved(each, link.T_world_link) for each in surfaces(made) if each.link == link.name]
            if shown:
                name = "room" if link.name == "world" else link.name
                parts.append(splats_on(shown, name, 0.006 if name == "room" else 0.0025))
                runs[name], first = (first, len(parts[-1])), first + len(parts[-1])
        write_ply(root / "splats.ply", joined(parts))
    bare = {"mesh": "geoms", "splats": "none were fitted"}
    bodies = [
        Body(
            link.name, Measured("planted"), splats=runs.get(link.name), lacks=bare,
            visual="meshes/wedge.obj" if link.name == "wedge" else None,
            collision=(CollisionPart("meshes/wedge.obj", wedge.volume_m3),) if link.name == "wedge" else (),
        )
        for link in whole.links[1:]
    ]  # fmt: skip
    if splats:
        bodies.append(Body("room", Declared("planted"), "background", splats=runs["room"], lacks=bare))
    return Twin(root, tuple(bodies), Alignment(Measured("tag")), "mujoco 3.17.0", ("e1",), {"split": "5" * 64})


def psnr(picture: np.ndarray, truth: np.ndarray) -> float:
    """In dB; pictures in 0 … 1."""
    return float(-10 * np.log10(np.mean((picture - truth) ** 2) + 1e-12))
