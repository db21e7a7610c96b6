"""Runs in a process of its own: compiles a foreign model under limits, steps it, and tells what happened in one line.

{"xml": …, "root": …, "memory": bytes, "cpu": seconds} on stdin -> {"bodies": […], "joints": […]} or {"error": …}
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import mujoco

from twinproof.nouns.errors import SimError
from twinproof.sim.limited import limit
from twinproof.sim.parameters.base import names
from twinproof.sim.scene import Scene


def main() -> None:
    """Reads one order and answers it."""
    order = json.loads(sys.stdin.read())
    limit(order["memory"], order["cpu"])
    answer: dict[str, Any]
    try:
        answer = tried(order["xml"], Path(order["root"]))
    except SimError as problem:
        answer = {"error": str(problem)}
    except (mujoco.FatalError, mujoco.UnexpectedError, RuntimeError) as problem:  # C++ exceptions arrive as the last
        answer = {"error": f"MuJoCo gives up on it ({problem}). Look for absurd sizes."}
    except MemoryError:
        answer = {"error": f"it needs more than {order['memory'] >> 20} MB of memory. Simplify it."}
    sys.stdout.write("\n" + json.dumps(answer) + "\n")


def tried(xml: str, root: Path) -> dict[str, list[str]]:
    """Names of the bodies and joints of a model that compiles, allocates and steps."""
    model = Scene(xml, root).nominal()
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data)
    return {"bodies": list(names(model, "body")), "joints": list(names(model, "joint"))}


if __name__ == "__main__":
    main()
