"""Receipts: the memories an agent's session was given, with HEAD and the tips of the notes refs.

Hooks only append to the session's file (`session`); the worker makes one record of op `receipt` for
each part of a session that ended, or was idle for a day (Codex tells no end, and a client may
crash), all in one commit of the private notes. It also says which of them were used (`usage`,
`usage_records`). `docs/format.md` has the fields: short names of memories, object ids, times and
counts, no text of a memory, a prompt or a path. A receipt is no memory.

Promise: nothing is written twice. A part is named by its session and its first line, so a worker
that was killed before it marked the file names it again as it did, and of records with one name the
fullest counts. A session that is resumed after its end gets another receipt, for what was new then.

What cannot be known: a session that was forked, or resumed under a new id, has its predecessor's
memories before it; its receipts name only what it was given itself.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..core import confidence, record, short
from ..core.digest import sha256
from ..core.errors import MemError
from ..core.plural import many
from ..engine import usage_store
from ..engine.cache import Cache
from ..engine.memory_rows import PRIVATE
from ..feedback import usage, usage_records, usage_stats
from ..store import Store
from . import session
from .session import Entry

IDLE = 24 * 3600  # seconds without a line after which a session counts as ended
LATE = 3600  # seconds after which a worker should have written a receipt
_UUID = frozenset("0123456789abcdefABCDEF-")


def tend(store: Store, now: float | None = None) -> int:
    """Writes all receipts that are due, then removes old session files; returns how many."""
    now = time.time() if now is None else now
    made: dict[str, dict[str, Any]] = {}
    covered: list[tuple[str, Entry]] = []
    for path, parts in due(store.repo.mem_dir, now):
        made.update({draft["id"]: draft for draft in _drafts(store, path, parts) if draft})
        covered.append((path, parts[-1][-1]))
    if made:
        names = [id.encode() for id in made]
        sql = "SELECT raw FROM line WHERE op = 'receipt' AND memory IN {}"
        written = {raw for (raw,) in store.with_cache(lambda cache: cache.among(sql, names))[0]}
        # Not signed: they are this clone's own, and a worker can ask nobody for a passphrase.
        lines = [line for line in map(record.dump, made.values()) if line not in written]
        if lines:
            message = f"git mem: {many(len(made), 'receipt')}"
            store.append("private", [("", line) for line in lines], message)
    for path, entry in covered:
        session.mark(path, entry)
    session.evict(store.repo.mem_dir, now)
    return len(made)


def due(mem_dir: str, now: float) -> list[tuple[str, list[list[Entry]]]]:
    """(file, its parts that are over and without a receipt), the oldest file first. A part reaches
    to an end of the session, or to now where it is idle.
    """
    found = []
    for path, last in session.files(mem_dir):
        parts = _parts(session.pending(path))
        if parts and now - last <= IDLE and parts[-1][-1][0] != "end":
            parts.pop()
        if parts:
            found.append((path, parts))
    return found


def _parts(entries: list[Entry]) -> list[list[Entry]]:
    """Lines of a session, cut after each end."""
    parts: list[list[Entry]] = [[]]
    for entry in entries:
        parts[-1].append(entry)
        if entry[0] == "end":
            parts.append([])
    return [part for part in parts if part]


def _drafts(store: Store, path: str, parts: list[list[Entry]]) -> list[dict[str, Any] | None]:
    """The receipt of each part of a session's file."""
    entries = session.entries(path)
    first = next((i for i, entry in enumerate(entries) if parts and entry[3] == parts[0][0][3]), 0)
    name = next((values[0] for kind, _, values, _ in entries if kind == "id" and values), "")
    if len(name) != 36 or not _UUID.issuperset(name):
        name = os.path.basename(path)  # an agent's name for it may be any text
    before = entries[:first]
    out = []
    for part in parts:
        out.append(_draft(store, name.lower(), before, part))
        before = before + part
    return out


def _shown(entries: list[Entry]) -> list[tuple[dict[str, str], list[str]]]:
    """(`name=value` words, ids) of each line that tells of memories shown."""
    out = []
    for kind, _, values, _ in entries:
        if kind == "shown":
            about = dict(v.split("=", 1) for v in values if "=" in v)
            out.append((about, [v for v in values if confidence.is_id(v)]))
    return out


def _routes(entries: list[Entry]) -> dict[str, dict[str, None]]:
    """{route: ids that were told by it}"""
    out: dict[str, dict[str, None]] = {}
    for about, ids in _shown(entries):
        route = about.get("route", "")
        if route not in session.ROUTES:
            route = "prompt"
        out.setdefault(route, {}).update(dict.fromkeys(ids))
    return out


