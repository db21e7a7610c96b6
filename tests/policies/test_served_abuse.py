"""Servers that lie, stall, flood and vanish: a clear error, nothing asked twice, and a robot that stands still."""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
import threading
from collections.abc import Iterator

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import binary, integers, lists, sampled_from, tuples

from tests.policies import servers
from tests.policies.servers import (
    Groot,
    groot,
    groot_pack,
    groot_server,
    openpi,
    openpi_pack,
    openpi_server,
    policy,
    seen,
)
from twinproof.lab.robot import LabRobot
from twinproof.nouns.errors import MissingExtra, PolicyError
from twinproof.nouns.policy import Channel, Contract
from twinproof.nouns.robot import Start
from twinproof.policies import wire
from twinproof.policies.chunks import Chunked
from twinproof.policies.drive import drive
from twinproof.policies.groot import GrootClient
from twinproof.policies.load import actor_of
from twinproof.policies.served import ServedActor
from twinproof.policies.server import Received, Sent

SHORT = {"timeout_s": 0.3, "connect_s": 0.3}


def answering(reply: object):
    """A server that answers everything with one message: a table, bytes as they are, or a text."""
    data = reply if isinstance(reply, (bytes, str)) else openpi_pack(reply)
    return lambda connection, message: connection.send(data)


def refuses(address: str, match: str, **changes) -> ServedActor:
    actor = ServedActor(policy(openpi_server(address, **changes)))
    actor.reset(1, seed=0)
    with pytest.raises(PolicyError, match=match):
        actor.act(seen())
    with pytest.raises(PolicyError, match="is closed. A new trial \\(reset\\) connects again"):
        actor.act(seen())  # nothing is asked a second time by itself
    return actor


GOOD = np.zeros((4, 2), np.float32)


@pytest.mark.parametrize(
    ("reply", "match"),
    [
        ({}, "gave no 'actions'. It gave nothing"),
        ({"action": GOOD}, "gave no 'actions'. It gave action"),
        ({"actions": GOOD[:3]}, "gave 2 actions in chunks of 3; the contract states 2 in chunks of 4"),
        ({"actions": np.zeros((4, 7), np.float32)}, "gave 7 actions in chunks of 4"),
        ({"actions": np.zeros((1, 4, 2), np.float32)}, "of shape \\(1, 4, 2\\); \\(steps, numbers\\) is needed"),
        ({"actions": np.zeros((), np.float32)}, "'actions' of shape \\(\\)"),
        ({"actions": GOOD.astype(np.int64)}, "'actions' as int64; an array of floats is needed"),
        ({"actions": GOOD.astype(bool)}, "'actions' as bool"),
        ({"actions": GOOD.tolist()}, "'actions' as list"),
        ({"actions": np.where(np.eye(4, 2), np.nan, GOOD)}, "gave nan for 'elbow' in world 0, step 0"),
        ({"actions": GOOD + np.float32(np.inf)}, "gave inf for 'elbow'"),
        ({"actions": GOOD + 57.3}, "gave 57.3 m for 'grip', whose limits are 0 to 0.04. Check units"),
        ([1, 2], "sent list; a table is needed"),
        ("Traceback (most recent call last):\n  …\nRuntimeError: no memory", "says: RuntimeError: no memory"),
    ],
)  # fmt: skip
def test_answers_that_do_not_fit_are_refused(reply, match):
    with openpi(answering(reply)) as address:
        refuses(address, match)


def lying(**changes) -> bytes:
    entry = {b"__ndarray__": True, b"data": GOOD.tobytes(), b"dtype": "<f4", b"shape": [4, 2]}
    return msgpack.packb({"actions": {**entry, **{name.encode(): value for name, value in changes.items()}}})


