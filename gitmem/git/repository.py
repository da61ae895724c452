"""Where things are: the repository around a directory, its notes refs, its cache directory.

Promise: git itself decides what a repository is (`GIT_DIR`, linked worktrees, submodules, bare
repositories, `safe.directory`), in one call. Nothing is created.

One exception: a commit can hold a directory that git, from inside, takes for a bare repository,
with a configuration that names programs. Hooks never take a bare repository that was found so, the
command line refuses one that lies in a working tree, and neither runs a program that it names
(`Repo.own`). GIT_DIR names any repository.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from ..core.errors import GitFailed, MemError, NotARepository, UsageError
from ..core.record import clean
from . import memfile, ref_files
from .gitcmd import Git

_HEX = frozenset("0123456789abcdef")
HEADS = 8  # worktrees that are served before anybody asks


class Repo(NamedTuple):
    """One opened repository. Paths are absolute; `common_dir` is shared by all worktrees."""

    git: Git
    git_dir: str
    common_dir: str
    prefix: str  # of the caller's directory below the top, "" or "a/b/"
    bare: bool
    hex_len: int  # 40, or 64 with SHA-256
    top: str  # of the working tree, "" in a bare repository
    own: bool = False  # whether it is the user's: only then its configuration may name programs

    @property
    def mem_dir(self) -> str:
        return memfile.directory(self.common_dir)

    def head(self) -> str:
        """The commit HEAD points to, "" while there is none."""
        by_files = self._head()
        # With a commit that is not here nothing can be done: then there is none.
        if by_files and self.git.has_commit(by_files[0]):
            return by_files[0]
        head = self.commit("HEAD") or ""
        self.git.present.update([head] if head else [])
        return head

    def heads(self) -> list[str]:
        """The HEAD of every worktree that has one, the present one first; at most HEADS."""
        found = [self.head()]
        if os.path.isdir(os.path.join(self.common_dir, "worktrees")):
            rows = self.git.text("worktree", "list", "--porcelain", ok=(0, 128)).split("\n")
            found += [row[5:] for row in rows if row.startswith("HEAD ") and row[5:].strip("0")]
        return [head for head in dict.fromkeys(found) if head][:HEADS]

    def trees(self) -> list[str]:
        """The real paths of all working trees, the present one first; also of one that is gone."""
        rows = self.git.run("worktree", "list", "--porcelain", ok=(0, 128)).split(b"\n")
        linked = [os.fsdecode(row[9:]) for row in rows if row.startswith(b"worktree ")]
        return list(dict.fromkeys(os.path.realpath(top) for top in (self.top, *linked) if top))

    def commit(self, revision: str) -> str | None:
        """The full id of the commit that a revision names here, else None; fetches nothing."""
        if not revision or revision.startswith("-") or not revision.isprintable():
            return None  # also lone surrogates, which no pipe takes
        name = revision + "^{commit}"
        if revision.startswith(":/"):  # to its end a part of a message: nothing may be added
            name = revision
        if "@{" in revision or ":" in revision:  # a reflog that is too short ends `cat-file`
            return self.git.resolve(name) or None
        found = self.git.local.get(name)
        return found[0] if found else None

    def commits(self, ids: Iterable[str]) -> set[str]:
        """Those of some full ids that name a commit here; fetches nothing."""
        full = [id for id in ids if len(id) == self.hex_len and _HEX.issuperset(id)]
        found = self.git.local.get_many([f"{id}^{{commit}}" for id in full]) if full else ()
        return {commit[0] for commit in found if commit}

    def branch(self) -> str:
        """The short name of the checked-out branch, "" when HEAD is detached."""
        if by_files := self._head():
            return by_files[1]
        name = self.git.text("symbolic-ref", "-q", "HEAD", ok=(0, 1, 128))
        return clean(name.removeprefix("refs/heads/"))

    def program(self, name: str) -> str:
        """The program that `git var` has for a name; in a repository that is not the user's, the
        one of a place without any.
        """
        git = self.git
        if not self.own:
            git = Git(cwd=os.sep)
            git.env.pop("GIT_DIR", None)
        return git.text("var", name, ok=(0, 1, 128))

    def _head(self) -> tuple[str, str] | None:
        """(commit, branch) of HEAD by its files; None where they do not tell."""
        path = os.path.join(self.git_dir, "HEAD")
        try:
            if os.path.islink(path):  # a symbolic ref of old
                return None
            packed = ref_files.Packed(self.common_dir)
            return ref_files.head_of(ref_files.text_of(path), self.common_dir, packed, self.hex_len)
        except (OSError, ref_files.Unsure):
            return None

    def path_in_tree(self, path: str) -> str:
        """A path as typed, from the top of the tree on, with `/`. Raises MemError outside of it."""
        if not path:  # as git refuses it
            raise UsageError("the path is empty", hint="'.' is the whole directory")
        if os.path.isabs(path):
            top = os.path.realpath(self.top) if self.top else ""
            real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
            inside = os.path.relpath(real, top) if top else ".."
        else:
            inside = os.path.normpath(self.prefix + path)
        inside = inside.replace(os.sep, "/")
        if inside == ".." or inside.startswith("../"):
            raise MemError(f"path '{path}' is outside the repository")
        if inside == ".":
            return "."
        return inside + "/" if path.endswith(("/", os.sep)) else inside


def _headless(at: str) -> str:
    """What to do where git refuses a repository because a power cut emptied its HEAD."""
    while not os.path.isdir(os.path.join(at, ".git")) and os.path.dirname(at) != at:
        at = os.path.dirname(at)
    head = os.path.join(at, ".git", "HEAD")
    try:
        with open(head, "rb") as f:
            empty = not f.read(100).strip(b"\0\n")
    except OSError:
        return ""
    example = "git needs the name of a branch in it, as in 'ref: refs/heads/main'"
    return f"'{head}' is empty; {example}" if empty else ""


_ASKED = (
    "--is-bare-repository --show-object-format --is-inside-work-tree --git-dir --git-common-dir"
    " --show-prefix"
)


def open_repo(cwd: str | None = None, *, git_dir: str = "", hook: bool = False) -> Repo:
    """The repository around `cwd`, or the one that `git_dir` or GIT_DIR names. Raises
    NotARepository. `hook`: a bare one counts only where GIT_DIR names it.
    """
    # A caller who knows `git_dir` may mean a bare one; it is no more ours by that.
    outside = Git(git_dir or None, cwd=cwd)
    asked = _ASKED.split()
    # Git before 2.38 does not know the setting: `found_from_inside` is our own check.
    words = ["-c", "safe.bareRepository=explicit"] if hook else []
    words += ["rev-parse", "--path-format=absolute"]
    try:
        answer = outside.text(*words, *asked).split("\n")
        if len(answer) > len(asked):  # a newline in a directory's name: one question at a time
            answer = [os.fsdecode(outside.run(*words, word))[:-1] for word in asked]
    except GitFailed as e:
        reason = e.stderr.splitlines()[0].removeprefix("fatal: ") if e.stderr else e.message
        hint = _headless(cwd or os.getcwd()) or "run it inside a git repository"
        if "dubious ownership" in reason:
            hint = "git refuses it too; see safe.directory in `git help config`"
        raise NotARepository(reason, hint) from e
    bare, hash_name, inside, found_dir, common, prefix = [*answer, ""][:6]
    if not os.path.isdir(found_dir):
        raise NotARepository(f"'{found_dir}' is no git directory", "git 2.31 or newer is needed")
    here, real = os.path.realpath(cwd or os.getcwd()), os.path.realpath(found_dir)
    found_from_inside = not outside.env.get("GIT_DIR") and _holds(real, here)
    around = tree_around(real) if found_from_inside and not git_dir else ""
    if around:
        why = f"lies in the working tree '{around}', so a commit may have brought it"
    elif hook:
        why = "is a git directory, not a working tree"
    if found_from_inside and not git_dir and (hook or around):
        hint = "GIT_DIR opens it all the same; do that only if you made it yourself"
        raise NotARepository(f"'{found_dir}' {why}", hint)
    git = Git(found_dir)
    git.common_dir = common
    top = ""
    if inside == "true" and here != real:
        # The prefix says how far the caller's directory is below the top: no second git call.
        top = here
        for _ in range(prefix.count("/")):
            top = os.path.dirname(top)
    own = not found_from_inside and all(map(_is_mine, {found_dir, common, top or found_dir}))
    hex_len = 64 if hash_name == "sha256" else 40
    return Repo(git, found_dir, common, prefix, bare == "true", hex_len, top, own)


def found_inside_tree(git_dir: str, cwd: str) -> bool:
    """Whether git finds this directory only because `cwd` lies in it, and it lies in a working
    tree. A `.git` on the way up is what git takes first, and no commit brings one.
    """
    git_dir, at = os.path.realpath(git_dir), os.path.realpath(cwd)
    if not _holds(git_dir, at) or not tree_around(git_dir):
        return False
    while at != git_dir and not os.path.lexists(os.path.join(at, ".git")):
        at = os.path.dirname(at)
    return not os.path.lexists(os.path.join(at, ".git"))


def tree_around(git_dir: str) -> str:
    """The top of the working tree in which a git directory lies, "" for none.

    A commit cannot bring a `.git`: what lies in one, or is named by one, the user has made.
    """
    at = git_dir
    while at != os.path.dirname(at):
        at = os.path.dirname(at)
        dot = os.path.join(at, ".git")
        if os.path.lexists(dot):
            if os.path.isfile(dot):
                with open(dot, encoding="utf-8", errors="surrogateescape") as f:
                    dot = os.path.join(at, f.readline().removeprefix("gitdir: ").rstrip("\r\n"))
            return "" if _holds(os.path.realpath(dot), git_dir) else at
    return ""


def _holds(directory: str, path: str) -> bool:
    return os.path.commonpath([directory, path]) == directory


def _is_mine(path: str) -> bool:
    return not hasattr(os, "geteuid") or os.stat(path).st_uid == os.geteuid()
