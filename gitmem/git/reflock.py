"""Moves refs through git, and clears the lock files that a killed writer leaves.

A killed git leaves `<ref>.lock`, which refuses every later write and does not say whose it was.

The rule: a lock goes when it has stood unchanged for STALE seconds and is empty or holds a commit
of ours; git holds one for milliseconds. A commit is ours if git mem made it, if only a part of its
id was written, or if it is not here: `gc` took it since. Any other lock stays, and the error names
it. The age alone decides about the locks of the ref's reflog, of `packed-refs` (and
`packed-refs.new`) and of a reftable. A writer that was only stopped fails then.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterable
from typing import Any

from ..core.errors import GitFailed
from . import config, ref_files
from .gitcmd import Git

try:
    import fcntl
except ImportError:  # Windows: locks are named, not removed
    fcntl = None  # type: ignore[assignment]

# git syncs neither loose objects nor refs unless asked (2.36 and newer listen). A power cut would
# leave a ref that names nothing.
SYNCED = ("-c", "core.fsync=committed,loose-object,reference")
STALE = 10.0  # seconds
LEFT = (
    "another git process holds it, or one crashed; when none is running, that file may be removed"
)

_OF_TABLES = os.path.join("reftable", "tables.list.lock")  # all refs of a reftable share it
_EXISTS = re.compile("nable to create (?:file )?'?(.+?)'?: File exists")

Done = tuple[int, bytes, bytes]  # (exit status, stdout, stderr)


def run(
    git: Git,
    ref: str,
    args: list[str],
    stdin: bytes = b"",
    env: dict[str, str] | None = None,
    listen: Callable[[Any], tuple[bytes, bytes]] | None = None,
) -> Done:
    """A git process that moves a ref; where it succeeds, all it wrote is on the disk. `listen`:
    gives the stdout and stderr of the process, which reads nothing.
    """
    process = git.start([*SYNCED, *args], env, stdin=-1, stdout=-1, stderr=-1)
    out, err = listen(process) if listen else process.communicate(stdin)
    if process.returncode == 0:
        sync_names(git.common_dir, ref)
    return process.returncode, out, err


def patiently(git: Git, ref: str, call: Callable[[], Done]) -> Done:
    """What a call says that moves a ref, once no lock stops it: a killed writer's is removed, for
    another one it waits STALE seconds.
    """
    begun = time.monotonic()
    while True:
        done = call()
        if not met(git, done):
            return done
        if not recover(git, ref):
            if time.monotonic() - begun >= STALE:
                return done
            time.sleep(0.02)


def move(git: Git, ref: str, new: str, old: str, why: str) -> Done:
    """One transaction that moves a notes ref and its backup to the commit `new`, if the ref holds
    `old` ("": if there is no ref). Where somebody deleted the ref meanwhile, the backup says
    whether it held `old`.
    """
    zero, backup = "0" * len(new), config.backup_of(ref)
    if not old:
        held = git.resolve(backup)
        if held.strip("0") and git.objects.get(held):
            return 128, b"", b"but expected no backup"  # somebody wrote, and somebody deleted it
        commands = f"create {ref} {new}\nupdate {backup} {new} {held or zero}\n"
        return _update(git, ref, commands, why)
    done = _update(git, ref, f"update {ref} {new} {old}\nupdate {backup} {new}\n", why)
    if done[0] and b"unable to resolve reference '%s'\n" % ref.encode() in done[2]:
        created = _update(git, ref, f"create {ref} {new}\nupdate {backup} {new} {old}\n", why)
        return done if created[0] else created
    return done


def put_back(git: Git, ref: str, commit: str, backup: str, why: str) -> None:
    """Points a ref that is missing, or whose file holds no id, to a commit, unless another process
    did so before. `backup`: the commit of its backup before this one was chosen, "" for none.
    """
    spare, before = config.backup_of(ref), backup if backup.strip("0") else "0" * len(commit)
    commands = ""
    for name, command in (spare, f"verify {spare} {before}"), (ref, f"create {ref} {commit}"):
        if drop_broken(git.common_dir, name):
            # `packed-refs` may have an older value, which stands again where the file is gone.
            packed = git.resolve(name)
            command = f"update {name} {commit} {packed}" if packed else command
        commands += command + "\n"
    _update(git, ref, commands, why)


def take_back(git: Git, ref: str, to: str, held: str, backup: str) -> bool:
    """Moves a ref, and a `backup` whose commit is missing, back to a former tip ("": deletes)."""
    names = [(ref, held), *([(config.backup_of(ref), backup)] if backup else [])]
    commands = "".join(
        f"update {name} {to} {id}\n" if to else f"delete {name} {id}\n" for name, id in names
    )
    return _update(git, ref, commands, "git mem: mend")[0] == 0


def back_up(git: Git, ref: str, commit: str) -> None:
    """Moves the backup of a ref to the ref's tip, if that is still `commit`."""
    commands = f"verify {ref} {commit}\nupdate {config.backup_of(ref)} {commit}\n"
    _update(git, ref, commands, "")


