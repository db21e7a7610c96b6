"""What callers of many worlds ask for, checked before anything is changed: numbers, worlds, states."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, SupportsIndex

import numpy as np

from twinproof.nouns.errors import SimError
from twinproof.nouns.theta import Theta


def whole(value: SupportsIndex, what: str, least: int) -> int:
    """A whole number, of numpy's kinds too, that is at least so large."""
    try:
        found = operator.index(value)
    except TypeError:
        raise SimError(f"{what} is {value!r}. Give a whole number of {least} or more.") from None
    if found < least:
        raise SimError(f"{what} is {found}. Give a whole number of {least} or more.")
    return found


def one_each(thetas: Sequence[Theta] | SupportsIndex) -> list[Theta]:
    """A Theta for each world that is asked for, by number or one by one."""
    if isinstance(thetas, Mapping):
        raise SimError("the worlds were given one Theta. Give a list with a Theta for each, or their number.")
    found = list(thetas) if isinstance(thetas, Iterable) else [Theta()] * whole(thetas, "the number of worlds", 0)
    if not found:
        raise SimError("no worlds were asked for. Give their number, or a Theta for each.")
    return found


def world_number(value: SupportsIndex, count: int, what: str = "world") -> int:
    """The number of one of `count` worlds, windows or Thetas."""
    found = whole(value, f"the number of the {what}", 0)
    if found >= count:
        raise SimError(f"there is no {what} {found}; there are {count}, counted from 0.")
    return found


def world_rows(indices: Any, count: int) -> np.ndarray:
    """The worlds that a mask or indices name, in the caller's order."""
    chosen = np.asarray(indices)
    if chosen.dtype == bool:
        if chosen.shape != (count,):
            raise SimError(f"the mask of worlds has the shape {chosen.shape}; {count} worlds need ({count},).")
        return np.flatnonzero(chosen)
    if chosen.size and not np.issubdtype(chosen.dtype, np.integer):
        raise SimError(
            f"worlds were named by {chosen.reshape(-1)[0]!r} ({chosen.dtype}). Give whole numbers, or a mask of "
            f"({count},) that says True or False for each."
        )
    return chosen.astype(np.int64).reshape(-1)


def given_state(name: str, value: Any, rows: int, width: int) -> np.ndarray:
    """A state to start with: one row for all, or a row for each world that starts; finite numbers."""
    try:
        found = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise SimError(f"the {name} of a reset is {value!r:.80}. Give an array of numbers.") from None
    if found.shape not in ((width,), (rows, width)):
        raise SimError(
            f"the {name} of a reset has the shape {found.shape}; {rows} worlds start, so give ({width},) for all of "
            f"them, or ({rows}, {width})."
        )
    if not np.isfinite(found).all():
        place = np.argwhere(~np.isfinite(found))[0]
        raise SimError(
            f"the {name} of a reset is {found[tuple(place)]} at {place.tolist()}. A state is made of finite numbers: "
            "mend it, or leave that world out."
        )
    return found


def refuse_other_tick(nstep: int, substeps: int) -> None:
    """A jitter is counted in ticks of the worlds' own substeps, so a call of another length would stretch it."""
    raise SimError(
        f"a call of {nstep} physics steps in worlds of {substeps}, whose commands have a jitter: it is counted in "
        f"ticks of {substeps}. Make the worlds with substeps={nstep}, and leave nstep out."
    )
