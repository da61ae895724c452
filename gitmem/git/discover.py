"""Finds a repository, with HEAD, notes refs and settings, without starting git.

Promise: `look` gives git's answer, from the files that git reads, or raises Unsure; it starts no
process and writes nothing. `None` means that git would find no repository here, or would refuse
this one (`safe.directory`), or that it is a bare repository that nobody named (see `repository`).

Files do not tell: variables that change git's search, reftable, unknown extensions, another owner,
another file system, what may be a bare repository, settings that changed since git was asked for
them (`config_cache`). The environment (`GIT_MEM_*`) overrides settings at every look.
"""

from __future__ import annotations

import os

from . import config, config_cache, memfile
from .ref_files import Packed, head_of, is_id, last_logged, notes_ref, text_of
from .ref_files import Unsure as Unsure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .gitcmd import Git
    from .repository import Repo

# They change what git takes for the repository or its configuration.
_VARIABLES = (
    "GIT_DIR GIT_WORK_TREE GIT_COMMON_DIR GIT_CEILING_DIRECTORIES GIT_DISCOVERY_ACROSS_FILESYSTEM"
    " GIT_OBJECT_DIRECTORY GIT_NAMESPACE GIT_CONFIG GIT_CONFIG_COUNT GIT_CONFIG_PARAMETERS"
    " GIT_REFERENCE_BACKEND GIT_TEST_ASSUME_DIFFERENT_OWNER SUDO_UID"
)
# Extensions that change nothing of what we read.
_EXTENSIONS = (
    "objectformat worktreeconfig partialclone preciousobjects noop noop-v1 relativeworktrees"
    " refstorage"
)
_KNOWN = frozenset(_EXTENSIONS.split())
# What a configuration has that could be of git mem, or that files do not settle.
_TELLING = "[mem|mergestrategy|include|worktree =|bare = true|reftable"


class Here:
    """One place in one repository, at one moment. Paths are absolute and real.

    `top`: of the working tree around the place, or "". `head`: the commit, or "". `branch`: its
    short name, "" when HEAD is detached. `refs`: {notes ref of ours: its commit}. `lost`: those
    that are gone or broken, found by their backups: whoever reads the notes puts them back.
    `initialised`: a setting of this repository says so, or memories are here.
    """

    def __init__(
        self, git_dir: str, common_dir: str, top: str, settings: config.Config, bare: bool = False
    ) -> None:
        self.git_dir = git_dir
        self.common_dir = common_dir
        self.mem_dir = memfile.directory(common_dir)
        self.top = top
        self.bare = bare
        self.settings = settings
        self.head = ""
        self.branch = ""
        self.hex_len = 40
        self.refs: dict[str, str] = {}
        self.lost: list[str] = []
        self.initialised = False

    def git(self, until: float) -> Git:
        """A git of this place whose calls end at `until` (monotonic); the caller closes it."""
        from .gitcmd import Git

        git = Git(self.git_dir)
        git.common_dir, git.until = self.common_dir, until
        return git

    @property
    def home(self) -> str:
        """Where git resolves relative file names of its settings."""
        if self.top:
            return self.top
        beside, name = os.path.split(self.common_dir)
        return beside if name == ".git" and not self.bare else self.git_dir


def find(cwd: str, environ: Mapping[str, str]) -> Here | None:
    """The answer of `look`, or that of git."""
    try:
        return look(cwd, environ)
    except Unsure:
        return ask(cwd, environ)


def look(cwd: str, environ: Mapping[str, str]) -> Here | None:
    """Where `cwd` is, from files; None where no repository is around it. Raises Unsure."""
    try:
        found = place(cwd, environ)
        return _read(*found, environ) if found else None
    except (OSError, ValueError) as e:
        raise Unsure(str(e)) from None


def place(cwd: str, environ: Mapping[str, str]) -> tuple[str, str, str, bool] | None:
    """(git directory, common directory, top, whether they differ) around `cwd`; None for no
    repository. Raises Unsure, OSError.
    """
    if not _is_plain(environ):
        raise Unsure("the environment names a repository or settings")
    return _discover(os.path.realpath(cwd))


