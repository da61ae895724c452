"""One repository's memory, opened: settings, the two notes refs, the cache kept fresh.

Promise: whoever asks gets a cache that matches the notes, or is told that it
does not. A damaged cache is discarded and rebuilt within the same call, with
one warning; one that another process replaced is opened again; a busy one
answers as it is; a full or read-only disk costs speed, never an answer.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sqlite3
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from .core import record
from .core.errors import GitFailed, MemError, NotARepository
from .core.plural import many
from .core.progress import Unseen
from .engine import cache as cache_file
from .engine import embed, error_kinds, index, unread
from .engine.ahead import Ahead
from .engine.cache import Cache
from .git import config, config_read, discover, repository
from .notes.note_store import Notes
from .notes.plans import Written
from .signing import trust

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .core.progress import Progress

T = TypeVar("T")

_ATTEMPTS = 6  # others may replace the cache while we open it


class Store:
    """Everything a use case needs. `warn` takes one line for the user."""

    def __init__(
        self, repo: repository.Repo, settings: config.Config, warn: Callable[[str], None]
    ) -> None:
        self.repo = repo
        self.settings = settings
        self.warn = warn
        self.team = Notes(repo.git, settings.team_ref, repo.hex_len)
        self.private = Notes(repo.git, settings.private_ref, repo.hex_len)
        self.sources = [("team", self.team), ("private", self.private)]
        self.reduced = ""  # why the embedding model that the user chose takes no part in a search
        self._cache: Cache | None = None
        self._history: Cache | None = None
        self._told = False  # that notes cannot be read
        # An answer came from a cache that could not be brought up to date; the door says so.
        self.behind = False
        self.wrote = 0  # lines that were added to the notes
        self.expected: int | None = None  # how many a long write wants to add, where that is known
        self.resumes = False  # whether the same command makes what a stopped one has not made
        self.progress: Progress = Unseen  # of what takes long; the door may show it

    def notes(self, scope: str) -> Notes:
        return self.team if scope == "team" else self.private

    @functools.cached_property
    def trust(self) -> trust.Trust:
        return trust.Trust(self.settings, self.home)

    @functools.cached_property
    def author(self) -> str:
        """Who writes, for records that nobody is asked about; "" for a name with a secret."""
        from .core import redact

        refused = self.settings["secrets"] == "refuse" and redact.holds(self.settings.author)
        return "" if refused else self.settings.author

    @property
    def identity(self) -> str:
        return self.author or "git mem <>"

    def lines(self, records: list[dict[str, Any]]) -> list[bytes]:
        """The lines of all new records, signed where the settings say so. Raises CannotSign."""
        if not self.settings.signing:
            return [record.dump(data) for data in records]
        from .signing import sign
        from .signing.keys import Keys

        return sign.lines(Keys(self.settings, self.home), records, self.repo.mem_dir)

    @property
    def home(self) -> str:
        """Where git resolves relative file names of its settings: the top of the working tree."""
        top = self.repo.top
        # git takes a worker's directory for the working tree
        if top and top != os.path.realpath(self.repo.git_dir):
            return top
        beside, name = os.path.split(self.repo.common_dir)
        return beside if name == ".git" and not self.repo.bare else self.repo.git_dir

    def append(self, scope: str, items: list[tuple[str, bytes]], message: str) -> None:
        self._whole(scope).append(items, message, self.identity, self._former(scope))
        self.wrote += len(items)

    def unite(self, theirs: str, message: str, scope: str = "team") -> Written:
        """Brings the lines of another clone's notes commit into a scope's notes."""
        done = self._whole(scope).unite(theirs, message, self.identity, self._former(scope))
        self.wrote += done.lines
        return done

    def replant(self, scope: str, items: list[tuple[str, bytes]], message: str) -> None:
        """Begins a scope's notes anew: one commit with all lines and `items`, less purged ones."""
        self._whole(scope).replant(items, message, self.identity)

    def settle(self, message: str, scope: str = "team") -> Written:
        """Puts back what stock git took out of a scope's notes, and purged lines out."""
        return self._whole(scope).settle(message, self.identity, self._former(scope))

    def _whole(self, scope: str) -> Notes:
        """A scope's notes before a write. Where their ref is gone with its commits (`git
        filter-repo` leaves out what is not below its --path), they first get the lines that the
        cache has: it would show them, and soon be the only place they are in.
        """
        notes = self.notes(scope)
        if not notes.tip():
            former = index.known_tip(self.repo.mem_dir, notes.ref)
            if former and not notes.history.commit(former):
                width = self.repo.hex_len
                items, _ = self.with_cache(
                    lambda cache: index.items_of(cache, scope, width), refresh=False
                )
                notes.append(items, "git mem: what the cache still had", self.identity)
        return notes

    def _former(self, scope: str) -> str:
        """The tip the cache remembers: it helps where the ref was deleted since."""
        with contextlib.suppress(sqlite3.Error):
            return self._cache.meta("tip:" + self.notes(scope).ref) if self._cache else ""
        return ""

    @functools.cached_property
    def table(self) -> embed.StaticTable:
        try:
            return _packaged()
        except embed.TableDamaged as e:
            message = f"the packaged embedding table is unusable: {e}"
            raise MemError(message, hint="install git mem again") from e

    def with_cache(
        self,
        action: Callable[[Cache], T],
        *,
        most: int | None = None,
        deep: bool = False,
        refresh: bool = True,
        ahead: Ahead | None = None,
    ) -> tuple[T, bool]:
        """(action's answer on a cache brought up to date, whether the cache was fresh). Not fresh:
        more than `most` new records wait, the disk is read-only, another process keeps the cache
        busy, or no `refresh` was asked for. The action may run twice.
        """
        damaged, failed, whole = 0, False, refresh and most is None
        for _ in range(_ATTEMPTS):
            tried = cache_file.inode_of(self.repo.mem_dir)
            try:
                cache, fresh = self._open(), False
                if refresh:
                    how: Any = {"most": most, "deep": deep, "ahead": ahead}
                    how["progress"] = self.progress
                    done = index.refresh(cache, self.sources, self.table, **how)
                    fresh = done is not None
                self._tell_missing()
                self.behind = self.behind or (whole and not fresh and not self._told)
                return action(cache), fresh
            except MemError as e:
                if failed or not isinstance(e, GitFailed):
                    raise
                failed = True
                self.repo.git.close()  # its `cat-file` has packs that are gone by now
                self.repo.git.present.clear()
            except Exception as e:
                kind = error_kinds.kind(e, self._cache)
                words = e.strerror or str(e) if isinstance(e, OSError) else str(e)
                if kind == "full":
                    return self._in_memory(action, f"cannot be written ({words})", most)
                if kind == "busy":
                    refresh = False
                elif kind == "damaged":
                    damaged += 1
                    if damaged > 1:
                        break
                    if not os.access(self.repo.mem_dir, os.W_OK):
                        return self._in_memory(action, f"is damaged ({words})", most)
                    self.warn(
                        f"warning: the memory cache was damaged ({words}), rebuilding it"
                        " from the notes"
                    )
                    self.discard(self._cache.inode if self._cache else tried)
                elif kind != "moved":
                    raise
                self.close_cache()
        reason = "rebuilt" if damaged else "read while others write it"
        return self._in_memory(action, f"cannot be {reason}", most)

    def _tell_missing(self) -> None:
        """Says once that a ref was mended, and why memories may be missing from an answer."""
        for _, notes in self.sources:
            if tip := notes.history.mended:
                why = "was gone or could not be read"
                self.warn(f"warning: '{notes.ref}' {why}; it is at {tip[:12]} again")
                notes.history.mended = ""
        if self._waiting and not self._told:
            self._told = True
            self.warn(
                f"warning: {', '.join(self._waiting)} could not be read, so memories may be"
                " missing: what can be read of it comes back with the next write"
            )
        gone = {id for _, notes in self.sources for id in notes.missing}
        if gone and not self._told:
            self._told = True
            why = "`git fsck` names what is missing"
            if self.repo.git.partial:
                why = "this is a partial clone, and its remote does not give them"
            self.warn(
                f"warning: {many(len(gone), 'object')} of the notes cannot be read,"
                f" so memories may be missing: {why}"
            )

    @functools.cached_property
    def _waiting(self) -> list[str]:
        return [f"'{notes.ref}'" for _, notes in self.sources if notes.waiting()]

    def unread(self) -> str:
        """Which note was too large to be read, in one line, "" for none that the cache knows of."""
        with contextlib.suppress(sqlite3.Error):
            return unread.remark(self._cache) if self._cache else ""
        return ""

    def _open(self) -> Cache:
        if self._cache is not None and self._cache.moved():
            self.close_cache()
        if self._cache is None:
            if not os.path.isdir(self.repo.common_dir):  # a session may outlive it
                raise NotARepository(f"the repository '{self.repo.common_dir}' is gone")
            opened = cache_file.open_cache(self.repo.mem_dir)
            assert opened is not None
            self._cache = opened
        return self._cache

    def history(self) -> Cache | None:
        """The cache of commits, kept open; None where no file can be read or made."""
        if self._history and self._history.moved():
            self.close_history()
        if not self._history:
            self._history = cache_file.open_cache(self.repo.mem_dir, name=cache_file.HISTORY)
        if self._history and self._history.how == "memory":
            self.close_history()
        return self._history

    def _in_memory(
        self, action: Callable[[Cache], T], reason: str, most: int | None
    ) -> tuple[T, bool]:
        """The answer from a cache in memory; not fresh where `most` forbids to fill it."""
        self.warn(f"warning: the memory cache {reason}, answering without it")
        self.close_cache()
        self._cache = cache_file.open_in_memory()
        done = index.refresh(self._cache, self.sources, self.table, most=most)
        return action(self._cache), done is not None

    def close_cache(self) -> None:
        if self._cache:
            self._cache.close()
            self._cache = None

    def close_history(self) -> None:
        if self._history:
            self._history.close()
            self._history = None

    def discard(self, inode: int = 0) -> None:
        """Removes the cache, if it is still the file `inode` (0: any); the next call builds it."""
        self.close_cache()
        cache_file.discard(self.repo.mem_dir, inode)

    def close(self) -> None:
        self.close_cache()
        self.close_history()
        self.repo.git.close()


@functools.cache
def _packaged() -> embed.StaticTable:
    """One for all stores of a process: who asks thousands of repositories maps the file once."""
    return embed.StaticTable()


def open_store(
    environ: Mapping[str, str],
    cwd: str | None = None,
    warn: Callable[[str], None] = lambda line: None,
    strict: bool = True,
    git_dir: str = "",
) -> Store:
    """The store of the repository around `cwd`, or of that `git_dir`.

    Raises NotARepository; UsageError for an impossible setting, or only warns if not `strict`.
    """
    try:
        place = cwd or os.getcwd()
    except FileNotFoundError as e:
        raise NotARepository("the current directory is gone") from e
    if git_dir:
        repo = repository.open_repo(place, git_dir=git_dir)
        return Store(repo, config_read.load(repo, environ, warn, strict), warn)
    # Where git looks is said by this process's environment; `environ` may set less.
    repo, known = discover.open_with_settings(place, os.environ)
    return Store(repo, config.build(known["git"], known["policy"], environ, warn, strict), warn)
