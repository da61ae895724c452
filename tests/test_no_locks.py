"""A file system that keeps no POSIX locks: answers come from memory, without waiting for
anybody."""

from __future__ import annotations

import errno
import json
import pathlib
import shutil
import subprocess

import pytest
from conftest import Lab

from gitmem.engine import cache_lock

SHIM = """#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#define SHIM(name) int name(int fd, int cmd, ...) { \\
    va_list a; va_start(a, cmd); void *p = va_arg(a, void *); va_end(a); \\
    if (cmd == F_SETLK || cmd == F_SETLKW || cmd == F_GETLK) { errno = ENOLCK; return -1; } \\
    int (*real)(int, int, ...) = dlsym(RTLD_NEXT, #name); return real(fd, cmd, p); }
SHIM(fcntl)
SHIM(fcntl64)
"""


@pytest.fixture
def shim(lab: Lab) -> str:
    if not shutil.which("cc"):
        pytest.skip("no C compiler here")
    source, made = lab.root / "nolock.c", lab.root / "nolock.so"
    source.write_text(SHIM)
    if subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", str(made), str(source), "-ldl"], capture_output=True
    ).returncode:
        pytest.skip("cc makes no preloaded library here")
    return str(made)


@pytest.mark.parametrize("kept", [True, False])
def test_commands_answer_without_waiting_for_a_lock(lab: Lab, shim: str, kept: bool) -> None:
    """`kept`: with a cache from a time when there were locks.

    SQLite's own wait is over after 5 s, six times.
    """
    repo = lab.repo()
    lab.mem(repo, "remember", "invoices are kept in cents")
    lab.mem(repo, "list")
    if not kept:
        shutil.rmtree(repo / ".git" / "mem")
    waits = f"{lab.root}/slept"
    count = "import sqlite3, sys\nfrom gitmem.engine import cache\nreal = cache.connect\n"
    count += (
        f"def connect(name):\n    open({waits!r}, 'a').write(name + chr(10))\n    return"
        " real(name)\n"
    )
    count += "cache.connect = connect\nfrom gitmem.cli import run\nsys.exit(run(sys.argv[1:]))"
    for words in (
        ["recall", "invoices in cents", "--json"],
        ["remember", "amounts are integers", "--json"],
    ):
        done = lab.run(repo, "python", "-c", count, *words, env={"LD_PRELOAD": shim})
        assert (
            done.returncode == 0 and json.loads(done.stdout) and "Traceback" not in done.stderr
        ), done.stderr
    assert set(pathlib.Path(waits).read_text().split("\n")) == {
        ":memory:",
        "",
    }  # nobody opened a file that nobody can lock
    assert len(lab.lines(repo)) == 2


def test_a_lock_that_another_holds_is_no_file_system_without_locks(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    assert cache_lock.lockable(str(tmp_path))
    for error, said in (
        (errno.EAGAIN, True),
        (errno.EACCES, True),
        (errno.ENOLCK, False),
        (errno.ENOSYS, False),
    ):

        def refuse(*_: object, error: int = error) -> None:
            raise OSError(error, "refused")

        monkeypatch.setattr(fcntl, "lockf", refuse)
        assert cache_lock.lockable(str(tmp_path)) is said
