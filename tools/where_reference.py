"""What git itself says of anchors, paths and lines, asked slowly and plainly. For `eval_where.py`.

Nothing here imports the package. Each class says what it takes for decided; what it
does not is answered with the reason, so that the caller can count it.
"""

from __future__ import annotations

import collections
import pathlib
import subprocess
from collections.abc import Collection, Iterable

DIFF = (
    "-p",
    "-U0",
    "--no-renames",
    "--diff-algorithm=myers",
    "--no-indent-heuristic",
    "--no-textconv",
    "--no-ext-diff",
    "--no-color",
    "--full-index",
    "--src-prefix=a/",
    "--dst-prefix=b/",
)
REACHABLE, SQUASHED, UNMERGED = "reachable", "squashed", "unmerged"
SAME, CHANGED, RENAMED, GONE = "same", "changed", "renamed", "gone"


class Reference:
    """Where commits stand: ancestry by `git merge-base`, change by `git patch-id`.

    `found`: pairs (commit, commit with its change) once seen, which stay true.
    """

    def __init__(self, repo: pathlib.Path, env: dict[str, str]) -> None:
        self.repo, self.env = repo, env
        self.patch: dict[str, str] = {}
        self.carriers: dict[str, set[str]] = collections.defaultdict(set)
        self.found: set[tuple[str, str]] = set()
        self._inside: dict[tuple[str, str], bool] = {}
        self._combined: dict[tuple[str, str], str] = {}
        self._holding: dict[str, list[str]] = {}
        self._main: list[str] | None = None
        self._ids: dict[str, str] = {}
        self.frozen = (
            False  # whether branches stay as they are, so that what was asked of them holds
        )
        self.asked = 0

    def raw(self, *argv: str, stdin: bytes = b"", ok: tuple[int, ...] = (0,)) -> bytes:
        done = subprocess.run(
            ["git", *argv],
            cwd=self.repo,
            env=self.env,
            input=stdin,
            capture_output=True,
            check=False,
        )
        if done.returncode not in ok:
            raise SystemExit(f"git {argv}: {done.stderr.decode()}")
        return done.stdout

    def git(self, *argv: str, ok: tuple[int, ...] = (0,)) -> str:
        return self.raw(*argv, ok=ok).decode("utf-8", "surrogateescape").rstrip("\n")

    def ids(self, names: Collection[str]) -> dict[str, str]:
        """{revision expression: object id, "" for none}."""
        new = [n for n in names if n not in self._ids]
        said = (
            self.raw(
                "cat-file",
                "--batch-check=%(objectname)",
                stdin="".join(f"{n}\n" for n in new).encode("utf-8", "surrogateescape"),
            ).splitlines()
            if new
            else []
        )
        self._ids.update(
            (n, "" if b" " in id else id.decode()) for n, id in zip(new, said, strict=True)
        )
        return {n: self._ids[n] for n in names}

    def id(self, name: str) -> str:
        return self.ids([name])[name]

    def patch_of(self, *what: str) -> str:
        """git's patch-id of one commit, or between two."""
        said = self.raw("patch-id", "--stable", stdin=self.raw("diff-tree", *DIFF, "--root", *what))
        return said.split(b" ")[0].decode() if said else ""

    def learn(self) -> None:
        """Patch-ids of all commits that are no merges, through `git log`; those known already are
        passed over.
        """
        names = self.git("rev-list", "--all", "--reflog", "--no-merges").split()
        missing = [c for c in names if c not in self.patch]
        if len(missing) < 50:
            made = [(self.patch_of(c), c) for c in missing]
        else:
            log = subprocess.Popen(
                ["git", "log", "--stdin", "--no-walk", "--format=commit %H", *DIFF],
                cwd=self.repo,
                env=self.env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            ids = subprocess.Popen(
                ["git", "patch-id", "--stable"],
                cwd=self.repo,
                env=self.env,
                stdin=log.stdout,
                stdout=subprocess.PIPE,
            )
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
            code = subprocess.run(
                ["git", "merge-base", "--is-ancestor", commit, revision],
                cwd=self.repo,
                env=self.env,
                check=False,
            ).returncode
            if code > 1:
                raise SystemExit(f"git merge-base {commit} {revision}: {code}")
            self._inside[key] = code == 0
        return self._inside[key]

    def main_lines(self) -> list[str]:
        if self.frozen and self._main is not None:
            return self._main
        names = [
            self.git("rev-parse", "-q", "--verify", f"{ref}^{{commit}}", ok=(0, 1))
            for ref in ("refs/remotes/origin/HEAD", "refs/heads/main", "refs/heads/master")
        ]
        self._main = sorted({n for n in names if n})
        return self._main

    def tips(self, commit: str) -> list[str]:
        """Branches that contain a commit, and former places of HEAD."""
        if self.frozen and commit in self._holding:
            return self._holding[commit]
        out = set(
            self.git(
                "for-each-ref",
                "--contains",
                commit,
                "--format=%(objectname)",
                "refs/heads",
                "refs/remotes",
            ).split()
        )
        out |= {
            c
            for c in self.git("log", "-g", "-64", "--format=%H", "HEAD", "--", ok=(0, 128)).split()
            if self.inside(commit, c)
        }
        self._holding[commit] = sorted(out)
        return self._holding[commit]

    def wanted(self, commit: str, revision: str, also: Iterable[str]) -> set[str]:
        """Patch-ids that a commit with the change of `commit` may have: its own, and those of
        branches it is on.
        """
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
        """The state of a memory whose commit is the first of `way`; the others took its place.

        `also`: patch-ids that records state.
        """
        if any(self.inside(c, revision) for c in way):
            return REACHABLE
        for commit in way:
            if any(self.inside(other, revision) for one, other in self.found if one == commit):
                return SQUASHED
        for commit in way:
            for other in sorted(
                set().union(*(self.carriers[id] for id in self.wanted(commit, revision, also)))
            ):
                if (
                    other != commit
                    and self.inside(other, revision)
                    and not self.inside(other, commit)
                ):
                    self.found.add((commit, other))
                    return SQUASHED
        return UNMERGED


Answer = tuple[str, str]  # (state, the name there where that is another one)


class Paths:
    """What became of a file, told in two ways that both are git's own.

    Backwards: `git log --follow ANCHOR..REVISION -- NAME` of each name that may be
    the file. Forwards: for every edge of the history what `git diff-tree -M` says
    was removed and renamed; a merge keeps what it has of its parents' names, and
    what it alone renamed counts where nothing else is left. Where both name the same
    file git decides; where not, `decided` is False and both answers are given. A file
    whose commit is not in the revision's history is compared by `git diff-tree -M`.
    """

    def __init__(self, ask: Reference, revisions: Collection[str]) -> None:
        self.ask = ask
        self.revisions = set(revisions)  # those that will be asked about
        rows = [
            row.split()
            for row in ask.git(
                "rev-list",
                "--exclude=refs/notes/*",
                "--all",
                "--topo-order",
                "--reverse",
                "--parents",
            ).splitlines()
        ]
        self.parents = {row[0]: row[1:] for row in rows}
        self.place = {row[0]: n for n, row in enumerate(rows)}
        self.edges: dict[
            tuple[str, str], dict[str, str]
        ] = {}  # {(parent, commit): {removed name: its new name or ""}}
        self.targets: dict[str, set[str]] = collections.defaultdict(set)
        self._compare()
        self._forward: dict[tuple[str, str], dict[str, set[str]]] = {}
        self._across: dict[tuple[str, str], dict[str, str]] = {}
        self.followed = 0

    def _compare(self) -> None:
        pairs = [(p, c) for c, above in self.parents.items() for p in above]
        trees = self.ask.ids([f"{c}^{{tree}}" for c in self.parents])
        keys = {f"{trees[f'{p}^{{tree}}']} {trees[f'{c}^{{tree}}']}": {} for p, c in pairs}
        self._renames(keys)
        self.edges = {
            (p, c): keys[f"{trees[f'{p}^{{tree}}']} {trees[f'{c}^{{tree}}']}"] for p, c in pairs
        }

    def _renames(self, keys: dict[str, dict[str, str]]) -> None:
        """Fills in for each pair of trees what the second lacks, and what git says it is called
        there.
        """
        out = self.ask.raw(
            "diff-tree",
            "--stdin",
            "-r",
            "-M",
            "--diff-filter=DR",
            "--name-status",
            "-z",
            stdin="".join(f"{k}\n" for k in keys).encode(),
        )
        here: dict[str, str] = {}
        tokens = iter(out.decode("utf-8", "surrogateescape").split("\0"))
        for token in tokens:
            while "\n" in token:
                key, _, token = token.partition("\n")
                here = keys[key]
            if token.startswith("R"):
                old, new = next(tokens), next(tokens)
                here[old] = new
                self.targets[old].add(new)
            elif token:
                here[next(tokens)] = ""

    def forwards(self, anchor: str, path: str) -> dict[str, set[str]]:
        """{revision that contains the anchor: the names the file may have there}."""
        key = (anchor, path)
        if key not in self._forward:
            names: dict[str, set[str]] = {anchor: {path}}
            merged: dict[str, set[str]] = {}
            for commit, above in list(self.parents.items())[self.place[anchor] + 1 :]:
                inside = [p for p in above if p in names]
                if not inside:
                    continue
                found: set[str] = set()
                late: set[str] = set()
                for p in inside:
                    gone = self.edges[p, commit]
                    found |= {n for n in names[p] if n not in gone}
                    new = {gone[n] for n in names[p] if gone.get(n)}
                    if len(above) == 1:
                        found |= new
                        late |= {gone.get(n, n) for n in merged.get(p, ())} - {""}
                    else:
                        late |= new | {gone.get(n, n) for n in merged.get(p, ())} - {""}
                names[commit] = found
                merged[commit] = late
            self._forward[key] = {
                c: found or merged.get(c, set())
                for c, found in names.items()
                if c in self.revisions
            }
        return self._forward[key]

    def follow(self, anchor: str, revision: str, name: str) -> str:
        """The name that `git log --follow` traces a file of the revision back to at the anchor; ""
        where it was made since.
        """
        self.followed += 1
        said = self.ask.git(
            "log",
            "--follow",
            "-M",
            "-z",
            "--name-status",
            "--format=",
            f"{anchor}..{revision}",
            "--",
            f":(literal){name}",
        )
        now = name
        tokens = iter(said.split("\0"))
        for token in tokens:
            token = token.lstrip("\n")
            if token[:1] in ("R", "C"):
                old, new = next(tokens), next(tokens)
                if new == now and token[0] == "C":
                    return ""
                now = old if new == now else now
            elif token and next(tokens) == now and token == "A":
                return ""
        return now

    def backwards(self, anchor: str, path: str, revision: str) -> set[str]:
        """The names at the revision that go back to the file, of all that any commit or the whole
        difference could have given it.
        """
        maybe, new = {path}, {path}
        while new := set().union(*(self.targets[n] for n in new)) - maybe:
            maybe |= new
        maybe |= self.forwards(anchor, path).get(revision, set())
        there = self.ask.ids([f"{revision}:{n}" for n in sorted(maybe)])
        back = {
            n
            for n in sorted(maybe)
            if there[f"{revision}:{n}"] and self.follow(anchor, revision, n) == path
        }
        if not back and not there[f"{revision}:{path}"]:
            last = self.across(anchor, revision).get(path, "")
            back = (
                {last}
                if last and last not in maybe and self.follow(anchor, revision, last) == path
                else set()
            )
        return back

    def across(self, one: str, two: str) -> dict[str, str]:
        if (one, two) not in self._across:
            key = f"{self.ask.id(f'{one}^{{tree}}')} {self.ask.id(f'{two}^{{tree}}')}"
            found: dict[str, dict[str, str]] = {key: {}}
            self._renames(found)
            self._across[one, two] = found[key]
        return self._across[one, two]

    def state(
        self, base: str, path: str, then: str, revision: str, within: bool
    ) -> tuple[bool, set[Answer], str]:
        """(whether git decides, what is right or may be, how it was decided or why it was not).

        `then`: the blob that was noted; `within`: the revision contains the commit `base`.
        """
        now = self.ask.id(f"{revision}:{path}")
        if then == now:
            return True, {(SAME, "")}, "blob id"
        if not within:
            if now:
                return True, {(CHANGED, "")}, "blob id"
            new = self.across(base, revision).get(path, "")
            return (
                (True, {self._named(then, revision, new)}, "git diff")
                if new
                else self._lost(base, path, revision, then)
            )
        fore = self.forwards(base, path).get(revision, set())
        fore = {n for n in fore if self.ask.id(f"{revision}:{n}")}
        back = self.backwards(base, path, revision)
        if fore != back:
            why = (
                "both ways of git differ"
                if fore and back
                else "only forwards"
                if fore
                else "only backwards"
            )
            answers = {self._named(then, revision, n, path) for n in fore | back} | (
                {(CHANGED, "")}
                if now
                else set()
                if fore and back
                else self._lost(base, path, revision, then)[1]
            )
            return False, answers, why
        if len(back) > 1:
            return (
                False,
                {self._named(then, revision, n, path) for n in back},
                "branches gave it several names",
            )
        if back:
            return True, {self._named(then, revision, next(iter(back)), path)}, "both ways"
        if now:
            return True, {(CHANGED, "")}, "blob id"
        return self._lost(base, path, revision, then)

    def _named(self, then: str, revision: str, name: str, path: str = "") -> Answer:
        return (
            (CHANGED, "")
            if name == path
            else (RENAMED if self.ask.id(f"{revision}:{name}") == then else CHANGED, name)
        )

    def _lost(
        self, base: str, path: str, revision: str, then: str
    ) -> tuple[bool, set[Answer], str]:
        """Of what no way leads on from: gone, unless its very content is under a name that it did
        not have.
        """
        size = self.ask.git("cat-file", "-s", then)
        rows = [
            row.partition("\t")
            for row in self.ask.git("ls-tree", "-r", "-z", "--full-tree", revision).split("\0")
        ]
        has = [name for head, _, name in rows if head.endswith(then)] if size != "0" else []
        had = self.ask.ids([f"{base}:{n}" for n in has])
        new = [n for n in has if had[f"{base}:{n}"] != then]
        if not new:
            return True, {(GONE, "")}, "both ways"
        return (
            len(new) == 1,
            {(RENAMED, n) for n in new},
            "its very content" if len(new) == 1 else "its very content has several names",
        )
