"""A hand-held camera walks round a bench: pictures with poses, as a phone and SfM would give them.

The pictures carry a drifting exposure and noise; poses and lens are as true as SfM's would be (a millimetre, a tenth of
a degree). Nothing moves while they are taken.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from twinproof.lab.benches import bench as bench_of
from twinproof.lab.models.room import Look
from twinproof.lab.models.textures import png
from twinproof.lab.population import instance
from twinproof.lab.reality import Reality
from twinproof.nouns.errors import ConfigError
from twinproof.nouns.files import new_folder
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.randomness import stream
from twinproof.sim.render_camera import Camera, Lens
from twinproof.sim.render_rays import Rays

LOOKS_AT_M = np.array([0.32, 0.0, 0.06])  # the middle of the table before the arm
RADIUS_M, HEIGHT_M = (0.65, 0.95), (0.25, 0.75)
FIELD_RAD = 1.0
POSITION_SD_M, TURN_SD_RAD = 0.001, 0.0015
GAIN_SD, NOISE_SD = 0.06, 0.008


def scan(
    name: str, seed: int, out: Path, pictures: int = 40, size: tuple[int, int] = (320, 240), progress: Progress = quiet
) -> None:
    """Writes pictures and a transforms.json into a new folder."""
    bench = bench_of(name)
    if not bench.views:
        raise ConfigError(f"bench {name!r} has nothing to look at. Scan push, drawer or handover.")
    if pictures < 3:
        raise ConfigError(f"{pictures} pictures cannot be a scan. Ask for at least 3.")
    rng = stream(seed, "lab", name, "hand-held scan")
    thing = instance(f"{bench.families[0]}_00") if bench.families else None
    plant = bench.plant(seed)
    reality = Reality(bench, plant, thing, Look.of(plant.seed, "day_0"), frozenset())
    reality.reset(stream(seed, "lab", name, "scan sensors"), stream(seed, "lab", name, "scan scene"))
    focal = size[1] / 2 / np.tan(FIELD_RAD / 2)
    lens = Lens(*size, focal, focal, (size[0] - 1) / 2, (size[1] - 1) / 2)
    gain, frames = np.ones(3), []
    with new_folder(out) as folder:
        for k in range(pictures):
            true = _pose(k / pictures, rng)
            gain = np.exp(0.8 * np.log(gain) + rng.normal(0, GAIN_SD, 3) * [1, 0.8, 1.1])
            drawn = Rays().render(reality.world.model, reality.world.data, Camera(lens, true), ["rgb"])
            assert drawn.rgb is not None
            noisy = drawn.rgb / 255 * gain + rng.normal(0, NOISE_SD, drawn.rgb.shape)
            file = f"picture_{k:03d}.png"
            (folder / file).write_bytes(png(255 * noisy))
            found = shaken(true, rng) @ np.diag([1.0, -1.0, -1.0, 1.0])
            frames.append({"file_path": file, "transform_matrix": found.tolist()})
            progress(k + 1, file, pictures)
        head = {"fl_x": focal, "fl_y": focal, "cx": size[0] / 2, "cy": size[1] / 2, "w": size[0], "h": size[1]}
        (folder / "transforms.json").write_text(json.dumps({**head, "frames": frames}, indent=1))


def _pose(share: float, rng: np.random.Generator) -> np.ndarray:
    """T_world_camera on a walk round the bench: two turns, the second one higher."""
    angle = 4 * np.pi * share + rng.normal(0, 0.05)
    radius, height = rng.uniform(*RADIUS_M), HEIGHT_M[0] + (HEIGHT_M[1] - HEIGHT_M[0]) * share + rng.normal(0, 0.03)
    eye = LOOKS_AT_M + np.array([radius * np.cos(angle), radius * np.sin(angle), height])
    ahead = LOOKS_AT_M + rng.normal(0, 0.05, 3) - eye
    z = ahead / np.linalg.norm(ahead)
    x = np.cross(z, [0.0, 0.0, 1.0])
    x /= np.linalg.norm(x)
    pose = np.eye(4)
    pose[:3] = np.stack([x, np.cross(z, x), z, eye], -1)
    return pose


def shaken(
    pose: np.ndarray, rng: np.random.Generator, position_m: float = POSITION_SD_M, turn_rad: float = TURN_SD_RAD
) -> np.ndarray:
    """A pose as it is found: off by so much, standard deviation in each direction."""
    from scipy.spatial.transform import Rotation

    found = pose.copy()
    found[:3, :3] = pose[:3, :3] @ Rotation.from_rotvec(rng.normal(0, turn_rad, 3)).as_matrix()
    found[:3, 3] += rng.normal(0, position_m, 3)
    return found
