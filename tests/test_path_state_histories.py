"""States of paths on random histories, against slow references that ask git about one commit at a
time.
"""

from __future__ import annotations

import os
import pathlib
import random
import subprocess

import pytest
from conftest import Lab, sampled
from places import opened

from gitmem.anchors import anchor_state_update, path_state
from gitmem.engine import memory_rows, path_state_store
from gitmem.engine.cache import Cache
from gitmem.memory import remember

SEEDS = range(int(os.environ.get("GIT_MEM_SEEDS", "6")))
NAMES = ["a.txt", "b.txt", "d/c.txt", "d/e.txt", "f/g.txt", "h.txt"]

Tree = dict[str, str]


def text(rng: random.Random) -> str:
    return "".join(f"{rng.choice('abcdefgh')}{rng.randrange(1_000_000)}\n" for _ in range(12))


def edited(rng: random.Random, old: str) -> str:
    lines = old.splitlines(keepends=True)
    for _ in range(rng.choice((1, 1, 3, 9))):
        lines[rng.randrange(len(lines))] = f"{rng.randrange(1_000_000)}\n"
    return "".join(lines)


def step(rng: random.Random, tree: Tree) -> Tree:
    """What one commit does: mostly one thing, sometimes several."""
    tree = dict(tree)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        have = sorted(tree)
        free = [n for n in NAMES if n not in tree]
        kind = rng.choice(
            ("edit", "edit", "rename", "rename", "rename", "delete", "create", "copy", "directory")
        )
        if kind == "edit" and have:
            name = rng.choice(have)
            tree[name] = edited(rng, tree[name])
        elif kind == "rename" and have and free:
            old, new = rng.choice(have), rng.choice(free)
            tree[new] = tree.pop(old) if rng.random() < 0.6 else edited(rng, tree.pop(old))
        elif kind == "delete" and len(have) > 2:
            del tree[rng.choice(have)]
        elif kind == "create" and free:
            tree[rng.choice(free)] = text(rng)
        elif kind == "copy" and have and free:
            tree[rng.choice(free)] = tree[rng.choice(have)]
        elif kind == "directory":
            for name in [n for n in have if n.startswith("d/")]:
                tree["z" + name] = tree.pop(name)
            if rng.random() < 0.5:
                tree = {
                    n.removeprefix("z") if n.startswith("zd/") else n: t for n, t in tree.items()
                }
    return tree


def joined(rng: random.Random, base: Tree, ours: Tree, theirs: Tree) -> Tree:
    """A merge by name; where both sides changed one, either wins, so that some merges decide
    anew."""
    out = {}
    for name in sorted({*ours, *theirs}):
        one, two, was = ours.get(name), theirs.get(name), base.get(name)
        won = two if one == was else one if two == was else rng.choice((one, two))
        if won is not None:
            out[name] = won
    return out


