"""Where things are: the repository around a directory, its notes refs, its cache directory.

Promise: git itself decides what a repository is (so `GIT_DIR`, linked
worktrees, submodules, bare repositories and `safe.directory` behave as for
every git command), in one call. Nothing is created.
"""

from __future__ import annotations

import os

from .errors import GitFailed, MemError, NotARepository
from .gitcmd import Git


class Repo:
    """One opened repository. Paths are absolute; `common_dir` is shared by all worktrees."""

    def __init__(self, git: Git, git_dir: str, common_dir: str, prefix: str, bare: bool, hash_name: str, top: str) -> None:
        self.git = git
        self.git_dir = git_dir
        self.common_dir = common_dir
        self.prefix = prefix  # from the top of the working tree to the caller's directory, "" or "a/b/"
        self.bare = bare
        self.top = top  # of the working tree, "" in a bare repository
        self.hex_len = 64 if hash_name == "sha256" else 40
        self.mem_dir = os.path.join(common_dir, "mem")

    def head(self) -> str:
        """The commit HEAD points to, "" while there is none."""
        return self.commit("HEAD") or ""

    def commit(self, revision: str) -> str | None:
        """The full id of the commit a revision names, None where it names none."""
        if not revision or revision.startswith("-") or "\n" in revision or "\0" in revision:
            return None
        found = self.git.objects.get(revision + "^{commit}")
        return found[0] if found else None

    def branch(self) -> str:
        """The short name of the checked-out branch, "" when HEAD is detached."""
        try:
            with open(os.path.join(self.git_dir, "HEAD"), encoding="utf-8", errors="surrogateescape") as f:
                text = f.read().strip()
        except OSError:
            text = ""
        if not text.startswith("ref: refs/heads/") or text.endswith("/.invalid"):
            if not text.startswith("ref:"):
                return ""
            text = "ref: " + self.git.text("symbolic-ref", "-q", "HEAD", ok=(0, 1))  # reftable keeps a dummy HEAD file
        return text.removeprefix("ref: ").removeprefix("refs/heads/")

    def path_in_tree(self, path: str) -> str:
        """A path as the user typed it, relative to the top of the tree, with `/`; raises MemError where it lies outside."""
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
            return ""
        return inside + "/" if path.endswith(("/", os.sep)) else inside


def open_repo(cwd: str | None = None) -> Repo:
    """The repository around `cwd` (or named by GIT_DIR). Raises NotARepository with git's reason."""
    outside = Git(cwd=cwd)
    try:
        answer = outside.text("rev-parse", "--path-format=absolute", "--git-dir", "--git-common-dir", "--is-bare-repository",
                              "--show-object-format", "--is-inside-work-tree", "--show-prefix").split("\n")
        git_dir, common, bare, hash_name, inside, prefix = [*answer, ""][:6]
    except GitFailed as e:
        reason = e.stderr.splitlines()[0].removeprefix("fatal: ") if e.stderr else e.message
        if "dubious ownership" in reason:
            raise NotARepository(reason, hint="git refuses it too; see safe.directory in `git help config`") from e
        raise NotARepository(reason, hint="run it inside a git repository") from e
    git = Git(git_dir)
    top = ""
    if inside == "true":
        # The prefix says how far the caller's directory is below the top: no second git call.
        top = os.path.realpath(cwd or os.getcwd())
        for _ in range(prefix.count("/")):
            top = os.path.dirname(top)
    return Repo(git, git_dir, common, prefix, bare == "true", hash_name, top)
