"""`twinproof compare` on the lab: a plant against its nominal twin's replay, and its speed: `python -m bench.compare`.

The lab plays the robot. Its commands are played again in the nominal twin from the same start, joint by joint and
object by object; both recordings are compared as a user would. The hidden truth scores what the comparison says: the
delay of the commands, when a cube was grasped, lifted and put down.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from twinproof.evaluate.compare import Comparison, Protocol, compare
from twinproof.evaluate.page import write_report
from twinproof.evaluate.pairing import Pairing
from twinproof.evaluate.tips import tips_of
from twinproof.ingest.read import ingest
from twinproof.lab.record import Options, record
from twinproof.nouns.episode import Episode
from twinproof.nouns.randomness import stream
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Arm, Joint, Rig, read_rig
from twinproof.nouns.signal import Column, Signal
from twinproof.sim.scene import Scene
from twinproof.sim.world import World

RATE_HZ = 100
SETTLE_S = 0.4
KNOWN = {"left_grasp": ("left", "grasp"), "pick_up": ("object_pose", "lift"), "right_grasp": ("right", "grasp"),
         "release": ("left", "release"), "place": ("object_pose", "place")}  # fmt: skip  # truth's name -> ours


def replayed(episode: Episode, scene: Scene) -> Episode:
    """The commands of an episode in a model of the scene, from the episode's start, read out at 100 Hz."""
    world = World(scene)
    state, command, pose = (episode.signals[name] for name in ("state", "command", "object_pose"))
    names = tuple(column.name for column in state.columns)
    for name, value in zip(names, state.value[0], strict=True):
        world.set_joint(name, value)
    world.set_joint("object", pose.value[0])
    order = [[column.name for column in command.columns].index(name) for name in world.actuators]
    world.forward()
    world.ctrl[:] = command.value[0][order]
    world.step(round(SETTLE_S / world.timestep_s))
    every, steps = round(1 / (RATE_HZ * world.timestep_s)), int(state.time_s[-1] * RATE_HZ)
    qpos, _ = world.joint_indices(names)
    joints, objects = [world.qpos[qpos].copy()], [world.qpos[world.joint_slices("object")[0]].copy()]
    for k in range(steps):
        now = int(np.searchsorted(command.time_s, k / RATE_HZ + 1e-9, side="right")) - 1
        world.ctrl[:] = command.value[max(now, 0)][order]
        world.step(every)
        joints.append(world.qpos[qpos].copy())
        objects.append(world.qpos[world.joint_slices("object")[0]].copy())
    time_s = np.arange(steps + 1) / RATE_HZ
    signals = {
        "state": replace(state, time_s=time_s, value=np.array(joints), missing=None, log_time_s=None),
        "object_pose": replace(pose, time_s=time_s, value=np.array(objects), missing=None, log_time_s=None),
        "command": replace(command, log_time_s=None),
    }
    return Episode.of(signals, {}, labels=dict(episode.labels), start_ns=episode.start_ns, source=episode.source)


def lab_pair(folder: Path, plant: int, episodes: int) -> tuple[Recording, Recording, Rig, dict]:
    """A recording of a plant, the nominal twin's replay of it, the rig, and the hidden truth."""
    how = Options(to="mcap", images=False, tracker="mocap", plant=plant)
    record("handover", episodes, plant, folder / "lab", folder / "truth.json", how)
    rig = read_rig(folder / "lab" / "rig.toml")
    real = ingest(folder / "lab" / "dataset", rig, folder / "real")
    scenes = {e.labels["object"]: Scene.read(folder / "lab" / f"scene_{e.labels['object']}.xml") for e in real.episodes}
    twins = tuple(replayed(episode, scenes[episode.labels["object"]]) for episode in real.episodes)
    sim = Recording(real.rig, twins, {"kind": "replay", "name": "nominal twin, replay of the commands"})
    return real, sim, rig, json.loads((folder / "truth.json").read_text())


def score(found: Comparison, truth: dict) -> dict[str, list[float]]:
    """What the comparison says of events against what happened; truth is known at every command, 50 ms apart."""
    apart: dict[str, list[float]] = {}
    for pair in found.pairs:
        number = int(pair.real.source.split("_")[0])
        happened = dict(truth["episodes"][number]["events"][1:])
        for name, (of, event) in KNOWN.items():
            told = [e.real_s for e in pair.events if (e.of, e.name) == (of, event) and e.real_s is not None]
            if name in happened:
                apart.setdefault(name, []).append(told[0] - happened[name] if told else np.nan)
    return apart


