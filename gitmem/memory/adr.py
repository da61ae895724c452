"""Decision records in the tree become memories: `git mem import adr`.

Owns where such files are looked for and how they are read: Michael Nygard's
form (`## Status`, `## Context`, `## Decision`, `## Consequences`), MADR in its
versions (front matter or a list with status and date, `## Decision Outcome`),
and what lies between. The memory is the file's own words, the decision first;
its source names the file and what it said, so reading again adds nothing and a
changed file becomes a new version of its memory. What a person edited in git
mem stays as it is, and so does what was forgotten.

Promise: no file is changed, and nothing outside of the working tree read; a
record that was superseded or deprecated is left out and named; one that was
rejected is a dead end.
"""

from __future__ import annotations

import os
import re
from typing import Any, NamedTuple

from ..core import record
from ..core.digest import sha256
from ..core.errors import MemError
from ..engine.cache import Cache
from ..git import worktree_file
from ..store import Store
from . import memories, remember

SOURCE = "adr:"
_UP_TO = "adr;"  # the next character: every source of ours lies before it
# Where tools and projects keep them; `.adr-dir` of adr-tools goes before.
PLACES = tuple(
    f"{a}{b}"
    for a in ("docs/", "doc/", "", "documentation/")
    for b in (
        "adr",
        "adrs",
        "ADR",
        "decisions",
        "architecture/decisions",
        "architecture/adr",
        "architecture-decisions",
        "architecture_decisions",
        "rfcs/decisions",
    )
)
MOST, LARGEST = 2_000, 256 * 1024  # files, bytes of one
_BODY = 12_000  # characters of a memory
STORED, EDITED, KNOWN, LEFT, REFUSED = "stored", "edited", "known", "left out", "refused"

_NO_RECORD = re.compile(
    r"^(?:readme|index|template|_.*|.*[-_]?template|madr|toc|\d*-?template.*)\.(?:md|markdown)$",
    re.IGNORECASE,
)
# Each takes time by the length of a text, whatever stands there: two parts never match the same.
_HEADING = re.compile(r"^(#{1,4})[ \t]+(.*)$")
_UNDERLINE = re.compile(r"^(=+|-{3,})[ \t]*$")
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})")
_NUMBER = re.compile(r"^(?:adr|rfc|decision)?[ \-_#]*\d+[ \t]*[.:)–—-]*[ \t]*", re.IGNORECASE)
_FIELD = re.compile(r"(status|date|decision-?date|deciders|tags)\**[ \t]*:\**(.*)", re.IGNORECASE)
_DATE = re.compile(r"\b(\d{4}-\d{2}-\d{2})\b")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_DECISION = (
    "decision outcome",
    "decision",
    "decisions",
    "the decision",
    "outcome",
    "resolution",
    "solution",
    "the rule",
    "rule",
    "chosen option",
)
_CONTEXT = (
    "context and problem statement",
    "context",
    "problem",
    "problem statement",
    "background",
    "issue",
    "motivation",
)
_AFTER = (
    "consequences",
    "positive consequences",
    "negative consequences",
    "implications",
    "trade-offs",
    "tradeoffs",
    "rationale",
    "argument",
    "why",
)


class Decision(NamedTuple):
    """One file read. `status` is a word in lower case, "accepted" where none stands there."""

    title: str
    body: str
    status: str
    date: str


class Item(NamedTuple):
    """What became of one file."""

    path: str
    status: str
    id: str = ""
    title: str = ""
    reason: str = ""


