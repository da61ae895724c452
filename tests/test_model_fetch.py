"""Downloading a model: whatever a server does, the file is the right one, whole, or not there."""

from __future__ import annotations

import hashlib
import http.server
import os
import pathlib
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gitmem.core.errors import MemError
from gitmem.models import fetch

DATA = b"GGUF" + random.Random(5).randbytes(3_000_000)
SUM = hashlib.sha256(DATA).hexdigest()


class Server:
    """A hub on loopback; `behave` answers each request, `seen` holds (path, Range, If-Range)."""

    def __init__(self) -> None:
        outer = self
        self.seen: list[tuple[str, str, str]] = []
        self.behave: Callable[[Any], None] = whole
        self.let_go = threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.seen.append(
                    (self.path, self.headers.get("Range", ""), self.headers.get("If-Range", ""))
                )
                self.close_connection = True
                self.outer = outer
                try:
                    outer.behave(self)
                except (BrokenPipeError, ConnectionResetError):
                    pass

            def log_message(self, *args: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self.let_go.set()
        self.server.shutdown()
        self.server.server_close()


def send(h: Any, status: int, body: bytes, length: int | None = None, **headers: str) -> None:
    h.send_response(status)
    for name, value in headers.items():
        h.send_header(name.replace("_", "-"), value)
    if length is None or length >= 0:
        h.send_header("Content-Length", str(len(body) if length is None else length))
    h.send_header("Connection", "close")
    h.end_headers()
    h.wfile.write(body)
    h.wfile.flush()


def whole(h: Any) -> None:
    """An honest server that knows ranges."""
    asked = h.headers.get("Range", "")
    tag = h.headers.get("If-Range", "")
    if asked and tag in ("", '"one"'):
        start = int(asked.removeprefix("bytes=").rstrip("-"))
        if start >= len(DATA):
            send(h, 416, b"", Content_Range=f"bytes */{len(DATA)}")
            return
        send(
            h,
            206,
            DATA[start:],
            Content_Range=f"bytes {start}-{len(DATA) - 1}/{len(DATA)}",
            ETag='"one"',
        )
        return
    send(h, 200, DATA, ETag='"one"')


@pytest.fixture
def hub() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def target(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "models" / "m.gguf"


def get(hub: Server, target: pathlib.Path, path: str = "/m.gguf", **kw: Any) -> None:
    fetch.download(hub.url + path, str(target), SUM, **{"size": len(DATA), "timeout": 20.0, **kw})


def half(h: Any) -> None:
    send(h, 200, DATA[:1_500_000], length=len(DATA), ETag='"one"')


def nothing_left(target: pathlib.Path) -> bool:
    return not target.parent.exists() or not os.listdir(target.parent)


def test_a_download_is_verified_and_reports_its_progress(hub: Server, target: pathlib.Path) -> None:
    told: list[tuple[int, int]] = []
    get(hub, target, progress=lambda done, total: told.append((done, total)))
    assert target.read_bytes() == DATA
    assert told[0] == (0, len(DATA)) and told[-1] == (len(DATA), len(DATA)) and told == sorted(told)
    assert os.listdir(target.parent) == ["m.gguf"]


def test_a_broken_download_goes_on_where_it_ended(hub: Server, target: pathlib.Path) -> None:
    hub.behave = half
    with pytest.raises(MemError, match="1500000 of 3000004"):
        get(hub, target)
    assert not target.exists()
    hub.behave = whole
    get(hub, target)
    assert target.read_bytes() == DATA
    assert hub.seen[-1][1:] == ("bytes=1500000-", "")


def test_a_part_of_another_file_is_removed_and_the_next_call_begins_anew(
    hub: Server, target: pathlib.Path
) -> None:
    hub.behave = lambda h: send(h, 200, bytes(1_000_000), length=len(DATA))
    with pytest.raises(MemError):
        get(hub, target)
    hub.behave = whole
    with pytest.raises(MemError):
        get(hub, target)
    assert nothing_left(target)
    get(hub, target)
    assert target.read_bytes() == DATA


def test_a_whole_answer_to_a_range_request_is_taken_from_the_start(
    hub: Server, target: pathlib.Path
) -> None:
    hub.behave = half
    with pytest.raises(MemError):
        get(hub, target)
    hub.behave = lambda h: send(h, 200, DATA)
    get(hub, target)
    assert target.read_bytes() == DATA


def test_a_part_that_does_not_begin_where_asked_is_not_used(
    hub: Server, target: pathlib.Path
) -> None:
    hub.behave = half
    with pytest.raises(MemError):
        get(hub, target)
    hub.behave = lambda h: send(
        h, 206, DATA[7:], Content_Range=f"bytes 7-{len(DATA) - 1}/{len(DATA)}"
    )
    with pytest.raises(MemError, match="another part"):
        get(hub, target)
    hub.behave = whole
    get(hub, target)
    assert target.read_bytes() == DATA


@pytest.mark.parametrize("size", [len(DATA), 0])
@pytest.mark.parametrize("part", [DATA, bytes(len(DATA))])
def test_a_whole_part_is_judged_by_its_checksum(
    hub: Server, target: pathlib.Path, size: int, part: bytes
) -> None:
    target.parent.mkdir()
    pathlib.Path(f"{target}.part").write_bytes(part)  # with no known size the server says 416
    if part == DATA:
        get(hub, target, size=size)
        assert target.read_bytes() == DATA and len(hub.seen) == (size == 0)
    else:
        with pytest.raises(MemError):
            get(hub, target, size=size)
        assert nothing_left(target)


@pytest.mark.parametrize("size", [len(DATA), 0])
def test_another_file_of_the_same_size_is_removed(
    hub: Server, target: pathlib.Path, size: int
) -> None:
    hub.behave = lambda h: send(h, 200, DATA[:-1] + b"\0")
    with pytest.raises(MemError, match="not " + SUM):
        get(hub, target, size=size)
    assert nothing_left(target)


def test_more_bytes_than_the_file_has_are_never_written(hub: Server, target: pathlib.Path) -> None:
    def endless(h: Any) -> None:
        h.send_response(200)
        h.send_header("Connection", "close")
        h.end_headers()
        for _ in range(64):
            h.wfile.write(bytes(1 << 20))

    hub.behave = endless
    with pytest.raises(MemError, match="more than the 3000004 bytes"):
        get(hub, target)
    assert nothing_left(target)


def test_without_a_known_size_the_announced_one_is_the_bound(
    hub: Server, target: pathlib.Path
) -> None:
    get(hub, target, size=0)
    hub.behave = half
    os.unlink(target)
    with pytest.raises(MemError):
        get(hub, target, size=0)
    hub.behave = lambda h: send(h, 200, b"", length=1 << 50)
    with pytest.raises(MemError, match="not enough room"):
        get(hub, target, "/huge", size=0)


def test_a_silent_server_is_given_up_and_the_part_is_kept(
    hub: Server, target: pathlib.Path
) -> None:
    def stalls(h: Any) -> None:
        send(h, 200, DATA[:1_000_000], length=len(DATA))
        h.outer.let_go.wait(60)

    hub.behave = stalls
    with pytest.raises(MemError, match="timed out"):
        get(hub, target, timeout=0.5)
    hub.let_go.set()
    hub.behave = whole
    get(hub, target)


def test_a_redirect_keeps_the_range(hub: Server, target: pathlib.Path) -> None:
    def moved(h: Any) -> None:
        if h.path == "/m.gguf":
            send(h, 302, b"", Location="/elsewhere")
        else:
            whole(h)

    hub.behave = half
    with pytest.raises(MemError):
        get(hub, target)
    hub.behave = moved
    get(hub, target)
    assert hub.seen[-1] == ("/elsewhere", "bytes=1500000-", "")


@pytest.mark.parametrize(
    "to",
    [
        "http://example.org/m.gguf",
        "ftp://127.0.0.1/m.gguf",
        "file:///etc/passwd",
        "https://example.org/m.gguf",
        "//example.org/m.gguf",
        "http://[",
        "https://[x/m",
        "http://127.0.0.1:99999/m",
        "http://\u00fc/m",
    ],
)
def test_a_redirect_to_another_scheme_or_host_without_https_is_refused(
    hub: Server, target: pathlib.Path, to: str
) -> None:
    hub.behave = lambda h: send(h, 302, b"", Location=to)
    with pytest.raises(MemError):
        get(hub, target)
    assert nothing_left(target)


def test_redirects_in_a_circle_end(hub: Server, target: pathlib.Path) -> None:
    hub.behave = lambda h: send(h, 302, b"", Location=f"/{len(hub.seen)}")
    with pytest.raises(MemError, match="status 302"):
        get(hub, target)
    assert len(hub.seen) < 10


@pytest.mark.parametrize(
    ("status", "hint"),
    [(404, "may have moved"), (403, "may have moved"), (500, "later"), (503, "later")],
)
def test_a_refusal_is_told_in_one_line(
    hub: Server, target: pathlib.Path, status: int, hint: str
) -> None:
    hub.behave = lambda h: send(h, status, b"")
    with pytest.raises(MemError, match=str(status)) as e:
        get(hub, target)
    assert "\n" not in e.value.message and hint in e.value.hint


def test_a_server_that_talks_nonsense_or_hangs_up_is_told(
    hub: Server, target: pathlib.Path
) -> None:
    hub.behave = lambda h: h.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n")
    with pytest.raises(MemError):
        get(hub, target)
    hub.behave = lambda h: None
    with pytest.raises(MemError):
        get(hub, target)


def test_nobody_there_is_told(target: pathlib.Path) -> None:
    with pytest.raises(MemError, match="refused"):
        fetch.download("http://127.0.0.1:9/m", str(target), SUM, size=5)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/m.gguf",
        "http://10.0.0.1/m",
        "http://127.0.0.1.example.org/m",
        "ftp://example.org/m",
        "file:///etc/passwd",
        "https://",
        "m.gguf",
    ],
)
def test_only_https_is_fetched(target: pathlib.Path, url: str) -> None:
    assert not fetch.allowed(url)
    with pytest.raises(MemError, match="not HTTPS"):
        fetch.download(url, str(target), SUM)


def test_a_full_disk_is_told_before_anything_is_written(hub: Server, target: pathlib.Path) -> None:
    with pytest.raises(MemError, match="not enough room"):
        get(hub, target, size=1 << 60)
    assert nothing_left(target)


def test_a_target_that_cannot_be_written_is_told(hub: Server, tmp_path: pathlib.Path) -> None:
    (tmp_path / "models").write_text("a file")
    with pytest.raises(MemError, match="cannot write"):
        get(hub, tmp_path / "models" / "m.gguf")


def test_the_present_file_survives_a_failed_download(hub: Server, target: pathlib.Path) -> None:
    target.parent.mkdir()
    target.write_bytes(b"GGUF before")
    hub.behave = lambda h: send(h, 200, DATA[:-1] + b"\0")
    with pytest.raises(MemError):
        get(hub, target)
    assert target.read_bytes() == b"GGUF before"