def lab(plants: list[int], episodes: int, out: Path | None) -> None:
    """One row a plant."""
    print(
        "| plant | RMSE left | right | overall | tip left / mm | right | clock offset / ms (sd) | hidden delay / ms |"
    )
    print("|---|---|---|---|---|---|---|---|")
    late: dict[str, list[float]] = {}
    verdicts: dict[str, int] = {}
    starts: dict[str, int] = {}
    for plant in plants:
        with tempfile.TemporaryDirectory() as scratch:
            real, sim, rig, truth = lab_pair(Path(scratch), plant, episodes)
            tips = tips_of(rig, Path(scratch) / "lab")
            found = compare(real, sim, rig, tips, Protocol(pairing=Pairing(by="order")))
            arms = [np.mean([p.every[k].gap.total_rmse for p in found.pairs]) for k in range(3)]
            tip = [1e3 * np.mean([p.arms[k].tip.position_m.mean() for p in found.pairs]) for k in range(2)]
            offset = [1e3 * p.offset.offset_s for p in found.pairs]
            hidden = [
                1e3 * v for id, v in truth["theta"].items() if id.endswith(".delay") and id.startswith("actuator")
            ]
            print(
                f"| {plant} | {arms[0]:.4f} | {arms[1]:.4f} | {arms[2]:.4f} | {tip[0]:.1f} | {tip[1]:.1f} | "
                f"{np.mean(offset):.1f} ({1e3 * np.mean([p.offset.sd_s for p in found.pairs]):.1f}) | "
                f"{np.mean(hidden):.1f} ({min(hidden):.0f} to {max(hidden):.0f}) |",
                flush=True,
            )
            for name, values in score(found, truth).items():
                late.setdefault(name, []).extend(values)
            for event in (event for pair in found.pairs for event in pair.events):
                verdicts[event.verdict] = verdicts.get(event.verdict, 0) + 1
            for at in (pair.starts_at or "nothing" for pair in found.pairs):
                starts[at] = starts.get(at, 0) + 1
            if out is not None:
                write_report(found, out / f"plant_{plant}")
    print("\n| event | found | later than the truth / ms: median | 5 to 95 % |\n|---|---|---|---|")
    for name, values in late.items():
        known = 1e3 * np.array(values)[np.isfinite(values)]
        low, middle, high = np.quantile(known, [0.05, 0.5, 0.95])
        print(f"| {name} | {len(known)} of {len(values)} | {middle:.0f} | {low:.0f} to {high:.0f} |")
    print(f"\ntwin's events against the plant's: {verdicts}\ndivergence starts at: {starts}")


def made_up(count: int, steps: int, lag_s: float, seed: int) -> Recording:
    """Recordings of two arms of seven numbers each, smooth and random."""
    names = [f"{arm}_{k}" for arm in ("left", "right") for k in range(7)]
    joints = tuple(Joint(name, (-3.0, 3.0)) for name in names)
    arms = (Arm("left", tuple(names[:6]), names[6]), Arm("right", tuple(names[7:13]), names[13]))
    t = np.arange(steps) / 50
    made = []
    for k in range(count):
        rng, noise = stream(k, "motion"), stream(seed, "noise", str(k))
        rate, phase = rng.uniform(0.3, 2.5, (4, 14)), rng.uniform(0, 6.3, (4, 14))
        value = 0.4 * np.sin(rate * (t + lag_s)[:, None, None] + phase).sum(axis=1)
        value += 0.002 * noise.normal(size=value.shape) + 0.01 * seed * np.cumsum(np.ones((steps, 1)), axis=0) / steps
        signal = Signal("state", "joint_position", tuple(Column(name, "rad") for name in names), t, value)
        labels = {"task": f"task {k}"}
        made.append(Episode.of({"state": signal}, {}, labels=labels, start_ns=k + 10_000 * seed, source=f"episode {k}"))
    return Recording(Rig("two_arms", joints, arms), tuple(made), {"kind": "made up", "name": f"side {seed}"})


def speed(pairs: int, steps: int) -> None:
    """Reading, comparing, drawing and writing, from disk to disk."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for name, lag_s, seed in (("real", 0.0, 0), ("sim", 0.03, 1)):
            made_up(pairs, steps, lag_s, seed).save(folder / name)
        for label in ("first run (compiles and caches)", "again"):
            wall, cpu = time.perf_counter(), time.process_time()
            real, sim = Recording.load(folder / "real"), Recording.load(folder / "sim")
            found = compare(real, sim, real.rig)
            middle, used = time.perf_counter() - wall, time.process_time() - cpu
            write_report(found, folder / label[:5])
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            print(
                f"{pairs} pairs of {steps} steps, two arms, {label}: compared in {middle:.1f} s ({used:.1f} CPU-s), "
                f"with figures and page {wall:.1f} s ({cpu:.1f} CPU-s); load {os.getloadavg()[0]:.1f}"
            )


def main() -> None:
    """Parses and runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plants", type=int, default=4)
    parser.add_argument("--episodes", type=int, default=4)
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=None, help="keep the pages of the plants here")
    asked = parser.parse_args()
    speed(asked.pairs, asked.steps)
    print()
    lab(list(range(1, asked.plants + 1)), asked.episodes, asked.out)


if __name__ == "__main__":
    main()
