"""A twin: physics, shape and looks of the recorded scene, and for each part where it came from and how sure that is.

twin.json      bodies, alignment and scale with their error, sources, calibration episodes, audits, parents
scene.xml      MJCF, one file; `sim` compiles it
meshes/ …      what scene.xml and the bodies name: visual and collision meshes, textures
splats.ply     Gaussians in the standard 3DGS layout, in the scene's frame; each body has a run of them
cameras.json   intrinsics and pose of every camera, with their error
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from twinproof.nouns.artifact import Artifact
from twinproof.nouns.errors import TwinError
from twinproof.nouns.files import SAFE_NAME, inside, read_json, write_json
from twinproof.nouns.frozen import Frozen, frozen_json, settle
from twinproof.nouns.hashing import Json, content_hash, hash_file
from twinproof.nouns.ledger import LedgerHead
from twinproof.nouns.rig import Intrinsics, Mount, Vector3
from twinproof.nouns.source import Source
from twinproof.nouns.strict import build, plain
from twinproof.nouns.theta import Theta
from twinproof.nouns.twin_files import closed_volume, read_scene, splat_header

OWN_FILES = ("twin.json", "cameras.json")
CAMERAS = "twinproof/cameras/1"


@dataclass(frozen=True)
class CollisionPart:
    """A closed mesh that touches things: its file, and the volume that whoever made it found inside."""

    path: str
    volume_m3: float


@dataclass(frozen=True)
class Body:
    """One body of the scene. What it has no mesh or splats for, it says in `lacks`: {"splats": "robot link"}."""

    name: str  # as in scene.xml
    source: Source
    layer: Literal["object", "robot", "background"] = "object"
    visual: str | None = None
    collision: tuple[CollisionPart, ...] = ()
    splats: tuple[int, int] | None = None  # first record and count in splats.ply
    lacks: Mapping[str, str] = field(default_factory=dict)
    mass_kg: float | None = None
    com_m: Vector3 | None = None
    inertia_kgm2: tuple[float, float, float, float, float, float] | None = None  # xx yy zz xy xz yz about the com

    def __post_init__(self) -> None:
        for part, has in {"mesh": self.visual or self.collision, "splats": self.splats}.items():
            if not has and not self.lacks.get(part, "").strip():
                raise TwinError(f"body {self.name!r} has no {part} and does not say why. Add lacks.{part}.")
        if self.mass_kg is not None and not 0 < self.mass_kg < np.inf:
            raise TwinError(f"body {self.name!r} has a mass of {self.mass_kg} kg. A mass is positive.")
        if self.inertia_kgm2 is not None:
            _check_inertia(self.name, self.inertia_kgm2)
        for shape in self.collision:
            if not 0 < shape.volume_m3 < np.inf:
                raise TwinError(f"{shape.path} of body {self.name!r} has a volume of {shape.volume_m3} m³: not closed.")
        settle(self, lacks=Frozen(self.lacks))


def _check_inertia(name: str, values: tuple[float, ...]) -> None:
    xx, yy, zz, xy, xz, yz = values
    low, middle, high = np.linalg.eigvalsh([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    if not low > 0 or high > (low + middle) * (1 + 1e-9):
        raise TwinError(
            f"body {name!r} has the principal inertias {low:.3g}, {middle:.3g}, {high:.3g} kg m². No mass has these: "
            "each is positive, and the largest is at most the sum of the others."
        )


@dataclass(frozen=True)
class Alignment:
    """How the reconstruction was put into the robot's frame, and how far splats and meshes are apart in it."""

    source: Source
    scale: float = 1.0  # metres per unit of the reconstruction
    scale_sd: float = 0.0
    position_sd_m: float = 0.0
    rotation_sd_rad: float = 0.0
    splat_mesh_gap_m: float = 0.0  # measured, splat centres against visual mesh
    tolerance_m: float = 0.005  # stated: the gap is at most this

    def __post_init__(self) -> None:
        if not 0 < self.scale < np.inf:
            raise TwinError(f"the twin's scale is {self.scale}. A scale is positive.")
        if not 0 <= self.splat_mesh_gap_m <= self.tolerance_m:
            raise TwinError(
                f"splats and meshes are {self.splat_mesh_gap_m:.4g} m apart, the stated tolerance is "
                f"{self.tolerance_m:.4g} m. Align them again, or state the tolerance that holds."
            )


@dataclass(frozen=True)
class TwinCamera:
    """A camera as the twin believes it: size in pixels, intrinsics, pose with its error, and where that came from."""

    width: int
    height: int
    intrinsics: Intrinsics
    mount: Mount
    source: Source
    reprojection_px: float | None = None
    exposure: Mapping[str, float] = field(default_factory=dict)  # episode id -> gain

    def __post_init__(self) -> None:
        if self.width <= 0 or self.height <= 0:
            raise TwinError(f"a camera of the twin has {self.width} × {self.height} pixels. Both are positive.")
        settle(self, exposure=Frozen(self.exposure))


