"""Decision records in the tree become memories: `git mem import adr`.

Reads Michael Nygard's form and MADR in its versions. The memory has the file's own words, the
decision first. Its source names the file and a digest of its text, so reading again adds nothing
and a changed file is a new version. A memory that a person edited or forgot stays as it is. A
superseded record is left out and named; a rejected one becomes a dead end.

Promise: no file is changed, and no file outside of the working tree read.
"""

from __future__ import annotations

import os
import re
from typing import Any, NamedTuple

from ..core import record
from ..core.errors import MemError
from ..engine.document import content_digest
from ..git import worktree_file
from ..store import Store
from . import memories, remember

SOURCE = "adr:"
# Where tools and projects keep them; `.adr-dir` of adr-tools goes before.
_NAMES = (
    "adr adrs ADR decisions architecture/decisions architecture/adr architecture-decisions"
    " architecture_decisions rfcs/decisions"
).split()
PLACES = [f"{a}{b}" for a in ("docs/", "doc/", "", "documentation/") for b in _NAMES]
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
_FRONT = re.compile(r"---\n(.*?)\n---[^\n]*\n?", re.DOTALL)
_FIELD = re.compile(r"(?im)^[ \t*+-]*(status|date|decision-?date)\**[ \t]*:\**(.*)")
_DATE = re.compile(r"\b(\d{4}-\d{2}-\d{2})\b")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)


# Headings, in lower case
_DECISION = (
    "decision outcome, decision, decisions, the decision, outcome, resolution, solution, the rule,"
    " rule, chosen option"
).split(", ")
_CONTEXT = (
    "context and problem statement, context, problem, problem statement, background, issue,"
    " motivation"
).split(", ")
_AFTER = (
    "consequences, positive consequences, negative consequences, implications, trade-offs,"
    " tradeoffs, rationale, argument, why"
).split(", ")


class Decision(NamedTuple):
    title: str
    body: str
    status: str  # a word in lower case, "accepted" where the file names none
    date: str


class Item(NamedTuple):
    path: str
    status: str
    id: str = ""
    title: str = ""
    reason: str = ""


# Reading one file


def parse(text: str) -> Decision | None:
    """The decision in a file; None for a text that states none."""
    text = text.replace("\r\n", "\n").lstrip("\ufeff")
    front = _FRONT.match(text)
    title, sections, lead = _sections(_COMMENT.sub("", text[front.end() :] if front else text))
    by_name = {name.lower(): body for name, body in reversed(sections)}
    named = _FIELD.findall(f"{lead}\n{front[1]}" if front else lead)
    fields = {name.lower().replace("-", ""): value.strip(" \t\"'") for name, value in named}
    parts = [
        f"## {name}\n\n{body}"
        for names in (_DECISION, _CONTEXT, _AFTER)
        for name, body in sections
        if name.lower() in names and body
    ]
    if not title or not parts or by_name.keys().isdisjoint(_DECISION):
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


# Finding the files


def directories(top: str) -> list[str]:
    """The directory in `.adr-dir`, else those of PLACES that exist."""
    try:
        named = worktree_file.read(top, ".adr-dir", 4096) or b""
        if place := os.fsdecode(named.partition(b"\n")[0].strip()).strip("/"):
            return [_inside(top, os.path.join(top, place))]
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
    return os.path.relpath(os.path.realpath(directory), os.path.realpath(top))


