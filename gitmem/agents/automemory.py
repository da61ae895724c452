"""Where Claude Code keeps its own notes on this project ("auto memory"), and whether they changed
since we read them.

Owns the rule for the directory, as the client has it (seen in 2.1.197 and
2.1.330): `autoMemoryDirectory` of the local, project or user settings, else
`<config>/projects/<slug of the main repository's root>/memory`. Owns
`mem/automemory.stamp`: which directory was last read, and what its files looked like.

A directory that a *committed* file names is only read inside the working tree: else a
clone could have any folder of its user read into a session. Standard library only.
"""

from __future__ import annotations

import os

from ..git import memfile
from ..git.worktree_file import inside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

STAMP = "automemory.stamp"
_MOST = 5000  # files that are looked at
_LONGEST = 200  # UTF-16 units of a slug before it is cut and gets a hash
_SETTING = "autoMemoryDirectory"
_MOST_SETTINGS = 1_000_000  # bytes of a settings file that are read


class Sight:
    """The directory at one moment.

    `origin`: "default", or the settings that name it: "user", "project", "local". `path` is ""
    where it may not be read; `refused` is that path then. `count`: files that may be topics.
    `stamp`: the bytes to `keep` once the files are read; `changed`: whether the kept stamp differs.
    """

    def __init__(
        self, path: str, origin: str, refused: str, rows: list[bytes], kept: bytes
    ) -> None:
        self.path = path
        self.origin = origin
        self.refused = refused
        self.count = len(rows)
        self.stamp = b"\n".join([packed(path or refused), *rows])
        self.changed = kept != self.stamp


def look(git_dir: str, common_dir: str, top: str, environ: Mapping[str, str]) -> Sight:
    """Where the auto memory of a repository is and whether it changed.

    Costs a `stat` for each file, and reading up to five settings files.
    """
    files = settings_files(git_dir, common_dir, top, environ)
    named = _named(files, top, environ)
    origin, path = named or ("default", default(git_dir, common_dir, top, environ))
    if not os.path.isabs(path):  # without a home it would depend on the current directory
        path = ""
    refused = ""
    if origin == "project" and not inside(top, path):
        path, refused = "", path
    rows = _topics(path) if path else []
    return Sight(path, origin, refused, rows, _kept(memfile.directory(common_dir)))


def read_from(mem_dir: str) -> str:
    """The directory that was last taken in, "" for none."""
    return unpacked(_kept(mem_dir).partition(b"\n")[0])


def keep(mem_dir: str, sight: Sight) -> None:
    """Notes that everything in `sight` was read; where that cannot be written, it is read again."""
    try:
        memfile.write(os.path.join(mem_dir, STAMP), sight.stamp)
    except OSError:
        pass


# The client's rules


def default(git_dir: str, common_dir: str, top: str, environ: Mapping[str, str]) -> str:
    """The directory of a repository that no settings name: linked worktrees and subdirectories
    share that of the main root.
    """
    project = slug(main_root(git_dir, common_dir, top))
    return os.path.join(config_dir(environ), "projects", project, "memory")


def main_root(git_dir: str, common_dir: str, top: str) -> str:
    """The client's idea of the project: the main working tree; for worktrees of a bare repository
    the repository; for a submodule the submodule.
    """
    if os.path.basename(common_dir) == ".git":
        return os.path.dirname(common_dir)
    return common_dir if git_dir != common_dir or not top else top


def slug(path: str) -> str:
    """The name of a project's directory: every character but letters and digits as `-`, cut at 200
    with a hash of the whole path. Counted in UTF-16 units, as JavaScript does.
    """
    path = _composed(path)
    wide = [c if ord(c) < 0x10000 else "--" for c in path]
    made = "".join([c if c.isascii() and c.isalnum() else "-" * len(c) for c in wide])
    if len(made) <= _LONGEST:
        return made
    hash = 0
    units = path.encode("utf-16-le", "surrogatepass")
    for at in range(0, len(units), 2):
        hash = (hash * 31 + units[at] + units[at + 1] * 256) & 0xFFFFFFFF
    return f"{made[:_LONGEST]}-{_base36(abs(hash - (1 << 32) if hash >> 31 else hash))}"


