"""Episodes of the lab's push bench as joint refinement gets them: clips, joint angles, a measured model, plates.

Cameras are the true ones with the error that calibration leaves (2 mm, 0.2°, clock 2 ms), joint offsets too (0.15°
each, about 2 mm at the tool). The object's shape is the calliper's (1 mm), mass and friction are the family's mean.
The truth is kept apart, for scoring alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import trimesh
from scipy.ndimage import binary_dilation

from twinproof.lab.benches import bench as bench_of
from twinproof.lab.cameras import Film, schedule
from twinproof.lab.effects import chosen
from twinproof.lab.models import textures
from twinproof.lab.models.room import Look
from twinproof.lab.models.text import rotation
from twinproof.lab.population import Instance, measured
from twinproof.lab.reality import Reality
from twinproof.lab.take import play, takes
from twinproof.nouns.clip import Clip
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.randomness import stream
from twinproof.nouns.rig import Intrinsics
from twinproof.sim.render_camera import Camera, Lens
from twinproof.sim.render_rays import Rays
from twinproof.sim.world import World, compile_text

CAMERA_SD_M, CAMERA_SD_RAD, CLOCK_SD_S, OFFSET_SD_RAD = 0.002, np.radians(0.2), 0.002, np.radians(0.15)
FIXED = ("front", "left", "right")
AWAY_M = (-3.0, -3.0, 0.1)


@dataclass(frozen=True, eq=False)
class Truth:
    """What only the scoring knows."""

    time_s: np.ndarray
    T_world_object: np.ndarray
    mesh: Mesh
    mass_kg: float
    friction: float
    cameras: dict[str, np.ndarray]

    def poses(self, time_s: np.ndarray) -> np.ndarray:
        """The nearest physics step's pose at each time."""
        at = np.clip(
            np.rint(np.asarray(time_s) / (self.time_s[1] - self.time_s[0])).astype(int), 0, len(self.time_s) - 1
        )
        poses: np.ndarray = self.T_world_object[at]
        return poses


@dataclass(frozen=True, eq=False)
class Filmed:
    """One episode."""

    name: str
    clips: tuple[Clip, ...]
    plates: dict[str, np.ndarray]
    xml: str
    assets: dict[str, bytes]
    joints: tuple[str, ...]
    joint_time_s: np.ndarray
    joint: np.ndarray  # encoder angles less the calibrated offsets
    torque: np.ndarray  # as the motors report them
    command_time_s: np.ndarray
    command: np.ndarray
    mesh: Mesh  # as measured
    rgb: tuple[float, float, float]
    truth: Truth


def filmed(seed: int, number: int, behaviours: tuple[str, ...] = ("push",), size: tuple[int, int] = (160, 120),
           effects: str = "all") -> Filmed:  # fmt: skip
    """Plays one take of the push bench and films it with three cameras."""
    bench = bench_of("push")
    plant = bench.plant(seed)
    take = takes(bench, number + 1, seed, behaviours, False)[number]
    active = chosen(effects, bench)
    played = play(bench, plant, take, active, seed)
    thing = played.thing
    assert thing is not None
    path = ("lab", bench.name, f"episode{take.number}")
    rng = stream(seed, "bench", "couple", f"episode{number}")
    left = stream(seed, "bench", "couple", "calibration")
    believed = measured(thing)
    xml = bench.nominal_scene(believed, plant)
    offset = played.reality.offset + left.normal(0, OFFSET_SD_RAD, len(bench.joints)) * ~played.reality._slides
    log = played.reality.log
    sensed = np.array(log.sensor_step) * played.reality.dt
    joint = np.stack(log.position) - offset
    empty = Reality(bench, plant, thing, Look.of(plant.seed, take.session), active)
    empty.reset(stream(seed, *path, "sensors"), stream(seed, *path, "scene"))
    # calibration sees the robot: its frame is that of the base as it stands, on a table that sags a millimetre
    to_base = base_frame(played.reality)
    clips, plates, cameras = [], {}, {}
    for camera in plant.cameras:
        if camera.name not in FIXED:
            continue
        span_s = (len(log.qpos) - 1) * played.reality.dt
        shots = schedule(camera, bench.camera_hz, span_s, stream(seed, *path, camera.name, "shots"))
        film = Film(played.reality, camera, size, path, seed)
        rgb = np.stack(list(film.roll(shots)))
        fixed = to_base @ camera.T_true
        wrong = fixed.copy()
        wrong[:3, 3] += left.normal(0, CAMERA_SD_M / np.sqrt(3), 3)
        wrong[:3, :3] = wrong[:3, :3] @ rotation(left.normal(0, CAMERA_SD_RAD / np.sqrt(3), 3))
        time_s = shots.true_s + camera.readout_s / 2 + left.normal(0, CLOCK_SD_S)
        lens = camera.lens(size, true=True)
        clip = Clip(camera.name, time_s, rgb, lens, np.tile(wrong, (len(rgb), 1, 1)))
        clips.append(clip)
        cameras[camera.name] = fixed
        plates[camera.name] = _plate(empty, camera, size, path, seed, rng)
    drawn = robot_masks(xml, textures.assets(), bench.joints, sensed, joint, tuple(clips))
    clips = [replace(clip, robot=mask) for clip, mask in zip(clips, drawn, strict=True)]
    commands = np.stack(log.command) - offset
    return Filmed(
        f"{thing.name} {take.behaviour} seed {seed}", tuple(clips), plates, xml, textures.assets(), bench.joints,
        sensed, joint, np.stack(log.torque), np.array(log.command_step) * played.reality.dt, commands,
        mesh_of(believed), thing.rgb,
        _truth(played.reality, thing, cameras, to_base),
    )  # fmt: skip


