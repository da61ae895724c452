"""Decision records in the tree become memories: `git mem import adr`.

Reads Michael Nygard's form (`## Status`, `## Context`, `## Decision`, `## Consequences`), MADR in
its versions (front matter or a list with status and date, `## Decision Outcome`), and forms
between. The memory has the file's own words, the decision first. Its source names the file and a
digest of its text, so reading again adds nothing and a changed file becomes a new version of
its memory. A memory that a person edited or forgot in git mem stays as it is.

Promise: no file is changed, and no file outside of the working tree read. A superseded or
deprecated record is left out and named; a rejected one becomes a dead end.
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
_UP_TO = "adr;"  # the next character: every source of ours sorts before it
# Where tools and projects keep them; `.adr-dir` of adr-tools goes before.
_NAMES = (
    "adr adrs ADR decisions architecture/decisions architecture/adr architecture-decisions"
    " architecture_decisions rfcs/decisions"
)
PLACES = [f"{a}{b}" for a in ("docs/", "doc/", "", "documentation/") for b in _NAMES.split()]
MOST, LARGEST = 2_000, 256 * 1024  # files, bytes of one
_BODY = 12_000  # characters of a memory
STORED, EDITED, KNOWN, LEFT, REFUSED = "stored", "edited", "known", "left out", "refused"
_OVER = ("superseded", "supersedes", "deprecated", "obsolete", "replaced", "withdrawn")

_NO_RECORD = re.compile(
    r"^(?:readme|index|template|_.*|.*[-_]?template|madr|toc|\d*-?template.*)\.(?:md|markdown)$",
    re.IGNORECASE,
)
# Each takes time by the length of a text, whatever stands there: two parts never match the same.
_HEADING = re.compile(r"^(#{1,4})[ \t]+(.*)$")
_UNDERLINED = re.compile(r"(\A|\n\n)(\S[^\n]*)\n(=+|-{3,})[ \t]*(?=\n|\Z)")
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})")
_NUMBER = re.compile(r"^(?:adr|rfc|decision)?[ \-_#]*\d+[ \t]*[.:)–—-]*[ \t]*", re.IGNORECASE)
_FIELD = re.compile(r"(status|date|decision-?date|deciders|tags)\**[ \t]*:\**(.*)", re.IGNORECASE)
_DATE = re.compile(r"\b(\d{4}-\d{2}-\d{2})\b")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)


def _headings(names: str) -> frozenset[str]:
    return frozenset(names.split(", "))


_DECISION = _headings(
    "decision outcome, decision, decisions, the decision, outcome, resolution, solution, the rule,"
    " rule, chosen option"
)
_CONTEXT = _headings(
    "context and problem statement, context, problem, problem statement, background, issue,"
    " motivation"
)
_AFTER = _headings(
    "consequences, positive consequences, negative consequences, implications, trade-offs,"
    " tradeoffs, rationale, argument, why"
)


class Decision(NamedTuple):
    """One file read. `status` is a word in lower case, "accepted" where the file names none."""

    title: str
    body: str
    status: str
    date: str


class Item(NamedTuple):
    """The outcome for one file."""

    path: str
    status: str
    id: str = ""
    title: str = ""
    reason: str = ""


# Reading one file


def parse(text: str) -> Decision | None:
    """The decision in a file; None for a text that states none."""
    text = text.replace("\r\n", "\n").lstrip("\ufeff")
    front, text = _front_matter(text)
    title, sections, lead = _sections(_COMMENT.sub("", text))
    by_name = {name.lower(): body for name, body in reversed(sections)}
    fields = {**_fields(lead), **front}
    parts = [part for names in (_DECISION, _CONTEXT, _AFTER) for part in _named(sections, names)]
    if not title or not parts or _DECISION.isdisjoint(by_name):
        return None
    body = "\n\n".join(parts)
    if len(body) > _BODY:
        body = body[:_BODY].rsplit("\n", 1)[0] + "\n…"
    status = re.findall(r"[a-z]+", (by_name.get("status") or fields.get("status", "")).lower())
    dates = (fields.get("date"), fields.get("decisiondate"), by_name.get("date"))
    date = _DATE.search(next(filter(None, dates), ""))
    return Decision(
        " ".join(_NUMBER.sub("", title).split())[:200] or title[:200],
        body,
        status[0] if status else "accepted",
        date[1] if date else "",
    )


def _front_matter(text: str) -> tuple[dict[str, str], str]:
    if not text.startswith("---\n"):
        return {}, text
    head, closed, rest = text[4:].partition("\n---")
    return (_fields(head), rest.partition("\n")[2]) if closed else ({}, text)


def _fields(text: str) -> dict[str, str]:
    matches = (_FIELD.match(line.lstrip(" \t*+-")) for line in text.split("\n"))
    return {m[1].lower().replace("-", ""): m[2].strip(" \t").strip("\"'") for m in matches if m}


def _sections(text: str) -> tuple[str, list[tuple[str, str]], str]:
    """(title, [(heading, text under it with smaller headings)], text before the first heading)."""
    text = _UNDERLINED.sub(lambda m: f"{m[1]}{'#' if m[3][0] == '=' else '##'} {m[2]}", text)
    title, fence = "", ""
    lead: list[str] = []
    sections: list[tuple[str, list[str]]] = []
    for line in text.split("\n"):
        if found := _FENCE.match(line):
            fence = "" if fence and found[1].startswith(fence) else fence or found[1][:3]
        heading = None if fence else _HEADING.match(line)
        level, name = (len(heading[1]), heading[2].rstrip("# \t")) if heading else (0, "")
        if level == 1 and not title:
            title = name
        elif level in (1, 2) or (level == 3 and name.strip().lower() in _AFTER):
            sections.append((name.strip(" *:"), []))
        else:
            (sections[-1][1] if sections else lead).append(line)
    return title, [(name, "\n".join(body).strip()) for name, body in sections], "\n".join(lead)


def _named(sections: list[tuple[str, str]], names: frozenset[str]) -> list[str]:
    return [f"## {name}\n\n{body}" for name, body in sections if name.lower() in names and body]


# Finding the files


def directories(top: str) -> list[str]:
    """Where this project keeps such files: the directory in `.adr-dir`, else those of PLACES that
    exist.
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
    """The Markdown files of a directory and of up to three levels below, in their order; no
    link.
    """
    found: list[str] = []
    root = os.path.join(top, place)
    for directory, names, files in os.walk(root):
        deep = directory.count(os.sep) - root.count(os.sep) >= 3
        skipped = ("templates", "template", "node_modules")
        names[:] = sorted(
            n for n in names if not (deep or n.startswith((".", "_")) or n.lower() in skipped)
        )
        for name in sorted(files):
            path = os.path.join(directory, name)
            markdown = name.lower().endswith((".md", ".markdown")) and not _NO_RECORD.match(name)
            if markdown and not os.path.islink(path):
                found.append(os.path.relpath(path, top).replace(os.sep, "/"))
    return found[:MOST]


