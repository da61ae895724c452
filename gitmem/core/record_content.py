"""Checks of what a writer gives, before it becomes a record: shapes, sizes, characters."""

from __future__ import annotations

from typing import Any

from . import fastjson, record
from .errors import Refused
from .record import MAX_BODY, MAX_ITEMS, MAX_LINE, clean
from .record_fields import BY_NAME, CHOICE, FIELDS, LINE, LIST, NUMBER, PATHS, SET, WORD, Field

MAX_PATH = 4096  # characters
_PATH_TEXTS = ("path", "blob", "lines", "content")
_PATH_FIELDS = 12  # of one path: these, and what a newer version may add
_LONG_PATH_FIELD = 2 * record.MAX_WORD


def checked(given: dict[str, Any], max_body: int = MAX_BODY) -> dict[str, Any]:
    """The fields of a record: texts cleaned, sizes bounded, empty ones left out. Raises Refused."""
    out: dict[str, Any] = {"body": _body(given.get("body"), max_body)}
    for field in FIELDS:
        value, check = given.get(field.name), _CHECKS.get(field.kind)
        if check and value is not None and (value := check(field, value)) not in ("", []):
            out[field.name] = value
    out.setdefault("type", record.DEFAULT_TYPE)
    # JSON may need six bytes for one; a longer line would be kept and never read.
    entries = sum([len(out[f.name]) for f in FIELDS if f.kind in (LIST, PATHS) and f.name in out])
    long = len(out["body"].encode("utf-8")) > MAX_BODY or entries > 16
    if long and len(record.dump(out)) > MAX_LINE - 16 * 1024:
        raise Refused(
            f"the memory is longer than {MAX_LINE} bytes as a record",
            hint="shorten the text, or name fewer paths",
        )
    return out


def sound(given: dict[str, Any]) -> dict[str, Any]:
    """The fields of another tool's record that have the right shape: no edit fails on them."""
    out = {}
    for name, value in given.items():
        try:
            checked({"body": "x", name: value}, MAX_LINE)
        except Refused:
            continue
        out[name] = value
    return out


def refuse_no_text(given: dict[str, Any]) -> None:
    """Raises Refused for prose that could only be stored damaged (see `record.clean`)."""
    for name, value in given.items():
        if name not in BY_NAME or not BY_NAME[name].natural:
            continue
        for text in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(text, str) and (
                why := record.no_text(text.encode("utf-8", "surrogatepass"))
            ):
                raise Refused(f"'{name}' {why}")


def _text(name: str, value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Refused(f"'{name}' is not a text")
    return clean(value)


def _body(value: Any, max_body: int) -> str:
    body = _text("body", value).strip("\n")
    if not body.strip():
        raise Refused("the memory has no text")
    size, limit = len(body.encode("utf-8")), min(max_body, MAX_LINE // 2)
    if size > limit:
        raise Refused(
            f"the text has {size} bytes, the limit is {limit}",
            hint="store the essence, and name the file with --path",
        )
    return body


def _line(field: Field, value: Any) -> str:
    line = " ".join(_text(field.name, value).split())
    if len(line) > field.limit:
        raise Refused(f"'{field.name}' has {len(line)} characters, the limit is {field.limit}")
    return line


def _word(field: Field, value: Any) -> str:
    if value == "":
        return ""
    if not isinstance(value, str) or len(value) > field.limit or not value.strip():
        raise Refused(f"'{field.name}' is not a short word")
    return clean(" ".join(value.split())).lower()


def _choice(field: Field, value: Any) -> str:
    if value in (None, ""):
        return ""
    if not isinstance(value, str) or value.upper() not in field.choices:
        raise Refused(f"'{field.name}' is none of {', '.join(field.choices)}")
    return value.upper()


def _number(field: Field, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise Refused(f"'{field.name}' is not a number from 0 to 1")
    return round(float(value), 4)


def _entries(field: Field, value: Any) -> list[str]:
    if value == "":
        return []
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, (list, tuple)) or not all(isinstance(i, str) for i in items):
        raise Refused(f"'{field.name}' is not a list of texts")
    if len(items) > MAX_ITEMS:
        raise Refused(f"'{field.name}' has {len(items)} entries, the limit is {MAX_ITEMS}")
    seen = [item for item in dict.fromkeys(" ".join(clean(i).split()) for i in items) if item]
    if any(len(item) > field.limit for item in seen):
        raise Refused(f"an entry of '{field.name}' has more than {field.limit} characters")
    return sorted(seen) if field.kind == SET else seen


def _paths(field: Field, value: Any) -> list[dict[str, str]]:
    """Paths as `[{"path": ..., "blob": ...}]`; what a newer version may have added is kept."""
    if value == "":
        return []
    items = [value] if isinstance(value, (str, dict)) else value
    if not isinstance(items, (list, tuple)) or len(items) > MAX_ITEMS:
        raise Refused(f"'{field.name}' is not a list of at most {MAX_ITEMS} paths")
    out: dict[tuple[str, str], dict[str, str]] = {}
    for item in items:
        entry = _path({"path": item} if isinstance(item, str) else item)
        out[entry["path"], entry.get("lines", "")] = entry
    return list(out.values())


def _path(entry: Any) -> dict[str, str]:
    if (
        not isinstance(entry, dict)
        or not all(isinstance(entry.get(k, ""), str) for k in _PATH_TEXTS)
        or not entry.get("path")
    ):
        raise Refused("an entry of 'paths' is not a path")
    out = {
        clean(k): clean(v) if isinstance(v, str) else v
        for k, v in entry.items()
        if v not in (None, "")
    }
    if len(out["path"]) > MAX_PATH:
        raise Refused(f"a path has more than {MAX_PATH} characters")
    others = [fastjson.dumps([k, v]) for k, v in out.items() if k != "path"]
    if len(out) > _PATH_FIELDS or any(len(other) > _LONG_PATH_FIELD for other in others):
        raise Refused(
            f"an entry of 'paths' has more than {_PATH_FIELDS} fields, or one of more than"
            f" {_LONG_PATH_FIELD} characters"
        )
    return out


# The body is checked first, and `supersedes` is never given by a writer.
_CHECKS = {
    LINE: _line,
    WORD: _word,
    CHOICE: _choice,
    NUMBER: _number,
    SET: _entries,
    LIST: _entries,
    PATHS: _paths,
}
