"""Downloads one file whose checksum is known, for `git mem model fetch` alone.

The bytes go into `<target>.part`, which is renamed only when its SHA-256 is right. A broken
connection leaves the part, and the next call asks for the rest. No more than the known or announced
size is written, and a part with a wrong checksum is removed.

HTTPS only, also after a redirect; plain HTTP for the machine's own loopback addresses, as in the
tests. Sends no cookie, no credential and nothing about the repository.
"""

import hashlib
import http.client
import os
import shutil
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
MOST = 64 << 30  # bytes of a file, where neither the caller nor the server says
_SPARE = 64 << 20  # left free on the disk
ELSEWHERE = "GIT_MEM_MODEL_DIR names another directory"
_AGAIN = "the same command goes on where it ended"
_BROKEN = (
    *(urllib.error.URLError, http.client.HTTPException, ssl.SSLError),
    *(ConnectionError, TimeoutError),
)

Progress = Callable[[int, int], None]  # (bytes so far, bytes in all, 0 where unknown)


class Broken(MemError):
    """The transfer ended early; the next call goes on where it ended."""


class Untrue(MemError):
    """The server sends another file than the one asked for; nothing of it was kept."""


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

    Raises Broken, Untrue, or MemError for errors that a repeated call cannot mend. `target`
    is untouched by any failure.
    """
    url = address(url)
    part = target + ".part"
    _check_room(os.path.dirname(target), size)
    try:
        have = os.path.getsize(part) if os.path.exists(part) else 0
        if not size or have < size:
            _receive(url, part, have, size, progress, timeout)
        found = digest(part)
        if found != sha256:
            os.unlink(part)
            raise Untrue(
                f"the file has the SHA-256 {found}, not {sha256}",
                hint="it was removed; the server, or somebody between, sent another file",
            )
        with open(part, "rb") as f:
            os.fsync(f.fileno())
        os.replace(part, target)
    except urllib.error.HTTPError as e:
        e.close()
        raise _refused(url, e.code) from None
    except _BROKEN as e:
        reason = getattr(e, "reason", e)
        silent = isinstance(reason, TimeoutError)
        why = "nothing came for a while" if silent else str(reason) or type(e).__name__
        raise Broken(f"the download of '{url}' broke off: {why}", hint=_AGAIN) from None
    except OSError as e:
        raise MemError(f"cannot write '{part}': {e.strerror or e}") from None
    except ValueError:
        raise Untrue(f"the server of '{url}' redirects to what is no address") from None


def _check_room(directory: str, needed: int) -> None:
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        free = shutil.disk_usage(directory).free
    except OSError as e:
        raise MemError(f"cannot write to '{directory}': {e.strerror}", hint=ELSEWHERE) from None
    if needed + _SPARE > free:
        sizes = f"{needed / 1e6:.0f} MB are needed, {free / 1e6:.0f} MB are free"
        raise MemError(f"not enough room in '{directory}': {sizes}", hint=ELSEWHERE)


def _receive(url: str, part: str, have: int, size: int, progress: Progress, timeout: float) -> None:
    """Appends the rest of the file to the part, or writes it anew where the server sends all.

    Never writes more than the known or announced size, or MOST where neither is known.
    """
    headers = {"User-Agent": "git-mem", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    request = urllib.request.Request(url, headers=headers)
    try:
        answer = urllib.request.build_opener(_Redirects()).open(request, timeout=timeout)
    except urllib.error.HTTPError as e:
        if e.code == 416 and have:  # the part is as long as the file, or longer
            e.close()
            return
        raise
    with answer:
        have, whole = _range(answer, part, have, size)
        limit = whole or MOST
        with open(part, "r+b" if have else "wb") as f:
            f.seek(have)
            f.truncate()
            progress(have, whole)
            while chunk := answer.read(min(_CHUNK, limit + 1 - have)):
                have += len(chunk)
                if have > limit:
                    os.unlink(part)
                    said = f"the server sends more than the {limit} bytes of the file"
                    raise Untrue(said, hint="nothing was kept")
                f.write(chunk)
                progress(have, whole)
    if have < whole:
        raise ConnectionError(f"{have} of {whole} bytes arrived")


def _range(answer: Any, part: str, have: int, size: int) -> tuple[int, int]:
    """(where the bytes of an answer belong, how long the whole file is, 0 where unknown)."""
    if answer.status not in (200, 206):
        raise Untrue(f"the server answers with status {answer.status}")
    if answer.status == 200:
        have = 0
    elif not answer.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
        os.unlink(part)
        said = "the server sends another part of the file than the rest"
        raise Broken(said, hint="the same command begins anew")
    announced = answer.headers.get("Content-Length", "")
    whole = size or (have + int(announced) if announced.isdecimal() else 0)
    if whole > MOST:
        raise Untrue(f"the server has a file of {whole} bytes, which no model has")
    return have, whole


def digest(path: str) -> str:
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def allowed(url: str) -> bool:
    """Whether a URL is HTTPS with a host, or plain HTTP to this very machine."""
    try:
        parts = urllib.parse.urlsplit(url)
        host, _ = parts.hostname or "", parts.port  # raises for an impossible port
    except ValueError:
        return False
    local = parts.scheme == "http" and host in ("localhost", "127.0.0.1", "::1")
    return bool(host) and host.isascii() and (parts.scheme == "https" or local)


def address(url: str) -> str:
    """The URL with other letters than ASCII quoted. Raises MemError where it is not allowed."""
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
    """A few redirects, each to an allowed URL of the same scheme."""

    max_redirections = 5

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        before, after = (urllib.parse.urlsplit(url).scheme for url in (req.full_url, newurl))
        if not allowed(newurl) or before != after:
            raise Untrue(f"'{req.full_url}' redirects to '{newurl}', which is not HTTPS")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _refused(url: str, status: int) -> MemError:
    if 300 <= status < 400:
        return Untrue(f"'{url}' redirects too often")
    if status in (429, 500, 502, 503, 504):
        hint = f"try again later; {_AGAIN}"
        return Broken(f"the server of '{url}' is busy: status {status}", hint=hint)
    return MemError(
        f"the server refuses '{url}': status {status}",
        hint="the file may have moved; `git mem model add` takes one you have",
    )
