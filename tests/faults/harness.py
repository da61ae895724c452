"""Runs a command under `shim.c`: counts its file-changing calls, kills it at one of them, fills its
disk, takes its power.

A `Bench` owns a repository that is copied for each run, so runs may go side by
side. `Bench.run` waits until every process of the run is gone. `cut` turns what a
killed run left into what a power cut at that call may leave; it says there what is modelled.
"""

from __future__ import annotations

import fcntl
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from conftest import Lab

ALL = os.environ.get("GIT_MEM_FAULTS") == "all"
SEED = int(os.environ.get("GIT_MEM_FAULTS_SEED", "1"))
MEM = (sys.executable, "-m", "gitmem")
SOURCE = pathlib.Path(__file__).with_name("shim.c")


class Unavailable(Exception):
    """Why no library can be preloaded here."""


def build(where: pathlib.Path) -> pathlib.Path:
    """Compiles the shim; raises Unavailable with the reason."""
    if not sys.platform.startswith("linux"):
        raise Unavailable("LD_PRELOAD and /proc are Linux")
    compiler = next(
        (c for c in (os.environ.get("CC", ""), "cc", "gcc", "clang") if c and shutil.which(c)), ""
    )
    if not compiler:
        raise Unavailable("no C compiler")
    library = where / "shim.so"
    done = subprocess.run(
        [compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Unavailable(f"the C compiler fails: {done.stderr[:200]}")
    probe = subprocess.run(
        ["git", "version"],
        env={**os.environ, "LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        check=False,
    )
    if probe.returncode or "LD_PRELOAD" in probe.stderr:
        raise Unavailable(f"the library cannot be preloaded: {probe.stderr[:200]}")
    return library


class Event(NamedTuple):
    """One call that succeeded.

    `more`: of `open` "new" or "cut" (emptied), of `rename` and `link` the new name.
    """

    number: int
    pid: int
    call: str
    path: str
    more: str


class Run:
    """One run: its exit status, what the user had been told (`answer`, `error`), and the calls it
    made.
    """

    def __init__(
        self,
        root: pathlib.Path,
        status: int,
        answer: str,
        error: str,
        calls: int,
        processes: int,
        events: list[Event],
    ) -> None:
        self.root = root
        self.repo = root / "repo"
        self.status = status
        self.answer = answer
        self.error = error
        self.calls = calls
        self.processes = processes
        self.events = events


class Bench:
    """A repository under `root`/template/repo (`like` that of another bench) and the shim; each run
    works on a copy of it.
    """

    def __init__(self, lab: Lab, library: pathlib.Path, like: Bench | None = None) -> None:
        self.lab = lab
        self.library = library
        self.root = pathlib.Path(os.path.realpath(lab.root)) / "bench"
        self.template = self.root / "template" / "repo"
        self.root.mkdir()
        if like:
            shutil.copytree(like.root / "template", self.root / "template", symlinks=True)
        else:
            (self.root / "template").mkdir()
            lab.repo("bench/template/repo")
            shutil.rmtree(self.template / ".git" / "hooks")
        self._made = 0

    def copy(self) -> pathlib.Path:
        self._made += 1
        root = self.root / f"run{self._made}"
        shutil.copytree(self.root / "template", root, symlinks=True)
        return root

    def run(
        self,
        argv: Iterable[str],
        at: int = 0,
        mode: str = "kill",
        *,
        once: bool = False,
        clock: int = 0,
        stdin: str = "",
        root: pathlib.Path | None = None,
        env: dict[str, str] | None = None,
    ) -> Run:
        """Runs a command in a fresh copy (or in `root`), which fails at call `at`.

        The answer is a file, so that giving it counts as a call.
        """
        root = root or self.copy()
        state, answer, log = root / "state", root / "answer", root / "log"
        state.write_bytes(bytes(64))
        log.write_bytes(b"")
        (root / "keep").mkdir(exist_ok=True)
        faults = {
            "LD_PRELOAD": str(self.library),
            "FAULT_STATE": str(state),
            "FAULT_ROOT": str(root / "repo"),
            "FAULT_SPARE": str(answer),
            "FAULT_LOG": str(log),
            "FAULT_KEEP": str(root / "keep"),
            "FAULT_AT": str(at),
            "FAULT_MODE": mode,
            "FAULT_CLOCK": str(clock),
            **({"FAULT_ONCE": "1"} if once else {}),
            **(env or {}),
        }
        with open(answer, "w") as out:
            process = subprocess.Popen(
                list(argv),
                cwd=root / "repo",
                env={**self.lab.env, **faults},
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            _, error = process.communicate(stdin, timeout=120)
        with open(state, "rb") as f:
            fcntl.flock(f, fcntl.LOCK_EX)  # its processes keep it shared: now the last one is gone
            calls, processes = struct.unpack("QQ", f.read(16))
        events = [
            Event(int(n), int(pid), call, path, more)
            for n, pid, call, path, more in (
                row.split("\t") for row in log.read_text().splitlines()
            )
        ]
        return Run(root, process.returncode, answer.read_text(), error, calls, processes, events)

    def each(
        self,
        argv: Iterable[str],
        check: Callable[[Run, int], None],
        *,
        share: int,
        mode: str = "kill",
        **more: Any,
    ) -> int:
        """Runs the command failing at every call (or at a fixed choice of `share` calls), some at a
        time; returns how many runs there were.
        """
        argv = list(argv)
        whole = self.run(argv, 0, mode, **more)
        assert whole.status in (0, 1) and whole.calls > 3 and whole.processes > 1, (
            whole.status,
            whole.error,
        )
        points = choose(whole, share)

        def one(at: int) -> None:
            run = self.run(argv, at, mode, **more)
            try:
                check(run, at)
            except BaseException as e:
                e.add_note(
                    f"{mode} at call {at} of {whole.calls}, after"
                    f" {run.events[-1] if run.events else 'none'}; see {run.root}"
                )
                raise
            shutil.rmtree(run.root)

        with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
            list(pool.map(one, points))
        return len(points)


def choose(whole: Run, share: int) -> list[int]:
    """The calls to fail at: all in the long mode, and one past the last; else a choice by a fixed
    seed, a fourth of it in the cache, whose calls are many and alike.
    """
    every = list(range(1, whole.calls + 2))
    if ALL or len(every) <= share:
        return every
    rng = random.Random(SEED)
    outside = {e.number for e in whole.events if "/.git/mem/" not in e.path}
    cache = [n for n in every if n not in outside]
    most = min(len(outside), share - share // 4)
    return sorted(
        {
            *rng.sample(sorted(outside), most),
            *rng.sample(cache, min(len(cache), share - most)),
            every[-1],
        }
    )


# Power cuts


class _File:
    """What the disk knows of one file (an inode)."""

    def __init__(self, old: bytes | None) -> None:
        self.old = old  # before the run; None: it is new
        self.dirty = False


def cut(  # noqa: C901
    run: Run,
    before: pathlib.Path,
    rng: random.Random,
    *,
    lose: float = 1.0,
    fill: str = "empty",
    undo: bool = False,
) -> list[str]:
    """Leaves of a (killed) run what a power cut may leave; returns the paths that changed.

    The disk keeps the order of names, as the journals of ext4 and XFS do, and a sync of any file or
    directory makes all names before it durable. Contents that were not synced since their last
    write are lost with the chance `lose`: a new file is then `empty` or full of `zeros`, an old one
    as it was before the run, or with its new bytes as zeros. `undo`: names that no sync has made
    durable are as they were, back to a random one of them."""
    files: dict[str, _File] = {}

    def file(path: str) -> _File:
        if path not in files:
            old = before / pathlib.Path(path).relative_to(run.root)
            files[path] = _File(old.read_bytes() if old.is_file() else None)
        return files[path]

    names: list[Event] = []
    for e in run.events:
        if e.call in ("write", "cut") or (e.call == "open" and e.more):
            file(e.path).dirty = True
        if e.call == "sync":
            names.clear()
            if e.path in files:
                files[e.path].dirty = False
        elif e.call in ("rename", "link"):
            names.append(e)
            files[e.more] = file(e.path)
            if e.call == "rename":
                del files[e.path]
        elif e.call in ("unlink", "mkdir", "rmdir") or (e.call == "open" and e.more == "new"):
            names.append(e)
            files.pop(e.path, None) if e.call == "unlink" else None
    changed = []
    for path, f in sorted(files.items()):
        here = pathlib.Path(path)
        if (
            not f.dirty
            or path == str(run.root / "answer")
            or not here.is_file()
            or rng.random() >= lose
        ):
            continue
        size = here.stat().st_size
        if f.old is None:
            content = b"" if fill == "empty" else bytes(size)
        else:
            content = f.old if fill == "empty" else f.old[:size] + bytes(max(0, size - len(f.old)))
        mode = here.stat().st_mode
        here.chmod(0o600)
        # In place: another name of the same file has lost its content too.
        here.write_bytes(content)
        here.chmod(mode)
        changed.append(path)
    if undo and names:
        for e in reversed(names[rng.randrange(len(names)) :]):
            changed.append(_undo(e, run.root / "keep" / str(e.number)))
    return changed


def _undo(e: Event, kept: pathlib.Path) -> str:
    """Takes back one change of a name. `kept`: the file that it took the name from."""
    new = pathlib.Path(e.more if e.call in ("rename", "link") else e.path)
    if e.call == "mkdir":
        if new.is_dir() and not any(new.iterdir()):
            new.rmdir()
    elif e.call == "rename" and new.is_file():
        os.replace(new, e.path)
    elif e.call in ("link", "open"):
        new.unlink(missing_ok=True)
    if kept.exists() and not new.exists():
        os.link(kept, new)
    return f"{e.call} {new}"
