"""What counts as use of a memory that a session was told. Pure.

A memory was used if its id is named in an answer, or if a file it names was changed after it was
told. Being shown is no use, and neither is a change that came before.

Three things are no credit although they look like one. A memory told because its file is about to
be read or changed (route `tool`) gains nothing from that change. One that was told before the
model's context was emptied gains nothing from changes after that, unless it was told again. And of
several memories that name one changed file, each gets its part only (`confidence.count`).

Standard library only and nothing that costs: the end of every answer waits for `cited`.
"""

from __future__ import annotations

from ..core import id_mentions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Entry = tuple[str, float, list[str], bytes]  # of `session`
    # (what was told when, what was changed when) between two moments at which the model's context
    # was emptied
    Stretch = tuple[dict[str, int], dict[str, int]]

LOOKED_AT = 200_000  # characters of an answer: its end, where it sums up


def cited(answer: str, told: Iterable[str]) -> list[str]:
    """Those of the ids that an answer names (`id_mentions`)."""
    return id_mentions.named(answer[-LOOKED_AT:], told)


def stretches(entries: Iterable[Entry]) -> list[Stretch]:
    """The lines of a session's file, cut where the model forgot."""
    told: dict[str, int] = {}
    changed: dict[str, int] = {}
    out = [(told, changed)]
    for at, (kind, _, values, _) in enumerate(entries):
        if kind == "shown" and "route=tool" not in values:
            for value in values:
                if "=" not in value:
                    told.setdefault(value, at)
        elif kind == "touched":
            changed.update(dict.fromkeys(values, at))
        elif kind == "context":
            told, changed = {}, {}
            out.append((told, changed))
    return out


def changed_after(
    found: Iterable[Stretch], named: Mapping[str, Iterable[str]], since: int = 0
) -> dict[str, set[str]]:
    """{id: the paths it names that were changed after it was told, and from line `since` on}."""
    out: dict[str, set[str]] = {}
    for told, changed in found:
        for id, at in told.items():
            paths = {
                path
                for path in named.get(id, ())
                if changed.get(path, -1) > at and changed[path] >= since
            }
            if paths:
                out.setdefault(id, set()).update(paths)
    return out


def shares(used: Mapping[str, Iterable[str]]) -> dict[str, int]:
    """{id: how many of these memories share the change that it shares with fewest}."""
    holders: dict[str, int] = {}
    for paths in used.values():
        for path in set(paths):
            holders[path] = holders.get(path, 0) + 1
    return {id: min(holders[path] for path in paths) for id, paths in used.items() if paths}
