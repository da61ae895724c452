"""`git mem verify`: signatures, ids and texts of records, judged one by one.

Promise: every record is checked now, whatever the cache remembers; it reports and decides nothing.
Whether the author a record claims is its signer is said, not judged: who remembers for somebody
else does nothing wrong. The cache keeps what was found about signatures.
"""

from __future__ import annotations

from typing import Any

from ..core import record
from ..core.progress import counted
from ..engine import memory_rows
from ..engine.cache import Cache, Damaged
from ..engine.document import scope_name
from ..engine.filters import newest_first
from ..engine.memory_rows import ACTIVE
from ..signing import trust
from ..signing.signature import BAD, NONE, REVOKED, Verdict
from ..store import Store
from . import memories

# A key stood behind the text, whatever it is worth here.
_SEALED = frozenset(["good", "untrusted", "expired"])


def verify(store: Store, prefixes: list[str], *, everything: bool = False) -> list[dict[str, Any]]:
    """One object a record, newest first: what is visible, or `everything`; `prefixes`: of these
    memories alone. Else lines that are no records and look like they hold a secret follow.
    """

    def read(cache: Cache) -> list[dict[str, Any]]:
        lines = _lines(cache, [memories.full_id(cache, p) for p in prefixes], everything)
        with store.progress("verifying", len(lines)) as advance:
            checked = store.trust.check([(n, raw) for n, raw, _ in lines], advance)
        store.trust.keep(cache, checked)
        verdicts = {r.version: v for _, r, v in checked}
        scopes = {n: scope_name(scope) for n, _, scope in lines}
        with store.progress("looking for secrets", len(lines)) as advance:
            shown = counted(checked, advance)
            return [_object(store.trust, r, v, scopes[n], verdicts) for n, r, v in shown]

    found = store.with_cache(read)[0]
    return found if prefixes else [*found, *_of_others(store)]


def failed(item: dict[str, Any]) -> bool:
    """Whether a record makes the command fail: somebody tampered, or it is below the policy."""
    return item["state"] in (BAD, REVOKED) or not item["id_holds"] or item.get("accepted") is False


# The lines behind what is shown: the one of each row, and each text that nothing covers. Of lines
# of one content, and of united ones, a single row is shown: the others are judged all the same.
_SHOWN = (
    "WITH seen AS (SELECT m.line AS n, m.row AS row FROM memory m WHERE {0} UNION"
    " SELECT l.n, m.row FROM memory m CROSS JOIN line l ON l.memory = CAST(m.id AS BLOB)"
    f" WHERE {{0}} AND m.status = {ACTIVE} AND l.op IN ('create', 'edit')"
    " AND l.version NOT IN (SELECT version FROM effective_cover))"
    " SELECT l.n, l.version, l.raw, l.scope FROM seen s JOIN line l ON l.n = s.n"
    f" JOIN memory m ON m.row = s.row ORDER BY {{1}}, m.row, l.version"
)


def _lines(cache: Cache, ids: list[str], everything: bool) -> list[tuple[int, bytes, int]]:
    if everything:
        sql = "SELECT l.n, l.version, l.raw, l.scope FROM line l WHERE {0} ORDER BY l.n DESC"
        condition = "l.memory = CAST(?1 AS BLOB)" if ids else "1"
    else:
        sql, condition = _SHOWN, "m.id = ?1" if ids else f"m.status = {ACTIVE}"
    statement = sql.format(condition, newest_first(cache, "m"))
    asked: list[tuple[str, ...]] = [(id,) for id in ids] or [()]
    found = [row for arguments in asked for row in cache.db.execute(statement, arguments)]
    for _, version, raw, _ in found:
        if record.version_of(raw) != version.hex():
            raise Damaged("a stored record has changed")
    return list({n: (n, raw, scope) for n, _, raw, scope in found}.values())


def _of_others(store: Store) -> list[dict[str, Any]]:
    """Lines that are no records and look like they hold a secret, each once."""
    out: dict[str, dict[str, Any]] = {}
    nothing = dict.fromkeys(("id", "op", "at", "author", "signer", "key", "author_matches"))
    for scope, notes in store.sources:
        lines = {line for _, line in notes.lines(notes.tip()) if record.parse(line) is None}
        for version, _, found, rule in trust.secrets(sorted(lines)):
            said = {"version": version, "scope": scope, "title": "", "state": NONE, "reason": ""}
            more = {"secrets": [{"field": found, "rule": rule}], "id_holds": True}
            out.setdefault(version, {**nothing, **said, **more, "hides_signed": False})
    return list(out.values())


def _object(
    policy: trust.Trust,
    r: record.Record,
    verdict: Verdict,
    scope: str,
    verdicts: dict[str, Verdict],
) -> dict[str, Any]:
    title = record.title_of(r.data) if r.op in record.CONTENT_OPS else ""
    hidden = [verdicts[v].state for v in r.after if v in verdicts]
    out: dict[str, Any] = {
        "id": record.clean(r.id),
        "version": r.version,
        "op": record.clean(r.op),
        "scope": scope,
        "title": record.clean(title),
        "at": record.moment(r.data.get("at")) or None,
        "author": memory_rows.word(r.data.get("author")),
        "state": verdict.state,
        "signer": verdict.signer or None,
        "key": verdict.key or None,
        "reason": verdict.reason,
        "author_matches": _matches(r.data.get("author"), verdict.signer),
        "id_holds": r.op != "create" or record.id_holds(r.data),
        "secrets": [
            {"field": field, "rule": rule} for _, _, field, rule in trust.secrets([r.line])
        ],
        # A record without a signature can hide one that has it: shown, so that somebody asks why.
        "hides_signed": verdict.state in (NONE, BAD) and not _SEALED.isdisjoint(hidden),
    }
    if policy.strict:
        out["accepted"] = policy.accepts(verdict.state)
    return out


def _matches(author: object, signer: str) -> bool | None:
    """Whether an author's address is the signer's; None where that cannot be said."""
    if not isinstance(author, str) or "@" not in signer or "*" in signer:
        return None
    one, other = (text.rpartition("<")[2].rstrip("> ").casefold() for text in (author, signer))
    return one == other
