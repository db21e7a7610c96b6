"""What a training run stands on: the twin, the ranges, the task, and the policies or recordings that it learns from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from twinproof.nouns.actor import Actor
from twinproof.nouns.drive import Drive
from twinproof.nouns.errors import ConfigError
from twinproof.nouns.hashing import content_hash
from twinproof.nouns.policy import Policy, require_same
from twinproof.nouns.randomization import Randomization
from twinproof.nouns.split import Split
from twinproof.nouns.theta import Theta
from twinproof.nouns.twin import Twin
from twinproof.policies.load import actor_of
from twinproof.policies.safety import Safety
from twinproof.policies.safety_file import read_safety
from twinproof.sim.scene import Scene
from twinproof.tasks.arena import Arena, Play
from twinproof.tasks.conditions import delays_s
from twinproof.tasks.experts import expert_by_name
from twinproof.tasks.eyes import SplatEyes, with_pictures
from twinproof.tasks.home import Stated, home_of
from twinproof.tasks.machine import Machine
from twinproof.tasks.model_error import kicks_of
from twinproof.tasks.named import task_named
from twinproof.tasks.task import TaskSpec
from twinproof.train.actors import FastSac, FastTd3
from twinproof.train.costs import Costs, costs_of
from twinproof.train.images import Seeing
from twinproof.train.imitate import Dagger, DaggerLearner, Fit
from twinproof.train.latent import Latent, LatentLearner
from twinproof.train.lessons import Lessons, lessons_of
from twinproof.train.loop import Learner
from twinproof.train.offpolicy import OffPolicy, OffPolicyLearner
from twinproof.train.ppo import PLAIN, Ppo, PpoLearner
from twinproof.train.stages import StagedLearner, Stages, stage_thetas
from twinproof.train.vec_env import Base, Dress, VecEnv

FRESH = 3_000_009  # stages are judged with draws and starts that nothing else has
SEEING = ("ppo", "dagger", "clone", "student")  # what learns from pictures
OFFERED = ("ppo", "teacher", "rma", "progressive", "residual")  # what learns from a reward in `twinproof train`
PAYING = (*OFFERED, "fasttd3", "fastsac")  # and for the bench alone
ON_GPU = ("ppo", "teacher", "rma", "fasttd3", "fastsac", "progressive")


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
    judged: int | None = None
    cameras: tuple[str, ...] = ()
    pixels: int = 64
    model_error: bool = False
    updates: int = 400
    input_noise: float = 0.02
    mix: float = 0.5
    spread: float = 0.05
    safety: Path | None = None
    drive: bool = True
    coarse: int = 1

    def __post_init__(self) -> None:
        needs = {"student": ("teacher", self.teacher), "residual": ("base", self.base)}
        if self.algo in needs and needs[self.algo][1] is None:
            name = needs[self.algo][0]
            raise ConfigError(f"--algo {self.algo} needs a policy to stand on. Give it with --{name} POLICY.")
        for name in ("worlds", "steps", "seeds", "history", "judged", "updates", "coarse"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ConfigError(f"--{name} is {getattr(self, name)}; at least 1 is needed.")
        if not self.hidden or min(self.hidden) < 1:
            raise ConfigError(
                "--hidden has no width, or one below 1. Give the width of each hidden layer: --hidden 128 128."
            )
        if self.history > 1 and self.algo not in ("dagger", "clone", "student", "rma"):
            raise ConfigError(
                f"--history {self.history} is for dagger, clone, student and rma; {self.algo} sees one tick."
            )
        if self.algo == "rma" and (self.history < 2 or self.target is not None):
            raise ConfigError(
                "--algo rma feels the parameters in a history, after a first phase of a fixed length. Give --history, "
                "such as 16, and no --target."
            )
        if self.algo == "progressive" and (self.randomization is None or self.target is not None):
            raise ConfigError(
                "--algo progressive goes from the nominal model to the ranges of a calibration, and ends with its "
                "steps. Give a RANDOMIZATION folder, and no --target."
            )
        if self.model_error and self.algo == "progressive":
            raise ConfigError(
                "--algo progressive draws its worlds stage by stage, and no model error is played in those. Leave "
                "--model-error out."
            )
        if self.device != "cpu" and self.algo not in ON_GPU:
            raise ConfigError(f"--algo {self.algo} trains on the CPU only. Leave --device out.")
        if self.cameras and (self.algo not in SEEING or self.split is not None):
            raise ConfigError(
                f"--cameras are for {', '.join(SEEING)} without --split: recordings' pictures are not cloned, and "
                f"{self.algo} learns from numbers."
            )
        if not 0 <= self.mix <= 1 or not 0 <= self.input_noise < 1:
            raise ConfigError(
                f"--mix is {self.mix:g} and --input-noise {self.input_noise:g}; both are shares from 0 to 1."
            )
        if self.safety is not None and self.algo not in PAYING:
            raise ConfigError(
                f"--safety is what {', '.join(OFFERED)} pay for; {self.algo} has no reward. Leave it out."
            )
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
    eyes: SplatEyes | None = None  # where the policy sees pictures
    dress: Dress | None = None  # how pictures are changed for training
    safety: Safety | None = None  # limits that will be kept at deployment

    @staticmethod
    def of(asked: Asked, dress: Dress | None = None) -> Ground:
        """Reads everything that was asked for."""
        twin = Twin.load(asked.twin)
        draws = ranges_of(twin, asked.randomization)
        if draws is not None and asked.strength != 1.0:
            draws = draws.at(asked.strength)
        task = task_named(asked.task, twin, home=home_of(asked.home, twin), relative=asked.relative)
        if asked.model_error and not kicks_of(draws, task.machine).any():
            raise ConfigError(
                f"--model-error: {asked.randomization or 'no ranges, and nothing else,'} states none that grows with "
                "time of a joint that the task drives, so that nothing would be played. Leave it out."
            )
        if asked.coarse > 1 and (steps := task.machine.substeps) % asked.coarse:
            fits = [str(n) for n in range(2, steps + 1) if steps % n == 0]
            raise ConfigError(
                f"--coarse {asked.coarse}: a tick of this task is {steps} physics steps, which cannot be taken "
                f"{asked.coarse} at a time. Fitting would be {', '.join(fits) or 'none'}."
            )
        expert = expert_by_name(asked.task, task, _known(draws))
        other = asked.teacher if asked.algo == "student" else asked.base if asked.algo == "residual" else None
        policy = None if other is None else Policy.load(other)
        if policy is not None and asked.algo == "student":
            require_same(task.contract, policy.contract, f"the teacher {asked.teacher}")
        elif policy is not None:
            require_same(task.deployable, policy.contract, f"the base {asked.base}")
        split = Split.load(asked.split) if asked.split and asked.algo in ("clone", "dagger") else None
        lessons = None if split is None else lessons_of(split.parts()[0], task, asked.history)
        safety = None if asked.safety is None else _limits(asked.safety, task.machine)
        found = Ground(asked, twin, draws, task, expert, policy, split, lessons, dress=dress, safety=safety)
        if not asked.cameras:
            return found
        eyes = SplatEyes(twin, asked.cameras, width=asked.pixels)
        return replace(found, eyes=eyes, task=with_pictures(task, eyes, tracker=False))

    def blind(self) -> Ground:
        """The same without pictures: what an expert is tried in."""
        asked = replace(self.asked, cameras=())
        task = task_named(asked.task, self.twin, home=home_of(asked.home, self.twin), relative=asked.relative)
        return replace(self, asked=asked, eyes=None, task=task)

    @property
    def drive(self) -> Drive | None:
        """What moves the worlds beside their parameters: as identified, where the ranges carry it and it is wanted."""
        return None if self.draws is None or not self.asked.drive else self.draws.drive

    @property
    def costs(self) -> Costs:
        """What breaking a limit costs: the robot's own, and those of --safety."""
        return Costs() if self.safety is None else costs_of(self.safety, self.task.machine)

    @property
    def limits(self) -> dict[str, str]:
        """The hash of the limits of --safety, where there are any."""
        return {} if self.safety is None else {"safety": content_hash(self.safety.told())}

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

    def arena(
        self, count: int, seed: int, draws: Sequence[Theta] = (), delays: tuple[float, float] = (0, 0), coarse: int = 1
    ) -> Arena:
        """An arena for judging, or with another seed for training, then in physics as coarse as was asked; of the
        ranges, where no draws are given. It has room for `delays` in seconds, of commands and of sensors, and for
        those of its draws."""
        play = Play(privileged=bool(self.task.contract.privileged), model_error=self.asked.model_error)
        scene = Scene.of(self.twin, self.drive).reserving(*delays).coarser(coarse)
        of, device = draws or self.draws, self.asked.device
        return Arena(scene, self.task, count, draws=of, seed=seed, play=play, device=device, eyes=self.eyes)

    def learner(self, seed: int) -> Learner:
        """The algorithm that was asked for, in worlds of its own."""
        asked, arena = self.asked, self.arena(self.asked.worlds, seed, coarse=self.asked.coarse)
        ppo = Ppo(hidden=asked.hidden)
        fit = Fit(asked.updates, hidden=asked.hidden, history=asked.history, noise=asked.input_noise)
        match asked.algo:
            case "ppo":
                env = VecEnv(arena, asked.device, costs=self.costs, dress=self.dress)
                return PpoLearner(env, ppo, seed, PLAIN if self.eyes is None else Seeing())
            case "teacher":
                return PpoLearner(VecEnv(arena, asked.device, costs=self.costs, teacher=True), ppo, seed)
            case "rma":
                env, latent = VecEnv(arena, asked.device, costs=self.costs), Latent(history=asked.history)
                return LatentLearner(env, ppo, latent, seed, asked.steps)
            case "fasttd3" | "fastsac":
                way, how = FastTd3() if asked.algo == "fasttd3" else FastSac(), OffPolicy(hidden=asked.hidden)
                return OffPolicyLearner(VecEnv(arena, asked.device, costs=self.costs), way, how, seed)
            case "progressive":
                return self._staged(ppo, seed)
            case "residual":
                assert self.other is not None
                on = Base(actor_of(self.other), asked.share)
                return PpoLearner(VecEnv(arena, costs=self.costs, on=on), ppo, seed)
            case "student":
                assert self.other is not None
                return DaggerLearner(VecEnv(arena, dress=self.dress), actor_of(self.other), Dagger(fit), seed)
            case "clone" if self.lessons is not None:
                return DaggerLearner(VecEnv(arena), None, Dagger(fit), seed, self.lessons.rows)
            case _:
                if self.expert is None:
                    raise ConfigError(f"--algo {asked.algo} learns from an expert, and {asked.task} has none. Use ppo.")
                mix = 1.0 if asked.algo == "clone" else asked.mix
                shown = None if self.lessons is None else self.lessons.rows
                env = VecEnv(arena, dress=self.dress)
                return DaggerLearner(env, self.expert, Dagger(fit, mix=mix, spread=asked.spread), seed, shown)

    def _staged(self, ppo: Ppo, seed: int) -> StagedLearner:
        """Worlds of every stage, on the device; those that judge on the CPU, with draws of their own."""
        assert self.draws is not None
        asked, stages, cpu = self.asked, Stages(), replace(self, asked=replace(self.asked, device="cpu"))
        train, fresh = (stage_thetas(self.draws, self.task, stages, s) for s in (seed, seed + FRESH))
        delays = delays_s([theta for each in (*train, *fresh) for theta in each])
        arenas = [self.arena(asked.worlds, seed, each, delays, asked.coarse) for each in train]
        envs = [VecEnv(arena, asked.device, costs=self.costs) for arena in arenas]
        panels = [cpu.arena(stages.judged, seed + FRESH, each, delays) for each in fresh]
        return StagedLearner(envs, panels, self.task.deployable, stages, ppo, seed)


