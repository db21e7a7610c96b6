"""The folders that evidence stands on, hashed again where they are given, and named where they are not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from twinproof.evidence.audit_shown import Given
from twinproof.evidence.claims import measured_before
from twinproof.evidence.figures import same
from twinproof.evidence.findings import Finding, Held, broken, confirmed, opened
from twinproof.evidence.gather import COVERAGE
from twinproof.nouns import recording
from twinproof.nouns.errors import EvidenceError, TwinproofError
from twinproof.nouns.files import read_json
from twinproof.nouns.panel import Panel
from twinproof.nouns.policy import Policy
from twinproof.nouns.posterior import Posterior
from twinproof.nouns.randomization import Randomization
from twinproof.nouns.recording import Recording
from twinproof.nouns.split import Split
from twinproof.nouns.strict import plain
from twinproof.nouns.trials import Trials
from twinproof.nouns.twin import Twin


def _recording(folder: Path) -> Recording:
    recording.verify(folder)
    return Recording.load(folder)


KINDS: dict[str, Callable[[Path], Any]] = {
    "recording": _recording,
    "split": Split.load,
    "twin": Twin.load,
    "posterior": Posterior.load,
    "randomization": Randomization.load,
    "panel": Panel.load,
    "trials": Trials.load,
    "policy": Policy.load,
}


def given(head: Held, artifacts: Sequence[Path]) -> tuple[list[Finding], Given]:
    """Each folder against the hash that the evidence states for it; and what the right ones hold, by name."""
    found = Given()
    return list(_given(head, artifacts, found)), found


def _given(head: Held, artifacts: Sequence[Path], found: Given) -> Iterator[Finding]:
    """Puts what was read into `found`; what was not given stays open."""
    stated = {name: str(entry.get("hash")) for name, entry in head.table("inputs").items()}
    seen: set[str] = set()
    for place in artifacts:
        kind = next((kind for kind in KINDS if (place / f"{kind}.json").is_file()), None)
        if kind is None:
            yield broken("inputs", f"{place} holds nothing that evidence stands on ({', '.join(KINDS)}).")
            continue
        names = [name for name in stated if name == kind or name.startswith(f"{kind}/")]
        try:
            noun = KINDS[kind](place)
        except TwinproofError as problem:
            yield broken("inputs", f"{kind}: {problem}")
            seen |= set(names) if len(names) == 1 else set()
            continue
        mine = [name for name in names if stated[name] == noun.hash]
        if mine:
            what = "split.json is the one" if kind == "split" else "is the one, every byte of it"
            yield confirmed("inputs", f"{mine[0]}: {place} {what} ({noun.hash[:16]}).")
            found.nouns.update(dict.fromkeys(mine, noun))
            found.places.update(dict.fromkeys(mine, place))
        else:
            wanted = ", ".join(stated[name][:16] for name in names) or "none"
            yield broken("inputs", f"{kind}: {place} has the hash {noun.hash[:16]}, the evidence stands on {wanted}.")
        seen |= set(mine) if mine or len(names) > 1 else set(names)
        yield from _leaks(head, (mine or [kind])[0], noun)
    yield from _estimates(head, found.nouns)
    yield from _before(head, found.nouns, found.places)
    left = [name for name in stated if name not in seen]
    if left:
        yield opened("inputs", f"what lies behind the hashes of {', '.join(left)}: their folders were not given.")


def _leaks(head: Held, name: str, noun: Any) -> Iterator[Finding]:
    leaked = sorted(set(head.texts("holdout")) & set(getattr(noun, "episodes", ()) if name != "recording" else ()))
    if leaked:
        yield broken("fits", f"the {name} has holdout episodes among its parents: {', '.join(leaked[:3])}.")


def _estimates(head: Held, nouns: Mapping[str, Any]) -> Iterator[Finding]:
    """Parameters and ranges as the posterior and the randomization have them."""
    if "posterior" in nouns:
        posterior = nouns["posterior"]
        told = {entry["parameter"]["id"]: entry for entry in head.tables("estimates") if "parameter" in entry}
        wrong = []
        for id in posterior.ids:
            entry = told.get(id, {})
            low, high = posterior.interval(id, float(entry.get("level", 0.9)))
            if not same([entry.get("mean"), entry.get("low"), entry.get("high")], [posterior.mean(id), low, high]):
                wrong.append(id)
        if wrong:
            yield broken("inputs", f"parameters that are not as the posterior has them: {', '.join(wrong)}.")
        else:
            yield confirmed(
                "inputs", f"{len(posterior.ids)} parameters and their intervals are those of the posterior."
            )
    if "randomization" in nouns:
        ranges = [plain(entry) for entry in nouns["randomization"].ranges]
        if not same(ranges, head.tables("ranges")):
            yield broken("inputs", "the ranges are not those of the randomization.")
        else:
            yield confirmed("inputs", f"{len(ranges)} ranges and their sources are those of the randomization.")


def _before(head: Held, nouns: Mapping[str, Any], places: Mapping[str, Path]) -> Iterator[Finding]:
    """The numbers that earlier stages measured and claims stand on."""
    if not {"twin", "posterior", "randomization"} <= set(nouns):
        yield opened(
            "inputs", "numbers measured before the trials: twin, posterior and randomization are needed for that."
        )
        return
    path = places["randomization"] / "coverage.json"
    coverage = read_json(path, COVERAGE, EvidenceError) if path.is_file() else None
    anew = measured_before(nouns["twin"], nouns["posterior"], nouns["randomization"], coverage)
    stated = head.table("figures").get("before", {})
    wrong = sorted(name for name in {*anew, *stated} if not same(anew.get(name), stated.get(name)))
    if wrong:
        yield broken("inputs", f"numbers that are not as they were measured before the trials: {', '.join(wrong[:3])}.")
    else:
        yield confirmed(
            "inputs", f"{len(anew)} numbers measured before the trials are those of twin, posterior, coverage."
        )
