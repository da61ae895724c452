"""One record: one line of canonical JSON in a git note (`docs/format.md`), and the time it claims.

Promise: `parse(dump(r)) == r`; a line is never rewritten, so fields this
version does not know, and lines it cannot parse, survive byte for byte.

Two names per record. The `id` names the *memory*: it covers title, body and
source (and a random salt where the text is short enough to be guessed from a
hash), so replaying an import adds nothing. The `version` names the *line*: the
hash of its bytes. Edits, forgets and restores name in `after` the versions they are about.
"""

from __future__ import annotations

import os
import time

from . import fastjson
from .digest import sha256
from .errors import Refused
from .record_fields import MAX_TITLE as MAX_TITLE
from .record_fields import MAX_WORD as MAX_WORD
from .record_fields import PROVENANCE as PROVENANCE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

FORMAT = 1

TYPES = tuple(
    "decision bugfix feature refactor discovery change convention preference learning gotcha "
    "dead-end blocker progress finding handoff research".split()
)
DEFAULT_TYPE = "discovery"

# Records that bring a text, and records that take versions away.
CONTENT_OPS = ("create", "edit")
COVER_OPS = ("create", "edit", "forget")
# Records that the fold reads: all whose `after` means something to it.
FOLD_OPS = (*COVER_OPS, "restore")
# Records about commits: their `id` is the full id of one, and no memory has it.
COMMIT_OPS = ("mark", "move")
# Records that are no part of a memory: their `id` is their own.
APART_OPS = ("receipt", "feedback", "suggest", "verdict", "calibration")
# What a memory's id finds; any other line goes by its version.
MEMORY_OPS = (*FOLD_OPS, "share", "purge")

MAX_BODY = 64 * 1024  # bytes of UTF-8, unless mem.maxBody says otherwise
MAX_LINE = 1024 * 1024  # longer lines of others are kept, not interpreted
MAX_ITEMS = 256  # tags, paths, facts, concepts

# Below this many bytes of text a hash could be inverted by trying likely texts.
SALT_BELOW = 256

_HEX = frozenset("0123456789abcdef")

STORED = "%Y-%m-%dT%H:%M:%SZ"
_SHAPE = "0000-00-00T00:00:00Z"
_RANGES = ((5, "01", "12"), (8, "01", "31"), (11, "00", "23"), (14, "00", "59"), (17, "00", "60"))
AHEAD = 24 * 3600  # seconds by which the clock of whoever made a commit may be ahead of this one


class Record:
    """A parsed line. `data` is the JSON object; it is never changed."""

    __slots__ = ("data", "line", "version")

    def __init__(self, line: bytes, data: dict[str, Any], version: str) -> None:
        self.line = line
        self.data = data
        self.version = version

    @property
    def op(self) -> str:
        return str(self.data["op"])

    @property
    def id(self) -> str:
        return str(self.data["id"])

    @property
    def after(self) -> list[str]:
        """Versions this record saw and replaces; wrong shapes count as none."""
        after = self.data.get("after")
        return [v for v in after if isinstance(v, str)] if isinstance(after, list) else []


_encode = fastjson.encoder(sort_keys=True)


def dump(data: dict[str, Any]) -> bytes:
    """The canonical line of a record, without newline: UTF-8, keys sorted, no spaces."""
    text = _encode(data)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:  # an edit carries fields on that another tool wrote
        return clean(text).encode("utf-8")


def signed_bytes(data: dict[str, Any]) -> bytes:
    """What a record's `signature` covers: its canonical form without that field."""
    return dump({k: v for k, v in data.items() if k != "signature"})


def version_of(line: bytes) -> str:
    """32 hex digits of SHA-256 over the line's bytes."""
    return sha256(line).hexdigest()[:32]


def parse(line: bytes) -> Record | None:
    """The record in a line, or None where it is blank, foreign, broken or of a newer format."""
    line = line.strip()
    if not line.startswith(b"{") or len(line) > MAX_LINE:
        return None
    try:
        data = fastjson.loads(line)
    except (ValueError, RecursionError):
        return None
    if type(data) is not dict or type(data.get("v")) is not int or data["v"] != FORMAT:
        return None
    if not isinstance(data.get("op"), str) or not isinstance(data.get("id"), str):
        return None
    if data["op"] in CONTENT_OPS and not isinstance(data.get("body"), str):
        return None
    try:  # names go where a half of a surrogate pair cannot: pipes, files, tables
        (data["op"] + data["id"]).encode()
    except UnicodeEncodeError:
        return None
    return Record(line, data, version_of(line))


def newer(line: bytes) -> int:
    """The format version of a line this git mem is too old to read, else 0."""
    try:
        data = fastjson.loads(line)
    except (ValueError, RecursionError):
        return 0
    v = data.get("v") if isinstance(data, dict) else None
    return v if isinstance(v, int) and v > FORMAT else 0