def config_dir(environ: Mapping[str, str]) -> str:
    """Claude Code's own directory."""
    return _composed(environ.get("CLAUDE_CONFIG_DIR", "")) or os.path.join(
        _home(environ), ".claude"
    )


def settings_files(
    git_dir: str, common_dir: str, top: str, environ: Mapping[str, str]
) -> list[tuple[str, str]]:
    """(origin, file) of the settings that may name the directory, strongest first."""
    start = environ.get("CLAUDE_PROJECT_DIR", "") or top
    if top and not inside(top, start):
        start = top
    places = dict.fromkeys([p for p in (start, top, main_root(git_dir, common_dir, top)) if p])
    files = [("local", os.path.join(p, ".claude", "settings.local.json")) for p in places]
    files += [("project", os.path.join(start, ".claude", "settings.json"))] if start else []
    return [*files, ("user", os.path.join(config_dir(environ), "settings.json"))]


def _named(
    files: list[tuple[str, str]], top: str, environ: Mapping[str, str]
) -> tuple[str, str] | None:
    """(origin, directory) of the first settings file that has the setting."""
    for origin, path in files:
        if origin == "project" and not inside(top, path):
            continue
        value = _setting(path)
        if value.startswith("~/"):
            value = os.path.join(_home(environ), value[2:])
        # The client ignores all others, too.
        if os.path.isabs(value) and len(value) > 2 and not {"\0", "\n"} & set(value):
            if origin == "local" and not inside(top, value) and _committed(path):
                origin = "project"
            return origin, os.path.normpath(value)
    return None


def _committed(path: str) -> bool:
    """Whether git keeps a project's settings file, or the directory it is in."""
    from ..core.errors import MemError
    from ..git.gitcmd import Git

    above, name = os.path.split(os.path.dirname(path))
    try:
        names = [name, os.path.join(name, os.path.basename(path))]
        return bool(Git(cwd=above).text("ls-files", "--", *names))
    except MemError:
        return True


def _setting(path: str) -> str:
    """`autoMemoryDirectory` in a settings file, "" where it is not there or the file cannot be
    read.
    """
    try:
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as f:
            raw = f.read(_MOST_SETTINGS)
        if _SETTING.encode() not in raw:
            return ""
        from ..core import fastjson

        settings = fastjson.loads(raw)
        value = settings.get(_SETTING) if isinstance(settings, dict) else None
        return value if isinstance(value, str) else ""
    except (OSError, ValueError, RecursionError):
        return ""


# What was seen


def _topics(path: str) -> list[bytes]:
    """One line for each Markdown file: name, time, size."""
    rows: list[bytes] = []
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if len(rows) == _MOST:
                    break
                if entry.name.endswith(".md") and entry.is_file(follow_symlinks=False):
                    found = entry.stat(follow_symlinks=False)
                    seen = b"\t%d\t%d" % (found.st_mtime_ns, found.st_size)
                    rows.append(os.fsencode(entry.name).replace(b"\n", b"?") + seen)
    except OSError:
        return []
    return sorted(rows)


def packed(path: str) -> bytes:
    """A path as one line: a name may hold a line feed, and none a zero byte."""
    return os.fsencode(path).replace(b"\n", b"\0")


def unpacked(line: bytes) -> str:
    return os.fsdecode(line.replace(b"\0", b"\n"))


def _kept(mem_dir: str) -> bytes:
    try:
        return memfile.read(os.path.join(mem_dir, STAMP))
    except OSError:
        return b""


def _home(environ: Mapping[str, str]) -> str:
    return environ["HOME"] if "HOME" in environ else os.path.expanduser("~")


def _composed(path: str) -> str:
    """In the Unicode form the client uses (macOS hands out the other one)."""
    if path.isascii():
        return path
    from unicodedata import normalize

    return normalize("NFC", path)


def _base36(number: int) -> str:
    digits = ""
    while number:
        number, rest = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[rest] + digits
    return digits or "0"
