"""Exported files read again, as any stranger's file would be: scanned and parsed in a process with limits.

back = read_back(path)          .usdz, .glb, .ply, .spz; and .xml (MJCF), which sim/safe.py tries in its own process
back.surfaces, back.splats      in the world: metres, z up, display-referred colours

Header lies, absurd counts, zip bombs and names that lead out of the file are refused; what crashes the parser, or eats
time or memory, ends its own process and not this one.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from twinproof.nouns.artifact import read_arrays
from twinproof.nouns.errors import TwinError
from twinproof.nouns.mesh import Mesh
from twinproof.nouns.splats import Splats
from twinproof.sim.surface import Surface

KINDS = (".usdz", ".glb", ".ply", ".spz", ".xml")


@dataclass(frozen=True)
class Allowed:
    """What reading a foreign file may use."""

    file_bytes: int = 2 << 30
    answer_bytes: int = 4 << 30  # of all arrays that come out
    memory_bytes: int = 8 << 30
    cpu_s: int = 120
    wall_s: float = 300.0


@dataclass(frozen=True, eq=False)
class ReadBack:
    """What a file shows, and what it says of bodies and joints."""

    surfaces: tuple[Surface, ...] = ()
    splats: Splats | None = None
    masses_kg: dict[str, float] | None = None  # by name of the body, where the format has physics
    joints: tuple[str, ...] = ()


def read_back(path: Path, allowed: Allowed | None = None) -> ReadBack:
    """What lies in a file, read in a process of its own."""
    allowed = allowed or Allowed()
    if not path.is_file():
        raise TwinError(f"{path} does not exist. Check the path.")
    if path.suffix.lower() not in KINDS:
        raise TwinError(f"{path}: the ending {path.suffix!r} is none that is read here; there are {', '.join(KINDS)}.")
    if path.stat().st_size > allowed.file_bytes:
        raise TwinError(
            f"{path} has {path.stat().st_size >> 20} MB; {allowed.file_bytes >> 20} MB are read. Make it smaller."
        )
    if path.suffix.lower() == ".xml":
        return _from_mjcf(path)
    with tempfile.TemporaryDirectory() as scratch:
        answer = _asked(path, Path(scratch), allowed)
        arrays = read_arrays(Path(scratch) / "answer.npz", TwinError)
    return unpacked(answer, arrays)


def _from_mjcf(path: Path) -> ReadBack:
    from twinproof.sim.anatomy import anatomy
    from twinproof.sim.painted import surfaces
    from twinproof.sim.scene import Scene
    from twinproof.sim.surface import moved

    scene = Scene.read(path)
    whole = anatomy(scene)
    shown = tuple(moved(each, whole.named[each.link].T_world_link) for each in surfaces(scene))
    masses = {link.name: link.mass_kg for link in whole.links[1:]}
    return ReadBack(shown, None, masses, tuple(joint.name for link in whole.links for joint in link.joints))


def _asked(path: Path, scratch: Path, allowed: Allowed) -> dict[str, Any]:
    """What the reading process tells; the arrays lie in `scratch`."""
    order = {
        "path": str(path.absolute()), "out": str(scratch / "answer.npz"), "memory": allowed.memory_bytes,
        "cpu": allowed.cpu_s, "answer": allowed.answer_bytes,
    }  # fmt: skip
    try:
        done = subprocess.run(
            [sys.executable, "-m", "twinproof.export.reading"], input=json.dumps(order), capture_output=True, text=True,
            timeout=allowed.wall_s, cwd=scratch, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise TwinError(f"{path} was not read within {allowed.wall_s:g} s. Make it smaller.") from None
    return answer_of(done, path, allowed)


def answer_of(done: subprocess.CompletedProcess[str], path: Path, allowed: Allowed) -> dict[str, Any]:
    """What a reader said before it ended, or an error that says how it ended."""
    if done.returncode == -signal.SIGXCPU:
        raise TwinError(f"{path} was not read within {allowed.cpu_s} s of CPU time. Make it smaller.")
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        raise TwinError(f"{path} crashes its reader ({name}). It is broken, or made to do that.")
    lines = done.stdout.splitlines()
    answer: dict[str, Any] = json.loads(lines[-1]) if lines and lines[-1].startswith("{") else {}
    if "surfaces" not in answer:
        told = answer.get("error") or (done.stderr.strip().splitlines() or ["its reader ended without a word."])[-1]
        raise TwinError(f"{path} is refused: {told}")
    return answer


def packed(back: ReadBack) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The same as JSON and plain arrays, to be handed from one process to another."""
    arrays, rows = dict[str, np.ndarray](), list[Any]()
    for k, each in enumerate(back.surfaces):
        rows.append({"name": each.name, "link": each.link, "rgba": list(each.rgba)})
        parts = {"vertices": each.mesh.vertices, "faces": each.mesh.faces, "colours": each.mesh.colours}
        for name, values in {**parts, "st": each.st, "texture": each.texture}.items():
            if values is not None:
                arrays[f"{k}.{name}"] = values
    splats: Any = None
    if back.splats is not None:
        splats = {"groups": list(back.splats.groups), "flat": back.splats.flat}
        for name in ("means", "quats_wxyz", "log_scales", "logit_opacities", "sh", "group"):
            arrays[f"splats.{name}"] = getattr(back.splats, name)
    rest = {"masses_kg": back.masses_kg, "joints": list(back.joints)}
    return {"surfaces": rows, "splats": splats, **rest}, arrays


def unpacked(answer: dict[str, Any], arrays: dict[str, np.ndarray]) -> ReadBack:
    """What `packed` made of it."""
    shown = list[Surface]()
    for k, row in enumerate(answer["surfaces"]):
        mesh = Mesh(arrays[f"{k}.vertices"], arrays[f"{k}.faces"], arrays.get(f"{k}.colours"))
        r, g, b, a = row["rgba"]
        shown.append(
            Surface(row["name"], row["link"], mesh, (r, g, b, a), arrays.get(f"{k}.st"), arrays.get(f"{k}.texture"))
        )
    splats = None
    if answer["splats"] is not None:
        columns = {
            name.removeprefix("splats."): values for name, values in arrays.items() if name.startswith("splats.")
        }
        splats = Splats(**columns, groups=tuple(answer["splats"]["groups"]), flat=bool(answer["splats"]["flat"]))
    return ReadBack(tuple(shown), splats, answer["masses_kg"], tuple(answer["joints"]))
