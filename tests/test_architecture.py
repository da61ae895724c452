"""The import graph is architecture: rooms use each other one way, each heavy library has one home,
hot paths load none.
"""

from __future__ import annotations

import ast
import functools
import pathlib
import subprocess
import sys

import pytest
from conftest import clean_env

import gitmem

PACKAGE = pathlib.Path(gitmem.__file__).parent

# From the core up to the doors: rooms, and modules beside them. What is in one imports from it and
# from those before it, so no two import each other; imports inside of functions count, and those
# for types.
ORDER = [
    "core",
    "git",
    "notes",
    "embedding",
    "engine",
    "signing",
    "models",
    "store",
    "hooks",
    "opening",
    "anchors",
    "feedback",
    "memory",
    "migration",
    "capture",
    "timeline",
    "agents",
    "bench",
    "erasure",
    "setup",
    "sync",
    "private_sync",
    "worker",
    "prefork_server",
    "doctor",
    "library",
    "organisation",
    "render",
    "completion",
    "mcp_server",
    "ui",
    "cli",
    "__main__",
]
HOMES = {
    "numpy": {"vectors", "numpy_core"},
    "pygit2": set(),
    "typer": {"cli"},
    "rich": set(),
    "llama_cpp": {"llama"},
    "mcp": {"mcp_server"},
    "networkx": {"graph"},
    "psycopg": {"postgres"},
    "sklearn": {"calibrate"},
    "subprocess": {"ahead", "gitcmd", "keys", "llamaproc", "patch_id", "remote", "cli"},
    "sqlite3": {
        "cache",
        "cache_db",
        "error_kinds",
        "cache_lock",
        "claude_mem",
        "sql",
        "store",
        "tables",
        "setup_checks",
        "memory_checks",
    },
}
HEAVY = {"numpy", "pygit2", "typer", "rich", "llama_cpp", "mcp", "sklearn", "scipy", "networkx"}
HEAVY |= {"psycopg"}

# What a prompt waits for: standard library only, and none of its slow parts.
HOT = [
    "complete",
    "ahead",
    "announce",
    "reinstated",
    "contradictions",
    "automemory",
    "fallback",
    "context_item",
    "context_render",
    "context_select",
    "cache",
    "cache_db",
    "call",
    "context",
    "document",
    "embed",
    "encoder_file",
    "events",
    "keep_request",
    "head_facts",
    "failures",
    "fastjson",
    "error_kinds",
    "filters",
    "fold",
    "cache_lock",
    "discover",
    "ref_files",
    "refs_mtime",
    "config_cache",
    "sanitize",
    "prefork",
    "priors",
    "rank",
    "hook_cache",
    "record",
    "hamming",
    "search",
    "session",
    "unfetched",
    "confidence",
    "usage",
    "usage_store",
    "spool",
    "anchor_state_store",
    "memory_rows",
    "text",
    "trust",
    "sources",
    "strip",
    "toolcalls",
    "wordpiece",
]
SLOW = HEAVY | {
    "dataclasses",
    "typing",
    "inspect",
    "subprocess",
    "hashlib",
    "pathlib",
    "asyncio",
    "logging",
    "tempfile",
    "re",
    "enum",
    "json",
    "datetime",
    "contextlib",
    "copy",
    "random",
}


def name_of(path: pathlib.Path) -> str:
    """The full name of a module: `gitmem.engine.cache`."""
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)


def room_of(name: str) -> str:
    """The room of a full name, or the module that stands beside the rooms; "" for the package
    itself.
    """
    return [*name.split("."), ""][1].replace("__init__", "")