def _update(git: Git, ref: str, commands: str, why: str) -> Done:
    # "always" would give the backup a reflog, which would keep purged texts; and a bare repository
    # keeps no reflog unless it is told to.
    message = ["-m", why] if why else []
    args = ["-c", "core.logAllRefUpdates=true", "update-ref", *message, "--stdin"]
    return run(git, ref, args, commands.encode())


def drop_broken(common_dir: str, ref: str) -> bool:
    """Removes a ref's file without an id, as a power cut leaves it; git does not replace it."""
    path = os.path.join(common_dir, ref)
    if not broken(path):
        return False
    with contextlib.suppress(OSError):
        os.close(os.open(path + ".lock", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        try:
            if broken(path):
                os.unlink(path)
                return True
        finally:
            os.unlink(path + ".lock")
    return False


def broken(path: str) -> bool:
    try:
        word = re.split(r"[\s\0]", ref_files.text_of(path), maxsplit=1)[0]
    except OSError:
        return False
    return word != "ref:" and not (ref_files.is_id(word, 0) and word.strip("0"))


def delete(git: Git, ref: str) -> None:
    """Deletes a ref, whatever it holds; nothing where there is none. Raises GitFailed."""
    if not git.resolve(ref):  # git locks the packed refs also to delete what is not there
        return
    done = patiently(git, ref, lambda: run(git, ref, ["update-ref", "-d", ref]))
    if done[0] and git.resolve(ref):
        text = done[2].decode("utf-8", "replace").strip()
        lock = met(git, done)
        why = (
            f"it is locked by '{lock}'" if lock else text.partition("\n")[0].removeprefix("error: ")
        )
        hint = LEFT if lock else ""
        raise GitFailed(f"cannot delete '{ref}': {why}", hint, status=done[0], stderr=text)


def sync_names(common_dir: str, ref: str) -> None:
    """Makes the name that git gave a ref durable: git syncs the file alone."""
    for directory in (os.path.dirname(ref), "reftable"):
        sync_directory(os.path.join(common_dir, directory))


def sync_directory(path: str) -> None:
    """Brings the names in a directory to the disk, where the system can (not on Windows)."""
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _locks(common_dir: str, ref: str) -> list[str]:
    """Every file that a killed writer of the ref may leave."""
    if os.path.isdir(os.path.join(common_dir, "reftable")):
        return [os.path.join(common_dir, _OF_TABLES)]
    names = [f"{name}.lock" for name in (ref, config.backup_of(ref), f"logs/{ref}")]
    return [os.path.join(common_dir, n) for n in (*names, "packed-refs.new", "packed-refs.lock")]


def met(git: Git, done: Done) -> str:
    """The lock that stopped git, by git's words; "" where something else did, or nothing."""
    err = done[2].decode("utf-8", "replace") if done[0] else ""
    if "cannot lock references" in err:  # of a reftable; git does not say which file
        return os.path.join(git.common_dir, _OF_TABLES)
    found = _EXISTS.search(err)
    return found[1] if found else ""


def standing(common_dir: str, refs: Iterable[str]) -> list[str]:
    """Locks of these refs that have stood for longer than git ever holds one."""
    locks = dict.fromkeys(path for ref in refs for path in _locks(common_dir, ref))
    return [path for path in locks if os.path.lexists(path) and _is_old(path)]


def _is_old(path: str) -> bool:
    """Whether a file is not there, or has not changed for STALE seconds."""
    try:
        return time.time() - os.lstat(path).st_mtime >= STALE
    except FileNotFoundError:
        return True


def recover(git: Git, ref: str) -> bool:
    """Removes the locks that a killed writer of a ref left; whether there was one."""
    paths = _locks(git.common_dir, ref)
    if not _is_old(os.path.join(git.common_dir, "packed-refs.new")):
        paths = [path for path in paths if not path.endswith("packed-refs.lock")]
    return bool([path for path in paths if _remove_lock(git, path)])


def _remove_lock(git: Git, path: str) -> bool:
    """Removes a lock that falls under the rule, one process at a time, by a flock on the lock file
    itself: a second process sees that the path is gone, or names another file by then.
    """
    if not fcntl:
        return False
    of_ref = os.path.relpath(path, git.common_dir).startswith("refs" + os.sep)
    with contextlib.suppress(OSError), open(path, "rb") as f:
        fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        content = f.read(200).decode("ascii", "replace").strip("\0\n")  # zeros: a power cut
        same = os.fstat(f.fileno()).st_ino == os.lstat(path).st_ino
        if same and _is_old(path) and (not of_ref or _is_ours(git, content)):
            os.unlink(path)
            return True
    return False


def _is_ours(git: Git, content: str) -> bool:
    if len(content) < 40:
        return re.fullmatch("[0-9a-f]*", content) is not None
    found = git.objects.get(content)
    return found is None or (
        found[1] == "commit" and found[2].partition(b"\n\n")[2].startswith(b"git mem: ")
    )
