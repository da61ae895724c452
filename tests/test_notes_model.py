"""Notes against a model, every line ever written, under random operations of stock git.

BOUND and SPLIT are made small, so that continuations, splits and deep fan-out
happen. MODEL_SEEDS="a-b" chooses seeds, MODEL_STEPS the length.
"""

from __future__ import annotations

import os
import random

import pytest
from conftest import Lab, sampled
from notes_world import ADA, REF, opened

from gitmem.notes import note_store, notetree, treeedit

LO, _, HI = os.environ.get("MODEL_SEEDS", "0-7").partition("-")
STEPS = int(os.environ.get("MODEL_STEPS", "40"))
OPS = os.environ.get("MODEL_OPS", "").split(",") if os.environ.get("MODEL_OPS") else None


class Model:
    def __init__(self, lab: Lab, seed: int) -> None:
        self.lab, self.rng = lab, random.Random(seed)
        self.path = lab.repo("r", 3)
        self.g("config", "notes.rewriteRef", "refs/notes/mem/*")
        self.g("config", "gc.reflogExpire", "never")
        self.g(
            "config", "gc.reflogExpireUnreachable", "never"
        )  # the lab's clock stands in the past
        self.ever: set[bytes] = set()
        self.n = 0
        self.trace: list[str] = []
        self.blobs = [
            self.g("hash-object", "-w", "--stdin", stdin=f"o{i}").strip() for i in range(40)
        ]

    def g(self, *a: str, stdin: str | None = None) -> str:
        return self.lab.git(self.path, *a, stdin=stdin)

    def try_(self, *a: str) -> int:
        return self.lab.run(self.path, "git", *a).returncode

    def tip(self) -> str:
        return self.lab.run(self.path, "git", "rev-parse", "-q", "--verify", REF).stdout.strip()

    def text(self) -> bytes:
        self.n += 1
        return (f"line {self.n} " + "x" * self.rng.choice([0, 5, 200, 700])).strip().encode()

    def keys(self) -> list[str]:
        return [
            r.split()[1]
            for r in self.lab.run(
                self.path, "git", "notes", "--ref=mem/team", "list"
            ).stdout.splitlines()
        ]

    def store(self) -> note_store.Notes:
        return opened(self.path)[1]

    # operations
    def append(self) -> None:
        s = self.store()
        commits = (
            self.g("rev-list", "--all", "--glob=refs/heads/*").split()[:5]
            + [self.g("rev-parse", "HEAD").strip()] * 3
        )
        anchors = commits + self.blobs + ["", "1" * 40]
        items = [
            (self.rng.choice(anchors), self.text()) for _ in range(self.rng.choice([1, 1, 2, 12]))
        ]
        s.append(items, "m", ADA)
        self.ever.update(line for _, line in items)
        s.git.close()

    def unite(self) -> None:
        """Another clone takes our notes in, adds some (or removes one, as stock git does), and we
        take its notes in.
        """
        other = self.lab.root / "other"
        if not other.exists():
            self.lab.git(self.lab.root, "clone", "-q", str(self.path), str(other))
        repo, theirs = opened(other)
        here = self.rng.choice([True, True, False])
        if here and self.tip():
            self.lab.git(other, "fetch", "-q", "origin", f"+{REF}:refs/mine")
            theirs.unite(self.tip(), "m", ADA)
        items = [
            (self.rng.choice(["", "1" * 40, *self.blobs[:3]]), self.text())
            for _ in range(self.rng.choice([1, 3]))
        ]
        theirs.append(items, "m", ADA)
        self.ever.update(line for _, line in items)
        if self.rng.random() < 0.3:
            listed = self.lab.git(other, "notes", "--ref=mem/team", "list").splitlines()
            self.lab.run(other, "git", "notes", "--ref=mem/team", "remove", listed[0].split()[1])
        self.g("fetch", "-q", str(other), f"+{REF}:refs/theirs")
        s = self.store()
        s.unite(theirs.tip(), "m", ADA)
        s.git.close()
        repo.git.close()

    def replant(self) -> None:
        s = self.store()
        s.replant([], "m", ADA)
        s.git.close()

    def stock_append(self) -> None:
        t = self.text()
        self.g(
            "notes",
            "--ref=mem/team",
            "append",
            "-m",
            t.decode(),
            self.rng.choice([*self.blobs, "HEAD"]),
        )
        self.ever.add(t)

    def stock_add(self) -> None:
        t = self.text()
        self.g(
            "notes",
            "--ref=mem/team",
            "add",
            "-f",
            "-m",
            t.decode(),
            self.rng.choice(self.keys() or ["HEAD"]),
        )
        self.ever.add(t)

    def stock_remove(self) -> None:
        for k in self.rng.sample(self.keys(), min(2, len(self.keys()))):
            self.try_("notes", "--ref=mem/team", "remove", k)

    def stock_copy(self) -> None:
        ks = self.keys()
        if ks:
            self.try_(
                "notes",
                "--ref=mem/team",
                "copy",
                "-f",
                self.rng.choice(ks),
                self.rng.choice(self.blobs),
            )

    def prune(self) -> None:
        self.try_("notes", "--ref=mem/team", "prune")

    def amend(self) -> None:
        self.g("commit", "-q", "--amend", "--allow-empty", "-m", f"a{self.rng.random()}")

    def back(self) -> None:
        t = self.tip()
        if t:
            self.g("update-ref", REF, self.rng.choice(self.g("rev-list", t).split()))

    def unrelated(self) -> None:
        t = self.text()
        b = self.g("hash-object", "-w", "--stdin", stdin=t.decode() + "\n").strip()
        tree = self.g("mktree", stdin=f"100644 blob {b}\t{self.rng.choice(self.blobs)}\n").strip()
        self.g("update-ref", REF, self.g("commit-tree", "-m", "x", tree).strip())
        self.ever.add(t)

    def fork(self) -> None:
        t = self.tip()
        if not t:
            return
        self.g("update-ref", "refs/notes/fork", self.rng.choice(self.g("rev-list", t).split()))
        x = self.text()
        self.g(
            "notes",
            "--ref=fork",
            "append",
            "-m",
            x.decode(),
            self.rng.choice([*self.blobs, "HEAD"]),
        )
        self.fork_line = x

    def merge(self) -> None:
        if not self.tip() or self.try_("rev-parse", "-q", "--verify", "refs/notes/fork"):
            return
        how = self.rng.choice(["ours", "theirs", "union", "cat_sort_uniq", "manual"])
        if self.try_("notes", "--ref=mem/team", "merge", "-q", "-s", how, "refs/notes/fork"):
            if self.rng.random() < 0.5:
                self.try_("notes", "--ref=mem/team", "merge", "--abort")
                return
            if self.try_("notes", "--ref=mem/team", "merge", "--commit"):
                self.try_("notes", "--ref=mem/team", "merge", "--abort")
                return
        self.ever.add(self.fork_line)

    def refan(self) -> None:
        """Another tool writes the same notes at another, mixed fan-out; sometimes the same key
        twice with the lines divided.
        """
        t = self.tip()
        if not t:
            return
        out = f"commit {REF}\ncommitter {ADA} 0 +0000\ndata 1\nx\nfrom {t}\n"
        for row in self.g("ls-tree", "-r", t).splitlines():
            meta, name = row.split("\t")
            key = name.replace("/", "")
            if len(key) != 40:
                continue
            d = self.rng.choice([0, 1, 2, 3])
            new = "/".join([key[2 * i : 2 * i + 2] for i in range(d)] + [key[2 * d :]])
            body = self.g("cat-file", "blob", meta.split()[2])
            rows = body.splitlines()
            out += f"D {name}\n"
            parts = [(new, rows)]
            if self.rng.random() < 0.4:
                d2 = (d + 1) % 4
                other = "/".join([key[2 * i : 2 * i + 2] for i in range(d2)] + [key[2 * d2 :]])
                parts = [(new, rows[::2]), (other, rows[1::2])]
            for p, r in parts:
                content = "".join(x + "\n" for x in r)
                out += f"M 100644 inline {p}\ndata {len(content.encode())}\n{content}\n"
        self.g("fast-import", "--quiet", stdin=out + "\n")

    def pack(self) -> None:
        self.g("pack-refs", "--all")

    def gc(self) -> None:
        self.g("gc", "-q", "--prune=now")

    def check(self) -> None:
        s = self.store()
        tip = s.tip()
        have = {row for _, row in s.lines(tip)}
        missing = self.ever - have
        assert not missing, (
            self.trace[-3:],
            len(missing),
            len(self.ever),
            sorted(row[:12] for row in missing),
        )
        s.git.close()

    def check_marks(self) -> None:
        """Every commit with the trailer holds the lines of its ancestors, and what a clone without
        reflog reads is everything they have.
        """
        s = self.store()
        cache: dict[str, set[bytes]] = {}
        for c in self.g("rev-list", "--reverse", "--topo-order", self.tip()).split():
            commit = s.history.commit(c)
            own = {row for _, row in s.contents(commit)}
            up = set().union(*[cache[p] for p in commit.parents]) if commit.parents else set()
            if commit.complete:
                assert up <= own, (
                    "incomplete",
                    c,
                    sorted(row[:12] for row in up - own),
                    self.trace,
                )
            cache[c] = own | up
        s.git.close()


@pytest.mark.parametrize("seed", sampled(range(int(LO), int(HI or LO) + 1), 6))
def test_no_line_is_ever_lost(lab: Lab, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(treeedit, "BOUND", 600)
    monkeypatch.setattr(notetree, "SPLIT", 6)
    m = Model(lab, seed)
    names = OPS or ["append"] * 8 + [
        "unite",
        "unite",
        "replant",
        "stock_append",
        "stock_add",
        "stock_remove",
        "stock_copy",
        "prune",
        "amend",
        "back",
        "unrelated",
        "fork",
        "merge",
        "merge",
        "refan",
        "refan",
        "pack",
        "gc",
    ]
    m.append()
    for _ in range(STEPS):
        op = m.rng.choice(names)
        m.trace.append(op)
        getattr(m, op)()
        m.check()
    m.append()
    m.trace.append("append")
    m.check()
    m.check_marks()
