"""Finds this package's own modules without the detours of Python's finder.

An agent waits while a hook loads 60 modules. For each of them Python's own finder asks for the time
of its directory and goes through four objects; this one reads the same compiled file, by the same
test of its validity. Whatever is unusual (not compiled yet, compiled otherwise, changed since, in
an archive) is left to Python's own.
"""

import os
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import MAGIC_NUMBER
from marshal import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

_PLAIN = MAGIC_NUMBER + bytes(4)  # held valid by time and size of the source: PEP 552
_HEADER = 16  # bytes: those eight, then time and size, 32 bits each, little-endian
_LONGEST = 1 << 24  # bytes of a compiled file


class Finder:
    """Finder and loader of `importlib`'s protocols for `gitmem.…`."""

    def find_spec(
        self, name: str, path: "Sequence[str] | None" = None, target: object = None
    ) -> "ModuleSpec | None":
        if not path or not name.startswith("gitmem."):
            return None
        at = os.path.join(path[0], name.rpartition(".")[2])
        return self._spec(name, at + ".py") or self._spec(name, at + "/__init__.py")

    def _spec(self, name: str, source: str) -> "ModuleSpec | None":
        """None unless the source has a valid compiled file."""
        folder, _, file = source.rpartition("/")
        try:
            stat = os.stat(source)
            cached = f"{folder}/__pycache__/{file[:-3]}.{sys.implementation.cache_tag}.pyc"
            fd = os.open(cached, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            data = os.read(fd, _LONGEST)
        finally:
            os.close(fd)
        seen = (int(stat.st_mtime) & 0xFFFFFFFF) | (stat.st_size & 0xFFFFFFFF) << 32
        if data[:_HEADER] != _PLAIN + seen.to_bytes(8, "little"):
            return None
        package = file == "__init__.py"
        spec = ModuleSpec(name, self, origin=source, loader_state=data, is_package=package)  # type: ignore[arg-type]
        if package:
            spec.submodule_search_locations = [folder]
        spec.cached = cached
        spec.has_location = True
        return spec

    def create_module(self, spec: "ModuleSpec") -> "ModuleType | None":
        return None  # the usual one

    def exec_module(self, module: "ModuleType") -> None:
        spec = module.__spec__
        assert spec is not None  # `_spec` made it
        data, spec.loader_state = spec.loader_state, None
        exec(loads(memoryview(data)[_HEADER:]), module.__dict__)


def install() -> None:
    """Asks `Finder` before Python's own finders. Not where Python is told to compile otherwise."""
    if hasattr(os, "O_CLOEXEC") and not sys.flags.optimize and not sys.pycache_prefix:
        sys.meta_path.insert(0, Finder())
