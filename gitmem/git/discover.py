"""Finds the repository of a hook, with HEAD, the notes refs and the settings, without starting git.

Promise: `look` gives git's answer, from the files that git reads, or raises Unsure; it starts no
process and writes nothing. `ask` asks git. `find` looks, and asks git where files do not tell.
`None` means that git would find no repository here, or would refuse this one (`safe.directory`), or
that it is a bare repository that nobody named: a commit can bring such a directory, and its
configuration could name programs (see `repository`). git alone decides what is a bare repository.

Files do not tell: variables that change git's search, reftable, unknown extensions, another owner,
another file system, settings that changed since git was asked for them (`config_cache`). The
environment (`GIT_MEM_*`) overrides settings at every look.
"""

from __future__ import annotations

import os

from . import config, config_cache, memfile, refs_mtime
from .ref_files import Packed, head_of, is_id, last_logged, notes_ref, text_of
from .ref_files import Unsure as Unsure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .repository import Repo

# They change what git takes for the repository or its configuration.
_VARIABLES = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_CEILING_DIRECTORIES",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
    "GIT_OBJECT_DIRECTORY",
    "GIT_NAMESPACE",
    "GIT_CONFIG",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS",
    "GIT_REFERENCE_BACKEND",
    "GIT_TEST_ASSUME_DIFFERENT_OWNER",
    "SUDO_UID",
)
# Extensions that change nothing of what we read.
_EXTENSIONS = (
    "objectformat worktreeconfig partialclone preciousobjects noop noop-v1 relativeworktrees"
    " refstorage"
)
_KNOWN = frozenset(_EXTENSIONS.split())


class Here:
    """One place in one repository, at one moment. Paths are absolute and real.

    `top`: of the working tree around the place, "" where there is none. `head`:
    the commit, "" while there is none. `branch`: its short name, "" when HEAD is
    detached. `refs`: {notes ref of ours: its commit}, absent ones left out. `lost`: those
    that are gone or broken, found by their backups: whoever reads the notes puts them back.
    `initialised`: somebody wants git mem here: a setting of this repository says
    so, or memories are here.
    """

    __slots__ = (
        "bare",
        "branch",
        "common_dir",
        "git_dir",
        "head",
        "hex_len",
        "initialised",
        "lost",
        "mem_dir",
        "refs",
        "settings",
        "top",
    )

    def __init__(
        self,
        git_dir: str,
        common_dir: str,
        top: str,
        bare: bool,
        head: str,
        branch: str,
        hex_len: int,
        refs: dict[str, str],
        settings: config.Config,
        initialised: bool,
        lost: list[str] | None = None,
    ) -> None:
        self.git_dir = git_dir
        self.common_dir = common_dir
        self.mem_dir = memfile.directory(common_dir)
        self.top = top
        self.bare = bare
        self.head = head
        self.branch = branch
        self.hex_len = hex_len
        self.refs = refs
        self.settings = settings
        self.initialised = initialised
        self.lost = lost or []

    @property
    def home(self) -> str:
        """Where git resolves relative file names of its settings."""
        if self.top:
            return self.top
        beside, name = os.path.split(self.common_dir)
        return beside if name == ".git" and not self.bare else self.git_dir

    def log_size(self, ref: str) -> str:
        """What changes whenever a ref moves (`refs_mtime.log_size`)."""
        return refs_mtime.log_size(self.common_dir, ref)


def find(cwd: str, environ: Mapping[str, str]) -> Here | None:
    """The answer of `look`, or that of git."""
    try:
        return look(cwd, environ)
    except Unsure:
        return ask(cwd, environ)


# Looking


def look(cwd: str, environ: Mapping[str, str]) -> Here | None:
    """Where `cwd` is, from files; None where no repository is around it. Raises Unsure."""
    if any(environ.get(name) for name in _VARIABLES):
        raise Unsure("the environment names a repository or settings")
    try:
        place = _discover(os.path.realpath(cwd))
        if place is None:
            return None
        return _read(*place, environ)
    except (OSError, ValueError) as e:
        raise Unsure(str(e)) from None


def _read(
    git_dir: str, common_dir: str, top: str, linked: bool, environ: Mapping[str, str]
) -> Here:
    mem_dir = memfile.directory(common_dir)
    text = text_of(os.path.join(git_dir, "HEAD"))
    if os.path.isdir(os.path.join(common_dir, "reftable")):
        raise Unsure("refs are in a reftable")
    packed = Packed(common_dir)
    known = config_cache.load(config_cache.path(mem_dir, git_dir, top, environ), text)
    if known is None:
        if not os.path.isdir(mem_dir) and _stranger(git_dir, common_dir, packed):
            settings = config.build({}, {}, environ, strict=False)
            head, branch = head_of(text, common_dir, packed, 0)
            return Here(
                git_dir, common_dir, top, False, head, branch, len(head) or 40, {}, settings, False
            )
        raise Unsure("settings are not known")
    core = known["core"]
    if (
        any(key.startswith("extensions.") and key[11:] not in _KNOWN for key in core)
        or core.get("extensions.refstorage", "files") != "files"
    ):
        raise Unsure("an extension of the repository format")
    if not linked or "extensions.worktreeconfig" in core:
        named = core.get("core.worktree", "")
        if core.get("core.bare", "false") != "false" or (
            named and os.path.realpath(os.path.join(git_dir, named)) != top
        ):
            raise Unsure("the working tree is another one")
    hex_len = 64 if core.get("extensions.objectformat") == "sha256" else 40
    head, branch = head_of(text, common_dir, packed, hex_len)
    settings = config.build(known["git"], known["policy"], environ, strict=False)
    refs, lost = {}, []
    for ref in (settings.team_ref, settings.private_ref):
        id, gone = notes_ref(common_dir, ref, packed, hex_len)
        if id:
            refs[ref] = id
            lost += [ref] if gone else []
    wanted = bool(refs) or _wanted(known["own"], settings)
    return Here(
        git_dir, common_dir, top, False, head, branch, hex_len, refs, settings, wanted, lost
    )


