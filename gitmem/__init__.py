"""git mem: memory for coding agents, kept in git notes.

For Python programs: `gitmem.open()`; `gitmem.library` says what it gives.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os

    from .library import Memories

__version__ = "0.1.0"


def open(path: "str | os.PathLike[str]" = ".") -> "Memories":
    """The memories of the repository around `path`. Raises `gitmem.core.errors.NotARepository`."""
    from .library import Memories  # hooks import this package, and wait for each module

    return Memories(path)
