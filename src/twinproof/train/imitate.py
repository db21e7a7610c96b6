"""Learning from somebody who knows: cloning, DAgger, and a student that follows a privileged teacher.

round 0    the labeller drives, every world                     ─┐
round k    the student drives (in a share mix^k the labeller),   ├─> rows (history of observations -> labeller's action)
           the labeller says what it would have done            ─┘        └─> the student is fitted to all rows so far

The labeller is any Actor: a scripted expert, or a teacher that sees privileged channels. The student sees what a robot
can measure, over `history` ticks: with it, it can tell a heavy object from a light one. (Ross, Gordon, Bagnell 2011.)
Of pictures it sees the newest.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from twinproof.nouns.actor import Actor
from twinproof.nouns.errors import PolicyError
from twinproof.nouns.hashing import Json
from twinproof.nouns.randomness import stream
from twinproof.train.groups import action_scale, checked_actions
from twinproof.train.images import LOOK, Look, picture_groups, torch_eyes
from twinproof.train.networks import mlp
from twinproof.train.torch_extra import adam_arrays, adam_restored, seed_torch, torch_module
from twinproof.train.vec_env import VecEnv
from twinproof.train.written import Trained

COOLED = 0.01  # of the learning rate is left at the end of a round
SMALLEST_SD = 1e-2  # what never moved in the data does not blow up when it does


@dataclass(frozen=True)
class Fit:
    """How a network is fitted to pairs of observation and action."""

    updates: int = 400  # minibatches a round, drawn from all rows
    batch: int = 512
    learning_rate: float = 1e-3
    hidden: tuple[int, ...] = (128, 128)
    history: int = 1
    noise: float = 0.02  # sd added to scaled inputs, so that the student does not hang on single numbers


@dataclass(frozen=True)
class Dagger:
    """Rounds of driving and labelling. With one round it is cloning of what the labeller does by itself."""

    fit: Fit = Fit()
    ticks: int = 0  # control steps of every world in a round; 0 is a whole episode
    mix: float = 0.5  # the labeller drives a share mix^round of the worlds
    spread: float = 0.05  # sd of the noise on the driven actions, in half widths, so that mistakes are seen
    most_pictures: int = 20_000  # rows that are kept where they hold pictures: some of all rounds, drawn


class Student:
    """A network under way: torch layers, the scale of its input, and Adam; with pictures of `sizes` eyes before it."""

    def __init__(
        self, width: int, outputs: int, fit: Fit, look: Look = LOOK, sizes: Sequence[tuple[int, int]] = ()
    ) -> None:
        torch = torch_module()
        self.fit, self.width = fit, width
        seen = len(sizes) * look.layout.features
        self.net = mlp([width * fit.history + seen, *fit.hidden, outputs])
        self.mean, self.sd = torch.zeros(width), torch.ones(width)
        self.eyes = torch_eyes(look, sizes) if sizes else None
        parts = [*self.net.parameters(), *(self.eyes.parameters() if self.eyes is not None else ())]
        self.optimizer = torch.optim.Adam(parts, lr=fit.learning_rate)

    def __call__(self, rows: Any, pictures: Sequence[Any] = (), noise: float = 0.0) -> Any:
        """y of stacked observations (N, history, width) and the newest pictures; with noise on scaled numbers."""
        torch = torch_module()
        x = ((rows - self.mean) / self.sd).flatten(1)
        x = x + noise * torch.randn_like(x) if noise else x
        return self.net(x if self.eyes is None else torch.cat([x, self.eyes(pictures)], dim=1))

    def scale_to(self, rows: Any) -> None:
        """Takes the scale of the input from data."""
        newest = rows[:, -1]
        self.mean, self.sd = newest.mean(dim=0), newest.std(dim=0).clamp_min(SMALLEST_SD)

    def learn(self, rows: Any, wanted: Any, pictures: Sequence[Any] = ()) -> float:
        """Fits to rows (M, history, width) and wanted outputs (M, A); the mean squared error of the last tenth."""
        torch, losses = torch_module(), []
        for k in range(self.fit.updates):
            self._cool(k / self.fit.updates)
            chosen = torch.randint(len(rows), (self.fit.batch,))
            y = self(rows[chosen], [picture[chosen] for picture in pictures], self.fit.noise)
            loss = ((y - wanted[chosen]) ** 2).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses.append(float(loss.detach()))
        mean = float(np.mean(losses[-max(1, len(losses) // 10) :]))
        if not np.isfinite(mean):
            raise PolicyError(f"the fit to {len(rows)} rows diverged: its loss is {mean}. Lower the learning rate.")
        return mean

    def _cool(self, share: float) -> None:
        """The learning rate falls within a round, as a cosine: small steps find what large ones jump over."""
        fall = COOLED + (1 - COOLED) * 0.5 * (1 + np.cos(np.pi * share))
        for group in self.optimizer.param_groups:
            group["lr"] = self.fit.learning_rate * fall

    def trained(self) -> Trained:
        """The network as it stands."""
        return Trained.of(self.net, self.mean, self.sd, eyes=None if self.eyes is None else self.eyes.seen())

    def arrays(self) -> dict[str, np.ndarray]:
        """Networks, scale and optimiser."""
        found = {f"net.{name}": value for name, value in self.net.state_dict().items()}
        found |= {"mean": self.mean, "sd": self.sd}
        if self.eyes is not None:
            found |= {f"eyes.{name}": value for name, value in self.eyes.state_dict().items()}
        found |= {f"optimizer.{name}": value for name, value in adam_arrays(self.optimizer).items()}
        return {name: value.detach().numpy().copy() for name, value in found.items()}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """The inverse of `arrays`."""
        torch = torch_module()
        tensors = {name: torch.tensor(array) for name, array in arrays.items()}
        self.net.load_state_dict({n.removeprefix("net."): v for n, v in tensors.items() if n.startswith("net.")})
        if self.eyes is not None:
            self.eyes.load_state_dict({n[5:]: v for n, v in tensors.items() if n.startswith("eyes.")})
        self.mean, self.sd = tensors["mean"], tensors["sd"]
        slots = {n.removeprefix("optimizer."): a for n, a in arrays.items() if n.startswith("optimizer.")}
        adam_restored(self.optimizer, slots)


class DaggerLearner:
    """Drives, asks the labeller, and fits; one `iterate` is a round. Rows of all rounds are kept.

    Without a labeller the rows given (from recordings) are all there is, and driving only shows how well it does.
    """

    def __init__(
        self,
        env: VecEnv,
        labeller: Actor | None,
        dagger: Dagger,
        seed: int,
        rows: Rows | None = None,
        look: Look = LOOK,
    ) -> None:
        torch = torch_module()
        seed_torch(seed, "train", "student")
        self.env, self.labeller, self.dagger, self._seed = env, labeller, dagger, seed
        centre, half = action_scale(env.arena.task.contract)
        self._centre, self._half = (torch.as_tensor(v, dtype=torch.float32) for v in (centre, half))
        observed = env.get_observations()
        width, self._pictures = int(observed["policy"].shape[1]), picture_groups(observed)
        sizes = [tuple(observed[group].shape[1:3]) for group in self._pictures]
        self.student = Student(width, env.num_actions, dagger.fit, look, sizes)
        self.rows = rows or Rows.empty(width, env.num_actions, dagger.fit.history, sizes)
        self._round, self._ticks = 0, dagger.ticks or env.arena.task.ticks

    @property
    def steps(self) -> int:
        """Environment steps of one round."""
        return self.env.num_envs * self._ticks

    def restart(self, episode: int) -> None:
        """Begins all worlds at the beginning of an episode: experts plan there."""
        self.env.restart(episode)

    def iterate(self) -> dict[str, float]:
        """One round: drive, label, fit."""
        begun = time.perf_counter()
        torch = torch_module()
        with torch.no_grad():
            self.rows = self._drive(self.labeller) if self.labeller is not None else self._watch()
        collected = time.perf_counter()
        rows, wanted = torch.as_tensor(self.rows.seen), torch.as_tensor(self.rows.wanted)
        if self._round == 0:
            self.student.scale_to(rows)
        loss = self.student.learn(rows, wanted, [torch.as_tensor(each) for each in self.rows.pictures])
        self._round += 1
        told = {"loss/imitation": loss, "rows": float(len(rows))}
        return told | {"collect_s": collected - begun, "learn_s": time.perf_counter() - collected}

    def _watch(self) -> Rows:
        """Lets the student drive, from the second round on."""
        stack = Stack(self.env.get_observations()["policy"], self.dagger.fit.history)
        for _ in range(self._ticks if self._round else 0):
            observed, _, done, _ = self.env.step(self.student(stack.rows, self._shown()))
            stack.add(observed["policy"], done > 0)
        return self.rows

    def _drive(self, labeller: Actor) -> Rows:
        torch, env = torch_module(), self.env
        rng = stream(self._seed, "train", "dagger", f"round{self._round}")
        led = torch.as_tensor(rng.uniform(size=env.num_envs) < self.dagger.mix**self._round)[:, None]
        labeller.reset(env.num_envs, int(rng.integers(2**31)))
        stack = Stack(env.get_observations()["policy"], self.dagger.fit.history)
        parts = [self.rows]
        for _ in range(self._ticks):
            label, shown = self._label(labeller), self._shown()
            parts.append(Rows(stack.rows.numpy().copy(), label.numpy(), tuple(each.numpy().copy() for each in shown)))
            y = torch.where(led, label, self.student(stack.rows, shown)) if self._round else label
            noise = torch.as_tensor(rng.normal(0, self.dagger.spread, tuple(y.shape)), dtype=torch.float32)
            observed, _, done, _ = env.step(y + noise)
            stack.add(observed["policy"], done > 0)
            labeller.reset(env.num_envs, int(rng.integers(2**31)), (done > 0).numpy())
        whole = Rows.joined(parts)
        if not self._pictures or len(whole.seen) <= self.dagger.most_pictures:
            return whole
        return whole.of(np.sort(rng.permutation(len(whole.seen))[: self.dagger.most_pictures]))

    def _shown(self) -> list[Any]:
        """The newest pictures."""
        return [self.env.get_observations()[group] for group in self._pictures]

    def _label(self, labeller: Actor) -> Any:
        torch, env = torch_module(), self.env
        actions = checked_actions(labeller.act(env.seen), env.num_envs, labeller.contract, type(labeller).__name__)
        y = (torch.as_tensor(np.array(actions), dtype=torch.float32) - self._centre) / self._half
        return y.clamp(-1.0, 1.0)  # what the robot would be told

    def trained(self) -> Trained:
        """The student as it stands."""
        return self.student.trained()

    def arrays(self) -> dict[str, np.ndarray]:
        """The student and all rows."""
        pictures = {f"rows.pictures.{k}": each for k, each in enumerate(self.rows.pictures)}
        return self.student.arrays() | {"rows.seen": self.rows.seen, "rows.wanted": self.rows.wanted, **pictures}

    def told(self) -> dict[str, Json]:
        """The round."""
        return {"round": self._round}

    def restore(self, arrays: Mapping[str, np.ndarray], told: Mapping[str, Json]) -> None:
        """The inverse of `arrays` and `told`."""
        self.student.restore({n: a for n, a in arrays.items() if not n.startswith("rows.")})
        pictures = tuple(arrays[f"rows.pictures.{k}"] for k in range(len(self._pictures)))
        self.rows = Rows(arrays["rows.seen"], arrays["rows.wanted"], pictures)
        self._round = int(told["round"])


@dataclass(frozen=True, eq=False)
class Rows:
    """What was seen, (M, history, width), and what should be done, (M, A), in the network's own numbers; pictures
    (M, H, W, 3), one array a camera."""

    seen: np.ndarray
    wanted: np.ndarray
    pictures: tuple[np.ndarray, ...] = ()

    @staticmethod
    def empty(width: int, actions: int, history: int, sizes: Sequence[tuple[int, int]] = ()) -> Rows:
        """None yet."""
        pictures = tuple(np.zeros((0, *size, 3), np.uint8) for size in sizes)
        return Rows(np.zeros((0, history, width), np.float32), np.zeros((0, actions), np.float32), pictures)

    @staticmethod
    def joined(parts: Sequence[Rows]) -> Rows:
        """All rows of some."""
        pictures = tuple(np.concatenate(each) for each in zip(*(part.pictures for part in parts), strict=True))
        seen, wanted = (np.concatenate([getattr(part, name) for part in parts]) for name in ("seen", "wanted"))
        return Rows(seen, wanted, pictures)

    def of(self, which: np.ndarray) -> Rows:
        """Some rows."""
        return Rows(self.seen[which], self.wanted[which], tuple(each[which] for each in self.pictures))


class Stack:
    """The newest observations of each world, newest last; a world that begins anew has its first one in all places."""

    def __init__(self, first: Any, history: int) -> None:
        self.rows = first[:, None].repeat(1, history, 1)

    def add(self, newest: Any, begun: Any) -> None:
        """Takes the next observation in; `begun` marks worlds whose episode has just begun."""
        torch = torch_module()
        moved = torch.cat([self.rows[:, 1:], newest[:, None]], dim=1)
        self.rows = torch.where(begun[:, None, None], newest[:, None].expand_as(moved), moved)
