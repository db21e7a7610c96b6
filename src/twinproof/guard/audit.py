"""The audit of a split: is the chain whole, are the files those that were written, did anything see the holdout first?

It reads, and changes nothing. Each finding is a plain sentence and says whether it is a break.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from twinproof.nouns.errors import LedgerError, SplitError, TwinproofError
from twinproof.nouns.files import read_json
from twinproof.nouns.hashing import Json, hash_file
from twinproof.nouns.ledger import Chain, Ledger, LedgerHead, Line
from twinproof.nouns.parts import FORMAT as HOLDOUT_FORMAT
from twinproof.nouns.parts import refits_since
from twinproof.nouns.recording import Recording, verify
from twinproof.nouns.split import PARTS, Split, tree_hash

OWN_FILES = {*PARTS, "split.json", "openings.jsonl", "openings.lock", "config.json"}
MAY_NAME_HOLDOUT = ("panel", "trials", "evidence")  # nouns that measure; every other artifact fits


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: held or broken, and a sentence that says which and where."""

    ok: bool
    about: str  # chain, split, files, seal, fit, opening, artifact
    text: str


@dataclass(frozen=True)
class AuditResult:
    """All findings. `attempts` is how often the holdout was opened anew, as far as the ledger can be read."""

    findings: tuple[Finding, ...]
    attempts: int | None  # None: the ledger cannot be read

    @property
    def breaks(self) -> tuple[Finding, ...]:
        """The findings that are breaks."""
        return tuple(finding for finding in self.findings if not finding.ok)

    @property
    def ok(self) -> bool:
        """Whether nothing is broken."""
        return not self.breaks


def audit(folder: Path, artifacts: Sequence[Path] = ()) -> AuditResult:
    """Findings about the split in a folder and about artifacts (folders or JSON files) that carry its ledger's head."""
    if not (folder / "split.json").is_file():
        raise SplitError(f"{folder} holds no split.json, so there is nothing to audit. Name a folder made by split.")
    try:
        chain = Ledger(folder / "openings.jsonl").chain()
    except LedgerError as problem:
        chain, findings = Chain((), ()), [Finding(False, "chain", str(problem))]
    else:
        findings = list(_chain(chain))
    attempts = sum(line.kind == "opened" for line in chain.lines) if chain.lines else None
    try:
        split = Split.load(folder)
    except SplitError as problem:  # what it states means nothing now; the ledger still tells about openings
        return AuditResult((*findings, Finding(False, "split", str(problem)), *_openings(chain.lines)), attempts)
    findings += _split(split, chain)
    findings += [_part(folder, part, split) for part in ("calibration", "validation")]
    findings.append(_seal(folder, split))
    findings += _key(folder)
    findings += _strangers(folder)
    findings += _files(folder, chain)
    findings += _fits(split, chain.lines)
    findings += _openings(chain.lines)
    for path in artifacts:
        findings += _artifact(path, split, chain)
    return AuditResult(tuple(findings), attempts)


def _chain(chain: Chain) -> Iterator[Finding]:
    for found in chain.breaks:
        yield Finding(False, "chain", f"openings.jsonl: {found.text}.")
    if not chain.breaks:
        yield Finding(True, "chain", f"openings.jsonl: the chain of {len(chain.lines)} lines holds.")
    for line in chain.lines:
        if line.kind == "torn":
            text = f"line {line.n} keeps {len(line.fields.get('text', ''))} characters of an append that was killed"
            yield Finding(True, "chain", f"openings.jsonl: {text}.")


def _split(split: Split, chain: Chain) -> Iterator[Finding]:
    created = chain.lines[0] if chain.lines and chain.lines[0].kind == "created" else None
    if created is None or created.fields.get("split") != split.hash:
        stated = "nothing" if created is None else str(created.fields.get("split"))[:16]
        yield Finding(
            False, "split", f"split.json has the hash {split.hash[:16]}, the ledger was created for {stated}."
        )
    else:
        yield Finding(True, "split", f"split.json is the one that the ledger was created for ({split.hash[:16]}).")


