"""A panel is run: every policy in every condition and domain, blind, paired, resumable, and the holdout opened once.

checks ─> smoke and perturbation tests ─> the holdout opens ─> replays ─> trials in twins (batched) ─> trials in reality
      (nothing was read so far)      (a line in the ledger)                                                 │
                                        Trials <─ figures <─ metrics of pairs <─────────────────────────────┘
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from twinproof import __version__
from twinproof.evaluate.beliefs import Beliefs, blind_order
from twinproof.evaluate.closed_loop import Job, Stage
from twinproof.evaluate.contenders import Contender, check_fits
from twinproof.evaluate.decompose import Played, decompose, whole
from twinproof.evaluate.deploy import Filmed, Place, begins, check_place, real_run
from twinproof.evaluate.film import Filming, filming
from twinproof.evaluate.freeze import check_frozen, check_same_robot, state_robot
from twinproof.evaluate.lots import Lot, run_lots
from twinproof.evaluate.pairs import apart_rmse
from twinproof.evaluate.proxies import PLAYED_AGAIN, labelled
from twinproof.evaluate.replay import Key, Replay, by_world, replay_report, scene_of, told, twin_tips, with_ranges
from twinproof.evaluate.runs import FORMAT, Run, Runs
from twinproof.evaluate.smoke import steady
from twinproof.evaluate.summary import summary
from twinproof.evaluate.verdict import figures
from twinproof.nouns.actor import Actor
from twinproof.nouns.errors import PanelError, TraceError
from twinproof.nouns.hashing import Json, content_key
from twinproof.nouns.panel import Cell, Domain, Panel
from twinproof.nouns.parts import OpenHoldout
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Rig
from twinproof.nouns.split import Split
from twinproof.nouns.store import Store
from twinproof.nouns.trial import Trial
from twinproof.nouns.trials import Trials
from twinproof.policies.safety import Safety
from twinproof.sim.scene import engine
from twinproof.sim.scenes_by_label import ScenesByLabel
from twinproof.tasks.task import TaskSpec

Logged = Callable[[Cell], Run]  # a real trial that was recorded elsewhere
Elsewhere = Callable[
    [str, Sequence[Lot], Safety | None, Callable[[int], None]], None
]  # a policy's lots, into the store
REPLAYED = 20  # worlds of a condition and domain, at most, in which its episode is replayed
REPLAYED_WHOLE = 12  # conditions, at most, whose replay goes through the whole divergence protocol
TAKEN_APART = 40  # trials, at most, of which the gap is taken apart
TOGETHER = 16  # simulated trials that are kept at once, while others go on


@dataclass(frozen=True, eq=False)
class Examination:
    """Everything that decides the outcome. Reality is a robot's place, logged real trials, or neither."""

    panel: Panel
    split: Split
    task: TaskSpec
    beliefs: Beliefs
    contenders: tuple[Contender, ...]
    store: Store  # finished trials: a killed run goes on from them
    place: Place | None = None
    logged: Logged | None = None
    reality: str = ""  # of logged trials, in words
    script: Actor | None = None  # the task's expert, tried where a policy fails
    change: str | None = None  # what changed since the holdout was last open
    safety: Safety | None = None  # limits that are kept in twins where there is no robot; else the place's own
    elsewhere: Elsewhere | None = None  # who runs simulated trials, where it is not this process
    again: int = PLAYED_AGAIN  # failures of a policy, at most, that are played again to say what was wrong
    real: str = ""  # names the robot's driver or the logged trials by content: another one is another attempt
    recorded_in: ScenesByLabel = field(default_factory=dict)  # other scenes, in which episodes are replayed
    filmed: tuple[str, ...] = ()  # simulated domains whose trials are filmed, as real ones always are, with cameras

    def __post_init__(self) -> None:
        check_fits(self.panel, self.task, self.contenders)
        real = [domain.name for domain in self.panel.domains if domain.kind == "real"]
        if real and self.place is None and self.logged is None:
            raise PanelError(
                f"the panel has the domain {real[0]!r}, and there is no robot and no logged trial. Give --robot or "
                "--logged, or freeze a panel without it: then the transfer claim says 'not tested'."
            )
        self.beliefs.check_parents()

    @cached_property
    def rig(self) -> Rig:
        """The rig of calibration, which names the cameras."""
        return self.split.parts()[0].recording.rig

    def stage(self, who: Contender, kind: str = "twin", filming: Filming | None = None) -> Stage:
        """Where a policy plays in a kind of domain: its pictures, filmed or not, within the limits that are kept."""
        pictures, known = who.pictures(self.panel, self.rig), self.beliefs
        twin = known.rebuilt if kind == "rebuilt" and known.rebuilt is not None else known.twin
        film = None if filming is None else (filming, who.filmed(self.panel, self.rig))
        return who.stage(twin, self.task, pictures, self.limits, known.drive_of(kind), film)

    @property
    def limits(self) -> Safety | None:
        """The limits that are kept in twins: those of the robot's place, or else those stated."""
        return self.safety if self.place is None or self.place.safety is None else self.place.safety


