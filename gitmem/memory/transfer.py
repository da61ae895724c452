"""Export and import: JSON Lines and Markdown, both ways without loss of content.

Promise: what `export` wrote, `import` reads back into any repository: the same texts, types, tags,
paths, times and authors; what is there already adds nothing. A commit the other repository lacks is
said, not invented, and lines of files at such a commit become the files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ..core import lineanchor, sanitize
from ..core.errors import Refused
from ..core.record import clean, title_of
from ..core.record_fields import FIELDS
from ..store import Store
from . import write_gate

# What a draft has from the object of a memory as it is; the rest has other shapes or names there.
_COPIED = ("created_at", *(f.name for f in FIELDS if f.exported))
_META = "<!-- git-mem "


def portable(item: dict[str, Any]) -> dict[str, Any]:
    """A memory as a draft that `remember --jsonl` takes; the id is for the reader."""
    made = title_of({"body": item["body"]})
    out: dict[str, Any] = {
        **{name: item.get(name) for name in ("id", "body", *_COPIED)},
        "title": item["title"] if item["title"] != made else "",
        "confidence": item["stated_confidence"],  # what was lived here is no part of the text
        "paths": [
            {"path": p["path"], "lines": p["lines"]} if p.get("lines") else p["path"]
            for p in item["paths"]
        ],
        "scope": "private" if item["scope"] == "private" else "",  # an import must not publish it
        "commit": item["anchor"]["commit"],
        "branch": item["anchor"]["branch"],
    }
    return {k: v for k, v in out.items() if v not in (None, "", [])}


def _json(draft: dict[str, Any], ascii_only: bool) -> str:
    return sanitize.json_text(json.dumps(draft, ensure_ascii=ascii_only, sort_keys=True))


def to_jsonl(items: list[dict[str, Any]]) -> Iterator[str]:
    for item in items:
        yield _json(portable(item), False) + "\n"


def to_markdown(items: list[dict[str, Any]]) -> Iterator[str]:
    """A page to read; a comment before each memory holds what `read` takes."""
    yield "# Memories\n"
    for item in items:
        # `--` may not stand in a comment, so that every Markdown reader hides it. As escapes:
        # nobody reads on the page what a text does to a terminal or hides from an eye.
        draft = _json(portable(item), True)
        draft = draft.replace("--", "\\u002d\\u002d").replace(">", "\\u003e")
        title = sanitize.shown(" ".join(item["title"].split()))
        page = looked_at(item["body"]).replace("<!--", "&lt;!--")
        yield f"\n## {title}\n\n{_META}{draft} -->\n{page}\n"


def looked_at(text: str) -> str:
    """A text with marks in the place of hidden characters; tabs stay, code has them."""
    return "\t".join([sanitize.shown(part, lines=True) for part in text.split("\t")])


def from_jsonl(text: str) -> Iterator[dict[str, Any] | str]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            yield f"line {number} is no JSON"
            continue
        yield value if isinstance(value, dict) else f"line {number} is no JSON object"


def read(text: str) -> Iterator[dict[str, Any] | str]:
    """Drafts of what `export` wrote; of what cannot be read, why."""
    if not text.lstrip("\ufeff \n").startswith("{"):
        rows = [line for line in text.split("\n") if line.startswith(_META)]
        text = "\n".join(line.removeprefix(_META).rstrip().removesuffix("-->") for line in rows)
    return from_jsonl(text.removeprefix("\ufeff"))


def settle(store: Store, drafts: list[dict[str, Any]], scope: str) -> set[int]:
    """Makes drafts from elsewhere ones for this repository; `scope`: "" for what each says. Returns
    the places of those that go to HEAD: no such commit here.
    """
    names = sorted({d["commit"] for d in drafts if isinstance(d.get("commit"), str)})
    ids = store.repo.git.ids([clean(name) + "^{commit}" for name in names])
    here = {name for name, id in zip(names, ids, strict=True) if id}
    moved = set()
    for place, draft in enumerate(drafts):
        for name in ("id", "status", "retrieval", "score", "anchor"):
            draft.pop(name, None)
        if scope:
            draft["scope"] = scope
        if isinstance(draft.get("commit"), str) and draft["commit"] not in here:
            del draft["commit"]
            draft.pop("branch", None)  # of another repository
            if paths := draft.get("paths"):  # its lines are others here, or none
                draft["paths"] = list(map(_file, paths if isinstance(paths, list) else [paths]))
            moved.add(place)
        try:
            write_gate.admit(store, {"branch": draft.get("branch")})
        except Refused:
            del draft["branch"]  # `remember` notes no such name either
    return moved


def _file(path: Any) -> Any:
    """The file of "FILE:10-20" or of {"path", "lines"}; what is no path as it stands."""
    path = path.get("path") if isinstance(path, dict) else path
    return lineanchor.split(path)[0] if isinstance(path, str) else path