def _files(top: str, place: str) -> list[str]:
    """The Markdown files of a directory and of up to three levels below; no links."""
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
    """Imports the decision records of a directory, or of this project; `dry`: writes nothing."""
    top = store.repo.top
    if not top:
        raise MemError("there is no working tree here", hint="run it where the files are")
    places = [_inside(top, directory)] if directory else directories(top)
    if not places:
        raise MemError(
            "no directory with decision records",
            hint="looked for docs/adr, doc/adr, docs/decisions and the like; name one:"
            " `git mem import adr DIR`",
        )
    known, last = _known(store), _last_commits(store, places)
    items: list[Item] = []
    new: dict[int, dict[str, Any]] = {}  # by places in `items`
    changed: dict[int, tuple[memories.Found, dict[str, Any]]] = {}
    for name in (name for directory in places for name in _files(top, directory)):
        got = _read(top, name)
        if isinstance(got, Item):
            items.append(got)
            continue
        fields = _fields_of(name, got)
        versions = known.get(name, {})
        id = versions.get(fields["source"], "")
        if id:
            items.append(Item(name, KNOWN, id, got.title, "as it was"))
        elif versions:
            id = list(versions.values())[-1]
            former = memories.find_many(store, [id])[id]
            why = _settled(former)
            if not why:
                changed[len(items)] = (former, fields)
            items.append(Item(name, KNOWN if why else EDITED, id, got.title, why))
        else:
            commit, when = last.get(name, ("", ""))
            at = f"{got.date}T00:00:00Z" if got.date else when
            draft = {**fields, "commit": commit, "created_at": at, "scope": scope}
            new[len(items)] = {k: v for k, v in draft.items() if v}
            items.append(Item(name, STORED, "", got.title))
    if dry:
        return items
    refusals = memories.edit_many(store, changed.values(), allow_secret=allow_secret)
    for place, refusal in zip(changed, refusals, strict=True):
        if refusal:
            items[place] = items[place]._replace(status=REFUSED, reason=refusal.message)
    results = remember.remember(store, new.values(), allow_secret=allow_secret)
    words = {remember.STORED: STORED, remember.DUPLICATE: KNOWN, remember.REFUSED: REFUSED}
    for place, r in zip(new, results, strict=True):
        items[place] = items[place]._replace(status=words[r.status], id=r.id, reason=r.reason)
    return items


def _read(top: str, name: str) -> Decision | Item:
    """The decision in a file, or why there is none."""
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
        "source": f"{SOURCE}{name[:800]}@{content_digest(got.title, got.body).hex()[:16]}",
        "paths": [name],
        "provenance": "CITED",
    }


def _known(store: Store) -> dict[str, dict[str, str]]:
    """{file: {source: memory}} of all files that were ever imported, the oldest first."""
    sql = "SELECT source, id FROM memory WHERE source GLOB ? ORDER BY at, row"
    rows, _ = store.with_cache(lambda cache: cache.db.execute(sql, (SOURCE + "*",)).fetchall())
    found: dict[str, dict[str, str]] = {}
    for source, id in rows:
        found.setdefault(source[len(SOURCE) :].rpartition("@")[0], {})[source] = id
    return found


def _settled(former: memories.Found) -> str:
    """Why a memory stays although its file changed, "" where it follows the file."""
    if not former.counts:
        return f"its memory was {former.memory.status}"
    data = former.record.data
    digest = content_digest(str(data.get("title") or ""), str(data.get("body"))).hex()[:16]
    return "" if str(data.get("source")).endswith("@" + digest) else "its memory was edited here"


def _last_commits(store: Store, places: list[str]) -> dict[str, tuple[str, str]]:
    """{file: (the commit that changed it last, its time)}, in one call of git."""
    if not store.repo.head():
        return {}
    mark = os.urandom(8).hex()
    out, complete = store.repo.git.limited(
        None,
        *("log", "--no-merges", "--no-renames", "--no-show-signature", "--no-notes", "-z"),
        *("--name-only", f"--format={mark}%H %cI%x00", "HEAD", "--"),
        *(f":(top,literal){place}" for place in places),
    )
    if not complete and store.repo.git.promised:
        store.warn(
            "warning: which commits wrote some decisions is not known (partial clone): they are"
            " noted at HEAD"
        )
    found: dict[str, tuple[str, str]] = {}
    whole = out[: out.rfind(b"\0") + 1].decode("utf-8", "surrogateescape")
    for part in whole.split(mark)[1:]:
        about, *names = part.split("\0")
        commit, _, when = about.partition(" ")
        for name in names:
            found.setdefault(name.strip("\n"), (commit, when))
    return found
