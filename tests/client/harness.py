"""The real Claude Code client against a scripted model on loopback, in a HOME of its own.

`tools/fetch_clients.sh` fetches the clients; without one the tests are skipped, visibly.
A run takes about half a second. Nothing of the caller's environment reaches the client.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

VERSIONS = ("2.1.330", "2.1.197")
CACHE = pathlib.Path(
    os.environ.get("GIT_MEM_TEST_CACHE")
    or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "git-mem-test"
)


def binary(version: str) -> pathlib.Path | None:
    path = CACHE / f"claude-{version}" / "claude"
    return path if os.access(path, os.X_OK) else None


class Model:
    """The Messages API, scripted.

    A request that offers tools takes the first reply not yet used whose `match` occurs in it, any
    other (titles, compaction) the first of `background` that matches; "ok" where none is left.
    A reply is {"text"} or {"tool", "input"}, with `match`, `input_tokens`, `delay` as wanted.
    """

    paths: tuple[str, ...] = ("/messages",)  # ends of those that it answers

    def __init__(self) -> None:
        self.replies: list[dict[str, Any]] = []
        self.background: list[dict[str, Any]] = []
        self.requests: list[dict[str, Any]] = []  # bodies that offered tools, in their order
        self.others: list[dict[str, Any]] = []  # those that offered none
        self.lock = threading.Lock()
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: object) -> None:
                pass

            def any(self) -> None:
                raw = self.rfile.read(int(self.headers.get("content-length") or 0))
                try:
                    body = json.loads(raw)
                except ValueError:
                    body = {}
                path = self.path.partition("?")[0]
                if path.endswith("/count_tokens"):
                    self.send(
                        "application/json",
                        json.dumps({"input_tokens": max(1, len(raw) // 4)}).encode(),
                    )
                elif path.endswith(model.paths) and self.command == "POST":
                    kind, data = model.answer(body)
                    self.send(kind, data)
                else:
                    self.send(
                        "application/json",
                        b'{"type":"error","error":{"type":"not_found_error","message":"no such'
                        b' path"}}',
                        404,
                    )

            do_GET = do_POST = do_HEAD = any

            def send(self, kind: str, data: bytes, status: int = 200) -> None:
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def chosen(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """(number of the request, the reply that it gets)."""
        text = json.dumps(body, ensure_ascii=False)
        with self.lock:
            agent = bool(body.get("tools"))
            (self.requests if agent else self.others).append(body)
            number = len(self.requests) + len(self.others)
            script = self.replies if agent else self.background
            at = next((i for i, reply in enumerate(script) if reply.get("match", "") in text), None)
            reply = {"text": "ok"} if at is None else script.pop(at) if agent else script[at]
        time.sleep(reply.get("delay", 0))
        return number, reply

    def answer(self, body: dict[str, Any]) -> tuple[str, bytes]:
        """(content type, body) of the response to a request."""
        number, reply = self.chosen(body)
        tool = "tool" in reply
        block = (
            {
                "type": "tool_use",
                "id": f"toolu_{number:06d}",
                "name": reply["tool"],
                "input": reply["input"],
            }
            if tool
            else {"type": "text", "text": reply["text"]}
        )
        message = {
            "id": f"msg_{number:06d}",
            "type": "message",
            "role": "assistant",
            "model": body.get("model", "m"),
            "content": [block],
            "stop_reason": "tool_use" if tool else "end_turn",
            "stop_sequence": None,
            "usage": {
                "input_tokens": reply.get("input_tokens", 10),
                "output_tokens": 5,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
            },
        }
        if not body.get("stream"):
            return "application/json", json.dumps(message).encode()
        return (
            "text/event-stream",
            "".join(
                f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
                for event in _stream(message, block)
            ).encode(),
        )

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def _stream(message: dict[str, Any], block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
    tool = block["type"] == "tool_use"
    yield {
        "type": "content_block_start",
        "index": 0,
        "content_block": {**block, **({"input": {}} if tool else {"text": ""})},
    }
    yield {
        "type": "content_block_delta",
        "index": 0,
        "delta": (
            {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            if tool
            else {"type": "text_delta", "text": block["text"]}
        ),
    }
    yield {"type": "content_block_stop", "index": 0}
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": message["stop_reason"], "stop_sequence": None},
        "usage": message["usage"],
    }
    yield {"type": "message_stop"}


def texts(body: dict[str, Any]) -> str:
    """All text of a request.

    Where injected text lands differs by version and model, so all of it is searched.
    """
    out: list[str] = []

    def walk(content: Any) -> None:
        if isinstance(content, str):
            out.append(content)
        elif isinstance(content, list):
            for part in content:
                walk(part)
        elif isinstance(content, dict):
            if isinstance(content.get("text"), str):
                out.append(content["text"])
            walk(content.get("content"))

    walk(body.get("system"))
    walk(body.get("messages"))
    return "\n".join(out)


class Client:
    """One version of the client with a HOME of its own, which keeps sessions between runs."""

    def __init__(self, version: str, root: pathlib.Path) -> None:
        found = binary(version)
        assert found is not None
        self.version = version
        self.program = found
        self.home = root / "home"
        (self.home / ".claude").mkdir(parents=True, exist_ok=True)
        (root / "tmp").mkdir(exist_ok=True)
        self.model = Model()
        # The git-mem under test comes first; `git mem` is found through it.
        self.path = os.pathsep.join([str(self.shim(root)), "/usr/local/bin", "/usr/bin", "/bin"])
        self.env = {
            "PATH": self.path,
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "HOME": str(self.home),
            "TMPDIR": str(root / "tmp"),
            "CLAUDE_CODE_TMPDIR": str(root / "tmp"),
            "ANTHROPIC_BASE_URL": self.model.url,
            "ANTHROPIC_API_KEY": "dummy",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_AUTOUPDATER": "1",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_MEM_PATIENCE": "20",  # beside other tests a prompt takes longer than half a second
            "GIT_TERMINAL_PROMPT": "0",
            "TZ": "UTC",
            "GIT_AUTHOR_NAME": "Ada",
            "GIT_AUTHOR_EMAIL": "ada@example.org",
            "GIT_COMMITTER_NAME": "Ada",
            "GIT_COMMITTER_EMAIL": "ada@example.org",
        }

    @staticmethod
    def shim(root: pathlib.Path) -> pathlib.Path:
        """A directory with a `git-mem` that runs the package under test, wherever it is
        installed."""
        bin_ = root / "bin"
        bin_.mkdir(exist_ok=True)
        shim = bin_ / "git-mem"
        shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -EP -m gitmem "$@"\n')
        shim.chmod(0o755)
        return bin_

    def run(
        self, cwd: pathlib.Path, *argv: str, stdin: str = "", rc: tuple[int, ...] = (0,)
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [str(self.program), *argv],
            cwd=cwd,
            env=self.env,
            input=stdin,
            text=True,
            capture_output=True,
            timeout=120,
            check=False,
        )
        assert done.returncode in rc, (
            f"claude {argv}: rc {done.returncode}: {done.stderr[-800:]}{done.stdout[-800:]}"
        )
        return done

    def prompt(
        self, cwd: pathlib.Path, text: str, *argv: str, replies: list[dict[str, Any]] | None = None
    ) -> dict[str, Any]:
        """One `claude -p`; the result object of the client."""
        self.model.replies = list(replies or [])
        answer: dict[str, Any] = json.loads(
            self.run(cwd, "-p", text, "--output-format", "json", *argv).stdout
        )
        return answer

    def talk(
        self,
        cwd: pathlib.Path,
        *turns: str,
        options: tuple[str, ...] = (),
        replies: list[dict[str, Any]] | None = None,
    ) -> list[dict[str, Any]]:
        """Several turns in one process; each waits for the result of the one before.

        Returns all messages of the client.
        """
        self.model.replies = list(replies or [])
        argv = [
            str(self.program),
            "-p",
            "--input-format",
            "stream-json",
            "--output-format",
            "stream-json",
            "--verbose",
            *options,
        ]
        out: list[dict[str, Any]] = []
        with subprocess.Popen(
            argv,
            cwd=cwd,
            env=self.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            assert process.stdin and process.stdout
            guard = threading.Timer(120, process.kill)
            guard.start()
            try:
                for turn in turns:
                    process.stdin.write(
                        json.dumps({"type": "user", "message": {"role": "user", "content": turn}})
                        + "\n"
                    )
                    process.stdin.flush()
                    for line in process.stdout:
                        out.append(json.loads(line))
                        if out[-1].get("type") == "result":
                            break
                process.stdin.close()
                out.extend(json.loads(line) for line in process.stdout)
                assert process.wait() == 0
            finally:
                guard.cancel()
        return out

    def seen(self, number: int = -1) -> str:
        """All text of one request to the model."""
        return texts(self.model.requests[number])

    def close(self) -> None:
        self.model.close()