def _part(folder: Path, part: str, split: Split) -> Finding:
    try:
        recording = Recording.load(folder / part)
        verify(folder / part)
    except TwinproofError as problem:
        return Finding(False, "files", f"{part}: {problem}")
    ids = tuple(sorted(episode.id for episode in recording.episodes))
    if ids != split.ids(part) or recording.hash != split.hashes.get(part):
        return Finding(False, "files", f"{part}: the folder holds other episodes or labels than split.json states.")
    return Finding(True, "files", f"{part}: {len(ids)} episodes, every file as it was written.")


def _seal(folder: Path, split: Split) -> Finding:
    place = folder / "holdout"
    try:
        head = read_json(place / "holdout.json", HOLDOUT_FORMAT, SplitError)
        ids, sealed = tuple(sorted(head["episodes"])), head["sealed"]["hash"]
        found = hash_file(place / "sealed.bin")
    except (SplitError, KeyError, TypeError, OSError) as problem:
        return Finding(False, "seal", f"holdout: {problem}")
    if ids != split.holdout or head.get("recording") != split.hashes.get("holdout"):
        return Finding(False, "seal", "holdout: holdout.json names other episodes than split.json.")
    if found != sealed:
        return Finding(False, "seal", "holdout: sealed.bin was changed since it was written.")
    plain = sorted(path.name for path in place.iterdir() if path.name not in ("holdout.json", "sealed.bin", "key"))
    if plain:
        return Finding(
            False, "seal", f"holdout: {', '.join(plain[:3])} lies beside the seal and does not belong there."
        )
    return Finding(True, "seal", f"holdout: {len(ids)} episodes, sealed as they were written.")


def _key(folder: Path) -> Iterator[Finding]:
    """Whether the holdout can still be opened: the key is the one it was sealed with."""
    try:
        stated = read_json(folder / "holdout" / "holdout.json", HOLDOUT_FORMAT, SplitError).get("key")
        found = hash_file(folder / "holdout" / "key")
    except PermissionError:
        yield Finding(True, "seal", "holdout: the key is its owner's to read, so it was not checked.")
    except (SplitError, OSError):
        yield Finding(False, "seal", "holdout: the key is missing, so the holdout can never be opened. Restore it.")
    else:
        if found != stated:
            yield Finding(False, "seal", "holdout: the key is not the one it was sealed with. Restore it.")


def _strangers(folder: Path) -> Iterator[Finding]:
    """Anything beside the split's own files could be a plain copy of the holdout."""
    for path in sorted(folder.iterdir()):
        if path.name not in OWN_FILES:
            yield Finding(False, "files", f"{path.name} lies in the split's folder and does not belong there.")


def _files(folder: Path, chain: Chain) -> Iterator[Finding]:
    """The first line of the ledger remembers every file, so a part that was rewritten as a whole is found as well."""
    stated = chain.lines[0].fields.get("files", {}) if chain.lines else {}
    for part in PARTS:
        if not (folder / part).is_dir():
            yield Finding(False, "files", f"{part}: the folder is missing.")
        elif stated and tree_hash(folder / part) != stated.get(part):
            text = f"{part}: a file was changed, added or removed since the ledger was created."
            yield Finding(False, "files", text)


def _fits(split: Split, lines: tuple[Line, ...]) -> Iterator[Finding]:
    for line in lines:
        if line.kind != "fit":
            continue
        name, parents = f"fit {line.fields.get('name')!r} (line {line.n})", set(line.fields.get("episodes", ()))
        sealed, unknown = sorted(parents & set(split.holdout)), sorted(parents - set(split.labels))
        if sealed:
            yield Finding(False, "fit", f"{name} has holdout episodes among its parents: {', '.join(sealed[:3])}.")
        if unknown:
            yield Finding(False, "fit", f"{name} has parents that are in no part: {', '.join(unknown[:3])}.")
        if line.fields.get("split") != split.hash:
            yield Finding(False, "fit", f"{name} names another split.")
        if not sealed and not unknown:
            yield Finding(True, "fit", f"{name} saw {len(parents)} episodes, none of the holdout.")


