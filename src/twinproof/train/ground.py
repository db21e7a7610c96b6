"""What a training run stands on: the twin, the ranges, the task, and the policies or recordings that it learns from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from twinproof.nouns.actor import Actor
from twinproof.nouns.errors import ConfigError
from twinproof.nouns.policy import Policy, require_same
from twinproof.nouns.randomization import Randomization
from twinproof.nouns.split import Split
from twinproof.nouns.theta import Theta
from twinproof.nouns.twin import Twin
from twinproof.policies.load import actor_of
from twinproof.tasks.arena import Arena, Play
from twinproof.tasks.experts import expert_of
from twinproof.tasks.named import home_of, task_named
from twinproof.tasks.task import TaskSpec
from twinproof.train.costs import Costs
from twinproof.train.imitate import Dagger, DaggerLearner, Fit
from twinproof.train.latent import Latent, LatentLearner
from twinproof.train.lessons import Lessons, lessons_of
from twinproof.train.loop import Learner
from twinproof.train.ppo import Ppo, PpoLearner
from twinproof.train.vec_env import Base, VecEnv


@dataclass(frozen=True)
class Asked:
    """The settings of `twinproof train` (cli_train.py says what each means)."""

    twin: Path
    randomization: Path | None
    task: str
    algo: str
    out: Path
    home: tuple[str, ...] = ()
    relative: bool = True
    worlds: int = 256
    steps: int = 1_000_000
    target: float | None = None
    seeds: int = 1
    seed: int = 0
    hidden: tuple[int, ...] = (128, 128)
    history: int = 1
    strength: float = 1.0
    split: Path | None = None
    teacher: Path | None = None
    base: Path | None = None
    share: float = 0.3
    device: str = "cpu"
    onnx: bool = False
    tensorboard: bool = False
    probe: bool = True

    def __post_init__(self) -> None:
        needs = {"student": ("teacher", self.teacher), "residual": ("base", self.base)}
        if self.algo in needs and needs[self.algo][1] is None:
            name = needs[self.algo][0]
            raise ConfigError(f"--algo {self.algo} needs a policy to stand on. Give it with --{name} POLICY.")
        for name in ("worlds", "steps", "seeds", "history"):
            if getattr(self, name) < 1:
                raise ConfigError(f"--{name} is {getattr(self, name)}; at least 1 is needed.")
        if self.history > 1 and self.algo not in ("dagger", "clone", "student", "rma"):
            raise ConfigError(
                f"--history {self.history} is for dagger, clone, student and rma; {self.algo} sees one tick."
            )
        if self.algo == "rma" and (self.history < 2 or self.target is not None):
            raise ConfigError(
                "--algo rma feels the parameters in a history, after a first phase of a fixed length. Give --history, "
                "such as 16, and no --target."
            )
        if self.device != "cpu" and self.algo not in ("ppo", "teacher", "rma"):
            raise ConfigError(f"--algo {self.algo} trains on the CPU only. Leave --device out.")
        if self.target is not None and not 0 < self.target <= 1:
            raise ConfigError(f"--target is {self.target}; it is a share above 0 and at most 1.")


@dataclass(frozen=True, eq=False)
class Ground:
    """What all seeds share."""

    asked: Asked
    twin: Twin
    draws: Randomization | None
    task: TaskSpec
    expert: Actor | None  # a task of the user's own has none
    other: Policy | None = None  # the teacher, or the base
    split: Split | None = None
    lessons: Lessons | None = None  # what its calibration episodes show

    @staticmethod
    def of(asked: Asked) -> Ground:
        """Reads everything that was asked for."""
        twin = Twin.load(asked.twin)
        draws = Randomization.load(asked.randomization) if asked.randomization else None
        if draws is not None and asked.strength != 1.0:
            draws = draws.at(asked.strength)
        task = task_named(asked.task, twin, home=home_of(asked.home), relative=asked.relative)
        expert = None if asked.task.endswith(".py") else expert_of(task, _known(draws))
        other = asked.teacher if asked.algo == "student" else asked.base if asked.algo == "residual" else None
        policy = None if other is None else Policy.load(other)
        if policy is not None and asked.algo == "student":
            require_same(task.contract, policy.contract, f"the teacher {asked.teacher}")
        elif policy is not None:
            require_same(task.deployable, policy.contract, f"the base {asked.base}")
        split = Split.load(asked.split) if asked.split and asked.algo == "clone" else None
        lessons = None if split is None else lessons_of(split.parts()[0], task, asked.history)
        return Ground(asked, twin, draws, task, expert, policy, split, lessons)

    @property
    def parents(self) -> dict[str, str]:
        """Hashes of what a policy comes from."""
        found = {"twin": self.twin.hash}
        if self.draws is not None:
            found["randomization"] = self.draws.hash
        if self.split is not None:
            found["split"] = self.split.hash
        if self.other is not None:
            found["teacher" if self.asked.algo == "student" else "base"] = self.other.hash
        return found

    def arena(self, count: int, seed: int) -> Arena:
        """An arena for training, or for judging with another seed."""
        play = Play(privileged=bool(self.task.contract.privileged))
        return Arena(self.twin, self.task, count, draws=self.draws, seed=seed, play=play, device=self.asked.device)

    def learner(self, seed: int) -> Learner:
        """The algorithm that was asked for, in worlds of its own."""
        asked, arena = self.asked, self.arena(self.asked.worlds, seed)
        ppo = Ppo(hidden=asked.hidden)
        fit = Fit(hidden=asked.hidden, history=asked.history)
        match asked.algo:
            case "ppo":
                return PpoLearner(VecEnv(arena, asked.device, costs=Costs()), ppo, seed)
            case "teacher":
                return PpoLearner(VecEnv(arena, asked.device, costs=Costs(), teacher=True), ppo, seed)
            case "rma":
                env, latent = VecEnv(arena, asked.device, costs=Costs()), Latent(history=asked.history)
                return LatentLearner(env, ppo, latent, seed, asked.steps)
            case "residual":
                assert self.other is not None
                on = Base(actor_of(self.other), asked.share)
                return PpoLearner(VecEnv(arena, costs=Costs(), on=on), ppo, seed)
            case "student":
                assert self.other is not None
                return DaggerLearner(VecEnv(arena), actor_of(self.other), Dagger(fit), seed)
            case "clone" if self.lessons is not None:
                return DaggerLearner(VecEnv(arena), None, Dagger(fit), seed, self.lessons.rows)
            case _:
                if self.expert is None:
                    raise ConfigError(f"--algo {asked.algo} learns from an expert, and {asked.task} has none. Use ppo.")
                mix = 1.0 if asked.algo == "clone" else 0.5
                return DaggerLearner(VecEnv(arena), self.expert, Dagger(fit, mix=mix), seed)


def _known(draws: Randomization | None) -> Theta:
    """What an expert is told of the robot: the points of its ranges. An arm whose encoders are off by degrees misses
    what it reaches for, unless its script knows by how much."""
    if draws is None:
        return Theta()
    told = [entry for entry in draws.ranges if entry.gap == "dynamics" or entry.id.endswith(".offset")]
    return Theta({entry.id: entry.point for entry in told})


def open_arena(
    twin: Path, task: str, count: int, randomization: Path | None = None, home: tuple[str, ...] = (), seed: int = 0
) -> Arena:
    """An arena of a twin's folder with a task by its name; ended worlds begin anew by themselves."""
    scene = Twin.load(twin)
    draws = None if randomization is None else Randomization.load(randomization)
    return Arena(scene, task_named(task, scene, home=home_of(home), relative=True), count, draws=draws, seed=seed)
