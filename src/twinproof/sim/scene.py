"""A scene: the text of a model and the folder of its files, from which the nominal is made anew every time.

text + files ──parse──> spec ──settle──> nominal spec ──compile──> nominal model
                                  │
                                  └─ what the compiler would derive from other values (damping ratios, inherited
                                     ranges, total mass) is fixed at its nominal value, so that a parameter
                                     changes what it names and nothing else, compiled or poked
"""

from __future__ import annotations

import contextlib
import copy
import functools
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from twinproof.nouns.errors import SimError
from twinproof.nouns.hashing import content_hash, hash_file
from twinproof.sim.references import expand, files_of
from twinproof.sim.settle import name_all, reserve_history, settle, strip
from twinproof.sim.untimed import stop_clocks

if TYPE_CHECKING:
    from mujoco import MjModel, MjSpec

    from twinproof.nouns.drive import Drive
    from twinproof.nouns.twin import Twin


FEW_TRIES, FEW_SEARCHES = 6, 10  # of the contact solver, in coarse physics: a GPU waits for its slowest world


@dataclass(frozen=True, eq=False)
class Scene:
    """MJCF or URDF text without includes, and the folder its files live in. Equal when text and files are.

    `control_delay_s` and `sensor_delay_s` reserve history for delays up to that long: every world then has the same
    layout, and a delay is an ordinary parameter. Worlds and rollouts of a scene with a `drive` obey it.
    """

    xml: str
    root: Path | None = None
    control_delay_s: float = 0.0
    sensor_delay_s: float = 0.0
    lean: bool = False  # without what only shows: half of the time of a step may go into it
    coarse: int = 1  # physics steps so many times as long as the model says
    drive: Drive | None = None
    hash: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        root = None if self.root is None else Path(self.root).absolute()
        _check_delays(self.control_delay_s, self.sensor_delay_s)
        names = files_of(self.xml)
        if names and root is None:
            raise SimError(f"the scene names the file {names[0]!r} and has no folder. Give its root.")
        missing = [name for name in names if root and not (root / name).is_file()]
        if missing:
            raise SimError(f"the scene names {missing[0]!r}, which is not in {root}. Put it there, or mend the name.")
        files = {name: hash_file(root / name) for name in names if root}
        object.__setattr__(self, "root", root)
        content = [self.xml, files, self.control_delay_s, self.sensor_delay_s, self.lean]
        content += [] if self.drive is None else [self.drive.hash]
        content += [] if self.coarse == 1 else [f"coarse {self.coarse}"]
        object.__setattr__(self, "hash", content_hash(content))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scene) and self.hash == other.hash

    def __hash__(self) -> int:
        return hash(self.hash)

    @classmethod
    def read(cls, path: Path | str, root: Path | str | None = None) -> Scene:
        """The scene in a foreign MJCF or URDF file, after it was scanned and compiled in a limited process."""
        from twinproof.sim.safe import check_foreign

        return check_foreign(Path(path), None if root is None else Path(root)).scene

    @classmethod
    def of(cls, twin: Twin, drive: Drive | None = None) -> Scene:
        """The scene of a twin, moved by the drive of what was identified where there is one."""
        return cls(expand(twin.path(), twin.root), twin.root, drive=drive)

    def driven(self, drive: Drive | None) -> Scene:
        """The same scene moved by a drive, or by none."""
        return replace(self, drive=drive)

    def reserving(self, control_delay_s: float = 0.0, sensor_delay_s: float = 0.0) -> Scene:
        """The same scene with room for delays up to this long (at least what it has)."""
        _check_delays(control_delay_s, sensor_delay_s)
        return replace(
            self,
            control_delay_s=max(self.control_delay_s, control_delay_s),
            sensor_delay_s=max(self.sensor_delay_s, sensor_delay_s),
        )

    def leaner(self) -> Scene:
        """The same physics, to the last bit, without geoms that touch nothing, lights and cameras."""
        return replace(self, lean=True)

    def coarser(self, times: int) -> Scene:
        """The same scene in physics steps `times` as long, whose contacts are solved in few tries: other physics, by
        little where bodies move slowly (bench/results/train_gpu.md). For learning, not for judging."""
        if times < 1 or times != int(times):
            raise SimError(f"physics steps were asked for {times} times as long. Give a whole number of 1 or more.")
        return replace(self, coarse=self.coarse * times)

    def spec(self) -> MjSpec:
        """The nominal spec, parsed anew. Everything in it has a name, and nothing waits to be derived."""
        spec = _parsed(self)
        settle(spec, _compiled_raw(self))
        return spec

    def nominal(self) -> MjModel:
        """The nominal model, shared by all who ask: not to be changed. `compile` gives one of your own."""
        return _compiled(self)

    def compile(self) -> MjModel:
        """The nominal model, a copy of your own."""
        return copy.copy(_compiled(self))


def _check_delays(*delays_s: float) -> None:
    for delay_s in delays_s:
        if not (math.isfinite(delay_s) and delay_s >= 0):
            raise SimError(f"a reserved delay is {delay_s} s. It is zero or more, and finite.")


def engine() -> str:
    """The physics engine and its version, as twins and traces name it."""
    import mujoco

    return f"mujoco {mujoco.__version__}"


def engine_of(scene: Scene) -> str:
    """The same, with the drive that moves the scene where it has one."""
    return engine() if scene.drive is None else f"{engine()}, drive {scene.drive.hash[:16]}"


def _parsed(scene: Scene) -> MjSpec:
    import mujoco

    try:
        with _obsolete_allowed():
            spec = mujoco.MjSpec.from_string(scene.xml)
            spec.modelfiledir = "" if scene.root is None else str(scene.root)
    except ValueError as problem:
        raise SimError(f"the model does not parse: {_told(problem)}. Mend it there.") from None
    if not (math.isfinite(spec.option.timestep) and spec.option.timestep > 0):
        raise SimError(f"the model's timestep is {spec.option.timestep} s. Give its <option> one above zero.")
    if scene.coarse > 1:
        spec.option.timestep *= scene.coarse
        spec.option.iterations = min(spec.option.iterations, FEW_TRIES)
        spec.option.ls_iterations = min(spec.option.ls_iterations, FEW_SEARCHES)
    spec.compiler.fusestatic = False  # the physics is the same, and every body keeps its name
    name_all(spec)
    for body in spec.bodies:
        body.simple = 0  # MuJoCo's diagonal shortcut would outlive a shifted centre of mass, in silence
    reserve_history(spec, scene.control_delay_s, scene.sensor_delay_s)
    if scene.lean:
        strip(spec, _compiled_raw(replace(scene, lean=False)))
    return spec


@functools.lru_cache(maxsize=32)
def _compiled_raw(scene: Scene) -> MjModel:
    return compiled(_parsed(scene))


@functools.lru_cache(maxsize=32)
def _compiled(scene: Scene) -> MjModel:
    return compiled(scene.spec())


def compiled(spec: MjSpec) -> MjModel:
    """The model of a spec; what MuJoCo refuses is an error with its words."""
    stop_clocks()
    try:
        with _obsolete_allowed():
            return spec.compile()
    except ValueError as problem:
        raise SimError(f"the model does not compile: {_told(problem)}. Mend it there.") from None


@contextlib.contextmanager
def _obsolete_allowed() -> Iterator[None]:
    """A foreign model may use attributes that MuJoCo is about to drop: while it obeys them, nothing is amiss."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*is deprecated", category=UserWarning)
        yield


def _told(problem: ValueError) -> str:
    return " ".join(str(problem).removeprefix("Error:").split()).rstrip(".")
