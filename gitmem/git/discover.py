"""Where am I, asked by a hook: the repository, HEAD, the notes refs and the settings, without
starting git.

Promise: `look` says what git would say, from the files git itself reads, or
raises Unsure; it starts no process and writes nothing. `ask` has git say it.
`find` looks, and asks where looking does not do. `None` means that git would
find no repository here, or would refuse this one (`safe.directory`), or that
it is a bare one that nobody named: a commit can bring such a directory, and
its configuration could name programs (see `repository`). Git alone says what is
one: plain files with the same names do not hide the repository around them.

What files cannot tell is Unsure: variables that bend git's search, reftable,
unknown extensions, another owner, another file
system, settings that changed since git was asked for them (`config_cache`). The
environment (`GIT_MEM_*`) is laid over the settings at every look.
"""

from __future__ import annotations

import os

from ..core.record import clean
from . import config, config_cache, memfile, refs_mtime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .repository import Repo

# They change what git takes for the repository or its configuration.
_BENDING = (
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
_KNOWN = frozenset(
    [
        "objectformat",
        "worktreeconfig",
        "partialclone",
        "preciousobjects",
        "noop",
        "noop-v1",
        "relativeworktrees",
        "refstorage",
    ]
)


_TAIL = 8192  # bytes in which the last row of a reflog lies


class Unsure(Exception):
    """Files alone do not tell; git has to be asked."""


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
    if any(environ.get(name) for name in _BENDING):
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
    text = _text(os.path.join(git_dir, "HEAD"))
    if os.path.isdir(os.path.join(common_dir, "reftable")):
        raise Unsure("refs are in a reftable")
    packed = _Packed(common_dir)
    known = config_cache.load(config_cache.path(mem_dir, git_dir, top, environ), text)
    if known is None:
        if not os.path.isdir(mem_dir) and _stranger(git_dir, common_dir, packed):
            settings = config.build({}, {}, environ, strict=False)
            head, branch = _head(text, common_dir, packed, 0)
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
    head, branch = _head(text, common_dir, packed, hex_len)
    settings = config.build(known["git"], known["policy"], environ, strict=False)
    refs, lost = {}, []
    for ref in (settings.team_ref, settings.private_ref):
        id, gone = _notes_ref(common_dir, ref, packed, hex_len)
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


def _discover(cwd: str) -> tuple[str, str, str, bool] | None:  # noqa: C901
    """(git directory, common directory, top of the working tree, whether that is a linked one), as
    git goes up from `cwd`.
    """
    device = os.stat(cwd).st_dev
    here = cwd
    while True:
        dot = os.path.join(here, ".git")
        try:
            found = os.stat(dot)
        except FileNotFoundError:
            found = None
        if found is not None:
            kind = found.st_mode & 0o170000
            if kind == 0o040000:
                place = _git_dir(dot)
            elif kind == 0o100000:
                content = _text(dot)
                if not content.startswith("gitdir: "):
                    raise Unsure("'.git' is no file of git")
                place = _git_dir(os.path.join(here, content[8:].rstrip("\r\n")))
                if place is None:
                    raise Unsure("'.git' names no repository")
            else:
                raise Unsure("'.git' is neither file nor directory")
            if place is not None:
                user = os.geteuid()
                if any(os.lstat(path).st_uid != user for path in (dot, here, place[0], place[1])):
                    raise Unsure("the repository belongs to somebody else")
                return place[0], place[1], here, place[2]
        if _may_be_bare(here):
            raise Unsure("git decides whether this is a bare repository")
        above = os.path.dirname(here)
        if above == here:
            return None
        if os.stat(above).st_dev != device:
            raise Unsure("a file system ends here")
        here = above


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
        head = _text(file)
    except FileNotFoundError:
        if os.path.islink(file):
            raise Unsure("an odd HEAD") from None
        return None
    # A link is how git wrote symbolic refs once, and does where `core.preferSymlinkRefs` says so:
    # what it leads to holds an id.
    if not head.startswith("ref: refs/") and (not _is_id(head.strip(), 0) or os.path.islink(file)):
        raise Unsure("an odd HEAD")
    common = path
    try:
        named = _text(os.path.join(path, "commondir"))
        common = os.path.realpath(os.path.join(path, named.rstrip("\r\n")))
    except FileNotFoundError:
        pass
    if not os.path.isdir(os.path.join(common, "objects")) or not os.path.isdir(
        os.path.join(common, "refs")
    ):
        return None
    return path, common, common != path


def _stranger(git_dir: str, common_dir: str, packed: _Packed) -> bool:
    """Whether nothing in a repository without `mem/` can be of git mem: no line of its own
    configuration, no notes ref with the end of one of ours.
    """
    for path in (os.path.join(common_dir, "config"), os.path.join(git_dir, "config.worktree")):
        try:
            content = _text(path).lower()
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


class _Packed:
    """The packed refs, read when first asked."""

    def __init__(self, common_dir: str) -> None:
        self._path = os.path.join(common_dir, "packed-refs")
        self._content: bytes | None = None

    @property
    def content(self) -> bytes:
        if self._content is None:
            try:
                with open(self._path, "rb") as f:
                    self._content = b"\n" + f.read()
            except FileNotFoundError:
                self._content = b""
        return self._content

    def get(self, ref: str) -> str:
        content = self.content
        at = content.find(b" " + os.fsencode(ref) + b"\n")
        return (
            content[content.rfind(b"\n", 0, at) + 1 : at].decode("ascii", "replace")
            if at > 0
            else ""
        )

    def has_ours(self) -> bool:
        ours = b" refs/notes/" in self.content or b" refs/git-mem/" in self.content
        return ours and (b"/team\n" in self.content or b"/private\n" in self.content)


def _head(text: str, common_dir: str, packed: _Packed, hex_len: int) -> tuple[str, str]:
    """(commit, short name of the branch) of a HEAD file's text."""
    text = text.rstrip()
    if not text.startswith("ref:"):
        if not _is_id(text, hex_len):
            raise Unsure("an odd HEAD")
        return text, ""
    name = text[4:].strip()
    if not name.startswith("refs/heads/") or name.endswith("/.invalid"):
        raise Unsure("HEAD names no branch")
    return _ref(common_dir, name, packed, hex_len), clean(name[11:])


def _ref(common_dir: str, name: str, packed: _Packed, hex_len: int) -> str:
    """The commit that a shared ref names, "" for none: the loose file first, as git does."""
    if ".." in name:
        raise Unsure("an odd ref")
    for _ in range(5):
        try:
            text = _text(os.path.join(common_dir, name)).rstrip()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            text = packed.get(name)
            if not text:
                return ""
        if text.startswith("ref:"):
            name = text[4:].strip()
            if (
                not name.startswith("refs/")
                or name.startswith(("refs/bisect/", "refs/worktree/", "refs/rewritten/"))
                or ".." in name
            ):
                raise Unsure("a symbolic ref of a worktree")
            continue
        if not _is_id(text, hex_len):
            raise Unsure("a ref that names no object")
        return text
    raise Unsure("symbolic refs in a circle")


def _notes_ref(common_dir: str, ref: str, packed: _Packed, hex_len: int) -> tuple[str, bool]:
    """(commit of a notes ref, whether the ref does not say so itself).

    Where it is gone or its file is broken: the commit in its backup, else the last of its reflog.
    """
    for name in (ref, config.backup_of(ref)):
        try:
            id = _ref(common_dir, name, packed, hex_len)
        except Unsure:
            continue
        if id.strip("0"):
            return id, name != ref
    return _logged(common_dir, ref, hex_len), True


def _logged(common_dir: str, ref: str, hex_len: int) -> str:
    """The commit that a ref had last, by its reflog. git deletes the two together: this is for a
    ref that a power cut emptied.
    """
    try:
        with open(os.path.join(common_dir, "logs", ref), "rb") as f:
            f.seek(max(0, os.fstat(f.fileno()).st_size - _TAIL))
            words = f.read().rstrip(b"\n").rpartition(b"\n")[2].split(b" ", 2)
    except OSError:
        return ""
    id = words[1].decode("ascii", "replace") if len(words) == 3 else ""
    return id if _is_id(id, hex_len) and id.strip("0") else ""


def _is_id(text: str, hex_len: int) -> bool:
    return (len(text) == hex_len if hex_len else len(text) in (40, 64)) and not text.strip(
        "0123456789abcdef"
    )


def _text(path: str) -> str:
    with open(path, "rb") as f:
        return os.fsdecode(f.read())


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
    known = config_cache.read(repo, environ, keep=not any(environ.get(name) for name in _BENDING))
    settings = config.build(known["git"], known["policy"], environ, strict=False)
    ours = (settings.team_ref, settings.private_ref)
    names = (*ours, *map(config.backup_of, ours))
    rows = repo.git.text("for-each-ref", "--format=%(refname) %(objectname)", *names).splitlines()
    found = dict(row.split(" ") for row in rows)
    refs = {ref: found[ref] for ref in ours if ref in found}
    back = {
        ref: found.get(config.backup_of(ref)) or _logged(repo.common_dir, ref, repo.hex_len)
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