def _limits(path: Path, machine: Machine) -> Safety:
    asked = (machine.joints, machine.limits, machine.rate_hz, machine.scene, machine.torque_driven)
    return read_safety(path, *asked)


def _known(draws: Randomization | None) -> Theta:
    """What an expert is told of the robot: the points of its ranges. An arm whose encoders are off by degrees misses
    what it reaches for, unless its script knows by how much."""
    if draws is None:
        return Theta()
    told = [entry for entry in draws.ranges if entry.gap == "dynamics" or entry.id.endswith(".offset")]
    return Theta({entry.id: entry.point for entry in told})


def ranges_of(twin: Twin, folder: Path | None) -> Randomization | None:
    """The ranges in a folder, which are this twin's."""
    if folder is None:
        return None
    found = Randomization.load(folder)
    found.check_twin(twin.hash)
    return found


def open_arena(
    twin: Path, task: str, count: int, randomization: Path | None = None, home: Stated = (), seed: int = 0
) -> Arena:
    """An arena of a twin's folder with a task by its name; ended worlds begin anew by themselves."""
    scene = Twin.load(twin)
    draws = ranges_of(scene, randomization)
    return Arena(
        scene, task_named(task, scene, home=home_of(home, scene), relative=True), count, draws=draws, seed=seed
    )
