"""A tick that is recorded and replayed: state that is bound anew stays where a graph reads it, and nothing differs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch

from tests.train.folders import ranges, scene
from twinproof.nouns.errors import SimError
from twinproof.sim.replayed import WARM, Held, Replayed, Tape
from twinproof.tasks import reach
from twinproof.tasks.arena import Arena, Play
from twinproof.train.vec_env import VecEnv


class HostTape(Tape):
    """A graph as a CPU can play it: every replay runs the work in memory that stays where it was."""

    def __init__(self) -> None:
        self._parts: list[Callable[[], None]] = []

    def warm(self, work: Callable[[], None]) -> None:
        work()

    def record(self, work: Callable[[], None]) -> None:
        self._parts.append(work)

    def replay(self) -> None:
        for part in self._parts:
            part()
            self._parts = [part]  # as a tape on a device grows while it records


@dataclass(frozen=True, eq=False)
class Told:
    command: torch.Tensor
    before: torch.Tensor


class Owner:
    __module__ = "twinproof.of_a_test"

    def __init__(self) -> None:
        self.told = Told(torch.zeros(2), torch.zeros(2))
        self.sums: dict[str, torch.Tensor] = {}
        self.past = [torch.zeros(2), torch.zeros(2)]
        self.ticks: Replayed | None = None

    def tick(self, given: torch.Tensor) -> None:
        self.told = replace(self.told, command=given * 2, before=self.told.command)
        self.past = [self.told.command, self.past[0]]
        self.sums["all"] = self.sums.get("all", torch.zeros(())) + (given + self.past[1]).sum()


Told.__module__ = "twinproof.of_a_test"


def test_what_was_bound_anew_is_written_where_it_was_and_all_of_it_before_any():
    plain, owner = Owner(), Owner()
    owner.ticks = replayed = Replayed(owner, owner.tick, HostTape)
    fixed = None
    for k in range(WARM + 4):
        given = torch.tensor([1.0 + k, 10.0 * k])
        plain.tick(given)
        replayed(given)
        for name, tensor in Held.by(plain).tensors.items():
            torch.testing.assert_close(Held.by(owner).tensors[name], tensor)
        if k >= WARM:  # from now on the objects hold the same tensors for good
            fixed = owner.told.before if fixed is None else fixed
            assert owner.told.before is fixed
    replayed.forget()
    replayed(torch.ones(2))
    assert owner.told.before is not fixed


def test_what_a_graph_could_not_keep_is_refused():
    owner = Owner()

    def grows(given: torch.Tensor) -> None:
        owner.sums[f"tick {len(owner.sums)}"] = given

    def widens(given: torch.Tensor) -> None:
        owner.past = [torch.cat([each, given]) for each in owner.past]

    for work, said in ((grows, "must keep what it holds; sums.tick 3 came or went"), (widens, "past.1 went from")):
        replayed = Replayed(owner, work, HostTape)
        for _ in range(WARM):
            replayed(torch.ones(2))
        with pytest.raises(SimError, match=said):
            replayed(torch.ones(2))


def test_an_environment_that_is_replayed_is_the_same_environment():
    task = reach.of(scene(), horizon_s=0.4)
    play = Play(bank=32, nthread=1)
    envs = [VecEnv(Arena(scene(), task, 6, draws=ranges(), play=play, arrays="torch")) for _ in range(2)]
    for env in envs:  # as on a device: every tick begins worlds anew, be it none
        env.arena.backing.patient = False
    envs[1]._ticks = Replayed(envs[1], envs[1]._advance, HostTape)
    for begin in (2, 5):
        told = [env.restart(begin, spread=True) for env in envs]
        for k in range(60):
            torch.testing.assert_close(told[0], told[1])
            steps = [env.step(torch.full((6, 1), 0.3 + 0.02 * k)) for env in envs]
            told = [step[0] for step in steps]
            for one, other in zip(steps[0][1:3], steps[1][1:3], strict=True):
                torch.testing.assert_close(one, other)
            for one, other in zip(envs[0].after(), envs[1].after(), strict=True):
                torch.testing.assert_close(one, other)
            if k == 17:
                assert envs[0].counted() == pytest.approx(envs[1].counted())
        one, other = (env.counted() for env in envs)
        assert one == pytest.approx(other)
        assert one["ended"] > 0
