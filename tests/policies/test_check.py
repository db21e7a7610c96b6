"""A logged episode through a policy: agreement where it fits, and a sentence for each way of mapping it wrongly."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import replace

import numpy as np
import pytest

from tests.generator import JOINTS, practice_recording
from tests.policies import servers
from tests.policies.servers import Groot, groot, groot_pack, openpi, openpi_pack
from twinproof import cli
from twinproof.guard.make import Grouping, make
from twinproof.nouns.episode import Episode
from twinproof.nouns.errors import PolicyError, SplitError
from twinproof.nouns.policy import Channel, Contract, Policy
from twinproof.nouns.signal import Column, Signal
from twinproof.policies.check import check
from twinproof.policies.command import episode_of, suggest
from twinproof.policies.load import acting, actor_of
from twinproof.policies.logged import Sources, logged
from twinproof.policies.server import read_served
from twinproof.policies.suggest import suggested

ACTIONS = tuple(Channel(name, "rad", -3.1, 3.1) for name in JOINTS)
CONTRACT = Contract((Channel("state", "rad", shape=(6,)),), ACTIONS, 30.0)


@pytest.fixture(scope="module")
def split(tmp_path_factory):
    """Seven short pushes under two small cameras, split by object."""
    folder = tmp_path_factory.mktemp("check")
    recording = practice_recording(folder / "videos", 7, seconds=1.5, size=(64, 48))
    recording.save(folder / "recording")
    make(recording, folder / "split", Grouping(("object",)))
    return folder / "split"


@pytest.fixture(scope="module")
def episode(split) -> Episode:
    return episode_of(split, None)[0]


def linear(matrix: np.ndarray, bias: float = 0.0, contract: Contract = CONTRACT) -> Policy:
    """A network whose action is matrix @ state + bias, in rad."""
    weights = {"layers.0.weight": matrix / 3.1, "layers.0.bias": np.full(len(matrix), bias / 3.1)}
    return Policy("mlp", contract, {}, {"layers": list(matrix.shape[::-1])}, weights)


def looked(policy: Policy, episode: Episode, **sources):
    with acting(policy) as actor:
        return check(actor, logged(policy.contract, episode, Sources(**sources)))


def test_a_policy_that_does_what_was_done_agrees(episode):
    found = looked(linear(np.eye(6)), episode)
    assert found.problems == ()
    assert found.failed == ""
    assert len(found.asked) == len(found.time_s)
    for each in found.agreement:
        assert each.share < 0.03
        assert each.correlation > 0.9
        assert each.beyond_limits == 0
    assert found.timing.count == len(found.asked)
    assert "actions: command" in found.sources


@pytest.mark.parametrize(
    ("matrix", "bias", "sentence"),
    [
        (-np.eye(6), 0.0, "moves against the log \\(correlation -\\d.\\d+\\). Is its sign turned?"),
        (np.eye(6) / 57.3, 0.0, "moves with the log, 0.01\\d+ times as far. Degrees for radians\\?"),
        (np.eye(6) * 57.3, 0.0, "predictions are beyond the limits"),
        (np.eye(6), 1.5, "moves with the log, \\+1.\\d+ rad apart. An offset\\?"),
        (np.eye(6)[::-1].copy(), 0.0, "moves like the logged '\\w+'. Another order\\?"),
    ],
)
def test_a_mistake_in_the_map_is_told_in_words(episode, matrix, bias, sentence):
    found = looked(linear(matrix, bias), episode)
    assert any(re.search(sentence, told) for told in found.problems), found.problems


def test_chunks_are_compared_with_what_was_done_in_their_time(episode):
    contract = replace(CONTRACT, chunk=5)
    policy = linear(np.tile(np.eye(6), (5, 1)), contract=contract)
    found = looked(policy, episode)
    assert found.asked.tolist() == list(range(0, len(found.time_s), 5))
    log = logged(contract, episode, Sources())
    seen = next(log.observations(np.array([5])))["state"][0]
    np.testing.assert_allclose(found.chunks[1], np.tile(seen, (5, 1)), atol=1e-5)
    with pytest.raises(PolicyError, match="asked at every 0 ticks"):
        check(actor_of(policy), log, every=0)


def test_only_what_had_arrived_is_seen(episode):
    log = logged(CONTRACT, episode, Sources())
    state = episode.signals["state"]
    for tick, seen in zip((0, 3, 7), log.observations(np.array([0, 3, 7])), strict=True):
        before = state.time_s <= log.time_s[tick] + 1e-9
        assert (seen["state"][0] == state.value[before][-1]).all()


def test_channels_are_found_by_name_kind_column_camera_clock_and_value(episode):
    channels = (
        Channel("joint_position", "rad", shape=(6,)),
        Channel("last_command", "rad", shape=(6,)),
        Channel("elbow", "rad"),
        Channel("front", "", shape=(48, 64, 3)),
        Channel("eye", "", shape=(48, 64, 3)),
        Channel("time", "s"),
        Channel("goal", "m", shape=(2,)),
    )
    sources = Sources({"elbow": "state/elbow", "eye": "side"}, {"goal": (0.5, 0.1)})
    log = logged(Contract(channels, ACTIONS, 10.0), episode, sources)
    first, second = log.observations(np.array([0, 1]))
    assert first["joint_position"].shape == (1, 6)
    assert (second["last_command"][0] == log.actions[0]).all()
    assert second["elbow"] == second["joint_position"][0, 2]
    assert first["front"].shape == (1, 48, 64, 3)
    assert (first["front"] != first["eye"]).any()
    assert (first["time"], second["time"]) == (0.0, pytest.approx(0.1))
    assert second["goal"].tolist() == [[0.5, 0.1]]
    steps = logged(CONTRACT, episode, Sources(relative=True)).actions
    np.testing.assert_allclose(steps[1:], np.diff(logged(CONTRACT, episode, Sources()).actions, axis=0))


def test_what_an_episode_cannot_show_is_refused(episode):
    def refused(match: str, *channels: Channel, rate: float = 30.0, actions=ACTIONS, **sources) -> None:
        with pytest.raises(PolicyError, match=match):
            logged(Contract(channels or CONTRACT.observations, actions, rate), episode, Sources(**sources))

    refused("nothing in episode \\w+ is called 'goal', .* the signals command, state and the cameras front, side. Give",
            Channel("goal", "m"))  # fmt: skip
    refused("goal were mapped or set, and the policy does not observe them", values={"goal": (1.0,)})
    refused("the signal 'state' has 6 columns .* 'state' with 7 numbers", Channel("state", "rad", shape=(7,)))
    refused("has no column 'nose'", Channel("state", "rad"), maps={"state": "state/nose"})
    refused("camera 'front' gives rgb pictures of shape \\(48, 64, 3\\); the policy observes 'front' as \\(9, 9, 3\\)",
            Channel("front", "", shape=(9, 9, 3)))  # fmt: skip
    refused("'state' was set to 1 numbers; its shape is \\(6,\\)", values={"state": (1.0,)})
    refused("at 0.5 Hz that is no episode", rate=0.5)
    refused("no logged signal holds the policy's actions nose", actions=(Channel("nose", "m", 0, 1),))
    with pytest.raises(PolicyError, match="Commands in episode \\w+: none"):
        logged(CONTRACT, episode, Sources(actions="nothing"))
    gone = Signal(
        "state", "joint_position", (Column("a", "rad"),), np.arange(9.0), np.zeros((9, 1)), np.ones((9, 1), bool)
    )
    command = Signal("command", "joint_command", (Column("a", "rad"),), np.arange(9.0), np.zeros((9, 1)))
    empty = Episode.of({"state": gone, "command": command}, {})
    with pytest.raises(PolicyError, match="state/a has no measured value"):
        logged(Contract((Channel("state", "rad", shape=(1,)),), (Channel("a", "rad", -1, 1),), 10.0), empty, Sources())


def test_the_holdout_is_never_looked_at(split):
    sealed = json.loads((split / "holdout" / "holdout.json").read_text())["episodes"]
    held = next(iter(sealed))
    with pytest.raises(SplitError, match="is held out and stays sealed"):
        episode_of(split, held)
    with pytest.raises(SplitError, match="0 parts of .* have an episode whose id starts with 'zzz'"):
        episode_of(split, "zzz")
    lines = (split / "openings.jsonl").read_text()
    inside = json.loads((split / "validation" / "recording.json").read_text())["episodes"]
    assert episode_of(split, inside[0]["id"])[0].id == inside[0]["id"]
    assert (split / "openings.jsonl").read_text() == lines


def test_a_policy_that_fails_is_a_result(episode):
    def talk(connection, message):
        connection.send(openpi_pack({"actions": np.full((2, 6), np.nan)}))

    with openpi(talk) as address:
        server = servers.openpi_server(
            address, send=(servers.Sent(("q",), "state"),), receive=(servers.Received(("actions",)),)
        )
        found = looked(servers.policy(server, replace(CONTRACT, chunk=2)), episode)
    assert "gave nan for 'waist'" in found.failed
    assert found.agreement == ()
    assert found.timing is None


def test_a_slow_policy_is_told(episode):
    log = logged(CONTRACT, episode, Sources())
    found = check(actor_of(linear(np.eye(6), contract=replace(CONTRACT, rate_hz=1e9))), log)  # a nanosecond to think
    assert any("latency: 95 % of the answers come within" in told for told in found.problems)


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stop:
        cli.main([str(argument) for argument in arguments])
    return int(stop.value.code or 0)


def test_the_command_writes_a_table_and_a_picture(split, tmp_path, capsys):
    linear(np.eye(6)).save(tmp_path / "policy")
    assert run("policy", "check", tmp_path / "policy", "--recording", split, "--out", tmp_path / "out") == 0
    told = capsys.readouterr().out
    assert "nothing looks wrong" in told
    assert "waist" in told
    assert "latency of" in told
    table = json.loads((tmp_path / "out" / "check.json").read_text())
    assert table["format"] == "twinproof/check/1"
    assert len(table["actions"]) == 6
    assert (tmp_path / "out" / "check.png").read_bytes()[:4] == b"\x89PNG"
    assert run("policy", "check", tmp_path / "policy", "--recording", split, "--out", tmp_path / "out") == 1
    assert "exists and is not empty" in capsys.readouterr().err


def test_a_server_is_checked_from_its_address_to_its_picture(split, tmp_path, capsys):
    """suggest -> a served.toml -> check, over a real socket."""

    def talk(connection, message):
        assert message["observation/front"].shape == (224, 224, 3)
        connection.send(openpi_pack({"actions": message["observation/state"][None].astype(np.float32)}))

    heard = []
    with openpi(talk, heard=heard) as address:
        toml = tmp_path / "served.toml"
        assert run("policy", "suggest", address, "--recording", split, "--out", toml) == 0
        made = read_served(toml)
        assert [action.name for action in made.contract.actions] == list(JOINTS)
        assert tomllib.loads(toml.read_text())["server"]["instruction"] == "push the block"
        assert run("policy", "check", address, "--served", toml, "--recording", split / "validation",
                   "--instruction", "push it", "--every", 10, "--out", tmp_path / "out") == 0  # fmt: skip
        assert {message["prompt"] for message in heard} == {"push it"}
        assert "nothing looks wrong" in capsys.readouterr().out
        assert run("policy", "suggest", address, "--recording", split, "--out", toml) == 1
        assert "served.toml exists" in capsys.readouterr().err


def test_a_policy_that_remembers_sees_every_tick(split, tmp_path):
    contract = replace(CONTRACT, history=2, chunk=3)
    linear(np.tile(np.eye(6), (3, 2)) / 2, contract=contract).save(tmp_path / "policy")
    assert run("policy", "check", tmp_path / "policy", "--recording", split, "--out", tmp_path / "out") == 0
    table = json.loads((tmp_path / "out" / "check.json").read_text())
    assert table["asked"] == len(table["time_s"]) == len(table["answers_s"])


def test_a_groot_server_names_its_keys(split, tmp_path):
    with groot(Groot(nested=True).answer) as address:
        suggest(address, split, tmp_path / "served.toml")
    server = tomllib.loads((tmp_path / "served.toml").read_text())["server"]
    assert server["framing"] == "groot"
    assert [entry["key"] for entry in server["send"]] == [["state", "state"], ["video", "front"]]


class EchoingGroot(Groot):
    """Tells what it takes and gives, and wants what the joints are at."""

    def answer(self, request):
        if request["endpoint"] != "get_modality_config":
            return super().answer(request)
        names = {"video": "front", "state": "arm", "action": "arm"}
        keys = {kind: name if self.nested else f"{kind}.{name}" for kind, name in names.items()}
        return groot_pack({kind: {"delta_indices": [0], "modality_keys": [key]} for kind, key in keys.items()})

    def act(self, data):
        if not self.nested:
            assert data["video.front"].shape == (1, 48, 64, 3)
            return {"action.arm": data["state.arm"].astype(np.float32)}
        assert data["observation"]["video"]["front"].shape == (1, 1, 48, 64, 3)
        return [{"arm": data["observation"]["state"]["arm"].astype(np.float32)}, {}]


@pytest.mark.parametrize("nested", [False, True])
def test_a_groot_server_is_checked_from_its_address_to_its_picture(nested, split, tmp_path, capsys):
    with groot(EchoingGroot(nested).answer) as address:
        toml, out = tmp_path / "served.toml", tmp_path / "out"
        assert run("policy", "suggest", address, "--recording", split, "--out", toml) == 0
        more = ("--recording", split / "validation", "--every", 10, "--out", out)
        assert run("policy", "check", address, "--served", toml, *more) == 0, capsys.readouterr().err
    assert read_served(toml).kind == "served"
    assert tomllib.loads(toml.read_text())["server"]["framing"] == ("groot" if nested else "groot-flat")
    assert "nothing looks wrong" in capsys.readouterr().out
    assert len(json.loads((out / "check.json").read_text())["actions"]) == len(JOINTS)
    assert (out / "check.png").read_bytes()[:4] == b"\x89PNG"


def test_what_a_user_names_wrongly_is_refused(split, tmp_path, capsys):
    linear(np.eye(6)).save(tmp_path / "policy")

    def refused(told: str, target: object, *more: object) -> None:
        assert run("policy", "check", target, "--recording", split, "--out", tmp_path / "out", *more) == 1
        assert told in capsys.readouterr().err

    refused("is a server, and nothing says under which keys it is asked", "ws://127.0.0.1:1")
    refused("is of kind 'mlp' and takes no instruction", tmp_path / "policy", "--instruction", "push")
    refused("'goal' does not say what is what. Write it as in --set goal=0.3,0.1", tmp_path / "policy", "--set", "goal")
    refused("--set goal=a,b is no row of numbers", tmp_path / "policy", "--set", "goal=a,b")


def test_a_recording_without_commands_gets_no_suggestion(split):
    episode, rig = episode_of(split, None)
    blind = replace(episode, signals={"state": episode.signals["state"]})
    with openpi() as address, pytest.raises(PolicyError, match="no signal of kind 'joint_command'"):
        suggested(address, blind, rig)
