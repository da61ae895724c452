"""Decision records in the tree become memories: `git mem import adr`.

A record is a title and parts: headings (Michael Nygard, adr-tools, MADR), run-in headings
("**Decision.** …", "Status: accepted") or plain text. The memory has the file's own words, the
decision first. Its source names the file and a digest of its text, so reading again adds nothing
and a changed file is a new version. A memory that a person edited or forgot stays as it is. A
superseded record is left out and named; a rejected one becomes a dead end.

Promise: no file is changed, and no file outside of the working tree read.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, islice
from typing import Any, NamedTuple

from ..core import front_matter, record
from ..core.errors import MemError, Refused
from ..core.progress import counted
from ..engine.document import content_digest
from ..git import worktree_file
from ..store import Store
from . import memories, remember

SOURCE = "adr:"
# Where tools and projects keep them; `.adr-dir` of adr-tools goes before.
_NAMES = "adr adrs decisions architecture/decisions architecture-decisions".split()
PLACES = [f"{above}{name}" for above in ("docs/", "doc/", "") for name in _NAMES]
MOST, LARGEST = 2_000, 256 * 1024  # files, bytes of one
_BODY = 12_000  # characters of a memory
STORED, REFUSED = remember.STORED, remember.REFUSED
EDITED, KNOWN, LEFT = "edited", "known", "left out"
_OVER = frozenset("superseded superceded deprecated obsolete replaced withdrawn".split())
_IN_FORCE = ("accepted", "approved", "decided", "done", "implemented", "active", "adopted")

# Files that explain records or show their form, where their names have no number.
_NO_RECORD = re.compile(r"^_|^readme\b|(?:^|[-_ ])template(?:[-_. ]|$)", re.IGNORECASE)
_NUMBERED = re.compile(r"^(?:adr|rfc|decision)?[-_ ]?0*[1-9]", re.IGNORECASE)
# Each takes time by the length of a text, whatever stands there: two parts never match the same.
_HEADING = re.compile(r"^(##?)[ \t]+(.*)$")
_RUN_IN = re.compile(r"^[ \t*_+-]*([A-Za-z][^*_:.\n]{0,40})([.:]?(?:\*\*|__)[.:]?|:)")
_NUMBER = re.compile(
    r"^(?:\[?(?:adr|rfc|decision)[ _#-]*\d+\]?[ \t]*[.:)–—-]*|0*\d+[ \t]*[.:)–—-]|0\d+)[ "
    r"\t]+",
    re.IGNORECASE,
)
_DATE = re.compile(r"\b(\d{4}-\d{2}-\d{2})\b")
_BY = re.compile(r"\bby\b\D{0,200}?0*(\d+)", re.IGNORECASE)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_PLACEHOLDER = re.compile(r"[{\[<][^(]*[}\]>]")

# Names of parts, in lower case: facts about the record, what was decided, and what plain text
# ("Context: …") sets apart.
_FACTS = ("status", "date")
_DECISION = "decision outcome, decision, decisions, outcome, resolution, solution".split(", ")
_PARTS = {*_DECISION, *"context background problem consequences rationale alternatives".split()}


class Decision(NamedTuple):
    title: str
    body: str
    status: str  # a word in lower case, "accepted" where the file names none
    date: str
    successor: str  # the number of the record that took its place, "" for none


class Item(NamedTuple):
    path: str
    status: str
    id: str = ""
    title: str = ""
    reason: str = ""


# Reading one file


def parse(text: str, name: str = "") -> Decision | str:
    """The decision in a file of this name, or why there is none.

    Text without a part that decides is one where a status, or a number in name or title, says so.
    """
    title, facts, parts = _parts(text.replace("\r\n", "\n"))
    plain = " ".join(_NUMBER.sub("", title).split())[:200] or title[:200]
    if _PLACEHOLDER.fullmatch(plain):
        return "it is a template"
    decided = [part for name, part in parts if name in _DECISION]
    is_record = decided or "status" in facts or plain != title or _NUMBERED.match(name)
    body = "\n\n".join([*decided, *(part for name, part in parts if name not in _DECISION)])
    if body and not title:
        return "it has no title"
    if not (body and is_record):
        return "it states no decision"
    stated = facts.get("status", "").strip()
    words = re.findall(r"[a-z]+", stated.lower()) or ["accepted"]
    over = not {"partly", "partially"} & {*words}
    status = next((word for word in words if over and word in _OVER), words[0])
    if status not in _IN_FORCE:
        body = f"Status: {stated.partition(chr(10))[0][:200]}\n\n{body}"
    if len(body) > _BODY:
        body = body[:_BODY].rsplit("\n", 1)[0] + "\n…"
    date = _DATE.search(facts.get("date", ""))
    by = _BY.search(stated) if status in _OVER else None
    return Decision(plain, body, status, date[1] if date else "", by[1] if by else "")


def _parts(text: str) -> tuple[str, dict[str, str], list[tuple[str, str]]]:
    """(title, {fact: text}, [(name in lower case, "" before the first; text with its heading)]).

    Headings of the second level begin parts; run-in ones do where none did.
    """
    front, text = front_matter.split(text)
    facts = {key.lower(): str(value) for key, value in (front or {}).items()}
    title, fenced, headings = "", False, False
    parts: list[tuple[str, list[str]]] = [("", [])]
    for line in _COMMENT.sub("", text).strip().split("\n"):
        fenced ^= line.lstrip().startswith(("```", "~~~"))
        heading = None if fenced else _HEADING.match(line)
        run_in = None if fenced or headings else _RUN_IN.match(line)
        word = run_in[1].strip().lower() if run_in else ""
        if heading and heading[1] == "#" and not title:
            title = heading[2].strip("# \t")
        elif heading:
            headings = True
            parts.append((_NUMBER.sub("", heading[2]).strip(" *:#").lower(), [line]))
        elif run_in and word in _FACTS:
            facts.setdefault(word, line[run_in.end() :])
        elif run_in and (word in _PARTS or len(run_in[2]) == 3):
            parts.append((word, [line]))
        else:
            parts[-1][1].append(line)
    first = parts[0][1]
    title = title or facts.get("title") or (first.pop(0) if first else "")
    for name, lines in parts:
        if name in _FACTS:
            facts.setdefault(name, "\n".join(lines[1:]))
    kept = [
        (name, "\n".join(lines).strip())
        for name, lines in parts
        if name not in _FACTS and any(line.strip("# ") and line[0] != "#" for line in lines)
    ]
    return title.strip(), facts, kept


# Finding the files


def directories(top: str) -> list[str]:
    """The directory in `.adr-dir`, else those of PLACES that exist."""
    with suppress(MemError, ValueError):
        named = worktree_file.read(top, ".adr-dir", 4096) or b""
        if place := os.fsdecode(named.partition(b"\n")[0].strip()).strip("/"):
            return [_inside(top, os.path.join(top, place))]
    paths = [os.path.join(top, place) for place in PLACES]
    found = [path for path in paths if os.path.isdir(path) and not os.path.islink(path)]
    return [os.path.relpath(path, top) for path in found if worktree_file.inside(top, path)]


def _inside(top: str, directory: str) -> str:
    if not os.path.isdir(directory):
        raise MemError(f"no directory '{directory}'")
    if not worktree_file.inside(top, directory):
        hint = "a memory names files of its own repository"
        raise MemError(f"'{directory}' is not in this repository", hint=hint)
    return os.path.relpath(os.path.realpath(directory), os.path.realpath(top))


def _files(top: str, places: list[str]) -> Iterator[tuple[str, Decision | Item]]:
    """Each file of these directories and what it decides, or why it is left out; no links."""
    walks = [os.walk(os.path.join(top, place)) for place in places]
    for directory, names, files in chain(*walks):
        names[:] = sorted(n for n in names if not n.startswith((".", "_", "template")))
        for name in sorted(files):
            path, low = os.path.join(directory, name), name.lower()
            shown = os.path.relpath(path, top).replace(os.sep, "/")
            if low.endswith((".adoc", ".rst", ".org", ".txt")):
                yield shown, Item(shown, LEFT, reason="it is no Markdown")
            elif not low.endswith((".md", ".markdown")) or os.path.islink(path):
                continue
            elif _NO_RECORD.search(low) and not _NUMBERED.match(low):
                yield shown, Item(shown, LEFT, reason="by its name it is no record")
            else:
                yield shown, _read(top, shown)


def _read(top: str, name: str) -> Decision | Item:
    try:
        raw = worktree_file.read(top, name, LARGEST) or b""
    except MemError as e:
        return Item(name, REFUSED, reason=e.message)
    if why := record.no_text(raw):
        return Item(name, REFUSED, reason=why)
    got = parse(record.clean(raw.decode("utf-8")), name.rpartition("/")[2])
    return Item(name, LEFT, reason=got) if isinstance(got, str) else got


# Taking them in


class _Step(NamedTuple):
    """One file: what becomes of it; what to write; the memory of its text before, if there is one;
    the number of the record that took its place.
    """

    item: Item
    fields: dict[str, Any] | None = None
    former: memories.Found | None = None
    successor: str = ""


def waiting(store: Store) -> int:
    """How many of the project's decision records are no memory yet; looks at 500 files at most."""
    top = store.repo.top
    if not top or not (places := directories(top)):
        return 0
    known, _ = _known(store)
    new = (got for name, got in islice(_files(top, places), 500) if name not in known)
    return sum(isinstance(got, Decision) and got.status not in _OVER for got in new)


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
        hint = "looked for docs/adr, doc/adr, docs/decisions and the like; name one:"
        hint += " `git mem import adr DIR`"
        raise MemError("no directory with decision records", hint=hint)
    with store.progress("reading decisions", None) as advance:
        steps = list(counted(_steps(store, places, scope), advance))
    return [step.item for step in steps] if dry else _written(store, steps, allow_secret)


