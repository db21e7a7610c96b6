"""The folders that evidence stands on, read and held against one another: each names the others by their hashes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from twinproof.nouns.artifact import Artifact
from twinproof.nouns.errors import EvidenceError
from twinproof.nouns.files import SAFE_NAME, read_json
from twinproof.nouns.hashing import Json
from twinproof.nouns.ledger import Line
from twinproof.nouns.panel import Panel
from twinproof.nouns.policy import Policy
from twinproof.nouns.posterior import Posterior
from twinproof.nouns.randomization import Randomization
from twinproof.nouns.recording import Recording
from twinproof.nouns.split import Split
from twinproof.nouns.trials import Trials
from twinproof.nouns.twin import Twin
from twinproof.policies.load import read_policy

COVERAGE = "twinproof/coverage/1"
PICTURE_KINDS = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp"}
LARGEST_PICTURES = 8_000_000  # bytes of all pictures: base64 adds a third, and the report stays below 15 MB


@dataclass(frozen=True)
class Folders:
    """Where everything lies. The first policy is the one that is judged; the others are compared with it.

    A scripted expert has no folder: its path is None, and the trials say which one it was.
    """

    recording: Path
    split: Path
    twin: Path
    posterior: Path
    randomization: Path
    panel: Path
    trials: Path
    policies: Mapping[str, Path | None]
    coverage: Path | None = None  # the result of the range-miss test; by default coverage.json of the randomization
    pictures: Path | None = None


@dataclass(frozen=True, eq=False)
class Gathered:
    """Everything that was read. `judged` is a policy's name; `policies` lacks those that have no folder."""

    recording: Recording
    split: Split
    lines: tuple[Line, ...]  # of the ledger
    twin: Twin
    posterior: Posterior
    randomization: Randomization
    panel: Panel
    trials: Trials
    judged: str
    policies: Mapping[str, Policy]
    sizes: Mapping[str, int]  # bytes of each input's folder
    coverage: Mapping[str, Json] | None = None
    curves: Mapping[str, tuple[Mapping[str, float], ...]] = field(
        default_factory=dict
    )  # policy -> rows of its training
    pictures: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def nouns(self) -> dict[str, Recording | Split | Artifact]:
        """Every input by the name that the evidence gives it."""
        named = ("recording", "split", "twin", "posterior", "randomization", "panel", "trials")
        return {**{name: getattr(self, name) for name in named}, **{f"policy/{n}": p for n, p in self.policies.items()}}


def gather(folders: Folders) -> Gathered:
    """Reads every folder; EvidenceError where they do not belong together."""
    split = Split.load(folders.split)
    randomization = Randomization.load(folders.randomization)
    loaded = {name: path for name, path in folders.policies.items() if path is not None}
    places = {
        name: getattr(folders, name)
        for name in ("recording", "split", "twin", "posterior", "randomization", "panel", "trials")
    } | {f"policy/{name}": path for name, path in loaded.items()}
    found = Gathered(
        recording=Recording.load(folders.recording),
        split=split,
        lines=split.ledger.lines(),
        twin=Twin.load(folders.twin),
        posterior=Posterior.load(folders.posterior),
        randomization=randomization,
        panel=Panel.load(folders.panel),
        trials=Trials.load(folders.trials),
        judged=next(iter(folders.policies), ""),
        policies={name: read_policy(path) for name, path in loaded.items()},
        sizes={name: _bytes(path) for name, path in places.items()},
        coverage=_coverage(folders, randomization, split),
        curves={name: rows for name, path in loaded.items() if (rows := curve_of(path))},
        pictures={} if folders.pictures is None else _pictures(folders.pictures),
    )
    check_parents(found)
    return found


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _coverage(folders: Folders, randomization: Randomization, split: Split) -> dict[str, Json] | None:
    path = folders.coverage or folders.randomization / "coverage.json"
    if folders.coverage is None and not path.is_file():
        return None
    told = read_json(path, COVERAGE, EvidenceError)
    for name, hash in (("randomization", randomization.hash), ("split", split.hash)):
        if told.get(name, hash) != hash:
            raise EvidenceError(
                f"{path} tested another {name} ({str(told.get(name))[:16]}, not {hash[:16]}). Test this one's ranges."
            )
    covered, episodes = told.get("covered"), told.get("episodes")
    if not isinstance(covered, (int, float)) or not 0 <= covered <= 1 or not isinstance(episodes, list):
        raise EvidenceError(
            f"{path} needs 'covered', a share from 0 to 1, and 'episodes', the ids it was judged on. Make it again."
        )
    return told


def curve_of(folder: Path) -> tuple[dict[str, float], ...]:
    """The rows of metrics.jsonl beside a policy, where training left one: numbers only."""
    path = folder / "metrics.jsonl"
    if not path.is_file():
        return ()
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            row = json.loads(line)
            numbers = {str(k): float(v) for k, v in row.items() if isinstance(v, (int, float)) and abs(v) < 1e300}
        except (ValueError, AttributeError):
            raise EvidenceError(f"{path}: line {number} is no table of numbers. Restore it, or move it away.") from None
        rows.append(numbers)
    return tuple(rows)


def _pictures(folder: Path) -> dict[str, bytes]:
    found = {}
    for path in sorted(folder.iterdir() if folder.is_dir() else ()):
        if path.suffix.lower() in PICTURE_KINDS and path.is_file():
            if not SAFE_NAME.fullmatch(path.name):
                raise EvidenceError(f"the picture {path.name!r} must be named by letters, digits, '_', '.' and '-'.")
            found[path.name] = path.read_bytes()
    if not found:
        raise EvidenceError(f"{folder} holds no picture ({', '.join(PICTURE_KINDS)}). Name a folder that does.")
    total = sum(map(len, found.values()))
    if total > LARGEST_PICTURES:
        raise EvidenceError(
            f"the pictures in {folder} have {total / 1e6:.1f} MB; the report takes {LARGEST_PICTURES / 1e6:.0f} MB. "
            "Choose fewer, or make them smaller."
        )
    return found


def check_parents(found: Gathered) -> None:
    """Every noun was made from the others that are here, and every fit stands in the ledger."""
    wrong = list(_strangers(found))
    if wrong:
        raise EvidenceError(
            f"the folders do not belong together: {'; '.join(wrong)}. Name those that were made from one another."
        )
    logged = {line.fields.get("artifact") for line in found.lines if line.kind == "fit"}
    for name, noun in (("twin", found.twin), ("posterior", found.posterior), ("randomization", found.randomization)):
        if noun.episodes and noun.hash not in logged:
            raise EvidenceError(
                f"the {name} read {len(noun.episodes)} episodes, and no line of the ledger says so "
                f"({noun.hash[:16]}). A fit that is not in the ledger proves nothing: make it again with twinproof."
            )


def _strangers(found: Gathered) -> Iterator[str]:
    hashes = {name: noun.hash for name, noun in found.nouns.items()}
    if found.split.recording != found.recording.hash:
        yield f"the split was made of another recording ({found.split.recording[:16]}, not {hashes['recording'][:16]})"
    for name, noun in found.nouns.items():
        compared = (
            name.startswith("policy/") and name != f"policy/{found.judged}"
        )  # may come from other ranges, or none
        for parent, hash in getattr(noun, "parents", {}).items():
            if parent in hashes and hash != hashes[parent] and not (compared and parent == "randomization"):
                yield f"the {name} was made with another {parent} ({hash[:16]}, not {hashes[parent][:16]})"
