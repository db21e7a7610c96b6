"""Compares whole models, field by field."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

STATISTICS = ("meaninertia", "meanmass", "meansize", "extent", "center")
# What mj_setConst recomputes, and what is built around the shapes; never written by a parameter itself.
DERIVED = {
    *("body_subtreemass", "body_invweight0", "body_sameframe", "geom_sameframe", "site_sameframe", "dof_M0"),
    *("dof_invweight0", "actuator_acc0", "actuator_length0", "tendon_invweight0", "dof_length", "bvh_aabb", "D_diag"),
    *("cam_pos0", "cam_poscom0", "cam_mat0", "light_pos0", "light_poscom0", "light_dir0", "efm0_L"),
}


@functools.cache
def numbers(kind: type) -> tuple[str, ...]:
    """The public attributes of a kind of MuJoCo struct that are not functions."""
    return tuple(name for name in dir(kind) if not name.startswith("_") and isinstance(getattr(kind, name), property))


def values(model: Any) -> dict[str, np.ndarray]:
    """Every number in a model by the name of its field, options and statistics included."""
    found = {}
    for owner, prefix in ((model, ""), (model.opt, "opt."), (model.stat, "stat.")):
        for name in numbers(type(owner)):
            value = getattr(owner, name)
            if isinstance(value, (np.ndarray, int, float)):
                found[prefix + name] = np.atleast_1d(np.asarray(value))
    assert {"body_mass", "geom_size", "nq", "opt.gravity", "stat.extent"} <= found.keys()
    found["names"] = np.frombuffer(model.names, dtype=np.uint8)
    return found


def differing(first: Any, second: Any, tolerance: float = 0.0) -> dict[str, float]:
    """Field -> largest difference, relative to the field's own size, of all that differ by more than the tolerance."""
    a, b = values(first), values(second)
    assert a.keys() == b.keys()
    found = {}
    for name in a:
        if a[name].shape != b[name].shape:
            found[name] = float("inf")
        elif a[name].tobytes() != b[name].tobytes():
            x, y = a[name].astype(np.float64), b[name].astype(np.float64)
            same = (x == y) | (np.isnan(x) & np.isnan(y))
            scale = max(1.0, float(np.nanmax(np.abs(x), initial=0)))
            gap = float(np.max(np.where(same, 0.0, np.abs(x - y)))) / scale
            if gap > tolerance or np.isnan(gap):
                found[name] = gap
    return found