class World:
    """A random history: commits with their trees and parents, written by one `git fast-import`."""

    def __init__(self, lab: Lab, seed: int, merges: bool, length: int = 14) -> None:
        rng = random.Random(seed)
        self.lab = lab
        self.repo = lab.root / f"w{seed}"
        lab.git(lab.root, "init", "-q", "-b", "main", str(self.repo))
        self.trees: list[Tree] = [{n: text(rng) for n in rng.sample(NAMES, 4)}]
        self.parents: list[list[int]] = [[]]
        tips = [0]
        for n in range(1, length):
            apart = [
                (a, b)
                for a in tips
                for b in tips
                if a not in self.ancestors(b) and b not in self.ancestors(a)
            ]  # git merges nothing else
            if merges and apart and rng.random() < 0.35:
                one, two = rng.choice(apart)
                common = sorted(self.ancestors(one) & self.ancestors(two))
                self.trees.append(
                    joined(rng, self.trees[common[-1]], self.trees[one], self.trees[two])
                )
                self.parents.append([one, two])
                tips = [t for t in tips if t not in (one, two)] + [n]
            else:
                at = rng.choice(tips)
                self.trees.append(step(rng, self.trees[at]))
                self.parents.append([at])
                tips = [t for t in tips if t != at or (merges and rng.random() < 0.3)] + [n]
        self.ids = self._write()

    def ancestors(self, n: int) -> set[int]:
        out = {n}
        for p in self.parents[n]:
            out |= self.ancestors(p)
        return out

    def _write(self) -> list[str]:
        out = []
        for n, (tree, parents) in enumerate(zip(self.trees, self.parents, strict=True)):
            message = f"commit {n}"
            out.append(
                f"commit refs/heads/c{n}\nmark :{n + 1}\ncommitter A <a@b> {1_700_000_000 + n * 60}"
                f" +0000\ndata {len(message)}\n{message}\n"
            )
            out += [f"{'from' if i == 0 else 'merge'} :{p + 1}\n" for i, p in enumerate(parents)]
            out.append("deleteall\n")
            out += [
                f"M 100644 inline {name}\ndata {len(body)}\n{body}\n"
                for name, body in sorted(tree.items())
            ]
        self.lab.git(self.repo, "fast-import", "--quiet", stdin="".join(out))
        return self.lab.git(
            self.repo, "rev-parse", *[f"c{n}" for n in range(len(self.trees))]
        ).split()

    def git(self, *argv: str) -> str:
        return subprocess.run(
            ["git", *argv],
            cwd=self.repo,
            env=self.lab.env,
            capture_output=True,
            text=True,
            check=False,
        ).stdout

    def blob(self, n: int, path: str) -> str:
        return self.git("rev-parse", "-q", "--verify", f"{self.ids[n]}:{path}").strip()


def followed(world: World, anchor: int, path: str, at: int) -> set[str]:
    """The names at a commit that `git log --follow` traces back to a path at an ancestor."""
    out = set()
    for name in world.trees[at]:
        rows = world.git(
            "log",
            "--follow",
            "--format=",
            "--name-status",
            f"{world.ids[anchor]}..{world.ids[at]}",
            "--",
            name,
        ).splitlines()
        now, made = name, False
        for row in rows:
            status, *names = row.split("\t")
            if status.startswith("R") and names[1] == now:
                now = names[0]
            elif status[0] in "AC" and names[-1] == now:
                made = True  # a copy leaves the other where it is
        if now == path and not made:
            out.add(name)
    return out


def reached(world: World, anchor: int, path: str, at: int) -> set[str]:
    """The names that a path may have at a descendant: followed over every edge of the history; a
    merge keeps names, and renames only what it alone removed.
    """
    names = {anchor: {path}}
    line = {n for n in world.ancestors(at) if anchor in world.ancestors(n)}
    for n in sorted(line - {anchor}):
        tree = world.trees[n]
        found: set[str] = set()
        above = [p for p in world.parents[n] if p in line]
        for p in above:
            found |= {name for name in names[p] if name in tree}
        if len(world.parents[n]) == 1 or not found:
            for p in above:
                for row in world.git(
                    "diff-tree",
                    "-r",
                    "-M",
                    "--name-status",
                    "--diff-filter=R",
                    world.ids[p],
                    world.ids[n],
                ).splitlines():
                    _, old, new = row.split("\t")
                    if old in names[p]:
                        found.add(new)
        names[n] = found
    return names[at]


def expected(
    world: World, names: set[str], path: str, blob: str, at: int
) -> list[path_state.PathState] | None:
    """The states that are right, None where git does not decide."""
    now = world.blob(at, path)
    if now == blob:
        return [path_state.PathState("same")]
    if names:
        return [
            (
                path_state.PathState("changed")
                if name == path
                else path_state.PathState(
                    "renamed" if world.blob(at, name) == blob else "changed", name
                )
            )
            for name in sorted(names)
        ]
    if now:
        return [path_state.PathState("changed")]
    return [path_state.PathState("gone")]


def asked(world: World, questions: list[tuple[int, str]], at: int) -> list[path_state.PathState]:
    with opened(world.repo) as store:
        wanted = [(world.ids[a], p, world.blob(a, p), "") for a, p in questions]
        return store.with_cache(
            lambda cache: path_state.states(store.repo, cache, wanted, world.ids[at], 60.0)
        )[0]


