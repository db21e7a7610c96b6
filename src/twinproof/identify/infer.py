"""From a twin and calibration episodes to a Posterior: match, look for trouble, fit, draw, predict, and say it all.

episodes ─ experiments ─ delay scan, torque regression ─ Gauss–Newton ─ draws ─ model error ─ Posterior
                                                                           └─ bands on validation: do they cover?
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from threadpoolctl import threadpool_limits

from twinproof.identify import predict
from twinproof.identify.beliefs import Belief, Stated, beliefs, of_signals, signal_ids
from twinproof.identify.checkpoint import Checkpoint, chance, resume
from twinproof.identify.describe import diagnostics_of
from twinproof.identify.fit import Fit, GaussNewton, check_started
from twinproof.identify.identifiability import unidentified, weak_directions
from twinproof.identify.laplace import Laplace, covariance_of, widening
from twinproof.identify.method import Draws, Method
from twinproof.identify.point import Point, Profiles, best_start, candidates, written
from twinproof.identify.population import Family, family
from twinproof.identify.problem import EPISODE, Problem
from twinproof.identify.recheck import diagnostics as ranks_told
from twinproof.identify.recheck import enough, recheck
from twinproof.identify.suspect import suspicious
from twinproof.nouns.belief import Discrepancy, Population, unmoved
from twinproof.nouns.drive import Drive
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import ConfigError, RecordingError
from twinproof.nouns.hashing import Json
from twinproof.nouns.ledger import LedgerHead
from twinproof.nouns.parts import Calibration, Validation
from twinproof.nouns.posterior import Posterior
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.strict import plain
from twinproof.nouns.twin import Twin
from twinproof.sim.experiment import Experiment, experiment
from twinproof.sim.scene import Scene
from twinproof.sim.scenes_by_label import ScenesByLabel, scene_for

LONGEST_DELAY_S = 0.2  # only so that the vocabulary lists delays; the fit blends commands and needs no history
SHOWN_DRAWS = 24  # draws that predictions are made with


@dataclass(frozen=True)
class Question:
    """Which parameters are asked for, what is believed of them, and which of them differ between episodes.

    `differ` maps patterns of ids to a label: {"body.object.*": "object"}; "episode" gives every episode its own value.
    `scenes` are other scenes for episodes with a value of a label, as {"object": {"box_03": scene}}.
    """

    parameters: tuple[str, ...]
    priors: tuple[Stated, ...] = ()
    differ: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, float] = field(default_factory=dict)
    scenes: ScenesByLabel = field(default_factory=dict)


def infer(
    twin: Twin,
    calibration: Calibration,
    question: Question,
    method: Method | None = None,
    rng: np.random.Generator | None = None,
    *,
    point: Point | None = None,
    starts: int = 1,
    validation: Validation | None = None,
    progress: Progress = quiet,
    keep: Checkpoint | None = None,
    seed_number: int = 0,
    ledger: LedgerHead | None = None,
) -> Posterior:
    """The posterior of the question's parameters, given the calibration part. Validation only tests its bands."""
    return identified(
        twin,
        calibration,
        question,
        method,
        rng,
        point=point,
        starts=starts,
        validation=validation,
        progress=progress,
        keep=keep,
        seed_number=seed_number,
        ledger=ledger,
    )[0]


