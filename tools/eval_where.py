"""Compares where we say memories stand with a slow reference that asks git about one pair at a
time, on real histories.

    python tools/eval_where.py CLONE... [--anchors 100] [--revisions 50] [--seed 1] [--write]

CLONE is a git directory; it is cloned, never changed. Memories come from `git mem
import git-log`, on the commits whose messages they are, and are made about random
commits of all branches, with the paths that those commits changed, half of them with
lines. Branches of pull requests are fetched where there are any, since many were
squashed or rebased on a server; and some that are still open are squashed onto a new
commit of the main line, each on a branch of its own.
Then, at random revisions (of the main line, of other branches, of the squash
merges), three answers are compared for every memory: a search from nothing
(`anchor_state.states`, `path_state.states`), what the worker keeps when HEAD moves there from the
revision before (`anchor_state_update.update`), and the reference (`where_reference`).

Every disagreement is printed. Where git does not decide it is counted, with the
reason, and our answer must still be one of those that git's two ways give.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from where_lines import Lines
from where_material import PLACES, drafts, imported, revisions, squashed
from where_reference import (
    CHANGED,
    GONE,
    REACHABLE,
    RENAMED,
    SAME,
    SQUASHED,
    UNMERGED,
    Paths,
    Reference,
)

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs" / "reliability.md"
BEGIN, END = "<!-- where:begin -->", "<!-- where:end -->"


class Comparison:
    """What is compared at each revision, and how it came out.

    `counts`: by kind and true answer; `open_`: by the reason why git does not decide.
    """

    def __init__(self, reference: Reference, paths: Paths, beside: str) -> None:
        self.beside = beside  # the reason with which a path is left open
        self.reference, self.paths, self.lines = reference, paths, Lines(reference)
        self.counts: collections.Counter[str] = collections.Counter()
        self.open_: collections.Counter[str] = collections.Counter()
        self.wrong: list[str] = []

    def anchor(self, commit: str, revision: str, answers: dict[str, Any]) -> None:
        truth = self.reference.state([commit], revision)
        self.counts[truth] += 1
        for what, said in answers.items():
            if said.state != truth:
                self.wrong.append(
                    f"{what}: {commit[:12]} at {revision[:12]}: git says {truth}, we say"
                    f" {said.state} {said.into[:12]} {said.reason}"
                )
            if said.into and not (
                self.reference.inside(said.into, revision)
                and not self.reference.inside(said.into, commit)
            ):
                self.wrong.append(
                    f"{what}: {commit[:12]} at {revision[:12]}: {said.into[:12]} is not where it"
                    " should be"
                )

    def bases(self, commit: str, path: str, blob: str, revision: str) -> list[str]:
        """The commits of the revision that a file is followed from: the memory's own, else those
        with its change that have the file as it was, else those that have it.
        """
        if self.reference.inside(commit, revision):
            return [commit]
        twins = [
            two
            for one, two in sorted(self.reference.found)
            if one == commit and self.reference.inside(two, revision)
        ]
        ids = self.reference.ids([f"{c}:{path}" for c in twins])
        have = [c for c in twins if ids[f"{c}:{path}"]]
        return [c for c in have if ids[f"{c}:{path}"] == blob] or have

    def place(
        self, commit: str, path: str, blob: str, lines: str, revision: str, answers: dict[str, Any]
    ) -> None:
        if not blob:  # the commit removed it
            self.counts["path noted without content"] += 1
            self.wrong += [
                f"path {what}: {path} of {commit[:12]} at {revision[:12]}: no content is known, we"
                f" say {said.state}"
                for what, said in answers.items()
                if said.state != "unknown"
            ]
            return
        bases = self.bases(commit, path, blob, revision)
        found = (
            [self.paths.state(c, path, blob, revision, True) for c in bases]
            if self.reference.id(f"{revision}:{path}") != blob
            else []
        )
        decided, right, how = (
            found[0] if found else self.paths.state(commit, path, blob, revision, False)
        )
        if len(found) > 1 and any(one != found[0] for one in found):
            decided, right, how = (
                False,
                set().union(*(one[1] for one in found)),
                "several commits carry its change",
            )
        kind = "lines" if lines else "path"
        spans: list[tuple[int, int]] = []
        if decided and lines:
            decided, right, how, spans = self.within(
                bases[0] if bases else "", path, blob, lines, revision, *right
            )
        if decided:
            (one,) = {state for state, _ in right}
            self.counts[f"{kind} {one}"] += 1
            self.counts[f"{kind} by {how}"] += 1
            self.counts[f"{kind} under another name"] += any(name for _, name in right)
        else:
            self.open_[f"{kind}: {how}"] += 1
            print(
                f"undecided: {path}{':' * bool(lines)}{lines} of {commit[:12]} at {revision[:12]}:"
                f" {how}",
                file=sys.stderr,
            )
        # Left open is a file of a branch that the revision has not, if it has no such file either.
        beside = not bases and not self.reference.id(f"{revision}:{path}")
        for what, said in answers.items():
            if beside and (said.state, said.reason) == ("unknown", self.beside):
                self.counts[f"{kind} left open"] += what == "kept"
                continue
            if spans and said.state in (SAME, RENAMED) and span(said.lines or lines) not in spans:
                self.wrong.append(
                    f"{kind} {what}: {path}:{lines} of {commit[:12]} at {revision[:12]}: the text"
                    f" is at {spans} ({how}), we say {said.lines}"
                )
            if (said.state, said.now) not in right:
                self.wrong.append(
                    f"{kind} {what}: {path}{':' * bool(lines)}{lines} of {commit[:12]} at"
                    f" {revision[:12]}: git says {sorted(right)} ({how}), we say {said.state}"
                    f" {said.now} {said.reason}"
                )

    def within(
        self, base: str, path: str, blob: str, lines: str, revision: str, answer: tuple[str, str]
    ) -> tuple[bool, set[tuple[str, str]], str, list[tuple[int, int]]]:
        """The same of lines of a file of which the answer is known; and where their very text
        stands, if it does.
        """
        state, name = answer
        if state != CHANGED:
            return True, {answer}, "its file", []
        here, there = span(lines), self.reference.id(f"{revision}:{name or path}")
        kept, spans = self.lines.state(blob, here, there)
        stays = (RENAMED if name else SAME, name)
        if kept == CHANGED:
            return True, {answer}, "a text search", []
        if kept != SAME:
            return False, {answer, stays}, "the words are there, laid out otherwise", []
        blamed = (
            self.lines.blame(base, path, here, revision, name or path)
            if base and self.reference.id(f"{base}:{path}") == blob
            else None
        )
        if blamed and blamed not in spans:
            raise SystemExit(
                f"the reference contradicts itself about {path}:{lines} of {base} at {revision}"
            )
        return True, {stays}, "a text search and git blame" if blamed else "a text search", spans


def span(lines: str) -> tuple[int, int]:
    first, _, last = lines.partition("-")
    return int(first), int(last or first)


def compare(clone: str, root: pathlib.Path, args: argparse.Namespace) -> dict[str, Any]:  # noqa: C901
    from gitmem.anchors import anchor_state, anchor_state_update, path_state
    from gitmem.engine import anchor_state_store, memory_rows, path_state_store
    from gitmem.engine.filters import Filter
    from gitmem.memory import listing, remember
    from gitmem.store import open_store

    rng = random.Random(args.seed)
    env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    env.update(
        HOME=str(root),
        GIT_CONFIG_NOSYSTEM="1",
        GIT_AUTHOR_NAME="Ada",
        GIT_AUTHOR_EMAIL="ada@example.org",
        GIT_COMMITTER_NAME="Ada",
        GIT_COMMITTER_EMAIL="ada@example.org",
        GIT_AUTHOR_DATE="2026-01-01T00:00:00Z",
        GIT_COMMITTER_DATE="2026-01-01T00:00:00Z",
    )  # so that a seed makes the same squash commits again
    os.environ.update(env)
    repo = root / "repo"
    subprocess.run(
        ["git", "clone", "-q", "--no-checkout", "--no-local", clone, str(repo)], env=env, check=True
    )
    reference = Reference(repo, env)
    asked = sorted(
        ref
        for ref in reference.git("ls-remote", "origin", "refs/pull/*/head").split()
        if ref.startswith("refs/")
    )
    asked = rng.sample(asked, min(len(asked), args.pulls))
    if asked:
        reference.git(
            "fetch", "-q", "origin", *(f"{ref}:refs/remotes/origin/{ref[5:]}" for ref in asked)
        )
    for name, value in (
        ("core.logAllRefUpdates", "false"),
        ("gc.auto", "0"),
        ("user.name", "Ada"),
        ("user.email", "ada@example.org"),
    ):
        reference.git("config", name, value)
    head = reference.git("rev-parse", "HEAD")
    squashes = squashed(reference, rng, args.revisions // 5)
    reference.git("commit-graph", "write", "--reachable")
    taken = imported(reference, args.anchors // 3)
    reference.git("config", "mem.autoSync", "false")
    reference.learn()
    every = reference.git("rev-list", "--exclude=refs/notes/*", "--all").split()
    sides = sorted(
        {
            c
            for made, tip in squashes
            for c in reference.git("rev-list", "--no-merges", tip, "^" + made, "^HEAD").split()
        }
    )
    pulled = sorted(
        set(reference.git("rev-list", "--remotes=origin/pull", "--not", "HEAD").split())
    )
    left = args.anchors - taken
    chosen = list(
        dict.fromkeys(
            rng.sample(sides, min(len(sides), left // 4))
            + rng.sample(pulled, min(len(pulled), left // 4))
            + rng.sample(every, min(len(every), left))
        )
    )[:left]
    for commit in rng.sample(sorted(reference.patch), min(100, len(reference.patch))):
        if reference.patch_of(commit) != reference.patch[commit]:
            raise SystemExit(f"the reference contradicts itself about {commit}")
    walk = revisions(reference, rng, args.revisions, squashes)
    paths = Paths(reference, walk)
    store = open_store(env, str(repo))
    bad = [
        r.reason
        for r in remember.remember(store, drafts(reference, rng, chosen, paths.targets))
        if r.status != remember.STORED
    ]
    if bad:
        raise SystemExit(f"not stored: {bad[:3]}")
    wanted: list[
        tuple[int, int, path_state.Noted]
    ] = []  # (row of a memory, place of a path in it, what is asked)

    def prepare(cache: Any) -> list[str]:
        rows = listing.rows_of(cache, Filter())
        anchors = []
        for row, (data, _, _) in zip(rows, memory_rows.load(cache, rows), strict=True):
            commit = memory_rows.commit_of(data)
            anchors.append(commit)
            have = list(enumerate(memory_rows.places(data)))
            wanted.extend(
                (row, n, (commit, *place))
                for n, place in sorted(rng.sample(have, min(PLACES, len(have))))
            )
        return sorted(set(anchors))

    anchors = store.with_cache(prepare)[0]
    found = Comparison(reference, paths, path_state_store.BESIDE)
    told = 0
    started = time.monotonic()
    reference.frozen = True
    for n, revision in enumerate(walk):
        reference.git("update-ref", "--no-deref", "HEAD", revision)
        anchor_state_update.update(store)

        def ask(cache: Any, revision: str = revision) -> tuple[Any, ...]:
            kept = anchor_state_store.read(cache, anchors, revision)
            full = anchor_state.states(store.repo, cache, anchors, revision, 600.0, kept=False)
            ages = path_state_store.read(cache, {row for row, _, _ in wanted}, revision)
            return (
                kept,
                full,
                ages,
                path_state.states(
                    store.repo, cache, [item for _, _, item in wanted], revision, 600.0
                ),
            )

        kept, full, ages, states = store.with_cache(ask)[0]
        for commit in anchors:
            found.anchor(commit, revision, {"kept": kept[commit], "full": full[commit]})
        for (row, place, (commit, path, blob, lines)), state in zip(wanted, states, strict=True):
            aged = ages.get(row, {}).get(place) or path_state_store.PathState(
                path_state_store.UNKNOWN, reason="nothing is kept"
            )
            found.place(
                commit, path, blob, lines.partition("@")[0], revision, {"kept": aged, "full": state}
            )
        for line in found.wrong[told:]:
            print(line, file=sys.stderr)
        told = len(found.wrong)
        print(
            f"{pathlib.Path(clone).parent.name}: {n + 1} revisions, {reference.asked} pairs asked,"
            f" {found.paths.followed} names followed, {found.lines.blamed} blamed,"
            f" {len(found.wrong)} disagreements, {time.monotonic() - started:.0f} s",
            file=sys.stderr,
            flush=True,
        )
    store.close()
    return {
        "name": pathlib.Path(clone).parent.name.replace("+", "/"),
        "head": head,
        "commits": len(every),
        "merges": int(
            reference.git("rev-list", "--exclude=refs/notes/*", "--all", "--merges", "--count")
        ),
        "renames": sum(bool(new) for pairs in found.paths.edges.values() for new in pairs.values()),
        "anchors": len(anchors),
        "imported": taken,
        "squashes": len(squashes),
        "asked": reference.asked,
        "followed": found.paths.followed,
        "blamed": found.lines.blamed,
        "counts": dict(found.counts),
        "open": dict(found.open_),
        "wrong": found.wrong,
    }


def table(found: list[dict[str, Any]], revisions: int) -> Iterator[str]:
    counts = sum((collections.Counter(one["counts"]) for one in found), collections.Counter())
    reasons = sum((collections.Counter(one["open"]) for one in found), collections.Counter())
    wrong = [w for one in found for w in one["wrong"]]
    rest = [w for w in wrong if not w.startswith(("path", "lines"))]
    yield "; ".join(
        f"{one['name']} {one['head'][:10]} ({one['commits']:,} commits, {one['anchors']:,} with"
        " memories)"
        for one in found
    )
    yield ""
    yield (
        f"At {revisions} revisions each: {counts[REACHABLE]:,} {REACHABLE}, {counts[SQUASHED]:,}"
        f" {SQUASHED}, {counts[UNMERGED]:,} {UNMERGED}, {len(rest)} otherwise than git."
    )
    yield ""
    yield (
        f"| all histories | {SAME} | {CHANGED} | {RENAMED} | {GONE} | of these under another name |"
        " otherwise than git | left open | git does not decide |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for kind, title in (("path", "whole files"), ("lines", "lines")):
        each = " | ".join(
            f"{counts[f'{kind} {state}']:,}"
            for state in (SAME, CHANGED, RENAMED, GONE, "under another name")
        )
        undecided = "; ".join(
            f"{n:,} {why.partition(': ')[2]}"
            for why, n in reasons.most_common()
            if why.startswith(kind)
        )
        yield (
            f"| {title} | {each} | {sum(w.startswith(kind) for w in wrong)} |"
            f" {counts[f'{kind} left open']:,} | {undecided or '0'} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clones", nargs="+")
    parser.add_argument("--anchors", type=int, default=100)
    parser.add_argument("--revisions", type=int, default=50)
    parser.add_argument(
        "--pulls",
        type=int,
        default=200,
        help=(
            "branches of pull requests that are fetched, where the clone has `refs/pull`: many were"
            " squashed or rebased on the server"
        ),
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--json",
        type=pathlib.Path,
        help=(
            "put the figures there; what an earlier run put there of other clones stays, and is in"
            " the table"
        ),
    )
    parser.add_argument(
        "--write", action="store_true", help="put the table into docs/reliability.md"
    )
    args = parser.parse_args()
    found = json.loads(args.json.read_text()) if args.json and args.json.exists() else []
    for clone in args.clones:
        with tempfile.TemporaryDirectory() as directory:
            one = compare(clone, pathlib.Path(directory), args)
        found = [*(old for old in found if old["name"] != one["name"]), one]
        for line in one["wrong"]:
            print(f"{one['name']}: {line}")
        if args.json:
            args.json.write_text(json.dumps(found, indent=1))
    text = "\n".join(table(found, args.revisions))
    print(text)
    if args.write:
        before, rest = DOCS.read_text(encoding="utf-8").split(BEGIN)
        DOCS.write_text(before + f"{BEGIN}\n{text}\n{END}" + rest.split(END)[1], encoding="utf-8")


if __name__ == "__main__":
    main()
