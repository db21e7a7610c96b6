"""What spreading work costs: `python -m bench.fleet [RESULT.json] [REPEATS]`.

Empty pieces show the overhead of a piece and of a chunk, waiting ones how well workers are kept busy whatever else the
machine does, and real ones (bench/fleet_work.py) what a second worker brings. Places: this process, a pool and Ray with
one and two workers, in turn, as often as asked; printed are medians. Driver CPU-seconds are what stays serial, however
many workers there are: they decide where scaling ends.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench import fleet_work

from twinproof.fleet.local import Here, Pool
from twinproof.fleet.spread import Piece, Where, spread
from twinproof.nouns.hashing import content_key
from twinproof.nouns.store import Store

EMPTY, WAITING, WAIT_S = 200, 24, 0.25
STARTS, LOTS = 6, 12
CHUNK_S = {"empty": 0.05, "waiting": WAIT_S, "starts": 2.0, "lots": 2.0}


def nothing(folder: Path, k: int) -> None:
    """A piece without work."""
    (folder / "k").write_text(str(k))


def wait(folder: Path, k: int) -> None:
    """A piece that needs a worker and no processor."""
    time.sleep(WAIT_S)
    (folder / "k").write_text(str(k))


def timed(fill: Callable[..., None], pieces: Sequence[Piece], where: Where, chunk_s: float) -> dict[str, float]:
    """Wall, driver CPU and, where they tell it, workers' CPU of spreading pieces into a new store."""
    with tempfile.TemporaryDirectory() as folder:
        spread(fill, pieces[: where.workers], Store(Path(folder) / "warm"), where, chunk_s=chunk_s)
        wall, cpu = time.perf_counter(), time.process_time()
        found = spread(fill, pieces, Store(Path(folder) / "store"), where, chunk_s=chunk_s)
        took = {"wall_s": time.perf_counter() - wall, "driver_cpu_s": time.process_time() - cpu}
        told = [each / fleet_work.CPU for each in found if (each / fleet_work.CPU).is_file()]
        return {**took, "worker_cpu_s": sum(float(each.read_text()) for each in told)}


def kinds(made: Path) -> dict[str, tuple[Callable[..., None], list[Piece]]]:
    """Each kind of work: its function and its pieces."""
    return {
        "waiting": (wait, [Piece(content_key("wait", k), (k,)) for k in range(WAITING)]),
        "empty": (nothing, [Piece(content_key("nothing", k), (k,)) for k in range(EMPTY)]),
        "starts": (fleet_work.start, fleet_work.starts(made, STARTS)),
        "lots": (fleet_work.lot, fleet_work.lots(made, LOTS)),
    }


def places() -> dict[str, Callable[[], Where]]:
    """Where work may run; Ray is left out where it is not installed, and that is said."""
    made: dict[str, Callable[[], Where]] = {
        "this process": Here,
        "pool of 1": lambda: Pool(1),
        "pool of 2": lambda: Pool(2),
    }
    if find_spec("ray") is None:  # not imported here: RayCluster keeps it to loopback first
        print("Ray is not installed: left out")
        return made
    from twinproof.fleet.ray_cluster import RayCluster

    return {**made, "Ray of 1": lambda: RayCluster(cpus=1), "Ray of 2": lambda: RayCluster(cpus=2)}


def measured(made: Path, repeats: int) -> dict[str, dict[str, list[dict[str, float]]]]:
    """Place -> kind -> what each repeat took. Places take turns: a busy hour of the machine meets all of them."""
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    for _ in range(repeats):
        for name, make in places().items():
            where = make()
            for kind, (fill, pieces) in kinds(made).items():
                took = timed(fill, pieces, where, CHUNK_S[kind])
                print(f"  {name}, {kind}: {took['wall_s']:.1f} s", file=sys.stderr, flush=True)
                found.setdefault(name, {}).setdefault(kind, []).append(took)
            if name.startswith("Ray"):
                where.close()  # type: ignore[attr-defined]
    return found


def middle(rows: Sequence[dict[str, float]], name: str) -> float:
    """The median of one of the numbers."""
    return statistics.median(row[name] for row in rows)


def main() -> None:
    repeats = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    with tempfile.TemporaryDirectory() as folder:
        found = measured(fleet_work.prepared(Path(folder)), repeats)
    for name, of in found.items():
        workers = int(name[-1]) if name[-1].isdigit() else 1
        busy = WAITING * WAIT_S / workers / middle(of["waiting"], "wall_s")
        print(
            f"{name:<13} workers busy {busy:.0%} of the ideal; an empty piece costs "
            f"{1e3 * middle(of['empty'], 'wall_s') / EMPTY:.1f} ms, of the driver's CPU "
            f"{1e3 * middle(of['empty'], 'driver_cpu_s') / EMPTY:.2f} ms; a start "
            f"{middle(of['starts'], 'worker_cpu_s') / STARTS:.2f} CPU-s, a lot of {fleet_work.LOT} trials "
            f"{middle(of['lots'], 'worker_cpu_s') / LOTS:.2f}"
        )
    for kind in ("pool", "Ray"):
        if f"{kind} of 2" in found:
            print(f"{kind}: 1 to 2 workers, {', '.join(faster(found, kind))}")
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(found, indent=1))


def faster(found: dict[str, Any], place: str) -> list[str]:
    """How much faster two workers are than one, by kind: the median over repeats of their ratio, and its range."""
    told = []
    for kind in ("waiting", "starts", "lots"):
        pairs = zip(found[f"{place} of 1"][kind], found[f"{place} of 2"][kind], strict=True)
        ratios = sorted(one["wall_s"] / two["wall_s"] for one, two in pairs)
        told.append(f"{kind} {statistics.median(ratios):.2f} × ({ratios[0]:.2f} to {ratios[-1]:.2f})")
    return told


if __name__ == "__main__":
    main()