def parse(text: str) -> Decision | None:
    """The decision in a file; None for a text that states none."""
    text = text.replace("\r\n", "\n").lstrip("\ufeff")
    front, text = _front_matter(text)
    title, sections, lead = _sections(_COMMENT.sub("", text))
    fields = {**_fields(lead.split("\n")), **front}
    status = next(
        (body for name, body in sections if name.lower() == "status" and body.strip()),
        fields.get("status", ""),
    )
    date = _DATE.search(
        fields.get("date", "")
        or fields.get("decisiondate", "")
        or next((body for name, body in sections if name.lower() == "date"), "")
    )
    chosen = [
        part for part in (_of(sections, names) for names in (_DECISION, _CONTEXT, _AFTER)) if part
    ]
    if not title or not any(name.lower() in _DECISION for name, _ in sections) or not chosen:
        return None
    body = "\n\n".join(chosen)
    if len(body) > _BODY:
        body = body[:_BODY].rsplit("\n", 1)[0] + "\n…"
    words = re.findall(r"[a-z]+", status.lower())
    return Decision(
        " ".join(_NUMBER.sub("", title).split())[:200] or title[:200],
        body,
        words[0] if words else "accepted",
        date[1] if date else "",
    )


def _front_matter(text: str) -> tuple[dict[str, str], str]:
    if not text.startswith("---\n"):
        return {}, text
    head, closed, rest = text[4:].partition("\n---")
    return (_fields(head.split("\n")), rest.partition("\n")[2]) if closed else ({}, text)


def _fields(lines: list[str]) -> dict[str, str]:
    matches = (_FIELD.match(line.lstrip(" \t*+-")) for line in lines)
    return {m[1].lower().replace("-", ""): m[2].strip(" \t").strip("\"'") for m in matches if m}


def _sections(text: str) -> tuple[str, list[tuple[str, str]], str]:
    """(title, [(heading, text under it, smaller headings included)], what stands between title and
    first heading).
    """
    title, lead, fenced = "", [], ""
    sections: list[tuple[str, list[str]]] = []
    lines = text.split("\n")
    for at, line in enumerate(lines):
        if fence := _FENCE.match(line):
            fenced = "" if fenced and fence[1].startswith(fenced) else fenced or fence[1][:3]
        heading = None if fenced else _HEADING.match(line)
        level, words = (len(heading[1]), heading[2]) if heading else (0, "")
        words = words.rstrip("#").rstrip(" \t")
        after = lines[at + 1] if at + 1 < len(lines) else ""
        if (
            not heading
            and not fenced
            and line.strip()
            and (under := _UNDERLINE.match(after))
            and (at == 0 or not lines[at - 1].strip())
        ):
            level, words = (1 if under[1][0] == "=" else 2), line.strip()
        if (
            _UNDERLINE.match(line)
            and at
            and lines[at - 1].strip()
            and not fenced
            and not lines[at - 1].lstrip().startswith("#")
        ):
            continue
        if level == 1 and not title:
            title = words
        elif (
            level == 2 or (level == 1 and title) or (level == 3 and words.strip().lower() in _AFTER)
        ):
            sections.append((words.strip(" *:"), []))
        elif sections:
            sections[-1][1].append(line)
        else:
            lead.append(line)
    return title, [(name, "\n".join(body).strip()) for name, body in sections], "\n".join(lead)


def _of(sections: list[tuple[str, str]], names: tuple[str, ...]) -> str:
    return "\n\n".join(
        f"## {name}\n\n{body}" for name, body in sections if name.lower() in names and body
    )


# --- taking them in ----------------------------------------------------------------


def directories(top: str) -> list[str]:
    """Where this project keeps such files, from the top of the tree; what `.adr-dir` names, else
    what is there of PLACES.
    """
    try:
        named = worktree_file.read(top, ".adr-dir", 4096) or b""
        place = os.fsdecode(named.partition(b"\n")[0].strip()).strip("/")
        path = os.path.join(top, place)
        if place and os.path.isdir(path) and worktree_file.inside(top, path):
            return [os.path.normpath(place)]
    except (MemError, ValueError):
        pass
    found: dict[tuple[int, int], str] = {}
    for place in PLACES:  # a file system may not tell adr from ADR
        path = os.path.join(top, place)
        if os.path.isdir(path) and not os.path.islink(path) and worktree_file.inside(top, path):
            facts = os.stat(path)
            found.setdefault((facts.st_dev, facts.st_ino), place)
    return list(found.values())


