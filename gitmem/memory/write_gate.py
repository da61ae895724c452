"""The gate before every write: no secret is stored, and nothing that its author holds back.

Promise: whatever is written to the notes passed `admit` as its author gave it, before anything
normalised it; and passed `stored` where what is stored differs. What stands between `<private>`
and `</private>` is cut where something is left, else refused, as is a tag without its other half:
no text is lost unsaid. Nothing is stored when either raises; no refusal repeats what it refuses.

Records that a program writes (moves, receipts, feedback, verdicts) hold ids, numbers and the
author's name: `Store.author` leaves that out where it looks like a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..core import record, record_content, redact
from ..core.errors import Refused
from ..core.record_fields import FLOW
from ..store import Store

# The tag alone: `<private key file>` and `<private.h>` are words of the text; also escaped for HTML
# or JSON, spaced, in wide letters.
_TAG = re.compile(
    r"(?:<|&lt;|\\u003c|\uff1c)\s{0,9}(/?)\s{0,9}private\s{0,9}(/?)\s{0,9}"
    r"(?:>|&gt;|\\u003e|\uff1e)",
    re.IGNORECASE,
)
LEFT_OUT = "what stood in <private> was left out"


def admit(store: Store, given: Mapping[str, Any], allow_secret: bool = False) -> dict[str, Any]:
    """The words as given, without what stands in `<private>`; equal to `given` if nothing does.
    Raises Refused where one holds a secret, or is private as a whole.
    """
    words = {name: _cut(name, value) for name, value in given.items()}
    if not allow_secret and store.settings["secrets"] == "refuse":
        _refuse(words)
    return words


def checked(
    store: Store, given: dict[str, Any], merged: dict[str, Any], allow_secret: bool
) -> dict[str, Any]:
    """The fields to store. `given`: past `admit`; `merged`: these, and those of an older text."""
    record_content.refuse_no_text(given)
    fields = record_content.checked(merged, store.settings.number("maxBody"))
    stored(store, given, fields, allow_secret)
    return fields


def stored(
    store: Store, given: Mapping[str, Any], fields: Mapping[str, Any], allow_secret: bool = False
) -> None:
    """Raises Refused where `fields`, as they are to be stored, hold a secret that `given` hid."""
    if allow_secret or store.settings["secrets"] != "refuse":
        return
    known = {record.DEFAULT_TYPE, *_texts(given)}
    changed = {name for name, value in fields.items() if not known.issuperset(_texts(value))}
    if changed.intersection(FLOW):
        changed.update(name for name in FLOW if name in fields)
    if changed:
        _refuse({name: fields[name] for name in fields if name in changed})


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (Mapping, list, tuple)):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(item)


def _refuse(words: Mapping[str, Any]) -> None:
    found = redact.check(words)
    if found:
        name, finding = found[0]
        what = "the text" if name == "body" else f"'{name}'"
        raise Refused(
            f"{what} looks like it holds a secret ({finding.rule})",
            hint="leave it out, or pass --allow-secret if it is none; nothing was stored",
        )


def _cut(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return _without(name, value) if "private" in value.lower() else value
    if isinstance(value, Mapping):
        return {key: _cut(name, item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cut(name, item) for item in value)
    return value


def _without(name: str, text: str) -> str:
    pieces: list[str] = []
    opened: list[int] = []
    done = 0
    for tag in _TAG.finditer(text):
        if not opened:
            pieces.append(text[done : tag.start()])
        if tag[1]:
            if not opened:
                raise _half(name, text, tag.start(), "closes", "opens")
            opened.pop()
        elif not tag[2]:
            opened.append(tag.start())
        done = tag.end()
    if opened:
        raise _half(name, text, opened[0], "opens", "closes")
    if not done:
        return text
    pieces.append(text[done:])
    left = " ".join(part for piece in pieces if (part := piece.strip(" \t")))
    if not left.strip():
        raise Refused(
            f"all of '{name}' stands in <private>",
            hint="what stands in <private> is never stored; write what may be kept outside of it",
        )
    return left


def _half(name: str, text: str, at: int, does: str, other: str) -> Refused:
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    return Refused(
        f"'{name}' {does} <private> where nothing {other} it (line {line}, column {column})",
        hint="put <private> before and </private> behind what is to be left out, or name the tag"
        " without its brackets; nothing was stored",
    )
