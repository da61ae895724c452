"""Serves the page of `git mem ui` to the browser of this machine, until it is interrupted.

Promise: it listens on the loopback address only, one request at a time. Whoever does not know the
random token in the path, or names another host (DNS rebinding), gets an empty refusal. Only the
page itself may ask for a change: same origin, JSON, and the token.
"""

from __future__ import annotations

import hmac
import json
import secrets
import selectors
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from ..core.errors import MemError
from .page import Page

HOST = "127.0.0.1"
_PATIENCE = 5  # seconds for the rest of a request
_IDLE = 100  # connections at a time that have sent nothing
_DIGITS = 4  # of the length of a request to change something, in bytes
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

# (id, "accept" or "reject", the memory that stays or "", whether the team's notes may change): what
# became of it
Decide = Callable[[str, str, str, bool], dict[str, Any]]


class Server(HTTPServer):
    """`page` makes the page for each load; `decide` does what its review asks for."""

    request_queue_size = _IDLE  # with five, a browser that opens more waits a second to try again

    def __init__(self, page: Callable[[], Page], decide: Decide) -> None:
        super().__init__((HOST, 0), _Handler)
        self.page, self.decide = page, decide
        self.host = f"{HOST}:{self.server_port}"
        self.path = f"/{secrets.token_urlsafe(24)}/"
        self.url = f"http://{self.host}{self.path}"

    def serve(self) -> None:
        """Answers until KeyboardInterrupt. Browsers open connections in advance and send nothing:
        a connection has its turn when there is something to read.
        """
        with selectors.DefaultSelector() as waiting:
            waiting.register(self, selectors.EVENT_READ)
            while True:
                # New connections last: to accept one may close another.
                for key, _ in sorted(waiting.select(), key=lambda ready: ready[0].fileobj is self):
                    with suppress(OSError):  # whoever asked went away
                        self._turn(waiting, key)

    def _turn(self, waiting: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
        if key.fileobj is self:
            connection, address = self.get_request()
            held = [k.fileobj for k in waiting.get_map().values() if k.fileobj is not self]
            for idle in held[: max(len(held) - _IDLE, 0)]:  # the oldest; else files run out
                waiting.unregister(idle)
                self.shutdown_request(idle)  # type: ignore[arg-type]
            waiting.register(connection, selectors.EVENT_READ, address)
            return
        waiting.unregister(key.fileobj)
        try:
            self.finish_request(key.fileobj, key.data)  # type: ignore[arg-type]
        finally:
            self.shutdown_request(key.fileobj)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = _PATIENCE
    server_version, sys_version = "git-mem", ""

    def do_GET(self) -> None:
        if not self._allowed(""):
            return
        try:
            page = self.server.page()
        except MemError as e:  # the next load may find what is missing
            said = e.message.encode(errors="replace")  # it may name a file whose name is not UTF-8
            return self._answer(503, "text/plain; charset=utf-8", said)
        policy = f"{page.policy}; frame-ancestors 'none'"
        self._answer(200, "text/html; charset=utf-8", page.html.encode(), policy)

    def do_POST(self) -> None:
        if not self._allowed("review"):
            return
        told = self.headers.get("Content-Type"), self.headers.get("Origin")
        length = self.headers.get("Content-Length", "")
        if told != ("application/json", f"http://{self.server.host}"):
            self._answer(403)
        elif not length.isdecimal() or len(length) > _DIGITS:
            self._answer(400)
        else:
            self._decide(self.rfile.read(int(length)))

    def _decide(self, body: bytes) -> None:
        try:
            asked = json.loads(body)
            id, verb, keep = str(asked["id"]), asked["verb"], asked.get("keep", "")
        except (ValueError, KeyError, TypeError, RecursionError):
            verb = keep = ""
        if verb in ("accept", "reject") and isinstance(keep, str):
            done = self.server.decide(id, verb, keep, asked.get("team") is True)
            answer = json.dumps(done).encode()
            self._answer(200, "application/json", answer)
        else:
            self._answer(400)

    def _allowed(self, name: str) -> bool:
        """Whether the request is for this host and has the token; else it is refused."""
        right = hmac.compare_digest(self.path.encode(), f"{self.server.path}{name}".encode())
        if self.headers.get("Host") != self.server.host or not right:
            self._answer(404)
            return False
        return True

    def _answer(
        self, status: int, kind: str = "text/plain", body: bytes = b"", policy: str = ""
    ) -> None:
        self.send_response(status)
        said = {"Content-Type": kind, "Content-Length": str(len(body)), **_HEADERS}
        said["Content-Security-Policy"] = policy or "default-src 'none'; frame-ancestors 'none'"
        for name, value in said.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Writes nothing: the token stands in each line."""
