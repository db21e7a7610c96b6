"""When a served policy is asked: a receding horizon, averaged chunks, and answers that come while the robot moves."""

from __future__ import annotations

import time

import numpy as np
import pytest

from tests.evaluate.springs import saved, served_spring, talking
from tests.policies.servers import openpi
from twinproof.evaluate.beliefs import Beliefs
from twinproof.evaluate.command import contenders_of
from twinproof.evaluate.deploy import Place
from twinproof.evaluate.examine import Examination, examine
from twinproof.evaluate.freeze import Design, domains_of, freeze
from twinproof.lab.robot import LabRobot
from twinproof.nouns.errors import PolicyError
from twinproof.nouns.failure import Failure
from twinproof.nouns.robot import Observation
from twinproof.nouns.split import Split
from twinproof.nouns.store import Store
from twinproof.nouns.trials import Trials
from twinproof.nouns.twin import Twin
from twinproof.policies.background import Background
from twinproof.policies.chunks import Delayed, Measured
from twinproof.policies.server import read_served
from twinproof.tasks import reach

CHUNK, RATE_HZ, TICKS = 8, 100, 60


class Hurried(LabRobot):
    """A practice robot whose time does not wait for anybody."""

    patient = False

    def observe(self) -> Observation:
        time.sleep(0.03)
        return super().observe()


class Patient(LabRobot):
    patient = True


@pytest.fixture
def sat(practice, tmp_path):
    """Sits a panel with a served spring whose served.toml says more; the trials, and what the server heard."""
    twin, split = Twin.load(practice.twin), Split.load(practice.split)
    task = reach.of(twin, horizon_s=TICKS / RATE_HZ)
    thinks = [0.0]

    def reply(number: int, rows: np.ndarray) -> np.ndarray:
        time.sleep(thinks[0])
        return rows

    def sit(
        domains: list[str], think_s: float = 0.0, robot: Hurried | Patient | None = None, **more
    ) -> tuple[Trials, int]:
        heard, thinks[0] = [], think_s
        panel = freeze(task.panel_task(), split, Design(domains_of(domains, "lab"), conditions=1))
        place = Place(robot, "lab", patient=robot.patient) if robot else None
        with openpi(talking(task, CHUNK, reply), heard=heard) as address:
            name = tmp_path / str(len(list(tmp_path.iterdir())))
            (who,) = contenders_of([saved(served_spring(address, task, CHUNK, **more), name)], task, None)
            begun: list[int] = []
            exam = Examination(panel, split, task, Beliefs(twin), (who,), Store(tmp_path / f"{name.name}s"), place,
                               change="another way to ask")  # fmt: skip
            found = examine(exam, say=lambda text: begun.append(len(heard)))
            who.actor._actor.close()
            if isinstance(who.on_robot, Background):
                who.on_robot.close()
                who.on_robot._actor.close()
        return found, len(heard) - begun[0]

    return sit


def ticks_of(found: Trials) -> int:
    return len(found.trace(found.trials[0]).signals["command"].time_s)


def test_fewer_actions_of_a_chunk_are_carried_out_and_the_server_is_asked_more_often(sat):
    for more, every in (({}, CHUNK), ({"execute": 3}, 3), ({"average": 0.1}, 1)):
        found, asked = sat(["twin=1"], **more)
        assert asked == int(np.ceil(ticks_of(found) / every))


def test_answers_that_come_late_in_the_twin_are_late_by_what_is_stated(sat):
    at_once, _ = sat(["twin=1"], execute=3)
    known, _ = sat(["twin=1"], execute=3, asynchronous=True, latency_s=(0.03,))
    starved, _ = sat(["twin=1"], execute=3, asynchronous=True, latency_s=(0.15,), wild=50.0)
    assert at_once.trials[0].trace != known.trials[0].trace
    assert known.trials[0].metrics["deadline_misses"] == 0  # 3 ticks, and 3 more, are less than a chunk
    assert starved.trials[0].metrics["deadline_misses"] > 10


def test_the_robot_goes_on_while_the_server_thinks_and_the_twin_is_late_as_was_measured(sat):
    robot = Hurried("pendulum", 0, effects="off")
    found, _ = sat(["real=1", "twin=1"], think_s=0.004, robot=robot, execute=4, asynchronous=True)
    real, twin = found.trials
    assert (real.domain, twin.domain) == ("real", "twin")
    assert real.metrics["latency_p50_s"] >= 0.004
    assert real.failure is not Failure.POLICY


def test_a_robot_whose_time_waits_is_late_as_the_twin_is(sat):
    robot = Patient("pendulum", 0, effects="off")
    more = {"execute": 3, "asynchronous": True, "latency_s": (0.15,), "wild": 50.0}
    real, twin = sat(["real=1", "twin=1"], robot=robot, **more)[0].trials
    assert twin.metrics["deadline_misses"] > 10
    assert real.failure is not Failure.POLICY


def test_a_latency_is_measured_where_none_is_stated(practice, tmp_path):
    task = reach.of(Twin.load(practice.twin), horizon_s=0.6)
    (who,) = contenders_of(
        [saved(served_spring("ws://127.0.0.1:9", task, 4, asynchronous=True), tmp_path / "p")], task, None
    )
    assert isinstance(who.actor, Delayed)
    assert isinstance(who.on_robot, Background)
    assert who.on_robot._actor is not who.actor._actor  # a connection of its own
    latency = who.actor.latency
    assert isinstance(latency, Measured)
    who.actor._actor.latency_s += [0.031, 0.031]
    assert latency.ticks(100, 0, 0) == 4


def test_what_a_served_toml_says_of_time_is_read_or_refused(tmp_path):
    text = """format = "twinproof/served/1"
rate_hz = 20
chunk = 8
[server]
address = "ws://127.0.0.1:8000"
framing = "openpi"
%s
send = [{key = ["q"], channel = "q"}]
receive = [{key = ["actions"]}]
[[observations]]
name = "q"
unit = "rad"
[[actions]]
name = "elbow"
unit = "rad"
low = -1
high = 1
"""
    path = tmp_path / "served.toml"
    path.write_text(text % "execute = 4\nasynchronous = true\nlatency_s = [0.08, 0.12]")
    told = read_served(path).architecture
    assert (told["execute"], told["asynchronous"], list(told["latency_s"])) == (4, True, [0.08, 0.12])
    for lines, match in (
        ("average = 0.01\nexecute = 4", "Keep one of the two"),
        ("latency_s = [0.1]", "the robot waits for every answer"),
    ):
        path.write_text(text % lines)
        with pytest.raises(PolicyError, match=match):
            read_served(path)