def identified(
    twin: Twin,
    calibration: Calibration,
    question: Question,
    method: Method | None = None,
    rng: np.random.Generator | None = None,
    *,
    point: Point | None = None,
    starts: int = 1,
    validation: Validation | None = None,
    progress: Progress = quiet,
    keep: Checkpoint | None = None,
    seed_number: int = 0,
    ledger: LedgerHead | None = None,
    profiles: Profiles | None = None,
    check: int = 0,
    beside: Beside | None = None,
) -> tuple[Posterior, Found, Json]:
    """The same, with what it was made of and how its bands cover validation: for pictures and studies.

    With `check`, so many recordings are simulated under the posterior's draws and fitted again: are its ranks even?
    `beside` looks for what moves the twin beside its parameters; where it is adopted, model error and coverage are of
    the twin that it moves.
    """
    method, point = method or Laplace(), point or GaussNewton()
    rng = rng or np.random.default_rng(seed_number)
    if check:
        enough(check)
    begun, cpu = time.perf_counter(), time.process_time()
    problem = problem_of(Scene.of(twin), calibration.recording.episodes, question, dict(twin.start))
    found = solve(problem, method, rng, point=point, starts=starts, progress=progress, keep=keep, profiles=profiles)
    checked: Json = None
    unseen: Problem | None = None
    if validation is not None and validation.recording.episodes:
        unseen = problem_of(Scene.of(twin), validation.recording.episodes, question, dict(twin.start), problem.beliefs)
        checked = found.coverage_on(unseen, rng)
    diagnostics = {**found.diagnostics, "validation": checked} if checked is not None else dict(found.diagnostics)
    drive: Drive | None = None
    if beside is not None:
        drive, diagnostics["drive"] = beside(found, unseen)
    if drive is not None and unseen is not None:
        progress(0, "predicting with the drive", None)
        found = found.moved_by(drive)
        diagnostics["validation_without_drive"] = checked
        checked = diagnostics["validation"] = found.coverage_on(driven(unseen, drive), rng)
    if check:
        unsure = {name.split(" of ")[0] for name in unidentified(problem, found.drawn.unknowns)}
        ranked = recheck(found.fitted, found.drawn, method, point, check, seed_number, progress, keep)
        diagnostics["calibration_check"] = ranks_told(ranked, unsure)
    diagnostics["cost"] = {
        "wall_s": round(time.perf_counter() - begun, 2),
        "cpu_s": round(time.process_time() - cpu, 2),
        "windows_rolled": found.fitted.rollouts + found.drawn.rollouts,
    }
    posterior = found.posterior(
        episodes=calibration.ids,
        parents={"twin": twin.hash, "split": calibration.split},
        diagnostics=diagnostics,
        drive=drive,
        settings={
            **{"method": plain(method), "point": written(point), "starts": starts, "name": method.name},
            **{"fixed": dict(problem.fixed), "differ": dict(problem.own)},
        },
        method=method.name,
        seed=seed_number,
        ledger=ledger,
    )
    return posterior, found, checked


def problem_of(
    scene: Scene,
    episodes: Sequence[Episode],
    question: Question,
    start: Mapping[str, float] | None = None,
    known: tuple[Belief, ...] | None = None,
) -> Problem:
    """The episodes matched with their scenes, and the parameters with what is believed of them."""
    lean = scene.leaner()
    matched: list[Experiment] = []
    problems: list[str] = []
    for episode in episodes:
        try:
            # what the experiment does not need of the episode is not kept
            matched.append(experiment(episode.fresh(), scene_for(episode.labels, question.scenes, lean)))
        except RecordingError as problem:
            problems.append(str(problem))
    if not matched:
        raise RecordingError(problems[0])
    held = known or _held(scene, matched, question, {**(start or {}), **question.fixed})
    ids = tuple(belief.id for belief in held)
    fixed = {id: value for id, value in {**(start or {}), **question.fixed}.items() if id not in ids}
    own = {id: key for pattern, key in question.differ.items() for id in _matching(ids, pattern)}
    matched = [replace(each, notes=(*each.notes, *problems)) if k == 0 else each for k, each in enumerate(matched)]
    return Problem(held, tuple(matched), fixed, own)


def _held(
    scene: Scene, matched: Sequence[Experiment], question: Question, start: Mapping[str, float]
) -> tuple[Belief, ...]:
    """What is believed of the question's parameters, those of the recorded signals among them."""
    model = scene.reserving(control_delay_s=LONGEST_DELAY_S).nominal()
    signals = signal_ids(reading for each in matched for reading in each.readings)
    for id in question.fixed:
        if id.startswith("signal."):
            of_signals(id, signals)
    return beliefs(model, question.parameters, question.priors, start, signals)


def _matching(ids: Sequence[str], pattern: str) -> list[str]:
    from fnmatch import fnmatchcase

    found = [id for id in ids if fnmatchcase(id, pattern)]
    if not found:
        raise ConfigError(f"{pattern!r} is to differ between episodes, and no parameter of the fit is called so.")
    return found