def take(
    store: Store,
    directory: str = "",
    *,
    scope: str = "",
    allow_secret: bool = False,
    dry: bool = False,
) -> list[Item]:
    """Takes the decision records of a directory in, or those of this project.

    Raises MemError where there are none to be found.
    """
    top = store.repo.top
    if not top:
        raise MemError("there is no working tree here", hint="run it where the files are")
    places = [_inside(top, directory)] if directory else directories(top)
    if not places:
        raise MemError(
            "no directory with decision records",
            hint=(
                "looked for docs/adr, doc/adr, docs/decisions and the like; name one: `git mem"
                " import adr DIR`"
            ),
        )
    files = [name for place in places for name in _files(top, place)]
    items, found = [], []
    for name in files:
        try:
            text = worktree_file.read(top, name, LARGEST) or b""
        except MemError as e:
            items.append(Item(name, REFUSED, reason=e.message))
            continue
        if why := record.no_text(text):
            items.append(Item(name, REFUSED, reason=why))
            continue
        got = parse(record.clean(text.decode("utf-8")))
        if got is None:
            items.append(Item(name, LEFT, reason="it states no decision"))
        elif got.status in (
            "superseded",
            "supersedes",
            "deprecated",
            "obsolete",
            "replaced",
            "withdrawn",
        ):
            items.append(Item(name, LEFT, title=got.title, reason=f"it is {got.status}"))
        else:
            found.append((name, got))
    return items + _store(store, found, places, scope, allow_secret, dry)


def _store(
    store: Store,
    found: list[tuple[str, Decision]],
    places: list[str],
    scope: str,
    allow_secret: bool,
    dry: bool,
) -> list[Item]:
    known = _known(store)
    last = _last_commits(store, places)
    items: list[Item] = []
    new: list[tuple[str, dict[str, Any]]] = []
    changed: list[tuple[str, memories.Found, dict[str, Any]]] = []
    for name, got in found:
        commit, when = last.get(name, ("", ""))
        fields = {
            "title": got.title,
            "body": got.body,
            "type": "dead-end" if got.status == "rejected" else "decision",
            "tags": ["adr", *([got.status] if got.status in ("proposed", "draft") else [])],
            "source": f"{SOURCE}{name[:800]}@{digest_of(got.title, got.body)}",
            "paths": [name],
            "provenance": "CITED",
        }
        before = known.get(name, {})
        if fields["source"] in before:
            items.append(Item(name, KNOWN, before[fields["source"]], got.title, "as it was"))
            continue
        former = _former(store, list(before.values()))
        if former is not None and not former.counts:
            items.append(
                Item(
                    name,
                    KNOWN,
                    former.memory.id,
                    got.title,
                    f"its memory was {former.memory.status}",
                )
            )
        elif former is not None and not _as_taken(former.record.data):
            items.append(
                Item(name, KNOWN, former.memory.id, got.title, "its memory was edited here")
            )
        elif former is not None:
            changed.append((name, former, fields))
        else:
            new.append(
                (
                    name,
                    {
                        **fields,
                        "commit": commit,
                        "created_at": f"{got.date}T00:00:00Z" if got.date else when,
                        **({"scope": scope} if scope else {}),
                    },
                )
            )
    if dry:
        return [
            *items,
            *(Item(name, EDITED, former.memory.id, str(f["title"])) for name, former, f in changed),
            *(Item(name, STORED, "", str(f["title"])) for name, f in new),
        ]
    for (name, former, fields), refusal in zip(
        changed,
        memories.edit_many(
            store, [(former, f) for _, former, f in changed], allow_secret=allow_secret
        ),
        strict=True,
    ):
        items.append(
            Item(
                name,
                REFUSED if refusal else EDITED,
                former.memory.id,
                str(fields["title"]),
                refusal.message if refusal else "",
            )
        )
    drafts = [{k: v for k, v in draft.items() if v} for _, draft in new]
    for (name, draft), r in zip(
        new, remember.remember(store, drafts, allow_secret=allow_secret), strict=True
    ):
        items.append(
            Item(
                name,
                {remember.STORED: STORED, remember.DUPLICATE: KNOWN}.get(r.status, REFUSED),
                r.id,
                str(draft["title"]),
                r.reason,
            )
        )
    return items


