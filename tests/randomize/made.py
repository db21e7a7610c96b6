"""A pendulum recorded on twenty days, its twin, and posteriors made by hand: right, or wrong by a planted amount."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

from tests.sim.motions import PENDULUM, swing
from twinproof.guard.make import Grouping, make
from twinproof.nouns.belief import Discrepancy, Population, Prior
from twinproof.nouns.parts import Calibration, Validation
from twinproof.nouns.posterior import Posterior
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Intrinsics, Mount, Rig, SignalRule
from twinproof.nouns.source import Declared, Inferred
from twinproof.nouns.split import Split
from twinproof.nouns.theta import ParameterInfo, Theta
from twinproof.nouns.twin import Alignment, Body, Twin, TwinCamera
from twinproof.sim.scene import engine

TRUTH = {"body.bob.mass": 0.6, "joint.hinge.damping": 0.08}
SD = {"body.bob.mass": 0.01, "joint.hinge.damping": 0.004}
INFO = {
    "body.bob.mass": ParameterInfo("body.bob.mass", "kg", 0.2, 1.8, True),
    "joint.hinge.damping": ParameterInfo("joint.hinge.damping", "N m s/rad or N s/m", 0.0, 0.5),
}
# The pendulum with a free box, a lamp, a material and two cameras.
ROOM = PENDULUM.replace(
    "<worldbody>",
    """<asset><material name="wood" rgba=".6 .4 .2 1"/></asset>
  <worldbody>
    <light name="lamp" pos="0 0 3" dir="0 0 -1"/>
    <geom name="floor" type="plane" size="1 1 .1" material="wood"/>
    <camera name="front" pos="0 -1.2 .6" xyaxes="1 0 0 0 .3 1" fovy="45"/>
    <camera name="side" pos="1.2 0 .6" xyaxes="0 1 0 -.3 0 1" resolution="64 48" sensorsize=".0064 .0048"
            focalpixel="60 60"/>
    <body name="box" pos=".2 0 .05"><freejoint name="box"/>
      <geom name="box" type="box" size=".05 .04 .05" mass=".2" rgba=".8 .1 .1 1"/></body>""",
).replace("<mujoco>", '<mujoco model="room">')


@dataclass(frozen=True)
class Made:
    """The folders and what is in them."""

    root: Path
    split: Split
    twin: Twin

    @property
    def calibration(self) -> Calibration:
        """What was fitted."""
        return self.split.parts()[0]

    @property
    def validation(self) -> Validation:
        """What tests."""
        return self.split.parts()[1]


@cache
def made(count: int = 20) -> Made:
    """Swings of one pendulum, half of them calibration, the twin saved beside them."""
    root = Path(mkdtemp(prefix="twinproof-randomize-"))
    episodes = [
        swing(PENDULUM, {**TRUTH, "joint.hinge.frictionloss": 0.04}, k, 0.9, labels={"session": f"day_{k}"}, size=0.4)
        for k in range(count)
    ]
    rig = Rig("pendulum", signals={"state": SignalRule("state", "joint_position", "rad", clock_offset_sd_s=0.002)})
    recording = Recording(rig, tuple(episodes), {"kind": "test", "name": "made here"})
    split = make(recording, root / "split", Grouping(("session",), (0.4, 0.4, 0.2)))
    twin = twin_of(root / "scene", PENDULUM, split)
    twin.save(root / "twin")
    return Made(root, split, Twin.load(root / "twin"))


def twin_of(folder: Path, text: str, split: Split | None = None, **more: object) -> Twin:
    """A twin whose scene was stated."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "scene.xml").write_text(text)
    source = Declared("written for a test")
    lacks = {"mesh": "geoms of the scene", "splats": "no picture was taken"}
    bodies = [Body("bob", source, layer="robot", lacks=lacks)]
    things = [name for name in ("box", "drawer") if f'<body name="{name}"' in text]
    bodies += [Body(name, source, layer="object", lacks=lacks) for name in things]
    known = split or made().split
    fields: dict[str, object] = {
        "alignment": Alignment(source),
        "episodes": known.calibration,
        "parents": {"split": known.hash},
        "start": Theta({"joint.hinge.frictionloss": 0.04}),
        **more,
    }
    return Twin(folder, tuple(bodies), engine=engine(), **fields)  # type: ignore[arg-type]


def room(folder: Path, **more: object) -> Twin:
    """A twin with a box and two cameras, one of them with a covariance."""
    source = Inferred("c" * 64)
    mount = Mount("world", (0.0, -1.2, 0.6), (1.0, 0.0, 0.0, 0.0), 0.006, 0.009)
    cameras = {
        "front": TwinCamera(64, 48, Intrinsics(58.0, 58.0, 31.5, 23.5), mount, source),
        "side": TwinCamera(64, 48, Intrinsics(60.0, 60.0, 31.5, 23.5), mount, source),
    }
    spread = np.diag([1e-4, 1e-4, 1e-5, 1e-5, 1e-5, 1e-5, 1e-4])
    spread[0, 3] = spread[3, 0] = 0.8 * np.sqrt(1e-4 * 1e-5)
    audits = {"calibration": {"cameras": {"front": {"covariance": spread.tolist()}, "side": {"focal_sd": 0.004}}}}
    fields: dict[str, object] = {"cameras": cameras, "audits": audits, **more}
    return twin_of(folder, ROOM, **fields)


def posterior(shift: Mapping[str, float] | None = None, **more: object) -> Posterior:
    """Draws around the truth, moved by so many sd, with a correlation of one half."""
    rng = np.random.default_rng(0)
    ids = tuple(INFO)
    off = rng.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], size=800)
    columns = [TRUTH[id] + SD[id] * (off[:, k] + (shift or {}).get(id, 0.0)) for k, id in enumerate(ids)]
    fields: dict[str, object] = {
        "parameters": tuple(INFO.values()),
        "priors": tuple(Prior(Declared("a wide range")) for _ in ids),
        "draws": np.stack(columns, axis=1),
        "log_weights": np.full(800, -np.log(800)),
        "method": "by hand",
        "episodes": made().calibration.ids,
        "parents": {"twin": made().twin.hash, "split": made().split.hash},
        "discrepancy": (Discrepancy("state.hinge", "rad", (0.1, 0.4), (0.003, 0.012)),),
        "settings": {"fixed": {"joint.hinge.frictionloss": 0.04}},
        **more,
    }
    return Posterior(**fields)  # type: ignore[arg-type]


def family() -> Population:
    """Three bobs, and a new one that differs more than they are known."""
    rng = np.random.default_rng(1)
    values = np.clip(0.6 + 0.01 * rng.normal(size=(800, 3, 1)), 0.3, 0.9)
    new = np.clip(0.6 + 0.05 * rng.normal(size=(800, 1)), 0.3, 0.9)
    return Population("object", ("a", "b", "c"), ("body.bob.mass",), values, new)