def _steps(store: Store, places: list[str], scope: str) -> Iterator[_Step]:
    (by_file, by_text), last = _known(store), _last_commits(store, places)
    for name, got in islice(_files(store.repo.top, places), MOST):
        if isinstance(got, Item):
            yield _Step(got)
            continue
        digest = _digest(got.title, got.body)
        fields: dict[str, Any] = {
            "title": got.title,
            "body": got.body,
            "type": "dead-end" if got.status in ("rejected", "declined") else "decision",
            "tags": ["adr"],
            "source": f"{SOURCE}{name[:800]}@{digest}",
            "paths": [name],
            "provenance": "CITED",
        }
        if digest in by_text:
            yield _Step(Item(name, KNOWN, by_text[digest], got.title, "as it was"))
        elif name in by_file:
            former = memories.find(store, by_file[name])
            if why := _settled(former):
                yield _Step(Item(name, LEFT, former.memory.id, got.title, why))
            else:
                item = Item(name, EDITED, former.memory.id, got.title)
                yield _Step(item, fields, former, got.successor)
        elif got.status in _OVER:
            yield _Step(Item(name, LEFT, title=got.title, reason=f"it is {got.status}"))
        else:
            commit, at = last.get(name, ("", ""))
            with suppress(Refused):  # a day that no calendar has
                at = record.timestamp(got.date) if got.date else at
            about = {"commit": commit, "created_at": at, "scope": scope}
            fields |= {name: value for name, value in about.items() if value}
            yield _Step(Item(name, STORED, title=got.title), fields)