@dataclass(frozen=True, eq=False)
class Twin(Artifact):
    """The scene in `root`. Files are hashed when the twin is born; a twin in the store is never edited.

    `start` holds the physics values found on the way: where `identify` starts, and never its prior.
    """

    NAME: ClassVar = "twin"
    ERROR: ClassVar = TwinError
    PARTS: ClassVar = ("root", "cameras")

    root: Path
    bodies: tuple[Body, ...]
    alignment: Alignment
    engine: str  # "mujoco 3.17.0": the version that compiled it
    episodes: tuple[str, ...]  # calibration episodes that were read
    parents: Mapping[str, str]  # "split" -> hash, "recording" -> hash, …
    cameras: Mapping[str, TwinCamera] = field(default_factory=dict)
    start: Theta = field(default_factory=Theta)
    audits: Mapping[str, Json] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    ledger: LedgerHead | None = None
    files: Mapping[str, str] = field(init=False)  # name below root -> hash, as it was when the twin was born

    def __post_init__(self) -> None:
        names = [body.name for body in self.bodies]
        if not names or len(set(names)) != len(names):
            raise TwinError(f"a twin lists each of its bodies once; found {', '.join(names) or 'none'}.")
        for name in self.cameras:
            if not SAFE_NAME.fullmatch(name):
                raise TwinError(f"the camera name {name!r} must be made of letters, digits, '_', '.' and '-'.")
        settle(
            self,
            root=self.root.absolute(),
            cameras=Frozen(self.cameras),
            parents=Frozen(self.parents),
            audits=frozen_json(self.audits, "twin.audits", TwinError),
        )
        _check_splats(self)
        for body in self.bodies:
            for shape in body.collision:
                _check_closed(self.root, shape)
        settle(self, files=Frozen(_hashed(self)))

    def path(self, name: str = "scene.xml") -> Path:
        """Where one of its files lies."""
        if name not in self.files:
            raise TwinError(f"{name!r} is no file of this twin; it has {', '.join(self.files)}.")
        return self.root / name

    def body(self, name: str) -> Body:
        """The body of this name."""
        for body in self.bodies:
            if body.name == name:
                return body
        raise TwinError(f"the twin has no body {name!r}; it has {', '.join(body.name for body in self.bodies)}.")

    def part_hashes(self) -> dict[str, str]:
        return {**self.files, "cameras": content_hash(plain(self.cameras))}

    def write_parts(self, folder: Path) -> None:
        for name, expected in self.files.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.root / name, target)  # no link: the working folder it may lie in can be edited
            if hash_file(target) != expected:
                raise TwinError(f"{self.root / name} was changed after the twin was made from it. Make the twin again.")
        write_json(folder / "cameras.json", {"format": CAMERAS, "cameras": plain(self.cameras)})

    @classmethod
    def read_parts(cls, folder: Path, head: Mapping[str, Json]) -> dict[str, Any]:
        path = folder / "cameras.json"
        entries = read_json(path, CAMERAS, TwinError)["cameras"]
        cameras = {name: build(TwinCamera, entry, f"{path}: {name}", TwinError) for name, entry in entries.items()}
        return {"root": folder, "cameras": cameras, "start": Theta(head["start"])}


def _hashed(twin: Twin) -> dict[str, str]:
    scene = read_scene(twin.root)
    listed = {body.name for body in twin.bodies}
    unlisted = [name for name in scene.bodies if name not in listed]
    unknown = [body.name for body in twin.bodies if body.layer != "background" and body.name not in scene.bodies]
    if unlisted or unknown:
        raise TwinError(
            f"{twin.root}/scene.xml has bodies that the twin does not list ({', '.join(unlisted) or 'none'}), or lacks "
            f"some that it lists ({', '.join(unknown) or 'none'}). List every body once, with its source."
        )
    named = {"scene.xml", *scene.files}
    for body in twin.bodies:
        named |= {shape.path for shape in body.collision} | ({body.visual} if body.visual else set())
    if any(body.splats for body in twin.bodies):
        named.add("splats.ply")
    for name in sorted(named):
        path = inside(twin.root, name, TwinError)
        if not path.is_file() or name in OWN_FILES:
            raise TwinError(
                f"the twin names the file {name!r}, which is not in {twin.root}. Put it there, or rename it."
            )
    return {name: hash_file(twin.root / name) for name in sorted(named)}


def _check_splats(twin: Twin) -> None:
    runs = sorted((*body.splats, body.name) for body in twin.bodies if body.splats)
    if not runs:
        return
    count, end, owner = splat_header(twin.root / "splats.ply").count, 0, ""
    for first, length, name in runs:
        if first < 0 or length <= 0 or first + length > count:
            raise TwinError(f"body {name!r} has splats {first} to {first + length}, but splats.ply holds {count}.")
        if first < end:
            raise TwinError(f"bodies {owner!r} and {name!r} both own splat {first}. Each splat belongs to one body.")
        end, owner = first + length, name


def _check_closed(root: Path, shape: CollisionPart) -> None:
    path = inside(root, shape.path, TwinError)
    if not path.is_file():
        raise TwinError(f"the collision mesh {path} does not exist. Write it before the twin.")
    found = closed_volume(path)
    if found is not None and not abs(found - shape.volume_m3) <= 1e-3 * shape.volume_m3:
        raise TwinError(
            f"{path} encloses {found:.6g} m³, the twin states {shape.volume_m3:.6g} m³. Turn its faces outwards, and "
            "state volumes in m³."
        )
