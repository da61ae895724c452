"""What a reader of another tool's memories gives: drafts for `remember`, and what it left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ..core import record
from ..core.digest import sha256
from ..core.errors import Refused
from ..core.record_fields import MAX_TITLE, MAX_WORD

Draft = dict[str, Any]  # the keys of `remember.FIELDS`; `source` names the tool and its entry


class Skipped(NamedTuple):
    """An entry that becomes no memory. `broken`: nobody chose that, it could not be read."""

    where: str
    why: str
    broken: bool = False


Entry = Draft | Skipped

_SOURCE = 800  # characters of another tool's name for an entry

# Words of other tools for our types; an unknown word becomes a tag.
_TYPES = {
    "decision": "decisions adr architecture architectural-decision design tool-choice approach",
    "bugfix": "bug fix bug-fix",
    "feature": "features story epic",
    "change": "changes chore task code-edit configuration",
    "convention": "conventions rule rules pattern patterns best-practice policy standard",
    "preference": "preferences user-preference",
    "learning": "learnings learned lesson insight retrospective til",
    "gotcha": "gotchas hazard hazards pitfall warning caveat error mistake security-alert",
    "dead-end": "dead-ends anti-pattern rejected",
    "blocker": "blockers",
    "finding": "findings reviews review security-note",
    "research": "reference references spike",
    "progress": "milestone status",
    "discovery": "how-it-works",
}
_TYPE_OF = {word: type for type, words in _TYPES.items() for word in words.split()}
_NO_TYPE = frozenset(("", "note", "notes", "memory", "general", "observation", "entity"))


def typed(word: Any) -> tuple[str, list[str]]:
    """(our type for another tool's word, "" for none; the word as a tag where it has none)."""
    plain = "-".join(str(word or "").lower().replace("_", " ").split())[:MAX_WORD]
    if plain in record.TYPES:
        return plain, []
    type = _TYPE_OF.get(plain, "")
    return type, [] if type or plain in _NO_TYPE else [plain]


def words(value: Any) -> list[str]:
    """Tags: of a list or a text, also with commas in them, without `#`."""
    items = value if isinstance(value, list) else [value]
    texts = [part for item in items if isinstance(item, str) for part in item.split(",")]
    plain = [" ".join(text.split()).lstrip("#") for text in texts]
    return [word for word in plain if word and len(word) <= MAX_WORD][: record.MAX_ITEMS]


def when(value: Any) -> str:
    """A time as records have it, "" for none: ISO 8601, or seconds or milliseconds since 1970."""
    try:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            value = record.stored(value / 1000 if value > 1e11 else value)
        return record.timestamp(value) if isinstance(value, str) and value else ""
    except (Refused, OverflowError):
        return ""


def source(tool: str, name: str) -> str:
    return f"{tool}:{' '.join(name.split())[:_SOURCE]}"


def digest(*parts: str) -> str:
    """Names an entry that has no name of its own."""
    return sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:16]


def headed(title: str, body: str) -> dict[str, str]:
    """Title and body; a title too long for one is the first paragraph."""
    title, body = " ".join(title.split()), body.strip("\n")
    if len(title) > MAX_TITLE:
        return {"body": f"{title}\n\n{body}" if body.strip() else title}
    return {"title": title, "body": body if body.strip() else title}


def paragraphs(parts: Iterable[tuple[str, Any]]) -> str:
    """A body of parts, each below its name; one without text is left out."""
    return "\n\n".join(_named(parts))


def _named(parts: Iterable[tuple[str, Any]]) -> Iterator[str]:
    for name, text in parts:
        if isinstance(text, str) and text.strip():
            yield f"{name}: {text.strip()}" if name else text.strip()


def draft(**fields: Any) -> Draft:
    """The fields that hold something."""
    return {name: value for name, value in fields.items() if value not in ("", [], None)}
