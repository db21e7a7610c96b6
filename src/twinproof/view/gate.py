"""Who may look. viser itself lets anybody in who reaches its port; every request to it passes here first.

browser ── GET /TOKEN/ ──> Host, token, Origin ──> viser's page
        ── websocket /TOKEN ──> Host, token, Origin ──> viser

Against whom:
- another machine: the socket is bound to loopback. `--host` binds elsewhere, has to be meant, and is not encrypted
- another user of this machine, who can reach loopback: the token, 256 bits, in the path. viser has no other door: it
  listens on the socket that is handed to it here, and nowhere else
- a page of another origin in the user's browser: it knows no token, and its websocket is refused even with one
- DNS rebinding, where such a page becomes "same origin" under its own name: Host must be the address we are bound to
- a page that frames the viewer: frame-ancestors 'none'
There is no cookie: cookies of 127.0.0.1 go to every port of it, to other users' servers too. The token is in the
browser's history; it dies with the viewer. Pages are told to send no Referer.
"""

from __future__ import annotations

import contextlib
import hmac
import secrets
import socket
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from twinproof.nouns.errors import ConfigError, MissingExtra

if TYPE_CHECKING:
    from viser import ViserServer

LOOPBACK = "127.0.0.1"
POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob: data:; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
    "connect-src 'self' data: blob:; worker-src blob: data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_STARTING = threading.Lock()  # one viewer starts at a time: viser's door is exchanged meanwhile


@dataclass(frozen=True)
class Gate:
    """The rules of one viewer: the names it answers to, and the token."""

    hosts: frozenset[str]  # "127.0.0.1:8123", as in the header Host
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    def refusal(self, path: str, headers: Mapping[str, str], *, websocket: bool) -> str | None:
        """Why a request is turned away; None where it may pass."""
        if headers.get("Host", "") not in self.hosts:
            return f"This viewer answers to {', '.join(sorted(self.hosts))} only."
        given = path.split("?")[0].split("/")
        if len(given) < 2 or not hmac.compare_digest(given[1].encode(), self.token.encode()):
            return "The address lacks the right token. Open the one that `twinproof view` printed."
        origin = headers.get("Origin")
        if (origin is not None or websocket) and origin not in {f"http://{host}" for host in self.hosts}:
            return "A page of another origin may not look at this viewer."
        return None

    def below(self, path: str) -> str:
        """The path without its token."""
        return path[len(self.token) + 1 :] or "/"


def listen(host: str = LOOPBACK, port: int = 0) -> socket.socket:
    """A socket bound to one address; port 0 takes any that is free."""
    if host in ("", "0.0.0.0", "::", "*"):
        raise ConfigError(
            f"the viewer cannot be bound to {host or 'nothing'!r}: it has to know the address that browsers use. Name "
            "one address of this machine."
        )
    found = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
    except OSError as problem:
        found.close()
        raise ConfigError(
            f"the viewer cannot be bound to {host}:{port} ({problem.strerror or problem}). Name another address or "
            "port; port 0 is any that is free."
        ) from None
    return found


def gate_of(bound: socket.socket, host: str = LOOPBACK) -> Gate:
    """The gate of a bound socket."""
    port = bound.getsockname()[1]
    names = {host, "localhost"} if host == LOOPBACK else {host}
    return Gate(frozenset(f"[{name}]:{port}" if ":" in name else f"{name}:{port}" for name in names))


def guarded(gate: Gate, bound: socket.socket, title: str) -> ViserServer:
    """viser behind a gate, on a bound socket and no other. It stops with an error where viser cannot be guarded."""
    try:
        import viser
        import websockets.asyncio.server as door
    except ImportError:
        raise MissingExtra("the viewer is made with viser. Run: pip install 'twinproof[view]'.") from None
    with _STARTING:
        first, opened = door.serve, list[bool]()

        def serve(handler: Any, host: str, port: int, *, process_request: Any, **options: Any) -> Any:
            opened.append(True)
            return first(handler, sock=bound, process_request=_checked(gate, process_request), **options)

        door.serve = serve
        try:
            with _quiet():  # viser would print an address without the token
                server = viser.ViserServer(host=LOOPBACK, port=0, label=title, verbose=False)
        finally:
            door.serve = first
    if not opened:
        stop(server)
        raise MissingExtra(
            f"viser {viser.__version__} opens its port in a way that cannot be guarded. Run: pip install "
            "'twinproof[view]'."
        )
    _no_sharing(server)
    return server


def stop(server: ViserServer) -> None:
    """Ends a viewer."""
    with _quiet():
        server.stop()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    import rich

    screen = rich.get_console()
    before, screen.quiet = screen.quiet, True
    try:
        yield
    finally:
        screen.quiet = before


def _no_sharing(server: ViserServer) -> None:
    """A click in viser's page could open a public tunnel to the scene; nobody listens to that click."""
    from viser import _messages

    for message in (_messages.ShareUrlRequest, _messages.ShareUrlDisconnect):
        server._websock_server.unregister_handler(message)


def _checked(gate: Gate, inner: Any) -> Any:
    from websockets import Headers
    from websockets.http11 import Response

    def check(connection: Any, request: Any) -> Response | None:
        websocket = request.headers.get("Upgrade", "").lower() == "websocket"
        once = {name: request.headers.get_all(name) for name in ("Host", "Origin")}
        single = {name: values[0] for name, values in once.items() if len(values) == 1}
        doubled = any(len(values) > 1 for values in once.values())
        why = "A header stands twice." if doubled else gate.refusal(request.path, single, websocket=websocket)
        if why is not None:
            body = (why + "\n").encode()
            plain = {"Content-Type": "text/plain; charset=utf-8", "Content-Length": str(len(body)), **HEADERS}
            return Response(403, "Forbidden", Headers(**plain), body)
        answer: Response | None = inner(connection, replace(request, path=gate.below(request.path)))
        if answer is not None:
            answer.headers.update(HEADERS)
        return answer

    return check
