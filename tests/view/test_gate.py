"""Who may look: token, Host, Origin, for pages and for websockets, on real loopback sockets."""

from __future__ import annotations

import http.client
import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from twinproof.nouns.errors import ConfigError, MissingExtra
from twinproof.view import gate as gates
from twinproof.view.gate import Gate, gate_of, guarded, listen, stop


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Gate, int]]:
    bound = listen()
    gate = gate_of(bound)
    server = guarded(gate, bound, "probe")
    yield gate, bound.getsockname()[1]
    stop(server)


def get(port: int, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    asked.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = asked.getresponse()
    found = answer.status, dict(answer.getheaders()), answer.read() if answer.status != 101 else b""
    answer.close()
    asked.close()
    return found


UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec_WebSocket_Version": "13",
    "Sec_WebSocket_Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


def shake(port: int, path: str, **headers: str) -> int:
    return get(port, path, **UPGRADE, **headers)[0]


def test_the_page_comes_with_the_token_and_may_not_be_framed(served):
    gate, port = served
    status, headers, body = get(port, f"/{gate.token}/")
    assert status == 200
    assert b"<html" in body
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "Set-Cookie" not in headers


@pytest.mark.parametrize("path", ["/", "/wrong/", "/../{token}/x", "//{token}/", "/{short}/", "/?token={token}"])
def test_without_the_token_nothing_is_shown(served, path):
    gate, port = served
    status, _, body = get(port, path.format(token=gate.token, short=gate.token[:-1]))
    assert status == 403
    assert body == b"The address lacks the right token. Open the one that `twinproof view` printed.\n"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "localhost:1"])
def test_another_host_is_refused_even_with_the_token(served, host):
    gate, port = served
    status, _, body = get(port, f"/{gate.token}/", Host=host.format(port=port))
    assert status == 403
    assert body.startswith(b"This viewer answers to ")


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1:{port}"])
def test_a_foreign_origin_is_refused_even_with_the_token(served, origin):
    gate, port = served
    foreign = origin.format(port=port)
    assert get(port, f"/{gate.token}/", Origin=foreign)[2] == b"A page of another origin may not look at this viewer.\n"
    assert shake(port, f"/{gate.token}", Origin=foreign) == 403


def test_a_websocket_needs_token_host_and_origin(served):
    gate, port = served
    own = f"http://127.0.0.1:{port}"
    assert shake(port, f"/{gate.token}", Origin=own) == 101
    assert shake(port, f"/{gate.token}") == 403  # every browser says its origin
    assert shake(port, "/wrong", Origin=own) == 403
    assert shake(port, f"/{gate.token}", Origin=own, Host="evil.example") == 403


def test_a_header_that_stands_twice_is_refused(served):
    gate, port = served
    with socket.create_connection(("127.0.0.1", port)) as line:
        name = f"127.0.0.1:{port}"
        line.sendall(f"GET /{gate.token}/ HTTP/1.1\r\nHost: {name}\r\nHost: evil.example\r\n\r\n".encode())
        answer = line.recv(4096)
    assert b"403" in answer.split(b"\r\n")[0]


def test_viser_listens_on_loopback_and_on_one_port_only(served):
    _, port = served
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((_own_address(), port), timeout=2)


def _own_address() -> str:
    return "127.0.0.2"  # loopback too, but not the address that was bound


def test_each_viewer_has_its_own_token_and_it_is_not_printed():
    one, two = Gate(frozenset()), Gate(frozenset())
    assert one.token != two.token
    assert len(one.token) >= 43
    assert one.token not in repr(one)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
def test_all_addresses_at_once_are_refused(host):
    with pytest.raises(ConfigError, match="it has to know the address that browsers use"):
        listen(host)


def test_a_port_that_is_taken_is_told():
    taken = listen()
    taken.listen()
    with pytest.raises(ConfigError, match="port 0 is any that is free"):
        listen(port=taken.getsockname()[1])
    taken.close()


def test_nobody_can_open_a_public_tunnel_from_the_page():
    from viser import _messages

    bound = listen()
    server = guarded(gate_of(bound), bound, "probe")
    known = server._websock_server._incoming_handlers
    assert _messages.ShareUrlRequest not in known
    assert _messages.ShareUrlDisconnect not in known
    stop(server)


def test_without_viser_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "viser", None)
    bound = listen()
    with pytest.raises(MissingExtra, match=r"twinproof\[view\]"):
        guarded(gate_of(bound), bound, "x")
    bound.close()


def test_a_viser_that_goes_around_the_gate_is_stopped(monkeypatch):
    import viser

    class Elsewhere:
        def __init__(self, **_: Any) -> None:
            self.stopped = False

        def stop(self) -> None:
            ended.append(True)

    ended: list[bool] = []
    monkeypatch.setattr(viser, "ViserServer", Elsewhere)
    bound = listen()
    with pytest.raises(MissingExtra, match="cannot be guarded"):
        gates.guarded(gate_of(bound), bound, "x")
    assert ended == [True]
    bound.close()
