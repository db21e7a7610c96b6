"""From folders to Evidence: inputs by hash and size, fits by episodes, numbers by source, claims by the panel.

folders -> gather -> figures (from trials) -> claims (by the panel's criteria) -> Evidence -> report.json -> html, md
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib import metadata

from twinproof.evidence.claims import judge, measured_before
from twinproof.evidence.crate import crate
from twinproof.evidence.drawing import DRAWN, drawing
from twinproof.evidence.figures import figures_of
from twinproof.evidence.gather import Gathered
from twinproof.evidence.markdown import markdown
from twinproof.evidence.model import model_of
from twinproof.evidence.page import page
from twinproof.nouns.errors import EvidenceError
from twinproof.nouns.evidence import PICTURES, Estimate, Evidence, Fit, Input
from twinproof.nouns.files import json_bytes
from twinproof.nouns.hashing import canonical
from twinproof.nouns.ledger import OWN, LedgerHead, Line
from twinproof.nouns.source import Inferred
from twinproof.nouns.split import FORMAT as SPLIT_FORMAT
from twinproof.nouns.split import Split
from twinproof.nouns.theta import ParameterInfo

LEVEL = 0.9  # of the parameters' intervals
TOLD_OF = ("twinproof", "mujoco", "numpy", "scipy", "torch", "rsl-rl-lib", "mujoco-warp", "gsplat")
NORMAL = 1.6448536269514722  # half the width of a normal's interval of LEVEL, in sd


def assemble(found: Gathered, scene_html: str | None = None) -> Evidence:
    """Evidence with its report. It is not built unless everything that makes it evidence is there.

    The first policy is judged. `scene_html` is a page of its own, a scene to walk around in, that the report shows.
    """
    judged = found.judged
    if judged not in {trial.policy for trial in found.trials.trials}:
        raise EvidenceError(f"no trial is of the policy {judged!r}, which is to be judged. Name one that was run.")
    figures = figures_of(found.panel, found.trials.trials, judged)
    before = measured_before(found.twin, found.posterior, found.randomization, found.coverage)
    openings = [line for line in found.lines if line.kind == "opened"]
    opened = any(line.fields.get("by") == found.panel.hash for line in openings)
    bare = Evidence(
        inputs=_inputs(found),
        fits=fits_of(found.split, found.lines),
        estimates=(*_estimates(found), *_scale(found)),
        ranges=found.randomization.ranges,
        holdout=found.split.holdout,
        panel=found.panel,
        claims=judge(found.panel, figures, before, opened),
        trials=found.trials.trials,
        ledger=LedgerHead(found.lines[-1].n, found.lines[-1].hash) if found.lines else None,
        traces=found.trials.traces,
        attempt=len(openings),
        split={"format": SPLIT_FORMAT, "hash": found.split.hash, **found.split.content},
        ledger_lines=tuple(line_text(line) for line in found.lines),
        figures={**figures, "before": before, "reality": found.trials.reality},
        versions=_versions(found),
        seeds=_seeds(found),
        machine=machine(),
    )
    return with_report(bare, found, scene_html)


def _inputs(found: Gathered) -> dict[str, Input]:
    """Every noun by hash and size; a policy without a folder by the hash that the trials state."""
    hashes = {name: hash for name, hash in found.trials.parents.items() if name.startswith("policy/")}
    hashes |= {name: noun.hash for name, noun in found.nouns.items()}
    return {name: Input(hash, found.sizes.get(name, 0), name.rpartition("/")[2]) for name, hash in hashes.items()}


def with_report(bare: Evidence, found: Gathered, scene_html: str | None = None) -> Evidence:
    """The same evidence with its report as HTML, Markdown and JSON, and the pictures and the scene beside it."""
    told = model_of(bare, found)
    documents = {
        **{f"{PICTURES}/{name}": content for name, content in found.pictures.items()},
        **({} if scene_html is None else {"scene.html": scene_html.encode()}),
        "report.json": json_bytes(told),
        "report.md": markdown(told).encode(),
    }
    documents["ro-crate-metadata.json"] = json_bytes(crate(bare, told, documents))
    return replace(bare, report=page(told, found.pictures, scene_html), documents=documents)


def line_text(line: Line) -> str:
    """A line of the ledger as it stands on disk."""
    return canonical({**line.fields, **{name: getattr(line, name) for name in OWN}}).decode()


def fits_of(split: Split, lines: Iterable[Line]) -> tuple[Fit, ...]:
    """Every fit that the ledger holds, used or not: what it made, and the exact episodes it read."""
    calibration = set(split.calibration)
    fits = []
    for line in lines:
        if line.kind == "fit":
            episodes = tuple(str(id) for id in line.fields["episodes"])
            part = "calibration" if calibration >= set(episodes) else "validation"
            fits.append(Fit(str(line.fields["name"]), str(line.fields["artifact"]), part, episodes))  # type: ignore[arg-type]
    return tuple(fits)


def _estimates(found: Gathered) -> Iterable[Estimate]:
    posterior = found.posterior
    for parameter in posterior.parameters:
        low, high = posterior.interval(parameter.id, LEVEL)
        source = Inferred(posterior.hash, LEVEL)
        known = parameter.id not in posterior.unidentified
        yield Estimate(parameter, posterior.mean(parameter.id), low, high, LEVEL, source, known)


def _scale(found: Gathered) -> Iterable[Estimate]:
    """The twin's scale, where it was found and not stated."""
    alignment = found.twin.alignment
    if alignment.scale_sd > 0:
        half = NORMAL * alignment.scale_sd
        about = ParameterInfo("twin.scale", "1", 1e-6, 1e6, log=True)
        low, high = max(alignment.scale - half, about.low), alignment.scale + half
        yield Estimate(about, alignment.scale, low, high, LEVEL, alignment.source)


def _versions(found: Gathered) -> dict[str, str]:
    here = {}
    for name in TOLD_OF:
        try:
            here[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue  # an extra that is not installed had no part in it
    trials = {f"trials: {name}": version for name, version in found.trials.versions.items()}
    if "engine" not in found.trials.versions:  # then the traces tell
        engines = sorted({trace.engine for trace in found.trials.traces.values() if trace.engine})
        trials["trials: engine"] = ", ".join(engines) or "none"
    here[DRAWN] = drawing()
    return {**here, "python": platform.python_version(), "engine of the twin": found.twin.engine, **trials}


def _seeds(found: Gathered) -> dict[str, int]:
    named = {"split": found.split, "posterior": found.posterior, "randomization": found.randomization}
    seeds = {name: int(noun.seed) for name, noun in named.items()}  # type: ignore[attr-defined]
    seeds |= {f"policy/{name}": policy.seed for name, policy in found.policies.items()}
    return {**seeds, "panel: order of trials": found.panel.order_seed}


def machine() -> dict[str, str]:
    """What kind of machine this is; never which one."""
    told: Mapping[str, str] = {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(os.cpu_count()),
        "memory": f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB",
    }
    return dict(told)