def _openings(lines: tuple[Line, ...]) -> Iterator[Finding]:
    opened = [line for line in lines if line.kind == "opened"]
    if not lines:
        yield Finding(False, "opening", "without a ledger nobody can say whether the holdout was opened.")
    elif not opened:
        yield Finding(True, "opening", "the holdout was never opened.")
    for k, line in enumerate(opened):
        change = line.fields.get("change")
        said = f'after the declared change "{change}"' if change else "with no change declared"
        text = f"attempt {line.fields.get('attempt')} at {line.at} by {str(line.fields.get('by'))[:16]}"
        if line.fields.get("attempt") != k + 1 or (k and not change):
            yield Finding(
                False, "opening", f"{text} (line {line.n}), {said}: it should be attempt {k + 1} and say why."
            )
        else:
            yield Finding(True, "opening", f"{text}{f', {said}' if k else ''}.")
    if opened:
        refits = refits_since(lines, opened[-1])
        for line in refits:
            yield Finding(
                False,
                "opening",
                f"undeclared refit: the holdout was opened (line {opened[-1].n}) before the fit "
                f"{line.fields.get('name')!r} ended (line {line.n}, {line.fields.get('ended')}). Open it again and "
                "say what changed, or drop what that fit made.",
            )
    for line in lines:
        started_early = [f for f in opened if f.n > line.n and str(line.fields.get("ended", "")) > f.at]
        if line.kind == "fit" and started_early:
            text = f"fit {line.fields.get('name')!r} (line {line.n}) says it ended after the opening in line "
            yield Finding(False, "opening", f"{text}{started_early[0].n}, which stands behind it.")


def _artifact(path: Path, split: Split, chain: Chain) -> Iterator[Finding]:
    """What any noun's folder says of its ledger and its parents, read without knowing the noun."""
    found = False
    for file in sorted(path.glob("*.json")) if path.is_dir() else [path]:
        try:
            data = json.loads(file.read_bytes())
        except (OSError, ValueError, RecursionError) as problem:
            found = True
            yield Finding(False, "artifact", f"{file} cannot be read ({problem}).")
            continue
        if isinstance(data, dict) and "ledger" in data:
            found = True
            yield from _carried(file, data, split, chain)
    if not found:
        yield Finding(False, "artifact", f"{path} has no JSON that carries a ledger head, so it cannot be checked.")


def _carried(file: Path, data: dict[str, Json], split: Split, chain: Chain) -> Iterator[Finding]:
    try:
        head = LedgerHead(int(data["ledger"]["count"]), str(data["ledger"]["hash"]))
    except (KeyError, TypeError, ValueError):
        yield Finding(False, "artifact", f"{file}: its ledger head is not a count and a hash.")
        return
    problem = chain.saw(head)
    if problem:
        yield Finding(False, "artifact", f"openings.jsonl {problem}, since {file.name} of {file.parent.name} was made.")
    kind = str(data.get("format", "")).split("/")[1:2]
    named = set(_texts([data.get("parents"), data.get("episodes")]))
    sealed = sorted(named & set(split.holdout))
    if sealed and not (kind and kind[0] in MAY_NAME_HOLDOUT):
        text = f"{file} has holdout episodes among its parents: {', '.join(sealed[:3])}."
        yield Finding(False, "artifact", text)
    parents = data.get("parents")
    other = parents.get("split") if isinstance(parents, dict) else None
    if other is not None and other != split.hash:
        yield Finding(False, "artifact", f"{file} was made with another split ({str(other)[:16]}).")
    if not problem:
        yield Finding(True, "artifact", f"{file} saw {head.count} lines of the ledger, and they are still there.")


def _texts(value: Json) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
