"""The folders that evidence stands on, hashed again where they are given, and named where they are not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from twinproof.evidence.findings import Finding, Held, broken, confirmed, opened
from twinproof.nouns import recording
from twinproof.nouns.errors import TwinproofError
from twinproof.nouns.panel import Panel
from twinproof.nouns.policy import Policy
from twinproof.nouns.posterior import Posterior
from twinproof.nouns.randomization import Randomization
from twinproof.nouns.recording import Recording
from twinproof.nouns.split import Split
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


def given(head: Held, artifacts: Sequence[Path]) -> Iterator[Finding]:
    """Each folder against the hash that the evidence states for it; what was not given stays open."""
    stated = {name: str(entry.get("hash")) for name, entry in head.table("inputs").items()}
    seen = set()
    for folder in artifacts:
        kind = next((kind for kind in KINDS if (folder / f"{kind}.json").is_file()), None)
        if kind is None:
            yield broken("inputs", f"{folder} holds nothing that evidence stands on ({', '.join(KINDS)}).")
            continue
        try:
            noun = KINDS[kind](folder)
        except TwinproofError as problem:
            yield broken("inputs", f"{kind}: {problem}")
            seen |= {name for name in stated if name == kind}
            continue
        names = [name for name in stated if name == kind or name.startswith(f"{kind}/")]
        mine = [name for name in names if stated[name] == noun.hash]
        seen |= set(mine)
        if mine:
            yield confirmed("inputs", f"{mine[0]}: {folder} is the one, every byte of it ({noun.hash[:16]}).")
            yield from _leaks(head, mine[0], noun)
            yield from _numbers(head, kind, noun)
        else:
            wanted = ", ".join(stated[name][:16] for name in names) or "none"
            yield broken("inputs", f"{kind}: {folder} has the hash {noun.hash[:16]}, the evidence stands on {wanted}.")
            yield from _leaks(head, kind, noun)
            seen |= set(names) if len(names) == 1 else set()
    left = [name for name in stated if name not in seen]
    if left:
        yield opened("inputs", f"what lies behind the hashes of {', '.join(left)}: their folders were not given.")


def _leaks(head: Held, name: str, noun: Any) -> Iterator[Finding]:
    leaked = sorted(set(head.texts("holdout")) & set(getattr(noun, "episodes", ()) if name != "recording" else ()))
    if leaked:
        yield broken("fits", f"the {name} has holdout episodes among its parents: {', '.join(leaked[:3])}.")


def _numbers(head: Held, kind: str, noun: Any) -> Iterator[Finding]:
    """The numbers that the evidence took from a folder, taken from it again."""
    if kind == "posterior":
        told = {entry["parameter"]["id"]: entry for entry in head.tables("estimates") if "parameter" in entry}
        wrong = []
        for id in noun.ids:
            entry = told.get(id, {})
            low, high = noun.interval(id, float(entry.get("level", 0.9)))
            if [entry.get("mean"), entry.get("low"), entry.get("high")] != [noun.mean(id), low, high]:
                wrong.append(id)
        if wrong:
            yield broken("inputs", f"parameters that are not as the posterior has them: {', '.join(wrong)}.")
        else:
            yield confirmed("inputs", f"{len(noun.ids)} parameters and their intervals are those of the posterior.")
    if kind == "randomization":
        ranges = json.loads(json.dumps(noun.head()["ranges"]))
        if ranges != head.tables("ranges"):
            yield broken("inputs", "the ranges are not those of the randomization.")
        else:
            yield confirmed("inputs", f"{len(ranges)} ranges and their sources are those of the randomization.")