def _read(
    git_dir: str, common_dir: str, top: str, linked: bool, environ: Mapping[str, str]
) -> Here:
    text = text_of(os.path.join(git_dir, "HEAD"))
    if os.path.isdir(os.path.join(common_dir, "reftable")):
        raise Unsure("refs are in a reftable")
    packed = Packed(common_dir)
    known = _known(git_dir, common_dir, top, linked, text, environ)
    if known is None:
        if os.path.isdir(memfile.directory(common_dir)) or not _stranger(
            git_dir, common_dir, packed
        ):
            raise Unsure("settings are not known")
        here = Here(git_dir, common_dir, top, config.build({}, {}, environ, strict=False))
        here.head, here.branch = head_of(text, common_dir, packed, 0)
        here.hex_len = len(here.head) or 40
        return here
    if known["core"].get("extensions.refstorage", "files") != "files":
        raise Unsure("refs are not in files")
    settings = config.build(known["git"], known["policy"], environ, strict=False)
    here = Here(git_dir, common_dir, top, settings)
    here.hex_len = _hex_len(known)
    here.head, here.branch = head_of(text, common_dir, packed, here.hex_len)
    for ref in (settings.team_ref, settings.private_ref):
        id, gone = notes_ref(common_dir, ref, packed, here.hex_len)
        if id:
            here.refs[ref] = id
            here.lost += [ref] if gone else []
    here.initialised = bool(here.refs) or _wanted(known["own"], settings)
    return here


def _known(
    git_dir: str, common_dir: str, top: str, linked: bool, head: str, environ: Mapping[str, str]
) -> dict[str, Any] | None:
    """What `config_cache` keeps of this place, None for nothing that is still true. Raises Unsure
    where the configuration makes it another place.
    """
    mem_dir = memfile.directory(common_dir)
    known = config_cache.load(config_cache.path(mem_dir, git_dir, top, environ), head)
    if known is None:
        return None
    core = known["core"]
    extensions = {key[11:] for key in core if key.startswith("extensions.")}
    if extensions - _KNOWN:
        raise Unsure("an extension of the repository format")
    if not linked or "worktreeconfig" in extensions:
        named = os.path.realpath(os.path.join(git_dir, core.get("core.worktree") or top))
        if core.get("core.bare", "false") != "false" or named != top:
            raise Unsure("the working tree is another one")
    return known


def _hex_len(known: dict[str, Any]) -> int:
    return 64 if known["core"].get("extensions.objectformat") == "sha256" else 40


def _wanted(own: list[str], settings: config.Config) -> bool:
    """Whether the repository's own configuration has a setting of ours, or what `init` adds."""
    added = f"notes.{settings['ref']}/team.mergestrategy".lower()
    return any(key.startswith("mem.") or key == added for key in own)


def _discover(cwd: str) -> tuple[str, str, str, bool] | None:
    """(git directory, common directory, top, whether linked), as git goes up from `cwd`."""
    device = os.stat(cwd).st_dev
    top = cwd
    while True:
        dot = os.path.join(top, ".git")
        place = _at_dot_git(dot)
        if place is not None:
            user = os.geteuid()
            if any(os.lstat(path).st_uid != user for path in (dot, top, place[0], place[1])):
                raise Unsure("the repository belongs to somebody else")
            return place[0], place[1], top, place[2]
        if _may_be_bare(top):
            raise Unsure("git decides whether this is a bare repository")
        above = os.path.dirname(top)
        if above == top:
            return None
        if os.stat(above).st_dev != device:
            raise Unsure("a file system ends here")
        top = above


def _at_dot_git(dot: str) -> tuple[str, str, bool] | None:
    """`_git_dir` of a `.git` directory, or of the directory that a `.git` file names."""
    try:
        kind = os.stat(dot).st_mode & 0o170000
    except FileNotFoundError:
        return None
    if kind == 0o040000:
        return _git_dir(dot)
    content = text_of(dot) if kind == 0o100000 else ""
    if not content.startswith("gitdir: "):
        raise Unsure("'.git' is no file of git")
    place = _git_dir(os.path.join(os.path.dirname(dot), content[8:].rstrip("\r\n")))
    if place is None:
        raise Unsure("'.git' names no repository")
    return place


def _may_be_bare(path: str) -> bool:
    """Whether git may take a directory for a bare repository; it also asks what is in these."""
    head, refs, common = (os.path.join(path, name) for name in ("HEAD", "refs", "commondir"))
    return os.path.lexists(head) and (os.path.lexists(refs) or os.path.lexists(common))


