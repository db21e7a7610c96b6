"""Every number says where it came from: measured, inferred or declared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

from twinproof.nouns.errors import ParameterError
from twinproof.nouns.hashing import Json
from twinproof.nouns.strict import convert


@dataclass(frozen=True)
class Measured:
    """An instrument or the rig says so: `what` names it ("kitchen scale, 1 g", "CAD of the vendor")."""

    what: str
    kind: Literal["measured"] = "measured"

    def __post_init__(self) -> None:
        _check_text(self.kind, "what was measured with", self.what)


@dataclass(frozen=True)
class Inferred:
    """A fit says so: the hash of the posterior, split or twin it came from, and the share that a range covers."""

    hash: str
    share: float | None = None
    kind: Literal["inferred"] = "inferred"

    def __post_init__(self) -> None:
        _check_text(self.kind, "the hash of what it was inferred from", self.hash)
        if self.share is not None and not 0 < self.share <= 1:
            raise ParameterError(f"an inferred source covers the share {self.share}; a share lies between 0 and 1.")


@dataclass(frozen=True)
class Declared:
    """A person says so, and why ("no pull faster than 0.2 m/s was recorded")."""

    reason: str
    kind: Literal["declared"] = "declared"

    def __post_init__(self) -> None:
        _check_text(self.kind, "the reason", self.reason)


Source = Measured | Inferred | Declared


def source_from(data: Json, where: str) -> Source:
    """The source in a JSON table, chosen by its `kind`; `strict.plain` is the inverse."""
    return cast("Source", convert(Source, data, where, ParameterError))


def _check_text(kind: str, what: str, text: str) -> None:
    if not text.strip():
        raise ParameterError(f"a {kind} source lacks {what}. Say it in a few words.")
