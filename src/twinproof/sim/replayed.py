"""A tick of many small kernels, recorded once as CUDA graphs and launched again without the host in between.

record   the work runs once in Python; what it would launch is written down, and nothing is done
replay   the same launches: given ─> graph ─ cut ─ graph ─ … ─> state written back where the graphs read it

A graph reads and writes fixed memory, while Python code binds attributes anew at every tick. So everything that the
objects of a tick hold is looked at before and after recording: what was bound anew is copied, as the last thing of a
tick, into the tensor that was there before, and the objects get those back. So attributes are true and live between
ticks. Work that calls other graphs (a physics step of warp's) cuts: that call stands between two graphs.
"""

from __future__ import annotations

import gc
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from twinproof.nouns.errors import SimError

if TYPE_CHECKING:
    import torch

WARM = 3  # ticks that run as they are: they load kernels, and make what is made only once
Place = tuple[object, ...]  # how one comes to a tensor from an object: attributes, keys, places


@dataclass(frozen=True, eq=False)
class Held:
    """Every tensor that an object holds through objects of ours, dicts, lists and tuples; and all of those that can be
    written, with a copy of what they hold."""

    tensors: dict[Place, torch.Tensor]
    holders: list[tuple[Any, Any]]

    @classmethod
    def by(cls, owner: object) -> Held:
        """What an object holds now. What is held in two places counts where it is found first."""
        import torch

        found, seen = cls({}, []), set[int]()
        ahead: list[tuple[Place, Any]] = [((), owner)]
        while ahead:
            place, value = ahead.pop()
            if isinstance(value, torch.Tensor):
                found.tensors[place] = value
                continue
            ours = type(value).__module__.startswith("twinproof.") and hasattr(value, "__dict__")
            inside = vars(value) if ours else value
            if id(value) in seen or not isinstance(inside, (dict, list, tuple)) or isinstance(value, (Tape, Replayed)):
                continue
            seen.add(id(value))
            if isinstance(inside, (dict, list)):
                found.holders.append((inside, inside.copy()))
            entries = inside.items() if isinstance(inside, dict) else enumerate(inside)
            ahead.extend(((*place, key), entry) for key, entry in entries)
        return found

    def give_back(self) -> None:
        """All holders hold again what they held then."""
        for holder, kept in self.holders:
            holder.clear()
            holder.update(kept) if isinstance(holder, dict) else holder.extend(kept)


def write_back(before: Held, after: Held) -> None:
    """Copies what was bound anew into the tensors that were there before: all are read before any is written."""
    if before.tensors.keys() != after.tensors.keys():
        strange = sorted(".".join(map(str, place)) for place in before.tensors.keys() ^ after.tensors.keys())
        raise SimError(f"a tick that is replayed must keep what it holds; {', '.join(strange[:4])} came or went.")
    changed: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
    kept = set[int]()
    for place, old in before.tensors.items():
        new = after.tensors[place]
        if new is old:
            continue
        name = ".".join(map(str, place))
        if (new.shape, new.dtype) != (old.shape, old.dtype):
            raise SimError(f"a tick that is replayed must keep shapes; {name} went from {old.shape} to {new.shape}.")
        if id(old) in changed and changed[id(old)][1] is not new:
            raise SimError(f"a tick that is replayed found {name} in two places that then differ.")
        changed[id(old)] = (old, new)
        kept.add(old.untyped_storage().data_ptr())
    pairs = [(old, new.clone() if new.untyped_storage().data_ptr() in kept else new) for old, new in changed.values()]
    for old, new in pairs:
        old.copy_(new)


class Tape(ABC):
    """What records launches and repeats them. Tapes and what replays them are no state of a tick."""

    @abstractmethod
    def warm(self, work: Callable[[], None]) -> None:
        """Runs the work as it is, where it will be recorded."""

    @abstractmethod
    def record(self, work: Callable[[], None]) -> None:
        """Runs the work and writes down what it launches."""

    @abstractmethod
    def replay(self) -> None:
        """Everything that was recorded, again."""


@contextmanager
def _no_garbage() -> Iterator[None]:
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


class Cutting(Protocol):
    """What launches graphs of its own; while something is recorded, it has the tape cut there."""

    tape: DeviceTape | None


class DeviceTape(Tape):
    """CUDA graphs with cuts between them, one memory pool for all. `generators` are those that the work draws from.

    It is recorded on a stream of its own, and was warm there: what autograd keeps of a first backward pass belongs to
    the stream that it ran on.
    """

    def __init__(self, generators: Sequence[torch.Generator] = (), cutting: Sequence[Cutting] = ()) -> None:
        import torch

        self._torch, self._generators, self._cutting = torch, tuple(generators), tuple(cutting)
        self._pool: Any = torch.cuda.graph_pool_handle()
        self._stream = torch.cuda.Stream()
        self._parts: list[Callable[[], None]] = []
        self._graph: Any = None

    def warm(self, work: Callable[[], None]) -> None:
        """Runs the work as it is; the current stream waits for it."""
        cuda = self._torch.cuda
        self._stream.wait_stream(cuda.current_stream())
        with cuda.stream(self._stream):
            work()
        cuda.current_stream().wait_stream(self._stream)

    def record(self, work: Callable[[], None]) -> None:
        """Runs the work in Python; nothing of it is done on the device. No garbage is collected meanwhile: freeing what
        other work left on the device breaks a recording."""
        torch = self._torch
        gc.collect()
        torch.cuda.synchronize()
        with _no_garbage(), torch.cuda.stream(self._stream):
            self._begin()
            for each in self._cutting:
                each.tape = self
            try:
                work()
            finally:
                for each in self._cutting:
                    each.tape = None
                self._end()
        torch.cuda.synchronize()

    def cut(self, launch: Callable[[], None]) -> None:
        """A launch that no graph takes in: it stands between what came before it and what comes."""
        self._end()
        self._parts.append(launch)
        self._begin()

    def replay(self) -> None:
        """Everything that was recorded, on the current stream."""
        for part in self._parts:
            part()

    def _begin(self) -> None:
        self._graph = self._torch.cuda.CUDAGraph()
        for generator in self._generators:
            self._graph.register_generator_state(generator)
        self._graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")

    def _end(self) -> None:
        self._graph.capture_end()
        self._parts.append(self._graph.replay)


class Replayed:
    """Work on a tensor that is given, whose state and results `owner` holds, recorded after a few ticks.

    `tape` makes what records. Whoever binds the owner's state anew from outside must call `forget`.
    """

    def __init__(self, owner: object, work: Callable[[Any], None], tape: Callable[[], Tape]) -> None:
        self._owner, self._work, self._make = owner, work, tape
        self._given: Any = None
        self._tape: Tape | None = None
        self._warm, self._recorded = WARM, False

    def forget(self) -> None:
        """Records anew, after some ticks as they are."""
        self._tape, self._warm, self._recorded = None, WARM, False

    def __call__(self, given: Any) -> None:
        """One tick."""
        if self._tape is None:
            self._tape = self._make()
        if self._warm > 0:
            self._warm -= 1
            self._tape.warm(lambda: self._work(given))
            return
        if self._given is None:
            self._given = given.clone()
        self._given.copy_(given)
        if not self._recorded:
            self._tape.record(self._once)
            self._recorded = True
        self._tape.replay()

    def _once(self) -> None:
        before = Held.by(self._owner)
        try:
            self._work(self._given)
            write_back(before, Held.by(self._owner))
        finally:
            before.give_back()
