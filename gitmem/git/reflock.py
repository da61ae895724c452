"""What a writer leaves behind that dies while git moves its ref: a lock file, which would refuse
every later write.

git takes `<ref>.lock`, writes the new commit into it and renames it; a kill between two of these
steps leaves it for ever, and says neither who made it nor whether they live. So a writer of ours
first notes in `<git-common-dir>/git-mem-writing-*` (not in `mem/`, which anybody may delete
meanwhile) what it is about to do, and holds a shared `flock` on that note which its git processes
inherit: the kernel drops it with the last of them.

Promise: `recover` removes a lock only if it holds nothing or a commit of ours,
has not changed for `STALE` seconds, no writer of ours is alive (the flock is
free), and one of them died after it had noted what it does, before the lock was made;
or the lock is older than the start of this machine, when everybody died. Any
other lock that stock git left, or holds, stays. Where no note can be kept (no flock,
a read-only or full disk) nothing is recovered and nothing else is lost.

Who deletes a ref also locks `packed-refs`, which all refs of the repository
share, and writes `packed-refs.new` beside it. The lock goes by the same
evidence, but later (`SHARED`). The file is nobody's once the lock is ours:
git leaves it behind even where a person has removed the lock as git advises.

A reftable has one lock for all refs, `reftable/tables.list.lock`. It goes like that of
`packed-refs`, and writers of all refs share one note.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator

from ..core.errors import GitFailed
from . import config
from .gitcmd import Git

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

# git syncs neither loose objects nor refs unless asked (2.36 and newer listen). A power cut would
# leave a ref that names nothing.
SYNCED = ("-c", "core.fsync=committed,loose-object,reference")
ANY = "any"  # noted in the place of a commit by those who cannot name it
# seconds a lock file stands unchanged before it counts as left behind: git holds one for
# milliseconds
STALE = 2.0
# and the lock of packed-refs: others hold it for as long as a large file takes to write, or a hook
# to look at their deletion
SHARED = 10.0
LEFT = (
    "another git process holds it, or one crashed; when none is running, that file may be removed"
)
_SLACK = 2.0  # seconds by which the clock of a disk may differ from ours
_TRIES = 40


class Claim:
    """A writer's note.

    `fds`: what its git process inherits. `end` is told how that process ended; a signal ends it
    too, and says nothing.
    """

    __slots__ = ("ended", "fds")

    def __init__(self, fds: tuple[int, ...]) -> None:
        self.fds = fds
        self.ended = False

    def end(self, status: int) -> None:
        self.ended = status >= 0


def _tables(common_dir: str) -> str:
    """The lock of a reftable, which all refs share; "" where refs are files."""
    stack = os.path.join(common_dir, "reftable")
    return os.path.join(stack, "tables.list.lock") if os.path.isdir(stack) else ""


def _note(common_dir: str, ref: str) -> str:
    if _tables(common_dir):
        return os.path.join(common_dir, "git-mem-writing-reftable")
    name = (
        "aside"
        if ref.startswith("refs/git-mem/")
        else ref.removeprefix("refs/notes/").replace("/", "-")
    )  # those have a process id in them
    return os.path.join(common_dir, "git-mem-writing-" + name)


def _files(common_dir: str, ref: str) -> tuple[str, str, str, str, str]:
    """Where git locks a ref, its backup, its reflog and the file of all packed refs, and what it
    makes that file of.
    """
    packed = os.path.join(common_dir, "packed-refs")
    names = ref, config.backup_of(ref), os.path.join("logs", ref)
    lock, backup, log = (os.path.join(common_dir, name + ".lock") for name in names)
    return lock, backup, log, packed + ".lock", packed + ".new"


def _locks(common_dir: str, ref: str) -> tuple[str, ...]:
    """Everything that a writer of the ref may leave."""
    tables = _tables(common_dir)
    return (tables,) if tables else _files(common_dir, ref)


def _flock(fd: int, how: int) -> bool:
    """Takes a lock, never waiting long: whoever holds it may be stopped."""
    for _ in range(_TRIES):
        try:
            fcntl.flock(fd, how | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(0.005)
        except OSError:
            return False
    return False


def run(
    git: Git,
    common_dir: str,
    ref: str,
    args: list[str],
    stdin: bytes = b"",
    new: str = "",
    env: dict[str, str] | None = None,
) -> tuple[int, bytes, bytes, int]:
    """(exit status, stdout, stderr, process id) of a git process that moves a ref, with `writing`
    around it. Where it succeeded, all it wrote is on the disk.
    """
    with writing(common_dir, ref, new) as claim:
        process = git.start(
            [*SYNCED, *args], env, stdin=-1, stdout=-1, stderr=-1, pass_fds=claim.fds
        )
        out, err = process.communicate(stdin)
        claim.end(process.returncode)
    if process.returncode == 0:
        sync_names(common_dir, ref)
    return process.returncode, out, err, process.pid


def move(git: Git, ref: str, new: str, old: str, why: str) -> tuple[int, bytes, bytes, int]:
    """`run` for one transaction: a notes ref and its backup go to the commit `new`, if the ref
    holds `old` ("" for: there is no ref).

    Where somebody deleted the ref meanwhile, the backup says whether it held `old`.
    """
    zero, backup = "0" * len(new), config.backup_of(ref)
    if not old:
        held = git.text("rev-parse", "-q", "--verify", backup, ok=(0, 1, 128))
        if held.strip("0") and git.objects.get(held):
            return 128, b"", b"but expected no backup", 0  # somebody wrote, and somebody deleted it
        return _update(
            git, ref, f"create {ref} {new}\nupdate {backup} {new} {held or zero}\n", new, why
        )
    done = _update(git, ref, f"update {ref} {new} {old}\nupdate {backup} {new}\n", new, why)
    if done[0] and b"unable to resolve reference '%s'\n" % ref.encode() in done[2]:
        again = _update(git, ref, f"create {ref} {new}\nupdate {backup} {new} {old}\n", new, why)
        return done if again[0] else again
    return done


def put_back(git: Git, ref: str, commit: str, backup: str, why: str) -> bool:
    """Gives a ref that is missing, or a file without an id, to a commit, unless somebody else was
    faster. `backup`: what its backup held before the commit was chosen, "" for none.
    """
    spare, before = config.backup_of(ref), backup if backup.strip("0") else "0" * len(commit)
    dropped = [name for name in (ref, spare) if drop_broken(git.common_dir, name)]
    # `packed-refs` may have an older value, which stands again where the file is gone.
    packed = {
        name: git.text("rev-parse", "-q", "--verify", name, ok=(0, 1, 128)) for name in dropped
    }
    kept = (
        f"update {spare} {commit} {packed[spare]}\n"
        if packed.get(spare)
        else f"verify {spare} {before}\n"
    )
    moved = (
        f"update {ref} {commit} {packed[ref]}\n" if packed.get(ref) else f"create {ref} {commit}\n"
    )
    return _update(git, ref, kept + moved, commit, why)[0] == 0


def take_back(git: Git, ref: str, to: str, held: str, backup: str) -> bool:
    """Moves a ref that names what is not here back to a former tip ("": to none); its backup too,
    if that holds such a commit (`backup`).
    """
    names = [(ref, held), *([(config.backup_of(ref), backup)] if backup else [])]
    commands = "".join(
        f"update {name} {to} {id}\n" if to else f"delete {name} {id}\n" for name, id in names
    )
    return _update(git, ref, commands, to or ANY, "git mem: mend")[0] == 0


def back_up(git: Git, ref: str, commit: str) -> bool:
    """Notes the tip of a ref that others moved in its backup, if it is still the tip."""
    return (
        _update(
            git,
            ref,
            f"verify {ref} {commit}\nupdate {config.backup_of(ref)} {commit}\n",
            commit,
            "",
        )[0]
        == 0
    )


def _update(git: Git, ref: str, commands: str, new: str, why: str) -> tuple[int, bytes, bytes, int]:
    # "always" would give the backup a reflog, which would keep what is purged; and a bare
    # repository keeps none unless it is told to.
    args = [
        "-c",
        "core.logAllRefUpdates=true",
        "update-ref",
        *(["-m", why] if why else []),
        "--stdin",
    ]
    return run(git, git.common_dir, ref, args, commands.encode(), new)


def drop_broken(common_dir: str, ref: str) -> bool:
    """Removes the file of a ref that holds no id: a power cut leaves it empty or full of zeros, and
    git neither reads nor replaces it then.
    """
    path = os.path.join(common_dir, ref)
    if not broken(path):
        return False
    with writing(common_dir, ref), contextlib.suppress(OSError):
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
        with open(path, "rb") as f:
            word = re.split(rb"[\s\0]", f.read(200), maxsplit=1)[0]
    except OSError:
        return False
    return word != b"ref:" and (
        re.fullmatch(b"[0-9a-f]{40}|[0-9a-f]{64}", word) is None or not word.strip(b"0")
    )


@contextlib.contextmanager
def writing(common_dir: str, ref: str, new: str = "") -> Iterator[Claim]:
    """Notes that a git process of ours is about to move a ref (to the commit `new`, if it is known
    before, or to ANY).
    """
    try:
        fd = (
            os.open(
                _note(common_dir, ref), os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
            )
            if fcntl
            else -1
        )
    except OSError:
        fd = -1
    if fd < 0:
        yield Claim(())
        return
    try:
        claim = Claim((fd,) if _flock(fd, fcntl.LOCK_SH) else ())
        note = f"{time.time():.0f} {new or '-'} {os.urandom(4).hex()}\n".encode()
        with contextlib.suppress(OSError):
            os.write(fd, note)
        yield claim
        if claim.ended and _alone(fd):
            # Where no lock is left, nobody needs the notes of the dead; our own goes in any case.
            with contextlib.suppress(OSError):
                others = (
                    os.pread(fd, 1 << 20, 0).replace(note, b"")
                    if any(map(os.path.lexists, _locks(common_dir, ref)))
                    else b""
                )
                os.ftruncate(fd, 0)
                os.write(fd, others)
    finally:
        os.close(fd)


def _alone(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:
        return False


def met(common_dir: str, err: str) -> str:
    """The lock that stopped git, by its words; "" where something else did."""
    if "cannot lock references" in err:  # of a reftable; git does not say which file
        return _tables(common_dir)
    return err.partition("Unable to create '")[2].partition("'")[0] if "File exists" in err else ""


def patience(lock: str) -> float:
    """Seconds after which a lock that was `met` counts as left behind; 0 for ""."""
    if not lock:
        return 0.0
    shared = os.path.basename(lock) in ("packed-refs.lock", "tables.list.lock")
    return SHARED if shared else STALE


def delete(git: Git, ref: str) -> None:
    """Deletes a ref, whatever it holds; nothing where there is none. Raises GitFailed."""
    begun = time.monotonic()
    # Asked first: git locks the packed refs also to delete what is not there.
    while git.run_status("rev-parse", "-q", "--verify", ref, ok=(0, 1, 128))[1] == 0:
        status, _, err, _ = run(git, git.common_dir, ref, ["update-ref", "-d", ref], new=ANY)
        if status == 0:
            return
        text = err.decode("utf-8", "replace").strip()
        if not waited(git, ref, text, begun):
            lock = met(git.common_dir, text)
            first = (text.splitlines() or ["git said nothing"])[0].removeprefix("error: ")
            why = f"it is locked by '{lock}'" if lock else first
            hint = LEFT if lock else ""
            raise GitFailed(f"cannot delete '{ref}': {why}", hint, status=status, stderr=text)


def waited(git: Git, ref: str, err: str, begun: float) -> bool:
    """Whether to try a call again that met a lock: the lock is removed, or may go after a
    moment."""
    lock = met(git.common_dir, err)
    if lock and recover(git, ref):
        return True
    if time.monotonic() - begun >= patience(lock):
        return False
    time.sleep(0.1)
    return True


def standing(common_dir: str, refs: Iterable[str]) -> list[str]:
    """Locks that stop writers of these refs and have stood for longer than git ever holds one."""
    locks = dict.fromkeys(path for ref in refs for path in _locks(common_dir, ref))
    return [path for path in locks if os.path.lexists(path) and _still(path, SHARED)]


def recover(git: Git, ref: str) -> bool:
    """Removes the locks that a dead writer of ours left on a ref and on the packed refs; False
    where there is none, or where they may be somebody else's.
    """
    if not fcntl:
        return False
    try:
        fd = os.open(_note(git.common_dir, ref), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return False
    try:
        # Exclusive: from here on no writer of ours is alive, and none begins.
        if not _flock(fd, fcntl.LOCK_EX) or not _remove(
            git, ref, os.read(fd, 1 << 20).decode("ascii", "replace")
        ):
            return False
        os.ftruncate(fd, 0)
        return True
    except OSError:
        return False
    finally:
        os.close(fd)


def _remove(git: Git, ref: str, notes: str) -> bool:
    """Removes the locks of the ref, of its reflog and of the packed refs, where they are a dead
    writer's; whether one was there.
    """
    began = [
        float(row.split(" ")[0])
        for row in notes.splitlines()
        if re.fullmatch(r"[0-9]+ ([0-9a-f]+|-|any) [0-9a-f]+", row)
    ]
    oldest = min(began, default=float("inf"))
    tables = _tables(git.common_dir)
    if tables:
        return _remove_one(git, tables, notes, oldest, True, SHARED)
    lock, backup, log, packed, new = _files(git.common_dir, ref)
    gone = sum(
        _remove_one(git, one, notes, oldest, one == log, STALE) for one in (lock, backup, log)
    )
    if _still(new, SHARED):  # else somebody writes it, and holds the lock
        gone += _remove_one(git, packed, notes, oldest, True, SHARED) + _remove_new(packed, new)
    return gone > 0


def _still(path: str, seconds: float) -> bool:
    """Whether a file is not there, or has not changed for so long."""
    try:
        return time.time() - os.lstat(path).st_mtime >= seconds
    except FileNotFoundError:
        return True


def _remove_new(packed: str, new: str) -> bool:
    """Removes what is left of a `packed-refs` that was never finished, holding the lock under which
    alone git writes it.
    """
    if not os.path.lexists(new):
        return False
    try:
        os.close(os.open(packed, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except FileExistsError:
        return False
    try:
        os.unlink(new)
    finally:
        os.unlink(packed)
    return True


def _remove_one(
    git: Git, lock: str, notes: str, began: float, any_content: bool, seconds: float
) -> bool:
    try:
        found = os.lstat(lock)
    except FileNotFoundError:
        return False
    after_note, before_boot = found.st_mtime > began - _SLACK, found.st_mtime < _boot() - _SLACK
    if (
        not stat.S_ISREG(found.st_mode)
        or time.time() - found.st_mtime < seconds
        or not (after_note or before_boot)
    ):
        return False
    if not any_content:  # that of a reflog holds whatever is kept of it
        with open(lock, "rb") as f:
            content = f.read(200).decode("ascii", "replace").strip("\0\n")  # zeros: a power cut
        if content and not _ours(git, content, notes):
            return False
    # Aside first: should another process have put its own lock there in this moment, it goes back.
    aside = os.path.join(git.common_dir, "mem-stale.lock")
    os.rename(lock, aside)
    if os.lstat(aside).st_ino != found.st_ino:
        with contextlib.suppress(FileExistsError):
            os.link(aside, lock)
        os.unlink(aside)
        return False
    os.unlink(aside)
    return True


def _boot() -> float:
    """When this machine started; 0 where it does not tell."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.time() - time.clock_gettime(clock) if clock is not None else 0.0


def _ours(git: Git, content: str, notes: str) -> bool:
    """Whether a lock's content is what a writer of ours would put there: the commit it noted or
    made; also half of its id.

    A commit that is not here was one of a dead writer, pruned since: a living one has its objects.
    """
    if len(content) < 40:
        return re.fullmatch("[0-9a-f]+", content) is not None
    if f" {content} " in notes or f" {ANY} " in notes:
        return True
    found = git.objects.get(content)
    return found is None or (
        found[1] == "commit" and found[2].partition(b"\n\n")[2].startswith(b"git mem: ")
    )


def sync_names(common_dir: str, ref: str) -> None:
    """Makes the name that git just gave a ref durable: git syncs what is in the file, not the
    directory that names it.

    With reftable that directory is another one. Where a directory cannot be synced (Windows, some
    network disks) nothing happens."""
    for directory in (
        os.path.join(common_dir, os.path.dirname(ref)),
        os.path.join(common_dir, "reftable"),
    ):
        try:
            fd = os.open(directory, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
        except OSError:
            continue
        with contextlib.suppress(OSError):
            os.fsync(fd)
        os.close(fd)