def _plate(reality: Reality, camera: object, size: tuple[int, int], path: tuple[str, ...], seed: int,
           rng: np.random.Generator) -> np.ndarray:  # fmt: skip
    """The mean of eight pictures of the table before the object was put on it, the arm folded away."""
    home = reality.world.qpos.copy()
    reality.world.set_joint("object", np.array([*AWAY_M, 1, 0, 0, 0]))
    reality.world.forward()
    reality.log.qpos[:] = [reality.world.qpos.copy()]
    film = Film(reality, camera, size, (*path, "plate"), seed)
    pictures = [film.picture(0.0, int(k)) for k in rng.integers(1_000_000, size=8)]
    reality.world.qpos[:] = home
    mean: np.ndarray = np.mean(pictures, axis=0, dtype=np.float32) / np.float32(255)
    return mean


def robot_masks(xml: str, assets: dict[str, bytes], joints: tuple[str, ...], time_s: np.ndarray, joint: np.ndarray,
                clips: tuple[Clip, ...], grow_px: int = 2) -> list[np.ndarray]:  # fmt: skip
    """Where the model's robot is in each picture, a little wider; and where it was when the plates were taken."""
    world = World(compile_text(xml, assets))
    names = [world.model.body(k).name for k in range(world.model.nbody)]
    base = names.index("base")
    robot = [k for k in range(world.model.nbody) if _below(world.model, k, base)]
    q, _ = world.joint_indices(joints)
    mirror = world.joint_slices(f"{joints[-1]}_mirror")[0]
    world.set_joint("object", np.array([*AWAY_M, 1, 0, 0, 0]))
    made = []
    with Rays(threads=1).on(world.model) as studio:
        for clip in clips:
            lens = clip.intrinsics
            view = Camera(Lens(*clip.size, lens.fx, lens.fy, lens.cx, lens.cy), clip.T_world_camera[0])
            masks = []
            for t in np.r_[0.0, clip.time_s]:
                angles = [np.interp(t, time_s, column) for column in joint.T]
                world.qpos[q], world.qpos[mirror] = angles, angles[-1]
                world.kinematics()
                seen = studio.render(world.data, view, ("segmentation",))
                masks.append(binary_dilation(np.isin(seen.body, robot), iterations=grow_px))
            made.append(np.stack(masks[1:]) | masks[0])
    return made


def _below(model: object, body: int, base: int) -> bool:
    while body and body != base:
        body = int(model.body_parentid[body])
    return body == base


def mesh_of(thing: Instance) -> Mesh:
    """The shape of a thing: one closed mesh."""
    x, y, z = thing.half_m
    match thing.shape:
        case "can":
            made = trimesh.creation.cylinder(x, 2 * z, sections=48)
        case "tee":
            bar = trimesh.creation.box((2 * x, 2 * y, 2 * z))
            stem = trimesh.creation.box((2 * y, 2 * (x - y) + 2e-4, 2 * z))
            stem.apply_translation((0, -x + 1e-4, 0))
            made = trimesh.boolean.union([bar, stem], engine="manifold")
        case _:
            made = trimesh.creation.box((2 * x, 2 * y, 2 * z))
    return Mesh(np.array(made.vertices), np.array(made.faces))


def base_frame(reality: Reality) -> np.ndarray:
    """What brings the world into the frame in which the robot's base stands where the model says, before all moves."""
    scratch = World(reality.world.model)
    stands = scratch.body_pose("base")
    scratch.qpos[:] = reality.log.qpos[0]
    scratch.kinematics()
    return stands @ np.linalg.inv(scratch.body_pose("base"))


def _truth(reality: Reality, thing: Instance, cameras: dict[str, np.ndarray], to_base: np.ndarray) -> Truth:
    scratch = World(reality.world.model)
    poses = np.empty((len(reality.log.qpos), 4, 4))
    for k, qpos in enumerate(reality.log.qpos):
        scratch.qpos[:] = qpos
        scratch.kinematics()
        poses[k] = to_base @ scratch.body_pose("object")
    time_s = np.arange(len(poses)) * reality.dt
    return Truth(time_s, poses, mesh_of(thing), thing.mass_kg, thing.friction, cameras)


def intrinsics_of(clip: Clip) -> Intrinsics:
    """The clip's."""
    return clip.intrinsics
