"""git-notes-memory: notes of front matter and text under refs/notes/mem/<kind>, read in place.

A note holds several entries, one after the other (`git notes append`). A line `---` begins one only
where the lines below it name type, summary and timestamp: in a text it is a rule, or a quotation.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from ..core import front_matter
from .drafts import Entry, Skipped, digest, draft, headed, source, typed, when, words

# Its notes refs; ours (`team`, `private`) are none of them.
KINDS = (
    "inception elicitation research decisions progress blockers reviews learnings retrospective"
    " patterns"
).split()
_NEEDED = frozenset(("type", "summary", "timestamp"))


def parse(text: str, kind: str, commit: str) -> Iterator[Entry]:
    """The entries of one note."""
    where = f"{kind}, note of {commit[:8]}"
    lines = text.replace("\r\n", "\n").split("\n")
    rules = [at for at, line in enumerate(lines) if line.rstrip() == "---"]
    begins: list[tuple[int, int]] = []  # of front matter: its two rules
    for at, end in pairwise(rules):
        follows = not begins or at > begins[-1][1]
        if follows and front_matter.mapping(lines[at + 1 : end]).keys() >= _NEEDED:
            begins.append((at, end))
    if not begins or "".join(lines[: begins[0][0]]).strip():
        yield Skipped(where, "it has text that no front matter of type and summary begins", True)
    ends = [at for at, _ in begins[1:]] + [len(lines)]
    for (at, end), stop in zip(begins, ends, strict=False):  # without a beginning: none
        front = front_matter.mapping(lines[at + 1 : end])
        body = "\n".join(lines[end + 1 : stop]).strip()
        yield _entry(front, body, kind, commit, where)


def _entry(front: dict[str, object], body: str, kind: str, commit: str, where: str) -> Entry:
    status = str(front.get("status") or "active")
    summary = str(front["summary"])
    if status in ("tombstone", "archived"):
        return Skipped(f"{where}: {summary[:60]}", f"it is {status}")
    name = f"{kind}@{digest(str(front['timestamp']), summary, body)}"
    type, tags = typed(front["type"])
    if type == "blocker" and status == "resolved":
        type, body = "learning", f"Resolved blocker. {body}"
    spec = [str(front.get("spec") or "")]
    return draft(
        **headed(summary, body),
        type=type,
        tags=[*words(front.get("tags")), *tags, *words(spec)],
        phase=str(front.get("phase") or ""),
        created_at=when(front["timestamp"]),
        commit=commit,
        source=source("git-notes-memory", name),
    )
