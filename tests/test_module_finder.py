"""The finder of our own modules: what Python's own finder would have loaded, or nothing."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import py_compile
import subprocess
import sys

import pytest
from test_architecture import PACKAGE

from gitmem import module_finder
from gitmem.engine import cache, embed, encoding

pytestmark = pytest.mark.quick
FINDER = module_finder.Finder()


@pytest.fixture
def package(tmp_path: pathlib.Path) -> pathlib.Path:
    """`gitmem.some` with a module `one`, both compiled."""
    path = tmp_path / "some"
    path.mkdir()
    for name, text in (("__init__", "HERE = 1\n"), ("one", "VALUE = 'first'\n")):
        (path / f"{name}.py").write_text(text)
        py_compile.compile(str(path / f"{name}.py"))
    return path


def value(package: pathlib.Path) -> str | None:
    """VALUE of the module `one`, None where the finder leaves it to Python's."""
    spec = FINDER.find_spec("gitmem.some.one", [str(package)])
    if spec is None:
        return None
    module = importlib.util.module_from_spec(spec)
    FINDER.exec_module(module)
    assert isinstance(module.VALUE, str)
    return module.VALUE


def test_a_compiled_module_is_found_with_the_names_that_pythons_own_finder_gives() -> None:
    own = importlib.util.find_spec("gitmem.core.record")
    assert own and own.origin
    py_compile.compile(own.origin)
    found = FINDER.find_spec("gitmem.core.record", [str(PACKAGE / "core")])
    assert found
    names = ("name", "origin", "cached", "parent", "has_location", "submodule_search_locations")
    assert [getattr(found, n) for n in names] == [getattr(own, n) for n in names]


def test_a_package_has_its_directory(package: pathlib.Path) -> None:
    spec = FINDER.find_spec("gitmem.some", [str(package.parent)])
    assert spec and spec.submodule_search_locations == [str(package)]
    assert spec.parent == "gitmem.some"


def test_a_module_that_was_changed_or_not_compiled_is_left_to_python(package: pathlib.Path) -> None:
    source = package / "one.py"
    assert value(package) == "first"
    at = source.stat()
    source.write_text("VALUE = 'longer'\n")
    os.utime(source, ns=(at.st_atime_ns, at.st_mtime_ns))
    assert value(package) is None, "of another size"
    source.write_text("VALUE = 'other'\n")
    os.utime(source, (at.st_atime, at.st_mtime + 2))
    assert value(package) is None, "of another time"
    py_compile.compile(str(source))
    assert value(package) == "other"
    compiled = pathlib.Path(importlib.util.cache_from_source(str(source)))
    whole = compiled.read_bytes()
    for broken in (b"", whole[:10], b"\0\0\0\0" + whole[4:]):
        compiled.write_bytes(broken)
        assert value(package) is None
    compiled.unlink()
    assert value(package) is None


def test_a_file_that_is_checked_by_its_hash_is_left_to_python(package: pathlib.Path) -> None:
    mode = py_compile.PycInvalidationMode.CHECKED_HASH
    py_compile.compile(str(package / "one.py"), invalidation_mode=mode)
    assert value(package) is None


def test_it_is_asked_before_pythons_own_finders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    module_finder.install()
    assert isinstance(sys.meta_path[0], module_finder.Finder)
    monkeypatch.setattr(sys, "meta_path", sys.meta_path[1:])
    monkeypatch.setattr(sys, "pycache_prefix", "/elsewhere")
    module_finder.install()
    assert not isinstance(sys.meta_path[0], module_finder.Finder)


@pytest.mark.parametrize("name", ["json", "gitmem", "gitmemory.one", "other.gitmem.one"])
def test_other_packages_are_left_to_python(package: pathlib.Path, name: str) -> None:
    assert FINDER.find_spec(name, [str(package)]) is None
    assert FINDER.find_spec("gitmem.some.one", None) is None


def test_the_driver_of_sqlite_loads_neither_functools_nor_datetime() -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r}); known = set(sys.modules)\n"
        "from gitmem.engine.sql import sqlite3\n"
        "assert not {'functools', 'collections', 'datetime'} & (set(sys.modules) - known)\n"
        "db = sqlite3.connect(':memory:')\n"
        "for _ in range(300): assert db.execute('SELECT ?', (1,)).fetchone() == (1,)\n"
        "import functools\n"
        "assert functools.lru_cache(len).cache_info().currsize == 0\n"
    )
    run = [sys.executable, "-S", "-c", program]
    done = subprocess.run(run, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_spaces_that_hooks_know_are_those_of_the_packaged_files() -> None:
    assert (embed.StaticTable().space, encoding.space()[0]) == (cache.SPACE, cache.ENCODED)
