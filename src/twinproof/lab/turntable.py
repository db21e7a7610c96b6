"""One practice object alone before a black backdrop, photographed from all around: pictures, poses, and its truth."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from twinproof.lab.models import room, textures, things
from twinproof.lab.models.text import Values, looking_at
from twinproof.lab.population import instance
from twinproof.lab.scan import shaken
from twinproof.nouns.errors import ConfigError
from twinproof.nouns.files import new_folder
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.randomness import stream
from twinproof.sim.render_camera import Camera, Lens
from twinproof.sim.render_rays import Rays
from twinproof.sim.world import World, compile_text

DISTANCE_M, FIELD_RAD = 0.34, 0.5
POSITION_SD_M, TURN_SD_RAD, NOISE_SD = 0.0002, 0.0004, 0.006  # of a calibrated turntable, and of its camera
AMBIENT = 0.6  # light from all sides: no side is as dark as the backdrop
SHAPES = ("box", "cube", "can", "tee")


def turntable(
    name: str, seed: int, out: Path, pictures: int = 40, size: tuple[int, int] = (320, 240), progress: Progress = quiet
) -> None:
    """Writes pictures, a transforms.json and truth.json, the object's shape in the same frame, into a new folder."""
    thing = instance(name)
    if thing.shape not in SHAPES or pictures < 3:
        raise ConfigError(
            f"{pictures} pictures of {name!r}: a turntable takes 3 or more, of one thing ({', '.join(SHAPES)})."
        )
    rng = stream(seed, "lab", name, "turntable")
    world = _alone(name)
    middle = np.array([0.0, -0.5 * thing.half_m[0] if thing.shape == "tee" else 0.0, 0.0])
    focal = size[1] / 2 / np.tan(FIELD_RAD / 2)
    lens, frames = Lens(*size, focal, focal, (size[0] - 1) / 2, (size[1] - 1) / 2), []
    with new_folder(out) as folder:
        for k in range(pictures):
            true = _pose(k, pictures, middle)
            drawn = Rays().render(world.model, world.data, Camera(lens, true), ["rgb"])
            assert drawn.rgb is not None
            file = f"picture_{k:03d}.png"
            (folder / file).write_bytes(textures.png(drawn.rgb + 255 * rng.normal(0, NOISE_SD, drawn.rgb.shape)))
            found = shaken(true, rng, POSITION_SD_M, TURN_SD_RAD) @ np.diag([1.0, -1.0, -1.0, 1.0])
            frames.append({"file_path": file, "transform_matrix": found.tolist()})
            progress(k + 1, file, pictures)
        head = {"fl_x": focal, "fl_y": focal, "cx": size[0] / 2, "cy": size[1] / 2, "w": size[0], "h": size[1]}
        (folder / "transforms.json").write_text(json.dumps({**head, "frames": frames}, indent=1))
        (folder / "truth.json").write_text(json.dumps({"shape": thing.shape, "half_m": thing.half_m}, indent=1))


def _alone(name: str) -> World:
    """The object with its frame at the origin, and lamps; nothing else is there."""
    thing = instance(name)
    look = replace(room.NOMINAL_LOOK, ambient=AMBIENT)
    lamps = '<light pos="0.4 -0.5 1" dir="-0.4 0.5 -1"/><light pos="-0.4 0.5 -1" dir="0.4 -0.5 1"/>'
    parts = {"world": f"{lamps}{things.object_body(Values(), thing)}"}
    world = World(compile_text(room.model_text(name, look, parts, things.object_material(thing)), textures.assets()))
    world.qpos[:] = (0, 0, 0, 1, 0, 0, 0)
    world.forward()
    return world


def _pose(k: int, count: int, middle: np.ndarray) -> np.ndarray:
    """T_world_camera on a spiral from above to below: every side is seen."""
    turn, rise = k * np.pi * (3 - np.sqrt(5)), 0.95 * (1 - (2 * k + 1) / count)
    flat = np.sqrt(1 - rise * rise)
    eye = middle + DISTANCE_M * np.array([flat * np.cos(turn), flat * np.sin(turn), rise])
    return looking_at(eye, middle)
