"""safety.toml: what a robot may be told at deployment, narrower than what its driver allows.

format = "twinproof/safety/1"
commands = "position"                              # or "torque": what the robot's joints are told
beyond = "clip"                                    # or "stop": the first violation ends the trial
joints.elbow = {range = [-1.0, 1.5], speed = 1.0, effort = 20.0}       # each may be left out
workspace = {low_m = [0.1, -0.4, 0.02], high_m = [0.7, 0.4, 0.6], arms = [{tip = "tip", joints = ["waist", "elbow"]}]}
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from twinproof.nouns.errors import PolicyError
from twinproof.nouns.robot import Limits
from twinproof.nouns.strict import build
from twinproof.policies.safety import Safety, Workspace
from twinproof.sim.kinematics import chain_of
from twinproof.sim.scene import Scene

FORMAT = "twinproof/safety/1"
Corner = tuple[float, float, float]


@dataclass(frozen=True)
class JointLimits:
    """What one joint may be told and may feel: rad or m, a second, and N m or N."""

    range: tuple[float, float] | None = None
    speed: float | None = None
    effort: float | None = None


@dataclass(frozen=True)
class ArmTip:
    """A body or site, and the joints that move it, from the base on."""

    tip: str
    joints: tuple[str, ...]


@dataclass(frozen=True)
class Box:
    """The room that tips stay in, in the world."""

    low_m: Corner
    high_m: Corner
    arms: tuple[ArmTip, ...]


@dataclass(frozen=True)
class SafetyFile:
    """What a safety.toml holds."""

    format: str
    commands: Literal["position", "torque"]
    beyond: Literal["clip", "stop"] = "clip"
    joints: Mapping[str, JointLimits] = field(default_factory=dict)
    workspace: Box | None = None


def read_safety(
    path: Path,
    joints: tuple[str, ...],
    limits: Limits,
    rate_hz: float,
    scene: Scene | None,
    torque_driven: bool | None = None,
) -> Safety:
    """The limits of a file for a robot with these joints and limits; a workspace needs the scene for its tips.

    What the file does not name stays as the robot allows it; what it names may be narrower, never wider.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PolicyError(f"{path} does not exist. docs/policies.md shows what a safety.toml holds.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise PolicyError(f"{path} is no readable TOML file ({problem}). docs/policies.md shows one.") from None
    if data.get("format") != FORMAT:
        raise PolicyError(f"{path} says format {data.get('format')!r}; this version reads {FORMAT!r}.")
    stated = build(SafetyFile, data, str(path), PolicyError)
    unknown = sorted(set(stated.joints) - set(joints))
    if unknown:
        raise PolicyError(f"{path} limits {', '.join(unknown)}, and the robot has {', '.join(joints)}.")
    if torque_driven is not None and torque_driven != (stated.commands == "torque"):
        kind = "torques" if torque_driven else "positions"
        raise PolicyError(f"{path} says commands = {stated.commands!r}, and the robot is told {kind}. Mend that line.")
    low, high, speed = (np.array(getattr(limits, name)) for name in ("low", "high", "speed"))
    effort = np.full(len(joints), np.inf)
    for name, one in stated.joints.items():
        k = joints.index(name)
        first, last = one.range or (low[k], high[k])
        fast = speed[k] if one.speed is None else one.speed
        if not first < last or not fast > 0:
            raise PolicyError(
                f"{path} gives {name!r} {first:g} to {last:g} at {fast:g} a second. The range goes up, and the "
                "speed is above 0."
            )
        if first < low[k] or last > high[k] or fast > speed[k]:
            raise PolicyError(
                f"{path} gives {name!r} {first:g} to {last:g} at {fast:g} a second, wider than the robot's own "
                f"{low[k]:g} to {high[k]:g} at {speed[k]:g}. A filter narrows: change the driver's limits, or these."
            )
        low[k], high[k], speed[k] = first, last, fast
        effort[k] = np.inf if one.effort is None else one.effort
    felt = effort if np.isfinite(effort).any() else None
    room = None if stated.workspace is None else _room(path, stated.workspace, scene)
    by_torque = stated.commands == "torque"
    return Safety(joints, Limits(low, high, speed), rate_hz, felt, room, by_torque, stated.beyond)


def _room(path: Path, box: Box, scene: Scene | None) -> Workspace:
    if scene is None:
        raise PolicyError(f"{path} states a workspace, and there is no scene to tell where tips are. Give a twin.")
    chains = tuple(chain_of(scene, arm.joints, arm.tip) for arm in box.arms)
    return Workspace(chains, np.array(box.low_m), np.array(box.high_m))
