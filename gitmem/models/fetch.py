"""Downloads one file whose checksum is known, for `git mem model fetch` alone.

The bytes go into `<target>.part`, which is renamed only when its SHA-256 is right. A broken
connection leaves the part, and the next call asks for the rest. No more than the known or announced
size is written, and a part with a wrong checksum is removed.

HTTPS only, also after a redirect; plain HTTP for the machine's own loopback addresses, as in the
tests. Sends no cookie, no credential and nothing about the repository.
"""

import hashlib
import os
import shutil
import ssl
import string
from collections.abc import Callable
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from ..core import record
from ..core.errors import MemError

_CHUNK = 1 << 20
_MOST = 64 << 30  # bytes of a file, where neither the caller nor the server says
_SPARE = 64 << 20  # left free on the disk
ELSEWHERE = "GIT_MEM_MODEL_DIR names another directory"
_AGAIN = "the same command goes on where it ended"
_BROKEN = (URLError, HTTPException, ssl.SSLError, ConnectionError, TimeoutError, ValueError)

Progress = Callable[[int, int], None]  # (bytes so far, bytes in all, 0 where unknown)


def download(
    url: str,
    target: str,
    sha256: str,
    *,
    size: int = 0,
    progress: Progress = lambda done, total: None,
    timeout: float = 30.0,
) -> None:
    """Fetches `url` to `target`; `size` 0 means unknown, `timeout` is of seconds without a byte.

    Raises MemError; `target` is untouched by any failure.
    """
    url = address(url)
    part = target + ".part"
    try:
        os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
        have = os.path.getsize(part) if os.path.exists(part) else 0
        if not size or have < size:
            _receive(url, part, have, size, progress, timeout)
        found = digest(part)
        if found != sha256:
            raise _untrue(part, f"the file has the SHA-256 {found}, not {sha256}")
        with open(part, "rb") as f:
            os.fsync(f.fileno())
        os.replace(part, target)
    except HTTPError as e:
        e.close()
        hint = "the file may have moved; `git mem model add` takes one you have"
        if e.code in (429, 500, 502, 503, 504):
            hint = f"try again later; {_AGAIN}"
        raise MemError(f"the server refuses '{url}': status {e.code}", hint=hint) from None
    except _BROKEN as e:
        why = str(getattr(e, "reason", e)) or type(e).__name__
        raise MemError(f"the download of '{url}' broke off: {why}", hint=_AGAIN) from None
    except OSError as e:
        raise MemError(f"cannot write '{part}': {e.strerror or e}", hint=ELSEWHERE) from None


def _receive(url: str, part: str, have: int, size: int, progress: Progress, timeout: float) -> None:
    """Appends the rest of the file to the part, or writes it anew where the server sends all."""
    headers = {"User-Agent": "git-mem", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    try:
        answer = build_opener(_Redirects()).open(Request(url, headers=headers), timeout=timeout)
    except HTTPError as e:
        if e.code == 416 and have:  # the part is as long as the file, or longer
            e.close()
            return
        raise
    with answer:
        if answer.status != 206:
            have = 0
        elif not answer.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            raise _untrue(part, "the server sends another part of the file than the rest")
        announced = answer.headers.get("Content-Length", "")
        whole = size or (have + int(announced) if announced.isdecimal() else 0)
        free = shutil.disk_usage(os.path.dirname(part)).free
        if whole - have + _SPARE > free:
            sizes = f"{(whole - have) / 1e6:.0f} MB are needed, {free / 1e6:.0f} MB are free"
            raise MemError(f"not enough room for '{part}': {sizes}", hint=ELSEWHERE)
        limit = whole or _MOST
        with open(part, "r+b" if have else "wb") as f:
            f.seek(have)
            f.truncate()
            progress(have, whole)
            while chunk := answer.read(min(_CHUNK, limit + 1 - have)):
                have += len(chunk)
                if have > limit:
                    raise _untrue(part, f"the server sends more than the {limit} bytes of the file")
                f.write(chunk)
                progress(have, whole)
    if have < whole:
        raise ConnectionError(f"{have} of {whole} bytes arrived")


def _untrue(part: str, message: str) -> MemError:
    """The error for a server that sends another file; nothing of it is kept."""
    os.unlink(part)
    return MemError(message, hint="it was removed; the server, or somebody between, sent another")


def digest(path: str) -> str:
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def allowed(url: str) -> bool:
    """Whether a URL is HTTPS with a host, or plain HTTP to this very machine."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port  # raises for an impossible port
    except ValueError:
        return False
    local = parts.scheme == "http" and host in ("localhost", "127.0.0.1", "::1")
    return bool(host) and host.isascii() and (parts.scheme == "https" or local)


def address(url: str) -> str:
    """The URL with other letters than ASCII quoted. Raises MemError where it is not allowed."""
    if not allowed(url):
        raise MemError(
            f"cannot fetch '{record.clean(url)}': not HTTPS, or no address",
            hint="an address is `https://`, a host in ASCII, and a path",
        )
    return quote(url, safe=string.punctuation, errors="replace")


class _Redirects(HTTPRedirectHandler):
    """A few redirects, each to an allowed URL of the same scheme."""

    max_redirections = 5

    def redirect_request(
        self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        if not allowed(newurl) or urlsplit(req.full_url).scheme != urlsplit(newurl).scheme:
            raise MemError(f"'{req.full_url}' redirects to '{newurl}', which is not HTTPS")
        return super().redirect_request(req, fp, code, msg, headers, newurl)
