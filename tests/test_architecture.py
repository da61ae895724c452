"""The import graph is architecture: layers point downwards, each heavy library has one home, hot paths load none."""

from __future__ import annotations

import ast
import pathlib
import subprocess
import sys

import pytest

import gitmem

PACKAGE = pathlib.Path(gitmem.__file__).parent

# From the doors down to the pure core; a module may import its own layer and those below.
LAYERS = [
    {"__main__", "cli"},
    {"render"},
    {"doctor", "githooks", "graves", "listing", "memories", "purge", "reanchor", "recall", "remember", "setup", "sync", "transfer", "verify", "view", "wipe", "worker"},
    {"store"},
    {"keys", "sign", "signature", "trust"},
    {"ancestry", "check", "document", "erase", "filters", "index", "marks", "notes", "patches", "remote", "rescue", "treeedit", "twins", "update", "vectors", "where"},
    {"cache", "embed", "guard", "history", "notetree", "odb", "packfile", "parallel", "roots", "scan"},
    {"changes", "config", "gitcmd", "hooklines", "layout", "reflock", "spool"},
    {"__init__", "digest", "errors", "fold", "plain", "rank", "record", "redact", "redact_context", "redact_rules", "stem", "text"},
]
HOMES = {"numpy": {"vectors"}, "pygit2": {"notes"}, "typer": {"cli"}, "rich": {"render"}, "llama_cpp": {"llama"}, "mcp": {"mcp_server"},
         "subprocess": {"gitcmd", "keys", "marks", "remote", "cli"}, "sqlite3": {"cache", "guard", "store", "doctor"}}
HEAVY = {"numpy", "pygit2", "typer", "rich", "llama_cpp", "mcp", "sklearn", "scipy"}

# What a prompt waits for: standard library only, and none of its slow parts.
HOT = ["cache", "embed", "filters", "fold", "plain", "rank", "record", "scan", "spool", "text", "trust"]
SLOW = HEAVY | {"dataclasses", "typing", "inspect", "subprocess", "hashlib", "pathlib", "asyncio", "logging", "tempfile"}


def module_of(path: pathlib.Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(source: str, depth: int) -> set[tuple[str, bool]]:
    """(module, whether it is ours) of every import, also those inside functions; `depth`: packages above the file inside gitmem."""
    found: set[tuple[str, bool]] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for name in node.names:
                parts = name.name.split(".")
                found.add((parts[1] if parts[0] == "gitmem" and len(parts) > 1 else parts[0], parts[0] == "gitmem"))
        elif isinstance(node, ast.ImportFrom):
            ours = node.level > depth or (node.module or "").startswith("gitmem")
            inside = (node.module or "").removeprefix("gitmem").lstrip(".")
            if node.level and node.level <= depth:
                continue  # within one package
            if not inside:
                found.update((name.name, ours) for name in node.names)
            else:
                found.add((inside.split(".")[0], ours))
    return found


def graph() -> dict[str, set[tuple[str, bool]]]:
    out: dict[str, set[tuple[str, bool]]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        depth = len(path.relative_to(PACKAGE).parts) - 1
        out.setdefault(module_of(path), set()).update(imports(path.read_text(encoding="utf-8"), depth))
    return out


def layer(name: str) -> int | None:
    return next((i for i, names in enumerate(LAYERS) if name in names), None)


def test_every_module_has_a_layer() -> None:
    assert not [m for m in graph() if m != "__init__" and layer(m) is None]


def upward(found: dict[str, set[tuple[str, bool]]]) -> list[str]:
    wrong = []
    for module, names in found.items():
        for name, ours in names:
            here, there = layer(module), layer(name)
            if ours and here is not None and there is not None and there < here:
                wrong.append(f"{module} imports {name}")
    return wrong


def test_imports_point_downwards() -> None:
    assert upward(graph()) == []


def strangers(found: dict[str, set[tuple[str, bool]]]) -> list[str]:
    return [f"{module} imports {name}" for module, names in found.items() for name, ours in names
            if not ours and name in HOMES and module not in HOMES[name]]


def test_each_heavy_library_has_one_home() -> None:
    assert strangers(graph()) == []


def test_the_probes_can_fail() -> None:
    assert upward({"record": {("store", True)}}) == ["record imports store"]
    assert strangers({"recall": {("numpy", False)}}) == ["recall imports numpy"]
    assert imports("def f():\n    import numpy.linalg\n    from .cache import Cache\n    from . import rank", 0) == {("numpy", False), ("cache", True), ("rank", True)}


def loaded(code: str) -> set[str]:
    """Top names of the modules a fresh isolated interpreter has after `code`."""
    probe = f"import sys; before = set(sys.modules); sys.path.insert(0, {str(PACKAGE.parent)!r})\n{code}\nprint(*sorted({{m.split('.')[0] for m in set(sys.modules) - before}}))"
    done = subprocess.run([sys.executable, "-I", "-c", probe], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("module", HOT)
def test_a_hot_module_loads_nothing_slow(module: str) -> None:
    assert loaded(f"import gitmem.{module}") & SLOW == set()


def test_the_hot_probe_can_fail() -> None:
    assert "dataclasses" in loaded("import dataclasses") & SLOW


def test_help_loads_neither_numpy_nor_pygit2() -> None:
    code = "from gitmem.cli import run\nimport io, contextlib\nwith contextlib.redirect_stdout(io.StringIO()): run(['--help'])"
    assert loaded(code) & {"numpy", "pygit2", "sklearn"} == set()


def test_a_question_loads_neither_numpy_nor_pygit2(tmp_path: pathlib.Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    code = (f"import os; os.chdir({str(tmp_path)!r})\nfrom gitmem.cli import run\nimport io, contextlib\n"
            "with contextlib.redirect_stdout(io.StringIO()): run(['remember', 'the cache is warm']); run(['recall', 'is the cache warm'])")
    assert loaded(code) & {"numpy", "pygit2", "sklearn"} == set()


def test_no_file_is_larger_than_one_can_hold_in_mind() -> None:
    long = {str(p.relative_to(PACKAGE)): n for p in PACKAGE.rglob("*.py") if (n := len(p.read_text(encoding="utf-8").splitlines())) > 400}
    assert not long
