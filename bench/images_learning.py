"""What pictures are worth to a policy: `python -m bench.images_learning [RESULT.json]`, about four CPU-minutes.

The task is examples/own_task/hover.py on the arm of the lab's push bench: the tip 12 cm above the object, which lies
elsewhere in every episode. Three students of one expert, with the same rounds, worlds and fit: one sees 64 × 64
pictures of a fixed camera, drawn from splats and changed in light, colour and noise, and no pose; one sees neither; one
sees the pose. Judged in fresh episodes, pictures unchanged.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mujoco
import numpy as np
from bench.train_images import SAID, _on_geom, _towards

from twinproof.lab.benches import bench
from twinproof.lab.models import textures
from twinproof.nouns.randomization import Randomization, Range
from twinproof.nouns.randomness import stream
from twinproof.nouns.rig import Intrinsics, Mount
from twinproof.nouns.splat_files import write_ply
from twinproof.nouns.splats import Splats
from twinproof.nouns.twin import Alignment, Body, Twin, TwinCamera
from twinproof.policies.load import actor_of
from twinproof.randomize.augment import Augment
from twinproof.sim.parameters.resolve import parameter
from twinproof.sim.scene import engine
from twinproof.tasks.arena import Arena, Play
from twinproof.tasks.eyes import SplatEyes, with_pictures
from twinproof.tasks.grasp import columns, kinematics
from twinproof.tasks.script import Lead
from twinproof.tasks.task import TaskSpec
from twinproof.train.imitate import Dagger, DaggerLearner, Fit
from twinproof.train.judge import judge
from twinproof.train.torch_extra import quiet_torch
from twinproof.train.vec_env import VecEnv
from twinproof.train.written import Origin, policy_of

WORLDS, ROUNDS, UPDATES, BATCH, JUDGED, PIXELS = 12, 6, 120, 256, 40, 64
PER_BODY, TABLE = 150, 3000
HOVER = Path(__file__).parents[1] / "examples" / "own_task" / "hover.py"
LIGHT = (("image.brightness", 0.8, 1.2, 1.0), ("image.hue", -0.1, 0.1, 0.0), ("image.noise", 0.0, 0.03, 0.01))


def seen_twin(folder: Path) -> Twin:
    """The lab's nominal arm and a red object in splats, under one camera."""
    named = bench("push")
    text = named.nominal_scene(None, named.plant(0))
    (folder / "scene.xml").write_text(text)
    for file, data in textures.assets().items():
        (folder / file).write_bytes(data)
    model = mujoco.MjModel.from_xml_path(str(folder / "scene.xml"))
    data_ = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data_)
    rng, spans = stream(0, "bench", "looks"), {}
    places = [rng.uniform([-0.1, -0.5, -0.02], [0.8, 0.5, 0.0], (TABLE, 3))]
    colours = [0.4 + 0.1 * rng.random((TABLE, 3))]
    for body in range(1, model.nbody):
        geoms = [g for g in range(model.ngeom) if int(model.geom_bodyid[g]) == body]
        if not geoms:
            continue
        drawn = np.concatenate([_on_geom(model, data_, g, rng, max(20, PER_BODY // len(geoms))) for g in geoms])
        name = model.body(body).name
        spans[name] = (sum(len(part) for part in places), len(drawn))
        places.append(drawn)
        colours.append(np.tile([0.9, 0.1, 0.1] if name == "object" else [0.15, 0.15, 0.2], (len(drawn), 1)))
    means, colour = np.concatenate(places), np.concatenate(colours)
    count = len(means)
    scale = np.where(np.arange(count) < TABLE, 0.012, 0.007)
    logs, turns = np.log(np.repeat(scale[:, None], 3, axis=1)), np.tile([1.0, 0, 0, 0], (count, 1))
    harmonics = ((colour - 0.5) / 0.28209479)[:, None]
    write_ply(
        folder / "splats.ply", Splats(means, turns, logs, np.full(count, 4.0), harmonics, np.zeros(count, dtype=int))
    )
    middle = (PIXELS - 1) / 2
    lens, mount = Intrinsics(70.0, 70.0, middle, middle), Mount("world", (0.8, -0.3, 0.5), _towards((-0.5, 0.3, -0.45)))
    bodies = [model.body(k).name for k in range(1, model.nbody)]
    parts = tuple(
        Body(name, SAID, splats=spans[name], lacks={"mesh": "geoms"})
        if name in spans
        else Body(name, SAID, lacks={"mesh": "geoms", "splats": "nothing to see"})
        for name in bodies
    )
    return Twin(
        folder,
        parts,
        Alignment(SAID),
        engine(),
        (),
        {},
        cameras={"front": TwinCamera(PIXELS, PIXELS, lens, mount, SAID)},
    )


def light() -> Randomization:
    """How pictures are changed while learning."""
    ranges = (Range(parameter(i).info, a, b, p, SAID, "visual", "light", "a look", "a bench") for i, a, b, p in LIGHT)
    return Randomization(tuple(ranges), {"posterior": "9" * 64})


class Hoverer:
    """Brings the tip above the object, whose pose it knows, by the arm's Jacobian."""

    def __init__(self, task: TaskSpec) -> None:
        self.contract, machine = task.deployable, task.machine
        self._solver, self._mine = kinematics(machine, machine.arm()), columns(machine, machine.arm())
        self._lead, self._limits = Lead(machine), machine.limits
        self._most = 0.6 * machine.limits.speed / machine.rate_hz

    def reset(self, count: int, seed: int, which: np.ndarray | None = None) -> None:
        """Nothing to forget."""

    def act(self, seen: Any) -> np.ndarray:
        now, last = (np.asarray(seen[name], dtype=np.float64) for name in ("joint_position", "last_command"))
        goal = np.asarray(seen["object_position"]) + np.array([0.0, 0.0, 0.12])
        wanted = now.copy()
        turn = self._solver.poses(now[:, self._mine])[1]
        wanted[:, self._mine] = self._solver.towards(now[:, self._mine], goal, turn, 0.01, 12)
        told = np.clip(wanted + self._lead(wanted), self._limits.low, self._limits.high)
        step: np.ndarray = np.clip(told - last, -self._most, self._most)
        return step[:, None]


class NoEyes:
    """Sees nothing."""

    names: tuple[str, ...] = ()
    cameras: tuple[str, ...] = ()
    shape = (1, 1, 3)

    def see(self, backing: Any, drawn: Any = None) -> dict[str, Any]:
        return {}


def hover(twin: Twin) -> TaskSpec:
    spec = importlib.util.spec_from_file_location("hover", HOVER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    task: TaskSpec = module.of(twin, home=dict(bench("push").home), relative=True)
    return task


def student(twin: Twin, eyes: Any, tracker: bool, seed: int = 0) -> dict[str, Any]:
    plain = hover(twin)
    task = with_pictures(plain, eyes, tracker=tracker)

    def arena(count: int, seed: int) -> Arena:
        return Arena(twin, task, count, seed=seed, play=Play(bank=256, nthread=1), eyes=eyes)

    begun = time.process_time()
    with quiet_torch():
        dress = Augment(light(), seed) if eyes.names else None
        fit = Fit(updates=UPDATES, batch=BATCH, noise=0.005)
        mine = DaggerLearner(VecEnv(arena(WORLDS, seed), dress=dress), Hoverer(plain), Dagger(fit), seed)
        for k in range(ROUNDS):
            mine.restart(k)
            told = mine.iterate()
    policy = policy_of(mine.trained(), task.deployable, Origin({}))
    judged = judge(arena(JUDGED, seed + 1000), actor_of(policy), 0)
    return {
        "sees": "pictures" if eyes.names else "pose" if tracker else "joints alone",
        "successes": judged.succeeded,
        "episodes": judged.episodes,
        "loss": told["loss/imitation"],
        "rows": told["rows"],
        "cpu_s": time.process_time() - begun,
    }


def main() -> None:
    result: dict[str, Any] = {}
    with TemporaryDirectory() as folder:
        twin = seen_twin(Path(folder))
        task = hover(twin)
        judged = judge(Arena(twin, task, JUDGED, seed=1000, play=Play(nthread=1)), Hoverer(task), 0)
        result["expert"] = f"{judged.succeeded} of {judged.episodes}"
        print("expert", result["expert"], flush=True)
        result["students"] = []
        for eyes, tracker in ((NoEyes(), False), (NoEyes(), True), (SplatEyes(twin, ("front",), width=PIXELS), False)):
            result["students"].append(student(twin, eyes, tracker))
            print(json.dumps(result["students"][-1]), flush=True)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
