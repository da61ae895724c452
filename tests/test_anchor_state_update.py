"""Moves of HEAD: what is kept after each equals what git says, over generated histories, and costs
only what lies between. What they do to branches and clones: test_headmove_branches.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from conftest import Lab, clean_env
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from places import Count, commit, full, kept, opened, same, squash, tell

from gitmem.anchors import anchor_state, anchor_state_update, patch_id
from gitmem.engine import anchor_state_store, cache_lock
from gitmem.memory import remember
from gitmem.store import Store, open_store

ROOT = pathlib.Path(__file__).resolve().parent.parent


def _reference() -> Any:
    """`tools/where_reference.py`: the slow reference, which shares no code with the package."""
    spec = importlib.util.spec_from_file_location(
        "where_reference", ROOT / "tools" / "where_reference.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Reference


# --- generated histories ---------------------------------------------------

FILES = ("a", "b", "c")
BRANCHES = ("main", "one", "two")
_branch, _file = st.sampled_from(BRANCHES), st.sampled_from(FILES)
STEPS = st.one_of(
    st.tuples(st.just("commit"), _file, st.integers(0, 5)),
    st.tuples(st.just("commit"), _file, st.integers(0, 5)),
    st.tuples(st.just("tell"), st.integers(0, 3)),
    st.tuples(st.just("tell"), st.just(0)),
    st.tuples(st.just("switch"), _branch),
    st.tuples(st.just("switch"), _branch),
    st.tuples(st.just("fork"), _branch),
    st.tuples(st.just("merge"), _branch),
    st.tuples(st.just("squash"), _branch),
    st.tuples(st.just("pick"), _branch),
    st.tuples(st.just("rebase"), _branch),
    st.tuples(st.just("amend")),
    st.tuples(st.just("back"), st.integers(1, 4)),
    st.tuples(st.just("detach"), st.integers(1, 4)),
    st.tuples(st.just("delete"), _branch),
    st.tuples(st.just("revert")),
    st.tuples(st.just("worker")),
    st.tuples(st.just("worker")),
)


class History:
    """A repository that people work in; what git refuses is taken back."""

    def __init__(self, root: pathlib.Path) -> None:
        self.repo = root / "repo"
        self.env = clean_env(root)
        self.told = 0
        self.clock = 1_767_000_000
        self.git("init", "-q", "-b", "main", str(self.repo), cwd=root)
        self.git("config", "notes.rewriteRef", "refs/notes/mem/*")
        self.write("a", 0)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "begin")

    def git(self, *argv: str, cwd: pathlib.Path | None = None) -> str:
        self.clock += 60
        when = f"{self.clock} +0000"
        done = subprocess.run(
            ["git", *argv],
            cwd=cwd or self.repo,
            env={
                **self.env,
                "GIT_AUTHOR_DATE": when,
                "GIT_COMMITTER_DATE": when,
                "GIT_EDITOR": "true",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise ValueError(done.stderr)
        return done.stdout.strip()

    def write(self, file: str, line: int) -> None:
        path = self.repo / file
        lines = (
            path.read_text().splitlines() if path.exists() else [f"{file} {n}" for n in range(6)]
        )
        lines[line] += " changed"
        path.write_text("\n".join(lines) + "\n")

    def step(self, store: Store, step: tuple[Any, ...]) -> None:
        kind, *args = step
        try:
            self._do(store, kind, *args)
        except ValueError:
            for words in (
                ("merge", "--abort"),
                ("rebase", "--abort"),
                ("cherry-pick", "--abort"),
                ("revert", "--abort"),
            ):
                try:
                    self.git(*words)
                except ValueError:
                    continue
            self.git("reset", "-q", "--hard")

    def _do(self, store: Store, kind: str, *args: Any) -> None:
        if kind == "commit":
            self.write(*args)
            self.git("add", "-A")
            self.git("commit", "-q", "-m", f"change {args}")
        elif kind == "tell":
            self.told += 1
            (result,) = remember.remember(
                store, [{"body": f"memory {self.told}", "commit": f"HEAD~{args[0]}"}]
            )
            assert result.status in (remember.STORED, remember.REFUSED), result.reason
        elif kind in ("switch", "rebase", "merge"):
            self.git(
                {"switch": "checkout"}.get(kind, kind),
                "-q",
                *(["-m", "merge", "--no-edit"] if kind == "merge" else []),
                args[0],
            )
        elif kind == "fork":
            self.git("checkout", "-q", "-b", args[0])
        elif kind == "squash":
            self.git("merge", "-q", "--squash", args[0])
            self.git("commit", "-q", "-m", f"squash of {args[0]}")
        elif kind == "pick":
            self.git("cherry-pick", args[0])
        elif kind == "amend":
            self.git("commit", "-q", "--amend", "-m", f"amended {self.clock}")
        elif kind == "back":
            self.git("reset", "-q", "--hard", f"HEAD~{args[0]}")
        elif kind == "detach":
            self.git("checkout", "-q", "--detach", f"HEAD~{args[0]}")
        elif kind == "delete":
            self.git("branch", "-q", "-D", args[0])
        elif kind == "revert":
            self.git("revert", "--no-edit", "HEAD")

    def ways(self) -> tuple[dict[str, list[str]], dict[str, set[str]]]:
        """({anchor: itself and what took its place}, {commit: patch-ids of branches that records
        state}), from the notes alone.
        """
        step: dict[str, set[str]] = {}
        stated: dict[str, set[str]] = {}
        anchors = []
        for row in self.git("notes", "--ref=mem/team", "list").splitlines():
            blob, at = row.split()
            for line in self.git("cat-file", "blob", blob).splitlines():
                data = json.loads(line) if line.strip() else {}
                if data.get("commit"):
                    anchors.append(data["commit"])
                    stated.setdefault(data["commit"], set()).update(
                        {data.get("patch", ""), data.get("branch_patch", "")} - {""}
                    )
                    if at != data["commit"]:
                        step.setdefault(data["commit"], set()).add(at)
        ways = {}
        for anchor in dict.fromkeys(anchors):
            way = [anchor]
            for c in way:
                way += [n for n in sorted(step.get(c, ())) if n not in way]
            ways[anchor] = way
        return ways, stated


@settings(
    max_examples=int(os.environ.get("GIT_MEM_HISTORIES", "5")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    steps=st.lists(STEPS, min_size=8, max_size=28),
    alone=st.booleans(),
)
def test_what_is_kept_after_each_move_is_what_git_says(
    steps: list[tuple[Any, ...]], alone: bool
) -> None:
    """`alone`: no full search, which keeps what it learns, helps the worker on the way."""
    with tempfile.TemporaryDirectory() as directory:
        world = History(pathlib.Path(directory))
        reference = _reference()(world.repo, world.env)
        store = open_store(
            {"GIT_MEM_ENCODER": "false", "GIT_MEM_HISTORY": "false"}, str(world.repo)
        )
        try:
            remember.remember(store, [{"body": "the first"}])
            for n, step in enumerate([*steps, ("worker",)]):
                if step[0] == "worker":
                    said = kept(store)
                    asked = full(store) if not alone or n == len(steps) else said
                    reference.learn()
                    ways, stated = world.ways()
                    assert ways.keys() == said.keys()
                    here = head_of(world)
                    truth = {
                        a: reference.state(way, here, {id for c in way for id in stated.get(c, ())})
                        for a, way in ways.items()
                    }
                    assert {a: s.state for a, s in asked.items()} == truth
                    assert same(said) == same(asked)
                else:
                    world.step(store, step)
        finally:
            store.close()


def head_of(world: History) -> str:
    return world.git("rev-parse", "HEAD")


# --- what it costs ----------------------------------------------------------


def diffed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every difference that a patch-id is made of, as it is asked for."""
    out: list[str] = []
    made = patch_id.patch_ids

    def counting(repo: Any, wanted: Sequence[str], seconds: float) -> Any:
        found = made(repo, wanted, seconds)
        out.extend(wanted[: found[1]])
        return found

    monkeypatch.setattr(patch_id, "patch_ids", counting)
    return out