def _git_dir(path: str) -> tuple[str, str, bool] | None:
    """(git directory, common directory, whether they differ); None for no git directory."""
    path = os.path.realpath(path)
    file = os.path.join(path, "HEAD")
    if not os.path.lexists(file):
        return None
    head = text_of(file)
    # A link is how git wrote symbolic refs once, and does where `core.preferSymlinkRefs` says so.
    if os.path.islink(file) or not (head.startswith("ref: refs/") or is_id(head.strip(), 0)):
        raise Unsure("an odd HEAD")
    named = text_of(os.path.join(path, "commondir"), missing="").rstrip("\r\n")
    common = os.path.realpath(os.path.join(path, named))
    if not all(os.path.isdir(os.path.join(common, name)) for name in ("objects", "refs")):
        return None
    return path, common, common != path


def _stranger(git_dir: str, common_dir: str, packed: Packed) -> bool:
    """Whether neither configuration nor refs can be of git mem, in a repository without `mem/`."""
    for path in (os.path.join(common_dir, "config"), os.path.join(git_dir, "config.worktree")):
        content = text_of(path, missing="").lower()
        if any(word in content for word in _TELLING.split("|")):
            return False
    places = [os.path.join(common_dir, "refs", "notes"), os.path.join(common_dir, config.BACKUPS)]
    names = {name for place in places for _, _, files in os.walk(place) for name in files}
    return not packed.has_ours() and names.isdisjoint(("team", "private"))


def ask(cwd: str, environ: Mapping[str, str]) -> Here | None:
    """The same by git, in this process's environment; keeps the settings. Raises MemError."""
    from ..core.errors import NotARepository
    from . import repository

    try:
        repo = repository.open_repo(cwd, hook=True)
    except NotARepository:
        return None
    try:
        return of(repo, environ)
    finally:
        repo.git.close()


def open_with_settings(cwd: str, environ: Mapping[str, str]) -> tuple[Repo, dict[str, Any]]:
    """The repository around `cwd` and what its configuration says (`config_cache.read`), from files
    where these tell, else by git. `environ` is this process's. Raises NotARepository.
    """
    from . import repository

    try:
        if found := _open_by_files(cwd, environ):
            return found
    except (Unsure, OSError, ValueError):
        pass
    repo = repository.open_repo(cwd)
    return repo, config_cache.read(repo, environ, _is_plain(environ))


def _open_by_files(cwd: str, environ: Mapping[str, str]) -> tuple[Repo, dict[str, Any]] | None:
    from .gitcmd import Git
    from .repository import Repo

    found = place(cwd, environ)
    if found is None:
        return None
    git_dir, common_dir, top, _ = found
    known = _known(*found, text_of(os.path.join(git_dir, "HEAD")), environ)
    if known is None:
        return None
    git = Git(git_dir)
    git.common_dir = common_dir
    below = os.path.relpath(os.path.realpath(cwd), top)
    prefix = "" if below == "." else below.replace(os.sep, "/") + "/"
    # `place` knows only what belongs to this user and is around `cwd`: its own.
    return Repo(git, git_dir, common_dir, prefix, False, _hex_len(known), top, own=True), known


def _is_plain(environ: Mapping[str, str]) -> bool:
    """Whether no variable changes what git says here; to some an empty value is one."""
    return not any(name in environ for name in _VARIABLES.split())


def of(repo: Repo, environ: Mapping[str, str]) -> Here:
    """The place of an opened repository, by git."""
    known = config_cache.read(repo, environ, _is_plain(environ))
    settings = config.build(known["git"], known["policy"], environ, strict=False)
    here = Here(repo.git_dir, repo.common_dir, repo.top, settings, repo.bare)
    ours = (settings.team_ref, settings.private_ref)
    names = (*ours, *map(config.backup_of, ours))
    rows = repo.git.text("for-each-ref", "--format=%(refname) %(objectname)", *names).splitlines()
    found = dict(row.split(" ") for row in rows)
    for ref in ours:
        id = found.get(ref) or found.get(config.backup_of(ref))
        if id := id or last_logged(repo.common_dir, ref, repo.hex_len):
            here.refs[ref] = id
            here.lost += [] if ref in found else [ref]
    here.head = repo.git.resolve("HEAD^{commit}")
    here.branch, here.hex_len = repo.branch(), repo.hex_len
    here.initialised = bool(here.refs) or _wanted(known["own"], settings)
    return here
