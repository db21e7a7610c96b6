"""Our update of PPO is rsl_rl's, minibatch by minibatch, as it is and replayed."""

from __future__ import annotations

import pytest
import torch

from tests.sim.test_replayed import HostTape
from tests.train.test_loop import learner
from twinproof.sim.replayed import Replayed
from twinproof.train.minibatches import Minibatches
from twinproof.train.ppo import Ppo
from twinproof.train.torch_extra import quiet_torch, seed_torch


@pytest.mark.parametrize(("epochs", "minibatches"), [(1, 4), (4, 1)])  # shuffled once; an order that does not matter
@pytest.mark.parametrize("kl", [0.0, 1e-4, 0.5])
def test_it_is_the_update_of_rsl_rl(epochs, minibatches, kl):
    ppo, found = Ppo(rollout=8, epochs=epochs, minibatches=minibatches, hidden=(16, 16), kl=kl, entropy=0.01), []
    for how in ("theirs", "ours", "replayed"):
        with quiet_torch():
            mine = learner(8, ppo)
            mine.rule = mine.algorithm
            if how != "theirs":
                mine._minibatches = Minibatches(mine.algorithm, replayed=False)
            if how == "replayed":
                mine._minibatches._replayed = Replayed(mine._minibatches, mine._minibatches._learn, HostTape)
            seed_torch(5, "test")
            mine.restart(0)
            told = []
            for k in range(4):
                seed_torch(k, "again")  # rsl_rl's update draws actions that it does not use
                told.append(mine.iterate())
            found.append((mine.arrays(), told))
    theirs, curve = found[0]
    for ours, mine_told in found[1:]:
        for name, value in theirs.items():
            torch.testing.assert_close(torch.tensor(ours[name]), torch.tensor(value), rtol=1e-5, atol=1e-6, msg=name)
        for one, other in zip(curve, mine_told, strict=True):
            same = {name: one[name] for name in one if name.startswith(("loss", "spread", "learning"))}
            assert {name: other[name] for name in same} == pytest.approx(same, rel=1e-4, abs=1e-6)
    rates = [line["learning_rate"] for line in curve]
    assert (len(set(rates)) > 1) == (kl > 0)
