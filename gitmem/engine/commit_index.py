"""The repository's commits as a second cache: searchable like memories, never notes.

`<git-common-dir>/mem/history-<schema>.db` has the layout of the cache of memories, so that
`search.Search` asks both. A commit is one record there: its subject is the title, its id the id.

Promises. The commits are those that HEAD and the branches reach, the newest `limit` of them, less
what `commit_message.informs` leaves out. The cache stores the tips it was made from, so it is fresh
or not. Work grows with what changed. A portion is one transaction, newest commits first; whoever
comes next goes on where the last one stopped.
"""

from __future__ import annotations

from time import monotonic, time

from ..core import record
from ..core.digest import sha256
from ..core.errors import GitFailed
from ..core.progress import Unseen
from .ahead import Ahead
from .anchor_state_store import REACHABLE, UNMERGED, AnchorState
from .sql import select_in
from .update import Update, batch_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..core.progress import Progress
    from ..git.commit_reader import Commit
    from ..git.gitcmd import Git
    from .cache import Cache
    from .embed import StaticTable

    States = Callable[[Iterable[str]], dict[str, AnchorState]]

PORTION = 2_000  # commits that are read and stored at a time
LONGEST = 8_000  # characters of a message that are searched
MOST_PATHS = 50  # of one commit: more say that it is about none of them
# seconds in which nobody asks git for the refs while their directories' times stand still: some
# programs write a ref in place, and a symbolic one may name what lies elsewhere
_TRUSTED = 600
_PATIENCE = 5.0  # seconds to wait for another process that writes


def update(
    git: Git,
    cache: Cache,
    table: StaticTable,
    head: str,
    limit: int,
    *,
    most: int | None = None,
    until: float | None = None,
    progress: Progress = Unseen,
) -> int:
    """Takes in new commits and drops those that no branch reaches; returns how many commits wait.

    At most about `most` commits, or until the monotonic time `until`; less where another process
    writes. Raises GitFailed; Damaged or sqlite3.Error for a file to be made anew.
    """
    # A prompt that asks for commits does not load it.
    from ..git import commit_reader

    refs, before = _Refs(git, cache, limit, head), cache.meta("tips")
    if refs.unmoved(before):
        return 0
    asked = git.text("for-each-ref", "--format=%(objectname)", "refs/heads", "refs/remotes")
    tips = sorted({head, *asked.split()} - {""})
    stamp = [f"{limit}:{commit_reader.shape(git)}", head, *tips]
    if " ".join(stamp) == before:
        if (noted := refs.noted(before)) != cache.meta("refs"):
            cache.keep(0, lambda _: cache.set_meta("refs", noted))
        return 0
    former = before.split(" ")
    new, gone, of = _changes(git, cache, tips, limit, former[1:] if former[0] == stamp[0] else [])
    if not cache.writable or (most is not None and len(gone) > most):
        return len(new) or len(gone)
    done = 0
    with progress("indexing commits", len(new)) as advance, Ahead(table) as ahead:
        while True:
            part = new[done : done + PORTION]
            whole = done + len(part) >= len(new)
            lines = _lines(git, part)
            with cache.writing(_PATIENCE) as held:
                if not held:
                    return len(new) - done
                _write(cache, table, ahead, lines, gone, limit if whole else None)
                gone = []
                cache.set_meta("tips", " ".join(stamp) if whole else "")
                cache.set_meta("refs", refs.noted(" ".join(stamp)) if whole else "")
                cache.set_meta("of", str(of))
                cache.set_meta("ends", " ".join(commit_reader.ends(git)))
                if whole:
                    unmerged = listed(git, tips, [head], limit) if head else []
                    cache.set_meta("unmerged", " ".join(unmerged))
            done += len(part)
            advance(len(part))
            late = until is not None and monotonic() > until
            if whole or late or (most is not None and done >= most):
                return len(new) - done


class _Refs:
    """Whether refs moved since a question asked git for them: their directories' times tell, noted
    in the cache with the tips that they led to.
    """

    def __init__(self, git: Git, cache: Cache, limit: int, head: str) -> None:
        from ..git import commit_reader

        self._git, self._cache = git, cache
        self._place = repr([limit, head, git.promised, *commit_reader.boundaries(git)])
        self._at, self._times = int(time()), ""

    def unmoved(self, tips: str) -> bool:
        """Whether they are where they were. If not, `noted` gets their times from before a read."""
        from ..git import refs_mtime

        common_dir = self._git.common_dir
        digest, at, times = (*self._cache.meta("refs").split("\n", 2), "", "")[:3]
        if (
            digest == self._digest(tips)
            and at.isdecimal()
            and 0 <= self._at - int(at) < _TRUSTED
            and refs_mtime.same(common_dir, times)
        ):
            return True
        times = refs_mtime.stamp(common_dir, wait=False)
        if times.count("\n") < refs_mtime.MOST:  # else not all of them were looked at
            self._times = times
        return False

    def noted(self, tips: str) -> str:
        """For the next question, "" where it has to ask git."""
        return f"{self._digest(tips)}\n{self._at}\n{self._times}" if self._times else ""

    def _digest(self, tips: str) -> str:
        return sha256(f"{self._place} {tips}".encode()).hexdigest()


