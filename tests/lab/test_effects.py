"""Each unmodelled effect changes what a replay of the same commands does, or what a camera sees."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from twinproof.lab.benches import bench
from twinproof.lab.cameras import Film
from twinproof.lab.effects import EFFECTS, CableDrag, chosen, shade
from twinproof.lab.models.room import FLEX_JOINTS, Look
from twinproof.lab.motion import OPERATORS
from twinproof.lab.population import instance
from twinproof.lab.reality import Reality
from twinproof.lab.take import Take, play
from twinproof.nouns.errors import ConfigError
from twinproof.nouns.randomness import stream
from twinproof.nouns.theta import Theta
from twinproof.sim.world import World

QUANTUM_RAD = 2 * np.pi / 4096
PUSH = bench("push")
NOMINAL = replace(PUSH.plant(0), theta=Theta())  # every parameter as the user believes it
TAKE = Take(0, "lift", "box_03", "day_0", OPERATORS[0])


@pytest.fixture(scope="module")
def commands() -> list[np.ndarray]:
    """Commands that lift a box in the nominal world."""
    return play(PUSH, NOMINAL, TAKE, frozenset(), 0).reality.log.command


def replay(commands: list[np.ndarray], effects: str) -> Reality:
    """The same commands, the same noise, in the nominal world with some effects."""
    reality = Reality(PUSH, NOMINAL, instance(TAKE.object), Look.of(0, TAKE.session), chosen(effects))
    reality.reset(stream(1, "sensors"), stream(0, "lab", "push", "episode0", "scene"))
    for command in commands:
        reality.command(command)
        reality.advance(round(1 / (PUSH.rate_hz * reality.dt)))
    return reality


@pytest.fixture(scope="module")
def plain(commands) -> Reality:
    return replay(commands, "off")


def rms(first: list[np.ndarray], second: list[np.ndarray]) -> np.ndarray:
    return np.sqrt(((np.stack(first) - np.stack(second)) ** 2).mean(0))


def tips(reality: Reality) -> list[np.ndarray]:
    world, found = World(reality.world.model), []
    for qpos in reality.log.qpos[::50]:
        world.qpos[:] = qpos
        world.kinematics()
        found.append(world.site_pose("tip")[:3, 3].copy())
    return found


def test_with_all_effects_off_a_replay_in_the_nominal_world_is_the_same_replay(commands, plain):
    again = replay(commands, "off")
    assert (np.stack(again.log.position) == np.stack(plain.log.position)).all()
    assert plain.log.snaps[-1].object_m == pytest.approx(again.log.snaps[-1].object_m)


def test_cable_drag_moves_the_arm_and_leaves_a_loop(commands, plain):
    dragged = replay(commands, "cable_drag")
    off = rms(dragged.log.position, plain.log.position)
    assert (off[:3] > 2 * QUANTUM_RAD).all()
    cable = CableDrag(np.array([[0, 1]]), np.zeros(1), np.ones(1))
    swing = 0.5 * np.sin(np.linspace(0, 4 * np.pi, 4001))
    rate = np.gradient(swing, 1e-3)
    torque = np.array(
        [cable.torque(np.array([q, 0.0]), np.array([v, 0.0]), 1e-3)[0] for q, v in zip(swing, rate, strict=True)]
    )
    middle = np.abs(swing) < 0.01
    there, back = torque[middle & (rate > 0)][20:], torque[middle & (rate < 0)]
    assert back.mean() - there.mean() > 1.0  # at one angle and however slowly, the way there and the way back differ


def test_gear_ripple_shows_in_angles_and_torques(commands, plain):
    rippled = replay(commands, "gear_ripple")
    assert (rms(rippled.log.position, plain.log.position)[:3] > 0.5 * QUANTUM_RAD).all()
    assert (rms(rippled.log.torque, plain.log.torque)[:3] > 0.1).all()


def test_gripper_compliance_weakens_the_grip_and_misleads_its_encoder(commands, plain):
    soft = replay(commands, "gripper_compliance")
    assert rms(soft.log.position, plain.log.position)[6] > 5e-4
    assert rms(soft.log.position, plain.log.position)[:6].max() < QUANTUM_RAD
    held = [5 * k for k, snap in enumerate(plain.log.snaps) if snap.held[0]][10:20]
    grip = [np.mean([abs(world.log.torque[k][6]) for k in held]) for world in (soft, plain)]
    assert grip[0] < 0.95 * grip[1]
    assert soft.log.position[held[0]][6] < plain.log.position[held[0]][6] - 1e-3


def test_a_flexing_table_moves_the_hand_where_no_encoder_sees_it(commands, plain):
    flexed = replay(commands, "table_flex")
    assert rms(flexed.log.position, plain.log.position)[:6].max() < QUANTUM_RAD
    moved = np.stack(tips(flexed)) - np.stack(tips(plain))
    assert np.abs(moved[:, 2]).max() > 1e-3
    assert moved[:, 2].std() > 2e-5  # it rocks as the arm moves
    assert all(flexed.world.has("joint", name) for name in FLEX_JOINTS)
    assert not any(plain.world.has("joint", name) for name in FLEX_JOINTS)


def picture(reality: Reality, time_s: float, size: tuple[int, int] = (64, 48)) -> np.ndarray:
    return Film(reality, NOMINAL.cameras[0], size, ("test",), 0).picture(time_s, 0).astype(float)


def test_rolling_exposure_bends_what_moves_and_leaves_the_rest(commands, plain):
    rolled = replay(commands, "rolling_exposure")
    assert (np.stack(rolled.log.position) == np.stack(plain.log.position)).all()
    speed = np.abs(np.diff(np.stack(plain.log.qpos)[:, plain.joint_places[:6]], axis=0)).max(1)
    fast, still = int(speed.argmax()) * plain.dt, 0.02
    assert np.abs(picture(rolled, fast, (160, 120)) - picture(plain, fast, (160, 120))).max() > 40
    assert np.abs(picture(rolled, still) - picture(plain, still)).max() < 12


def test_lens_shading_darkens_the_corners_and_not_the_middle(commands, plain):
    shaded = replay(commands, "lens_shading")
    ratio = picture(shaded, 0.0) / np.maximum(picture(plain, 0.0), 1)
    assert ratio[:6, :6].mean() < 0.9
    assert ratio[20:28, 28:36].mean() == pytest.approx(1.0, abs=0.03)
    assert shade(np.ones((48, 64, 3)), 0.2, 0.05)[0, 0, 0] > shade(np.ones((48, 64, 3)), 0.2, 0.05)[0, 0, 2]


def test_effects_are_named_all_off_or_one_by_one():
    assert chosen("all") == frozenset(EFFECTS)
    assert chosen("off") == frozenset()
    assert chosen("cable_drag, lens_shading") == {"cable_drag", "lens_shading"}
    with pytest.raises(ConfigError, match=r"no effect 'gremlins'. Use all, off, or some of cable_drag"):
        chosen("gremlins")
    assert chosen("all", bench("pendulum")) == {"cable_drag", "gear_ripple", "table_flex"}
