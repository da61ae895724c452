"""`git mem diff` as a comment under a pull request, in GitHub's Markdown.

Promises: a private memory is left out, a secret is masked, and nothing that a memory says fires.
Each of its words stands in a code span, which ends only by as many backticks as it began with: one
more than any run within. In one there is no mention, no link, no reference to an issue, no HTML.
Code spans end with their line, and no line begins with a memory's text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ..core import redact
from ..core.record import object_id, title_of
from ..core.sanitize import inert

MOST = 20  # memories of a kind
_LONG = 160  # characters of a title
KINDS = {
    "teaches": "taught", "changes": "changed", "contradicts": "contradicted",
    "forgets": "forgotten", "stale": "made stale",
}  # fmt: skip


def lines(found: dict[str, Any]) -> Iterator[str]:
    """The lines of the comment about an object of `git mem diff`."""
    base, tip = _code(_short(found["base"]["name"])), _code(_short(found["tip"]["name"]))
    public = {kind: [item for item in found[kind] if not _private(item)] for kind in KINDS}
    yield "### Memories"
    yield ""
    counts = [f"{len(public[k])} {name}" for k, name in KINDS.items() if public[k]]
    left_out = sum(len(found[kind]) - len(public[kind]) for kind in KINDS)
    private = f" {left_out} private left out." if left_out else ""
    yield f"From {base} to {tip}: {', '.join(counts) or 'nothing new'}.{private}"
    for kind, name in KINDS.items():
        items = public[kind]
        if items:
            yield from ("", f"#### {name.capitalize()}", "")
        yield from (f"- {_said(kind, item)}" for item in items[:MOST])
        if len(items) > MOST:
            yield f"- … and {len(items) - MOST} more"


def _private(item: dict[str, Any]) -> bool:
    named = (item, *(item.get(part, {}) for part in ("before", "after", "memory", "against")))
    return any(memory.get("scope") == "private" for memory in named)


def _short(name: str) -> str:
    """A revision as people name it: of a commit's id the beginning."""
    return name[:12] if object_id(name) else name


def _said(kind: str, item: dict[str, Any]) -> str:
    if kind == "changes":
        before, after = _title(item["before"]), _memory(item["after"])
        same = before == _title(item["after"])
        return after if same else f"{after}<br>before: {_code(before)}"
    if kind == "contradicts":
        word = "supersedes" if item["by"] == "supersedes" else "may contradict"
        return f"{_memory(item['memory'])}<br>{word} {_memory(item['against'])}"
    if kind == "stale":
        paths = [p for p in item["paths"] if p["state"] not in ("same", "unknown")]
        told = ", ".join(f"{_code(p['path'])} {p['state']}" for p in paths[:3])
        return f"{_memory(item)}: {told}" + (", …" if len(paths) > 3 else "")
    return _memory(item)


def _memory(item: dict[str, Any]) -> str:
    return f"{_code(item['type'])} {_code(_title(item))} ({_code(item['id'][:8])})"


def _title(item: dict[str, Any]) -> str:
    """Of a title that is the text's beginning no secret that it cuts in two."""
    title, body = str(item["title"]), str(item.get("body") or "")
    if title != title_of({"body": body}):
        return title
    return title_of({"body": redact.mask(body, redact.find(body))})


def _code(text: str) -> str:
    """The text as a code span of one line."""
    text = redact.mask(text, redact.find(text))
    text = " ".join(inert(text, lines=False).split()) or "(empty)"
    text = text if len(text) <= _LONG else text[: _LONG - 1] + "…"
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    pad = " " if text[0] == "`" or text[-1] == "`" else ""
    return f"{fence}{pad}{text}{pad}{fence}"
