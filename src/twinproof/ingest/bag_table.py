"""The numbers of one topic in file order, before a clock is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int


@dataclass(frozen=True)
class Table:
    """Samples with both of their clocks. `problem` is why it cannot become a signal; a first look shows it anyway."""

    source: str
    columns: tuple[str, ...]  # empty where the messages name none
    stamp_ns: Int[np.ndarray, "T"] | None  # None: the type has no header
    log_ns: Int[np.ndarray, "T"]
    value: Float[np.ndarray, "T D"]
    missing: Bool[np.ndarray, "T D"] | None = None
    unit: str | None = None
    units: tuple[str, ...] = ()
    kind: str | None = None
    frame: str = ""
    static: bool = False  # holds for the whole episode, whatever its stamp
    problem: str = ""
