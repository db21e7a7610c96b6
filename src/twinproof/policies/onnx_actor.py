"""An ONNX graph as an actor, run by onnxruntime alone on one thread, checked against its contract before it runs.

inputs    one for each observation of the contract, by its name: (N, *shape), or (N, history, *shape), the newest last
output    one, (N, chunk, actions), in the contract's units; scaling is inside the graph
weights   {"graph": the file's bytes}; data in other files is refused
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from twinproof.nouns.errors import MissingExtra, PolicyError
from twinproof.nouns.policy import Contract, Policy
from twinproof.nouns.strict import build
from twinproof.policies.scripted import as_actions, require_count
from twinproof.policies.sight import History, joined, mask_of, width_of

LARGEST_BYTES = 512 * 2**20
OLDEST_OPSET = 7  # what onnxruntime promises to run; too new a one it refuses itself
DOMAINS = {"", "ai.onnx", "ai.onnx.ml", "com.microsoft"}
EXTERNAL = b"\n\x08location"  # how a tensor names another file, in the bytes of the graph
TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(uint8)": np.uint8}
ERRORS = ("EngineError", "Fail", "InvalidArgument", "InvalidGraph", "InvalidProtobuf", "NoSuchFile", "NotImplemented",
          "RuntimeException")  # fmt: skip


def onnx_policy(path: Path, contract: Contract | None = None, parents: Mapping[str, str] | None = None) -> Policy:
    """A graph in a file as a Policy that stands on its own; it is checked by building its actor.

    Without a contract the graph's own is taken: JSON in its metadata, as `twinproof train` writes it.
    """
    if not path.is_file():
        raise PolicyError(f"{path} does not exist. Give an .onnx file.")
    if path.stat().st_size > LARGEST_BYTES:
        raise PolicyError(f"{path} has {path.stat().st_size / 2**20:.0f} MiB; {LARGEST_BYTES >> 20} are the most.")
    data = path.read_bytes()
    stated = _stated_contract(data, path) if contract is None else contract
    policy = Policy("onnx", stated, parents or {}, {}, {"graph": np.frombuffer(data, np.uint8)})
    OnnxActor(policy)
    return policy


def _stated_contract(graph: bytes, path: Path) -> Contract:
    text = _session(graph)[0].get_modelmeta().custom_metadata_map.get("contract")
    try:
        data = None if text is None else json.loads(text)
    except ValueError:
        data = None
    if data is None:
        raise PolicyError(f"{path} does not state its contract. Make a Policy of it: policies.onnx_actor.onnx_policy.")
    return build(Contract, data, f"the contract in {path}", PolicyError)


class OnnxActor:
    """A graph without memory of its own that acts in N worlds at once."""

    def __init__(self, policy: Policy) -> None:
        self.contract = contract = policy.contract
        if set(policy.weights) != {"graph"} or policy.weights["graph"].dtype != np.uint8:
            raise PolicyError(
                "a policy of kind 'onnx' holds its graph as bytes in the weights 'graph', and nothing else."
            )
        if policy.normaliser:
            raise PolicyError("a policy of kind 'onnx' has a normaliser, and its graph scales by itself. Leave it out.")
        self._session, self._errors = _session(policy.weights["graph"].tobytes())
        self._inputs = _checked_inputs(self._session.get_inputs(), contract)
        self._output = _checked_output(self._session.get_outputs(), contract)
        self._one_by_one = any(not isinstance(entry.shape[0], str) for entry in self._session.get_inputs())
        self._history = History(contract.history, width_of(contract.observations))
        self._count = 0

    def reset(self, count: int, seed: int, which: np.ndarray | None = None) -> None:
        """Forgets the history in the worlds of the mask. The seed is not used: nothing is drawn."""
        self._history.reset(count, mask_of(count, which))
        self._count = count

    def act(self, observations: Mapping[str, np.ndarray]) -> np.ndarray:
        """The actions of each world, (N, chunk, actions), in the contract's units."""
        count, past = require_count(self._count), self.contract.history
        rows = self._history.add(joined(self.contract, observations, count)).reshape(count, past, -1)
        feed, at = {}, 0
        for channel in self.contract.observations:
            width = width_of((channel,))
            shape = (count, *([past] if past > 1 else []), *channel.shape)
            part = np.ascontiguousarray(rows[:, :, at : at + width], self._inputs[channel.name])
            feed[channel.name] = part.reshape(shape)
            at += width
        return as_actions(self.contract, self._run(feed), count, "the ONNX graph")

    def _run(self, feed: dict[str, np.ndarray]) -> np.ndarray:
        try:
            if not self._one_by_one:
                return np.asarray(self._session.run([self._output], feed)[0])
            ones = [{name: array[i : i + 1] for name, array in feed.items()} for i in range(self._count)]
            return np.concatenate([self._session.run([self._output], one)[0] for one in ones])
        except self._errors as problem:
            raise PolicyError(f"the ONNX graph failed while it ran ({problem}). Export it again.") from None


