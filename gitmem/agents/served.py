"""A generated directory in the place of Claude Code's own auto memory: `git mem sync claude --set`,
a way in without any hook.

The client reads and writes wherever `autoMemoryDirectory` of
`.claude/settings.local.json` says. We have it say a directory of ours beside
its own, which begins as a copy of that, so nothing the client knew is lost to
it and nothing of its own is touched.

Promise: `unset` restores the settings and the exclude file byte for byte if
nobody has changed them since, else it takes out our own entry; what the client
noted meanwhile goes back to its own directory, and where both have changed,
ours stays where it is and is named.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping

from ..core.errors import MemError
from ..git import config_journal
from ..store import Store
from . import automemory, automemory_dir, install_log
from .install_log import Change, Ledger
from .jsonedit import Broken, Doc

_KEY = "autoMemoryDirectory"
_TARGET = "auto-memory"  # of the ledger
_NAME = "git-mem-memory"
_COPIED = ".git-mem.json"  # what the directory began as: {file: digest}
_FILE = ".claude/settings.local.json"


def place(store: Store, environ: Mapping[str, str]) -> str:
    """The generated directory: beside the client's own, so that worktrees share it and what is
    private stays in the user's home.
    """
    return os.path.join(os.path.dirname(_own(store, environ)), _NAME)


def is_set(store: Store, environ: Mapping[str, str]) -> bool:
    """Whether this working tree's local settings name our directory."""
    try:
        return bool(store.repo.top) and Doc(install_log.read(_settings(store)) or "").value(
            _KEY
        ) == place(store, environ)
    except Broken:
        return False


def set_up(store: Store, environ: Mapping[str, str]) -> list[str]:
    """Makes the directory and has the client use it; one line for each thing done.

    Raises MemError where settings name another one already.
    """
    if not store.repo.top:
        raise MemError(
            "no working tree whose settings could name a directory", hint="run it inside one"
        )
    if store.repo.git.text("ls-files", "--", f":(top){_FILE}"):
        raise MemError(
            f"'{_FILE}' is committed: what it says holds for everybody",
            hint=f"`git rm --cached {_FILE}` takes it out of the repository and leaves it here",
        )
    sight = automemory.look(store.repo.git_dir, store.repo.common_dir, store.repo.top, environ)
    directory = place(store, environ)
    if sight.path == directory and sight.origin == "local":
        return []
    if sight.origin != "default":
        raise MemError(
            f"{sight.origin} settings already name '{sight.path or sight.refused}' for auto memory",
            hint="without --set, memories are written there",
        )
    done = []
    with install_log.opened(environ) as book:
        _check(_settings(store))
        copied = _copy(_own(store, environ), directory)
        automemory_dir.watch(store, _own(store, environ))
        done.append(
            f"made '{directory}'"
            + (f", with {copied} files of '{_own(store, environ)}'" if copied else "")
        )
        if book.edit(
            _settings(store), _TARGET, lambda text: _with_setting(_settings(store), text, directory)
        ):
            done.append(f"{_KEY} in '{_settings(store)}'")
        if store.repo.git.run_status(
            "-C", store.repo.top, "check-ignore", "-q", "--", _FILE, ok=(0, 1, 128)
        )[1]:
            exclude = os.path.join(store.repo.common_dir, "info", "exclude")
            if book.edit(exclude, _TARGET, _with_line):
                done.append(f"/{_FILE} in '{exclude}'")
    return done


def unset(store: Store, environ: Mapping[str, str]) -> list[str]:
    """Takes all of it back; one line for each thing done."""
    done = []
    directory = place(store, environ)
    if store.repo.top:
        with install_log.opened(environ) as book:
            for path, back in (
                (
                    _settings(store),
                    lambda book, path, text: _without_setting(book, path, text, directory),
                ),
                (os.path.join(store.repo.common_dir, "info", "exclude"), _without_line),
            ):
                if path in (_settings(store),) or book.known(path).get("target") == _TARGET:
                    if book.edit(
                        path,
                        _TARGET,
                        lambda text, path=path, back=back: back(book, path, text),  # type: ignore[misc]
                    ):
                        done.append(
                            f"restored '{path}'" if os.path.exists(path) else f"removed '{path}'"
                        )
                    if book.known(path).get("target") == _TARGET:
                        book.forget(path)
    if os.path.isdir(directory):
        automemory_dir.remove(store, directory)
        done += _bring_back(directory, _own(store, environ))
    return done


def leave(store: Store, environ: Mapping[str, str]) -> list[str]:
    """git mem leaves the repository: everything that it wrote for the client goes."""
    done = (
        unset(store, environ)
        if is_set(store, environ) or os.path.isdir(place(store, environ))
        else []
    )
    for directory in automemory_dir.directories(store.repo.common_dir):
        report = automemory_dir.remove(store, directory)
        if report.count(automemory_dir.REMOVED):
            done.append(
                f"removed {report.count(automemory_dir.REMOVED)} files of memories from"
                f" '{directory}'"
            )
        done += [
            f"kept '{os.path.join(directory, item.file)}': {item.reason}"
            for item in report.items
            if item.status == automemory_dir.KEPT
        ]
    return done


