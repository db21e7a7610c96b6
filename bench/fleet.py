"""What spreading work costs: `python -m bench.fleet [RESULT.json]`.

Two kinds of pieces: empty ones show the overhead of a piece and of a chunk, waiting ones how well workers are kept busy
whatever else the machine does. Places: this process, a pool and Ray with one and two workers. Driver CPU-seconds are
what stays serial, however many workers there are: they decide where scaling ends.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twinproof.fleet.local import Here, Pool
from twinproof.fleet.spread import Piece, Where, spread
from twinproof.nouns.hashing import content_key
from twinproof.nouns.store import Store

EMPTY, WAITING, WAIT_S = 400, 40, 0.25


def nothing(folder: Path, k: int) -> None:
    """A piece without work."""
    (folder / "k").write_text(str(k))


def wait(folder: Path, k: int) -> None:
    """A piece that needs a worker and no processor."""
    time.sleep(WAIT_S)
    (folder / "k").write_text(str(k))


def timed(fill: Callable[..., None], count: int, where: Where, chunk_s: float) -> dict[str, float]:
    """Wall and driver CPU of spreading so many pieces into a new store."""
    pieces = [Piece(content_key(fill.__name__, k), (k,)) for k in range(count)]
    with tempfile.TemporaryDirectory() as folder:
        spread(fill, pieces[:2], Store(Path(folder) / "warm"), where, chunk_s=chunk_s)
        wall, cpu = time.perf_counter(), time.process_time()
        spread(fill, pieces, Store(Path(folder) / "store"), where, chunk_s=chunk_s)
        return {"wall_s": time.perf_counter() - wall, "driver_cpu_s": time.process_time() - cpu}


def places() -> dict[str, Callable[[], Where]]:
    """Where work may run; Ray is left out where it is not installed, and that is said."""
    made: dict[str, Callable[[], Where]] = {
        "this process": Here,
        "pool of 1": lambda: Pool(1),
        "pool of 2": lambda: Pool(2),
    }
    try:
        import ray  # noqa: F401
    except ImportError:
        print("Ray is not installed: left out")
        return made
    from twinproof.fleet.ray_cluster import RayCluster

    return {**made, "Ray of 1": lambda: RayCluster(cpus=1), "Ray of 2": lambda: RayCluster(cpus=2)}


def main() -> None:
    found: dict[str, Any] = {}
    for name, make in places().items():
        where = make()
        waiting = timed(wait, WAITING, where, WAIT_S)
        empty = timed(nothing, EMPTY, where, 0.05)
        if name.startswith("Ray"):
            where.close()  # type: ignore[attr-defined]
        ideal = WAITING * WAIT_S / where.workers
        found[name] = {"waiting": waiting, "empty": empty, "busy": ideal / waiting["wall_s"]}
        print(
            f"{name:<13} workers busy {found[name]['busy']:.0%} of the ideal; an empty piece costs "
            f"{1e3 * empty['wall_s'] / EMPTY:.1f} ms, of the driver's CPU {1e3 * empty['driver_cpu_s'] / EMPTY:.2f} ms"
        )
    for kind in ("pool", "Ray"):
        if f"{kind} of 2" in found:
            one, two = (found[f"{kind} of {n}"]["waiting"]["wall_s"] for n in (1, 2))
            print(f"{kind}: 1 to 2 workers {one / two:.2f} × faster")
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
