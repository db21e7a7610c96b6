"""Reach: bring a tip to a place, or, where a robot is driven by torques, its joints to angles, and stay there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from twinproof.nouns.errors import TaskError
from twinproof.nouns.policy import Channel, Contract
from twinproof.nouns.twin import Twin
from twinproof.sim.scene import Scene
from twinproof.tasks.machine import Arm, Machine
from twinproof.tasks.sensed import Array, Fixed, Sensed, Situation, distance
from twinproof.tasks.task import Setup, TaskSpec, action_channels, robot_channels, robot_seen
from twinproof.tasks.tips import TipPosition

NEAR_M, NEAR_RAD, SLOW_RAD_S, STAY_S = 0.02, 0.10, 0.6, 0.3
AWAY_M = 0.10  # a goal is at least this far from where the tip begins, and above the arm's first joint
JITTER_RAD, SPREAD_RAD = 0.1, 0.7  # about home: joints at the beginning, joints that lead to a goal
TRIES = 200


def of(
    scene: Scene | Twin,
    *,
    home: Mapping[str, float] | None = None,
    tip: str = "",
    rate_hz: float | None = None,
    relative: bool = False,
    horizon_s: float = 3.0,
) -> TaskSpec:
    """The task on a scene's robot: of its tip where it has one and is driven by positions, else of its joints."""
    machine = Machine.of(scene, home=home, rate_hz=rate_hz, tips=(tip,) if tip else ())
    if machine.torque_driven:
        return joints(machine, horizon_s)
    return tip_to_goal(machine, machine.arm(tip), relative, horizon_s)


def tip_to_goal(machine: Machine, arm: Arm, relative: bool = False, horizon_s: float = 3.0) -> TaskSpec:
    """The tip of a position-driven arm within 2 cm of a place for 0.3 s."""
    position = TipPosition(machine.chain(arm), [machine.joints.index(name) for name in arm.joints])
    columns = [machine.joints.index(name) for name in arm.joints]
    floor_m = float(machine.chain(arm).T_before[0][2, 3])

    def draw(rng: np.random.Generator) -> Setup:
        begin = machine.home.copy()
        begin[columns] = _around(machine, columns, JITTER_RAD, rng)
        at = position(begin[None], np)[0]
        for _ in range(TRIES):
            end = machine.home.copy()
            end[columns] = _around(machine, columns, SPREAD_RAD, rng)
            goal = position(end[None], np)[0]
            if goal[2] > floor_m and np.linalg.norm(goal - at) > AWAY_M:
                return Setup(tuple(goal.tolist()), joints=dict(zip(arm.joints, begin[columns].tolist(), strict=True)))
        raise TaskError(
            f"no goal for {arm.tip!r} was found in {TRIES} tries: {SPREAD_RAD:g} rad about home the tip stays within "
            f"{AWAY_M:g} m or below its first joint, {floor_m:.3f} m. Give another home."
        )

    def observe(sensed: Sensed) -> dict[str, Array]:
        at = position(sensed.position, sensed.xp)
        return {**robot_seen(sensed), "tip": at, "goal": sensed.goal, "tip_to_goal": sensed.goal - at}

    def error(situation: Situation) -> Array:
        return distance(situation.tips[arm.tip], situation.goal)

    def notes(situation: Situation) -> dict[str, Array]:
        return {"near_s": _counted(situation, error(situation) < NEAR_M)}

    def reward(situation: Situation) -> dict[str, Array]:
        off, xp = error(situation), situation.xp
        return {
            "closer": -off,
            "near": xp.exp(-((off / 0.05) ** 2)),
            "there": 1.0 * (off < NEAR_M),
            "smooth": -0.05 * ((situation.command - situation.before) ** 2).sum(-1) / 0.125**2,
        }

    def privileged(situation: Situation) -> dict[str, Array]:
        return {"true_tip_to_goal": situation.goal - situation.tips[arm.tip], "true_velocity": situation.velocity}

    seen = (
        *robot_channels(machine),
        Channel("tip", "m", shape=(3,), frame="world"),
        Channel("goal", "m", shape=(3,), frame="world"),
        Channel("tip_to_goal", "m", shape=(3,), frame="world"),
        Channel("true_tip_to_goal", "m", shape=(3,), frame="world", privileged=True),
        Channel("true_velocity", "rad/s or m/s", shape=(len(machine.joints),), privileged=True),
    )
    return TaskSpec(
        "reach",
        machine,
        Contract(seen, action_channels(machine, relative), machine.rate_hz),
        horizon_s,
        f"the tip within {NEAR_M:g} m of the goal for {STAY_S:g} s",
        "not there when the time is over",
        draw,
        observe,
        reward,
        lambda situation: situation.notes["near_s"] >= STAY_S - 1e-6,
        error,
        remembers=("near_s",),
        notes=notes,
        privileged=privileged,
        relative=relative,
    )


