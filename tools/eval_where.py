"""Compares where we say memories stand with a slow reference that asks git about one pair at a time, on real histories.

    python tools/eval_where.py CLONE... [--anchors 500] [--revisions 50] [--seed 1] [--write]

CLONE is a git directory; it is cloned, never changed. Memories are made about
random commits of all its branches, with the paths that those commits changed.
Branches of pull requests are fetched where there are any, since many were
squashed or rebased on a server; and some that are still open are squashed onto
a new commit of the main line, each on a branch of its own.
Then, at random revisions (of the main line, of other branches, of the squash
merges), three answers are compared for every memory: the search from nothing
(`where.stands`), what the worker keeps when HEAD moves there from the revision
before (`reanchor.finish`), and the reference. Every disagreement is printed.

The reference shares no code with the package. Ancestry: `git merge-base
--is-ancestor`, one process for each pair. Change: `git patch-id --stable` of
each commit of the repository, and of a branch's combined difference, in the
form that docs/format.md gives. Paths: blob ids, and renames as `git log` and
`git log --follow` tell them.
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
from collections.abc import Iterable, Iterator
from typing import Any

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs" / "reliability.md"
BEGIN, END = "<!-- where:begin -->", "<!-- where:end -->"
DIFF = ("-p", "-U0", "--no-renames", "--diff-algorithm=myers", "--no-indent-heuristic", "--no-textconv", "--no-ext-diff", "--no-color", "--full-index", "--src-prefix=a/", "--dst-prefix=b/")
REACHABLE, SQUASHED, UNMERGED = "reachable", "squashed", "unmerged"


class Reference:
    """What git says, asked plainly. `found`: pairs (commit, commit with its change) once seen, which stay true."""

    def __init__(self, repo: pathlib.Path, env: dict[str, str]) -> None:
        self.repo, self.env = repo, env
        self.patch: dict[str, str] = {}
        self.carriers: dict[str, set[str]] = collections.defaultdict(set)
        self.found: set[tuple[str, str]] = set()
        self._inside: dict[tuple[str, str], bool] = {}
        self._combined: dict[tuple[str, str], str] = {}
        self._holding: dict[str, list[str]] = {}
        self._main: list[str] | None = None
        self.frozen = False  # whether branches stay as they are, so that what was asked of them holds
        self.asked = 0

    def git(self, *argv: str, ok: tuple[int, ...] = (0,)) -> str:
        done = subprocess.run(["git", *argv], cwd=self.repo, env=self.env, capture_output=True, check=False)
        if done.returncode not in ok:
            raise SystemExit(f"git {argv}: {done.stderr.decode()}")
        return done.stdout.decode("utf-8", "surrogateescape").rstrip("\n")

    def patch_of(self, *what: str) -> str:
        """git's patch-id of one commit, or between two."""
        diff = subprocess.run(["git", "diff-tree", *DIFF, "--root", *what], cwd=self.repo, env=self.env, capture_output=True, check=True).stdout
        said = subprocess.run(["git", "patch-id", "--stable"], cwd=self.repo, env=self.env, input=diff, capture_output=True, check=True).stdout
        return said.split(b" ")[0].decode() if said else ""

    def learn(self) -> None:
        """Patch-ids of all commits that are no merges, through `git log`; those known already are passed over."""
        names = self.git("rev-list", "--all", "--reflog", "--no-merges").split()
        missing = [c for c in names if c not in self.patch]
        if len(missing) < 50:
            made = [(self.patch_of(c), c) for c in missing]
        else:
            log = subprocess.Popen(["git", "log", "--stdin", "--no-walk", "--format=commit %H", *DIFF], cwd=self.repo, env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            ids = subprocess.Popen(["git", "patch-id", "--stable"], cwd=self.repo, env=self.env, stdin=log.stdout, stdout=subprocess.PIPE)
            assert log.stdin is not None and ids.stdout is not None and log.stdout is not None
            log.stdout.close()
            log.stdin.write("\n".join(missing).encode())
            log.stdin.close()
            made = [(id, c) for id, c in map(str.split, ids.stdout.read().decode().splitlines())]
            log.wait(), ids.wait()
        self.patch.update(dict.fromkeys(missing, ""))
        for id, commit in made:
            self.patch[commit] = id
            if id:
                self.carriers[id].add(commit)

    def inside(self, commit: str, revision: str) -> bool:
        """Whether the history of a revision contains a commit."""
        key = (commit, revision)
        if key not in self._inside:
            self.asked += 1
            code = subprocess.run(["git", "merge-base", "--is-ancestor", commit, revision], cwd=self.repo, env=self.env, check=False).returncode
            if code > 1:
                raise SystemExit(f"git merge-base {commit} {revision}: {code}")
            self._inside[key] = code == 0
        return self._inside[key]

    def main_lines(self) -> list[str]:
        if self.frozen and self._main is not None:
            return self._main
        names = [self.git("rev-parse", "-q", "--verify", f"{ref}^{{commit}}", ok=(0, 1)) for ref in ("refs/remotes/origin/HEAD", "refs/heads/main", "refs/heads/master")]
        self._main = sorted({n for n in names if n})
        return self._main

    def tips(self, commit: str) -> list[str]:
        """Branches that contain a commit, and former places of HEAD."""
        if self.frozen and commit in self._holding:
            return self._holding[commit]
        out = set(self.git("for-each-ref", "--contains", commit, "--format=%(objectname)", "refs/heads", "refs/remotes").split())
        out |= {c for c in self.git("log", "-g", "-64", "--format=%H", "HEAD", "--", ok=(0, 128)).split() if self.inside(commit, c)}
        self._holding[commit] = sorted(out)
        return self._holding[commit]

    def wanted(self, commit: str, revision: str, also: Iterable[str]) -> set[str]:
        """Patch-ids that a commit with the change of `commit` may have: its own, and those of branches it is on."""
        ids = {self.patch.get(commit, ""), *also}
        main = self.main_lines()
        if not any(self.inside(commit, m) for m in main):
            for tip in {*self.tips(commit), commit}:
                if not any(self.inside(tip, r) for r in (revision, *main)):
                    base = self.git("merge-base", tip, revision, *main, ok=(0, 1))
                    if base and (tip, base) not in self._combined:
                        self._combined[tip, base] = self.patch_of(base, tip)
                    ids.add(self._combined.get((tip, base), ""))
        return ids - {""}

    def state(self, way: list[str], revision: str, also: Iterable[str] = ()) -> str:
        """The state of a memory whose commit is the first of `way`; the others took its place. `also`: patch-ids that records state."""
        if any(self.inside(c, revision) for c in way):
            return REACHABLE
        for commit in way:
            if any(self.inside(other, revision) for one, other in self.found if one == commit):
                return SQUASHED
        for commit in way:
            for other in sorted(set().union(*(self.carriers[id] for id in self.wanted(commit, revision, also)))):
                if other != commit and self.inside(other, revision) and not self.inside(other, commit):
                    self.found.add((commit, other))
                    return SQUASHED
        return UNMERGED


class Renames:
    """Where a path went, by `git log`: forwards through the renames it lists, confirmed by `--follow` from the other end."""

    def __init__(self, reference: Reference) -> None:
        self.reference = reference
        self.steps: dict[str, list[tuple[str, str]]] = collections.defaultdict(list)  # {old name: [(commit, new name)]}
        commit = ""
        tokens = iter(reference.git("log", "--all", "-M", "-z", "--diff-filter=R", "--name-status", "--format=@%H").split("\0"))
        for token in tokens:
            token = token.lstrip("\n")
            if token.startswith("@"):
                commit = token[1:41]
            elif token.startswith("R"):
                old, new = next(tokens), next(tokens)
                self.steps[old].append((commit, new))
        self._followed: dict[tuple[str, str], set[str]] = {}

    def state(self, anchor: str, path: str, revision: str) -> tuple[str, str]:
        """(state, name there: a renamed file that changed too is changed); the state is "" where git does not decide: names that parted on two branches, or were given back."""
        ask = self.reference
        then, now = (ask.git("rev-parse", "-q", "--verify", f"{c}:{path}", ok=(0, 1, 128)) for c in (anchor, revision))
        if not then:
            return "unknown", ""
        if now == then:
            return "same", ""
        try:
            ends = self._ends(anchor, path, revision, set())
        except LookupError:
            return "", ""
        there = {end for end in ends if ask.git("rev-parse", "-q", "--verify", f"{revision}:{end}", ok=(0, 1, 128))} - {path}
        there = {end for end in there if path in self._names(revision, end)}
        if now:
            return ("", "") if there else ("changed", "")
        if len(there) > 1:
            return "", ""
        if not there:
            return "gone", ""
        (name,) = there
        return ("renamed" if ask.git("rev-parse", f"{revision}:{name}") == then else "changed"), name

    def _ends(self, since: str, path: str, revision: str, seen: set[str]) -> set[str]:
        out = set()
        for commit, new in self.steps[path]:
            if new not in seen and commit != since and self.reference.inside(since, commit) and self.reference.inside(commit, revision):
                if self.reference.git("log", "-1", "--format=%H", "--full-history", "--no-renames", "--diff-filter=A", f"{since}..{commit}", "--", f":(literal){path}"):
                    raise LookupError(path)  # removed and made again: another file may have had the name
                out |= {new} | self._ends(commit, new, revision, seen | {path, new})
        return out

    def _names(self, revision: str, path: str) -> set[str]:
        """The former names of a path as `git log --follow` finds them."""
        key = (revision, path)
        if key not in self._followed:
            said = self.reference.git("log", "--follow", "-M", "-z", "--name-status", "--format=", revision, "--", path).split("\0")
            self._followed[key] = {token.lstrip("\n") for token in said}
        return self._followed[key]


def squashed(reference: Reference, rng: random.Random, most: int) -> list[tuple[str, str]]:
    """[(squash commit, tip of the branch)]: open branches of two commits or more, squashed onto one of the newest commits of the main line where git merges them without a conflict."""
    tips = sorted(set(reference.git("for-each-ref", "--format=%(objectname)", "refs/remotes/origin/pull", "--no-merged=HEAD").split()))
    newest = reference.git("rev-list", "--first-parent", "--max-count=300", "HEAD").split()
    rng.shuffle(tips)
    out: list[tuple[str, str]] = []
    for tip in tips:
        if len(out) == most:
            break
        first = rng.choice(newest)
        if not 2 <= int(reference.git("rev-list", "--count", "--no-merges", tip, "^" + first, "^HEAD")) <= 60 or reference.inside(tip, first):
            continue
        tree = reference.git("merge-tree", "--write-tree", first, tip, ok=(0, 1)).split("\n")
        if len(tree) != 1 or reference.git("rev-parse", f"{first}^{{tree}}") == tree[0]:
            continue
        made = reference.git("commit-tree", "-p", first, "-m", f"squash of {tip}", tree[0])
        reference.git("update-ref", f"refs/heads/eval/squash{len(out)}", made)
        out.append((made, tip))
    return out


def revisions(reference: Reference, rng: random.Random, count: int, squashes: list[tuple[str, str]]) -> list[str]:
    main = reference.git("rev-list", "HEAD").split()
    other = reference.git("rev-list", "--all", "--not", "HEAD").split()
    out = rng.sample(main, min(len(main), count // 2)) + [s for s, _ in squashes[: count // 5]]
    out += rng.sample(other, min(len(other), count - len(out)))
    out += rng.sample(main, min(len(main), count - len(out)))
    rng.shuffle(out)
    return out


def compare(clone: str, root: pathlib.Path, args: argparse.Namespace) -> dict[str, Any]:
    from gitmem.anchors import aging, reanchor, where
    from gitmem.engine import standing
    from gitmem.engine.filters import Filter
    from gitmem.memory import listing, remember, view
    from gitmem.store import open_store

    rng = random.Random(args.seed)
    env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    env.update(HOME=str(root), GIT_CONFIG_NOSYSTEM="1", GIT_AUTHOR_NAME="Ada", GIT_AUTHOR_EMAIL="ada@example.org", GIT_COMMITTER_NAME="Ada", GIT_COMMITTER_EMAIL="ada@example.org")
    os.environ.update(env)
    repo = root / "repo"
    subprocess.run(["git", "clone", "-q", "--no-checkout", "--no-local", clone, str(repo)], env=env, check=True)
    reference = Reference(repo, env)
    asked = sorted(ref for ref in reference.git("ls-remote", "origin", "refs/pull/*/head").split() if ref.startswith("refs/"))
    asked = rng.sample(asked, min(len(asked), args.pulls))
    if asked:
        reference.git("fetch", "-q", "origin", *(f"{ref}:refs/remotes/origin/{ref[5:]}" for ref in asked))
    for name, value in (("core.logAllRefUpdates", "false"), ("gc.auto", "0")):
        reference.git("config", name, value)
    head = reference.git("rev-parse", "HEAD")
    squashes = squashed(reference, rng, args.revisions // 5)
    reference.git("commit-graph", "write", "--reachable")
    reference.learn()
    every = reference.git("rev-list", "--all").split()
    sides = sorted({c for made, tip in squashes for c in reference.git("rev-list", "--no-merges", tip, "^" + made, "^HEAD").split()})
    pulled = sorted(set(reference.git("rev-list", "--remotes=origin/pull", "--not", "HEAD").split()))
    chosen = list(dict.fromkeys(rng.sample(sides, min(len(sides), args.anchors // 4)) + rng.sample(pulled, min(len(pulled), args.anchors // 4)) + rng.sample(every, min(len(every), args.anchors))))[: args.anchors]
    for commit in rng.sample(sorted(reference.patch), min(100, len(reference.patch))):
        if reference.patch_of(commit) != reference.patch[commit]:
            raise SystemExit(f"the reference contradicts itself about {commit}")
    drafts = []
    for commit in chosen:
        paths = [p for p in reference.git("diff-tree", "-r", "--root", "--no-commit-id", "--name-only", "--diff-filter=AM", "-z", commit).split("\0") if p and p.isprintable()]
        drafts.append({"body": f"about {commit}", "commit": commit, "paths": rng.sample(paths, min(2, len(paths)))})
    renames = Renames(reference)
    if not args.every:
        aging.keep_up = lambda *rest: True  # type: ignore[assignment]
    store = open_store(env, str(repo))
    bad = [r.reason for r in remember.remember(store, drafts) if r.status != remember.STORED]
    if bad:
        raise SystemExit(f"not stored: {bad[:3]}")
    store.with_cache(lambda cache: None)
    counts: collections.Counter[str] = collections.Counter()
    wrong: list[str] = []
    told = 0
    started = time.monotonic()
    reference.frozen = True
    for n, revision in enumerate(revisions(reference, rng, args.revisions, squashes)):
        reference.git("update-ref", "--no-deref", "HEAD", revision)
        reanchor.finish(store)

        look = bool(args.every) and n % args.every == 0

        def ask(cache: Any, revision: str = revision, look: bool = look) -> tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]:
            kept = standing.read(cache, chosen, revision)
            full = where.stands(store.repo, cache, chosen, revision, 600.0, again=True)
            return kept, full, view.objects(store, cache, listing.rows_of(cache, Filter()), revision, dict(full), 600.0) if look else []

        kept, full, objects = store.with_cache(ask)[0]
        for commit in chosen:
            truth = reference.state([commit], revision)
            counts[truth] += 1
            for what, said in (("kept", kept[commit]), ("full", full[commit])):
                if said.state != truth:
                    wrong.append(f"{what}: {commit[:12]} at {revision[:12]}: git says {truth}, we say {said.state} {said.into[:12]} {said.reason}")
                if said.into and not (reference.inside(said.into, revision) and not reference.inside(said.into, commit)):
                    wrong.append(f"{what}: {commit[:12]} at {revision[:12]}: {said.into[:12]} is not where it should be")
        for item in objects:
            commit = item["body"].removeprefix("about ")
            for path in item["paths"] if reference.inside(commit, revision) else ():
                truth, name = renames.state(commit, path["path"], revision)
                counts["path " + (truth or "undecided")] += 1
                if truth and (path["state"], path.get("now", "") or "") != (truth, name):
                    wrong.append(f"path: {path['path']} of {commit[:12]} at {revision[:12]}: git says {truth} {name}, we say {path['state']} {path.get('now', '')} {path.get('reason', '')}")
        for line in wrong[told:]:
            print(line, file=sys.stderr)
        told = len(wrong)
        print(f"{n + 1} revisions, {reference.asked} pairs asked, {len(wrong)} disagreements, {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    store.close()
    return {"name": pathlib.Path(clone).parent.name.replace("+", "/"), "head": head, "commits": len(every), "merges": int(reference.git("rev-list", "--all", "--merges", "--count")),
            "anchors": len(chosen), "squashes": len(squashes), "asked": reference.asked, "counts": dict(counts), "wrong": wrong}


def table(found: list[dict[str, Any]], revisions: int) -> Iterator[str]:
    yield f"| history | commits (merges) | memories x revisions | {REACHABLE} | {SQUASHED} | {UNMERGED} | otherwise than git | paths compared: same, changed, renamed, gone | otherwise than git |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for one in found:
        counts = collections.Counter(one["counts"])
        paths = ", ".join(f"{counts['path ' + state]:,}" for state in ("same", "changed", "renamed", "gone"))
        path_wrong = sum(w.startswith("path") for w in one["wrong"])
        yield (f"| {one['name']} {one['head'][:10]} | {one['commits']:,} ({one['merges']:,}) | {one['anchors']:,} x {revisions} | {counts[REACHABLE]:,} | {counts[SQUASHED]:,} | {counts[UNMERGED]:,} "
               f"| {len(one['wrong']) - path_wrong} | {paths} | {path_wrong} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clones", nargs="+")
    parser.add_argument("--anchors", type=int, default=500)
    parser.add_argument("--revisions", type=int, default=50)
    parser.add_argument("--every", type=int, default=5, help="paths are compared at every so many revisions, since git follows one name at a time; 0: nowhere")
    parser.add_argument("--pulls", type=int, default=200, help="branches of pull requests that are fetched, where the clone has `refs/pull`: many were squashed or rebased on the server")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--write", action="store_true", help="put the table into docs/reliability.md")
    args = parser.parse_args()
    found = []
    for clone in args.clones:
        with tempfile.TemporaryDirectory() as directory:
            found.append(compare(clone, pathlib.Path(directory), args))
        for line in found[-1]["wrong"]:
            print(f"{found[-1]['name']}: {line}")
    text = "\n".join(table(found, args.revisions))
    print(text)
    if args.json:
        args.json.write_text(json.dumps(found, indent=1))
    if args.write:
        before, rest = DOCS.read_text(encoding="utf-8").split(BEGIN)
        DOCS.write_text(before + f"{BEGIN}\n{text}\n{END}" + rest.split(END)[1], encoding="utf-8")


if __name__ == "__main__":
    main()
