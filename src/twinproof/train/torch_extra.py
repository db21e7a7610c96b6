"""torch and what learns with it: an extra, asked for only when something trains."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from twinproof.nouns.errors import MissingExtra
from twinproof.nouns.randomness import stream


def torch_module() -> Any:
    """torch, or an error that says how to get it."""
    try:
        import torch
    except ImportError:
        raise MissingExtra(
            "training needs torch, which is not installed. Run: pip install 'twinproof[learn]'."
        ) from None
    return torch


def check_device(device: str) -> str:
    """The device, if it answers: "cpu", "cuda" or "cuda:N"."""
    torch = torch_module()
    if device == "cpu":
        return device
    if not re.fullmatch(r"cuda(:\d+)?", device):
        raise MissingExtra(f"the device {device!r} is not known. Name cpu, cuda or cuda:N.")
    if not torch.cuda.is_available():
        raise MissingExtra(f"the device {device!r} was asked for, and no CUDA device answers. Train with --device cpu.")
    count, number = torch.cuda.device_count(), int(device.partition(":")[2] or 0)
    if number >= count:
        raise MissingExtra(
            f"the device {device!r} was asked for, and cuda:0 to cuda:{count - 1} answer. Name one of them."
        )
    return device


@contextmanager
def quiet_torch() -> Iterator[None]:
    """One thread and a random state of our own, both given back at the end.

    Networks this small lose more by handing work to threads than they win: 40 µs a sample with one, 170 to 600 µs with
    two on a busy machine. Physics has its own threads.
    """
    torch = torch_module()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng():
            yield
    finally:
        torch.set_num_threads(threads)


def seed_torch(seed: int, *path: str) -> int:
    """Seeds torch's own generator (rsl_rl draws from it) from a named stream; gives the number used."""
    number = int(stream(seed, *path).integers(2**31))
    torch_module().manual_seed(number)
    return number


def adam_arrays(optimizer: Any) -> dict[str, Any]:
    """The slots of an optimiser by "index.slot"."""
    state = optimizer.state_dict()["state"]
    return {f"{index}.{name}": value for index, slots in state.items() for name, value in slots.items()}


def adam_restored(optimizer: Any, arrays: Mapping[str, Any]) -> None:
    """The inverse of `adam_arrays`; the settings stay as they are."""
    torch, state = torch_module(), dict[int, dict[str, Any]]()
    for name, array in arrays.items():
        index, slot = name.split(".", 1)
        state.setdefault(int(index), {})[slot] = torch.tensor(array)
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
