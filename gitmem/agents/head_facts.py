"""What git knows about the work at HEAD: paths and words of its recent commits, and of its branch.

The worker asks git (`learn`) and stores the facts in the cache, so that a hook
reads one row and starts no git process. After HEAD has moved, the facts of the
former HEAD are used and `Facts.current` is false: the reader should then ask the
worker.

Promise: made from HEAD and the main lines alone, without a clock, so the same
history gives the same facts. Bounded in size. In a partial clone no paths are
read: their trees may be on the remote only.
"""

from __future__ import annotations

from ..core import fastjson, text
from ..engine import anchor_state_store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..engine.cache import Cache
    from ..git.repository import Repo
    from ..store import Store

RECENT, SPOKEN = 200, 50  # commits whose files are read, and whose words
FADE, FADING = 0.98, 0.93  # weight of a commit's files and words, relative to the next commit's
_PATHS, _WORDS, _OWN = 300, 48, 300  # the most that is stored of each
_MANY = 60  # a commit of more paths says nothing about the work
_MONTH = 30 * 86400
_KEY = "facts:"
_WORKTREES = 8
_VERSION = 1


class Facts:
    """`paths`, `recent` and `branch`: weights by path and by term; `changed`: paths changed beside
    the main line; `time`: of HEAD's commit.
    """

    __slots__ = (
        "branch",
        "changed",
        "commits",
        "current",
        "own",
        "paths",
        "recent",
        "time",
    )

    def __init__(self, data: Mapping[str, object], current: bool) -> None:
        self.current = current
        self.time = str(data.get("time") or "")
        self.paths = _weights(data.get("paths"))
        self.recent = _weights(data.get("recent"))
        self.branch = _weights(data.get("branch"))
        own = data.get("own")
        self.own = [p for p in own if isinstance(p, str)] if isinstance(own, list) else []
        self.changed = _number(data.get("changed"), 0)
        commits = _number(data.get("commits"), -1)
        self.commits = commits if commits >= 0 else None


def _weights(value: object) -> dict[str, float]:
    pairs = value.items() if isinstance(value, dict) else ()
    return {k: float(v) for k, v in pairs if isinstance(v, (int, float))}


def _number(value: object, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def key_of(head: str) -> str:
    """The name under which the cache keeps the facts of a commit."""
    return _KEY + head


def read(cache: Cache, head: str) -> Facts:
    """What the cache has: for this HEAD, else for the one before; empty where nothing is known."""
    found = dict(
        cache.db.execute("SELECT key, value FROM meta WHERE key IN (?, 'facts')", (_KEY + head,))
    )
    own = found.get(_KEY + head)
    if not own and found.get("facts"):
        own = cache.meta(_KEY + str(found["facts"]))
    try:
        data = fastjson.loads(own) if own else {}
    except (ValueError, RecursionError):
        data = {}
    good = isinstance(data, dict) and data.get("v") == _VERSION
    return Facts(data if good else {}, good and _KEY + head in found)


# --- the worker's part --------------------------------------------------------


def learn(store: Store) -> None:
    """Finds the facts of every worktree's HEAD that the cache lacks, and drops those of former
    ones.
    """

    def work(cache: Cache) -> None:
        heads = _heads(store.repo)
        # the same HEAD has another history where a clone was deepened, or a commit replaced
        # (`anchors.anchor_state_update`)
        main = " ".join([*_main(store.repo), cache.meta(anchor_state_store.HISTORY)])
        here = store.repo.head()
        known = {
            str(k)[len(_KEY) :]: str(v)
            for k, v in cache.db.execute("SELECT key, value FROM meta WHERE key LIKE 'facts:%'")
        }
        fresh = cache.meta("facts-main") == main
        new = {}
        if missing := [head for head in heads if not (fresh and head in known)]:
            new = {head: fastjson.dumps(of(store.repo, head)) for head in missing}
        gone = [head for head in known if head not in heads]
        if new or gone or cache.meta("facts") != here:

            def write(_: object) -> None:
                for head, value in new.items():
                    cache.set_meta(_KEY + head, value)
                cache.db.executemany(
                    "DELETE FROM meta WHERE key = ?", [(_KEY + head,) for head in gone]
                )
                cache.set_meta("facts", here)
                cache.set_meta("facts-main", main)

            cache.keep(0.5, write)

    store.with_cache(work, refresh=False)


def _heads(repo: Repo) -> list[str]:
    """HEAD of every worktree, the present one first."""
    found = [repo.head()]
    for line in repo.git.text("worktree", "list", "--porcelain", ok=(0, 128, 129)).splitlines():
        if line.startswith("HEAD ") and line[5:].strip("0"):
            found.append(line[5:])
    return [head for head in dict.fromkeys(found) if head][:_WORKTREES]


def _main(repo: Repo) -> list[str]:
    from ..anchors import patch_id

    return patch_id.main_lines(repo)


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
    month = len(commits(repo, since, False)) if recent else 0
    return {
        "v": _VERSION,
        "time": _iso(newest) if recent else "",
        "changed": len(own),
        "own": sorted(own)[:_OWN],
        "commits": month,
        "paths": path_weights([paths for _, _, paths in recent]),
        "recent": word_weights([subject for _, subject, _ in recent[:SPOKEN]]),
        "branch": word_weights([subject for _, subject, _ in ahead]),
    }


def commits(repo: Repo, which: list[str], trees: bool) -> list[tuple[int, str, list[str]]]:
    """(time, subject, paths) of commits, the newest first; merges have no paths."""
    words = [
        "log",
        "-z",
        "--no-show-signature",
        "--no-color",
        "--no-notes",
        "--no-mailmap",
        "--encoding=UTF-8",
        "--format=%x01%ct %s",
    ]
    names = ["--name-only", "--no-renames"] if trees else []
    raw = repo.git.run(*words, *names, *which, "--", ok=(0, 128))
    out: list[tuple[int, str, list[str]]] = []
    for part in raw.split(b"\0"):
        if part.startswith(b"\x01"):
            time, _, subject = part[1:].partition(b" ")
            out.append((int(time) if time.isdigit() else 0, subject.decode("utf-8", "replace"), []))
        elif part and out:
            paths = out[-1][2]
            path = part if paths else part.removeprefix(b"\n")
            paths.append(path.decode("utf-8", "replace"))
    return out


def path_weights(touched: Iterable[list[str]]) -> dict[str, float]:
    """Weights of paths from the commits that touched them, the newest first.

    A commit of many files says less about each, a huge one or a merge nothing.
    """
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


def _iso(seconds: int) -> str:
    import time

    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
