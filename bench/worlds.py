"""How fast many worlds step, beside bare MuJoCo and gymnasium: `python -m bench.worlds [RESULT.json]`.

All contenders do the same: 256 worlds of an arm and a cube, each with its own physics, a control for ten physics steps,
joint and cube readings afterwards. They take turns, so that a busy machine slows all, and the best of each counts.
gymnasium is needed for the comparison with it alone: `pip install gymnasium`.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from bench.arm_and_cube import SUBSTEPS, scene, text, thetas
from mujoco import rollout
from mujoco.batch import Batch

from twinproof.nouns.randomness import stream
from twinproof.sim.instantiate import poke_model, poke_worlds
from twinproof.sim.touch import TouchSensors, with_touch
from twinproof.sim.worlds import Worlds

WORLDS, THREADS, CONTROLS, ROUNDS = 256, 2, 40, 7
STATE = mujoco.mjtState.mjSTATE_FULLPHYSICS
# gymnasium and bare stepping leave sensors one physics step behind the state; ours do so when asked
OURS = {True: "twinproof Worlds", False: "twinproof Worlds, sensors a step behind"}
GYM = (("Sync", WORLDS), ("Async", THREADS), ("Async", 16))


def controls(worlds: int, count: int = CONTROLS) -> np.ndarray:
    """Servo targets (controls, worlds, 8): an arm that reaches about, with fingers half open."""
    rng = stream(0, "bench", "controls")
    drawn = np.cumsum(rng.normal(0, 0.05, (count, worlds, 8)), axis=0)
    drawn[..., 6:] = 0.02
    return drawn


@dataclass(frozen=True)
class Contender:
    """A way to advance its worlds: `again` starts them afresh, `run` takes all controls."""

    name: str
    worlds: int
    again: Callable[[], None]
    run: Callable[[], None]
    children: Callable[[], float] = lambda: 0.0  # CPU seconds of other processes
    close: Callable[[], None] = lambda: None


def ours(current: bool) -> Contender:
    worlds, sent = Worlds(scene(), thetas(WORLDS), current=current, nthread=THREADS), controls(WORLDS)

    def run() -> None:
        for control in sent:
            worlds.step(control, SUBSTEPS)
            _ = worlds.qpos, worlds.sensordata

    return Contender(OURS[current], WORLDS, worlds.reset, run)


def bare_batch(settled: bool) -> Contender:
    """mujoco.batch alone. Unsettled it is the text as MuJoCo compiles it, with the same fields written by hand."""
    model = scene().compile() if settled else mujoco.MjModel.from_xml_string(_with_history(text()))
    batch, sent = Batch(model, WORLDS, THREADS), controls(WORLDS)
    fields = poke_worlds(scene().nominal(), thetas(WORLDS))
    for name in fields:
        batch.expand(name)[...] = fields[name]
    batch.set_const()
    ctrl, qpos, sensors = batch.bind("ctrl"), batch.bind("qpos"), batch.bind("sensordata")

    def run() -> None:
        for control in sent:
            ctrl[...] = control
            batch.step(nstep=SUBSTEPS)
            _ = qpos, sensors

    return Contender(f"mujoco.batch, {'settled' if settled else 'plain'} model", WORLDS, batch.reset, run)


def _with_history(xml: str) -> str:
    return xml.replace("<position name", '<position delay="0" nsample="5" name')


def bare_rollout() -> Contender:
    """mujoco.rollout with a model for each world, one call a control."""
    models = [poke_model(scene().nominal(), theta) for theta in thetas(WORLDS)]
    data = [mujoco.MjData(models[0]) for _ in range(THREADS)]
    sent = controls(WORLDS)
    first = np.empty(mujoco.mj_stateSize(models[0], STATE))
    mujoco.mj_getState(models[0], data[0], first, STATE)
    pool = rollout.Rollout(nthread=THREADS)

    def run() -> None:
        state = np.tile(first, (WORLDS, 1))
        warmstart = None
        for control in sent:
            held = np.repeat(control[:, None], SUBSTEPS, axis=1)
            states, _ = pool.rollout(models, data, state, held, initial_warmstart=warmstart)
            state = states[:, -1]

    return Contender("mujoco.rollout", WORLDS, lambda: None, run)


TOUCH = (("cube", "table"), ("left_finger", "cube"), ("right_finger", "cube"))


def environment(substeps: int, current: bool) -> Contender:
    """A whole environment step: noisy readings, contact forces, a reward and an end, after the physics."""
    worlds = Worlds(scene(), thetas(WORLDS), touch=TOUCH, substeps=substeps, current=current, nthread=THREADS)
    sent, hand, cube = controls(WORLDS), worlds.model.body("hand").id, worlds.model.body("cube").id

    def run() -> None:
        for control in sent:
            worlds.step(control)
            contacts = worlds.contacts()
            _ = np.concatenate([worlds.measure(), contacts.force_n], axis=1).astype(np.float32)
            _ = -np.linalg.norm(worlds.xpos[:, hand] - worlds.xpos[:, cube], axis=1), worlds.diverged

    return Contender(OURS[current], WORLDS, worlds.reset, run)


def gym_environment(substeps: int) -> Any:
    """The same for one world, as people write them for gymnasium."""
    import gymnasium

    touched = with_touch(scene(), TOUCH)

    class ArmAndCube(gymnasium.Env):  # type: ignore[misc]
        def __init__(self, index: int) -> None:
            self.model = poke_model(touched.nominal(), thetas(index + 1)[index])
            self.data = mujoco.MjData(self.model)
            self.touch = TouchSensors(self.model, TOUCH).address[:, None] + np.arange(1, 4)
            self.noise = np.repeat(self.model.sensor_noise, self.model.sensor_dim)
            self.rng = np.random.default_rng(index)
            self.hand, self.cube = self.model.body("hand").id, self.model.body("cube").id
            size = self.model.nsensordata + len(TOUCH)
            self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float32)
            self.action_space = gymnasium.spaces.Box(-3, 3, (self.model.nu,), np.float64)

        def _observe(self) -> np.ndarray:
            sensors = self.data.sensordata
            measured = sensors + self.noise * self.rng.standard_normal(len(sensors))
            force = np.linalg.norm(sensors[self.touch], axis=1)
            return np.concatenate([measured, force]).astype(np.float32)

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
            super().reset(seed=seed)
            mujoco.mj_resetData(self.model, self.data)
            mujoco.mj_forward(self.model, self.data)
            return self._observe(), {}

        def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
            self.data.ctrl[:] = action
            mujoco.mj_step(self.model, self.data, substeps)
            reward = -float(np.linalg.norm(self.data.xpos[self.hand] - self.data.xpos[self.cube]))
            bad = not (np.isfinite(self.data.qpos).all() and np.abs(self.data.qvel).max() < 1e5)
            return self._observe(), reward, bad, False, {}

    return ArmAndCube


def gym_vector(kind: str, worlds: int, substeps: int) -> Contender:
    import gymnasium

    Environment, sent = gym_environment(substeps), controls(worlds)
    make = [lambda index=index: Environment(index) for index in range(worlds)]
    if kind == "Sync":
        vector: Any = gymnasium.vector.SyncVectorEnv(make, copy=False)
    else:
        vector = gymnasium.vector.AsyncVectorEnv(make, shared_memory=True, copy=False)

    def run() -> None:
        for _ in range(WORLDS // worlds):  # as many environment steps as all others
            for control in sent:
                vector.step(control)

    def children() -> float:
        ticks = os.sysconf("SC_CLK_TCK")
        pids = [process.pid for process in getattr(vector, "processes", ())]
        stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
        return sum(int(stat[11]) + int(stat[12]) for stat in stats) / ticks

    return Contender(f"gymnasium {kind}VectorEnv, {worlds} worlds", worlds, vector.reset, run, children, vector.close)


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(contenders: list[Contender], rounds: int = ROUNDS) -> dict[str, dict[str, float]]:
    """For each contender its best controls (of all worlds) per second and per CPU second, the contenders in turns."""
    best = {each.name: {"per_s": 0.0, "per_cpu_s": 0.0} for each in contenders}
    for _ in range(rounds):
        for each in contenders:
            each.again()
            wall, cpu, other = time.perf_counter(), cpu_s(), each.children()
            each.run()
            wall, cpu = time.perf_counter() - wall, cpu_s() - cpu + each.children() - other
            steps = WORLDS * CONTROLS
            found = best[each.name]
            found["per_s"], found["per_cpu_s"] = max(found["per_s"], steps / wall), max(found["per_cpu_s"], steps / cpu)
    return best


def scaling() -> dict[int, float]:
    """Microseconds of wall time for a world's physics step, by the number of worlds."""
    found = {}
    for count in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096):
        worlds = Worlds(scene(), thetas(count), nthread=THREADS)
        repeats = max(3, min(200, 4096 // count))
        sent = controls(count, 10)
        best = np.inf
        for _ in range(3):
            worlds.reset()
            begun = time.perf_counter()
            for k in range(repeats):
                worlds.step(sent[k % 10], SUBSTEPS)
            best = min(best, (time.perf_counter() - begun) / (repeats * SUBSTEPS * count))
        found[count] = best * 1e6
    return found


def _show(found: dict[str, dict[str, float]], key: str, factor: int, what: str) -> None:
    mine, behind = (found[name][key] for name in OURS.values())
    for name, rates in found.items():
        ratios = f"ours / this {mine / rates[key]:5.2f}, a step behind {behind / rates[key]:5.2f}"
        print(f"  {name:<42} {factor * rates[key]:>10,.0f} {what}   {ratios}")


def main() -> None:
    result: dict[str, Any] = {"worlds": WORLDS, "threads": THREADS, "substeps": SUBSTEPS, "mujoco": mujoco.__version__}
    result["bare"] = measure([ours(True), ours(False), bare_batch(True), bare_batch(False), bare_rollout()])
    print(f"bare stepping: {WORLDS} worlds, {THREADS} cores, {SUBSTEPS} physics steps a control")
    _show(result["bare"], "per_s", SUBSTEPS, "physics steps per second")
    _show(result["bare"], "per_cpu_s", SUBSTEPS, "physics steps per CPU second")
    result["gymnasium"] = {}
    for substeps in (1, 2, 5, 10):
        contenders = [environment(substeps, True), environment(substeps, False)]
        contenders += [gym_vector(*kind, substeps) for kind in GYM]
        found = result["gymnasium"][substeps] = measure(contenders, 4)
        for each in contenders:
            each.close()
        others = [name for name in found if name.startswith("gym")]
        better = max(others, key=lambda name: found[name]["per_cpu_s"])
        print(f"environments of {substeps} physics steps a control (the better of gymnasium's: {better})")
        _show(found, "per_cpu_s", 1, "environment steps per CPU second")
    result["us_per_world_step"] = scaling()
    for count, cost in result["us_per_world_step"].items():
        print(f"{count:>6} worlds  {cost:7.2f} µs per world and physics step")
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
