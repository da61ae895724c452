"""A directory of Markdown with front matter: as `export`, basic-memory and others write it.

Promise: what `export` wrote there, `import` reads back the same; nothing is doubled where the
memories are known. A note of another tool is one memory: its text as it stands, with the lines
`- [category] text #tag` and `- relation [[note]]` of basic-memory.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from ..core import confidence, front_matter
from ..core.errors import MemError
from ..core.record import title_of
from ..memory.remember import FIELDS
from ..memory.transfer import looked_at, portable
from .drafts import Draft, Entry, Skipped, digest, draft, headed, source, typed, when, words

_OURS = "git-mem"  # the memory's id, in the front matter of a file of ours
_OBSERVATION = re.compile(r"(?m)^[ \t]*[-*+][ \t]+\[([^\[\]()\n]{2,60})\][ \t]+(.+)$")
_HASHTAG = re.compile(r"(?:^|\s)#([^\s#]+)")
_HEADING = re.compile(r"\s*#[ \t]+(.*)(?:\n|$)")
_CREATED = ("created", "created_at", "date", "timestamp")


# ---- written


def file_name(item: dict[str, Any]) -> str:
    """A name that a person can find, with the id, so that no two memories have the same."""
    plain = "-".join(re.findall(r"\w+", title_of(item).lower()))
    plain = plain[:60].encode()[:180].decode(errors="ignore").rstrip("-")
    # Another tool's may hold a slash, or count in its last digits.
    id = item["id"] if confidence.is_id(item["id"]) else digest(item["id"])
    return f"{plain or 'memory'}-{id[:12]}.md"


def render(item: dict[str, Any]) -> str:
    """A memory as a file."""
    given = portable(item)
    body = given.pop("body", "")
    page = looked_at(body)
    if page != body:
        given["body"] = body  # as escapes: nobody reads on the page what it does to a terminal
    front = {_OURS: given.pop("id", ""), **given}
    return f"{front_matter.join(front)}\n{page}\n"


def write(directory: str, items: list[dict[str, Any]]) -> None:
    """Writes a file a memory into a new or empty directory. Raises MemError."""
    try:
        os.makedirs(directory, exist_ok=True)
        if os.listdir(directory):
            raise MemError(f"'{directory}' is not empty", hint="name a new directory")
        for item in items:
            path = os.path.join(directory, file_name(item))
            with open(path, "w", encoding="utf-8", newline="\n") as f:
                f.write(render(item))
    except OSError as e:
        raise MemError(f"cannot write '{directory}': {e.strerror}") from e


# ---- read


def parse(text: str, name: str) -> Iterator[Entry]:
    """The memory in a file; `name`: its path below the directory."""
    front, body = front_matter.split(text.replace("\r\n", "\n"))
    if front is None:
        yield Skipped(name, "it has no front matter")
    elif _OURS in front:
        yield _ours(front, body.removeprefix("\n").removesuffix("\n"))
    else:
        yield _note({str(key).lower(): value for key, value in front.items()}, body, name)


def _ours(front: dict[str, Any], page: str) -> Draft:
    exact = front.get("body")
    same = isinstance(exact, str) and looked_at(exact) == page  # nobody has changed the page
    known = {name: value for name, value in front.items() if name in FIELDS}  # an editor adds more
    found = {**known, "body": exact if same else page}
    if isinstance(stated := found.get("confidence"), str):  # an editor wrote it without JSON
        with suppress(ValueError):
            found["confidence"] = float(stated)
    found.setdefault("scope", "")  # the user's own: the setting decides
    return found


def _note(front: dict[str, Any], body: str, name: str) -> Entry:
    stem = os.path.splitext(name.rpartition("/")[2])[0]
    title, heading = _text(front.get("title")), _HEADING.match(body)
    headed_by = heading[1].rstrip(" \t").rstrip("#").rstrip(" \t") if heading else ""
    title = title or headed_by or stem
    if heading and headed_by == title:
        body = body[heading.end() :]
    if not body.strip():
        return Skipped(name, "it says nothing")
    observed = [
        (category, *_HASHTAG.findall(told)) for category, told in _OBSERVATION.findall(body)
    ]
    type, tags = typed(_text(front.get("type")))
    known = (typed(kind)[0] for kind, *_ in observed)
    created = next((front[key] for key in _CREATED if front.get(key)), "")
    return draft(
        **headed(title, body),
        subtitle=_text(front.get("description"))[:300],
        type=type or next(filter(None, known), ""),
        tags=words([*words(front.get("tags")), *tags, *(t for _, *ts in observed for t in ts)]),
        created_at=when(created),
        source=source("markdown", _text(front.get("permalink")) or os.path.splitext(name)[0]),
    )


def _text(value: Any) -> str:
    return " ".join(value.split()) if isinstance(value, str) else ""
