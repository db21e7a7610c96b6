"""The search for an experiment: random series made to fill the limits, the best of them refined, checked and told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from twinproof.identify.excitation import Design, Excitation, Judge, Today
from twinproof.identify.excite_information import Motions, Rehearsal
from twinproof.identify.excite_limits import Margins, MotionLimits, shares, too_near
from twinproof.identify.trajectory import Series
from twinproof.nouns.errors import ConfigError, PosteriorError
from twinproof.nouns.progress import Progress, quiet
from twinproof.nouns.trajectory import Trajectory
from twinproof.sim.free_air import Clearance
from twinproof.sim.parameters.base import names
from twinproof.sim.scene import Scene

UNSEEN = 1e-4  # information times today's variance: below it an experiment says nothing of a parameter
BEYOND, STEEP = 0.5, 20.0  # what leaving a limit costs at once, and for each share of the limit
HOPELESS = 0.5  # so far beyond a limit a candidate is not worth its information
JOINING = 2  # draws that join those that bound, at most, after each part of the search
ROUNDS = 3  # of making a candidate larger or smaller
MARGIN = 0.97  # the search keeps within this share of every limit; fresh draws use the rest
SMALLER = 0.95  # how the chosen one shrinks while a fresh draw leaves the limits


def unexcited(ids: Sequence[str]) -> PosteriorError:
    """The error about parameters that nothing here can show."""
    return PosteriorError(
        f"no motion of the robot in free air that keeps the limits says anything of {', '.join(ids)}. Record what does "
        "(pushes, lifts, drops), let more joints move, or leave it out."
    )


def _no_room() -> ConfigError:
    return ConfigError(
        "no series keeps the limits under all of today's draws: even small motions leave them. Widen the limits, "
        "choose a home where the robot rests, or learn more of it first (a recording of gentle motions)."
    )


def _later(tell: Callable[[int, float], None], before: int, generation: int, score: float) -> None:
    tell(before + generation, score)


def home_of(model: Any) -> np.ndarray:
    """Where a model rests: its first keyframe, or its zero."""
    return np.array(model.key_qpos[0] if model.nkey else model.qpos0, dtype=np.float64)


class Around:
    """What stands around the robot: how near its motions come to it."""

    def __init__(self, scene: Scene, model: Any, home: np.ndarray, limits: MotionLimits) -> None:
        whole: Any = scene.leaner().nominal()
        self._base, self._places = home_of(whole), []
        for j, name in enumerate(names(model, "joint")):
            first = int(model.jnt_qposadr[j])
            end = int(model.jnt_qposadr[j + 1]) if j + 1 < model.njnt else model.nq
            there = int(whole.jnt_qposadr[names(whole, "joint").index(name)])
            self._places += [(k, there + k - first) for k in range(first, end)]
        self.clearance = Clearance(scene, self._whole(home[None])[0], limits.clearance_m)

    def _whole(self, qpos: np.ndarray) -> np.ndarray:
        """The robot's positions (T, nq) among everything else, which stays where the scene has it."""
        found = np.tile(self._base, (len(qpos), 1))
        mine, there = np.array(self._places).T
        found[:, there] = qpos[:, mine]
        return found

    def excess(self, qpos: np.ndarray, sample_s: float) -> float:
        """How much too near a motion (samples, nq) comes; 0 is not at all."""
        return too_near(self.clearance, self._whole(qpos[:: max(1, int(0.04 / sample_s))]))