def elsewhere(world: World, anchor: int, path: str, at: int) -> bool:
    """Whether the very content came back under a name that it did not have."""
    body = world.trees[anchor][path]
    return any(t == body and world.trees[anchor].get(n) != body for n, t in world.trees[at].items())


@pytest.mark.parametrize("seed", sampled(SEEDS, 6))
def test_on_a_line_of_commits_states_are_what_git_log_follow_says(lab: Lab, seed: int) -> None:
    world = World(lab, seed, merges=False)
    at = len(world.trees) - 1
    questions = [(a, p) for a in range(at + 1) for p in sorted(world.trees[a])]
    for (a, p), state in zip(questions, asked(world, questions, at), strict=True):
        right = expected(world, followed(world, a, p, at), p, world.blob(a, p), at)
        assert right is not None
        assert state in right or (
            right == [path_state.PathState("gone")]
            and state.state == "renamed"
            and elsewhere(world, a, p, at)
        ), (a, p, state, right)


@pytest.mark.parametrize("seed", sampled(SEEDS, 6))
def test_with_branches_and_merges_states_are_what_every_step_says(lab: Lab, seed: int) -> None:
    world = World(lab, 1000 + seed, merges=True, length=18)
    for at in range(len(world.trees) - 4, len(world.trees)):
        questions = [(a, p) for a in sorted(world.ancestors(at)) for p in sorted(world.trees[a])]
        for (a, p), state in zip(questions, asked(world, questions, at), strict=True):
            right = expected(world, reached(world, a, p, at), p, world.blob(a, p), at)
            assert right is not None
            assert state in right or (
                right == [path_state.PathState("gone")]
                and state.state == "renamed"
                and elsewhere(world, a, p, at)
            ), (world.repo, a, p, at, state, right)


@pytest.mark.parametrize(
    "seed", sampled([*SEEDS, 44], 6)
)  # 44: a name that was given up and given back, taken over from an earlier answer
def test_what_is_kept_for_a_head_is_what_git_says_wherever_head_came_from(
    lab: Lab, seed: int
) -> None:
    world = World(lab, 2000 + seed, merges=True, length=18)
    rng = random.Random(seed)
    made = 0
    walk = [rng.randrange(len(world.trees)) for _ in range(8)]
    for at in walk:
        world.git("update-ref", "--no-deref", "HEAD", world.ids[at])
        with opened(world.repo) as store:
            drafts = []
            for _ in range(rng.choice((0, 3, 6))):
                a = rng.randrange(len(world.trees))
                drafts.append(
                    {
                        "body": f"memory number {made}",
                        "commit": world.ids[a],
                        "paths": (
                            sorted(rng.sample(sorted(world.trees[a]), 2))
                            + rng.choice(([], ["d/"], ["f"]))
                        ),
                    }
                )
                made += 1
            remember.remember(store, drafts)

            def both(
                cache: Cache, head: str = world.ids[at], store: object = store
            ) -> tuple[object, object]:
                from gitmem.store import Store

                assert isinstance(store, Store)
                rows = [
                    row for (row,) in cache.db.execute("SELECT row FROM memory WHERE status = 0")
                ]
                kept = path_state_store.read(cache, rows, head)
                fresh = {}
                for row, (data, _, _) in zip(rows, memory_rows.load(cache, rows), strict=True):
                    wanted = [
                        (memory_rows.commit_of(data), *where) for where in memory_rows.places(data)
                    ]
                    fresh[row] = dict(
                        enumerate(path_state.states(store.repo, cache, wanted, head, 60.0))
                    )
                return kept, fresh

            store.with_cache(lambda cache: None)
            anchor_state_update.update(store, patience=60)
            kept, fresh = store.with_cache(both)[0]
            assert kept == fresh


def test_the_references_see_a_rename(lab: Lab, tmp_path: pathlib.Path) -> None:
    seen = 0
    for seed in range(4):
        world = World(lab, 5000 + seed, merges=False)
        last = len(world.trees) - 1
        for p in world.trees[0]:
            seen += any(n != p for n in followed(world, 0, p, last)) and any(
                n != p for n in reached(world, 0, p, last)
            )
    assert seen
