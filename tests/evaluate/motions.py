"""Small recordings of a made-up two-arm robot whose motion, errors and events are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from twinproof.nouns.episode import Episode
from twinproof.nouns.randomness import stream
from twinproof.nouns.recording import Recording
from twinproof.nouns.rig import Arm, Joint, Model, Rig, SignalRule
from twinproof.nouns.signal import Column, Signal
from twinproof.nouns.strict import plain
from twinproof.nouns.toml_text import to_toml

ROBOT = """<mujoco><compiler angle="radian"/><worldbody>
 <body name="left_base" pos="0 0.3 0"><geom size="0.05"/>
  <body name="l1" pos="0 0 0.2"><joint name="left_a" axis="0 0 1"/><geom size="0.05"/>
   <body name="left_tool" pos="0 0 0.3"><joint name="left_b" axis="0 1 0"/><geom size="0.05" pos="0 0 0.2"/>
    <body name="lf" pos="0 0 0.4"><joint name="left_g" type="slide" axis="1 0 0"/><geom size="0.01"/></body>
    </body></body></body>
 <body name="right_base" pos="0 -0.3 0"><geom size="0.05"/>
  <body name="r1" pos="0 0 0.2"><joint name="right_a" axis="0 0 1"/><geom size="0.05"/>
   <body name="right_tool" pos="0.3 0 0"><joint name="right_b" axis="0 1 0"/><geom size="0.05" pos="0.2 0 0"/>
    <body name="right_tip" pos="0.4 0 0"><joint name="right_g" type="slide" axis="0 1 0"/><geom size="0.01"/></body>
    </body></body></body>
</worldbody></mujoco>"""

JOINTS = ("left_a", "left_b", "left_g", "right_a", "right_b", "right_g")
RANGES = {"left_a": 6.0, "left_b": 4.0, "left_g": 0.05, "right_a": 6.0, "right_b": 4.0, "right_g": 0.05}


def rig(*, model: bool = False, weights: Mapping[str, float] | None = None, offset_s: float = 0.0) -> Rig:
    joints = tuple(
        Joint(name, (0.0, span) if name.endswith("_g") else (-span / 2, span / 2), (weights or {}).get(name, 1.0))
        for name, span in RANGES.items()
    )
    arms = (
        Arm("left", ("left_a", "left_b"), "left_g", "left_tool"),
        Arm("right", ("right_a", "right_b"), "right_g", "right_tip"),
    )
    signals = {"state": SignalRule("state", "joint_position", clock_offset_s=offset_s)}
    return Rig("two_arms", joints, arms, Model("robot.xml") if model else None, signals)


def wave(t: np.ndarray, seed: int = 0) -> np.ndarray:
    """(T, 6): smooth joints, grippers that close at 3 s and open at 7 s."""
    rng = stream(seed, "wave")
    rate, phase = rng.uniform(0.5, 2.0, (3, 4)), rng.uniform(0, 6.28, (3, 4))
    arm = np.sin(rate * t[:, None, None] + phase).sum(axis=1) * 0.25
    start = np.sin(phase).sum(axis=0) * 0.25
    arm = arm - start  # every motion begins at the same place
    closed = np.clip((t - 2.6) / 0.4, 0, 1) - np.clip((t - 7.0) / 0.3, 0, 1)
    grip = 0.045 - 0.03 * closed
    return np.stack([arm[:, 0], arm[:, 1], grip, arm[:, 2], arm[:, 3], grip], axis=1)


def state(
    time_s: np.ndarray,
    value: np.ndarray,
    *,
    order: tuple[str, ...] = JOINTS,
    missing: np.ndarray | None = None,
    name: str = "state",
    kind: str = "joint_position",
) -> Signal:
    columns = tuple(Column(joint, "m" if joint.endswith("_g") else "rad") for joint in order)
    value = value[:, [JOINTS.index(joint) for joint in order]]
    return Signal(name, kind, columns, time_s, value, missing)


def episode(
    motion: Callable[[np.ndarray], np.ndarray],
    *,
    seconds: float = 10.0,
    rate_hz: float = 50.0,
    noise: float = 1e-4,
    seed: int = 0,
    number: int = 0,
    labels: Mapping[str, str] | None = None,
    more: tuple[Signal, ...] = (),
    **how,
) -> Episode:
    t = np.arange(round(seconds * rate_hz) + 1) / rate_hz
    value = motion(t) + noise * stream(seed, "noise").normal(size=(len(t), 6)) * np.array(list(RANGES.values()))
    signals = {signal.name: signal for signal in (state(t, value, **how), *more)}
    return Episode.of(
        signals, {}, labels=labels or {"task": "wave"}, start_ns=number + 1000 * seed, source=f"episode {number}"
    )


def recording(*episodes: Episode, of: Rig | None = None) -> Recording:
    return Recording(of or rig(), episodes, {"kind": "test"})


def off_from_5_s(t: np.ndarray, seed: int = 0) -> np.ndarray:
    """The twin: 40 ms late, and from 5 s on its left elbow creeps away."""
    moved = wave(t - 0.04, seed)
    moved[:, 1] += 0.15 * np.clip(t - 5.0, 0, None)
    return moved


def pair_of_recordings(count: int = 2) -> tuple[Recording, Recording]:
    real = [episode(lambda t, k=k: wave(t, k), number=k, seed=k, labels={"task": f"wave {k}"}) for k in range(count)]
    sim = [
        episode(lambda t, k=k: off_from_5_s(t, k), number=k, seed=50 + k, labels={"task": f"wave {k}"}, rate_hz=40)
        for k in range(count)
    ]
    return recording(*real), recording(*sim[::-1])


def on_disk(folder: Path, of: Rig) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "robot.xml").write_text(ROBOT)
    (folder / "rig.toml").write_text(to_toml(plain(of)))
    return folder / "rig.toml"
