"""Command about agents' sessions: receipts."""

from __future__ import annotations

from typing import Any

import typer

from ..agents import receipts
from ..core import record
from ..engine.cache import Cache
from ..store import Store
from . import app
from .common import opened, write, write_json
from .options import Json, text


@app.command("receipts")
def receipts_command(
    *,
    session: str = text(
        "--session",
        metavar="ID",
        help="Only of this session (its id, or the first digits), with the memories.",
    ),
    limit: int = typer.Option(20, "-n", "--limit", min=1, help="How many at most."),
    as_json: Json,
) -> int:
    """Show which memories agents' sessions were given, at which state of the notes. Exit code 1
    where there are none.

    A session that was forked, or resumed under another id, has what its predecessor was given
    before it too; that is not known here."""
    with opened() as store:
        found = receipts.listed(store, session, limit)
        if as_json:
            write_json(found)
            return 0 if found else 1
        shown = {id for r in found for ids in r["shown"].values() for id in ids}
        titles = _titles(store, shown) if session else {}
        for receipt in found:
            write(_line(receipt))
            if session:
                for text in _memories(receipt, titles):
                    write("  " + text)
        if not found:
            write("no receipts yet; `git mem install` sets agents up")
        return 0 if found else 1


def _line(receipt: dict[str, Any]) -> str:
    by = ", ".join(f"{len(ids)} by {route}" for route, ids in receipt["shown"].items())
    states = {"open": "not ended", "waiting": "receipt not written yet"}
    state = states.get(receipt["state"]) or f"ended: {receipt['end']}"
    head = f", HEAD {receipt['head'][:8]}" if receipt["head"] else ""
    used = f", {len(receipt['used'])} of use" if receipt["used"] else ""
    return (
        f"{receipt['started'][:16].replace('T', ' ')}  {receipt['agent'] or 'agent'}"
        f" {receipt['session'][:8]}: {by or 'nothing new'}{used}{head} ({state})"
    )


def _memories(receipt: dict[str, Any], titles: dict[str, str]) -> list[str]:
    out = [f"{ref} at {tip[:12]}" for ref, tip in receipt["tips"].items()]
    for route, ids in receipt["shown"].items():
        for id in ids:
            files = receipt["used"].get(id, 0)
            touched = f", {files} of its files touched" if files else ""
            out.append(f"{id[:8]}  {titles.get(id) or '(no longer here)'}  [{route}{touched}]")
    return out


def _titles(store: Store, ids: set[str]) -> dict[str, str]:
    def read(cache: Cache) -> dict[str, str]:
        out = {}
        for id in ids:
            row = cache.db.execute(
                "SELECT l.raw FROM memory m JOIN line l ON l.n = m.line WHERE m.id = ? AND m.status"
                " < 2 ORDER BY m.row LIMIT 1",
                (id,),
            ).fetchone()
            parsed = record.parse(row[0]) if row else None
            if parsed:
                out[id] = record.title_of(parsed.data)
        return out

    return store.with_cache(read)[0] if ids else {}
