"""Computes the path states that the cache keeps for a HEAD (`path_state_store`).

Promise: what is kept is what `path_state.states` says of every path that an active memory names. A
move of HEAD compares all of them with the new tree; only those with another object are followed,
and lines are sought again only where their file has another content than at the last look.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..engine import path_state_store
from ..engine.cache import Cache
from ..engine.path_state_store import PathState
from ..git.repository import Repo
from . import path_state
from .anchor_state import AnchorState


def rows(
    repo: Repo,
    cache: Cache,
    head: str,
    slot: int,
    anchors: Mapping[str, AnchorState],
    seconds: float,
) -> dict[int, path_state_store.Kept]:
    """{number of a noted path: its row for `head`}. `slot`: that of an earlier look."""
    noted = {
        number: (anchor, name + "/" * slashes, blob, lines)
        for number, anchor, name, slashes, blob, lines in cache.db.execute(
            "SELECT number, anchor, name, slashes, blob, lines FROM noted_path ORDER BY number"
        )
    }
    known = {
        noted[number]: (now, blob, PathState(state, now, reason, lines))
        for number, (state, now, reason, lines, blob) in path_state_store.kept(cache, slot).items()
        if blob and number in noted
    }
    finder = path_state.Finder(repo, known)
    states = path_state.states(repo, cache, list(noted.values()), head, seconds, anchors, finder)
    return {
        number: (*state.row(), finder.blobs.get(item, ""))
        for (number, item), state in zip(noted.items(), states, strict=True)
    }
