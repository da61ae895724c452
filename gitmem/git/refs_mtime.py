"""Whether a branch, a tag or a remote's branch moved, told without reading one.

Git renames a file into its place for each ref it writes, so the time of that directory moves, of
`packed-refs` and of a reftable their own. Whoever reads refs notes these times before (`stamp`);
whoever answers compares them (`same`): one `stat` for each directory, 20 to 40 µs in all.

Promise: what git wrote after `stamp` is seen, on file systems whose times are finer than 20 ms. A
difference may mean nothing, as after `git pack-refs`. Imports only what every prompt may load.
"""

from __future__ import annotations

import os
import time

_FILES = ("packed-refs", "reftable/tables.list")
_ROOTS = ("refs/heads", "refs/remotes", "refs/tags", "refs/replace")
MOST = 1_000  # directories; beside more of them those of the first ones are looked at
_TICK = 20_000_000  # nanoseconds in which a second change may leave the same time


def stamp(common_dir: str, wait: bool = True) -> str:
    """The times of everything that holds refs; taken before they are read.

    Right after a change it waits for 20 ms; without `wait` it is "" then.
    """
    names = list(_FILES)
    for root in _ROOTS:
        names.append(root)
        for at, below, _ in os.walk(os.path.join(common_dir, root)):
            names += [os.path.relpath(os.path.join(at, name), common_dir) for name in below]
            if len(names) > MOST:
                break
    names = sorted(name.replace(os.sep, "/") for name in names if "\n" not in name)
    times = [_time(common_dir, name) for name in names]
    now = time.time_ns()
    if any(abs(now - at) < _TICK for at in times):
        if not wait:
            return ""
        time.sleep(_TICK / 1e9)
        times = [_time(common_dir, name) for name in names]
    return "\n".join(f"{at} {name}" for at, name in zip(times, names, strict=True))


def same(common_dir: str, stamp: str) -> bool:
    """Whether nothing was written since; False for an empty stamp."""
    rows = [row.partition(" ") for row in stamp.split("\n")]
    return bool(stamp) and all(str(_time(common_dir, name)) == at for at, _, name in rows)


def log_size(common_dir: str, ref: str) -> str:
    """Says whether a ref moved, also away and back: the bytes of its reflog, "" where none is kept.

    With reftable the name of the newest table, which changes with every ref.
    """
    try:
        return str(os.stat(os.path.join(common_dir, "logs", ref)).st_size)
    except OSError:
        pass
    try:
        with open(os.path.join(common_dir, "reftable", "tables.list"), "rb") as f:
            return f.read().decode("ascii", "replace").rstrip("\n").rpartition("\n")[2]
    except OSError:
        return ""


def _time(common_dir: str, name: str) -> int:
    try:
        return os.stat(os.path.join(common_dir, name)).st_mtime_ns
    except OSError:
        return 0
