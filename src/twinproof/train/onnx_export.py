"""A policy as an ONNX graph that needs nothing of ours: observations by name in, actions in their units out.

inputs    one for each observation of the contract, float32 (N, *shape), pictures that eyes look at uint8; with history
          H > 1: (N, H, *shape), newest last
output    "actions" (N, chunk, actions), in the contract's units, not clipped
metadata  "contract": the contract as JSON; "policy": the policy's hash
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from twinproof.nouns.errors import MissingExtra, PolicyError
from twinproof.nouns.files import write_whole
from twinproof.nouns.policy import Channel, Policy
from twinproof.nouns.strict import plain
from twinproof.policies.network_eyes import EyesLayout

OPSET = 17
UINT8 = 2  # onnx.TensorProto.UINT8
EYES = ("filters", "kernels", "strides")


def export_onnx(policy: Policy, path: Path) -> None:
    """Writes the graph of a policy of kind "mlp"."""
    write_whole(path, onnx_bytes(policy))


def onnx_bytes(policy: Policy) -> bytes:
    """The graph as bytes, checked by onnx."""
    try:
        import onnx
    except ImportError:
        raise MissingExtra("ONNX export needs the package onnx. Run: pip install 'twinproof[learn]'.") from None
    if policy.kind != "mlp":
        raise PolicyError(f"a policy of kind {policy.kind!r} has no ONNX graph of ours; an mlp has.")
    graph = _Graph(policy)
    model = onnx.helper.make_model(
        graph.build(), opset_imports=[onnx.helper.make_opsetid("", OPSET)], producer_name="twinproof"
    )
    model.ir_version = 8  # the oldest that has this opset: older runtimes read it too
    onnx.helper.set_model_props(
        model, {"contract": json.dumps(plain(policy.contract), sort_keys=True), "policy": policy.hash}
    )
    onnx.checker.check_model(model)
    data: bytes = model.SerializeToString()
    return data


class _Graph:
    """Collects nodes and constants."""

    def __init__(self, policy: Policy) -> None:
        from onnx import helper, numpy_helper

        self.policy, self._helper, self._numpy = policy, helper, numpy_helper
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        pictures = [channel for channel in policy.contract.observations if len(channel.shape) == 3]
        self._pictures = pictures if "eyes" in policy.architecture else []

    def build(self) -> Any:
        contract, float32 = self.policy.contract, 1
        past = [contract.history] if contract.history > 1 else []
        make = self._helper.make_tensor_value_info
        kinds = {c.name: UINT8 if c in self._pictures else float32 for c in contract.observations}
        inputs = [make(c.name, kinds[c.name], ["N", *past, *c.shape]) for c in contract.observations]
        row, architecture = self._input(), self.policy.architecture
        y = self._head(row, architecture, "")
        action = self._on_base(row, y) if "base_architecture" in architecture else self._scaled(y)
        shape = self._constant("shape", np.array([-1, contract.chunk, len(contract.actions)], np.int64))
        self._node("Reshape", [action, shape], "actions")
        output = make("actions", float32, ["N", contract.chunk, len(contract.actions)])
        return self._helper.make_graph(self.nodes, "policy", inputs, [output], self.constants)

    def _input(self) -> str:
        """The channels as (N, history, width)."""
        contract, parts = self.policy.contract, []
        for channel in contract.observations:
            if channel in self._pictures:
                continue
            size = int(np.prod(channel.shape))
            shape = self._constant(f"{channel.name}/shape", np.array([-1, contract.history, size], np.int64))
            parts.append(self._node("Reshape", [channel.name, shape], f"{channel.name}/row"))
        return self._node("Concat", parts, "row", axis=2)

    def _head(self, row: str, architecture: Any, prefix: str) -> str:
        """The raw output of one network, (N, chunk · actions)."""
        weights = self.policy.weights
        unread = sorted(set(architecture) - {"layers", "activation", "output", "base", "base_architecture",
                                             "residual_share", "encoder", "eyes"})  # fmt: skip
        if unread or architecture["activation"] != "elu":
            raise PolicyError(
                f"this policy's architecture {dict(architecture)} is not one that twinproof train writes; only those "
                "have an ONNX export."
            )
        mean, sd = (self._constant(f"{prefix}input.{n}", weights[f"{prefix}input.{n}"]) for n in ("mean", "sd"))
        x = self._node("Sub", [row, mean], f"{prefix}centred")
        rows = self._node("Div", [x, sd], f"{prefix}scaled")
        x = self._node("Flatten", [rows], f"{prefix}x", axis=1)
        if "encoder" in architecture:
            latent = self._layers(x, architecture["encoder"], f"{prefix}encoder.")
            last = self._constant(f"{prefix}last", np.array([-1]))
            newest = self._node(
                "Flatten", [self._node("Gather", [rows, last], f"{prefix}newest", axis=1)], f"{prefix}now"
            )
            x = self._node("Concat", [newest, latent], f"{prefix}known", axis=1)
        if "eyes" in architecture:
            found = [self._looked(channel, architecture["eyes"], prefix) for channel in self._pictures]
            x = self._node("Concat", [x, *found], f"{prefix}seen", axis=1)
        return self._layers(x, architecture, prefix)

    def _looked(self, channel: Channel, eyes: Any, prefix: str) -> str:
        """What the eyes see in the newest picture of a channel: (N, 2F), as policies/network_eyes.py has it."""
        weights, name, float32 = self.policy.weights, f"{prefix}{channel.name}", 1
        shape = self._constant(f"{name}/shape", np.array([-1, self.policy.contract.history, *channel.shape], np.int64))
        x = self._node("Reshape", [channel.name, shape], f"{name}/all")
        x = self._node("Gather", [x, self._constant(f"{name}/last", np.array([-1]))], f"{name}/newest", axis=1)
        x = self._node("Reshape", [x, self._constant(f"{name}/one", np.array([-1, *channel.shape]))], f"{name}/picture")
        x = self._node("Cast", [x], f"{name}/float", to=float32)
        x = self._node("Transpose", [x], f"{name}/planes", perm=[0, 3, 1, 2])
        x = self._node("Div", [x, self._constant(f"{name}/white", np.array([255], np.float32))], f"{name}/light")
        x = self._node("Sub", [x, self._constant(f"{name}/grey", np.array([0.5], np.float32))], f"{name}/0")
        last = len(eyes["strides"]) - 1
        for k, stride in enumerate(eyes["strides"]):
            names = [f"{prefix}eyes.{k}.{part}" for part in ("weight", "bias")]
            for each in names:
                self._constant_once(each, weights[each])
            x = self._node("Conv", [x, *names], f"{name}/conv{k}", strides=[stride, stride])
            if k < last:
                x = self._node("Elu", [x], f"{name}/elu{k}")
        down, across = EyesLayout(*(tuple(eyes[part]) for part in EYES)).places(*channel.shape[:2])
        x = self._node("Reshape", [x, self._constant(f"{name}/flat", np.array([0, 0, -1]))], f"{name}/maps")
        share = self._node("Softmax", [x], f"{name}/share", axis=2)
        grid = np.meshgrid(_steps(across), _steps(down))
        found = []
        for axis, places in zip("xy", grid, strict=True):
            column = self._constant(f"{name}/{axis}s", places.reshape(-1, 1).astype(np.float32))
            product = self._node("MatMul", [share, column], f"{name}/mean_{axis}")
            found.append(self._node("Flatten", [product], f"{name}/{axis}"))
        return self._node("Concat", found, f"{name}/found", axis=1)

    def _layers(self, x: str, architecture: Any, prefix: str) -> str:
        """Dense layers with an ELU between them."""
        weights, last = self.policy.weights, len(architecture["layers"]) - 2
        for k in range(last + 1):
            names = [self._constant(n, weights[n]) for n in (f"{prefix}layers.{k}.weight", f"{prefix}layers.{k}.bias")]
            x = self._node("Gemm", [x, *names], f"{prefix}layer{k}", transB=1)
            if k < last:
                x = self._node("Elu", [x], f"{prefix}elu{k}")
        return self._node("Tanh", [x], f"{prefix}tanh") if architecture.get("output") == "tanh" else x

    def _limits(self) -> tuple[np.ndarray, np.ndarray]:
        contract = self.policy.contract
        low, high = (np.array([getattr(c, end) for c in contract.actions]) for end in ("low", "high"))
        centre, half = (low + high) / 2, (high - low) / 2
        return np.tile(centre, contract.chunk).astype(np.float32), np.tile(half, contract.chunk).astype(np.float32)

    def _scaled(self, y: str) -> str:
        centre, half = self._limits()
        product = self._node("Mul", [y, self._constant("half", half)], "reach")
        return self._node("Add", [product, self._constant("centre", centre)], "action")

    def _on_base(self, row: str, y: str) -> str:
        architecture = self.policy.architecture
        base = self._scaled(self._head(row, architecture["base_architecture"], "base."))
        share = np.float32(architecture["residual_share"]) * self._limits()[1]
        correction = self._node("Mul", [y, self._constant("share", share)], "correction")
        return self._node("Add", [base, correction], "corrected")

    def _node(self, kind: str, inputs: list[str], output: str, **settings: Any) -> str:
        self.nodes.append(self._helper.make_node(kind, inputs, [output], **settings))
        return output

    def _constant_once(self, name: str, array: np.ndarray) -> None:
        """A constant that several pictures share."""
        if all(each.name != name for each in self.constants):
            self._constant(name, array)

    def _constant(self, name: str, array: np.ndarray) -> str:
        self.constants.append(self._numpy.from_array(np.ascontiguousarray(array), name))
        return name


def _steps(count: int) -> np.ndarray:
    """Places from -1 to 1; the only one is at -1, as the kernel has it."""
    found: np.ndarray = 2 * np.arange(count) / max(count - 1, 1) - 1
    return found