@pytest.mark.parametrize(
    ("reply", "match"),
    [
        (b"", "sent 0 bytes that are no message"),
        (b"\xc1\xc1\xc1", "no message of its protocol \\(FormatError"),
        (openpi_pack({"actions": GOOD})[:-3], "no message of its protocol"),
        (openpi_pack({"actions": GOOD}) + b"\x00", "no message of its protocol \\(ExtraData"),
        (b"\x81\xa7actions\xc6" + struct.pack(">I", 2**32 - 1) + b"x", "incomplete input"),
        (b"\x81\xa7actions\xdd" + struct.pack(">I", 2**32 - 1), "exceeds max_array_len"),
        (b"\xdf" + struct.pack(">I", 2**32 - 1), "exceeds max_map_len"),
        (b"\x81\xa1a\xc9" + struct.pack(">I", 2**31) + b"\x05x", "incomplete input"),
        (b"\x81\xa1a\xd4\x05x", "max_ext_len|extension type 5"),
        (b"\x91" * 100_000, "no message of its protocol"),
        (b"\x81\x05\x05", "no message of its protocol"),  # a key that is no text
        (b"\x81\xa1a\xa2\xff\xfe", "no message of its protocol \\(UnicodeDecodeError"),
        (lying(shape=[2**39, 2**39]), "has 32 bytes"),
        (lying(shape=[4, 3]), "an array of shape \\[4, 3\\] and type <f4 has 32 bytes"),
        (lying(shape=[-4, -2]), "an array of shape \\[-4, -2\\]"),
        (lying(shape=[1] * 40), "an array of shape"),
        (lying(shape=[True, 8]), "an array of shape"),
        (lying(shape="42"), "an array of shape|has 32 bytes"),
        (lying(shape=None), "an array of shape"),
        (lying(dtype="O"), "an array of type 'O'"),
        (lying(dtype="|V8"), "an array of type '|V8'"),
        (lying(dtype="<c8"), "an array of type '<c8'"),
        (lying(dtype="f4,f4"), "an array of type 'f4,f4'"),
        (lying(dtype=["f4"]), "an array of type"),
        (lying(data="text"), "and type <f4 has str bytes"),
        (msgpack.packb({"actions": {b"__ndarray__": True}}), "no message of its protocol \\(KeyError"),
    ],
)
def test_malformed_messages_are_refused_before_anything_is_made_of_them(reply, match):
    with openpi(answering(reply)) as address:
        refuses(address, match)


def test_actions_a_little_beyond_their_limits_are_counted_and_left_to_the_filter():
    with openpi(answering({"actions": GOOD + np.array([1.2, 0.0])})) as address:
        actor = ServedActor(policy(openpi_server(address)))
        actor.reset(1, seed=0)
        assert actor.act(seen())[0, :, 0] == pytest.approx(1.2)
        assert actor.beyond_limits == 4
        actor.close()


def test_a_server_that_is_silent_is_given_up_and_its_late_answer_is_nobodys():
    gate = threading.Event()

    def talk(connection, message):
        gate.wait()
        servers.well(connection, message)

    with openpi(talk) as address:
        actor = refuses(address, "was silent for 0.[34] s before it answered. The connection was closed", **SHORT)
        gate.set()
        actor.reset(1, seed=0)  # a new connection: the late answer went with the old one
        given = actor.act(seen(1, 5))[0]
        assert (given == servers.think(seen(1, 5)["joints"][0].astype(np.float32))).all()
        actor.close()


def test_a_server_that_trickles_is_given_up():
    gate = threading.Event()

    def trickle():
        yield b"\x81"
        while not gate.wait(0.02):
            yield b"\x81"

    with openpi(lambda connection, message: connection.send(trickle())) as address:
        refuses(address, "was silent for", **SHORT)
        gate.set()


def test_a_gigabyte_is_not_read():
    sent = [0]

    def flood():
        for _ in range(1024):
            sent[0] += 1
            yield bytes(2**20)

    with openpi(lambda connection, message: connection.send(flood())) as address:
        refuses(address, "sent more than 8 MiB at once. It was not read")
    assert sent[0] < 64  # it stopped long before the gigabyte was over


