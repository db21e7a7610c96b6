"""The rig: what the user states about a robot and its sensors, because no recording format carries it.

`rig.toml` is read here, strictly. Units in the rig are the source's units; `ingest` converts to SI.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from twinproof.nouns.errors import RigError
from twinproof.nouns.files import SAFE_NAME, inside
from twinproof.nouns.hashing import Json, content_hash, hash_file
from twinproof.nouns.signal import KINDS
from twinproof.nouns.strict import build, plain

if TYPE_CHECKING:
    from jaxtyping import Float

FORMAT = "twinproof/rig/1"
Vector3 = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]


@dataclass(frozen=True)
class Model:
    """The robot's MJCF or URDF: a path beside rig.toml and the blake3 of the file, so that a change is noticed."""

    path: str
    hash: str = ""


@dataclass(frozen=True)
class Joint:
    """One joint in the order every stage uses, named as in the model. `weight` is for the divergence measure."""

    name: str
    range: tuple[float, float] | None = None  # rad or m
    weight: float = 1.0
    source: str | None = None  # what the source calls it, where that is another name
    sign: Literal[-1, 1] | None = None  # -1: the source counts the other way round
    zero: float | None = None  # rad or m: where the joint is when the source says 0


@dataclass(frozen=True)
class Arm:
    """A chain of joints, its gripper joint where it has one, and the body at its tip."""

    name: str
    joints: tuple[str, ...]
    gripper: str | None = None
    tip: str | None = None


@dataclass(frozen=True)
class SignalRule:
    """How one signal of the source becomes one of the recording."""

    source: str  # LeRobot feature, bag topic (field after a colon: /joint_states:velocity), or table column group
    kind: str = "other"
    unit: str | None = None  # of the source; `units` where columns differ
    units: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()  # names where the source has none; otherwise the order wanted, matched by name
    frame: str = ""
    time: str = "header"  # bags: "header" stamps or "log" times
    clock_offset_s: float = 0.0  # robot time = this clock + offset
    clock_offset_sd_s: float = 0.0
    max_gap_s: float | None = None  # the longest silence that is no clock jump; None: what ingest is told


@dataclass(frozen=True)
class Intrinsics:
    """Pinhole in pixels, with OpenCV distortion (k1 k2 p1 p2 k3 …)."""

    fx: float
    fy: float
    cx: float
    cy: float
    distortion: tuple[float, ...] = ()


