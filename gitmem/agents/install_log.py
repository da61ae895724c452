"""What `install` wrote into files of others, kept so that it can be taken out again byte for byte.

One file for the user, `$XDG_STATE_HOME/git-mem/installed.json` (mode 0600): for each file that was
changed the places of our own characters, and a digest of the whole. No character of the user's own
is kept: settings may hold keys. It lies outside of any repository, so deleting `.git/mem/` loses
nothing.

Promise: a file is read, changed and written under a lock of ours, whole or not at all, with its
mode, through a link to the file behind it, and only if it is still what was read; the note is on
disk before the file changes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from typing import Any

from ..core.errors import MemError
from ..engine import cache_lock
from ..git import config_journal
from .jsonedit import cut

_WAIT = 10.0
# bytes of a file of others: settings have thousands, Claude Code's ~/.claude.json has millions
LARGEST = 5_000_000


class Ledger:
    """The notes of one user, while their lock is held. `dry`: nothing is written, and `would` has
    each file that would change, with the text it would get."""

    def __init__(self, path: str, dry: bool = False) -> None:
        self._path = path
        self.dry = dry
        self.files: dict[str, dict[str, Any]] = _load(path)
        self.would: dict[str, str] = {}

    def known(self, file: str) -> dict[str, Any]:
        """What is noted of a file, empty for nothing."""
        return self.files.get(os.path.realpath(file), {})

    def original(self, file: str, text: str | None, target: str = "") -> str | None:
        """The text as it was before we wrote, "" where there was no file; None where others have
        changed it since, nothing is known, or it was written for another target.
        """
        note = self.known(file)
        same = text is not None and note and note["after"] == _digest(text)
        if text is None or not same or (target and note["target"] != target):
            return None
        return cut(text, note["spans"])

    def write(
        self,
        file: str,
        target: str,
        before: str | None,
        text: str | None,
        spans: list[list[int]] | None = None,
        **extra: Any,
    ) -> bool:
        """Gives a file that says `before` a new text (None: no file); whether it changed. Notes the
        places of it that are ours (`spans`), or that none is. Creates its directory.

        Raises MemError where the file says something else by now, or cannot be written.
        """
        if text == before:
            return False
        real = os.path.realpath(file)
        # A rename would replace also a file that its owner protects.
        writable = os.access(real, os.W_OK) and os.stat(real).st_mode & 0o222
        if os.path.isfile(real) and not writable:
            raise MemError(f"'{file}' is read-only", hint="nothing was changed")
        if read(real) != before:
            hint = "run the command again; nothing was changed"
            raise MemError(f"'{file}' changed while git mem was editing it", hint=hint)
        if self.dry:
            new = text or ""
            self.would[file] = "".join(new[start:end] for start, end in sorted(spans or ()))
            return True
        note = self.files.get(real, {})
        made: list[str] = []
        try:
            if text is None:
                os.unlink(real)
                _tidy(note.get("dirs", []))
            else:
                made = _missing(os.path.dirname(real))
                if spans:
                    self.files[real] = {
                        "target": target,
                        "after": _digest(text),
                        "spans": spans,
                        "dirs": note.get("dirs", []) + made,
                        "created": before is None or bool(note.get("created")),
                        **extra,
                    }
                    self._save()
                os.makedirs(os.path.dirname(real), exist_ok=True)
                config_journal.replace(real, text.encode("utf-8", "surrogateescape"), 0o666)
        except OSError as e:
            _tidy(made)
            self._set(real, note)
            hint = "nothing was changed"
            raise MemError(f"cannot write '{file}': {e.strerror}", hint=hint) from e
        if not spans:
            self._set(real, {})
        return True

    def _set(self, real: str, note: dict[str, Any]) -> None:
        self.files[real] = note
        if not note:
            del self.files[real]
        self._save()

    def forget(self, file: str) -> None:
        """Nothing of ours is in this file any more."""
        if self.known(file):
            self._set(os.path.realpath(file), {})

    def _save(self) -> None:
        if self.files:
            content = json.dumps({"files": self.files}, indent=1).encode("ascii")
            config_journal.replace(self._path, content)
        elif os.path.exists(self._path):
            os.unlink(self._path)


@contextlib.contextmanager
def opened(environ: Mapping[str, str], dry: bool = False) -> Iterator[Ledger]:
    """The ledger, locked, or one that writes nothing. Raises MemError where it cannot be kept: then
    nothing is changed.
    """
    path = place(environ)
    if not path:
        raise MemError("no home directory", hint="set HOME; nothing was changed")
    if dry:
        yield Ledger(path, dry)
        return
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        if not os.access(os.path.dirname(path), os.W_OK):
            raise PermissionError(13, "Permission denied")
        if os.path.lexists(path) and not os.path.isfile(path):
            raise IsADirectoryError(21, "it is no regular file")
    except OSError as e:
        reason = f"cannot note in '{path}' what is changed: {e.strerror}"
        raise MemError(reason, hint="nothing was changed") from e
    with cache_lock.locked(path, _WAIT) as free:
        if not free:
            hint = "run the command again; nothing was changed"
            raise MemError("another git mem is installing", hint=hint)
        yield Ledger(path)


def place(environ: Mapping[str, str]) -> str:
    """Where the ledger lies, "" without a home."""
    home = environ.get("HOME", "")
    state = environ.get("XDG_STATE_HOME", "") or (home and os.path.join(home, ".local", "state"))
    return state and os.path.join(state, "git-mem", "installed.json")


def read(file: str) -> str | None:
    """The text of a file, None for no file. Raises MemError where it is unreadable or too large."""
    reason = ""
    try:
        # without O_NONBLOCK a named pipe would be waited for
        flags = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0)
        with open(os.open(file, flags), "rb") as f:
            facts = os.fstat(f.fileno())
            if not stat.S_ISREG(facts.st_mode):
                reason = f"'{file}' is no regular file"
            elif facts.st_size > LARGEST:
                reason = f"'{file}' has {facts.st_size} bytes, git mem edits up to {LARGEST}"
            else:
                return f.read().decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return None
    except OSError as e:
        reason = f"cannot read '{file}': {e.strerror}"
    raise MemError(reason, hint="nothing was changed")


def _load(path: str) -> dict[str, dict[str, Any]]:
    try:
        files = json.loads(config_journal.read(path))["files"]
        # All or nothing: a file that is not as we write it says nothing.
        words = [n[key] for n in files.values() for key in ("target", "after")]
        places = [place for n in files.values() for a, b in n["spans"] for place in (a, b)]
        good = {*map(type, words)} <= {str} and {*map(type, places)} <= {int}
        return dict(files) if good else {}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def _missing(directory: str) -> list[str]:
    """The directories that have to be made, the outermost first."""
    found: list[str] = []
    while directory and not os.path.isdir(directory):
        found.insert(0, directory)
        directory = os.path.dirname(directory)
    return found


def _tidy(directories: list[str]) -> None:
    """Removes directories that we made, as far as they are empty."""
    for directory in reversed(directories):
        try:
            os.rmdir(directory)
        except OSError:
            return


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