@dataclass(frozen=True, eq=False)
class Found:
    """An answer before it is written down: the fit, the draws, the family where there is one, and the model error."""

    problem: Problem
    fitted: Fit
    drawn: Draws
    draws: np.ndarray  # N × P, SI
    population: Population | None
    model_error: tuple[Discrepancy, ...]
    diagnostics: Mapping[str, Json]

    def moved_by(self, drive: Drive) -> Found:
        """The same answer for the twin that a drive moves: its model error is another."""
        problem = driven(self.problem, drive)
        some = self.drawn.unknowns[:: max(1, len(self.drawn.unknowns) // SHOWN_DRAWS)][:SHOWN_DRAWS]
        error = predict.discrepancy(self.fitted, some, self.model_error[0].horizon_s, problem)
        return replace(self, problem=problem, model_error=error)

    def coverage_on(self, unseen: Problem, rng: np.random.Generator) -> Json:
        """How the 90 % bands cover episodes that nothing was fitted to; own parameters are a new object's."""
        scaled = self._scaled_new(unseen)
        some = scaled[rng.permutation(len(scaled))[:SHOWN_DRAWS]]
        noise = predict.noise_by_entry(self.fitted)
        return predict.coverage(unseen, scaled.mean(axis=0), some, self.model_error, noise)

    def _scaled_new(self, unseen: Problem) -> np.ndarray:
        """Draws of the unknowns of another problem (N, G): shared ones as drawn, own ones as of a new object."""
        rows = np.array(self.draws)
        if self.population is not None:
            places = [self.problem.ids.index(id) for id in self.population.parameters]
            rows[:, places] = self.population.predictive
        scaled = np.stack([b.info.to_scale(rows[:, p]) for p, b in enumerate(self.problem.beliefs)], axis=1)
        found: np.ndarray = scaled[:, unseen.parameter_of]
        return found

    def posterior(self, **known: object) -> Posterior:
        """The noun, with what the caller knows of parents and settings."""
        infos = tuple(belief.info for belief in self.problem.beliefs)
        priors = tuple(belief.prior for belief in self.problem.beliefs)
        weights = np.exp(self.drawn.log_weights)
        still = unmoved(infos, priors, self.draws, weights / weights.sum())
        weak = {name.split(" of ")[0] for name in unidentified(self.problem, self.drawn.unknowns)}
        fields: dict[str, object] = {
            "parameters": infos,
            "priors": priors,
            "draws": self.draws,
            "log_weights": self.drawn.log_weights,
            "unidentified": tuple(id for id in self.problem.ids if id in weak or id in still),
            "weak_directions": tuple(each.sentence(self.problem) for each in weak_directions(self.fitted)),
            "discrepancy": self.model_error,
            "population": self.population,
            **known,
        }
        return Posterior(**fields)  # type: ignore[arg-type]


Beside = Callable[[Found, Problem | None], tuple[Drive | None, Json]]  # an answer, validation: a drive, what was tried


def driven(problem: Problem, drive: Drive) -> Problem:
    """The same question about a twin that a drive moves."""
    scenes = {id(each.scene): each.scene.driven(drive) for each in problem.experiments}
    return replace(problem, experiments=tuple(replace(e, scene=scenes[id(e.scene)]) for e in problem.experiments))


def solve(
    problem: Problem,
    method: Method,
    rng: np.random.Generator,
    *,
    point: Point | None = None,
    starts: int = 1,
    progress: Progress = quiet,
    keep: Checkpoint | None = None,
    profiles: Profiles | None = None,
) -> Found:
    """The answer to a problem. This is the whole method; `infer` adds what belongs to artifacts."""
    with threadpool_limits(1, user_api="blas"):
        return _solve(problem, method, rng, point or GaussNewton(), starts, progress, keep, profiles)


def _solve(
    problem: Problem,
    method: Method,
    rng: np.random.Generator,
    point: Point,
    starts: int,
    progress: Progress,
    keep: Checkpoint | None,
    profiles: Profiles | None,
) -> Found:
    warnings = suspicious(problem.experiments)
    progress(0, "looking for the delay", None)
    tries, rngs, scan, told = candidates(problem, starts, rng)
    fitted, costs = best_start(problem, point, tries, rngs, progress, keep, profiles)
    check_started(fitted)
    progress(0, f"drawing: {method.name}", None)
    drawn = _drawn(problem, fitted, method, rng, progress, keep)
    draws, population = _values(problem, fitted, drawn, rng)
    horizons_s = predict.horizons_for(problem)
    some = drawn.unknowns[rng.permutation(len(drawn.unknowns))[:SHOWN_DRAWS]]
    progress(0, "predicting left-out episodes", None)
    model_error = predict.discrepancy(fitted, some, horizons_s)
    diagnostics = diagnostics_of(fitted, drawn, warnings, scan, told, costs)
    return Found(problem, fitted, drawn, draws, population, model_error, diagnostics)


def _drawn(
    problem: Problem, fitted: Fit, method: Method, rng: np.random.Generator, progress: Progress, keep: Checkpoint | None
) -> Draws:
    """The draws, or those that were kept, with the random numbers where they then stood."""
    if keep is None:
        return method.infer(problem, fitted, rng, progress)
    kept = keep.load("draws")
    if kept is not None:
        resume(rng, kept["rng"])
        return Draws.of_arrays(kept)
    drawn = method.infer_kept(problem, fitted, rng, progress, keep)
    keep.save("draws", drawn.arrays() | {"rng": chance(rng)})
    return drawn


def _values(
    problem: Problem, fitted: Fit, drawn: Draws, rng: np.random.Generator
) -> tuple[np.ndarray, Population | None]:
    """Draws of the parameters (N, P) in SI, and the family of objects where parameters differ between them."""
    count = len(drawn.unknowns)
    scaled = np.empty((count, len(problem.ids)))
    for p, id in enumerate(problem.ids):
        if id not in problem.own:
            scaled[:, p] = drawn.unknowns[:, problem.columns[0, p]]
    population: Population | None = None
    keys = sorted(set(problem.own.values()), key=lambda key: key == EPISODE)  # a family of objects before episodes
    for key in keys:
        places = [p for p, id in enumerate(problem.ids) if problem.own.get(id) == key]
        made = _family(problem, fitted, key, places, count, rng)
        scaled[:, places] = made.centre if population is None else made.new
        if population is None:
            infos = [problem.beliefs[p].info for p in places]
            member = np.stack([info.from_scale(made.members[:, :, k]) for k, info in enumerate(infos)], axis=2)
            new = np.stack([info.from_scale(made.new[:, k]) for k, info in enumerate(infos)], axis=1)
            ids = tuple(problem.ids[p] for p in places)
            limits = np.array([[info.low, info.high] for info in infos])
            population = Population(
                key, problem.instances(key), ids, np.clip(member, *limits.T), np.clip(new, *limits.T)
            )
    values = np.stack([b.info.from_scale(scaled[:, p]) for p, b in enumerate(problem.beliefs)], axis=1)
    low, high = np.array([[b.info.low, b.info.high] for b in problem.beliefs]).T
    return np.clip(values, low, high), population


def _family(
    problem: Problem, fitted: Fit, key: str, places: Sequence[int], count: int, rng: np.random.Generator
) -> Family:
    """The hierarchical posterior of parameters that differ by one label, from each object's estimate and covariance."""
    covariance = covariance_of(fitted)
    wide = widening(fitted, covariance)
    covariance = covariance * np.outer(wide, wide)
    rows = []
    for instance in problem.instances(key):
        e = next(e for e, each in enumerate(problem.experiments) if problem.value(each, key) == instance)
        rows.append(problem.columns[e, places])
    estimate = np.stack([fitted.unknowns[row] for row in rows])
    spread = np.stack([covariance[np.ix_(row, row)] + 1e-12 * np.eye(len(row)) for row in rows])
    low, high = problem.span
    return family(estimate, spread, problem.width[rows[0]], (low[rows[0]], high[rows[0]]), count, rng)
