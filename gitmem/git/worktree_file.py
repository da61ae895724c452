"""Reads files of the working tree: whoever can open a pull request may have written them.

Promise: what is read is a regular file of bounded size, whose real place is below the real top of
the working tree, in no `.git`. A link is not followed, a pipe or a device is not waited for.
Directories above it may be links that stay inside.
"""

from __future__ import annotations

import os

from ..core.errors import MemError
from .memfile import SAFE

_KIND, _REGULAR = 0o170000, 0o100000


def inside(top: str, path: str) -> bool:
    """Whether a path leads, links followed, to a place in the working tree and not into its
    `.git`."""
    if not top:
        return False
    inner = os.path.relpath(os.path.realpath(path), os.path.realpath(top)).split(os.sep)
    return inner[0] != ".." and not any(part.lower() == ".git" for part in inner)


def read(top: str, name: str, most: int, *, cut: bool = False) -> bytes | None:
    """What a file holds, None for nothing of that name. Raises MemError for anything but a regular
    file inside, and for one of more than `most` bytes; `cut`: of such a file these come.
    """
    path = os.path.join(top, name)
    try:
        if not inside(top, os.path.dirname(path)):
            raise MemError(f"'{name}' leads out of the working tree")
        fd = os.open(path, os.O_RDONLY | SAFE)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as e:
        what = "is a link" if os.path.islink(path) else f"cannot be read: {e}"
        raise MemError(f"'{name}' {what}") from e
    try:
        if os.fstat(fd).st_mode & _KIND != _REGULAR:
            raise MemError(f"'{name}' is no regular file")
        with open(fd, "rb", closefd=False) as f:
            content = f.read(most + 1)
    except OSError as e:
        raise MemError(f"'{name}' cannot be read: {e.strerror}") from e
    finally:
        os.close(fd)
    if len(content) > most and not cut:
        raise MemError(f"'{name}' has more than {most} bytes")
    return content[:most]