def examine(exam: Examination, progress: Progress = quiet, say: Callable[[str], None] = lambda text: None) -> Trials:
    """Runs what is not yet in the store, and puts everything together."""
    panel, split = exam.panel, exam.split
    check_frozen(panel, split)
    check_same_robot(panel, split, exam.real, exam.change)
    if exam.place is not None:
        check_place(exam.task, exam.place)
    tried = {each.name: _steady(exam, each) for each in exam.contenders}
    with split.parts()[2].open(by=panel.hash, change=exam.change) as opened, filming(exam.store.root) as films:
        say(f"the holdout is open: attempt {opened.attempt}")
        state_robot(panel, split, exam.real)
        if exam.beliefs.rebuilt is not None:
            split.ledger.append("rebuilt", {"artifact": exam.beliefs.rebuilt.hash, "for": "comparison only"})
        return _Run(exam, opened, films, progress).trials(tried)


def _steady(exam: Examination, who: Contender) -> Json:
    """The tests before a large run, in the first simulated domain; nothing where all trials are real."""
    for domain in exam.panel.domains:
        if domain.kind not in ("real", "rebuilt"):
            cells = [c for c in exam.panel.cells([who.name]) if c.domain == domain]
            jobs = [Job(c, exam.beliefs.theta(c), begins(exam.task, c)) for c in cells]
            return steady(exam.stage(who, domain.kind), jobs, who.name, who.repeatable).told()
    return None


