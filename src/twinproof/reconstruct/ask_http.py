"""One question to a model that runs behind HTTP: JSON there, JSON back, on this machine unless told otherwise."""

from __future__ import annotations

import ipaddress
import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException, HTTPMessage
from typing import IO, Any
from urllib.parse import urlsplit

from twinproof.nouns.errors import ConfigError, RecordingError
from twinproof.nouns.hashing import Json


@dataclass(frozen=True)
class Server:
    """Where a model answers. Pictures of a lab leave this machine only where `elsewhere` says so.

    Redirects and proxies are not followed: either would lead pictures to places that nobody named.
    """

    url: str
    elsewhere: bool = False
    timeout_s: float = 120.0
    most_bytes: int = 256 << 20

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"{self.url!r} is no address of a server. Write it like http://127.0.0.1:8765.")
        if not self.elsewhere and not _is_here(parts.hostname):
            raise ConfigError(
                f"{self.url} is not on this machine, and pictures would leave it. Forward the port to 127.0.0.1, or "
                "construct it with elsewhere=True if the pictures may go there."
            )

    def ask(self, path: str, question: dict[str, Json]) -> dict[str, Any]:
        """The JSON object that a POST of `question` to url/path gives back."""
        address = f"{self.url.rstrip('/')}/{path}"
        body = json.dumps(question, allow_nan=False).encode()
        request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _Stay())
        try:
            with opener.open(request, timeout=self.timeout_s) as reply:
                data = reply.read(self.most_bytes + 1)
        except urllib.error.HTTPError as problem:
            said = problem.read(400).decode(errors="replace").strip()
            raise RecordingError(
                f"{address} answered {problem.code} ({problem.reason}): {said or 'no words'}. Read the server's log."
            ) from None
        except (urllib.error.URLError, HTTPException, OSError) as problem:
            raise RecordingError(
                f"{address} does not answer ({getattr(problem, 'reason', problem)}). Start the server, or correct the "
                "address."
            ) from None
        if len(data) > self.most_bytes:
            raise RecordingError(
                f"{address} answers with more than {self.most_bytes >> 20} MB. That is no answer of this kind."
            )
        try:
            answer = json.loads(data)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise RecordingError(
                f"{address} answers with something that is no JSON object. Compare it with our documents."
            )
        return answer


def _is_here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        """None: the redirect is an error with its code."""
        return