@contextlib.contextmanager
def raw(talk) -> Iterator[str]:
    """A listener that is no websocket server."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stop = threading.Event()

        def run():
            with contextlib.suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    talk(connection)
                    stop.wait()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield f"ws://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            stop.set()
            thread.join()


def test_nobody_there_or_somebody_else_is_said_before_anything_moves():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(PolicyError, match="no policy server answers at ws://127.0.0.1:.*nothing moved"):
        actor_of(policy(openpi_server(f"ws://127.0.0.1:{port}", **SHORT))).reset(1, seed=0)
    for talk in (lambda connection: None, lambda connection: connection.sendall(b"220 mail ready\r\n\r\n")):
        with raw(talk) as address, pytest.raises(PolicyError, match="no policy server answers at"):
            actor_of(policy(openpi_server(address, **SHORT))).reset(1, seed=0)


def test_a_greeting_that_is_none_is_refused():
    for greet, match in (
        (b"\xc1", "sent 1 bytes that are no message"),
        ("hello", "failed and says: hello"),
        (openpi_pack([1]), "sent list; a table is needed"),
    ):
        with openpi(greet=greet) as address, pytest.raises(PolicyError, match=match):
            actor_of(policy(openpi_server(address, **SHORT))).reset(1, seed=0)


def vanishing(after: int):
    """Answers so many times, then cuts the line in the middle of an answer."""
    asked = [0]

    def talk(connection, message):
        asked[0] += 1
        if asked[0] > after:
            connection.socket.sendall(b"\x82\x7e\x10\x00half a message")
            connection.socket.shutdown(socket.SHUT_RDWR)
        else:
            connection.send(openpi_pack({"actions": np.tile(message["q"], (2, 1)).astype(np.float32)}))

    return talk, asked


def arm_contract(robot: LabRobot) -> Contract:
    limits = zip(robot.joints, robot.limits.low, robot.limits.high, strict=True)
    actions = tuple(Channel(name, "rad", float(low), float(high)) for name, low, high in limits)
    return Contract((Channel("q", "rad", shape=(7,)),), actions, robot.rate_hz, chunk=2)


def test_a_connection_lost_in_a_trial_stops_the_robot_and_the_next_trial_connects_again():
    robot = LabRobot("push", plant=0)
    talk, asked = vanishing(3)
    with openpi(talk) as address:
        server = openpi_server(address, send=(Sent(("q",), "q"),), receive=(Received(("actions",)),))
        inner = ServedActor(policy(server, arm_contract(robot)))
        actor = Chunked(inner)

        def observe(seen, last):
            return {"q": seen.position[None]}

        driven = drive(actor, robot, observe, Start(seed=1), 5.0)
        assert driven.ended == "policy"
        assert "is lost" in driven.because
        assert "not asked again" in driven.because
        assert len(driven.commands) == 6
        assert robot.observe().stopped
        assert asked == [4]
        asked[0] = -99
        driven = drive(actor, robot, observe, Start(seed=1), 1.0)
        assert driven.ended == "horizon"
        inner.close()


def test_a_line_that_died_between_trials_is_made_anew_by_the_trial_after_next():
    """The trial that finds it dead says so before anything moves."""

    def talk(connection, message):
        connection.send(openpi_pack({}) if message.get("endpoint") else openpi_pack({"actions": GOOD}))

    with openpi(talk) as address:
        actor = ServedActor(policy(openpi_server(address, reset=True)))
        actor.reset(1, seed=0)
        actor.client._socket.socket.shutdown(socket.SHUT_RDWR)
        with pytest.raises(PolicyError, match="is lost"):
            actor.reset(1, seed=0)
        actor.reset(1, seed=0)
        assert (actor.act(seen()) == 0).all()
        actor.close()


def test_a_connection_that_is_closed_politely_is_lost_too():
    with openpi(lambda connection, message: connection.close()) as address:
        refuses(address, "is lost")


@pytest.mark.parametrize(
    ("given", "match"),
    [
        (None, "did not answer 'get_action' within 0.3 s"),
        (bytes(9 * 2**20), "did not answer 'get_action' within 0.3 s: it is away, slow, lost, or its answer has more"),
        (b"\xc1", "no message of its protocol"),
        (b"ERROR", "no message of its protocol"),
        (groot_pack({"error": "KeyError: state.arm"}), "failed at 'get_action' and says: KeyError: state.arm"),
        (groot_pack([]), "sent list; a table of actions is needed"),
        (groot_pack([{"elbow": GOOD}, {}]), "gave no 'grip'. It gave elbow"),
        (groot_pack([{"elbow": np.zeros((2, 4, 1)), "grip": GOOD}, {}]), "'elbow' of shape \\(2, 4, 1\\)"),
        (msgpack.packb({"__ndarray_class__": True, "as_npy": b"\x93NUMPY\x01\x00\x05\x00junk"}), "no message of its"),
        (msgpack.packb({"__ndarray_class__": True, "as_npy": "text"}), "an array as str"),
        (msgpack.packb({"__ModalityConfig_class__": True, "as_json": "{"}), "no message of its protocol"),
    ],
)
def test_groot_answers_that_do_not_fit_are_refused(given, match):
    reference = Groot(nested=True)

    def answer(request):
        return given if request["endpoint"] == "get_action" else reference.answer(request)

    with groot(answer) as address:
        actor = actor_of(policy(groot_server(address, True, timeout_s=0.3)))
        actor.reset(1, seed=0)
        with pytest.raises(PolicyError, match=match):
            actor.act(seen())
        with pytest.raises(PolicyError, match="is closed. A new trial"):
            actor.act(seen())


def test_an_npy_header_that_lies_makes_no_array():
    held = servers.npy(GOOD)["as_npy"]
    assert b"(4, 2)" in held
    unclosed = "an array without the header of a .npy file"
    for shape, match in ((b"(9, 9)", "has 32 bytes"), (b"(4, 1)", "has 32 bytes"), (b"(4, 2 ", unclosed)):
        data = msgpack.packb({"__ndarray_class__": True, "as_npy": held.replace(b"(4, 2)", shape)})
        with pytest.raises(PolicyError, match=match):
            wire.unpack(data, "someone")
    columns = servers.npy(np.asfortranarray(np.arange(6.0).reshape(2, 3)))
    assert wire.unpack(msgpack.packb(columns), "someone").tolist() == [[0, 1, 2], [3, 4, 5]]
    for plain in (np.float64(2.0), np.arange(3), np.zeros((0, 2), np.uint8)):
        assert (wire.unpack(msgpack.packb(servers.npy(np.asarray(plain))), "someone") == plain).all()
    pickled = servers.npy(GOOD)["as_npy"].replace(b"'<f4'", b"'|O' ")
    with pytest.raises(PolicyError, match="no message of its protocol"):
        wire.unpack(msgpack.packb({"__ndarray_class__": True, "as_npy": pickled}), "someone")


VALID = [openpi_pack({"actions": GOOD}), groot_pack([{"elbow": GOOD}, {}]), groot_pack({"a": GOOD}, newest=True)]


@given(
    base=sampled_from([b"", *VALID]), noise=lists(tuples(integers(0, 400), integers(0, 255)), max_size=6), tail=binary()
)
def test_no_bytes_are_more_than_a_message_or_an_error(base, noise, tail):
    data = bytearray(base + tail)
    for place, value in noise:
        if data:
            data[place % len(data)] = value
    with contextlib.suppress(PolicyError):
        wire.unpack(bytes(data), "someone")


def test_scalars_and_settings_are_read():
    assert wire.unpack(openpi_pack({"t": np.float32(1.5)}), "someone") == {"t": 1.5}
    number = {b"nd": False, b"type": "<f8", b"data": struct.pack("<d", 2.5)}
    assert wire.unpack(msgpack.packb(number), "someone") == 2.5
    stated = {"__ModalityConfig_class__": True, "as_json": '{"modality_keys": ["a"]}'}
    assert wire.unpack(msgpack.packb(stated), "someone") == {"modality_keys": ["a"]}


def test_a_groot_server_that_is_away_is_said():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(PolicyError, match="did not answer 'ping' within 0.3 s"):
        actor_of(policy(groot_server(f"tcp://127.0.0.1:{port}", True, **SHORT))).reset(1, seed=0)
    with pytest.raises(PolicyError, match="is no address for ZMQ"):
        actor_of(policy(groot_server("tcp://no such host:5", True, **SHORT))).reset(1, seed=0)


def test_a_closed_line_to_a_groot_server_stays_closed():
    with groot(Groot(nested=True).answer) as address:
        client = GrootClient(groot_server(address, True))
        client.close()
        client.close()
        with pytest.raises(PolicyError, match="is closed. A new trial"):
            client.reset()


def test_a_missing_package_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "websockets.sync.client", None)
    with pytest.raises(
        MissingExtra, match="policy servers need websockets. Run: pip install 'twinproof\\[policies\\]'"
    ):
        actor_of(policy(openpi_server("ws://127.0.0.1:1"))).reset(1, seed=0)
