"""What git knows about the work at HEAD: paths and words of its recent commits, and of its branch.

The worker asks git (`learn`) and stores the facts in the cache, so that a hook reads one row and
starts no git process. After HEAD has moved, the facts of the former HEAD are used and
`Facts.current` is false: the reader should then ask the worker.

Promise: made from HEAD and the main lines alone, without a clock, so the same history gives the
same facts. Bounded in size. In a partial clone no paths are read: their trees may be on the remote.
"""

from __future__ import annotations

import time

from ..core import fastjson, text
from ..engine import anchor_state_store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from ..engine.cache import Cache
    from ..git.repository import Repo
    from ..store import Store

RECENT, SPOKEN = 200, 50  # commits whose files are read, and whose words
FADE, FADING = 0.98, 0.93  # weight of a commit's files and words, relative to the next commit's
_PATHS, _WORDS, _OWN = 300, 48, 300  # the most that is stored of each
_MANY = 60  # a commit of more paths says nothing about the work
_MONTH = 30 * 86400
_KEY = "facts:"


class Facts:
    """`paths`, `recent` and `branch`: weights by path and by term; `own`: paths changed beside the
    main line, `changed`: how many; `time`: of HEAD's commit; `commits`: in the month before, None
    where nobody has counted.
    """

    def __init__(self, data: Mapping[str, Any], current: bool) -> None:
        self.current = current
        self.time: str = data.get("time", "")
        self.paths: dict[str, float] = data.get("paths", {})
        self.recent: dict[str, float] = data.get("recent", {})
        self.branch: dict[str, float] = data.get("branch", {})
        self.own: list[str] = data.get("own", [])
        self.changed: int = data.get("changed", 0)
        self.commits: int | None = data.get("commits")


def key_of(head: str) -> str:
    """The name under which the cache keeps the facts of a commit."""
    return _KEY + head


def read(cache: Cache, head: str) -> Facts:
    """What the cache has: for this HEAD, else for the one before; empty where nothing is known."""
    own = cache.meta(_KEY + head)
    kept = own or cache.meta(_KEY + cache.meta("facts"))
    try:
        data = fastjson.loads(kept)
    except ValueError:
        data = None
    return Facts(data, bool(own)) if isinstance(data, dict) else Facts({}, False)


def learn(store: Store) -> None:
    """Finds the facts of every worktree's HEAD that the cache lacks, and drops former ones."""
    from ..anchors import patch_id

    def work(cache: Cache) -> None:
        heads = store.repo.heads()
        # the same HEAD has another history where a clone was deepened, or a commit replaced
        # (`anchors.anchor_state_update`)
        lines = patch_id.main_lines(store.repo)
        main = " ".join([*lines, cache.meta(anchor_state_store.HISTORY)])
        here = store.repo.head()
        rows = cache.db.execute("SELECT key FROM meta WHERE key LIKE 'facts:%'").fetchall()
        known = {key.removeprefix(_KEY) for (key,) in rows}
        fresh = known if cache.meta("facts-main") == main else set()
        new = {head: fastjson.dumps(of(store.repo, head)) for head in heads if head not in fresh}
        gone = known.difference(heads)
        if new or gone or cache.meta("facts") != here:

            def write(_: object) -> None:
                for head, value in new.items():
                    cache.set_meta(_KEY + head, value)
                for head in gone:
                    cache.db.execute("DELETE FROM meta WHERE key = ?", (_KEY + head,))
                cache.set_meta("facts", here)
                cache.set_meta("facts-main", main)

            cache.keep(0.5, write)

    store.with_cache(work, refresh=False)


def of(repo: Repo, head: str) -> dict[str, object]:
    """The facts of one commit, as they are kept."""
    from ..anchors import patch_id

    trees = not repo.git.promised
    recent = commits(repo, [f"-n{RECENT}", head], trees)
    base = patch_id.base_of(repo, head)
    ahead = commits(repo, [f"-n{SPOKEN}", f"{base}..{head}"], False) if base else []
    own: list[str] = []
    if base and trees:
        words = ["-r", "-z", "--no-renames", "--name-only", base, head]
        raw = repo.git.run("diff-tree", *words, ok=(0, 128))
        own = [name.decode("utf-8", "replace") for name in raw.split(b"\0") if name]
    newest = recent[0][0] if recent else 0
    since = [f"--since={newest - _MONTH}", "-n1000", head]
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(newest)) if recent else "",
        "changed": len(own),
        "own": sorted(own)[:_OWN],
        "commits": len(commits(repo, since, False)) if recent else 0,
        "paths": path_weights([paths for _, _, paths in recent]),
        "recent": word_weights([subject for _, subject, _ in recent[:SPOKEN]]),
        "branch": word_weights([subject for _, subject, _ in ahead]),
    }


def commits(repo: Repo, which: list[str], trees: bool) -> list[tuple[int, str, list[str]]]:
    """(time, subject, paths) of commits, the newest first; merges have no paths."""
    words = (
        "-z --no-show-signature --no-color --no-notes --no-mailmap --encoding=UTF-8"
        + " --name-only --no-renames" * trees
    )
    raw = repo.git.run("log", *words.split(), "--format=%x01%ct %s", *which, "--", ok=(0, 128))
    out: list[tuple[int, str, list[str]]] = []
    for part in raw.split(b"\0"):
        if part.startswith(b"\x01"):
            seconds, _, subject = part[1:].decode("utf-8", "replace").partition(" ")
            out.append((int(seconds) if seconds.isdigit() else 0, subject, []))
        elif part and out:
            paths = out[-1][2]
            path = part if paths else part.removeprefix(b"\n")
            paths.append(path.decode("utf-8", "replace"))
    return out


def path_weights(touched: Iterable[list[str]]) -> dict[str, float]:
    """Weights of paths, from the newest commit on; a commit of many paths says less of each."""
    weights: dict[str, float] = {}
    for i, paths in enumerate([paths for paths in touched if paths]):
        if len(paths) <= _MANY:
            for path in paths:
                weights[path] = weights.get(path, 0.0) + FADE**i / len(paths) ** 0.5
    return _first(weights, _PATHS)


def word_weights(subjects: Iterable[str]) -> dict[str, float]:
    """Weights of terms from subjects, the newest first."""
    weights: dict[str, float] = {}
    for i, subject in enumerate(subjects):
        for term in dict.fromkeys(text.terms(subject[:300])):
            if len(term) > 1 and not term.isdigit():
                weights[term] = weights.get(term, 0.0) + FADING**i
    return _first(weights, _WORDS)


def _first(weights: dict[str, float], most: int) -> dict[str, float]:
    names = sorted(weights, key=lambda n: (-weights[n], n))[:most]
    return {name: round(weights[name], 3) for name in names}
