"""Laws over all actors: same in, same out; worlds on their own; a reset forgets; the contract's shapes are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import pytest

from tests.policies import nets, servers
from twinproof.nouns.actor import Actor
from twinproof.nouns.policy import Policy
from twinproof.policies.chunks import Chunked, Delayed, Ensembled, Latency
from twinproof.policies.load import actor_of
from twinproof.policies.scripted import Scripted
from twinproof.policies.served import ServedActor
from twinproof.policies.server import Received, Sent, Server, served_policy
from twinproof.policies.timing import Timed
from twinproof.train.onnx_export import onnx_bytes


def chunks() -> Actor:
    return actor_of(nets.policy([nets.WIDTH, 16, 10], contract=nets.contract(chunk=5)))


def exported() -> Actor:
    scales = {"input.mean": np.zeros(nets.WIDTH, np.float32), "input.sd": np.ones(nets.WIDTH, np.float32)}
    weights = {**nets.weights_of(nets.mlp([nets.WIDTH, 16, 2])), **scales}
    ours = nets.policy([nets.WIDTH, 16, 2], weights=weights)
    graph = np.frombuffer(onnx_bytes(ours), np.uint8)
    return actor_of(Policy("onnx", ours.contract, {}, {}, {"graph": graph}))


def script(seen: Mapping[str, np.ndarray]) -> np.ndarray:
    return seen["joints"][:, :2] * 0.1 + seen["time"][:, None]


ACTORS: dict[str, Callable[[], Actor]] = {
    "mlp": lambda: actor_of(nets.policy([nets.WIDTH, 16, 2])),
    "mlp with history": lambda: actor_of(nets.policy([4 * nets.WIDTH, 16, 2], contract=nets.contract(history=4))),
    "mlp with chunks": chunks,
    "recurrent": lambda: actor_of(nets.gru_policy()[0]),
    "onnx": exported,
    "scripted": lambda: Scripted(nets.contract(), script),
    "chunked": lambda: Chunked(chunks(), execute=2),
    "chunked, remembering": lambda: Chunked(actor_of(nets.gru_policy()[0]), remembers=True),
    "ensembled": lambda: Ensembled(chunks()),
    "delayed": lambda: Delayed(chunks(), Latency((0.05, 0.1)), execute=2),
    "timed": lambda: Timed(chunks()),
}


@contextmanager
def served() -> Iterator[Actor]:
    """The script behind a server that speaks openpi's framing over loopback."""

    def talk(connection, message):
        seen = {name: array[None].astype(np.float64) for name, array in message.items()}
        connection.send(servers.openpi_pack({"actions": script(seen)}))

    with servers.openpi(talk) as address:
        send = tuple(Sent((channel.name,), channel.name) for channel in nets.CHANNELS)
        server = Server(address, "openpi", send, (Received(("actions",)),), wild=99.0)
        actor = ServedActor(served_policy(server, nets.contract()))
        yield actor
        actor.close()


@pytest.fixture(params=[*ACTORS, "served"])
def actor(request) -> Iterator[Actor]:
    if request.param == "served":
        with served() as behind:
            yield behind
    else:
        yield ACTORS[request.param]()


def run(actor: Actor, count: int, steps: int = 4, seed: int = 0) -> np.ndarray:
    actor.reset(count, seed=3)
    return np.stack([actor.act(nets.observations(count, seed + step)) for step in range(steps)])


def test_the_shapes_of_the_contract_are_kept(actor):
    for count in (1, 3):
        given = run(actor, count)
        assert given.shape == (4, count, actor.contract.chunk, len(actor.contract.actions))
        assert given.dtype == np.float64
        assert np.isfinite(given).all()


def test_the_same_observations_give_the_same_actions(actor):
    assert (run(actor, 3) == run(actor, 3)).all()


def test_what_one_world_sees_changes_no_other(actor):
    before = run(actor, 3)
    actor.reset(3, seed=3)
    after = []
    for step in range(4):
        seen = nets.observations(3, step)
        after.append(actor.act({name: np.concatenate([a[:1], a[1:2] + 1, a[2:]]) for name, a in seen.items()}))
    other = np.stack(after)
    assert (other[:, [0, 2]] == before[:, [0, 2]]).all()
    assert (other[:, 1] != before[:, 1]).any()


def test_a_reset_forgets_in_its_worlds_alone(actor):
    wanted = run(actor, 2, steps=3, seed=50)
    straight = run(actor, 2, steps=6, seed=47)
    actor.reset(2, seed=3)
    for step in range(3):
        actor.act(nets.observations(2, 47 + step))
    actor.reset(2, seed=3, which=np.array([True, False]))
    given = np.stack([actor.act(nets.observations(2, 50 + step)) for step in range(3)])
    assert (given[:, 0] == wanted[:, 0]).all()
    assert (given[:, 1] == straight[3:, 1]).all()


def test_observations_are_left_unchanged(actor):
    seen = nets.observations(2)
    kept = {name: array.copy() for name, array in seen.items()}
    actor.reset(2, seed=0)
    given = actor.act(seen)
    given[:] = 0
    assert all((seen[name] == kept[name]).all() for name in kept)


def test_what_is_given_is_the_callers_own(actor):
    actor.reset(1, seed=0)
    first = actor.act(nets.observations(1, 0))
    kept = first.copy()
    actor.act(nets.observations(1, 1))
    assert (first == kept).all()
