"""A policy that sees joints and cameras drives a robot through a server, pictures and all."""

from __future__ import annotations

import numpy as np
import pytest

from tests.policies.servers import openpi, openpi_pack
from twinproof.lab.robot import LabRobot
from twinproof.nouns.errors import PolicyError
from twinproof.nouns.policy import Channel, Contract
from twinproof.nouns.robot import Observation, Picture, Start
from twinproof.policies.background import Background
from twinproof.policies.chunks import Chunked
from twinproof.policies.drive import drive
from twinproof.policies.load import acting
from twinproof.policies.reported import Reported
from twinproof.policies.server import Received, Sent, Server, served_policy

JOINTS = ("a", "b")
ACTIONS = (Channel("a", "rad", -1, 1), Channel("b", "rad", -1, 1))


def seen(at_s: float = 5.0) -> Observation:
    picture = {"front": Picture(at_s, np.full((4, 6, 3), 7, np.uint8))}
    return Observation(at_s, np.array([0.1, 0.2]), np.array([1.0, 2.0]), np.array([3.0, 4.0]), picture)


def test_channels_are_filled_by_what_they_are_called():
    channels = (
        Channel("state", "rad", shape=(2,)),
        Channel("joint_velocity", "rad/s", shape=(2,)),
        Channel("elbow_torque", "N·m"),
        Channel("last_command", "rad", shape=(2,)),
        Channel("time", "s"),
        Channel("goal", "m", shape=(2,)),
        Channel("eye", "", shape=(4, 6, 3)),
    )
    maps = {"state": "joint_position", "elbow_torque": "joint_torque/b", "eye": "image.front"}
    observe = Reported(Contract(channels, ACTIONS, 10.0), JOINTS, maps, {"goal": np.array([8.0, 9.0])})
    observe(seen(), np.zeros(2))
    found = observe(seen(5.5), np.array([0.3, 0.4]))
    told = {name: array[0].tolist() for name, array in found.items() if name != "eye"}
    assert told == {
        "state": [0.1, 0.2], "joint_velocity": [1.0, 2.0], "elbow_torque": 4.0,
        "last_command": [0.3, 0.4], "time": 0.5, "goal": [8.0, 9.0],
    }  # fmt: skip
    assert found["eye"].shape == (1, 4, 6, 3)


def test_what_a_robot_does_not_report_is_said():
    for channel, maps, match in (
        (
            Channel("tip", "m", shape=(3,)),
            {},
            "'tip', and the robot reports joint_position, .*, time, front. Map",
        ),
        (Channel("joint_position", "rad", shape=(3,)), {}, "'joint_position' of shape \\(2,\\); the policy observes"),
        (Channel("q", "rad"), {"q": "joint_position/nose"}, "of joint 'nose'; the robot has a, b"),
    ):
        with pytest.raises(PolicyError, match=match):
            Reported(Contract((channel,), ACTIONS, 10.0), JOINTS, maps)(seen(), np.zeros(2))


@pytest.mark.parametrize("wrap", [Chunked, Background])
def test_a_server_drives_a_robot_by_its_camera(wrap):
    robot = LabRobot("push", plant=0, cameras=("front",), size=(32, 24))
    home = robot.reset(Start(seed=1)).position
    bounds = zip(robot.joints, robot.limits.low, robot.limits.high, strict=True)
    contract = Contract(
        (Channel("joint_position", "rad", shape=(7,)), Channel("front", "", shape=(24, 32, 3))),
        tuple(Channel(name, "rad", float(low), float(high)) for name, low, high in bounds),
        robot.rate_hz,
        chunk=4,
    )
    pictures = []

    def talk(connection, message):
        pictures.append(message["eye"])
        chunk = np.tile(home + np.array([0.2, 0, 0, 0, 0, 0, 0]), (4, 1))
        connection.send(openpi_pack({"actions": chunk.astype(np.float32)}))

    with openpi(talk) as address:
        send = (Sent(("q",), "joint_position"), Sent(("eye",), "front", size=(48, 48)))
        policy = served_policy(Server(address, "openpi", send, (Received(("actions",)),)), contract)
        with acting(policy) as inner:
            # a simulated second passes faster than a server answers, however patient a real robot would be
            actor = Background(inner, patience=10**6) if wrap is Background else Chunked(inner)
            driven = drive(actor, robot, Reported(contract, robot.joints), Start(seed=1), 1.0)
            if wrap is Background:
                actor.reset(1, seed=0)
                actor.close()
    assert driven.ended == "horizon"
    assert driven.position[20, 0] - home[0] == pytest.approx(0.2, abs=0.05)
    assert pictures[0].shape == (48, 48, 3)
    assert (pictures[0] != pictures[-1]).any()  # the arm moved before the camera
    robot.close()
