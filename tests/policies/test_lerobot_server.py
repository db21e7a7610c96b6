"""The script that serves LeRobot policies, run for real in a process of its own and asked by our client.

LeRobot cannot be installed beside us; a package of the same names, with a real small torch network in it, stands in.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from twinproof.nouns.errors import PolicyError
from twinproof.nouns.policy import Channel, Contract
from twinproof.policies.served import ServedActor
from twinproof.policies.server import Received, Sent, Server, read_served, served_policy

EXAMPLE = Path(__file__).parents[2] / "examples" / "lerobot_server"
CONFIGS = """
from dataclasses import dataclass, field

@dataclass
class Feature:
    shape: tuple

@dataclass
class PreTrainedConfig:
    type: str = "toy"
    device: str = ""
    chunk_size: int = 3
    input_features: dict = field(default_factory=lambda: {
        "observation.state": Feature((2,)), "observation.images.front": Feature((3, 4, 6))})

    @classmethod
    def from_pretrained(cls, path):
        return cls()
"""
FACTORY = """
import torch

class Toy(torch.nn.Module):
    @classmethod
    def from_pretrained(cls, path, config):
        made = cls()
        made.asked = 0
        return made

    def reset(self):
        self.asked = 0

    def predict_action_chunk(self, batch):
        assert batch["task"] == "lift", batch["task"]
        eye, state = batch["observation.images.front"], batch["observation.state"]
        assert eye.shape == (1, 3, 4, 6) and 0 <= eye.min() and eye.max() <= 1
        self.asked += 1
        return torch.stack([state * 10 + eye.mean() + k for k in range(3)], dim=1) + 100 * (self.asked - 1)

    def select_action(self, batch):
        return self.predict_action_chunk(batch)[:, 0]

def get_policy_class(name):
    assert name == "toy"
    return Toy

def make_pre_post_processors(config, pretrained_path, preprocessor_overrides):
    assert preprocessor_overrides == {"device_processor": {"device": "cpu"}}

    def after(action):
        assert action.shape == (1, 2)  # one step at a time
        return action / 10

    return (lambda batch: batch), after
"""


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[str]:
    for path, text in (("configs/policies.py", CONFIGS), ("policies/factory.py", FACTORY)):
        (folder / "lerobot" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "lerobot" / path).write_text(text)
    command = [sys.executable, str(EXAMPLE / "serve_lerobot.py"), "--policy", "toy", "--device", "cpu", "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            line = process.stdout.readline()
            assert line.startswith("serving toy at ws://127.0.0.1:")
            yield line.split()[-1]
        finally:
            process.terminate()


def actor(address: str, chunk: int = 3, **changes) -> ServedActor:
    contract = Contract(
        (Channel("q", "rad", shape=(2,)), Channel("front", "", shape=(4, 6, 3))),
        (Channel("a", "rad", -5, 5), Channel("b", "rad", -5, 5)),
        30.0,
        chunk=chunk,
    )
    send = (Sent(("observation.state",), "q"), Sent(("observation.images.front",), "front"))
    given = {"instruction": "lift", "instruction_key": ("task",), "reset": True, "wild": 99.0}
    server = Server(address, "openpi", send, (Received(("actions",)),), **{**given, **changes})
    return ServedActor(served_policy(server, contract))


SEEN = {"q": np.array([[0.1, 0.2]]), "front": np.full((1, 4, 6, 3), 51, np.uint8)}
FIRST = np.array([[0.1, 0.2], [0.2, 0.3], [0.3, 0.4]]) + 0.02


def test_a_lerobot_policy_is_served_told_of_episodes_and_survives_its_own_errors(tmp_path):
    with serving(tmp_path) as address:
        asked = actor(address)
        asked.reset(1, seed=0)
        assert asked.client.about["inputs"] == {"observation.state": [2], "observation.images.front": [3, 4, 6]}
        assert asked.client.about["chunk"] == 3
        np.testing.assert_allclose(asked.act(SEEN)[0], FIRST, atol=1e-6)
        np.testing.assert_allclose(asked.act(SEEN)[0], FIRST + 10, atol=1e-5)  # it remembers
        asked.reset(1, seed=0)
        np.testing.assert_allclose(asked.act(SEEN)[0], FIRST, atol=1e-6)  # and was told to forget
        assert len(asked.client.thought_s) == 3
        asked.close()
        wrong = actor(address, instruction="dance")
        wrong.reset(1, seed=0)
        with pytest.raises(PolicyError, match="failed and says: AssertionError: dance"):
            wrong.act(SEEN)
        asked.reset(1, seed=0)  # the server goes on
        np.testing.assert_allclose(asked.act(SEEN)[0], FIRST, atol=1e-6)
        asked.close()


def test_policies_with_a_queue_of_their_own_give_one_action_a_question(tmp_path):
    with serving(tmp_path, "--select-action") as address:
        asked = actor(address, chunk=1)
        asked.reset(1, seed=0)
        assert asked.client.about["chunk"] == 1
        np.testing.assert_allclose(asked.act(SEEN)[0], FIRST[:1], atol=1e-6)
        asked.close()


def test_the_example_map_is_read():
    policy = read_served(EXAMPLE / "served.toml")
    assert policy.contract.chunk == 100
    assert len(policy.contract.actions) == 6