def _wanted(own: list[str], settings: config.Config) -> bool:
    """Whether keys in the repository's own configuration say that git mem is wanted here: any
    setting of ours, or what `init` adds.
    """
    added = f"notes.{settings['ref']}/team.mergestrategy".lower()
    return any(key.startswith("mem.") or key == added for key in own)


def _discover(cwd: str) -> tuple[str, str, str, bool] | None:
    """(git directory, common directory, top of the working tree, whether that is a linked one), as
    git goes up from `cwd`.
    """
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
    """(git directory, common directory, whether they differ) of a path, None where git would not
    take it for a git directory.
    """
    path = os.path.realpath(path)
    file = os.path.join(path, "HEAD")
    try:
        head = text_of(file)
    except FileNotFoundError:
        if os.path.islink(file):
            raise Unsure("an odd HEAD") from None
        return None
    # A link is how git wrote symbolic refs once, and does where `core.preferSymlinkRefs` says so:
    # what it leads to holds an id.
    if not head.startswith("ref: refs/") and (not is_id(head.strip(), 0) or os.path.islink(file)):
        raise Unsure("an odd HEAD")
    common = path
    try:
        named = text_of(os.path.join(path, "commondir"))
        common = os.path.realpath(os.path.join(path, named.rstrip("\r\n")))
    except FileNotFoundError:
        pass
    if not os.path.isdir(os.path.join(common, "objects")) or not os.path.isdir(
        os.path.join(common, "refs")
    ):
        return None
    return path, common, common != path


def _stranger(git_dir: str, common_dir: str, packed: Packed) -> bool:
    """Whether nothing in a repository without `mem/` can be of git mem: no line of its own
    configuration, no notes ref with the end of one of ours.
    """
    for path in (os.path.join(common_dir, "config"), os.path.join(git_dir, "config.worktree")):
        try:
            content = text_of(path).lower()
        except FileNotFoundError:
            continue
        if (
            any(
                word in content
                for word in (
                    "[mem",
                    "mergestrategy",
                    "include",
                    "worktree =",
                    "bare = true",
                    "reftable",
                )
            )
            or not _extensions(content) <= _KNOWN
        ):
            return False
    places = [os.path.join(common_dir, "refs", "notes"), os.path.join(common_dir, config.BACKUPS)]
    return not packed.has_ours() and not any(
        name in ("team", "private")
        for place in places
        for _, _, names in os.walk(place)
        for name in names
    )


def _extensions(content: str) -> set[str]:
    """The keys below the headings `[extensions]` of a configuration; of odd lines something that is
    no key.
    """
    return {
        line.partition("=")[0].strip()
        for part in content.split("[extensions]")[1:]
        for line in part.partition("[")[0].splitlines()
        if line.strip()
    }


# Asking


def ask(cwd: str, environ: Mapping[str, str]) -> Here | None:
    """The same by git, whose environment is that of this process; keeps the settings for the next
    `look`. Raises MemError where there is no git.
    """
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


def of(repo: Repo, environ: Mapping[str, str]) -> Here:
    """The place of an opened repository, by git."""
    known = config_cache.read(repo, environ, keep=not any(environ.get(name) for name in _VARIABLES))
    settings = config.build(known["git"], known["policy"], environ, strict=False)
    ours = (settings.team_ref, settings.private_ref)
    names = (*ours, *map(config.backup_of, ours))
    rows = repo.git.text("for-each-ref", "--format=%(refname) %(objectname)", *names).splitlines()
    found = dict(row.split(" ") for row in rows)
    refs = {ref: found[ref] for ref in ours if ref in found}
    back = {
        ref: found.get(config.backup_of(ref)) or last_logged(repo.common_dir, ref, repo.hex_len)
        for ref in ours
        if ref not in refs
    }
    lost = [ref for ref, id in back.items() if id]
    refs.update((ref, back[ref]) for ref in lost)
    head = repo.git.text("rev-parse", "-q", "--verify", "HEAD^{commit}", ok=(0, 1, 128))
    initialised = bool(refs) or _wanted(known["own"], settings)
    return Here(
        repo.git_dir,
        repo.common_dir,
        repo.top,
        repo.bare,
        head,
        repo.branch(),
        repo.hex_len,
        refs,
        settings,
        initialised,
        lost,
    )
