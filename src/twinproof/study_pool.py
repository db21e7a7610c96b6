"""Several transfer studies of one design, each of another robot, as one: robots are the units.

Seeds of one robot vary the training alone. What a way of randomising is worth on the next robot, only robots can say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from twinproof.nouns.errors import ConfigError
from twinproof.nouns.files import read_json, write_json, write_whole
from twinproof.nouns.strict import plain
from twinproof.study_page import FORMAT, draw
from twinproof.study_table import LEVEL, Row, lines, verdicts

POOL = "twinproof/transfer-pool/1"
ITS_OWN = ("home", "reality")  # a robot's own, in studies of one design


def write_pool(studies: Sequence[Path], out: Path) -> list[str]:
    """Writes pool.json, pool.md and pool.png; gives the lines of the page."""
    if len(studies) < 2:
        raise ConfigError(f"{len(studies)} study is no pool. Name the folders of two or more, each of another robot.")
    found = {str(path): read_json(path / "transfer.json", FORMAT, ConfigError) for path in studies}
    if len({path.resolve() for path in studies}) < len(studies):
        raise ConfigError("a study stands twice in the pool: a robot would count twice. Name each once.")
    _check_robots(found)
    _check_alike(found)
    rows = pooled(list(found.values()))
    judged = verdicts(rows)
    page = [*lines(rows), "", *judged, "", *_robots(found)]
    told = [{"variant": row.variant, "rates": row.rates, "success": row.success} for row in rows]
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / "pool.json", {"format": POOL, "studies": list(found), "rows": plain(told), "verdict": judged})
    write_whole(out / "pool.md", "\n".join([*page, ""]).encode())
    draw(rows, out / "pool.png")
    return page


def pooled(studies: Sequence[Mapping[str, Any]]) -> tuple[Row, ...]:
    """Every variant's success by domain: of each robot the mean over its seeds."""
    rows = []
    for k, first in enumerate(studies[0]["rows"]):
        rates = {
            domain: tuple(float(np.mean(study["rows"][k]["rates"][domain])) for study in studies)
            for domain in first["rates"]
        }
        rows.append(Row(first["variant"], rates, "robot"))
    return tuple(rows)


def _check_robots(found: Mapping[str, Mapping[str, Any]]) -> None:
    """Each study is of another robot, as far as can be told: another twin, and in the lab another plant."""
    seen = dict[str, str]()
    for name, study in found.items():
        reality = str(study["panel"]["reality"])
        for whose in (study["twin"], *([reality] if reality.startswith("lab:") else [])):
            if whose in seen:
                raise ConfigError(
                    f"{name} and {seen[whose]} are studies of one robot ({whose[:40]}), which would count twice. Give "
                    "its seeds in one study (--seeds), and name that one."
                )
            seen[whose] = name


def _check_alike(found: Mapping[str, Mapping[str, Any]]) -> None:
    """Studies of one design: the same variants, panel, seeds and training. Where a robot begins is its own."""
    designs = {name: _design(study) for name, study in found.items()}
    first, wanted = next(iter(designs.items()))
    for name, design in designs.items():
        apart = [what for what in {**wanted, **design} if design.get(what) != wanted.get(what)]
        if apart:
            what = apart[0]
            raise ConfigError(
                f"{name} and {first} are no studies of one design: {what} is {design.get(what)} in one and "
                f"{wanted.get(what)} in the other. Pool those that differ in the robot alone."
            )


def _design(study: Mapping[str, Any]) -> dict[str, Any]:
    rows = study["rows"]
    found = {
        "variants": [row["variant"] for row in rows],
        "domains": sorted({domain for row in rows for domain in row["rates"]}),
        "seeds": sorted({len(rates) for row in rows for rates in row["rates"].values()}),
    }
    found |= {f"the panel's {name}": value for name, value in study["panel"].items() if name not in ITS_OWN}
    for part in ("training", "imitation"):
        found |= {f"{part} {name}": value for name, value in (study[part] or {}).items() if name not in ITS_OWN}
    return found


def _robots(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Success in reality robot by robot, in Markdown."""
    first = next(iter(found.values()))["rows"]
    if any("real" not in row["rates"] for row in first):
        return []
    table = [
        f"In reality, robot by robot (the mean of its seeds); intervals above are of {LEVEL:.0%} over robots:",
        "",
        f"| robot | {' | '.join(row['variant'] for row in first)} |",
        f"|---|{'---|' * len(first)}",
    ]
    short = {name: Path(name).resolve().name for name in found}
    if len(set(short.values())) < len(short):
        short = {name: name for name in found}
    for name, study in found.items():
        shares = [float(np.mean(row["rates"]["real"])) for row in study["rows"]]
        table.append(f"| {short[name]} | {' | '.join(f'{100 * share:.0f} %' for share in shares)} |")
    return table
