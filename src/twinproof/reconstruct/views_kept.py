"""Posed pictures of an object in a block's folder: what joint refinement looks at once more."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from twinproof.nouns.artifact import read_arrays, write_arrays
from twinproof.nouns.errors import TwinError
from twinproof.nouns.files import read_json, write_json
from twinproof.nouns.rig import Intrinsics
from twinproof.nouns.views import PosedView, Views

FORMAT = "twinproof/reconstruct-views/1"


def save_views(folder: Path, views: Views) -> None:
    """Writes views.json and views.npz."""
    arrays, heads = dict[str, np.ndarray](), list[dict[str, Any]]()
    for k, view in enumerate(views.views):
        arrays[f"rgb.{k}"] = view.rgb
        if view.mask is not None:
            arrays[f"mask.{k}"] = view.mask.astype(np.int8)
        if view.depth_m is not None:
            arrays[f"depth.{k}"] = view.depth_m
        lens = asdict(view.intrinsics)
        heads.append({"name": view.name, "lens": lens, "T_world_camera": view.T_world_camera.tolist()})
    write_arrays(folder / "views.npz", arrays)
    write_json(folder / "views.json", {"format": FORMAT, "groups": list(views.groups), "views": heads})


def load_views(folder: Path) -> Views:
    """Reads them back, without points."""
    head: Any = read_json(folder / "views.json", FORMAT, TwinError)
    arrays = read_arrays(folder / "views.npz", TwinError)
    views = []
    for k, each in enumerate(head["views"]):
        lens = Intrinsics(**{**each["lens"], "distortion": tuple(each["lens"]["distortion"])})
        mask = arrays.get(f"mask.{k}")
        views.append(
            PosedView(
                each["name"], arrays[f"rgb.{k}"], lens, np.array(each["T_world_camera"]), arrays.get(f"depth.{k}"), mask
            )
        )
    return Views(tuple(views), groups=tuple(head["groups"]))
