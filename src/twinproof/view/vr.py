"""A folder with a WebXR page: the twin and an episode at real size, in a headset or with mouse and touch.

index.html, app.js   built from web/ (three.js, Spark), shipped with the package
data.js              what it shows: links, surfaces as GLB, splats as SPZ, poses over time; one script, so that the page
                     also opens from the disk, where browsers let no page read files

A browser gives a page the headset only over HTTPS or on localhost.
"""

from __future__ import annotations

import base64
import json
import tempfile
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.nouns.files import new_folder
from twinproof.nouns.mesh_glb import glb_bytes
from twinproof.nouns.splat_files import write_spz
from twinproof.view.look import Look, Piece, quats_wxyz
from twinproof.view.motion import Apart, Motion
from twinproof.view.stage import bounds

if TYPE_CHECKING:
    from twinproof.nouns.splats import Splats

MOST_SPLATS = 500_000
CURVE_POINTS = 500
BUILT = ("index.html", "app.js", "LICENSES.txt")


def write_page(look: Look, motion: Motion | None, ghost: Motion | None, out: Path, error: Apart | None = None) -> int:
    """Writes the page into a new folder; the size of all of it in bytes. `error` is that of the ghost over time."""
    text = data_script(look.thinned(MOST_SPLATS), motion, ghost, error)
    with new_folder(out) as scratch:
        for name in BUILT:
            (scratch / name).write_text(built(name), encoding="utf-8")
        (scratch / "data.js").write_text(text, encoding="utf-8")
    return sum((out / name).stat().st_size for name in (*BUILT, "data.js"))


def built(name: str) -> str:
    """One of the files that web/ was built into."""
    return (resources.files("twinproof.view") / "web" / name).read_text(encoding="utf-8")


def data_script(look: Look, motion: Motion | None, ghost: Motion | None, error: Apart | None = None) -> str:
    """What a page shows, as a script that may also stand inside HTML: no end tag can be in it."""
    told = {**_told(look, motion, ghost), "apart": None if error is None else _apart(error)}
    text = json.dumps(told, allow_nan=False).replace("</", "<\\/")
    return f"window.TWINPROOF_DATA = {text};\n"


def _told(look: Look, motion: Motion | None, ghost: Motion | None) -> dict[str, Any]:
    numbered = {name: k for k, name in enumerate(look.links)}
    rest = Motion("", 1.0, look.T_world_links[None])
    layers = {"surfaces": look.pieces, "collision": look.collision, "gap": look.gaps}
    pieces = [(piece, layer) for layer, parts in layers.items() for piece in parts]
    return {
        "format": "twinproof/vr/1",
        "title": look.title,
        "notes": list(look.notes),
        "links": list(look.links),
        "moving": [numbered[name] for name in look.moving],
        "free": [numbered[name] for name in look.free],
        "bounds": [corner.tolist() for corner in bounds(look)],
        "pieces": [_piece(piece, layer, numbered) for piece, layer in pieces],
        "splats": [{"link": numbered[link], "spz": _text(_spz(own))} for link, own in look.splats.items()],
        "motion": _course(motion or rest),
        "ghost": None if ghost is None else _course(ghost),
    }


def _piece(piece: Piece, layer: str, numbered: dict[str, int]) -> dict[str, Any]:
    return {"link": numbered[piece.link], "layer": layer, "glb": _text(glb_bytes(piece.shape))}


def _course(motion: Motion) -> dict[str, Any]:
    xyzw = np.roll(quats_wxyz(motion.T_world_links), -1, axis=-1)  # as three.js counts
    rows = np.concatenate([motion.T_world_links[..., :3, 3], xyzw], axis=-1).astype("<f4")
    events = [{"name": event.name, "time_s": event.time_s} for event in motion.events]
    return {"label": motion.label, "step_s": motion.step_s, "poses": _text(rows.tobytes()), "events": events}


def _apart(error: Apart) -> dict[str, Any]:
    """The error over time, in as many points as a timeline can show."""
    step = max(1, -(-len(error.time_s) // CURVE_POINTS))
    rows = {"time_s": error.time_s, "rmse": error.rmse, "farthest_m": error.farthest_m}
    kept = {name: [float(f"{value:.4g}") for value in row[::step]] for name, row in rows.items()}
    return {**kept, "unit": error.unit}


def _spz(splats: Splats) -> bytes:
    with tempfile.TemporaryDirectory(prefix="twinproof_vr_") as folder:
        path = Path(folder) / "splats.spz"
        write_spz(path, splats)
        return path.read_bytes()


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