def _written(store: Store, steps: list[_Step], allow_secret: bool) -> list[Item]:
    items = [step.item for step in steps]
    new = {at: step.fields for at, step in enumerate(steps) if step.fields and not step.former}
    how: Any = {"total": len(new), "allow_secret": allow_secret}
    results = [*remember.remember_many(store, new.values(), **how)]
    for at, r in zip(new, results, strict=True):
        status = KNOWN if r.status == remember.DUPLICATE else r.status
        items[at] = items[at]._replace(status=status, id=r.id, reason=r.reason)
    # Names that begin with a day, or two directories, give several records one number.
    counts = Counter(_number(item.path) for item in items if item.id)
    by_number = {
        number: item.id for item in items if item.id and counts[number := _number(item.path)] == 1
    }
    for at, (item, fields, former, successor) in enumerate(steps):
        if not former or not fields:
            continue
        stay = by_number.get(successor, item.id)
        try:
            if stay == item.id:
                memories.edit(store, item.id, fields, allow_secret=allow_secret)
            else:
                memories.replace(store, memories.find(store, stay), former, {})
                items[at] = item._replace(reason=f"memory {stay[:8]} took its place")
        except MemError as e:
            items[at] = item._replace(status=REFUSED, reason=e.message)
    return items


def _number(path: str) -> str:
    found = re.match(r"\D*0*(\d+)", path.rpartition("/")[2])
    return found[1] if found else path


def _known(store: Store) -> tuple[dict[str, str], dict[str, str]]:
    """({file: memory}, {digest of a text: memory}) of all that was ever imported."""
    sql = "SELECT source, id FROM memory WHERE source GLOB ? ORDER BY at, row"
    rows, _ = store.with_cache(lambda cache: cache.db.execute(sql, (SOURCE + "*",)).fetchall())
    names = [(source[len(SOURCE) :].rpartition("@"), id) for source, id in rows]
    return {name: id for (name, _, _), id in names}, {digest: id for (_, _, digest), id in names}


def _digest(title: str, body: str) -> str:
    return content_digest(title, body).hex()[:16]


def _settled(former: memories.Found) -> str:
    """Why a memory stays although its file changed, "" where it follows the file."""
    if not former.counts:
        return f"its memory was {former.memory.status}"
    data = former.record.data
    digest = _digest(str(data.get("title") or ""), str(data.get("body")))
    return "" if str(data.get("source")).endswith("@" + digest) else "its memory was edited here"


def _last_commits(store: Store, places: list[str]) -> dict[str, tuple[str, str]]:
    """{file: (the commit that changed it last, its time)}, as far as this clone knows them."""
    if not store.repo.head():
        return {}
    out, _ = store.repo.git.limited(
        None,
        *("log", "--no-merges", "--no-renames", "--no-show-signature", "--no-notes", "-z"),
        *("--name-only", "--format=%x01%H %cI%x00", "HEAD", "--"),
        *(f":(top,literal){place}" for place in places),
    )
    found: dict[str, tuple[str, str]] = {}
    whole = out[: out.rfind(b"\0") + 1].decode("utf-8", "surrogateescape")
    for part in whole.split("\x01")[1:]:
        about, *names = part.split("\0")
        commit, _, when = about.partition(" ")
        for name in names:
            found.setdefault(name.strip("\n"), (commit, when))
    return found
