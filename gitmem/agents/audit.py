"""What the receipts add up to, for `git mem stats` and `git mem doctor`.

Counted, never estimated; changes nothing.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from ..engine.cache import Cache
from ..feedback import usage_stats
from ..store import Store
from . import receipts, session

LATE = 3600  # seconds after which a worker should have written a receipt


def counts(cache: Cache) -> dict[str, Any]:
    """Sessions with receipts, how often a memory was shown by which route, and how many of those
    shown in a session had a file touched in it.
    """
    found = receipts.stored(cache)
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


def remarks(store: Store) -> list[tuple[str, str, str, Callable[[], str] | None]]:
    """(level, text, hint, repair) lines for the doctor; none where no agent was ever here."""
    now = time.time()
    files = session.files(store.repo.mem_dir)
    if not files:
        return []
    waiting = [(path, parts[-1][-1][1]) for path, parts in receipts.due(store.repo.mem_dir, now)]
    started = {path for path, _ in files if session.pending(path)}
    going = len(started - {path for path, _ in waiting})

    def write() -> str:
        return f"{_many(receipts.tend(store), 'receipt')} written"

    text = f"{_many(len(files), 'agent session')} of the last days, {going} not ended yet"
    out: list[tuple[str, str, str, Callable[[], str] | None]] = [("ok", text, "", None)]
    if waiting:
        text = f"{_many(len(waiting), 'session')} ended without a receipt yet"
        # A session without an end is due after IDLE.
        ages = [now - when for _, when in waiting]
        if any(age > LATE + receipts.IDLE * (age > receipts.IDLE) for age in ages):
            hint = "the worker writes them; `git mem doctor --repair` does it now"
            out.append(("warn", text, hint, write))
        else:
            out.append(("ok", text, "", write))
    return out


def _many(n: int, what: str) -> str:
    return f"{n} {what}{'s' * (n != 1)}"