class _Run:
    """One examination while the holdout is open."""

    def __init__(self, exam: Examination, opened: OpenHoldout, films: Filming, progress: Progress) -> None:
        self.exam, self.opened, self.films, self.progress = exam, opened, films, progress
        self.scenes = {d.name: exam.beliefs.scene(d.kind) for d in exam.panel.domains if d.kind != "rebuilt"}
        self.scene = exam.beliefs.scene("twin")
        recording: Recording = opened.recording
        self.rig: Rig = with_ranges(recording.rig, self.scene)
        self.episodes = {c.name: recording.episode(c.episode) for c in exam.panel.conditions}
        self.names = tuple(each.name for each in exam.contenders)
        self.cells = [self._read(cell) for cell in exam.panel.cells(self.names)]
        self.hash_of = {each.name: each.hash for each in exam.contenders}
        real = ((k, c) for k, c in enumerate(self.cells) if c.domain.kind == "real")
        self.real_of = {(c.policy, c.condition.name, c.repeat): k for k, c in real}
        self.done = 0
        self.stages: dict[tuple[str, str, bool], Stage] = {}

    def _read(self, cell: Cell) -> Cell:
        """The cell with all labels of its episode, now that it may be read."""
        labels = {**self.episodes[cell.condition.name].labels, **cell.condition.labels}
        return replace(cell, condition=replace(cell.condition, labels=labels))

    def trials(self, tried: Mapping[str, Json]) -> Trials:
        """Everything, in the panel's order."""
        exam = self.exam
        replays, failed = self._replays()
        runs: dict[int, Run] = {}
        order: list[int] = []
        for place, run in self._simulated():
            runs[place] = run
            order.append(place)
        for place, run in self._real():
            runs[place] = run
            order.append(place)
        runs = self._labelled(runs)
        trials = tuple(self._trial(cell, k, runs, replays) for k, cell in enumerate(self.cells))
        exam.panel.check_trials(trials)
        reality = (exam.place.reality if exam.place else exam.reality) if self._has_real else ""
        figures_told = {
            "panel": exam.panel.hash,
            "policies": dict(self.hash_of),
            "reality": reality,
            **figures(exam.panel, trials, self.names),
            "smoke": dict(tried),
            "replay": {**told(replays, failed, exam.recorded_in), "protocol": self._protocol()},
            "decomposition": self._taken_apart(runs),
            "order": [self._told(place) for place in order if self.cells[place].domain.kind == "real"],
            "monitor": self._monitor(trials),
            "notes": self._notes(),
        }
        return Trials(
            trials,
            {
                "panel": exam.panel.hash,
                "split": exam.split.hash,
                **exam.beliefs.parents,
                **{f"policy/{name}": hash for name, hash in self.hash_of.items()},
            },
            {run.trace.hash: run.trace for run in runs.values()},
            figures_told,
            tuple(order),
            reality,
            self.opened.attempt,
            exam.split.ledger.head(),
            {"twinproof": __version__, "engine": engine()},
            {run.trace.hash: run.film for run in runs.values() if run.film is not None},
        )

    def _trial(self, cell: Cell, place: int, runs: Mapping[int, Run], replays: Mapping[Key, Replay]) -> Trial:
        """The row of a cell, with the metrics that its panel was frozen with."""
        found = runs[place].trial(cell, self._metrics(cell, place, runs, replays))
        asked = {metric.name for metric in self.exam.panel.metrics}
        return replace(found, metrics={name: value for name, value in found.metrics.items() if name in asked})

    def _monitor(self, trials: Sequence[Trial]) -> Json:
        """How real trials were watched, and how many of them were slowed and stopped; nothing where none was."""
        by = None if self.exam.place is None else self.exam.place.watched
        if not isinstance(by, dict):
            return None
        mine = [trial.metrics for trial in trials if "fidelity" in trial.metrics]
        counted: dict[str, Json] = {
            "trials": len(mine),
            "slowed": sum(known["slowed_ticks"] > 0 for known in mine),
            "stopped": sum(known["stopped_ticks"] > 0 for known in mine),
            "least_fidelity": min((known["fidelity"] for known in mine), default=None),
        }
        measure = self.exam.place.measure if self.exam.place else None
        held = None if measure is None else measure(list(self.episodes.values()))  # they set no threshold
        return {**by, **counted, "measured": held}

    def _played(self, who: Contender, runs: Mapping[int, Run]) -> dict[int, Played]:
        """Real trials of a policy beside the twin's with the same seed, by the place of the real one."""
        found = {}
        for place, cell in enumerate(self.cells):
            partner = self.real_of.get((cell.policy, cell.condition.name, cell.repeat))
            if cell.domain.kind == "twin" and cell.policy == who.name and partner is not None:
                job = Job(cell, self.exam.beliefs.theta(cell), begins(self.exam.task, cell))
                found[partner] = Played(job, runs[partner], runs[place])
        return found

    def _taken_apart(self, runs: Mapping[int, Run]) -> Json:
        """The gap of the policy under test in four steps, where it was run in reality and in the twin."""
        who = self.exam.contenders[0]
        fit = [each for each in self._played(who, runs).values() if whole(each.real.trace)][:TAKEN_APART]
        return decompose(self._stage(who), fit, self.rig) if fit else None

    def _labelled(self, runs: Mapping[int, Run]) -> dict[int, Run]:
        """The runs, with labels on real failures as far as real data can tell."""
        found = dict(runs)
        for who in self.exam.contenders:
            pairs = self._played(who, runs)
            ranges, again = self.exam.beliefs.randomization, self.exam.again
            drawn = self.exam.beliefs.drawable and who.repeatable  # what a server did once is never played again
            draw = (lambda job, k: self.exam.beliefs.another(job.cell, k)) if drawn else None
            found |= labelled(self._stage(who), self.exam.script, pairs, ranges, again, draw)
        return found

    @property
    def _has_real(self) -> bool:
        return any(domain.kind == "real" for domain in self.exam.panel.domains)

    def _notes(self) -> list[str]:
        found = [f"the holdout was opened {self.opened.attempt} times"] if self.opened.attempt > 1 else []
        if any(domain.kind == "rebuilt" for domain in self.exam.panel.domains):
            found.append("the rebuilt twin has seen the holdout: it is there for comparison and decides nothing")
        drive = self.exam.beliefs.drive
        if drive is not None:
            found.append(f"replays and all simulated domains but nominal ones are moved as identified: {drive.told}")
        if self.exam.recorded_in:
            labels = ", ".join(self.exam.recorded_in)
            found.append(f"recordings are replayed in the scene that is stated for their {labels}; trials are not")
        mine = self.exam.beliefs.twin.hash
        for each in self.exam.contenders:
            if each.twin and each.twin != mine:
                found.append(f"the policy {each.name!r} was made with another twin ({each.twin[:16]})")
        return found

    def _told(self, place: int) -> Json:
        cell = self.cells[place]
        return {"policy": cell.policy, "condition": cell.condition.name, "repeat": cell.repeat}

    def _replays(self) -> tuple[dict[Key, Replay], dict[Key, str]]:
        """Logged actions of every condition's episode in the worlds of the twin, of each domain's first repeats."""
        first = [
            cell
            for cell in self.cells
            if cell.policy == self.names[0] and cell.domain.kind not in ("real", "rebuilt") and cell.repeat < REPLAYED
        ]
        worlds = {(c.condition.name, c.domain.name, c.repeat): self.exam.beliefs.theta(c) for c in first}
        tips = twin_tips(self.rig, self.scene)
        return by_world(self.scenes, self.episodes, worlds, self.rig, tips, self.exam.recorded_in)

    def _protocol(self) -> Json:
        """The divergence protocol on whole replays at the twin's point: errors of each arm, onsets, events."""
        cells = {c.condition.name: c for c in self.cells if c.domain.kind == "twin" and c.policy == self.names[0]}
        found: dict[str, Json] = {}
        for name, cell in list(cells.items())[:REPLAYED_WHOLE]:
            episode, theta = self.episodes[name], self.exam.beliefs.theta(cell)
            try:
                scene = scene_of(episode, self.scene, self.exam.recorded_in)
                shown = replay_report(scene, [episode], theta, self.rig, twin_tips(self.rig, self.scene))
            except TraceError as problem:
                found[name] = {"diverged": str(problem)}
                continue
            pair = summary(shown)["pairs"][0]
            found[name] = {key: pair[key] for key in ("arms", "events", "divergence_starts_at", "lengths_s")}
        return found

    def _simulated(self) -> Iterator[tuple[int, Run]]:
        """Trials of all simulated domains, a domain of a policy at once."""
        for who in self.exam.contenders:
            for domain in (d for d in self.exam.panel.domains if d.kind != "real"):
                yield from self._domain(who, domain)

    def _domain(self, who: Contender, domain: Domain) -> Iterator[tuple[int, Run]]:
        """What lies in the store is not run again. All else runs side by side, and is kept a few at a time."""
        places = [k for k, c in enumerate(self.cells) if c.policy == who.name and c.domain.name == domain.name]
        together = TOGETHER if who.repeatable else 1  # what a server did once is never played again
        lots = [self._lot(places[begin : begin + together]) for begin in range(0, len(places), together)]
        lacking = [lot for lot in lots if not self.exam.store.has(lot.key)]
        stage = self._stage(who, domain)
        known = len(places) - sum(len(lot.places) for lot in lacking)
        ended = partial(self._ended, known, domain.name)
        if self.exam.elsewhere is not None and who.repeatable and lacking:
            self.exam.elsewhere(who.name, lacking, self.exam.limits, ended)
        else:
            run_lots(stage, lacking, self.exam.store, ended)
        for lot in lots:
            yield from zip(lot.places, self._kept(lot.key, partial(stage.run, lot.jobs)), strict=True)
        self.done += len(places)
        self._tell(0, domain.name)

    def _lot(self, places: Sequence[int]) -> Lot:
        cells = [self.cells[k] for k in places]
        jobs = [Job(cell, self.exam.beliefs.theta(cell), begins(self.exam.task, cell)) for cell in cells]
        key = content_key([self._key(job.cell, dict(job.theta)) for job in jobs])
        return Lot(tuple(places), tuple(jobs), key)

    def _stage(self, who: Contender, domain: Domain | None = None) -> Stage:
        kind = domain.kind if domain is not None and domain.kind in ("rebuilt", "nominal") else "twin"
        films = self.films if domain is not None and domain.name in self.exam.filmed else None
        key = (who.name, kind, films is None)
        if key not in self.stages:
            self.stages[key] = self.exam.stage(who, kind, films)
        return self.stages[key]

    def _real(self) -> Iterator[tuple[int, Run]]:
        """Trials in reality, in a shuffled order; while they run, only a code and the condition are told."""
        real = [(k, cell) for k, cell in enumerate(self.cells) if cell.domain.kind == "real"]
        order, codes = blind_order([cell for _, cell in real], self.exam.panel.order_seed)
        place = {id(cell): k for k, cell in real}
        for cell, code in zip(order, codes, strict=True):
            key = self._key(cell, [self.exam.place.reality if self.exam.place else "logged", self.exam.real])
            run = self._kept(key, partial(self._one, cell))[0]
            self.done += 1
            self._tell(0, f"{code} {cell.condition.name}")
            yield place[id(cell)], run

    def _one(self, cell: Cell) -> tuple[Run, ...]:
        if self.exam.logged is not None:
            return (self.exam.logged(cell),)
        who = next(each for each in self.exam.contenders if each.name == cell.policy)
        assert self.exam.place is not None, "an examination with a real domain has a place or logged trials"
        task = self._stage(who).task
        actor = who.actor if who.on_robot is None or self.exam.place.patient else who.on_robot
        channels = who.filmed(self.exam.panel, self.exam.rig)
        filmed = Filmed(self.films, channels) if channels else None
        return (real_run(self.exam.place, task, actor, cell, begins(task, cell), filmed=filmed)[0],)

    def _kept(self, key: str, make: Callable[[], tuple[Run, ...]]) -> tuple[Run, ...]:
        return self.exam.store.once(key, lambda: Runs(make()), Runs).runs

    def _ended(self, known: int, name: str, count: int) -> None:
        self._tell(known + count, name)

    def _tell(self, more: int, name: str) -> None:
        self.progress(self.done + more, name, len(self.cells))

    def _key(self, cell: Cell, world: Json) -> str:
        where = [cell.condition.name, cell.condition.seed, cell.domain.name, cell.repeat]
        twin = self.exam.beliefs.rebuilt if cell.domain.kind == "rebuilt" else self.exam.beliefs.twin
        made = "" if twin is None or cell.domain.kind == "real" else twin.hash
        limits = None if self.exam.limits is None else self.exam.limits.told()
        watched = self.exam.place.watched if self.exam.place and cell.domain.kind == "real" else None
        drive = None if cell.domain.kind == "real" else self.exam.beliefs.drive_of(cell.domain.kind)
        filmed = ["filmed"] if cell.domain.kind != "real" and cell.domain.name in self.exam.filmed else []
        driven = [] if drive is None else [drive.hash]
        kept = [made, limits, *([] if watched is None else [watched]), *driven, *filmed]
        return content_key(
            FORMAT, __version__, engine(), self.exam.panel.hash, self.hash_of[cell.policy], where, world, *kept
        )

    def _metrics(
        self, cell: Cell, place: int, runs: Mapping[int, Run], replays: Mapping[Key, Replay]
    ) -> dict[str, float]:
        found: dict[str, float] = {}
        replayed = replays.get((cell.condition.name, cell.domain.name, cell.repeat))
        if replayed is not None:
            found["replay_rmse"] = replayed.total_rmse
            if replayed.tip_m is not None:
                found["replay_tip_m"] = replayed.tip_m
        partner = self.real_of.get((cell.policy, cell.condition.name, cell.repeat))
        if cell.domain.kind != "real" and partner is not None:
            apart = apart_rmse(runs[partner].trace, runs[place].trace, self.rig)
            if apart is not None:
                found["apart_rmse"] = apart
        return found
