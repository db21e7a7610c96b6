"""Splat files for other viewers: PLY in the reference layout, and SPZ version 3."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from twinproof.export.subject import Subject, Written, needed_splats
from twinproof.nouns.splat_files import write_ply, write_spz

FULL = 16  # coefficients of a colour in the reference layout


def write_splat_ply(subject: Subject, folder: Path) -> Written:
    """Writes splats.ply: 62 float32 a splat, degree 3; what it leaves out."""
    splats = needed_splats(subject, "ply")
    full = np.pad(splats.sh, ((0, 0), (0, FULL - splats.sh.shape[1]), (0, 0)))
    write_ply(folder / "splats.ply", replace(splats, sh=full), groups=False)
    lost = (
        "physics and meshes",
        "which splat belongs to which body: export.json tells, by runs",
        "the frame: a PLY says none. These are metres in the robot's world, z up (export.json)",
        *subject.splat_notes,
    )
    return Written(lost)


def write_splat_spz(subject: Subject, folder: Path) -> Written:
    """Writes splats.spz; what it leaves out."""
    write_spz(folder / "splats.spz", needed_splats(subject, "spz"))
    lost = (
        "physics and meshes",
        "which splat belongs to which body: export.json tells, by runs",
        "precision: positions to 1 µm (coarser beyond 8 m), all else to 8 bits or less",
        "the frame of its specification (y up): these are metres in the robot's world, z up; turn by -90° about x",
        *subject.splat_notes,
    )
    return Written(lost)