def _own(store: Store, environ: Mapping[str, str]) -> str:
    return automemory.default(store.repo.git_dir, store.repo.common_dir, store.repo.top, environ)


def _settings(store: Store) -> str:
    return os.path.join(store.repo.top, *_FILE.split("/"))


# --- settings ---------------------------------------------------------------


def _check(path: str) -> None:
    """Before anything is written: whether the settings can be edited."""
    text = (install_log.read(path) or "").removeprefix("\ufeff")
    try:
        # The client ignores all of a settings file that has a comment or a comma too many.
        if text.strip() and not isinstance(json.loads(text), dict):
            raise MemError(
                f"'{path}' holds no object", hint="mend the file by hand; nothing was changed"
            )
    except (ValueError, RecursionError) as e:
        raise MemError(
            f"Claude Code cannot read '{path}': {e}",
            hint="mend the file by hand; nothing was changed",
        ) from e


def _with_setting(path: str, text: str | None, directory: str) -> Change:
    _check(path)
    doc = Doc(text or "")
    doc.put((_KEY,), directory)
    return Change(doc.text, doc.spans)


def _without_setting(book: Ledger, path: str, text: str | None, directory: str) -> Change | None:
    if text is None:
        return None
    created = book.known(path).get("created")
    before = book.original(path, text) if book.known(path).get("target") == _TARGET else None
    if before is not None:
        return Change(None if created and not before else before)
    try:
        doc = Doc(text)
        if doc.value(_KEY) != directory:
            return None
        doc.remove(_KEY)
        return Change(None if created and not doc.value() else doc.text)
    except Broken as e:
        raise MemError(f"cannot understand '{path}': {e}", hint=f"take '{_KEY}' out by hand") from e


def _with_line(text: str | None) -> Change:
    text = text or ""
    piece = ("\n" if text and not text.endswith("\n") else "") + f"/{_FILE}\n"
    return Change(text + piece, [[len(text), len(text) + len(piece)]])


def _without_line(book: Ledger, path: str, text: str | None) -> Change | None:
    if text is None:
        return None
    before = book.original(path, text)
    left = (
        "".join([line for line in text.splitlines(keepends=True) if line.strip() != f"/{_FILE}"])
        if before is None
        else before
    )
    return Change(None if not left and book.known(path).get("created") else left)


# --- the client's own files -------------------------------------------------


def _copy(own: str, directory: str) -> int:
    """Begins the directory with what the client has; files that are there already stay.

    Returns how many were copied.
    """
    os.makedirs(directory, mode=0o700, exist_ok=True)
    manifest = _manifest(directory)
    count = 0
    for name, raw in automemory_dir.own_files(own):
        if not os.path.lexists(os.path.join(directory, name)):
            config_journal.replace(os.path.join(directory, name), raw)
            manifest[name] = _digest(raw)
            count += 1
    config_journal.replace(
        os.path.join(directory, _COPIED), json.dumps(manifest, sort_keys=True).encode()
    )
    return count


def _bring_back(directory: str, own: str) -> list[str]:
    """Gives the client's directory what was noted in ours, and removes ours as far as nothing is
    left in it.
    """
    manifest = _manifest(directory)
    back, kept = 0, []
    for name, raw in list(automemory_dir.own_files(directory)):
        path, target = os.path.join(directory, name), os.path.join(own, name)
        there = (
            config_journal.read(target)
            if os.path.isfile(target) and not os.path.islink(target)
            else None
        )
        if there != raw and _digest(raw) != manifest.get(name):
            if os.path.lexists(target) and (there is None or _digest(there) != manifest.get(name)):
                kept.append(f"kept '{path}': '{target}' says something else")
                continue
            os.makedirs(own, mode=0o700, exist_ok=True)
            config_journal.replace(target, raw)
            back += 1
        os.unlink(path)
    if not kept:
        try:
            os.unlink(os.path.join(directory, _COPIED))
        except FileNotFoundError:
            pass
        try:
            os.rmdir(directory)
        except OSError:
            kept.append(f"kept '{directory}': other files are in it")
    return [*([f"{back} files that Claude Code wrote went to '{own}'"] if back else []), *kept]


def _manifest(directory: str) -> dict[str, str]:
    try:
        found = json.loads(config_journal.read(os.path.join(directory, _COPIED)))
        return (
            {k: v for k, v in found.items() if isinstance(v, str)}
            if isinstance(found, dict)
            else {}
        )
    except ValueError:
        return {}


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()
