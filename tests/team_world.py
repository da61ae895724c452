"""Three clones, a hub, and a model of what was acknowledged: the world that the simulation walks
through.

Everything a step does is chosen by numbers that the caller draws, so a run can
be repeated and shortened. Texts hold a unique word each, so that purged text
can be looked for in every object and file.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import signal
import time
import zlib
from collections.abc import Callable

from conftest import Lab

from gitmem import sync
from gitmem.anchors import anchor_state_update, patch_id_marks
from gitmem.core.errors import MemError
from gitmem.engine.filters import Filter
from gitmem.erasure import purge
from gitmem.memory import listing, memories, recall, remember
from gitmem.store import Store, open_store

QUESTIONS = ("what do we know about retries", "memory about retries", "retries")
REF, PRIVATE = "refs/notes/mem/team", "refs/notes/mem/private"
TRACK = "refs/notes/remotes/origin/mem/team"
ADA = {"GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.org"}


class World:
    """The clones and what they were told.

    `team` and `private`: acknowledged memories, private ones by clone. `hidden`:
    ids that somebody forgot or superseded. `purged`: words that may be nowhere.
    """

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        seed = lab.repo("seed", 2)
        self.hub = lab.root / "hub.git"
        lab.git(lab.root, "clone", "-q", "--bare", str(seed), str(self.hub))
        self.clones: list[pathlib.Path] = []
        for name in "abc":
            lab.git(lab.root, "clone", "-q", str(self.hub), name)
            clone = lab.root / name
            for key, value in (
                ("notes.rewriteRef", "refs/notes/mem/*"),
                ("gc.auto", "0"),
                ("user.name", "Ada"),
                ("user.email", "ada@example.org"),
                ("gc.reflogExpire", "never"),
                ("gc.reflogExpireUnreachable", "never"),
            ):
                lab.git(clone, "config", key, value)
            self.clones.append(clone)
        self.team: set[str] = set()
        self.private: dict[pathlib.Path, set[str]] = {c: set() for c in self.clones}
        self.hidden: set[str] = set()
        self.words: dict[str, set[str]] = {}
        self.dead: set[str] = set()
        self.purged: set[str] = set()
        self.trace: list[str] = []
        self.number = 0

    # Helpers

    def store(self, clone: pathlib.Path) -> Store:
        return open_store(ADA, str(clone))

    def word(self) -> str:
        self.number += 1
        return f"zq{self.number}x{zlib.crc32(str(self.number).encode()):08x}"

    def git(self, clone: pathlib.Path, *argv: str) -> str:
        return self.lab.git(clone, *argv)

    def try_git(self, clone: pathlib.Path, *argv: str) -> bool:
        return self.lab.run(clone, "git", *argv).returncode == 0

    def known(self, store: Store) -> list[dict[str, object]]:
        return listing.list_memories(store, Filter(), all_branches=True)[0]

    def draft(self, size: int, at: int, source: bool) -> tuple[dict[str, object], str]:
        word = self.word()
        body = (
            f"memory {word} " + "about retries " * (size * 5) + ('ü {"}\n---\n' if size % 2 else "")
        )
        draft: dict[str, object] = {"body": body}
        if at:  # a clock that is years off
            draft["created_at"] = f"{1990 + at % 80}-01-01T00:00:00Z"
        if source:
            draft["source"] = f"import {self.number}"
        return draft, word

    def note(self, id: str, word: str, scope: str, clone: pathlib.Path) -> None:
        (self.team if scope == "team" else self.private[clone]).add(id)
        self.words.setdefault(id, set()).add(word)

    # Steps

    def remember(
        self,
        clone: pathlib.Path,
        count: int,
        size: int,
        at: int,
        private: bool,
        old: bool,
        source: bool,
    ) -> None:
        store = self.store(clone)
        drafts = [self.draft(size, at, source) for _ in range(count)]
        scope = "private" if private else "team"
        for result, (_, word) in zip(
            remember.remember(
                store,
                [{**d, "scope": scope, "commit": "HEAD~1" if old else "HEAD"} for d, _ in drafts],
            ),
            drafts,
            strict=True,
        ):
            assert result.status == remember.STORED, result.reason
            self.note(result.id, word, scope, clone)
        store.close()

    def edit(self, clone: pathlib.Path, pick: int) -> None:
        self._on_one(clone, pick, self._edit)

    def _edit(self, store: Store, clone: pathlib.Path, id: str, scope: str) -> None:
        draft, word = self.draft(1, 0, False)
        memories.edit(store, id, {"body": draft["body"]})
        self.words.setdefault(id, set()).add(word)

    def forget(self, clone: pathlib.Path, pick: int) -> None:
        self._on_one(clone, pick, self._forget)

    def _forget(self, store: Store, clone: pathlib.Path, id: str, scope: str) -> None:
        self.hidden.add(id)
        memories.forget(store, id)

    def restore(self, clone: pathlib.Path, pick: int) -> None:
        """Takes back what hides one of the forgotten memories; a later forget may hide it again."""
        store = self.store(clone)
        items = listing.list_forgotten(store, Filter(), None).items
        if items:
            memories.restore(store, str(items[pick % len(items)]["id"]))
        store.close()

    def supersede(self, clone: pathlib.Path, pick: int) -> None:
        self._on_one(clone, pick, self._supersede)

    def _supersede(self, store: Store, clone: pathlib.Path, id: str, scope: str) -> None:
        self.hidden.add(id)
        draft, word = self.draft(1, 0, False)
        self.note(memories.supersede(store, id, draft), word, scope, clone)

    def share(self, clone: pathlib.Path, pick: int) -> None:
        self._on_one(clone, pick, self._share, "private")

    def _share(self, store: Store, clone: pathlib.Path, id: str, scope: str) -> None:
        memories.share(store, id)
        self.team.add(id)

    def purge(self, clone: pathlib.Path, pick: int) -> None:
        self._on_one(clone, pick, self._purge)

    def _purge(self, store: Store, clone: pathlib.Path, id: str, scope: str) -> None:
        data = memories.find(store, id).record.data
        guessable = not any(
            r.data.get("salt") for r in memories.find(store, id).memory.records
        ) and data.get("source")
        known = {
            w
            for r in memories.find(store, id).memory.records
            for w in self.words.get(id, ())
            if w in str(r.data.get("body", ""))
        }
        purge.purge(store, purge.find(store, id))
        # A tombstone that must not name the id of a guessable text names the lines it knew.
        self.purged |= known if guessable else self.words.get(id, set())
        self.dead.add(id)

    def _on_one(
        self,
        clone: pathlib.Path,
        pick: int,
        action: Callable[[Store, pathlib.Path, str, str], None],
        scope: str = "",
    ) -> None:
        store = self.store(clone)
        try:
            items = [m for m in self.known(store) if not scope or m["scope"] == scope]
            if items:
                item = items[pick % len(items)]
                action(store, clone, str(item["id"]), str(item["scope"]))
        finally:
            store.close()

    def sync(self, clone: pathlib.Path) -> None:
        store = self.store(clone)
        try:
            sync.push(store, allow_secret=True)
        finally:
            store.close()

    def pull(self, clone: pathlib.Path) -> None:
        store = self.store(clone)
        try:
            sync.pull(store)
        finally:
            store.close()

    def stock_sync(self, clone: pathlib.Path, strategy: str) -> None:
        """What a teammate without git mem does: fetch, merge, push; a lost race is left for
        later."""
        self.unlock(clone)
        if self.git(clone, "ls-remote", "origin", REF):
            self.git(clone, "fetch", "-q", "origin", f"+{REF}:{TRACK}")
            self.git(clone, "notes", "--ref=mem/team", "merge", "-q", "-s", strategy, TRACK)
        if self.try_git(clone, "rev-parse", "-q", "--verify", REF):
            self.try_git(clone, "push", "-q", "origin", REF)

    def unlock(self, clone: pathlib.Path) -> None:
        """What stock git tells its user to do about the lock of a writer that was killed."""
        for lock in (clone / ".git" / "refs" / "notes").rglob("*.lock"):
            lock.unlink()

    def stock_damage(self, clone: pathlib.Path, kind: int) -> None:
        """Stock git takes notes away, or a hand adds a line."""
        if not self.try_git(clone, "rev-parse", "-q", "--verify", REF):
            return
        self.unlock(clone)
        if kind == 0:
            self.git(clone, "notes", "--ref=mem/team", "prune")
        elif kind == 1:
            listed = self.git(clone, "notes", "--ref=mem/team", "list").split()
            self.try_git(clone, "notes", "--ref=mem/team", "remove", listed[1]) if listed else None
        elif kind == 2:
            self.git(
                clone, "notes", "--ref=mem/team", "append", "-m", f"a remark {self.number}", "HEAD"
            )
        else:
            self.try_git(clone, "update-ref", REF, f"{REF}~1")

    def ref_damage(self, clone: pathlib.Path, kind: int, private: bool) -> None:
        """A ref goes: by hand, by a fetch that mirrors and prunes; or a power cut leaves nothing in
        its file.
        """
        ref = PRIVATE if private else REF
        self.unlock(clone)
        if not self.try_git(clone, "rev-parse", "-q", "--verify", ref):
            return
        file = clone / ".git" / ref
        if kind == 0:
            self.git(clone, "update-ref", "-d", ref)
        elif kind == 1:
            self.git(clone, "fetch", "-q", "--prune", "origin", "+refs/notes/*:refs/notes/*")
        elif file.exists():
            file.write_bytes(b"\0" * 41 if kind == 2 else b"")
            self.look(clone)  # until somebody with git mem does, stock git stops at such a file

    def look(self, clone: pathlib.Path) -> None:
        """A read, and what the worker does after it."""
        store = self.store(clone)
        try:
            self.known(store)
            anchor_state_update.update(store, patience=60)
            patch_id_marks.write_found(store)
        finally:
            store.close()

    def hub_damage(self, kind: int) -> None:
        """The hub loses its notes, or a clone's are forced onto it."""
        if kind == 0:
            self.lab.run(self.hub, "git", "update-ref", "-d", REF)
        else:
            self.try_git(self.clones[kind % 3], "push", "-q", "--force", "origin", REF)

    def rewrite(self, clone: pathlib.Path, kind: int) -> None:
        self.number += 1
        n = self.number
        if kind == 0:
            self.git(clone, "commit", "-q", "--amend", "--allow-empty", "-m", f"amended {n}")
        elif kind == 1:
            (clone / f"w{n}.txt").write_text(f"{n}\n")
            self.git(clone, "add", "-A")
            self.git(clone, "commit", "-q", "-m", f"work {n}")
        elif kind == 2:  # a branch, rebased onto main, squashed into it, deleted
            self.git(clone, "checkout", "-q", "-b", f"topic{n}", "HEAD~1")
            (clone / f"t{n}.txt").write_text(f"{n}\n")
            self.git(clone, "add", "-A")
            self.git(clone, "commit", "-q", "-m", f"topic {n}")
            self.remember(clone, 1, 1, 0, False, False, False)
            self.git(clone, "rebase", "-q", "main")
            self.git(clone, "checkout", "-q", "main")
            self.git(clone, "merge", "-q", "--squash", f"topic{n}")
            self.git(clone, "commit", "-q", "--allow-empty", "-m", f"squashed {n}")
            self.git(clone, "branch", "-q", "-D", f"topic{n}")
        elif (
            kind == 3
        ):  # another commit than before, to which stock git copied the notes; then the copy goes
            (clone / f"a{n}.txt").write_text(f"{n}\n")
            self.git(clone, "add", "-A")
            self.git(clone, "commit", "-q", "--amend", "-m", f"amended {n}")
            self.unlock(clone)
            self.try_git(clone, "notes", "--ref=mem/team", "remove", "HEAD")
        else:
            self.git(clone, "revert", "-n", "HEAD")
            self.git(clone, "commit", "-q", "--allow-empty", "-m", f"reverted {n}")

    def aside(self, clone: pathlib.Path, pick: int, merged: bool) -> None:
        """On a branch something is superseded; back on main it counts again, unless that is
        merged."""
        self.number += 1
        name = f"aside{self.number}"
        self.git(clone, "checkout", "-q", "-b", name)
        (clone / f"{name}.txt").write_text(f"{name}\n")
        self.git(clone, "add", "-A")
        self.git(clone, "commit", "-q", "-m", name)
        self.supersede(clone, pick)
        self.answers(clone)
        self.git(clone, "checkout", "-q", "main")
        self.answers(clone)
        if merged:
            self.git(clone, "merge", "-q", "--no-edit", name)

    def answers(self, clone: pathlib.Path) -> list[object]:
        """What questions find, with each part of a score to the last bit; ties in any order."""
        store = self.store(clone)
        try:
            found = [recall.recall(store, question, Filter(), limit=1000) for question in QUESTIONS]
        finally:
            store.close()
        return [
            [
                a["verdict"],
                a["probability"],
                a["searched"],
                sorted(
                    (h["id"], h["body"], h["score"], sorted(h["explain"].items()))
                    for h in a["hits"]
                ),
            ]
            for a in found
        ]

    def gc(self, clone: pathlib.Path, hard: bool) -> None:
        self.git(clone, "gc", "-q", *(["--prune=now"] if hard else []))

    def lose_mem(self, clone: pathlib.Path) -> None:
        shutil.rmtree(clone / ".git/mem", ignore_errors=True)

    def lose_cache(self, clone: pathlib.Path) -> None:
        store = self.store(clone)
        store.discard()
        store.close()

    def kill(self, clone: pathlib.Path, what: str, pick: int, after: float) -> None:  # noqa: C901
        """A process of ours dies `after` seconds; what it acknowledged counts, and nothing else has
        to.
        """
        draft, word = self.draft(1, 0, False)
        items = []
        if what in ("forget", "purge"):
            store = self.store(clone)
            items = self.known(store)
            store.close()
            if not items:
                return
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.setsid()
                os.dup2(os.open(os.devnull, os.O_RDWR), 2)
                store = self.store(clone)
                if what == "remember":
                    os.write(writer, json.dumps(remember.remember(store, [draft])[0].id).encode())
                elif what == "sync":
                    sync.push(store, allow_secret=True)
                elif what == "forget":
                    memories.forget(store, str(items[pick % len(items)]["id"]))
                else:
                    purge.purge(store, purge.find(store, str(items[pick % len(items)]["id"])))
                os._exit(0)
            except BaseException:
                os._exit(1)
        os.close(writer)
        time.sleep(after)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(reader, "rb") as answer:
            said = answer.read()
        # A lock that our own writer left is ours to clear; of what else git was doing, its users
        # are told to.
        for lock in [
            *(self.hub / "refs").rglob("*.lock"),
            *(clone / ".git").glob("*.lock"),
            *self.hub.glob("*.lock"),
        ]:
            lock.unlink()
        if said:
            self.note(json.loads(said), word, "team", clone)
        elif what == "remember":
            self.words.setdefault("?", set()).add(word)
        if items:
            id = str(items[pick % len(items)]["id"])
            self.hidden.add(id)
            if (
                what == "purge"
            ):  # begun: it may or may not have gone through, so somebody runs it again
                self.dead.add(id)
                store = self.store(clone)
                with contextlib.suppress(MemError):
                    self._purge(store, clone, id, "")
                store.close()
