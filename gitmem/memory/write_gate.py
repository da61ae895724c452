"""The gate before every write: no secret is stored, and nothing that its author holds back.

Promise (P5): whatever is written to the notes passed `admit` as its author gave it, before
anything normalised it, lowered its case or gave it defaults; and passed `stored` where what is
stored differs. What stands in `<private>` is cut where something is left, else refused. Nothing is
stored when either raises, and no refusal repeats what it refuses.

Records that a program writes (moves, receipts, feedback, verdicts) hold ids, numbers and the
author's name: `Store.author` leaves that out where it looks like a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..core import record, redact
from ..core.errors import Refused
from ..store import Store

# as in what capture reads (`capture.strip`): also escaped for HTML or JSON, spaced, in wide letters
_TAG = re.compile(
    r"(?:<|&lt;|\\u003c|\uff1c)\s{0,9}(/?)\s{0,9}private\b[^<>&\uff1e]{0,80}?(/?)"
    r"(?:>|&gt;|\\u003e|\uff1e)",
    re.IGNORECASE,
)
LEFT_OUT = "what stood in <private> was left out"
# the texts of a record that flow into each other: a secret may be cut in two between them
_FLOW = ("title", "subtitle", "body")


def admit(store: Store, given: Mapping[str, Any], allow_secret: bool = False) -> dict[str, Any]:
    """The words as given, without what stands in `<private>`.

    Raises Refused where one holds a secret, or is private as a whole. Strings, lists and mappings
    of any depth are read. The answer equals `given` where nothing was cut.
    """
    words = {name: _cut(name, value) for name, value in given.items()}
    if not allow_secret and store.settings["secrets"] == "refuse":
        _refuse(words)
    return words


def stored(
    store: Store, given: Mapping[str, Any], fields: Mapping[str, Any], allow_secret: bool = False
) -> None:
    """Raises Refused where `fields`, as they are to be stored, hold a secret that `given` hid."""
    if allow_secret or store.settings["secrets"] != "refuse":
        return
    known = {record.DEFAULT_TYPE, *_texts(given)}
    changed = {name for name, value in fields.items() if not known.issuperset(_texts(value))}
    if changed.intersection(_FLOW):
        changed.update(name for name in _FLOW if name in fields)
    if changed:
        _refuse({name: fields[name] for name in fields if name in changed})


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)


def _refuse(words: Mapping[str, Any]) -> None:
    found = redact.check(words)
    if found:
        name, finding = found[0]
        raise Refused(
            f"'{name}' looks like it holds a secret ({finding.rule})",
            hint="leave it out, or pass --allow-secret if it is none; nothing was stored",
        )


def _cut(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return _without(name, value) if "private" in value.lower() else value
    if isinstance(value, Mapping):
        return {key: _cut(name, item) for key, item in value.items()}
    if isinstance(value, list):
        return [_cut(name, item) for item in value]
    if isinstance(value, tuple):
        return tuple(_cut(name, item) for item in value)
    return value


def _without(name: str, text: str) -> str:
    """`text` without its private parts: one that nothing closes goes to the end, and what stands
    before a closing tag that nothing opened goes too."""
    pieces: list[str] = []
    depth = done = 0
    for tag in _TAG.finditer(text):
        if tag[1]:
            if depth == 0:
                pieces.clear()
            depth = max(0, depth - 1)
        else:
            if depth == 0:
                pieces.append(text[done : tag.start()])
            depth += not tag[2]
        done = tag.end()
    if not pieces and not done:
        return text
    if depth == 0:
        pieces.append(text[done:])
    left = " ".join(part for piece in pieces if (part := piece.strip(" \t")))
    if not left.strip():
        raise Refused(
            f"all of '{name}' stands in <private>",
            hint="what stands in <private> is never stored; write what may be kept outside of it",
        )
    return left
