"""What takes long says how far it is: use cases by name and total, git in its own words."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
from collections.abc import Callable, Iterator

import pytest
from conftest import Lab

from gitmem import sync
from gitmem.agents import automemory_import, past_sessions
from gitmem.capture import commitlog, pipeline
from gitmem.core.errors import MemError
from gitmem.engine.filters import Filter
from gitmem.erasure import purge
from gitmem.git import commit_reader, remote
from gitmem.memory import adr, listing
from gitmem.store import Store, open_store


class Seen:
    """A progress that notes {what: (how much was done, of how much)}."""

    def __init__(self) -> None:
        self.told: dict[str, tuple[int, int | None]] = {}

    @contextlib.contextmanager
    def __call__(self, what: str, total: int | None) -> Iterator[Callable[[int], None]]:
        done = 0

        def advance(more: int) -> None:
            nonlocal done
            done += more

        yield advance
        self.told[what] = (done, total)


@contextlib.contextmanager
def watched(repo: pathlib.Path) -> Iterator[tuple[Store, Seen]]:
    store, seen = open_store(os.environ, str(repo)), Seen()
    store.progress = seen
    try:
        yield store, seen
    finally:
        store.close()


@pytest.fixture
def repo(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    for name, value in lab.env.items():
        monkeypatch.setenv(name, value)
    path = lab.repo()
    lines = [json.dumps({"body": f"memory number {i} of a few"}) for i in range(5)]
    lab.mem(path, "remember", "--jsonl", "-", stdin="\n".join(lines))
    lab.git(path, "clone", "-q", "--bare", str(path), str(lab.root / "origin.git"))
    lab.git(path, "remote", "add", "origin", str(lab.root / "origin.git"))
    return path


def test_a_sync_counts_what_it_looks_at_and_tells_gits_own_progress(
    lab: Lab, repo: pathlib.Path
) -> None:
    with watched(repo) as (store, seen):
        sync.push(store)
    assert seen.told["reading records"][0] == seen.told["looking for secrets"][0] == 5
    done, total = seen.told["writing objects"]
    assert done == total and done > 0
    other = lab.repo("other")
    lab.git(other, "remote", "add", "origin", str(lab.root / "origin.git"))
    with watched(other) as (store, seen):
        assert sync.pull(store).received == 5
    assert seen.told["indexing"] == seen.told["looking for secrets"] == (5, 5)
    done, total = seen.told["counting objects"]
    assert done == total and done > 0


def test_with_progress_a_push_is_refused_in_the_words_of_the_remote(
    lab: Lab, repo: pathlib.Path
) -> None:
    hook = lab.root / "origin.git" / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho 'no notes here, sorry' >&2\nexit 1\n")
    hook.chmod(0o755)
    with watched(repo) as (store, _), pytest.raises(MemError, match="no notes here, sorry"):
        sync.push(store)


@pytest.mark.quick
def test_lines_of_progress_are_counted_and_all_others_kept(tmp_path: pathlib.Path) -> None:
    said = (
        "Enumerating objects: 12, done.\\nCounting objects:  50% (6/12)\\r"
        "Counting objects: 100% (12/12)\\rCounting objects: 100% (12/12), done.\\n"
        "remote: Resolving deltas: 100% (3/3), done.\\nremote: be careful: 100 % (really)\\n"
        "fatal: no such place"
    )
    process = subprocess.Popen(
        ["sh", "-c", f"printf '{said.replace('%', '%%')}' >&2; echo out; exit 3"],
        cwd=tmp_path,
        stdin=-1,
        stdout=-1,
        stderr=-1,
    )
    seen = Seen()
    out, err = remote.communicate(process, seen)
    assert (process.returncode, out) == (3, b"out\n")
    assert err == b"remote: be careful: 100 % (really)\nfatal: no such place"
    assert seen.told == {
        "enumerating objects": (12, None),
        "counting objects": (12, 12),
        "resolving deltas": (3, 3),
    }


def test_every_import_says_how_far_it_is(
    lab: Lab, repo: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = repo / "docs" / "adr", lab.root / "notes", lab.root / ".claude" / "projects"
    for place in places[:2]:
        place.mkdir(parents=True)
        for i in range(3):
            text = f"# Choice {i}\n\n## Status\n\nAccepted\n\n## Decision\n\nTake {i}.\n"
            (place / f"000{i}-choice.md").write_text(text)
    with watched(repo) as (store, seen):
        adr.take(store)
        assert (seen.told["reading decisions"], seen.told["remembering"]) == ((3, None), (3, 3))
        assert store.wrote == store.expected == 3
    with watched(repo) as (store, seen):
        assert len(automemory_import.take(store, str(places[1])).items) == 3
        assert seen.told["remembering"][0] == seen.told["remembering"][1]
    with watched(repo) as (store, seen):
        for word, hour in (("two", "12"), ("three", "10"), ("four", "11")):  # clocks differ
            lab.env["GIT_COMMITTER_DATE"] = f"2031-01-01T{hour}:00:00Z"
            lab.git(repo, "commit", "-q", "--allow-empty", "-m", word)
        monkeypatch.setattr(commit_reader, "_PORTION", 2)
        commits = commit_reader.read_counted(store.repo.git, "HEAD", 10, store.progress)
        assert commits == commit_reader.read(store.repo.git, ["HEAD"], [], 10) and len(commits) > 3
        assert seen.told["reading commits"] == (len(commits), len(commits))
        pipeline.keep(store, commitlog.candidates([*commits]))
        done, total = seen.told["judging"]
        assert done == total
    with watched(repo) as (store, seen):
        past_sessions.take(store, past_sessions.find(store, lab.env))
        assert seen.told["looking for sessions"] == seen.told["reading sessions"] == (0, 0)


def test_a_list_and_a_purge_say_how_far_they_are(lab: Lab, repo: pathlib.Path) -> None:
    with watched(repo) as (store, seen):
        items = listing.list_memories(store, Filter()).items
        assert seen.told["reading memories"] == (5, 5)
        purge.purge(store, purge.find(store, items[0]["id"]))
        done, total = seen.told["searching objects"]
        assert done == total and seen.told["listing objects"][0] > 0
