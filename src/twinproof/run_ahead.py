"""What lies ahead of a run: which stages will be reused, and how long the others may be expected to take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from twinproof.nouns.errors import StoreError
from twinproof.nouns.files import read_sealed
from twinproof.nouns.kept import FORMAT, Outcome, Stage, Verify

HALF_S = 0.5  # less is not worth a word


@dataclass(frozen=True)
class Marks:
    """A run's folder by the marks of its stages alone: nothing is made and no result is hashed."""

    root: Path
    dry: ClassVar[bool] = True

    def once(self, stage: Stage, make: Callable[[Path], None], verify: Verify | None = None) -> Outcome:
        """Whether a stage has its mark, and what it took then; else what the newest of its name took, 0 for none."""
        folder = self.root.absolute() / "stages" / stage.label
        mark = folder.with_name(f"{folder.name}.json")
        told = _read(mark)
        if told.get("key") == stage.key:
            return Outcome(stage, folder, "reused", float(told["seconds"]))
        others = sorted(mark.parent.glob(f"{stage.name}-*.json"), key=lambda path: path.stat().st_mtime_ns)
        return Outcome(stage, folder, "to do", float(_read(others[-1]).get("seconds", 0.0)) if others else 0.0)


def _read(mark: Path) -> Mapping[str, Any]:
    """A mark, empty where there is none or it was changed: then its stage is made again."""
    try:
        return read_sealed(mark, FORMAT, StoreError)
    except StoreError:
        return {}


def expected_s(sections: Sequence[str], ahead: Sequence[Outcome], budget_s: Mapping[str, float]) -> dict[str, float]:
    """Seconds that each section will take: none where it is reused, its budget, or what it took last time here.

    Sections of which none of this is known are left out.
    """
    found = {}
    for section, outcome in zip(sections, ahead, strict=True):
        if outcome.state == "reused":
            found[section] = 0.0
        elif section in budget_s or outcome.seconds:
            found[section] = float(budget_s.get(section, outcome.seconds))
    return found


def left(sections: Sequence[str], expected: Mapping[str, float]) -> str:
    """How long these sections will take, in words; "at least" where one of them is not known."""
    seconds = sum(expected.get(section, 0.0) for section in sections)
    known = all(section in expected for section in sections)
    return f"{'about' if known else 'at least'} {seconds:.0f} s left" if seconds >= HALF_S else ""
