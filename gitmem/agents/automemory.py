"""Claude Code's own notes on this project ("auto memory"): where they lie, whether they changed.

The directory is found by the client's rule (seen in 2.1.197 and 2.1.330): `autoMemoryDirectory` of
the local, project or user settings, else `<config>/projects/<slug of the main root>/memory`. One
that a *committed* file names is only read inside the working tree: else a clone could have any
folder of its user read into a session. `mem/automemory.stamp` says which directory was last read
and how its files looked.
Standard library only.
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
    `stamp`: the bytes to `keep` once they are read; `changed`: whether the kept stamp differs.
    """

    def __init__(self, git_dir: str, common_dir: str, top: str, environ: Mapping[str, str]) -> None:
        self.origin, path = _named(git_dir, common_dir, top, environ)
        if not os.path.isabs(path):  # without a home it would depend on the current directory
            path = ""
        allowed = self.origin != "project" or inside(top, path)
        self.path, self.refused = (path, "") if allowed else ("", path)
        rows = _topics(self.path) if self.path else []
        self.count = len(rows)
        self.stamp = b"\n".join([packed(path), *rows])
        self.changed = self.stamp != _kept(memfile.directory(common_dir))


def read_from(mem_dir: str) -> str:
    """The directory that was last taken in, "" for none."""
    return unpacked(_kept(mem_dir).partition(b"\n")[0])


def keep(mem_dir: str, sight: Sight) -> None:
    """Notes that all of it was read; where that cannot be written, it is read again."""
    try:
        memfile.write(os.path.join(mem_dir, STAMP), sight.stamp)
    except OSError:
        pass


# --- the client's rules -----------------------------------------------------


def _main_root(git_dir: str, common_dir: str, top: str) -> str:
    """The client's project: the main working tree, the bare repository, or the submodule."""
    if os.path.basename(common_dir) == ".git":
        return os.path.dirname(common_dir)
    return common_dir if git_dir != common_dir or not top else top


def slug(path: str) -> str:
    """The name of a project's directory: every character but letters and digits as `-`, cut at 200
    with a hash of the whole path. Counted in UTF-16 units, as JavaScript does.
    """
    units: list[int] = []
    for code in map(ord, _composed(path)):
        units += [code] if code < 0x10000 else [0xD7C0 + (code >> 10), 0xDC00 + (code & 0x3FF)]
    made = "".join([chr(u) if u < 128 and chr(u).isalnum() else "-" for u in units])
    if len(made) <= _LONGEST:
        return made
    hash = 0
    for unit in units:
        hash = (hash * 31 + unit) & 0xFFFFFFFF
    number, digits = min(hash, (1 << 32) - hash), ""
    while number:
        number, rest = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[rest] + digits
    return f"{made[:_LONGEST]}-{digits or '0'}"


def config_dir(environ: Mapping[str, str]) -> str:
    """Claude Code's own directory."""
    return _composed(environ.get("CLAUDE_CONFIG_DIR", "")) or os.path.join(
        _home(environ), ".claude"
    )


def _named(git_dir: str, common_dir: str, top: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """(origin, directory) by the strongest settings file that names one, else the default."""
    root = _main_root(git_dir, common_dir, top)
    start = environ.get("CLAUDE_PROJECT_DIR", "") or top
    if top and not inside(top, start):
        start = top
    places = dict.fromkeys([p for p in (start, top, root) if p])
    files = [("local", os.path.join(p, ".claude", "settings.local.json")) for p in places]
    if start and inside(top, shared := os.path.join(start, ".claude", "settings.json")):
        files.append(("project", shared))
    for origin, path in [*files, ("user", os.path.join(config_dir(environ), "settings.json"))]:
        value = _setting(path)
        if value.startswith("~/"):
            value = os.path.join(_home(environ), value[2:])
        # The client ignores all others, too.
        if os.path.isabs(value) and len(value) > 2 and not {"\0", "\n"} & set(value):
            if origin == "local" and not inside(top, value) and _committed(path):
                origin = "project"
            return origin, os.path.normpath(value)
    return "default", os.path.join(config_dir(environ), "projects", slug(root), "memory")


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
    """`autoMemoryDirectory` in a settings file, "" for none and where it cannot be read."""
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


# --- what was seen ----------------------------------------------------------


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
