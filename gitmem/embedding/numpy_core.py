"""numpy's compiled core, without the Python that lies around it.

A process that imports numpy takes as long as 4.5 that import sqlite3, one that loads the compiled
core alone as long as 1.5, and that has arrays, arithmetic and matrix products.

Promises:

* `load()` returns the core, or all of numpy where the core does not come alone.
* `import numpy` works as ever afterwards: the packages `numpy` and `numpy._core` run their own code
  as soon as anything is asked of them. (That first time belongs to one thread.)
* One BLAS thread, unless the environment says otherwise.
* Whatever is wrong with numpy is one `ImportError`: it is not installed, older than 2.0,
  broken, or has no memory to multiply in (there OpenBLAS would end the process).

Of the core's names only those may be used that need no Python: types as `dtype("f4")` and not
"float32", `add.reduce` and not `sum`. Others bring in all of numpy; a test counts the modules.
"""

from __future__ import annotations

import mmap
import os
import sys
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Two BLAS threads on a busy machine took 700 ms for what one does in 31. numpy reads the setting
# while it is loaded; then it is put back, for child processes.
_THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
# OpenBLAS maps some 100 MB, 32 of it at the first product, and calls exit(1) where it gets none.
ROOM = 128 << 20


class OneThread:
    """Within it, numpy loads with one BLAS thread."""

    def __enter__(self) -> None:
        self._unset = [name for name in _THREADS if name not in os.environ]
        os.environ.update({name: _THREADS[name] for name in self._unset})

    def __exit__(self, *_: object) -> None:
        for name in self._unset:
            os.environ.pop(name, None)


class _Package(ModuleType):
    """A package whose own code runs when the first name is asked of it that it lacks."""

    def __getattr__(self, name: str) -> Any:
        _complete(sys.modules["numpy"])  # first: its core's own code asks for names of it
        _complete(self)
        return getattr(self, name)


def _complete(package: ModuleType) -> None:
    if type(package) is _Package:
        package.__class__ = ModuleType  # type: ignore[assignment]
        spec = package.__spec__
        assert spec and spec.loader
        with OneThread():
            spec.loader.exec_module(package)


def alone() -> None:
    """Stand-ins for three modules of which the core wants a name each, 5 ms sooner than they are
    loaded. For a process that will load nothing else: `import numpy` does not work afterwards.
    """
    import _datetime  # type: ignore[import-not-found]

    enum = ModuleType("enum")
    enum.Enum = object  # type: ignore[attr-defined]
    own = {"enum": enum, "functools": ModuleType("functools"), "datetime": _datetime}
    _stand_ins.update({name: m for name, m in own.items() if name not in sys.modules})
    sys.modules.update(_stand_ins)


_stand_ins: dict[str, ModuleType] = {}


def load() -> Any:
    """The core, or numpy. Raises `ImportError` where neither can be used."""
    try:
        if "numpy._core._multiarray_umath" not in sys.modules:
            mmap.mmap(-1, ROOM).close()
        core = _loaded()
        if not hasattr(core, "vecdot"):
            raise ImportError("numpy is older than 2.0")
    except ImportError:
        raise
    except Exception as error:  # a broken installation fails anyhow
        raise ImportError(f"cannot use numpy: {error}") from error
    return core


def _loaded() -> Any:
    if "numpy" not in sys.modules:
        _prepare()
    with OneThread():
        try:
            import numpy._core._multiarray_umath as core  # type: ignore[import-not-found]

            return core
        except Exception:  # another numpy, whose core wants more
            for name in _stand_ins:
                del sys.modules[name]
            _stand_ins.clear()
            import numpy

            _complete(numpy)
            return numpy


def _prepare() -> None:
    from importlib.machinery import PathFinder

    numpy = None
    path = None
    for name in ("numpy", "numpy._core"):
        spec = PathFinder.find_spec(name, path)
        if spec is None:
            return
        package = _Package(name)
        package.__spec__, package.__loader__ = spec, spec.loader
        package.__file__, package.__package__ = spec.origin, name
        path = package.__path__ = spec.submodule_search_locations or []
        sys.modules[name] = package
        if numpy:
            numpy._core = package  # type: ignore[attr-defined]
        numpy = package
