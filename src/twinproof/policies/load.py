"""From a Policy on disk to something that acts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from twinproof.nouns.actor import Actor
from twinproof.nouns.errors import PolicyError
from twinproof.nouns.policy import Policy


def actor_of(policy: Policy) -> Actor:
    """The actor of a policy. A scripted one, or a planner, is code: construct it and pass it instead."""
    match policy.kind:
        case "mlp" | "recurrent":
            from twinproof.policies.network_actor import NetworkActor

            return NetworkActor(policy)
        case "onnx":
            from twinproof.policies.onnx_actor import OnnxActor

            return OnnxActor(policy)
        case "served":
            from twinproof.policies.served import ServedActor

            return ServedActor(policy)
        case _:
            raise PolicyError(
                f"a policy of kind {policy.kind!r} holds no network: it is code. Construct its actor and pass that."
            )


def read_policy(path: Path) -> Policy:
    """The policy at a path: a Policy folder, a served.toml, or an ONNX graph that states its contract."""
    if path.suffix == ".toml":
        from twinproof.policies.server import read_served

        return read_served(path)
    if path.suffix == ".onnx":
        from twinproof.policies.onnx_actor import onnx_policy

        return onnx_policy(path)
    return Policy.load(path)


@contextmanager
def acting(policy: Policy) -> Iterator[Actor]:
    """The actor of a policy, for the length of a block: a connection that it made is ended afterwards."""
    from twinproof.policies.served import ServedActor

    actor = actor_of(policy)
    try:
        yield actor
    finally:
        if isinstance(actor, ServedActor):
            actor.close()