def _draft(
    store: Store, name: str, before: list[Entry], part: list[Entry]
) -> dict[str, Any] | None:
    """The receipt of one part after the lines `before`, None where it would say nothing new."""
    about: dict[str, str] = {}
    for words, _ in _shown(part):
        about = {**words, **about}  # the first values count
    earlier = _routes(before)
    ever = {id for ids in earlier.values() for id in ids}
    # A prompt or a file weighs more than what everybody is told (`confidence.NEGLECT`).
    old = {route: earlier.get(route, {}).keys() for route in confidence.MEANT}
    new = {
        route: [id for id in ids if id not in old.get(route, ever)]
        for route, ids in sorted(_routes(part).items())
    }
    touched = {path for kind, _, values, _ in part if kind == "touched" for path in values}
    answers, use, unsure = _use(store, before, part, touched)
    starts, ends = ([e[2] for e in part if e[0] == kind] for kind in ("start", "end"))
    fields = {
        "session": name,
        "agent": _word(about.get("agent", "")),
        "source": _word("".join(starts[0][:1]) if starts else ""),
        "end": _word("".join(ends[-1][:1]) if ends else "idle"),
        "started": record.stored(part[0][1]),
        "head": record.object_id(about.get("head")),
        "tips": {
            ref: tip
            for ref, tip in sorted(about.items())
            if ref.startswith("refs/notes/") and record.object_id(tip)
        },
        "shown": {route: short.pack(ids) for route, ids in new.items() if ids},
        # Memories that may have been used: they count neither as used nor as neglected.
        "open": short.pack(sorted({id for ids in new.values() for id in ids if id in unsure})),
        "files": len(touched),
        "use": {short.pack([id]): counts for id, counts in use.items()},
        "answers": answers,
    }
    if not fields["shown"] and not use:
        return None
    id = sha256(b"git mem receipt\n" + name.encode() + b"\n" + part[0][3]).hexdigest()
    head = {"v": record.FORMAT, "op": "receipt", "id": id[:32], "at": record.stored(part[-1][1])}
    return {**head, **{k: v for k, v in fields.items() if v}}


def _use(
    store: Store, before: list[Entry], part: list[Entry], touched: set[str]
) -> tuple[int, dict[str, list[int]], set[str]]:
    """(answers that cite a memory, {id: [its citations, its changed files, memories that share the
    fewest-shared of them]}, ids that may have been used).
    """
    whole = [*before, *part]
    shown = _shown(whole)
    known = {id for _, ids in shown for id in ids}
    cited = [known.intersection(values) for kind, _, values, _ in part if kind == "cited"]
    heads = {about["head"] for about, _ in shown if "head" in about}
    named, doubtful = usage_records.naming(store, touched, known, heads)
    stretches = usage.stretches(whole)
    used = usage.changed_after(stretches, named, len(before))
    unsure = usage.changed_after(stretches, doubtful, len(before)).keys() - used.keys()
    citations = Counter(id for ids in cited for id in ids)
    shares = usage.shares(used)
    use = {
        id: [citations[id], *([len(used[id]), shares[id]] if id in used else [])]
        for id in sorted({*citations, *used})
    }
    return sum(1 for ids in cited if ids), use, unsure


def _word(value: str) -> str:
    """A short word of ours or of an agent's protocol, "other" for anything that may be text."""
    letters = value.replace("-", "").replace("_", "")
    good = len(value) <= 30 and letters.isascii() and letters.isalnum()
    return value if good or not value else "other"


def stored(cache: Cache) -> list[dict[str, Any]]:
    """All receipts as `listed` has them, newest first; of one part the fullest record."""
    best: dict[str, tuple[tuple[str, int, str], dict[str, Any]]] = {}
    sql = f"SELECT raw FROM line WHERE op = 'receipt' AND scope & {PRIVATE}"
    for (raw,) in cache.db.execute(sql):
        if parsed := record.parse(raw):
            order = (_ended(parsed.data), len(raw), parsed.version)
            if parsed.id not in best or best[parsed.id][0] < order:
                best[parsed.id] = order, parsed.data
    out = [_public(data, "stored") for _, data in best.values()]
    _name(cache, out)
    return _newest_first(out)