def joints(machine: Machine, horizon_s: float = 3.0) -> TaskSpec:
    """All joints of a torque-driven robot within 0.1 rad of angles, slower than 0.6 rad/s, for 0.3 s."""
    count = len(machine.joints)
    low, high = _angles(machine)

    def draw(rng: np.random.Generator) -> Setup:
        begin = np.clip(machine.home + rng.uniform(-SPREAD_RAD, SPREAD_RAD, count), low, high)
        goal = rng.uniform(low, high)
        return Setup(tuple(goal.tolist()), joints=dict(zip(machine.joints, begin.tolist(), strict=True)))

    def observe(sensed: Sensed) -> dict[str, Array]:
        xp, q = sensed.xp, sensed.position
        turned = {"joint_sine": xp.sin(q), "joint_cosine": xp.cos(q)}
        return {**robot_seen(sensed), **turned, "goal": sensed.goal, "to_goal": sensed.goal - q}

    def error(situation: Situation) -> Array:
        return _largest(abs(situation.goal - situation.position))

    def notes(situation: Situation) -> dict[str, Array]:
        slow = _largest(abs(situation.velocity)) < SLOW_RAD_S
        return {"near_s": _counted(situation, (error(situation) < NEAR_RAD) & slow)}

    def reward(situation: Situation) -> dict[str, Array]:
        xp, off = situation.xp, situation.goal - situation.position
        far, most = (off * off).sum(-1), Fixed(machine.limits.high).like(off)
        return {
            "closer": -0.5 * far**0.5,
            "near": xp.exp(-far / 0.3**2),
            "there": 1.0 * (error(situation) < NEAR_RAD),
            "slow": -0.01 * (situation.velocity**2).sum(-1),
            "torque": -0.02 * ((situation.command / most) ** 2).sum(-1),
        }

    def privileged(situation: Situation) -> dict[str, Array]:
        return {"true_to_goal": situation.goal - situation.position, "true_velocity": situation.velocity}

    seen = (
        *robot_channels(machine),
        *(Channel(name, "1", shape=(count,)) for name in ("joint_sine", "joint_cosine")),
        *(Channel(name, "rad", shape=(count,)) for name in ("goal", "to_goal")),
        Channel("true_to_goal", "rad", shape=(count,), privileged=True),
        Channel("true_velocity", "rad/s", shape=(count,), privileged=True),
    )
    return TaskSpec(
        "reach",
        machine,
        Contract(seen, action_channels(machine, False), machine.rate_hz),
        horizon_s,
        f"every joint within {NEAR_RAD:g} rad of its goal and slower than {SLOW_RAD_S:g} rad/s for {STAY_S:g} s",
        "not there when the time is over",
        draw,
        observe,
        reward,
        lambda situation: situation.notes["near_s"] >= STAY_S - 1e-6,
        error,
        error_unit="rad",
        remembers=("near_s",),
        notes=notes,
        privileged=privileged,
    )


def _around(machine: Machine, columns: Sequence[int], spread_rad: float, rng: np.random.Generator) -> np.ndarray:
    low, high = machine.limits.low[columns], machine.limits.high[columns]
    found: np.ndarray = np.clip(machine.home[columns] + rng.uniform(-spread_rad, spread_rad, len(columns)), low, high)
    return found


def _angles(machine: Machine) -> tuple[np.ndarray, np.ndarray]:
    """Goals lie within 1.5 rad of home and inside the joints' ranges, where they have any."""
    model = machine.scene.nominal()
    numbers = [model.joint(name).id for name in machine.joints]
    limited, span = np.array(model.jnt_limited[numbers], dtype=bool), np.array(model.jnt_range[numbers])
    low, high = machine.home - 1.5, machine.home + 1.5
    return np.where(limited, np.maximum(low, span[:, 0]), low), np.where(limited, np.minimum(high, span[:, 1]), high)


def _counted(situation: Situation, holds: Array) -> Array:
    """Seconds for which something has held without a break."""
    return situation.xp.where(holds, situation.notes["near_s"] + situation.period_s, 0.0)


def _largest(values: Array) -> Array:
    """The largest of each row; numpy and torch agree on amax."""
    return values.max(-1) if isinstance(values, np.ndarray) else values.amax(-1)
