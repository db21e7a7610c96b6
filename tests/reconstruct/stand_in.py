"""Tiny servers that speak our HTTP interfaces, for tests: what they answer is a function of the question."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Answer = Callable[[str, dict[str, Any]], "dict[str, Any] | bytes | int"]


@contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """The address of a server on this machine. A number is an HTTP status, bytes go out as they are."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            reply = answer(self.path, question)
            data = (
                reply
                if isinstance(reply, bytes)
                else b"why not"
                if isinstance(reply, int)
                else json.dumps(reply).encode()
            )
            self.send_response(reply if isinstance(reply, int) else 200)
            if isinstance(reply, int) and 300 <= reply < 400:
                self.send_header("Location", "http://192.0.2.1/elsewhere")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Tests are quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