def _newest_first(receipts: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    def order(one: dict[str, Any]) -> tuple[str, str, str]:
        return one["ended"] or "~", one["started"], one["id"]

    return sorted(receipts, key=order, reverse=True)


def _name(cache: Cache, receipts: list[dict[str, Any]]) -> None:
    """Puts ids for the short names that stand for one memory here."""
    names = {id for r in receipts for ids in (*r["shown"].values(), r["used"]) for id in ids}
    full = usage_store.full(cache, [name for name in names if len(name) == short.DIGITS])
    for r in receipts:
        r["shown"] = {route: [full.get(id, id) for id in ids] for route, ids in r["shown"].items()}
        r["used"] = {full.get(id, id): n for id, n in r["used"].items()}


def listed(store: Store, prefix: str = "", limit: int | None = None) -> list[dict[str, Any]]:
    """Receipts and sessions without one yet, newest first: what `git mem receipts --json` prints.
    `prefix`: the begin of a session's id. Raises MemError where it names none.
    """
    now = time.time()
    found: dict[str, dict[str, Any]] = {}
    for path, last in session.files(store.repo.mem_dir):
        parts = _parts(session.pending(path))
        for part, data in zip(parts, _drafts(store, path, parts), strict=True):
            if data:
                over = part[-1][0] == "end" or now - last > IDLE
                here = _public(data, "waiting" if over else "open")
                found[data["id"]] = here if over else {**here, "ended": None, "end": None}

    def read(cache: Cache) -> list[dict[str, Any]]:
        _name(cache, list(found.values()))
        return stored(cache)

    for receipt in store.with_cache(read)[0]:
        if found.get(receipt["id"], receipt)["ended"] == receipt["ended"]:
            found[receipt["id"]] = receipt
    everything = _newest_first(found.values())
    if prefix:
        key, start = session.key(prefix), prefix.strip().lower()
        everything = [r for r in everything if r["session"].startswith((key, start))]
        if not everything:
            hint = "`git mem receipts` lists the sessions"
            raise MemError(f"no receipt of session '{prefix[:40]}'", hint=hint)
    return everything[:limit]


def _public(data: dict[str, Any], state: str) -> dict[str, Any]:
    """A record as `listed` has it; of a foreign one what has the right shape."""
    shown, tips, used = _dict(data, "shown"), _dict(data, "tips"), data.get("used")
    if isinstance(used, dict):  # of a receipt with whole ids
        use = {str(k): v for k, v in used.items() if type(v) is int}
    else:
        use = {id: n for id, (_, n, _) in confidence.uses(data).items() if n > 0}
    texts = {name: _text(data, name) for name in ("id", "session", "agent", "source", "started")}
    told = {
        str(route): short.unpack(ids)
        if isinstance(ids, str)
        else [i for i in ids if type(i) is str]
        for route, ids in shown.items()
        if isinstance(ids, (list, str))
    }
    return {
        **texts,
        "state": state,
        "ended": _ended(data) or None,
        "end": _text(data, "end") or None,
        "head": _text(data, "head") or None,
        "tips": {str(k): v for k, v in tips.items() if isinstance(v, str)},
        "shown": told,
        "files": data["files"] if type(data.get("files")) is int else 0,
        "used": use,
    }


def _ended(data: dict[str, Any]) -> str:
    return _text(data, "ended") or _text(data, "at")


def _dict(data: dict[str, Any], name: str) -> dict[Any, Any]:
    value = data.get(name)
    return value if isinstance(value, dict) else {}


def _text(data: dict[str, Any], name: str) -> str:
    value = data.get(name)
    return record.clean(value) if isinstance(value, str) else ""


def counts(cache: Cache) -> dict[str, Any]:
    """What receipts add up to, for `git mem stats`."""
    found = stored(cache)
    routes: Counter[str] = Counter()
    for receipt in found:
        routes.update({route: len(ids) for route, ids in receipt["shown"].items()})
    sessions = {r["session"] for r in found}
    return {
        "sessions": len(sessions),
        "shown": dict(routes.most_common()),
        "agents": dict(Counter(r["agent"] or "unknown" for r in found).most_common()),
        "used": len({(r["session"], id) for r in found for id in r["used"]}),
        "feedback": usage_stats.counts(cache, len(sessions)),
    }


def remarks(store: Store) -> Iterator[tuple[str, str, str, Callable[[], str] | None]]:
    """(level, text, hint, repair) lines for the doctor; none where no agent was ever here."""
    now = time.time()
    files = session.files(store.repo.mem_dir)
    if not files:
        return
    waiting = {path: now - parts[-1][-1][1] for path, parts in due(store.repo.mem_dir, now)}
    going = sum(path not in waiting and bool(session.pending(path)) for path, _ in files)
    seen = many(len(files), "agent session")
    yield "ok", f"{seen} of the last days, {going} not ended yet", "", None
    if waiting:
        # A session without an end is due after IDLE.
        late = any(age > LATE + IDLE * (age > IDLE) for age in waiting.values())
        hint = "the worker writes them; `git mem doctor --repair` does it now" if late else ""

        def write() -> str:
            return f"{many(tend(store), 'receipt')} written"

        text = f"{many(len(waiting), 'session')} ended without a receipt yet"
        yield "warn" if late else "ok", text, hint, write
