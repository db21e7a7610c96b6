"""A scene with a drive: its rollouts and its worlds move alike, as its law says, and not as without it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.sim.motions import PENDULUM, sines
from twinproof.nouns.drive import Drive
from twinproof.nouns.errors import PosteriorError
from twinproof.nouns.strict import plain
from twinproof.nouns.theta import Theta
from twinproof.sim.actuator_law import Actuator, ActuatorLaw, Friction
from twinproof.sim.actuator_net import ActuatorNet
from twinproof.sim.drive import law_of
from twinproof.sim.driven import Driven
from twinproof.sim.residual_law import Domain, ResidualDynamics
from twinproof.sim.rollout import Rollouts
from twinproof.sim.scene import Scene
from twinproof.sim.windows import Start
from twinproof.sim.worlds import Worlds

MOTOR = Actuator(deadband=0.05, friction=Friction(coulomb=0.05, viscous=0.02, presliding_rad=0.05))
PARAMETERS = {"joint.hinge.damping": (0.05, 0.01)}
FRICTION = Drive({"hinge": plain(MOTOR)}, PARAMETERS)
DELAY = "actuator.hinge.delay"


def spring() -> ResidualDynamics:
    """A correction that pulls back to the middle wherever the pendulum may be."""
    waves = np.array([[[1e-3], [0.0], [0.0]]])
    domain = Domain(np.zeros(3), np.ones(3), np.zeros((1, 3)), 1e3)
    return ResidualDynamics(domain, waves, np.full((1, 1), np.pi / 2), np.full((1, 1, 1), 800.0), np.ones(1))


def network() -> ActuatorNet:
    """Half of the command that was sent two samples ago, as a network of one layer."""
    weight = np.zeros((1, 6, 1))
    weight[0, 0] = 0.5
    low, high = np.full((1, 6), -9.0), np.full((1, 6), 9.0)
    layers = ((weight, np.zeros((1, 1))),)
    return ActuatorNet(("hinge",), 3, 2, 0.004, np.zeros((1, 6)), np.ones((1, 6)), low, high, layers, *np.ones((2, 1)))


def packed(**laws: ActuatorNet | ResidualDynamics) -> Drive:
    told = {name: law.packed() for name, law in laws.items()}
    arrays = {f"{name}/{key}": value for name, (_, each) in told.items() for key, value in each.items()}
    return Drive(arrays=arrays, **{name: about for name, (about, _) in told.items()})


DRIVES = {"friction": FRICTION, "residual": packed(residual=spring()), "network": packed(network=network())}


def rolled(scene: Scene, theta: Theta) -> np.ndarray:
    sent = sines(60, 1, 0.008, 3, 0.5)[None]
    start = Start(np.array([[0.3]]), np.array([[0.5]]))
    return np.asarray(Rollouts(scene.reserving(0.1), ("qpos",), substeps=2).roll([theta], start, sent)["qpos"][0, 0])


def stepped(scene: Scene, theta: Theta) -> np.ndarray:
    sent = sines(60, 1, 0.008, 3, 0.5)
    worlds = Worlds(scene.reserving(0.1), [Theta(), theta], substeps=2)
    worlds.step(np.full((2, 1), 3.0))  # a past that a reset forgets
    worlds.reset(np.array([1]), qpos=np.array([0.3]), qvel=np.array([0.5]), ctrl=sent[0])
    found = []
    for each in sent:
        worlds.step(np.array([[0.1], each]))
        found.append(worlds.qpos[1].copy())
    return np.stack(found)


@pytest.mark.parametrize("name", DRIVES)
@pytest.mark.parametrize("delay_s", [0.0, 0.011])
def test_worlds_and_rollouts_of_a_driven_scene_move_alike_and_not_as_without_it(name: str, delay_s: float) -> None:
    theta = Theta({DELAY: delay_s, "joint.hinge.frictionloss": 0.02})
    driven = Scene(PENDULUM).driven(DRIVES[name])
    np.testing.assert_allclose(stepped(driven, theta), rolled(driven, theta), atol=1e-9)
    assert np.abs(rolled(driven, theta) - rolled(Scene(PENDULUM), theta)).max() > 0.02
    assert np.abs(rolled(driven, theta) - rolled(driven, theta | {DELAY: 0.03})).max() > 1e-3


def test_a_driven_scene_obeys_the_law_with_the_parameters_that_go_with_it() -> None:
    theta, scene = Theta({"joint.hinge.damping": 0.06}), Scene(PENDULUM)
    sent, start = sines(60, 1, 0.004, 3, 0.5)[None], Start(np.array([[0.3]]), np.array([[0.5]]))
    by_hand = Driven(scene, ("qpos",)).roll(
        [Theta({"joint.hinge.damping": 0.02})], [ActuatorLaw({"hinge": MOTOR})], start, sent
    )
    found = Rollouts(scene.driven(FRICTION), ("qpos",)).roll([theta], start, sent)
    np.testing.assert_allclose(found["qpos"], by_hand["qpos"], atol=1e-12)
    assert FRICTION.applied(Theta())["joint.hinge.damping"] == 0.01
    assert FRICTION.applied(Theta({"joint.hinge.damping": 0.03}))["joint.hinge.damping"] == 0.0


def test_a_drive_is_part_of_what_a_scene_is() -> None:
    scene = Scene(PENDULUM)
    hashes = {scene.driven(drive).hash for drive in (None, *DRIVES.values())}
    assert len(hashes) == 4
    assert scene.driven(FRICTION).leaner().reserving(0.1).drive is FRICTION


def test_a_drive_comes_back_from_its_folder(tmp_path: Path) -> None:
    for name, drive in DRIVES.items():
        (tmp_path / name).mkdir()
        drive.write(tmp_path / name)
        again = Drive.read(tmp_path / name, drive.head(), PosteriorError)
        assert again.hash == drive.hash
        assert law_of(again).memory(0.004) == law_of(drive).memory(0.004)


def test_a_drive_that_is_none_is_refused() -> None:
    with pytest.raises(PosteriorError, match="moves nothing"):
        Drive()
    with pytest.raises(PosteriorError, match="0 arrays of its network, and a description"):
        Drive(network={"layers": 1})
    with pytest.raises(PosteriorError, match="lacks something"):
        law_of(Drive(network={"layers": 1}, arrays={"network/mean": np.zeros(3)}))
    with pytest.raises(PosteriorError, match="unknown key 'strength'"):
        law_of(Drive({"hinge": {"strength": 1.0}}))


def test_what_a_world_is_told_does_not_depend_on_how_many_stand_beside_it() -> None:
    rng = np.random.default_rng(0)
    domain = Domain(rng.normal(size=6), rng.uniform(0.5, 2, 6), rng.normal(size=(40, 6)), 3.0)
    waves, phases, weights = rng.normal(size=(6, 6, 96)), rng.uniform(0, 6, (6, 96)), rng.normal(size=(6, 96, 2))
    residual = ResidualDynamics(domain, waves, phases, weights, np.ones(2))
    shape = ((1, 8, 16), (1, 16)), ((1, 16, 1), (1, 1))
    layers = tuple((rng.normal(size=w), rng.normal(size=b)) for w, b in shape)
    ends = np.full((1, 8), -9.0), np.full((1, 8), 9.0)
    net = ActuatorNet(("hinge",), 4, 1, 0.004, np.zeros((1, 8)), np.ones((1, 8)), *ends, layers, *np.ones((2, 1)))
    states, seen = rng.normal(size=(50, 6)), rng.normal(size=(1, 50, 8))
    whole, torque = residual.torque(states), net.torque(seen)
    assert np.abs(whole).min() > 1e-9
    assert np.abs(torque).max() > 0.1
    for some in (slice(0, 1), slice(3, 4), slice(7, 20), slice(1, 50)):
        np.testing.assert_array_equal(residual.torque(states[some]), whole[some])
        np.testing.assert_array_equal(net.torque(seen[:, some]), torque[:, some])
