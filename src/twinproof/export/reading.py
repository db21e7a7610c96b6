"""Runs in a process of its own: reads one foreign file under limits and hands over plain arrays.

{"path": …, "out": …, "memory": bytes, "cpu": seconds, "answer": bytes} on stdin
-> arrays in `out` (NPZ), and one line: {"surfaces": […], "splats": …} or {"error": …}
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from twinproof.export.read_back import ReadBack, packed
from twinproof.nouns.artifact import write_arrays
from twinproof.nouns.errors import TwinError, TwinproofError
from twinproof.sim.limited import limit


def main() -> None:
    """Reads one order and answers it."""
    order = json.loads(sys.stdin.read())
    limit(order["memory"], order["cpu"], order["answer"])
    answer: dict[str, Any]
    try:
        answer, arrays = packed(parsed(Path(order["path"])))
        size = sum(values.nbytes for values in arrays.values())
        if size > order["answer"]:
            raise TwinError(f"it unpacks to {size >> 20} MB, {order['answer'] >> 20} MB are allowed. Make it smaller.")
        write_arrays(Path(order["out"]), {"nothing": np.zeros(0), **arrays})
    except TwinproofError as problem:
        answer = {"error": str(problem).removeprefix(f"{order['path']}: ")}
    except MemoryError:
        answer = {"error": f"it needs more than {order['memory'] >> 20} MB of memory. Make it smaller."}
    sys.stdout.write("\n" + json.dumps(answer) + "\n")


def parsed(path: Path) -> ReadBack:
    """What a file holds, by the ending of its name."""
    match path.suffix.lower():
        case ".usdz":
            from twinproof.export.usd_read import read_usdz

            return read_usdz(path)
        case ".glb":
            from twinproof.export.glb_read import read_glb_surfaces

            return ReadBack(read_glb_surfaces(path.read_bytes()))
        case ".ply":
            from twinproof.nouns.splat_files import read_ply

            return ReadBack(splats=read_ply(path))
        case _:
            from twinproof.export.spz_read import read_spz

            return ReadBack(splats=read_spz(path))


if __name__ == "__main__":
    main()