# Taking them in


def take(
    store: Store,
    directory: str = "",
    *,
    scope: str = "",
    allow_secret: bool = False,
    dry: bool = False,
) -> list[Item]:
    """Imports the decision records of a directory, or of this project.

    Raises MemError where it finds no directory.
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
    items: list[Item] = []
    found: list[tuple[str, Decision]] = []
    for name in (name for place in places for name in _files(top, place)):
        read = _read(top, name)
        if isinstance(read, Item):
            items.append(read)
        else:
            found.append((name, read))
    new, changed = [], []
    known, last = _known(store), _last_commits(store, places)
    for name, got in found:
        fields = _fields_of(name, got)
        imported = known.get(name, {})
        if fields["source"] in imported:
            items.append(Item(name, KNOWN, imported[fields["source"]], got.title, "as it was"))
            continue
        former = _former(store, imported)
        if former is not None and (why := _settled(former)):
            items.append(Item(name, KNOWN, former.memory.id, got.title, why))
        elif former is not None:
            changed.append((name, former, fields))
        else:
            commit, when = last.get(name, ("", ""))
            at = f"{got.date}T00:00:00Z" if got.date else when
            draft = {**fields, "commit": commit, "created_at": at, "scope": scope}
            new.append((name, {k: v for k, v in draft.items() if v}))
    if dry:
        items += [Item(n, EDITED, former.memory.id, f["title"]) for n, former, f in changed]
        return items + [Item(n, STORED, "", f["title"]) for n, f in new]
    edits = [(former, fields) for _, former, fields in changed]
    refusals = memories.edit_many(store, edits, allow_secret=allow_secret)
    for (name, former, fields), refusal in zip(changed, refusals, strict=True):
        status, why = (REFUSED, refusal.message) if refusal else (EDITED, "")
        items.append(Item(name, status, former.memory.id, fields["title"], why))
    results = remember.remember(store, [draft for _, draft in new], allow_secret=allow_secret)
    words = {remember.STORED: STORED, remember.DUPLICATE: KNOWN}
    for (name, draft), r in zip(new, results, strict=True):
        items.append(Item(name, words.get(r.status, REFUSED), r.id, draft["title"], r.reason))
    return items


def _read(top: str, name: str) -> Decision | Item:
    """The decision in a file, or why it is not taken in."""
    try:
        raw = worktree_file.read(top, name, LARGEST) or b""
    except MemError as e:
        return Item(name, REFUSED, reason=e.message)
    if why := record.no_text(raw):
        return Item(name, REFUSED, reason=why)
    got = parse(record.clean(raw.decode("utf-8")))
    if got is None:
        return Item(name, LEFT, reason="it states no decision")
    if got.status in _OVER:
        return Item(name, LEFT, title=got.title, reason=f"it is {got.status}")
    return got


def _fields_of(name: str, got: Decision) -> dict[str, Any]:
    return {
        "title": got.title,
        "body": got.body,
        "type": "dead-end" if got.status == "rejected" else "decision",
        "tags": ["adr", *([got.status] if got.status in ("proposed", "draft") else [])],
        "source": f"{SOURCE}{name[:800]}@{digest_of(got.title, got.body)}",
        "paths": [name],
        "provenance": "CITED",
    }


def digest_of(title: str, body: str) -> str:
    return sha256(" ".join(f"{title}\n{body}".split()).encode("utf-8", "replace")).hexdigest()[:16]


def _known(store: Store) -> dict[str, dict[str, str]]:
    """{file: {source: memory}} of all files that were ever imported, the oldest first."""
    sql = "SELECT source, id FROM memory WHERE source >= ? AND source < ? ORDER BY at, row"

    def read(cache: Cache) -> list[tuple[str, str]]:
        return list(cache.db.execute(sql, (SOURCE, _UP_TO)))

    found: dict[str, dict[str, str]] = {}
    for source, id in store.with_cache(read)[0]:
        found.setdefault(source[len(SOURCE) :].rpartition("@")[0], {})[source] = id
    return found


def _former(store: Store, imported: dict[str, str]) -> memories.Found | None:
    """The memory of the last version of a file that was imported."""
    ids = list(imported.values())[-1:]
    return memories.find_many(store, ids)[ids[0]] if ids else None


def _settled(former: memories.Found) -> str:
    """Why a memory stays although its file changed, "" where it follows the file."""
    if not former.counts:
        return f"its memory was {former.memory.status}"
    data = former.record.data
    digest = digest_of(str(data.get("title") or ""), str(data.get("body")))
    edited = str(data.get("source")).rpartition("@")[2] != digest
    return "its memory was edited here" if edited else ""


def _last_commits(store: Store, places: list[str]) -> dict[str, tuple[str, str]]:
    """{file: (the commit that changed it last, its time)}, in one call of git."""
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