@dataclass(frozen=True)
class Mount:
    """Where a camera is, and how sure that is: T_parent_camera, camera looking along +z, x right, y down."""

    parent: str = "world"
    position_m: Vector3 = (0.0, 0.0, 0.0)
    quat_wxyz: Quaternion = (1.0, 0.0, 0.0, 0.0)
    position_sd_m: float = 0.0
    rotation_sd_rad: float = 0.0

    @property
    def T_parent_camera(self) -> Float[np.ndarray, "4 4"]:
        """The pose as a matrix."""
        w, x, y, z = np.array(self.quat_wxyz) / np.linalg.norm(self.quat_wxyz)
        pose = np.eye(4)
        pose[:3, :3] = [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
        pose[:3, 3] = self.position_m
        return pose


@dataclass(frozen=True)
class Camera:
    """A camera of the rig. `intrinsics` may come from the source; "unknown" says that a later stage estimates them."""

    source: str
    intrinsics: Intrinsics | None = None
    intrinsics_unknown: bool = False
    mount: Mount | None = None
    depth_unit_m: float = 0.001  # metres per count of a 16-bit depth picture
    time: str = "header"
    clock_offset_s: float = 0.0
    clock_offset_sd_s: float = 0.0
    max_gap_s: float | None = None


@dataclass(frozen=True)
class LeftOut:
    """Episodes that are not read, and why; they are named in the recording."""

    episodes: str  # numbers or names, as in Labels
    reason: str


@dataclass(frozen=True)
class Labels:
    """Labels for some episodes: their numbers or names in the source ("0-4, 7", "demo_3", "*")."""

    episodes: str
    labels: dict[str, str]
    outcome: str | None = None


@dataclass(frozen=True)
class Rig:
    """Robot, joints in order, arms, signals, cameras, labels. Two rigs are equal when their hashes are."""

    robot: str
    joints: tuple[Joint, ...] = ()
    arms: tuple[Arm, ...] = ()
    model: Model | None = None
    signals: dict[str, SignalRule] = field(default_factory=dict)
    cameras: dict[str, Camera] = field(default_factory=dict)
    labels: tuple[Labels, ...] = ()
    leave_out: tuple[LeftOut, ...] = ()
    ignore: tuple[str, ...] = ()  # signals, cameras, SIGNAL/COLUMN left out on purpose; * is anything
    format: str = FORMAT

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise RigError(f"rig: format is {self.format!r}; this version reads {FORMAT!r}.")
        _check_joints(self)
        for name, rule in self.signals.items():
            _check_name("signals", name)
            if rule.kind not in KINDS:
                raise RigError(f"rig: signals.{name}.kind is {rule.kind!r}. Use one of {', '.join(KINDS)}.")
            if rule.units and rule.columns and len(rule.units) != len(rule.columns):
                raise RigError(f"rig: signals.{name} has {len(rule.columns)} columns and {len(rule.units)} units.")
        for name, camera in self.cameras.items():
            _check_name("cameras", name)
            _check_camera(name, camera)
        for chosen in [rule.episodes for rule in self.labels] + [rule.episodes for rule in self.leave_out]:
            if not chosen.strip():
                raise RigError(
                    "rig: a rule under [[labels]] or [[leave_out]] names no episodes. Give numbers, names or '*'."
                )
        for label, text in ((key, text) for rule in self.labels for key, text in rule.labels.items()):
            if not text.strip():
                raise RigError(f"rig: the label {label!r} is empty. Say what it is, or leave it out.")
        for kind, name, clock in [*_clocks("signals", self.signals), *_clocks("cameras", self.cameras)]:
            if clock not in ("header", "log"):
                raise RigError(f"rig: {kind}.{name}.time is {clock!r}. Use 'header' or 'log'.")

    @property
    def hash(self) -> str:
        """Names everything the rig states."""
        return content_hash(plain(self))

    def ignores(self, name: str) -> bool:
        """Whether a signal, a camera or a SIGNAL/COLUMN of the source is left out on purpose; * stands for anything."""
        return any(fnmatchcase(name, pattern) for pattern in self.ignore)

    def leaves_out(self, number: int, name: str) -> str | None:
        """Why an episode of the source is not read; None where it is."""
        return next((rule.reason for rule in self.leave_out if selects(rule.episodes, number, name)), None)

    @property
    def joint_names(self) -> tuple[str, ...]:
        """The joints in the order every stage uses."""
        return tuple(joint.name for joint in self.joints)


def selects(pattern: str, number: int, name: str) -> bool:
    """Whether an episode is named by "0-4, 7, demo_3" or "*"."""
    for item in (part.strip() for part in pattern.split(",")):
        first, dash, last = item.partition("-")
        if item in ("*", name) or (item.isdigit() and int(item) == number):
            return True
        if dash and first.strip().isdigit() and last.strip().isdigit() and int(first) <= number <= int(last):
            return True
    return False


def _clocks(kind: str, rules: dict[str, SignalRule] | dict[str, Camera]) -> list[tuple[str, str, str]]:
    return [(kind, name, rule.time) for name, rule in rules.items()]


def _check_name(kind: str, name: str) -> None:
    if not SAFE_NAME.fullmatch(name):
        raise RigError(f"rig: {kind}.{name!r} must be made of letters, digits, '_', '.' and '-'. Rename it.")


def _check_joints(rig: Rig) -> None:
    names = rig.joint_names
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise RigError(f"rig: the joint {twice!r} is listed twice. Each joint stands once.")
    for joint in rig.joints:
        if joint.range is not None and not joint.range[0] < joint.range[1]:
            raise RigError(f"rig: joint {joint.name!r} has the range {list(joint.range)}; low must be below high.")
    called = [joint.source or joint.name for joint in rig.joints]
    if len(set(called)) != len(called):
        twice = next(name for name in called if called.count(name) > 1)
        raise RigError(f"rig: two joints read the column {twice!r}. Each joint has a column of its own.")
    for arm in rig.arms:
        for name in (*arm.joints, *([arm.gripper] if arm.gripper else [])):
            if name not in names:
                raise RigError(f"rig: arm {arm.name!r} names the joint {name!r}, which [[joints]] does not list.")


def _check_camera(name: str, camera: Camera) -> None:
    if camera.intrinsics is not None:
        if camera.intrinsics_unknown:
            raise RigError(f"rig: cameras.{name} has intrinsics and says they are unknown. Keep one of the two.")
        if camera.intrinsics.fx <= 0 or camera.intrinsics.fy <= 0:
            raise RigError(f"rig: cameras.{name} has a focal length that is not positive. Give fx, fy in pixels.")
    if camera.mount is not None and not 0.99 < float(np.linalg.norm(camera.mount.quat_wxyz)) < 1.01:
        raise RigError(
            f"rig: cameras.{name}.mount.quat_wxyz has length {np.linalg.norm(camera.mount.quat_wxyz):.3f}. "
            "A rotation is a unit quaternion, w first."
        )


def read_rig(path: Path) -> Rig:
    """The rig in a TOML file; its robot model is found beside it and its hash is checked, or filled in."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RigError(
            f"{path} does not exist. Write a first one with: twinproof ingest SOURCE --suggest-rig --out {path}"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as problem:
        raise RigError(f"{path} is not readable TOML ({problem}). Mend that line.") from None
    return with_model_hash(build(Rig, data, "rig", RigError), path.parent)


def with_model_hash(rig: Rig, folder: Path) -> Rig:
    """The same rig with the robot model's hash checked against the file, or filled in."""
    if rig.model is None:
        return rig
    path = inside(folder, rig.model.path, RigError)
    if not path.is_file():
        raise RigError(f"rig: the robot model {path} does not exist. Put it beside rig.toml or mend model.path.")
    found = hash_file(path)
    if rig.model.hash and rig.model.hash != found:
        raise RigError(
            f"rig: the robot model {path} has hash {found}, the rig states {rig.model.hash}. "
            "It was changed: check it, then state the new hash."
        )
    return rig_from({**plain(rig), "model": {"path": rig.model.path, "hash": found}})


def rig_from(data: Json) -> Rig:
    """A rig from the plain data inside a recording."""
    return build(Rig, data, "rig", RigError)