def _write(
    cache: Cache,
    table: StaticTable,
    ahead: Ahead,
    lines: list[tuple[str, bytes, int]],
    gone: list[str],
    limit: int | None,
) -> None:
    """One portion; `limit`: of it all the oldest commits beyond so many go, too."""
    changes = Update(cache, table, None, ahead)
    _take_out(changes, gone)
    batch = batch_of(lines)
    changes.begin(batch, 0.5)
    changes.collect()
    changes.take(batch)
    if limit is not None:
        oldest = "SELECT id FROM memory ORDER BY at DESC, id LIMIT -1 OFFSET ?"
        _take_out(changes, [id for (id,) in cache.db.execute(oldest, (limit,))])
    changes.finish()


def _changes(
    git: Git, cache: Cache, tips: list[str], limit: int, former: list[str]
) -> tuple[list[str], list[str], int]:
    """(commits to take in, newest first; commits to drop; how many there are in all). `former`: the
    tips that the cache was made from, [] where it has to be compared as a whole.
    """
    if former:
        try:
            new = listed(git, tips, former, limit)
            gone = listed(git, former, tips, limit)
            return new, gone, int(cache.meta("of", "0")) + len(new) - len(gone)
        except GitFailed:
            pass  # a former tip was removed by `git gc`
    new = listed(git, tips, [], limit)
    known = {id for (id,) in cache.db.execute("SELECT id FROM memory")}
    again = known.intersection(cache.meta("ends").split())  # whose files were not known
    of = len(new)
    if of == limit:
        of = int(_rev_list(git, "--count", tips, [])[0])
    gone = sorted(known.difference(new) | again)
    return [id for id in new if id not in known - again], gone, of


def listed(git: Git, tips: list[str], without: list[str], limit: int) -> list[str]:
    """The newest commits that `tips` reach and `without` do not."""
    return _rev_list(git, f"--max-count={limit}", tips, without) if tips else []


def _rev_list(git: Git, option: str, tips: list[str], without: list[str]) -> list[str]:
    from ..git.gitcmd import NO_FETCH  # a former tip may be gone, a partial clone would ask for it

    names = [*tips, *(f"^{id}" for id in without)]
    stdin = "".join(f"{id}\n" for id in names).encode()
    return git.run("rev-list", option, "--stdin", stdin=stdin, env=NO_FETCH).decode().split()


def _lines(git: Git, ids: list[str]) -> list[tuple[str, bytes, int]]:
    """The commits as `Update.take` wants lines: (anchor, line, no scope)."""
    from ..git import commit_reader  # a prompt that asks for commits does not load it

    found = commit_reader.read(git, ids, [], len(ids), walk=False) if ids else []
    return [(commit.id, line, 0) for commit in found if (line := _line(commit))]


def _line(commit: Commit) -> bytes:
    """The record of a commit; b"" where it says nothing."""
    from ..core import commit_message  # its patterns take 3 ms, and a question needs none

    subject, body = commit_message.split(commit.message)
    if not commit_message.informs(commit.author, subject, body):
        return b""
    paths = commit.paths if len(commit.paths) <= MOST_PATHS else []
    fields = {
        "id": commit.id,
        "commit": commit.id,
        "title": record.clean(subject)[: record.MAX_TITLE],
        "body": record.clean(body)[:LONGEST],
        "author": record.clean(commit.author),
        "at": commit.at,
        "paths": [{"path": record.clean(path)} for path in paths],
    }
    return record.dump({"v": record.FORMAT, "op": "create", **fields})


def _take_out(changes: Update, ids: list[str]) -> None:
    if ids:
        lines = "SELECT n FROM line WHERE memory IN {}"
        numbers = [n for (n,) in select_in(changes.db, lines, [id.encode() for id in ids])]
        changes.take_out(set(ids), numbers)


def states(cache: Cache, at: str = "") -> States:
    """Where commits stand, for `Search`: reachable from HEAD, or unmerged. As of a revision `at`
    only those that it reaches take part.
    """
    unmerged = frozenset(() if at else cache.meta("unmerged").split())
    return lambda ids: {
        id: AnchorState(UNMERGED if id in unmerged else REACHABLE, id) for id in ids
    }


def counts(cache: Cache) -> dict[str, int]:
    """{"commits": how many are searchable, "of": how many HEAD and the branches reach}."""
    return {"commits": cache.count(), "of": int(cache.meta("of", "0"))}
