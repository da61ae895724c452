"""HEAD, refs and reflogs, read from git's files without starting git.

Promise: an answer is git's answer; where files cannot tell it, Unsure is raised.
"""

from __future__ import annotations

import os

from ..core.record import clean
from . import config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class Unsure(Exception):
    """Files alone do not tell; git has to be asked."""


class Packed:
    """The packed refs, read when they are first needed."""

    def __init__(self, common_dir: str) -> None:
        self._path = os.path.join(common_dir, "packed-refs")
        self._content: bytes | None = None

    @property
    def content(self) -> bytes:
        if self._content is None:
            self._content = b"\n" + os.fsencode(text_of(self._path, missing=""))
        return self._content

    def get(self, ref: str) -> str:
        content = self.content
        at = content.find(b" " + os.fsencode(ref) + b"\n")
        start = content.rfind(b"\n", 0, at) + 1
        return content[start:at].decode("ascii", "replace") if at > 0 else ""

    def has_ours(self) -> bool:
        ours = b" refs/notes/" in self.content or b" refs/git-mem/" in self.content
        return ours and (b"/team\n" in self.content or b"/private\n" in self.content)


def head_of(text: str, common_dir: str, packed: Packed, hex_len: int) -> tuple[str, str]:
    """(commit, short name of the branch) of a HEAD file's text."""
    text = text.rstrip()
    if not text.startswith("ref:"):
        if not is_id(text, hex_len):
            raise Unsure("an odd HEAD")
        return text, ""
    name = text[4:].strip()
    if not name.startswith("refs/heads/") or name.endswith("/.invalid"):
        raise Unsure("HEAD names no branch")
    return ref_of(common_dir, name, packed, hex_len), clean(name[11:])


def ref_of(common_dir: str, name: str, packed: Packed, hex_len: int) -> str:
    """The commit that a shared ref names, "" for none: the loose file first, as git does."""
    if ".." in name:
        raise Unsure("an odd ref")
    for _ in range(5):
        try:
            text = text_of(os.path.join(common_dir, name)).rstrip()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            text = packed.get(name)
            if not text:
                return ""
        if text.startswith("ref:"):
            name = text[4:].strip()
            own = name.startswith(("refs/bisect/", "refs/worktree/", "refs/rewritten/"))
            if own or not name.startswith("refs/") or ".." in name:
                raise Unsure("a symbolic ref of a worktree")
        elif is_id(text, hex_len):
            return text
        else:
            raise Unsure("a ref that names no object")
    raise Unsure("symbolic refs in a circle")


def notes_ref(common_dir: str, ref: str, packed: Packed, hex_len: int) -> tuple[str, bool]:
    """(commit of a notes ref, else of its backup or reflog; whether the ref is gone or broken)."""
    for name in (ref, config.backup_of(ref)):
        try:
            id = ref_of(common_dir, name, packed, hex_len)
        except Unsure:
            continue
        if id.strip("0"):
            return id, name != ref
    return last_logged(common_dir, ref, hex_len), True


def last_logged(common_dir: str, ref: str, hex_len: int) -> str:
    """The last commit in a ref's reflog, for a ref that a power cut emptied."""
    rows = log_rows(os.path.join(common_dir, "logs", ref))
    id = next((new for _, new, _ in rows), "")
    return id if is_id(id, hex_len) and id.strip("0") else ""


def log_rows(path: str) -> Iterator[tuple[str, str, str]]:
    """(old id, new id, message) of each row in a reflog's file, newest first; none without one.

    A power cut may leave other rows: they are passed over, as git does.
    """
    try:
        text = text_of(path, missing="")
    except OSError:
        return
    for row in reversed(text.split("\n")):
        head, _, message = row.partition("\t")
        words = head.split(" ", 2)
        if len(words) == 3 and is_id(words[0], 0) and is_id(words[1], 0):
            yield words[0], words[1], message


def is_id(text: str, hex_len: int) -> bool:
    """Whether a text is an object id; `hex_len` 0: of either length."""
    whole = len(text) == hex_len if hex_len else len(text) in (40, 64)
    return whole and not text.strip("0123456789abcdef")


def text_of(path: str, missing: str | None = None) -> str:
    """The content of a file. Raises FileNotFoundError unless `missing` stands in."""
    try:
        with open(path, "rb") as f:
            return os.fsdecode(f.read())
    except FileNotFoundError:
        if missing is None:
            raise
        return missing
