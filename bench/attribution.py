"""How well the cause of a failure is told, over planted single faults: `python -m bench.attribution`.

The reality is the push bench's nominal scene with one thing wrong, which only this bench knows (the lab's oracle, from
the scoring side). The twin believes the nominal. The task's script pushes the object to its mark; where it fails, each
factor alone is swapped for what the twin believes or trusts, on the same seed, and `evaluate.attribution` gives a
label. With --real nothing is swapped: labels are those of a real robot's trials (`evaluate.proxies`). Faults and their
sizes were chosen so that trials fail, before any label was looked at.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from bench.evaluate import task_on

from twinproof.evaluate.attribution import attribute, confusion
from twinproof.evaluate.closed_loop import Batch, Job, Stage, run_jobs
from twinproof.evaluate.decompose import Played
from twinproof.evaluate.deploy import begins
from twinproof.evaluate.proxies import labelled
from twinproof.evaluate.swaps import Setting, Trying, factors_of, swaps_of
from twinproof.nouns.actor import Actor
from twinproof.nouns.failure import Failure
from twinproof.nouns.panel import Cell, Condition, Domain, trial_seed
from twinproof.nouns.randomization import Randomization, Range
from twinproof.nouns.source import Declared
from twinproof.nouns.theta import Theta
from twinproof.sim.parameters.resolve import parameter
from twinproof.tasks.experts import expert_of
from twinproof.tasks.task import TaskSpec


class Bent:
    """A policy that is off: every command to some joints is shifted."""

    def __init__(self, actor: Actor, shift: np.ndarray) -> None:
        self.contract, self._actor, self._shift = actor.contract, actor, shift

    def reset(self, count: int, seed: int, which: np.ndarray | None = None) -> None:
        """As the policy itself."""
        self._actor.reset(count, seed, which)

    def act(self, observations: Mapping[str, np.ndarray]) -> np.ndarray:
        """What it does, shifted."""
        return self._actor.act(observations) + self._shift


@dataclass(frozen=True)
class Fault:
    """What is wrong, and the label that says so. `ranges` are what was randomised; a fault inside them is no miss."""

    name: str
    label: Failure
    theta: Theta = Theta()
    ranges: tuple[tuple[str, float, float], ...] = (("body.object.mass", 0.02, 50.0),)
    bent_rad: float = 0.0


def faults(task: TaskSpec) -> tuple[Fault, ...]:
    """One fault each."""
    arm = task.machine.joints[:3]
    grip = {"geom.object.friction_slide": 3.0, "geom.object.friction_torsion": 0.5}
    return (
        Fault("object sticks to the table", Failure.CONTACT, Theta(grip)),
        Fault("object of 15 kg", Failure.PHYSICS, Theta({"body.object.mass": 15.0})),
        Fault("object of 15 kg, ranges end at 0.5 kg", Failure.RESIDUAL_RANGE, Theta({"body.object.mass": 15.0}),
              (("body.object.mass", 0.02, 0.5),)),
        Fault("object 1.8 times as large", Failure.RECONSTRUCTION, Theta({"body.object.scale": 1.8})),
        Fault("motors of 1.5 N m", Failure.EMBODIMENT, Theta({f"actuator.{name}.force_limit": 1.5 for name in arm})),
        Fault("soft servos", Failure.EMBODIMENT, Theta({f"actuator.{name}.gain": 20.0 for name in arm})),
        Fault("encoders off by 0.2 and 0.1 rad", Failure.PERCEPTION,
              Theta({f"joint.{arm[0]}.offset": 0.2, f"joint.{arm[1]}.offset": 0.1})),
        Fault("tracker noise of 5 cm", Failure.PERCEPTION, Theta({"tracker.position_noise": 0.05})),
        Fault("policy off by 0.12 rad", Failure.POLICY, bent_rad=0.12),
    )  # fmt: skip


def ranges_of(fault: Fault) -> Randomization:
    """What training would have drawn from."""
    why = ("planted", "this bench", "a bench")
    made = [
        Range(parameter(id).info, low, high, float(np.sqrt(low * high)), Declared("a bench"), "dynamics", *why)
        for id, low, high in fault.ranges
    ]
    return Randomization(tuple(made), {})


def doubt(task: TaskSpec) -> Callable[[np.random.Generator], Theta]:
    """Draws of what the twin believes: mass and friction of the object, each about a tenth from the nominal."""
    model = task.machine.scene.nominal()
    ids = ("body.object.mass", "geom.object.friction_slide")
    nominal = {id: parameter(id).read(model) for id in ids}
    return lambda rng: Theta({id: value * np.exp(0.1 * rng.normal()) for id, value in nominal.items()})


def told(task: TaskSpec, fault: Fault, seeds: Sequence[int]) -> tuple[int, dict[int, Failure]]:
    """How many trials failed, and the label of each."""
    expert = expert_of(task)
    shift = np.zeros(len(task.machine.joints))
    shift[:2] = fault.bent_rad
    actor = Bent(expert, shift) if fault.bent_rad else expert
    trials = []
    for k in seeds:
        condition = Condition(f"h{k:02d}", f"e{k}", k)
        cell = Cell("expert", condition, Domain("real", "real", 1), 0, trial_seed(condition, 0))
        trials.append((cell, begins(task, cell)))
    swaps = swaps_of(Theta(), ranges_of(fault), expert, doubt(task))
    trying = Trying(task, Setting(task.machine.scene, fault.theta, actor), swaps, trials)
    found = attribute(trying, trying.seeds, factors_of(swaps))
    return len(found.labels), dict(found.labels)


def told_real(task: TaskSpec, fault: Fault, seeds: Sequence[int]) -> tuple[int, dict[int, Failure]]:
    """The same as a real robot's trials would be labelled: from traces, tracker's poses and the twin alone."""
    expert, scene = expert_of(task), task.machine.scene
    shift = np.zeros(len(task.machine.joints))
    shift[:2] = fault.bent_rad
    actor = Bent(expert, shift) if fault.bent_rad else expert
    jobs = []
    for k in seeds:
        condition = Condition(f"h{k:02d}", f"e{k}", k)
        cell = Cell("expert", condition, Domain("real", "real", 1), 0, trial_seed(condition, 0))
        jobs.append(Job(cell, Theta(), begins(task, cell)))
    real = run_jobs(scene, task, actor, [replace(job, theta=fault.theta) for job in jobs], Batch(as_seen=True))
    twin = run_jobs(scene, task, actor, jobs)
    played = {k: Played(*each) for k, each in enumerate(zip(jobs, real, twin, strict=True))}
    found = labelled(Stage(scene, task, actor), expert, played, ranges_of(fault))
    return len(found), {k: run.failure or Failure.UNDECIDED for k, run in found.items()}


def main() -> None:
    """Prints each fault's labels and the confusion matrix."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--first", type=int, default=0, help="of the seeds")
    parser.add_argument("--real", action="store_true", help="no oracle: labels as a real robot's trials get them")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    task, begun = task_on("push"), time.perf_counter()
    planted, assigned = list[Failure](), list[Failure]()
    for fault in faults(task):
        seeds = range(asked.first, asked.first + asked.seeds)
        failed, labels = told_real(task, fault, seeds) if asked.real else told(task, fault, seeds)
        counts = {name: [f.label for f in labels.values()].count(name) for name in {f.label for f in labels.values()}}
        print(
            f"{fault.name}: {failed} of {asked.seeds} fail; planted {fault.label.label}; assigned {counts}", flush=True
        )
        planted += [fault.label] * failed
        assigned += list(labels.values())
    found = confusion(planted, assigned)
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(f"right of those decided: {found.right}; decided: {found.decided}")
    print(f"{used.ru_utime + used.ru_stime:.0f} CPU-s, {time.perf_counter() - begun:.0f} s")
    if asked.out:
        table = [{"planted": a.label, "assigned": b.label, "count": n} for (a, b), n in found.table.items()]
        asked.out.write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
