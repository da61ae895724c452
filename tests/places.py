"""What people do to history, for the tests of where memories stand: branches, squash merges,
clones, with real git.
"""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import Lab

from gitmem.anchors import anchor_state, anchor_state_update, patch_id_marks
from gitmem.engine import anchor_state_store
from gitmem.engine.filters import Filter
from gitmem.git.gitcmd import Git
from gitmem.memory import listing, remember, view
from gitmem.store import Store, open_store


@contextlib.contextmanager
def opened(repo: pathlib.Path) -> Iterator[Store]:
    store = open_store({"GIT_MEM_ENCODER": "false", "GIT_MEM_HISTORY": "false"}, str(repo))
    try:
        yield store
    finally:
        store.close()


def tell(repo: pathlib.Path, text: str, commit: str = "", scope: str = "") -> str:
    """Remembers a text; returns its id."""
    with opened(repo) as store:
        (result,) = remember.remember(store, [{"body": text, "commit": commit, "scope": scope}])
        assert result.status == remember.STORED, result.reason
        return result.id


def anchors(repo: pathlib.Path, at: str = "HEAD") -> dict[str, dict[str, Any]]:
    """{body: anchor} of every memory as seen from a revision."""
    with opened(repo) as store:
        found = store.with_cache(
            lambda cache: view.objects(store, cache, listing.rows_of(cache, Filter()), at)
        )[0]
        return {m["body"]: m["anchor"] for m in found}


def states(repo: pathlib.Path, at: str = "HEAD") -> dict[str, str]:
    return {body: anchor["state"] for body, anchor in anchors(repo, at).items()}


def kept(store: Store) -> dict[str, anchor_state_store.AnchorState]:
    """What a hook reads for all anchors after the worker was there."""
    store.with_cache(lambda cache: None)
    anchor_state_update.update(store, patience=60)
    return store.with_cache(
        lambda cache: anchor_state_store.read(
            cache, anchor_state.of_memories(cache, most=1), store.repo.head()
        )
    )[0]


def full(store: Store) -> dict[str, anchor_state_store.AnchorState]:
    return store.with_cache(
        lambda cache: anchor_state.states(
            store.repo,
            cache,
            anchor_state.of_memories(cache, most=1),
            store.repo.head(),
            60.0,
            kept=False,
        )
    )[0]


def same(one: dict[str, anchor_state_store.AnchorState]) -> dict[str, tuple[str, str, str]]:
    return {a: (s.state, s.commit, s.reason) for a, s in one.items()}


def commit(lab: Lab, repo: pathlib.Path, file: str, text: str, message: str = "") -> str:
    """Appends a line to a file and commits it; returns the commit."""
    path = repo / file
    path.write_text((path.read_text() if path.exists() else "") + text + "\n")
    lab.git(repo, "add", "-A")
    lab.git(repo, "commit", "-q", "-m", message or text)
    return head(lab, repo)


def head(lab: Lab, repo: pathlib.Path, name: str = "HEAD") -> str:
    return lab.git(repo, "rev-parse", name).strip()


def following(lab: Lab, name: str = "repo") -> pathlib.Path:
    """A repository whose notes follow rewrites, as after `git mem init`."""
    repo = lab.repo(name)
    lab.git(repo, "config", "notes.rewriteRef", "refs/notes/mem/*")
    return repo


def topic(lab: Lab, repo: pathlib.Path, commits: int = 3, name: str = "topic") -> list[str]:
    """A branch with a memory on each commit; ends on it."""
    lab.git(repo, "checkout", "-q", "-b", name)
    out = []
    for i in range(commits):
        out.append(commit(lab, repo, f"{name}.txt", f"{name} line {i}"))
        tell(repo, f"{name} {i}")
    return out


def squash(lab: Lab, repo: pathlib.Path, name: str = "topic") -> str:
    lab.git(repo, "checkout", "-q", "main")
    lab.git(repo, "merge", "-q", "--squash", name)
    lab.git(repo, "commit", "-q", "-m", f"{name} (#1)")
    return head(lab, repo)


def publish(lab: Lab, repo: pathlib.Path, remote: str = "origin") -> int:
    """What a sync does about marks, and the push of the notes."""
    with opened(repo) as store:
        written = patch_id_marks.publish(store)
    lab.git(repo, "push", "-q", remote, "refs/notes/mem/team")
    return written


def hub(lab: Lab) -> pathlib.Path:
    """A bare repository with a commit on main."""
    lab.repo("seed")
    lab.git(lab.root, "clone", "-q", "--bare", "seed", "hub.git")
    return lab.root / "hub.git"


def clone(lab: Lab, name: str, *options: str) -> pathlib.Path:
    path = lab.root / name
    lab.git(lab.root, "clone", "-q", *options, (lab.root / "hub.git").as_uri(), name)
    lab.run(path, "git", "fetch", "-q", "origin", "refs/notes/mem/team:refs/notes/mem/team")
    return path


class Count:
    """The git processes that were started, by their first word."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.words: list[str] = []
        start = Git.start

        def counting(git: Git, args: Any, *rest: Any, **pipes: Any) -> Any:
            words = list(args)
            while words[0] == "-c":  # a setting and its value
                words = words[2:]
            self.words.append(words[0])
            return start(git, args, *rest, **pipes)

        monkeypatch.setattr(Git, "start", counting)

    def of(self, action: Any) -> list[str]:
        self.words.clear()
        action()
        return sorted(self.words)
