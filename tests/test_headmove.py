"""Moves of HEAD: what is kept after each equals what git says, over generated histories, and costs only what lies between."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import subprocess
import tempfile
from typing import Any

from conftest import clean_env
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitmem.anchors import reanchor, standing, where
from gitmem.memory import remember
from gitmem.store import Store, open_store

ROOT = pathlib.Path(__file__).resolve().parent.parent


def _reference() -> Any:
    """`tools/eval_where.py`: the slow reference, which shares no code with the package."""
    spec = importlib.util.spec_from_file_location("eval_where", ROOT / "tools" / "eval_where.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Reference


def kept(store: Store) -> dict[str, standing.Stand]:
    """What a hook reads for all anchors after the worker was there."""
    store.with_cache(lambda cache: None)
    reanchor.finish(store)
    return store.with_cache(lambda cache: standing.read(cache, reanchor.anchors(cache, most=1), store.repo.head()))[0]


def full(store: Store) -> dict[str, standing.Stand]:
    return store.with_cache(lambda cache: where.stands(store.repo, cache, reanchor.anchors(cache, most=1), store.repo.head(), 60.0, again=True))[0]


def same(one: dict[str, standing.Stand]) -> dict[str, tuple[str, str, str]]:
    return {a: (s.state, s.commit, s.reason) for a, s in one.items()}


# --- generated histories ---------------------------------------------------

FILES = ("a", "b", "c")
BRANCHES = ("main", "one", "two")
_branch, _file = st.sampled_from(BRANCHES), st.sampled_from(FILES)
STEPS = st.one_of(
    st.tuples(st.just("commit"), _file, st.integers(0, 5)), st.tuples(st.just("commit"), _file, st.integers(0, 5)), st.tuples(st.just("tell"), st.integers(0, 3)), st.tuples(st.just("tell"), st.just(0)),
    st.tuples(st.just("switch"), _branch), st.tuples(st.just("switch"), _branch), st.tuples(st.just("fork"), _branch), st.tuples(st.just("merge"), _branch), st.tuples(st.just("squash"), _branch),
    st.tuples(st.just("pick"), _branch), st.tuples(st.just("rebase"), _branch), st.tuples(st.just("amend")), st.tuples(st.just("back"), st.integers(1, 4)), st.tuples(st.just("detach"), st.integers(1, 4)),
    st.tuples(st.just("delete"), _branch), st.tuples(st.just("revert")), st.tuples(st.just("worker")), st.tuples(st.just("worker")))


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
        done = subprocess.run(["git", *argv], cwd=cwd or self.repo, env={**self.env, "GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when, "GIT_EDITOR": "true"}, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ValueError(done.stderr)
        return done.stdout.strip()

    def write(self, file: str, line: int) -> None:
        path = self.repo / file
        lines = path.read_text().splitlines() if path.exists() else [f"{file} {n}" for n in range(6)]
        lines[line] += " changed"
        path.write_text("\n".join(lines) + "\n")

    def step(self, store: Store, step: tuple[Any, ...]) -> None:
        kind, *args = step
        try:
            self._do(store, kind, *args)
        except ValueError:
            for words in (("merge", "--abort"), ("rebase", "--abort"), ("cherry-pick", "--abort"), ("revert", "--abort")):
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
            (result,) = remember.remember(store, [{"body": f"memory {self.told}", "commit": f"HEAD~{args[0]}"}])
            assert result.status in (remember.STORED, remember.REFUSED), result.reason
        elif kind in ("switch", "rebase", "merge"):
            self.git({"switch": "checkout"}.get(kind, kind), "-q", *(["-m", "merge", "--no-edit"] if kind == "merge" else []), args[0])
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
        """({anchor: itself and what took its place}, {commit: patch-ids of branches that records state}), from the notes alone."""
        import json

        step: dict[str, set[str]] = {}
        stated: dict[str, set[str]] = {}
        anchors = []
        for row in self.git("notes", "--ref=mem/team", "list").splitlines():
            blob, at = row.split()
            for line in self.git("cat-file", "blob", blob).splitlines():
                data = json.loads(line) if line.strip() else {}
                if data.get("commit"):
                    anchors.append(data["commit"])
                    stated.setdefault(data["commit"], set()).update({data.get("patch", ""), data.get("branch_patch", "")} - {""})
                    if at != data["commit"]:
                        step.setdefault(data["commit"], set()).add(at)
        ways = {}
        for anchor in dict.fromkeys(anchors):
            way = [anchor]
            for c in way:
                way += [n for n in sorted(step.get(c, ())) if n not in way]
            ways[anchor] = way
        return ways, stated


@settings(max_examples=int(os.environ.get("GIT_MEM_HISTORIES", "12")), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=st.lists(STEPS, min_size=8, max_size=28))
def test_what_is_kept_after_each_move_is_what_git_says(steps: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        world = History(pathlib.Path(directory))
        reference = _reference()(world.repo, world.env)
        store = open_store({}, str(world.repo))
        try:
            remember.remember(store, [{"body": "the first"}])
            for step in [*steps, ("worker",)]:
                if step[0] == "worker":
                    said = kept(store)
                    asked = full(store)
                    reference.learn()
                    ways, stated = world.ways()
                    assert ways.keys() == said.keys()
                    here = head_of(world)
                    truth = {a: reference.state(way, here, {id for c in way for id in stated.get(c, ())}) for a, way in ways.items()}
                    assert {a: s.state for a, s in asked.items()} == truth
                    assert same(said) == same(asked)
                else:
                    world.step(store, step)
        finally:
            store.close()


def head_of(world: History) -> str:
    return world.git("rev-parse", "HEAD")
