"""A split: which episodes fit, which choose, and which stay sealed; made before any fit, and never changed after.

split.json               recording hash, grouping keys, labels, ids of the three parts, seed, near-duplicates, sizes
openings.jsonl           the ledger: created, fit, opened, resumed
calibration/             a Recording of its own
validation/              a Recording of its own
holdout/holdout.json     ids and hashes, no arrays
holdout/sealed.bin, key  the holdout's Recording, encrypted
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path

from twinproof.nouns.errors import SplitError
from twinproof.nouns.files import file_hashes, read_json, write_json
from twinproof.nouns.hashing import Json, content_hash
from twinproof.nouns.ledger import Ledger, LedgerHead, Line, utc_text
from twinproof.nouns.parts import Calibration, Holdout, Validation
from twinproof.nouns.recording import Recording
from twinproof.nouns.strict import build, plain

FORMAT = "twinproof/split/1"
PARTS = ("calibration", "validation", "holdout")
OPENING_KEYS = ("key",)  # inside holdout/: what the tree hash leaves out


@dataclass(frozen=True)
class Alike:
    """Two episodes closer than the threshold. `distance` is in noise floors; `second` runs `lag_s` behind `first`."""

    first: str
    second: str
    distance: float
    lag_s: float
    floor: dict[str, float] = field(default_factory=dict)  # SI, for each column that was compared
    frames_alike: dict[str, int] = field(default_factory=dict)  # camera -> bits of 64 that differ, at most; no verdict


@dataclass(frozen=True)
class Span:
    """An episode that was cut out of a longer one: from `start_s` up to, not including, `end_s` of `of`."""

    id: str
    of: str
    part: str
    start_s: float
    end_s: float


@dataclass(frozen=True, eq=False)
class Split:
    """Three parts of one recording. They are disjoint and cover it; no grouping value stands in two of them."""

    recording: str  # hash
    keys: tuple[str, ...]
    labels: dict[str, dict[str, str]]  # episode id -> grouping key -> value, for every episode
    calibration: tuple[str, ...]
    validation: tuple[str, ...]
    holdout: tuple[str, ...]
    hashes: dict[str, str]  # part -> hash of its Recording
    seed: int
    sizes: tuple[float, float, float]  # asked
    threshold: float  # of near-duplicates, in noise floors
    floor: dict[str, float] = field(default_factory=dict)  # the usual noise floor of each column, SI
    alike: tuple[Alike, ...] = ()
    spans: tuple[Span, ...] = ()
    gap_s: float | None = None
    folder: Path | None = None  # where it lies; no part of what it is

    def __post_init__(self) -> None:
        home = self._home()
        for part in PARTS:
            if not self.ids(part):
                raise SplitError(
                    f"the {part} part is empty. A split needs an episode in each part: {', '.join(PARTS)}."
                )
        uncovered = sorted(set(self.labels) ^ set(home))
        if uncovered:
            raise SplitError(
                f"{', '.join(uncovered[:3])}: in the recording or in a part, but not in both. Split again."
            )
        self._check_groups(home)
        for pair in self.alike:
            if not self.spans and home.get(pair.first) != home.get(pair.second):
                raise SplitError(
                    f"episodes {pair.first} and {pair.second} are alike to {pair.distance:.2g} noise floors and stand "
                    f"in {home.get(pair.first)} and {home.get(pair.second)}. Put them into one part."
                )

    def _home(self) -> dict[str, str]:
        home: dict[str, str] = {}
        for part in PARTS:
            for id in self.ids(part):
                if id in home:
                    raise SplitError(f"episode {id} is in {home[id]} and in {part}. Each episode has one part.")
                home[id] = part
        return home

    def _check_groups(self, home: Mapping[str, str]) -> None:
        first: dict[tuple[str, str], str] = {}
        for id in sorted(self.labels):
            for key in self.keys:
                if key not in self.labels[id]:
                    raise SplitError(
                        f"episode {id} has no {key!r}, a grouping key. Label it, or group without {key!r}."
                    )
                value = self.labels[id][key]
                other = first.setdefault((key, value), id)
                if home[other] != home[id]:
                    raise SplitError(
                        f"{key} {value!r} is in {home[other]} (episode {other}) and in {home[id]} (episode {id}). "
                        f"Group the split by {key!r}, or leave one of the two out."
                    )

    def ids(self, part: str) -> tuple[str, ...]:
        """The episode ids of a part, by its name."""
        return {"calibration": self.calibration, "validation": self.validation, "holdout": self.holdout}[part]

    @property
    def content(self) -> dict[str, Json]:
        """All that the split states, as plain data."""
        return {name: value for name, value in plain(self).items() if name != "folder"}

    @cached_property
    def hash(self) -> str:
        """Names everything the split states; every fit carries it."""
        return content_hash(self.content)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Split) and self.hash == other.hash

    def __hash__(self) -> int:
        return hash(self.hash)

    def summary(self) -> str:
        """How well the sizes asked for were met, in a few lines for a person."""
        total = len(self.labels)
        grouped = f"grouped by {', '.join(self.keys)}" if self.keys else "grouped by no label"
        copies = f"{len(self.alike)} near-duplicate pairs (≤ {self.threshold:g} floors)"
        if not self.floor:
            copies = "near-duplicates not looked for: no signal that two episodes share"
        lines = [f"{total} episodes, {grouped}, {copies}"]
        if self.spans:
            lines = [
                f"{total} contiguous spans of {len({s.of for s in self.spans})} episodes, gaps of {self.gap_s:g} s"
            ]
        for part, asked in zip(PARTS, self.sizes, strict=True):
            share = self._share(part)
            lines.append(f"{part:<12} {len(self.ids(part)):>5} episodes   {share:6.1%}  (asked {asked:.1%})")
        return "\n".join(lines)

    def _share(self, part: str) -> float:
        if self.spans:
            seconds = {name: sum(s.end_s - s.start_s for s in self.spans if s.part == name) for name in PARTS}
            return seconds[part] / sum(seconds.values())
        return len(self.ids(part)) / len(self.labels)

    def save(self, folder: Path) -> None:
        """Writes split.json beside the parts and starts the ledger, which remembers every file of the parts."""
        if (folder / "split.json").exists():
            raise SplitError(f"{folder} holds a split already. A split is never changed: name another folder.")
        folder.mkdir(parents=True, exist_ok=True)
        files = {part: tree_hash(folder / part) for part in PARTS if (folder / part).is_dir()}
        Ledger(folder / "openings.jsonl").append("created", {"split": self.hash, "files": files})
        write_json(folder / "split.json", {"format": FORMAT, "hash": self.hash, **self.content})

    @staticmethod
    def load(folder: Path) -> Split:
        """The split in a folder."""
        data = read_json(folder / "split.json", FORMAT, SplitError)
        stated = data.pop("hash", None)
        del data["format"]
        split = build(Split, data, f"{folder}/split.json", SplitError, made={"folder": folder})
        if split.hash != stated:
            raise SplitError(
                f"{folder}/split.json was changed since it was written: its content gives {split.hash[:16]}, it states "
                f"{str(stated)[:16]}. Restore it, or make the split again."
            )
        return split

    @property
    def ledger(self) -> Ledger:
        """The ledger beside split.json."""
        return Ledger(self._place() / "openings.jsonl")

    def _place(self) -> Path:
        if self.folder is None:
            raise SplitError("this split has no folder yet. Save it, then load it from where it lies.")
        return self.folder

    def parts(self) -> tuple[Calibration, Validation, Holdout]:
        """What fits, what chooses, and what stays sealed: three types, so that one cannot be passed for another."""
        folder = self._place()
        self._check_created(self.ledger.lines())
        calibration = Calibration(self._part("calibration"), self.hash)
        validation = Validation(self._part("validation"), self.hash)
        return calibration, validation, Holdout.load(folder, self.hash, self.hashes["holdout"])

    def _part(self, part: str) -> Recording:
        recording = Recording.load(self._place() / part)
        if recording.hash != self.hashes[part]:
            raise SplitError(
                f"{self._place() / part} holds another recording ({recording.hash[:16]}) than split.json states "
                f"({self.hashes[part][:16]}). Restore it, or make the split again."
            )
        return recording

    def _check_created(self, lines: tuple[Line, ...]) -> None:
        if not lines or lines[0].fields.get("split") != self.hash:
            raise SplitError(f"{self._place()}/openings.jsonl was started for another split. Restore both files.")

    def log_fit(
        self, name: str, artifact: str, episodes: Iterable[str], started: datetime, ended: datetime
    ) -> LedgerHead:
        """Adds a fit to the ledger: what was made, from which episodes, and when. Holdout ids are refused."""
        ids = sorted(set(episodes))
        sealed = sorted(set(ids) & set(self.holdout))
        if sealed:
            raise SplitError(
                f"the fit {name!r} names holdout episodes as its parents: {', '.join(sealed[:3])}. Fit on calibration, "
                "choose on validation."
            )
        unknown = sorted(set(ids) - set(self.labels))
        if unknown or not ids:
            found = f"names {unknown[0]}, which is no episode of this split" if unknown else "names no episode"
            raise SplitError(f"the fit {name!r} {found}. Name the ids of the episodes it saw.")
        if started.tzinfo is None or ended.tzinfo is None or ended < started:
            raise SplitError(
                f"the fit {name!r} runs from {started} to {ended}. Give two times with a zone, the start first."
            )
        fields = {"name": name, "artifact": artifact, "episodes": ids, "split": self.hash}
        times = {"started": utc_text(started), "ended": utc_text(ended)}
        self._check_created(self.ledger.lines())
        return self.ledger.append("fit", {**fields, **times})


def tree_hash(folder: Path) -> str:
    """Names every file below a part's folder, by path and content; the key of a seal is left out."""
    return content_hash(file_hashes(folder, OPENING_KEYS))
