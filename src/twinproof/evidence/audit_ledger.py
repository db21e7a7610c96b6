"""The history that evidence carries: its split, and its ledger replayed line by line."""

from __future__ import annotations

from collections.abc import Iterator

from twinproof.evidence.assemble import fits_of
from twinproof.evidence.findings import Finding, Held, broken, confirmed
from twinproof.nouns.errors import EvidenceError, TwinproofError
from twinproof.nouns.ledger import Chain, LedgerHead, Line, read_chain
from twinproof.nouns.parts import refits_since
from twinproof.nouns.split import Split
from twinproof.nouns.strict import build, plain


def history(head: Held) -> Iterator[Finding]:
    """Whether the split is the one that was made, the ledger is whole, and no fit saw the holdout."""
    chain = read_chain("".join(f"{text}\n" for text in head.texts("ledger_lines")).encode())
    yield from _chain(head, chain)
    split: Split | None = None
    try:
        told = head.table("split")
        stated = told.pop("hash", None)
        told.pop("format", None)
        split = build(Split, told, "evidence.json: split", EvidenceError)
    except TwinproofError as problem:
        yield broken("split", str(problem))
    if split is not None:
        yield from _split(head, split, str(stated), chain)
        yield from _fits(head, split, chain.lines)
    yield from _leaks(head, chain.lines)
    yield from _openings(head, chain.lines)


def _chain(head: Held, chain: Chain) -> Iterator[Finding]:
    for found in chain.breaks:
        yield broken("ledger", f"ledger: {found.text}.")
    told = head.table("ledger")
    try:
        seen = LedgerHead(int(told["count"]), str(told["hash"]))
    except (KeyError, TypeError, ValueError):
        yield broken("ledger", "ledger: its head is no count and hash, so nobody knows how long it was.")
        return
    problem = chain.saw(seen)
    if problem:
        yield broken("ledger", f"ledger: it {problem}, since the evidence was made.")
    elif len(chain.lines) > seen.count:
        yield broken("ledger", f"ledger: {len(chain.lines) - seen.count} lines were added since the evidence was made.")
    elif not chain.breaks:
        yield confirmed("ledger", f"ledger: the chain of {len(chain.lines)} lines holds, and none is cut off its end.")


def _split(head: Held, split: Split, stated: str, chain: Chain) -> Iterator[Finding]:
    created = chain.lines[0] if chain.lines and chain.lines[0].kind == "created" else None
    wrong = []
    if split.hash != stated:
        wrong.append("itself")
    if split.hash != head.table("inputs").get("split", {}).get("hash"):
        wrong.append("the inputs")
    if created is None or created.fields.get("split") != split.hash:
        wrong.append("the ledger's first line")
    if wrong:
        text = f"split: its episodes give the hash {split.hash[:16]}, which is not what {', '.join(wrong)} state"
        yield broken("split", f"{text}. An episode was moved, added or taken away.")
    else:
        counts = (
            f"{len(split.calibration)} calibration, {len(split.validation)} validation, {len(split.holdout)} holdout"
        )
        yield confirmed("split", f"split: the one that the ledger was created for ({counts}).")
    if tuple(sorted(head.texts("holdout"))) != tuple(sorted(split.holdout)):
        yield broken("split", "split: the evidence names other holdout episodes than the split.")


def _fits(head: Held, split: Split, lines: tuple[Line, ...]) -> Iterator[Finding]:
    """The fits that the evidence states are those of the ledger, and stayed in the parts that they name."""
    stated = head.tables("fits")
    try:
        logged = [plain(fit) for fit in fits_of(split, lines)]
    except (KeyError, TypeError) as problem:
        yield broken("fits", f"a fit in the ledger lacks {problem}.")
        return
    for fit in stated:
        if fit not in logged:
            yield broken(
                "fits", f"the fit {fit.get('stage')!r} ({str(fit.get('result'))[:16]}) is not so in the ledger."
            )
    for fit in logged:
        if fit not in stated:
            yield broken("fits", f"the ledger's fit {fit['stage']!r} ({fit['result'][:16]}) is not in the evidence.")


def _leaks(head: Held, lines: tuple[Line, ...]) -> Iterator[Finding]:
    holdout = set(head.texts("holdout")) | set(map(str, head.table("split").get("holdout", ())))
    sealed = False
    told = [(f"the fit {fit.get('stage')!r}", fit.get("episodes")) for fit in head.tables("fits")]
    told += [(f"line {line.n} of the ledger", line.fields.get("episodes")) for line in lines if line.kind == "fit"]
    for name, episodes in told:
        leaked = sorted(holdout & set(map(str, episodes or ())))
        if leaked:
            sealed = True
            yield broken("fits", f"{name} has holdout episodes among its parents: {', '.join(leaked[:3])}.")
    if not sealed:
        yield confirmed("fits", f"{len(head.tables('fits'))} fits, none with a holdout episode among its parents.")


def _openings(head: Held, lines: tuple[Line, ...]) -> Iterator[Finding]:
    openings = [line for line in lines if line.kind == "opened"]
    attempts = head.data.get("attempt")
    if attempts != len(openings):
        yield broken("ledger", f"the evidence counts {attempts} openings of the holdout, the ledger {len(openings)}.")
    for k, line in enumerate(openings):
        if line.fields.get("attempt") != k + 1 or (k and not line.fields.get("change")):
            yield broken("ledger", f"line {line.n}: the opening should be attempt {k + 1} and say what changed.")
    for line in refits_since(lines, openings[-1]) if openings else ():
        text = f"{line.fields.get('name')!r} was fitted (line {line.n}) after the holdout was opened"
        yield broken("ledger", f"undeclared refit: {text} (line {openings[-1].n}).")
    yield from _fixed(head, lines, openings)
    words = {0: "never opened", 1: "opened once", 2: "opened twice"}.get(len(openings), f"opened {len(openings)} times")
    yield confirmed("ledger", f"the holdout was {words}, as far as the ledger tells.")


def _fixed(head: Held, lines: tuple[Line, ...], openings: list[Line]) -> Iterator[Finding]:
    """The panel stood before the holdout was opened for it: by its own line, or by the head that it carries."""
    panel = str(head.table("inputs").get("panel", {}).get("hash"))
    first = next((line.n for line in openings if line.fields.get("by") == panel), None)
    own = next((line.n for line in lines if line.kind == "panel" and line.fields.get("panel") == panel), None)
    carried = head.table("panel").get("ledger")
    count = own if own is not None else carried.get("count") if isinstance(carried, dict) else None
    if first is None or not isinstance(count, int):
        return
    if count < first:
        yield confirmed(
            "ledger", f"the panel stood (line {count}) before the holdout was opened for it (line {first})."
        )
    else:
        yield broken("ledger", f"the panel stood in line {count}, after the holdout was opened for it (line {first}).")