def imports(source: str, name: str = "gitmem.x") -> set[str]:
    """Full names of what the module `name` imports, also inside functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = name.split(".")[: -node.level] if node.level else []
            found.update(
                ".".join([*base, *filter(None, [node.module]), alias.name]) for alias in node.names
            )
    return found


@functools.cache
def graph() -> dict[str, set[str]]:
    return {
        name_of(path): imports(path.read_text(encoding="utf-8"), name_of(path))
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def upward(found: dict[str, set[str]]) -> list[str]:
    """Imports from a room that comes later."""
    return [
        f"{module} imports {name}"
        for module, names in found.items()
        for name in sorted(names)
        if name.startswith("gitmem.")
        and room_of(name) in ORDER
        and room_of(module) in ORDER
        and ORDER.index(room_of(name)) > ORDER.index(room_of(module))
    ]


def test_rooms_use_each_other_one_way() -> None:
    assert {room_of(name) for name in graph()} - {""} == set(ORDER)
    assert upward(graph()) == []


def circles(found: dict[str, set[str]]) -> set[tuple[str, str]]:
    """Pairs of modules that import each other."""

    def module(name: str) -> str:
        while name and name not in found:
            name = name.rpartition(".")[0]
        return name

    edges = {(a, module(name)) for a, names in found.items() for name in names}
    return {(a, b) for a, b in edges if a < b and (b, a) in edges and a != "gitmem"}


# The list may only become shorter.
STILL_CIRCLES = {
    ("gitmem.git.gitcmd", "gitmem.git.object_reader"),  # for a type
}


def test_no_two_modules_import_each_other() -> None:
    assert circles(graph()) == STILL_CIRCLES


def test_the_page_names_the_rooms_in_their_order() -> None:
    page = (pathlib.Path(__file__).parent.parent / "docs" / "architecture.md").read_text(
        encoding="utf-8"
    )
    told = [row.split("`")[1].rstrip("/") for row in page.split("\n") if row.startswith("| `")]
    assert told[: len(ORDER)] == ORDER[::-1]


def strangers(found: dict[str, set[str]]) -> list[str]:
    """Imports of heavy libraries outside of their homes. All of `cli` is one home."""

    def home(module: str) -> str:
        return "cli" if room_of(module) == "cli" else module.split(".")[-1]

    return [
        f"{module} imports {name}"
        for module, names in found.items()
        for name in sorted(names)
        if home(module) not in HOMES.get(name.split(".")[0], {home(module)})
    ]


def test_each_heavy_library_has_one_home() -> None:
    assert strangers(graph()) == []


def test_the_probes_can_fail() -> None:
    assert upward({"gitmem.core.record": {"gitmem.store.open_store"}}) == [
        "gitmem.core.record imports gitmem.store.open_store"
    ]
    assert circles({"gitmem.a": {"gitmem.b.x"}, "gitmem.b": {"gitmem.a"}}) == {
        ("gitmem.a", "gitmem.b")
    }
    assert strangers({"gitmem.memory.recall": {"numpy.linalg"}}) == [
        "gitmem.memory.recall imports numpy.linalg"
    ]
    assert imports(
        "def f():\n    import numpy.linalg\n    from .cache import Cache\n    from . import"
        " tables\n    from ..core import rank\n    from .. import sync\n    from re import sub",
        "gitmem.engine.x",
    ) == {
        "numpy.linalg",
        "gitmem.engine.cache.Cache",
        "gitmem.engine.tables",
        "gitmem.core.rank",
        "gitmem.sync",
        "re.sub",
    }


def loaded(code: str) -> set[str]:
    """Top names of the modules a fresh isolated interpreter has after `code`."""
    probe = (
        "import sys; before = set(sys.modules); sys.path.insert(0,"
        f" {str(PACKAGE.parent)!r})\n{code}\nprint(*sorted({{m.split('.')[0] for m in"
        " set(sys.modules) - before}))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", probe], capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


def place(module: str) -> str:
    """The full name of a module."""
    return name_of(next(PACKAGE.rglob(f"{module}.py")))


def lacking(source: str) -> list[str]:
    """The imports from the package in a file that fail."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gitmem"):
            try:
                exec(ast.unparse(node), {})
            except ImportError as e:
                found.append(str(e))
    return found


def test_tools_and_benchmarks_import_what_is_there() -> None:
    root = pathlib.Path(__file__).parent.parent
    files = [*(root / "tools").glob("*.py"), *(root / "perf").glob("*.py")]
    found = {f.name: lacking(f.read_text("utf-8")) for f in files}
    assert files and not any(found.values()), found
    assert lacking("from gitmem.core import rank\nfrom gitmem.core.rank import fuse, no_such")


def test_names_are_unique() -> None:
    names = [
        p.stem for p in PACKAGE.rglob("*.py") if p.stem != "__init__" and p.parent.name != "cli"
    ]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("module", HOT)
def test_a_hot_module_loads_nothing_slow(module: str) -> None:
    assert loaded(f"import {place(module)}") & SLOW == set()


def test_the_hot_probe_can_fail() -> None:
    assert "dataclasses" in loaded("import dataclasses") & SLOW


def test_help_loads_neither_numpy_nor_pygit2() -> None:
    code = (
        "from gitmem.cli import run\nimport io, contextlib\nwith"
        " contextlib.redirect_stdout(io.StringIO()): run(['--help'])"
    )
    assert loaded(code) & {"numpy", "pygit2", "sklearn"} == set()


def test_a_question_loads_neither_numpy_nor_pygit2(tmp_path: pathlib.Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    code = (
        f"import os; os.chdir({str(tmp_path)!r})\nfrom gitmem.cli import run\nimport io,"
        " contextlib\nwith contextlib.redirect_stdout(io.StringIO()): run(['remember', 'the cache"
        " is warm']); run(['recall', 'is the cache warm'])"
    )
    assert loaded(code) & {"numpy", "pygit2", "sklearn"} == set()


def test_no_file_is_larger_than_one_can_hold_in_mind() -> None:
    long = [
        p for p in PACKAGE.rglob("*.py") if len(p.read_text(encoding="utf-8").splitlines()) > 400
    ]
    assert long == []


# 20 ms and more each, and no daily command needs them.
UNWANTED = {
    "ssl",
    "logging",
    "gitmem.models.fetch",
    "gitmem.doctor",
    "gitmem.capture.classify",
    "gitmem.capture.markers",
}


@pytest.mark.parametrize(
    "words", ["--version", "remember it-is-warm", "list", "recall is-it-warm", "status", "config"]
)
def test_a_daily_command_loads_only_what_it_needs(tmp_path: pathlib.Path, words: str) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "gitmem", *words.split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=clean_env(tmp_path),
    )
    names = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines() if "|" in line}
    assert "gitmem.cli" in names and names & UNWANTED == set()
