"""What evaluate computed beside the trials, and the curves of training: shown in the report, deciding nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from twinproof.evidence.model_traces import band_of, short
from twinproof.nouns.hashing import Json
from twinproof.nouns.strict import plain

POINTS = 240  # of a training curve
SHOWN = ("success", "reward", "return")
STEPS = ("steps", "step", "env_steps", "iteration")
REWARD = "reward/"  # the prefix of a reward's terms


def summary_of(summary: Mapping[str, Any]) -> dict[str, Json]:
    """The gap step by step, how policies rank, replays of logged actions, and what to keep in mind."""
    steps = [
        plain(step) for step in summary.get("decomposition") or () if isinstance(step, Mapping) and "value" in step
    ]
    agreement, replayed = summary.get("agreement"), summary.get("replay")
    own = replayed.get("recorded_in") if isinstance(replayed, Mapping) else None
    return {
        "decomposition": steps,
        "agreement": plain(agreement) if isinstance(agreement, Mapping) else None,
        "replay": _replay(summary.get("replay")),
        **({"recorded_in": plain(own)} if own else {}),
        "notes": [str(note) for note in summary.get("notes") or ()],
    }


def _replay(told: Any) -> list[dict[str, Json]]:
    """For each world: how far logged actions, played in it, lead from what the robot did."""
    found: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    for entry in told.get("worlds") or () if isinstance(told, Mapping) else ():
        if len(entry.get("time_s") or ()) > 1:
            course = (np.array(entry["time_s"], dtype=float), np.array(entry["course"], dtype=float))
            found.setdefault(str(entry["domain"]), []).append(course)
    return [
        {"domain": domain, "unit": "share of joint ranges", **band_of(courses)} for domain, courses in found.items()
    ]


def curves_of(rows: tuple[Mapping[str, float], ...]) -> list[dict[str, Json]]:
    """Success and reward over the steps of training, where they were logged; the terms of a reward are added up."""
    steps = next((name for name in STEPS if rows and name in rows[-1]), None)
    found = []
    for value in SHOWN:
        points = []
        for k, row in enumerate(rows):
            terms = [term for name, term in row.items() if name.startswith(REWARD)] if value == "reward" else []
            if value in row or terms:
                points.append([row.get(steps, k) if steps else k, row.get(value, sum(terms))])
        points = points[:: max(1, -(-len(points) // POINTS))]
        if len(points) > 1:
            rounded = [[short(x), short(y)] for x, y in points]
            found.append({"value": value, "steps": steps or "row", "points": rounded})
    return found