class Search:
    """One search: candidates made, judged under some of today's draws, and the best one checked under others."""

    def __init__(
        self,
        how: Design,
        series: Series,
        rehearsals: tuple[Rehearsal, Rehearsal],
        today: Today,
        judge: Judge,
        around: Around,
        rng: np.random.Generator,
    ) -> None:
        self.how, self.series, self.today, self.judge, self.around = how, series, today, judge, around
        self.rough, self.exact = rehearsals
        self.limits, self.rng = self.exact.limits, rng
        order = rng.permutation(len(today.draws))
        # the centre is among those that judge; the others show how the experiment goes if the centre is wrong
        centre = today.draws.mean(axis=0)[None]
        self.bounding = np.concatenate([centre, today.draws[order[: how.bounding - 1]]])
        self.judging, self.predicting = self.bounding[: how.draws], self.bounding[: 2 * how.draws]
        self.checking = today.draws[order[how.bounding - 1 :][: how.checks]]
        self.told = np.zeros(len(self.exact.ids))  # the most that any candidate tells of each unknown
        self.tried = 0

    def run(self, progress: Progress = quiet) -> Excitation:
        """Searches, checks and tells."""
        total = self.how.evolution.generations + 2
        firsts = self.series.random(self.rng, self.how.first)
        scores = self.score(firsts)
        best = int(np.argmax(scores))
        if not self.told.any():
            raise _no_room()
        unseen = [self.exact.ids[k] for k in self.judge.named if self.told[k] < UNSEEN]
        if unseen:
            raise unexcited(unseen)

        def tell(generation: int, score: float) -> None:
            progress(1 + generation, f"{np.exp(max(score, 0)):.2f} times narrower", total)

        tell(0, float(scores[best]))
        point = self._refined(firsts[best], float(scores[best]), tell)
        result = self._told_of(self._kept_within(self._filling(point[None])[0]))
        progress(total, f"{result.gain:.2f} times narrower", total)
        return result

    def _refined(self, point: np.ndarray, score: float, tell: Callable[[int, float], None]) -> np.ndarray:
        """The best shape. Fresh draws that it breaks the limits under join those that bound, and the search goes on."""
        evolution, rest = self.how.evolution, self.checking
        done = 0
        for part in (0.6, 0.8, 1.0):
            last = max(round(part * evolution.generations), done + 1)
            more = replace(evolution, generations=last - done)
            point, score = more.climb(self.score, point, score, self.rng, partial(_later, tell, done))
            done = last
            motions = self.exact.motions(rest, self.series.commands(self._filling(point[None])))
            used = shares(self.limits, motions.qpos, motions.qvel, motions.force).max(axis=(1, 2, 3))
            worst = np.argsort(-used)[:JOINING]
            worst = worst[used[worst] > 1]
            if not worst.size or len(worst) == len(rest):
                break
            self.bounding = np.concatenate([self.bounding, rest[worst]])
            rest = np.delete(rest, worst, axis=0)
            score = float(self.score(point[None])[0])
        return point

    def score(self, points: np.ndarray) -> np.ndarray:
        """What candidates (C, width) are worth when each is as large as the limits allow."""
        step = self.how.at_once
        parts = [self._filling(points[k : k + step]) for k in range(0, len(points), step)]
        return np.concatenate([self.worth(self.series.commands(part)) for part in parts])

    def worth(self, commands: np.ndarray) -> np.ndarray:
        """The gain of commands (C, T, J), the mean over the judging draws, less what leaving the limits costs."""
        self.tried += len(commands)
        excess, motions = self.excess(commands, self.bounding)
        score = np.where(excess > 0, -BEYOND - STEEP * np.minimum(excess, 1e3), 0.0)
        worth = np.flatnonzero(excess < HOPELESS)
        if worth.size:
            score[worth] += self._gains(commands[worth], motions.of(worth)).mean(axis=0)
        return score

    def _gains(self, commands: np.ndarray, some: Motions) -> np.ndarray:
        found = []
        variance = np.diag(np.linalg.inv(self.judge.precision))
        for d, draw in enumerate(self.judging):
            told = self.today.straight(self.rough.information(draw, commands, some, d), draw)
            self.told = np.maximum(self.told, np.einsum("cii->ci", told.information).max(axis=0) * variance)
            found.append(self.judge.gain(told))
        return np.array(found)

    def _filling(self, points: np.ndarray) -> np.ndarray:
        """The same shapes, each as large as the limits allow under the bounding draws: more motion tells more."""
        points = self.series.fitted(points)
        open_ = np.arange(len(points))
        for _ in range(ROUNDS):
            used, near, _ = self._used(self.series.commands(points[open_]), self.bounding)
            factor = np.clip((0.99 * MARGIN / np.maximum(used, 1e-9)) ** 0.8, 0.3, 2.0)
            factor = np.where(near > 0, np.minimum(factor, 0.8), factor)
            moved = self.series.fitted(points[open_] * factor[:, None])
            # done where the limits are nearly filled, and where the commands' own limits stop all growth
            settled = (used <= MARGIN) & (used > 0.93 * MARGIN) & (near == 0)
            settled |= np.isclose(moved, points[open_], rtol=1e-3).all(axis=1)
            points[open_[~settled]] = moved[~settled]
            open_ = open_[~settled]
            if not len(open_):
                break
        return points

    def _used(
        self, commands: np.ndarray, draws: np.ndarray, exact: bool = False
    ) -> tuple[np.ndarray, np.ndarray, Motions]:
        """The largest share of any limit that each candidate uses under any draw, and by how much it comes too near."""
        motions = (self.exact if exact else self.rough).motions(draws, commands)
        used = shares(self.limits, motions.qpos, motions.qvel, motions.force).max(axis=(0, 2, 3))
        near = np.zeros(len(commands))
        for c in np.flatnonzero(used < 1 + HOPELESS):
            near[c] = max(self.around.excess(motions.qpos[d, c], motions.sample_s) for d in range(len(draws)))
        return used, near, motions

    def excess(self, commands: np.ndarray, draws: np.ndarray, exact: bool = False) -> tuple[np.ndarray, Motions]:
        """How far each candidate leaves the limits under any of the draws, and its motions."""
        used, near, motions = self._used(commands, draws, exact)
        return np.maximum(used / (1.0 if exact else MARGIN) - 1, 0.0) + near, motions

    def _kept_within(self, point: np.ndarray) -> np.ndarray:
        """The best candidate, made smaller until the limits hold under fresh draws too."""
        for _ in range(60):
            if not self.excess(self.series.commands(point[None]), self.checking, exact=True)[0].any():
                return point
            point = point * SMALLER
        raise _no_room()

    def _told_of(self, point: np.ndarray) -> Excitation:
        commands = self.series.commands(point[None])
        motions = self.exact.motions(self.predicting, commands)
        told = [
            self.today.straight(self.exact.information(draw, commands, motions, d), draw)
            for d, draw in enumerate(self.predicting)
        ]
        after = [np.sqrt(np.diag(self.judge.covariance(each)[0])) * self.judge.sd_now for each in told]
        sd_after = np.exp(np.log(after).mean(axis=0))
        checked = self.exact.motions(self.checking, commands)
        used = shares(self.limits, checked.qpos, checked.qvel, checked.force)[:, 0].max(axis=0)
        near = max(self.around.excess(each[0], checked.sample_s) for each in checked.qpos)
        ids, named = self.exact.ids, self.judge.named
        weak = [ids[k] for k in named[self.judge.sd_now < 1.1 * sd_after]]
        return Excitation(
            trajectory=self.trajectory(commands[0]),
            criterion=self.how.criterion,
            parameters=tuple(ids[k] for k in named),
            relative=tuple(bool(self.exact.beliefs[k].info.log or self.today.relative[k]) for k in named),
            sd_now=self.judge.sd_now,
            sd_after=sd_after,
            gain=float(np.exp(np.mean([self.judge.gain(each)[0] for each in told]))),
            margins=tuple(
                Margins(n, *(float(x) for x in row)) for n, row in zip(self.limits.joints, used, strict=True)
            ),
            clearance_m=self.limits.clearance_m * (1 - near),
            candidates=self.tried,
            notes=(f"hardly better known afterwards: {', '.join(weak)}",) if weak else (),
        )

    def trajectory(self, commands: np.ndarray) -> Trajectory:
        """Commands (T, J) with the limits they keep."""
        limits, rate = self.limits, self.how.rate_hz
        low, high = (limits.low, limits.high) if limits.kind == "position" else (-limits.torque, limits.torque)
        speed = limits.speed if limits.kind == "position" else 2 * limits.torque * rate
        about = {
            "made by": "twinproof excite",
            "criterion": self.how.criterion,
            "parameters": [self.exact.ids[k] for k in self.judge.named],
        }
        lowest, highest, fastest = (tuple(float(x) for x in row) for row in (low, high, speed))
        return Trajectory(
            limits.kind, limits.joints, limits.units, rate, lowest, highest, fastest, np.round(commands, 9), about
        )