def digest_of(title: str, body: str) -> str:
    return sha256(" ".join(f"{title}\n{body}".split()).encode("utf-8", "replace")).hexdigest()[:16]


def _as_taken(data: dict[str, Any]) -> bool:
    """Whether a memory says what the file said."""
    return str(data.get("source")).rpartition("@")[2] == digest_of(
        str(data.get("title") or ""), str(data.get("body"))
    )


def _known(store: Store) -> dict[str, dict[str, str]]:
    """{file: {source: memory}} of all that was ever imported, the oldest first."""

    def read(cache: Cache) -> list[tuple[str, str]]:
        return list(
            cache.db.execute(
                "SELECT source, id FROM memory WHERE source >= ? AND source < ? ORDER BY at, row",
                (SOURCE, _UP_TO),
            )
        )

    found: dict[str, dict[str, str]] = {}
    for source, id in store.with_cache(read)[0]:
        found.setdefault(source[len(SOURCE) :].rpartition("@")[0], {})[source] = id
    return found


def _former(store: Store, ids: list[str]) -> memories.Found | None:
    """The memory of an earlier version of a file."""
    return memories.find_many(store, ids[-1:])[ids[-1]] if ids else None


def _last_commits(store: Store, places: list[str]) -> dict[str, tuple[str, str]]:
    """{file: (the commit that changed it last, its time)}, in one call of git; of files that are
    not in it, nobody knows.
    """
    if not store.repo.head():
        return {}
    mark = os.urandom(8).hex()
    out, whole = store.repo.git.limited(
        None,
        "log",
        "--no-merges",
        "--no-renames",
        "--no-show-signature",
        "--no-notes",
        "-z",
        "--name-only",
        f"--format={mark}%H %cI%x00",
        "HEAD",
        "--",
        *(f":(top,literal){place}" for place in places),
    )
    if not whole and store.repo.git.promised:
        store.warn(
            "warning: which commits wrote some decisions is not known (partial clone): they are"
            " noted at HEAD"
        )
    raw = out[: out.rfind(b"\0") + 1].decode("utf-8", "surrogateescape")
    found: dict[str, tuple[str, str]] = {}
    for part in raw.split(mark)[1:]:
        about, *names = part.split("\0")
        commit, _, when = about.partition(" ")
        for name in names:
            if name.strip("\n"):
                found.setdefault(name.strip("\n"), (commit, when))
    return found


def _inside(top: str, directory: str) -> str:
    if not os.path.isdir(directory):
        raise MemError(f"no directory '{directory}'")
    if not worktree_file.inside(top, directory):
        raise MemError(
            f"'{directory}' is not in this repository",
            hint="a memory names files of its own repository",
        )
    inside = os.path.relpath(os.path.realpath(directory), os.path.realpath(top))
    return "" if inside == "." else inside.replace(os.sep, "/")


def _files(top: str, place: str) -> list[str]:
    """Plain Markdown files of a directory and those directly below, in their order; no link."""
    found: list[str] = []
    root = os.path.join(top, place)
    for directory, names, files in os.walk(root):
        names[:] = (
            sorted(
                n
                for n in names
                if not n.startswith((".", "_"))
                and n.lower() not in ("templates", "template", "node_modules")
            )
            if directory.count(os.sep) - root.count(os.sep) < 3
            else []
        )
        for name in sorted(files):
            path = os.path.join(directory, name)
            if (
                name.lower().endswith((".md", ".markdown"))
                and not _NO_RECORD.match(name)
                and not os.path.islink(path)
            ):
                found.append(os.path.relpath(path, top).replace(os.sep, "/"))
    return found[:MOST]
