"""Downloads one file: resumable, bounded, and verified before it has its name.

Owns what may go wrong between here and a hub. The bytes go into `<target>.part`;
only when their number and SHA-256 are right is that file renamed, so a file
with the final name is the right one. A broken connection leaves the part, and
the next call asks for the rest (`Range`, with `If-Range` where the server gave a
strong ETag). Whatever the server says, nothing larger than the expected size is
written, and a part whose checksum is wrong is removed.

Never called from a hook or a worker: the only caller is `git mem model fetch`.
HTTPS only, also after a redirect; plain HTTP is accepted for the machine's own
loopback addresses, which is how the tests ask. No cookie, no credential and
nothing about the repository is sent.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import shutil
import socket
import ssl
import string
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any

from ..core import record
from ..core.errors import MemError

_CHUNK = 1 << 20
_REDIRECTS = 5
TIMEOUT = 30.0  # seconds without a byte
MOST = 64 << 30  # where no size is known
_SPARE = 64 << 20  # left free on the disk
_LOOPBACK = ("localhost", "127.0.0.1", "::1")

Progress = Callable[[int, int], None]  # (bytes so far, bytes in all, 0 where unknown)


class Broken(MemError):
    """The transfer ended early; what arrived is kept for the next call."""


class Untrue(MemError):
    """What arrived is not what was announced or asked for; it was removed."""


def download(
    url: str,
    target: str,
    *,
    size: int = 0,
    sha256: str = "",
    progress: Progress = lambda done, total: None,
    timeout: float = TIMEOUT,
) -> str:
    """Fetches `url` to `target`; returns the SHA-256 of the file.

    `size` 0 and `sha256` "" mean unknown: the caller then has to show the answer
    to the user. Raises Broken (call again: it goes on), Untrue, or MemError for
    what a repeat cannot mend. `target` is untouched by any failure.
    """
    url = address(url)
    part, note = target + ".part", target + ".part.json"
    have, etag = _begun(part, note, url, size)
    if size and have == size:
        return _finish(part, note, target, size, sha256)
    _room(target, (size or 0) - have)
    for _ in range(3):
        try:
            with _open(url, have, etag, timeout) as answer:
                have, total, etag = _fits(answer, have, size)
                _remember(note, url, etag)
                _receive(answer, part, have, total, size, progress)
            return _finish(part, note, target, size or total, sha256)
        except urllib.error.HTTPError as e:
            e.close()
            if e.code == 416 and have:  # the part is longer than the file, or of another one
                have, etag = 0, ""
                _drop(part, note)
                continue
            raise _refused(url, e) from None
        except _Restart:
            have, etag = 0, ""
            _drop(part, note)
        except (
            urllib.error.URLError,
            http.client.HTTPException,
            ssl.SSLError,
            TimeoutError,
            ConnectionError,
        ) as e:
            raise Broken(
                f"the download of '{url}' broke off: {_words(e)}",
                hint="the same command goes on where it ended",
            ) from None
        except OSError as e:
            raise MemError(f"cannot write '{part}': {e.strerror or e}") from None
        except ValueError:
            raise Untrue(f"the server of '{url}' redirects to what is no address") from None
    raise Untrue(f"the server of '{url}' sends no usable part of the file", hint="try again later")


class _Restart(Exception):
    """The part cannot be continued: begin anew."""


# --- what is there already ----------------------------------------------------


def _begun(part: str, note: str, url: str, size: int) -> tuple[int, str]:
    """(bytes that are here of this file, its ETag); a part of something else is removed."""
    try:
        have = os.path.getsize(part)
        with open(note, encoding="utf-8") as f:
            told = json.load(f)
        if (
            told.get("url") == url
            and (not size or have <= size)
            and isinstance(told.get("etag"), str)
        ):
            return have, told["etag"]
    except (OSError, ValueError, AttributeError):
        pass
    _drop(part, note)
    return 0, ""


def _remember(note: str, url: str, etag: str) -> None:
    with open(note, "w", encoding="utf-8") as f:
        json.dump({"url": url, "etag": etag}, f)


def _drop(*paths: str) -> None:
    for path in paths:
        try:
            os.unlink(path)
        except OSError:
            pass


def _room(target: str, needed: int) -> None:
    try:
        os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
        free = shutil.disk_usage(os.path.dirname(target)).free
    except OSError as e:
        raise MemError(
            f"cannot write to '{os.path.dirname(target)}': {e.strerror}",
            hint="GIT_MEM_MODEL_DIR names another directory",
        ) from None
    if needed + _SPARE > free:
        raise MemError(
            f"not enough room in '{os.path.dirname(target)}': {needed / 1e6:.0f} MB are needed,"
            f" {free / 1e6:.0f} MB are free",
            hint="GIT_MEM_MODEL_DIR names another directory",
        )


# --- the server ---------------------------------------------------------------


def allowed(url: str) -> bool:
    """HTTPS with a host, or plain HTTP to this very machine."""
    try:
        parts = urllib.parse.urlsplit(url)
        host = parts.hostname or ""
        parts.port  # noqa: B018  (raises for what is none)
    except ValueError:
        return False
    return (
        bool(host)
        and host.isascii()
        and (parts.scheme == "https" or (parts.scheme == "http" and host in _LOOPBACK))
    )


def address(url: str) -> str:
    """The address as a server is asked for it, letters of other alphabets in its path as `%C3%BC`.

    Raises MemError for what is none, or not HTTPS.
    """
    if not allowed(url):
        raise MemError(
            f"cannot fetch '{url}': not HTTPS, or no address",
            hint="an address is `https://`, a host in ASCII, and a path",
        )
    try:
        return urllib.parse.quote(url, safe=string.punctuation)
    except UnicodeEncodeError:
        raise MemError(f"cannot fetch '{record.clean(url)}': no address") from None


class _Redirects(urllib.request.HTTPRedirectHandler):
    """A few redirects, each to what is allowed, and none from HTTPS to less."""

    max_redirections = _REDIRECTS
    max_repeats = 2

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if (
            not allowed(newurl)
            or urllib.parse.urlsplit(newurl).scheme != urllib.parse.urlsplit(req.full_url).scheme
        ):
            raise Untrue(f"'{req.full_url}' redirects to '{newurl}', which is not HTTPS")
        new = super().redirect_request(req, fp, code, msg, headers, newurl)
        if new is not None:
            for name in ("Range", "If-Range"):
                if req.get_header(name.capitalize()):
                    new.add_header(name, str(req.get_header(name.capitalize())))
        return new


def _open(url: str, have: int, etag: str, timeout: float) -> http.client.HTTPResponse:
    request = urllib.request.Request(
        url, headers={"User-Agent": "git-mem", "Accept-Encoding": "identity"}
    )
    if have:
        request.add_header("Range", f"bytes={have}-")
        if etag:
            request.add_header("If-Range", etag)
    opener = urllib.request.build_opener(_Redirects())
    answer: http.client.HTTPResponse = opener.open(request, timeout=timeout)
    return answer


def _fits(answer: http.client.HTTPResponse, have: int, size: int) -> tuple[int, int, str]:
    """(where the answer begins, bytes of the whole file or 0, its strong ETag).

    Raises Untrue where it cannot be the file.
    """
    etag = answer.headers.get("ETag", "")
    etag = etag if etag.startswith('"') else ""
    length = _number(answer.headers.get("Content-Length"))
    if answer.status == 206:
        start, total = _range(answer.headers.get("Content-Range", ""))
        if start != have:
            raise _Restart
    elif answer.status == 200:
        start, total = 0, length or 0  # the whole file, asked for or not
    else:
        raise Untrue(f"the server answers with status {answer.status}")
    if answer.headers.get("Content-Encoding", "identity") != "identity":
        raise Untrue("the server compresses the file, so its bytes cannot be counted")
    if size and total and total != size:
        raise Untrue(
            f"the server has a file of {total} bytes, not of {size}", hint="nothing was kept"
        )
    if not size and total > MOST:
        raise Untrue(f"the server has a file of {total} bytes, which no model has")
    return start, total, etag


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 20 else None


def _range(text: str) -> tuple[int, int]:
    """`bytes 5-9/10` as (5, 10); (-1, 0) for anything else."""
    unit, _, rest = text.partition(" ")
    span, _, total = rest.partition("/")
    start = _number(span.partition("-")[0])
    return (start, _number(total) or 0) if unit == "bytes" and start is not None else (-1, 0)


def _receive(
    answer: http.client.HTTPResponse,
    part: str,
    have: int,
    total: int,
    size: int,
    progress: Progress,
) -> None:
    """Appends what comes to the part; never more than the expected size."""
    most = size or total or MOST
    with open(part, "r+b" if have else "wb") as f:
        f.seek(have)
        f.truncate()
        progress(have, size or total)
        while have < most + 1:
            chunk = answer.read(min(_CHUNK, most + 1 - have))
            if not chunk:
                break
            have += len(chunk)
            if have > most:
                break
            f.write(chunk)
            progress(have, size or total)
    if have > most:
        _drop(part, part + ".json")
        raise Untrue(
            f"the server sends more than the {most} bytes of the file", hint="nothing was kept"
        )
    if (size or total) and have < (size or total):
        raise ConnectionError(f"{have} of {size or total} bytes arrived")


# --- the end ------------------------------------------------------------------


def _finish(part: str, note: str, target: str, size: int, sha256: str) -> str:
    found = digest(part)
    if (size and os.path.getsize(part) != size) or (sha256 and found != sha256):
        _drop(part, note)
        raise Untrue(
            (
                f"the file has the SHA-256 {found}, not {sha256}"
                if sha256 and found != sha256
                else f"the file has not {size} bytes"
            ),
            hint="it was removed; the server, or somebody between, sent another file",
        )
    descriptor = os.open(part, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(part, target)
    _drop(note)
    return found


def digest(path: str, advance: Callable[[int], None] = lambda n: None) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    total = hashlib.sha256()
    with open(path, "rb") as f:
        while chunk := f.read(_CHUNK):
            total.update(chunk)
            advance(len(chunk))
    return total.hexdigest()


def _refused(url: str, e: urllib.error.HTTPError) -> MemError:
    if e.code in (301, 302, 303, 307, 308):
        return Untrue(f"'{url}' redirects too often")
    if e.code in (500, 502, 503, 504, 429):
        return Broken(
            f"the server of '{url}' is busy: status {e.code}",
            hint="try again later; what arrived is kept",
        )
    return MemError(
        f"the server refuses '{url}': status {e.code}",
        hint="the file may have moved; `git mem model add` takes one you have",
    )


def _words(e: Exception) -> str:
    reason = getattr(e, "reason", e)
    if isinstance(reason, (socket.timeout, TimeoutError)):
        return "nothing came for a while"
    return str(reason) or type(e).__name__