def long_history(lab: Lab, commits: int) -> pathlib.Path:
    """A repository whose main line has that many commits, made by one `git fast-import`."""
    repo = lab.repo()
    return lengthen(lab, repo, commits)


def lengthen(lab: Lab, repo: pathlib.Path, commits: int) -> pathlib.Path:
    stream = "".join(
        f"commit refs/heads/main\ncommitter Ada <ada@example.org> {1_700_000_000 + n * 60}"
        " +0000\ndata 1\nx\n"
        + ("from refs/heads/main^0\n" if not n else "")
        + f"M 644 inline g{n % 50}\ndata {len(str(n))}\n{n}\n"
        for n in range(commits)
    )
    lab.git(repo, "fast-import", "--quiet", "--force", stdin=stream)
    lab.git(repo, "reset", "-q", "--hard")
    return repo


def test_one_open_branch_costs_patch_ids_down_to_where_it_began_and_no_further(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = long_history(lab, 3_000)
    lab.git(repo, "checkout", "-q", "-b", "topic", "main~40")
    commit(lab, repo, "topic.txt", "one")
    tell(repo, "about the topic")
    lab.git(repo, "checkout", "-q", "main")
    tell(repo, "about an old commit", "main~2900")
    asked = diffed(monkeypatch)
    with opened(repo) as store:
        assert sorted(s.state for s in kept(store).values()) == ["reachable", "unmerged"]
        assert 40 <= len(asked) <= 45
        asked.clear()
        for n in range(3):
            commit(lab, repo, "main.txt", f"{n}")
            kept(store)
        assert len(asked) == 3 * 1 + 0  # the new commit; the branch did not move
        asked.clear()
        lab.git(
            repo, "checkout", "-q", "--detach", "main~900"
        )  # before it began: the main line since is no branch
        assert {s.state for s in kept(store).values()} == {"reachable", "unmerged"}
        lab.git(repo, "checkout", "-q", "main")
        kept(store)
        assert not asked


def test_many_open_branches_are_sought_from_the_oldest_on(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = long_history(lab, 1_500)
    for n in range(8):  # more than `equivalent_commits` asks git's own search for
        lab.git(repo, "checkout", "-q", "-b", f"topic{n}", f"main~{10 + 9 * n}")
        commit(lab, repo, f"topic{n}.txt", "one")
        tell(repo, f"about topic {n}")
    lab.git(repo, "checkout", "-q", "main")
    asked = diffed(monkeypatch)
    with opened(repo) as store:
        assert {s.state for s in kept(store).values()} == {"unmerged"}
    main = [c for c in asked if " " not in c]
    assert len(main) == len(set(main)) == 10 + 9 * 7


def test_without_an_open_anchor_no_commit_is_diffed(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = long_history(lab, 200)
    tell(repo, "about the main line", "main~100")
    asked = diffed(monkeypatch)
    with opened(repo) as store:
        kept(store)
        commit(lab, repo, "main.txt", "more")
        kept(store)
        lab.git(repo, "reset", "-q", "--hard", "main~50")
        assert {s.state for s in kept(store).values()} == {"reachable"}
        lab.git(repo, "checkout", "-q", "--detach", "main~100")
        assert {s.state for s in kept(store).values()} == {
            "unmerged"
        }  # below its commit nothing can carry its change
    assert not asked


def test_a_commit_asks_git_little_and_writes_what_changed(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = long_history(lab, 100)
    with opened(repo) as store:
        assert all(
            r.status == remember.STORED
            for r in remember.remember(
                store, [{"body": f"memory {n}", "commit": f"main~{n}"} for n in range(60)]
            )
        )
        kept(store)
        commit(lab, repo, "main.txt", "more")
        tell(repo, "about the new one")
        store.with_cache(lambda cache: None)
        changes = store.with_cache(lambda cache: cache.db.total_changes)[0]
        count = Count(monkeypatch)
        words = count.of(lambda: anchor_state_update.update(store, patience=60))
        assert words.count("rev-list") <= 3 and "patch-id" not in words
        assert store.with_cache(
            lambda cache: cache.db.execute("SELECT count(*) FROM anchor_state").fetchone()
        )[0] == (61,)
        assert store.with_cache(lambda cache: cache.db.total_changes)[0] - changes < 30
        words = count.of(lambda: anchor_state_update.update(store, patience=60))
        assert words.count("rev-list") == 0


def test_a_time_that_runs_out_is_waited_for_and_gone_on_with(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = lab.repo()
    lab.git(repo, "checkout", "-q", "-b", "topic")
    commit(lab, repo, "topic.txt", "one")
    tell(repo, "about the topic")
    squash(lab, repo)
    lengthen(lab, repo, 400)  # the newest are looked at first
    asked = diffed(monkeypatch)
    monkeypatch.setattr(patch_id, "CHUNK", 100)
    with opened(repo) as store:
        store.with_cache(lambda cache: None)
        seen = []
        for _ in range(6):
            clock = [0.0]
            monkeypatch.setattr(
                patch_id.time,
                "monotonic",
                lambda clock=clock: clock.__setitem__(0, clock[0] + 1.0) or clock[0],
            )
            anchor_state_update.update(store, 3.0)
            (stand,) = store.with_cache(
                lambda cache: anchor_state_store.read(
                    cache, anchor_state.of_memories(cache), store.repo.head()
                )
            )[0].values()
            seen.append(stand.state)
        assert seen[0] == "unknown" and seen[-1] == "squashed"
        assert len(asked) == len(set(asked))  # none twice


def test_index_waits_for_a_worker_that_is_at_it(lab: Lab) -> None:
    """It did nothing then, and a hook that asked next read `unknown`."""
    repo = lab.repo()
    tell(repo, "about the first one")
    with opened(repo) as store:
        lock = cache_lock.locked(os.path.join(store.repo.mem_dir, "anchors"), 60)
        assert lock.__enter__()
        store.with_cache(lambda cache: cache.db.execute("DELETE FROM head"))
        worker = threading.Timer(1.0, lock.close)
        worker.start()
        assert "another process" not in lab.mem(repo, "index")
        worker.join()
        assert store.with_cache(anchor_state_store.slots)[0]
