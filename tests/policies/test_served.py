"""Policies behind servers that speak openpi's and GR00T's protocols over real sockets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.policies import servers
from tests.policies.servers import CONTRACT, Groot, groot, groot_server, openpi, openpi_server, policy, seen, think
from twinproof.nouns.errors import PolicyError
from twinproof.nouns.policy import Policy
from twinproof.policies.chunks import Chunked
from twinproof.policies.load import actor_of
from twinproof.policies.resize import resized
from twinproof.policies.served import ServedActor
from twinproof.policies.server import Received, Sent, Server, read_served, server_of


def asked(actor: ServedActor, count: int = 2) -> np.ndarray:
    actor.reset(count, seed=0)
    given = actor.act(seen(count))
    actor.close()
    return given


def wanted(count: int = 2) -> np.ndarray:
    return np.stack([think(joints.astype(np.float32)) for joints in seen(count)["joints"]])


def test_an_openpi_server_is_asked_in_its_own_words():
    heard = []
    with openpi(heard=heard) as address:
        actor = actor_of(policy(openpi_server(address)))
        given = asked(actor)
        assert (given == wanted()).all()
        first = heard[0]
        assert set(first) == {"observation/state", "images", "prompt"}
        assert first["prompt"] == "push the box"
        assert first["observation/state"].dtype == np.float32
        assert first["images"]["cam_high"].shape == (3, 12, 12)
        assert first["images"]["cam_high"].dtype == np.uint8
        assert len(actor.latency_s) == 2


def test_a_server_tells_about_itself_and_how_long_it_thought():
    with openpi() as address:
        actor = ServedActor(policy(openpi_server(address)))
        actor.reset(1, seed=0)
        actor.act(seen())
        assert actor.client.about == {"policy": "reference"}
        assert actor.client.thought_s == [0.0015]
        actor.close()


def test_a_key_comes_from_the_environment_and_is_stored_nowhere(monkeypatch):
    monkeypatch.setenv("MY_KEY", "s3cret")
    headers = []
    with openpi(headers=headers) as address:
        made = policy(openpi_server(address, key_variable="MY_KEY"))
        asked(actor_of(made), 1)
    assert headers == ["Api-Key s3cret"]
    assert "s3cret" not in repr(made.head())


def test_a_server_that_listens_is_told_when_an_episode_begins():
    heard = []

    def talk(connection, message):
        if message.get("endpoint") == "reset":
            connection.send(servers.openpi_pack({}))
        else:
            servers.well(connection, message)

    with openpi(talk, heard=heard) as address:
        actor = actor_of(policy(openpi_server(address, reset=True)))
        asked(actor, 1)
        with pytest.raises(PolicyError, match="has one memory; 2 worlds would share it"):
            actor.reset(2, seed=0)
    assert heard[0] == {"endpoint": "reset"}


@pytest.mark.parametrize(("nested", "newest"), [(False, False), (True, False), (True, True)])
def test_a_groot_server_is_asked_in_its_own_words(nested, newest):
    reference = Groot(nested, newest)
    with groot(reference.answer) as address:
        actor = actor_of(policy(groot_server(address, nested)))
        given = asked(actor)
        assert (given == wanted()).all()
    endpoints = [request["endpoint"] for request in reference.heard]
    reset = ["reset"] if nested else []
    assert endpoints == ["ping", "get_modality_config", *reset, "get_action", "get_action"]
    assert "pickle" not in str(reference.heard)


def test_a_groot_server_tells_its_modalities_and_wants_its_token(monkeypatch):
    with groot(Groot(True, token="t0ken").answer) as address:
        with pytest.raises(PolicyError, match="failed at 'ping' and says: Unauthorized: Invalid API token"):
            actor_of(policy(groot_server(address, True))).reset(1, seed=0)
        monkeypatch.setenv("GROOT", "t0ken")
        actor = ServedActor(policy(groot_server(address, True, key_variable="GROOT")))
        actor.reset(1, seed=0)
        assert actor.client.about["video"]["modality_keys"] == ["front"]
        actor.close()


def test_chunks_of_a_server_are_played_tick_by_tick():
    heard = []
    with openpi(heard=heard) as address:
        inner = ServedActor(policy(openpi_server(address)))
        actor = Chunked(inner, execute=3)
        actor.reset(1, seed=0)
        given = [actor.act(seen(1, tick))[0, 0] for tick in range(6)]
        inner.close()
    assert len(heard) == 2
    first, second = (think(seen(1, tick)["joints"][0].astype(np.float32)) for tick in (0, 3))
    assert (np.array(given) == np.concatenate([first[:3], second[:3]])).all()


def test_units_and_order_are_mapped_both_ways():
    heard = []

    def talk(connection, message):
        degrees = np.full((4, 3), 30.0, np.float64)
        connection.send(servers.openpi_pack({"out": {"arm": degrees, "hand": np.full(4, 50.0)}}))

    with openpi(talk, heard=heard) as address:
        send = (Sent(("q",), "joints", columns=(2, 0), scale=180 / np.pi), Sent(("eye",), "front"))
        receive = (Received(("out", "arm"), (1,), np.pi / 180), Received(("out", "hand"), (), 0.0004, 0.001))
        given = asked(actor_of(policy(openpi_server(address, send=send, receive=receive, instruction=""))), 1)
    np.testing.assert_allclose(given[0, 0], [np.pi / 6, 0.021])
    np.testing.assert_allclose(heard[0]["q"], np.rad2deg(seen()["joints"][0, [2, 0]]), rtol=1e-6)
    assert set(heard[0]) == {"q", "eye"}


def test_a_served_policy_is_saved_without_weights_and_loaded(tmp_path):
    with openpi() as address:
        made = policy(openpi_server(address))
        made.save(tmp_path / "policy")
        assert sorted(path.name for path in (tmp_path / "policy").iterdir()) == ["policy.json"]
        loaded = Policy.load(tmp_path / "policy")
        assert server_of(loaded) == server_of(made)
        assert (asked(actor_of(loaded), 1) == wanted(1)).all()


TOML = """format = "twinproof/served/1"
rate_hz = 10
chunk = 4
[server]
address = "ws://127.0.0.1:8000"
framing = "openpi"
instruction = "push the box"
send = [
  {key = ["observation/state"], channel = "joints"},
  {key = ["images", "cam_high"], channel = "front", size = [224, 224]},
]
receive = [{key = ["actions"]}]
[[observations]]
name = "joints"
unit = "rad"
shape = [3]
[[observations]]
name = "front"
unit = ""
shape = [6, 8, 3]
[[actions]]
name = "elbow"
unit = "rad"
low = -1.0
high = 1.0
[[actions]]
name = "grip"
unit = "m"
low = 0.0
high = 0.04
"""


def test_a_served_toml_is_read_strictly(tmp_path):
    path = tmp_path / "served.toml"
    path.write_text(TOML)
    made = read_served(path)
    assert made.contract == CONTRACT
    assert server_of(made).send[1].size == (224, 224)
    for text, match in (
        (TOML.replace("served/1", "served/9"), "says format 'twinproof/served/9'"),
        (TOML.replace("framing", "farming"), "unknown key 'farming'. Did you mean 'framing'"),
        ("rate_hz = ", "is no readable TOML file"),
    ):
        path.write_text(text)
        with pytest.raises(PolicyError, match=match):
            read_served(path)
    with pytest.raises(PolicyError, match="is no readable TOML file"):
        read_served(tmp_path / "none.toml")


def test_a_mapping_that_does_not_fit_the_contract_is_refused():
    good = openpi_server("ws://127.0.0.1:1")

    def refused(match: str, contract=CONTRACT, **changes) -> None:
        with pytest.raises(PolicyError, match=match):
            policy(replace(good, **changes), contract)

    eye = good.send[1]
    refused("'tcp://h:1' cannot speak openpi; its address begins with ws://, wss://", address="tcp://h:1")
    refused("cannot speak groot; its address begins with tcp://", framing="groot")
    refused("timeout_s 0", timeout_s=0)
    refused("is sent or gives nothing", receive=())
    refused("has an empty key \\[\\]", receive=(Received(()),))
    refused("'q' is to be filled from 'joint', which the contract does not observe", send=(Sent(("q",), "joint"), eye))
    refused("'joints' has the shape \\(3,\\) and is no picture", send=(Sent(("q",), "joints", size=(2, 2)), eye))
    refused("'joints' of shape \\(3,\\) lacks the columns \\[3\\]", send=(Sent(("q",), "joints", columns=(3,)), eye))
    refused("observes joints, which are never sent", send=(eye,))
    refused("has the history 2; a server keeps its own", contract=replace(CONTRACT, history=2))


def test_pictures_are_resized_with_padding_as_openpi_does():
    rng = np.random.default_rng(0)
    for height, width in ((480, 640), (120, 160), (33, 20), (224, 224)):
        picture = rng.integers(0, 255, (height, width, 3), dtype=np.uint8)
        given = resized(picture, (224, 224))
        ratio = max(width / 224, height / 224)
        inner = Image.fromarray(picture).resize((int(width / ratio), int(height / ratio)), resample=Image.BILINEAR)
        canvas = Image.new("RGB", (224, 224), 0)
        canvas.paste(inner, (max(0, int((224 - inner.width) / 2)), max(0, int((224 - inner.height) / 2))))
        assert (given == np.asarray(canvas)).all()
    for wrong in (np.zeros((4, 4, 3)), np.zeros((4, 4), np.uint8)):
        with pytest.raises(PolicyError, match="a picture of shape \\(4, 4"):
            resized(wrong, (2, 2))


def test_no_pickle_is_near_any_wire():
    folder = Path(servers.__file__).parents[2] / "src" / "twinproof" / "policies"
    for path in folder.glob("*.py"):
        code = path.read_text(encoding="utf-8")
        assert "import pickle" not in code
        assert "allow_pickle=True" not in code
        assert "torch.load" not in code


def test_a_server_is_a_value():
    assert Server("ws://h:1", "openpi", (Sent(("a",), "b"),), (Received(("c",)),)) == Server(
        "ws://h:1", "openpi", (Sent(("a",), "b"),), (Received(("c",)),)
    )
