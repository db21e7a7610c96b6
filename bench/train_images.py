"""Training from pictures: `python -m bench.train_images [--device cuda] [--worlds N] [--pixels W] [RESULT.json]`.

PPO on push of the arm and the cube, seeing 128 × 128 pictures of a fixed camera, drawn from splats at every control
step, and joints; no pose of the cube. The critic knows the state. Counted is everything: physics, observations,
pictures, reward, resets, learning.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mujoco
import numpy as np
import torch
from bench.arm_and_cube import text, thetas
from bench.sections import run_sections
from bench.train_scene import DRAWS, HIDDEN, HOME, RATE_HZ

from twinproof.nouns.randomness import stream
from twinproof.nouns.rig import Intrinsics, Mount
from twinproof.nouns.source import Declared
from twinproof.nouns.splat_files import write_ply
from twinproof.nouns.splats import Splats
from twinproof.nouns.twin import Alignment, Body, Twin, TwinCamera
from twinproof.sim.scene import Scene, engine
from twinproof.tasks import push
from twinproof.tasks.arena import Arena, Play
from twinproof.tasks.eyes import SplatEyes, with_pictures
from twinproof.train.images import Seeing
from twinproof.train.ppo import Ppo, PpoLearner
from twinproof.train.torch_extra import check_device, quiet_torch
from twinproof.train.vec_env import VecEnv

PER_BODY, BACKGROUND = 800, 40_000
PPO = Ppo(rollout=16, kl=0.0, epochs=2, minibatches=8, hidden=HIDDEN)
BAR = 20_000
SAID = Declared("made by the bench")


def seen_twin(folder: Path, pixels: int) -> Twin:
    """The arm and the cube in splats: 800 on each body, 40,000 on the table, under one camera."""
    (folder / "scene.xml").write_text(text())
    model = mujoco.MjModel.from_xml_string(text())
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    rng, groups = stream(0, "bench", "splats"), []
    table = rng.uniform([-0.2, -0.6, -0.02], [0.9, 0.6, 0.0], (BACKGROUND, 3))
    places, colours, scales = [table], [0.35 + 0.3 * rng.random((BACKGROUND, 3))], [np.full(BACKGROUND, 0.006)]
    for body in range(1, model.nbody):
        geoms = [g for g in range(model.ngeom) if int(model.geom_bodyid[g]) == body]
        drawn = [_on_geom(model, data, g, rng, PER_BODY // len(geoms)) for g in geoms]
        count = sum(len(part) for part in drawn)
        groups.append((model.body(body).name, (sum(len(p) for p in places), count)))
        places.append(np.concatenate(drawn))
        red = model.body(body).name == "cube"
        colours.append(
            np.tile([0.9, 0.1, 0.1] if red else [0.2, 0.25, 0.3], (count, 1)) + 0.05 * rng.random((count, 3))
        )
        scales.append(np.full(count, 0.004))
    means, colour, scale = np.concatenate(places), np.concatenate(colours), np.concatenate(scales)
    count = len(means)
    turns, logits = np.tile([1.0, 0, 0, 0], (count, 1)), np.full(count, 4.0)
    logs = np.log(np.repeat(scale[:, None], 3, axis=1))
    harmonics = ((colour - 0.5) / 0.28209479)[:, None]
    write_ply(folder / "splats.ply", Splats(means, turns, logs, logits, harmonics, np.zeros(count, dtype=int)))
    lens = Intrinsics(1.1 * pixels, 1.1 * pixels, (pixels - 1) / 2, (pixels - 1) / 2)
    front = TwinCamera(pixels, pixels, lens, Mount("world", (0.85, -0.3, 0.6), _towards((-0.55, 0.3, -0.55))), SAID)
    bodies = tuple(Body(name, SAID, splats=span, lacks={"mesh": "geoms"}) for name, span in groups)
    return Twin(folder, bodies, Alignment(SAID), engine(), (), {}, cameras={"front": front})


def _towards(way: tuple[float, float, float]) -> tuple[float, float, float, float]:
    """The turn (wxyz) of a camera that looks along a direction, its picture upright."""
    z = np.array(way) / np.linalg.norm(way)
    x = np.cross(z, [0.0, 0.0, 1.0])
    x /= np.linalg.norm(x)
    quat = np.zeros(4)
    mujoco.mju_mat2Quat(quat, np.stack([x, np.cross(z, x), z], axis=1).ravel())
    w, a, b, c = (float(v) for v in quat)
    return w, a, b, c


def _on_geom(model: Any, data: Any, geom: int, rng: np.random.Generator, count: int) -> np.ndarray:
    """Points in the box around a geom, in the world."""
    aabb = model.geom_aabb[geom]
    inside = aabb[:3] + aabb[3:] * rng.uniform(-1, 1, (count, 3))
    found: np.ndarray = data.geom_xpos[geom] + inside @ data.geom_xmat[geom].reshape(3, 3).T
    return found


def learner(device: str, worlds: int, pixels: int, folder: Path) -> PpoLearner:
    twin = seen_twin(folder, pixels)
    eyes = SplatEyes(twin, ("front",), width=pixels)
    scene = Scene(text(), control_delay_s=0.01)
    task = push.of(scene, home=HOME, tip="hand", body="cube", rate_hz=RATE_HZ, relative=True)
    task = with_pictures(task, eyes, tracker=False)
    play = Play(bank=min(DRAWS * 16, 16 * worlds), privileged=True)
    arena = Arena(scene, task, worlds, draws=thetas(DRAWS), play=play, device=device, eyes=eyes)
    return PpoLearner(VecEnv(arena, device), PPO, seed=0, body=Seeing())


def wait(device: str) -> float:
    """The time, when the device has done all that it was given."""
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter()


def pictures(device: str, worlds: int, pixels: int, repeats: int = 3, iterations: int = 4) -> dict[str, Any]:
    """Median over repeats of some iterations, and where the time goes."""
    with TemporaryDirectory() as folder:
        begun = wait(device)
        mine = learner(device, worlds, pixels, Path(folder))
        mine.restart(0)
        mine.iterate()
        mine.iterate()
        ready = wait(device)
        rates, collect, learn = [], 0.0, 0.0
        for _ in range(repeats):
            before = wait(device)
            for _ in range(iterations):
                told = mine.iterate()
                collect, learn = collect + told["collect_s"], learn + told["learn_s"]
            rates.append(iterations * mine.steps / (wait(device) - before))
        backing, eyes = mine.env.arena.backing, mine.env.arena.eyes
        assert eyes is not None
        before = wait(device)
        for _ in range(8):
            shown = eyes.see(backing)["front"]
        frames = 8 * worlds / (wait(device) - before)
        first = shown[0].cpu().numpy() if device != "cpu" else np.asarray(shown[0])
        counted = mine.env.counted()
    return {
        "worlds": worlds,
        "pixels": pixels,
        "splats": f"{BACKGROUND} behind, {PER_BODY} on each body",
        "env_steps_per_s": float(np.median(rates)),
        "of": [round(rate) for rate in rates],
        "bar": BAR,
        "collecting_share": collect / (collect + learn),
        "pictures_alone_per_s": frames,
        "mean_colour": [round(float(c), 1) for c in first.reshape(-1, 3).mean(axis=0)],
        "seconds_to_first_iterations": ready - begun,
        "ended": counted["ended"],
        "diverged": counted["diverged"],
    }


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("result", nargs="?", type=Path)
    asked.add_argument("--device", default="cpu")
    asked.add_argument("--worlds", type=int, nargs="+", default=[1024])
    asked.add_argument("--pixels", type=int, default=128)
    chosen = asked.parse_args()
    check_device(chosen.device)
    result: dict[str, Any] = {"device": torch.cuda.get_device_name() if chosen.device != "cpu" else "cpu"}
    with quiet_torch():
        sections = {
            f"{worlds} worlds": lambda worlds=worlds: pictures(chosen.device, worlds, chosen.pixels)
            for worlds in chosen.worlds
        }
        run_sections(result, sections, chosen.result)


if __name__ == "__main__":
    main()
