"""How fast policies act: networks beside torch and numpy on one thread, and servers over loopback.

OMP_NUM_THREADS=1 python -m bench.policies
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from tests.policies import nets, servers

from twinproof.nouns.policy import Channel, Contract, Policy
from twinproof.policies.load import acting, actor_of
from twinproof.policies.server import Received, Sent, Server, served_policy
from twinproof.policies.timing import Timing

WIDTHS = [48, 256, 128, 64, 8]
PICTURES = ("cam_high", "cam_left_wrist", "cam_right_wrist")


def seconds(work: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Median wall time of a call, and CPU-seconds of one on average."""
    work()
    wall, cpu = [], time.process_time()
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        wall.append(time.perf_counter() - began)
    return float(np.median(wall)), (time.process_time() - cpu) / repeats


def networks() -> None:
    """The same network, ours, in torch and in numpy, on the same rows."""
    torch.set_num_threads(1)
    network = nets.mlp(WIDTHS)
    contract = Contract(
        (Channel("x", "1", shape=(WIDTHS[0],)),), tuple(Channel(f"a{k}", "rad", -1, 1) for k in range(8)), 50.0
    )
    actor = actor_of(Policy("mlp", contract, {}, {"layers": WIDTHS}, nets.weights_of(network)))
    arrays = [(part.weight.detach().numpy().T, part.bias.detach().numpy()) for part in network[::2]]

    def in_numpy(x: np.ndarray) -> np.ndarray:
        for k, (weight, bias) in enumerate(arrays):
            x = x @ weight + bias
            x = np.where(x > 0, x, np.expm1(np.minimum(x, 0))) if k < len(arrays) - 1 else x
        return x

    print(f"network {'-'.join(map(str, WIDTHS))}, elu, one thread: median ms (CPU-ms)")
    for count in (1, 64, 4096):
        x = np.random.default_rng(0).normal(size=(count, WIDTHS[0])).astype(np.float32)
        tensor, seen = torch.tensor(x), {"x": x}
        actor.reset(count, seed=0)
        with torch.inference_mode():
            ways = {"ours": partial(actor.act, seen), "torch": partial(network, tensor), "numpy": partial(in_numpy, x)}
            repeats = 30 if count > 1000 else 300
            told = {name: seconds(work, repeats) for name, work in ways.items()}
        base = told["ours"][0]
        shown = ", ".join(
            f"{name} {wall * 1e3:.3f} ({cpu * 1e3:.3f}) x{wall / base:.2f}" for name, (wall, cpu) in told.items()
        )
        print(f"  {count:5d} worlds: {shown}")


def loopback() -> None:
    """Three pictures of 224 x 224 and 14 joints there, 50 actions of 14 joints back."""
    seen = {"q": np.zeros((1, 14)), **{name: np.zeros((1, 224, 224, 3), np.uint8) for name in PICTURES}}
    channels = (Channel("q", "rad", shape=(14,)), *(Channel(name, "", shape=(224, 224, 3)) for name in PICTURES))
    contract = Contract(channels, tuple(Channel(f"a{k}", "rad", -1, 1) for k in range(14)), 50.0, chunk=50)
    chunk = np.zeros((50, 14), np.float32)
    ours = {
        "openpi": servers.openpi(lambda line, message: line.send(servers.openpi_pack({"actions": chunk}))),
        "groot": servers.groot(
            lambda asked: servers.groot_pack(
                [{"actions": chunk[None]}, {}] if asked["endpoint"] == "get_action" else {}
            )
        ),
    }
    print("answers over loopback, three 224x224 pictures there and (50, 14) back: ms")
    for framing, server in ours.items():
        nested = framing == "groot"
        send = (
            Sent(("state", "q") if nested else ("state",), "q"),
            *(Sent(("video", name) if nested else ("images", name), name) for name in PICTURES),
        )
        with contextlib.ExitStack() as stack:
            address = stack.enter_context(server)
            asked = served_policy(Server(address, framing, send, (Received(("actions",)),)), contract)  # type: ignore[arg-type]
            actor = stack.enter_context(acting(asked))
            actor.reset(1, seed=0)
            for _ in range(300):
                actor.act(seen)
            timing = Timing.of(actor.latency_s)  # type: ignore[attr-defined]
        print(f"  {framing}: p50 {timing.p50_s * 1e3:.2f}, p95 {timing.p95_s * 1e3:.2f}, p99 {timing.p99_s * 1e3:.2f}")


if __name__ == "__main__":
    networks()
    loopback()