def _session(graph: bytes) -> tuple[Any, tuple[type[Exception], ...]]:
    try:
        import onnxruntime
        from onnxruntime.capi import onnxruntime_pybind11_state as state
    except ImportError:
        raise MissingExtra("ONNX policies need onnxruntime. Run: pip install 'twinproof[learn]'.") from None
    if len(graph) > LARGEST_BYTES:
        raise PolicyError(f"the ONNX graph has {len(graph) >> 20} MiB; {LARGEST_BYTES >> 20} are the most.")
    if EXTERNAL in graph:
        raise PolicyError("the ONNX graph keeps weights in other files. Export it as one file.")
    found = dict(opsets(graph))
    unknown = sorted(set(found) - DOMAINS)
    if unknown or max(found.get("", 0), found.get("ai.onnx", 0)) < OLDEST_OPSET:
        raise PolicyError(
            f"the ONNX graph needs the operator sets {found or 'none'}; needed is ONNX's own, {OLDEST_OPSET} or newer, "
            "and no foreign one. Export it again."
        )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4  # what goes wrong comes as an error
    errors = tuple(getattr(state, name) for name in ERRORS)
    try:
        return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"]), errors
    except errors as problem:
        raise PolicyError(f"onnxruntime cannot read the graph ({problem}). Export it again.") from None


def _checked_inputs(found: list[Any], contract: Contract) -> dict[str, Any]:
    """The type that each observation is fed as."""
    names = {channel.name for channel in contract.observations}
    if {entry.name for entry in found} != names:
        raise PolicyError(
            f"the ONNX graph takes {', '.join(sorted(entry.name for entry in found))}; the contract observes "
            f"{', '.join(sorted(names))}. They must have the same names."
        )
    past = (contract.history,) if contract.history > 1 else ()
    shapes = {channel.name: (*past, *channel.shape) for channel in contract.observations}
    for entry in found:
        _check_shape(entry, shapes[entry.name], f"its input {entry.name!r}")
    return {entry.name: TYPES[entry.type] for entry in found}


def _checked_output(found: list[Any], contract: Contract) -> str:
    if len(found) != 1:
        raise PolicyError(f"the ONNX graph has {len(found)} outputs. One is needed: the actions.")
    _check_shape(found[0], (contract.chunk, len(contract.actions)), "its output")
    return str(found[0].name)


def _check_shape(entry: Any, wanted: tuple[int, ...], what: str) -> None:
    free, rest = entry.shape[:1], entry.shape[1:]
    fits = len(rest) == len(wanted) and all(
        isinstance(a, str) or a is None or a == b for a, b in zip(rest, wanted, strict=True)
    )
    if entry.type not in TYPES or not free or not (isinstance(free[0], str) or free[0] in (1, None)) or not fits:
        raise PolicyError(
            f"the ONNX graph has {what} as {entry.type} of shape {entry.shape}; the contract states ('N', "
            f"{', '.join(map(str, wanted))}), of float, double or uint8, where N is free or 1."
        )


def opsets(graph: bytes) -> Iterator[tuple[str, int]]:
    """Domain and version of the operator sets of a graph: the entries 8 of its outermost message."""
    for number, value in _fields(graph):
        if number == 8 and isinstance(value, bytes):
            entry = dict(_fields(value))
            domain, version = entry.get(1, b""), entry.get(2, 0)
            yield (domain.decode(errors="replace") if isinstance(domain, bytes) else ""), int(version)


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each entry of a protobuf message; ends at the first byte that makes no sense."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        size, at = (8, at) if kind == 1 else (4, at) if kind == 5 else _varint(message, at) if kind == 2 else (-1, at)
        if size < 0 or at + size > len(message):
            return
        yield key >> 3, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message) and shift < 70:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            break
    return value, at