def kind_of(line: bytes) -> str:
    """What a line of a note is: `record`, `forged` (its id is not that of its text), `newer` (of
    a format that this git mem is too old to read), `broken` (it begins as a record and is none) or
    `foreign`.
    """
    if found := parse(line):
        return "forged" if found.op == "create" and not id_holds(found.data) else "record"
    if newer(line):
        return "newer"
    return "broken" if line.startswith(b'{"') else "foreign"


def memory_id(title: str, body: str, source: str, salt: str = "") -> str:
    """32 hex digits that name a memory by its content."""
    # Only the body may hold newlines, and it stands last: different memories give different bytes.
    named = f"git mem 1\n{title}\n{source}\n{salt}\n{body}"
    return version_of(named.encode("utf-8", "replace"))


def id_holds(data: dict[str, Any]) -> bool:
    """Whether a create record's `id` is that of its content; a hand-edited note fails this."""
    texts = [data.get(k) for k in ("title", "body", "source", "salt")]
    return bool(data.get("id") == memory_id(*[t if isinstance(t, str) else "" for t in texts]))


def clean(text: str) -> str:
    """`text` as it can be stored: lone surrogates and NUL replaced, line ends as newlines."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    return fastjson.whole(text)


def no_text(data: bytes) -> str:
    """Why bytes are no text that can be stored as it is, with the place; "" for a text."""
    nul = data.find(b"\0")
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as e:
        if nul < 0 or e.start < nul:
            return f"is not UTF-8: byte 0x{data[e.start]:02x} at offset {e.start}"
    return f"holds a NUL byte at offset {nul}" if nul >= 0 else ""


def identify(fields: dict[str, Any]) -> dict[str, Any]:
    """Adds the `id`, and the salt that a short text needs, to checked fields; the same dict."""
    text = fields.get("title", "") + fields["body"]
    if not fields.get("source") and len(text.encode("utf-8")) < SALT_BELOW:
        fields["salt"] = os.urandom(8).hex()
    fields["id"] = memory_id(
        fields.get("title", ""), fields["body"], fields.get("source", ""), fields.get("salt", "")
    )
    return fields


def create(fields: dict[str, Any], *, at: str = "", **extra: Any) -> dict[str, Any]:
    """A new memory from fields that `record_content.checked` gave; `extra` where not empty."""
    return envelope("create", identify(dict(fields)), at, extra)


def edit(
    memory: str, fields: dict[str, Any], after: list[str], *, at: str = "", **extra: Any
) -> dict[str, Any]:
    """A new version of `memory` with the whole content; replaces the versions in `after`."""
    return envelope("edit", {**fields, "id": memory, "after": sorted(after)}, at, extra)


def about(
    op: str, memory: str, after: Iterable[str] = (), *, at: str = "", **extra: Any
) -> dict[str, Any]:
    """A record without a text: `forget` hides the versions in `after`, and only those; `restore`
    takes back what the records in `after` did to this memory, and to no other; `share` says who
    moved a private memory to the team, beside which its own lines travel.
    """
    return envelope(op, {"id": memory}, at, {"after": sorted(after), **extra})


def mark(commit: str, patch: str, base: str, branch_patch: str) -> dict[str, Any]:
    """Marks of a commit, found later than its memories; two clones write the same line."""
    marks = {"patch": patch, "base": base, "branch_patch": branch_patch}
    data = {"v": FORMAT, "op": "mark", "id": commit, "commit": commit}
    return data | {name: value for name, value in marks.items() if value}


def move(old: str, new: str, author: str = "") -> dict[str, Any]:
    """Says that a commit took the place of another one: an author's word, or without one what the
    notes show; then nothing is by chance, so everybody who repeats it writes the same line.
    """
    data: dict[str, Any] = {"v": FORMAT, "op": "move", "id": old, "commit": new}
    return envelope("move", data, "", {"author": author}) if author else data


def anchor_of(data: dict[str, Any], hex_len: int) -> str:
    """The commit whose note a record goes to, also one that is not here; "" for none."""
    commit = object_id(data.get("commit"))
    return commit if len(commit) == hex_len else ""


def copied_to(line: bytes, place: str) -> bytes:
    """The `move` record that a line in the note of `place` implies; b"" where it is at home."""
    found = parse(line)
    old = object_id(found.data.get("commit")) if found else ""
    if not old or old == place or not object_id(place):
        return b""
    return dump(move(old, place))


def object_id(value: Any) -> str:
    """A full object id in a field of a record, "" for anything else."""
    if isinstance(value, str) and len(value) in (40, 64) and _HEX.issuperset(value):
        return value
    return ""


def marks_of(data: dict[str, Any]) -> tuple[str, str, str, str] | None:
    """(commit, patch, base, branch_patch) of a record that has marks; "" for a mark it lacks."""
    commit = object_id(data.get("commit"))
    patch, base, combined = (object_id(data.get(k)) for k in ("patch", "base", "branch_patch"))
    if not combined or not base:
        base = combined = ""
    return (commit, patch, base, combined) if commit and (patch or combined) else None


def envelope(op: str, data: dict[str, Any], at: str, extra: dict[str, Any]) -> dict[str, Any]:
    """Adds version, operation, time and tie-breaker, and the extras that are not empty."""
    data.update({k: v for k, v in extra.items() if v})
    # The tie-breaker makes the line's hash unguessable, so a tombstone may name it.
    data.update(v=FORMAT, op=op, at=at or now(), n=os.urandom(8).hex())
    return data


def title_of(data: dict[str, Any]) -> str:
    """The title to show: the stored one, else the first line of the body, at most 80 characters."""
    title = data.get("title")
    if isinstance(title, str) and title.strip():
        return title
    for line in str(data.get("body", "")).splitlines():
        words = " ".join(line.split())
        if words:
            return words if len(words) <= 80 else words[:79].rsplit(" ", 1)[0] + "…"
    return ""


def headline(title: str, body: str) -> tuple[str, str]:
    """(the title, or the whole line it was derived from; the text without that line): what is shown
    of both, so that a derived title never stands beside its own text.
    """
    lines = body.strip().splitlines()
    if lines and title == title_of({"body": body}):
        return " ".join(lines[0].split()), "\n".join(lines[1:])
    return title, body


# ---- times: `docs/format.md`, Times


def now() -> str:
    return time.strftime(STORED, time.gmtime())


def timestamp(text: str) -> str:
    """An ISO 8601 time in its stored form (UTC, seconds). Raises Refused for what is none, and for
    one before 1970 or later than `latest` ever is.
    """
    import datetime

    hint = "write it like 2026-08-22T10:00:00Z"
    try:
        when = datetime.datetime.fromisoformat(text.strip())
        if when.tzinfo is None:
            when = when.replace(tzinfo=datetime.UTC)
        at = when.astimezone(datetime.UTC).strftime(STORED)
    except (ValueError, OverflowError) as e:
        raise Refused(f"cannot read the time '{text[:40]}'", hint=hint) from e
    if not stored(0) <= at <= stored(time.time() + AHEAD):
        wrong = "before 1970" if at < stored(0) else "in the future"
        raise Refused(f"the time '{text[:40]}' is {wrong}", hint=hint)
    return at


def stored(seconds: float) -> str:
    """Seconds since 1970 as records and the cache hold them; "" for a time no calendar has."""
    try:
        return moment(time.strftime(STORED, time.gmtime(seconds)))
    except (OverflowError, ValueError, OSError):
        return ""


def latest(newest: str = "") -> str:
    """The latest time that counts: now, or that of the newest commit of the notes if it is later.

    Who forges a record also writes that commit's time: none is taken to be more than AHEAD later.
    """
    now = time.time()
    return min(max(stored(now), newest), stored(now + AHEAD))


def moment(value: Any) -> str:
    """A time in its stored form; "" for anything else, which sorts before every time."""
    if type(value) is not str or len(value) != len(_SHAPE) or not value.isascii():
        return ""
    digits = value[:4] + value[5:7] + value[8:10] + value[11:13] + value[14:16] + value[17:19]
    if not digits.isdigit() or value[4::3] != _SHAPE[4::3]:
        return ""
    return value if all(low <= value[at : at + 2] <= high for at, low, high in _RANGES) else ""


def when(value: Any, latest: str) -> str:
    """The time that orders memories: "", the oldest, if malformed or after `latest`."""
    at = moment(value)
    return at if at <= latest else ""


def days(stamp: str) -> float | None:
    """Days since 1970 of a stored time or date (UTC), without `datetime`; None for others."""
    try:
        year, month, day = int(stamp[0:4]), int(stamp[5:7]), int(stamp[8:10])
        hour = int(stamp[11:13]) + int(stamp[14:16]) / 60 if len(stamp) >= 16 else 0.0
    except ValueError:
        return None
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    # Howard Hinnant's days_from_civil.
    year -= month <= 2
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468 + hour / 24


def freshness(stamps: Iterable[str], newest: str, half: float) -> dict[str, float]:
    """{date: 1 for the day of `newest`, half of it `half` days before}; 0 for what is no date."""
    now = days(newest[:10])
    out: dict[str, float] = {}
    for date in {stamp[:10] for stamp in stamps}:
        day = days(date)
        out[date] = 0.0 if day is None or now is None else 2 ** (-max(0.0, now - day) / half)
    return out
