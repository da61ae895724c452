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
    {"__main__", "cli", "hook"},
    {"render"},
    {"audit", "automemory", "bare", "block", "briefing", "call", "events", "inject", "context", "doctor", "facts", "githooks", "graves", "graphview", "install", "installed", "listing", "memories", "consolidate", "proposals", "purge", "ready", "suggestions", "review", "calibrate", "announce", "reanchor", "recall", "receipts", "heed", "tally", "relevance", "remember", "pathnotes", "setup", "served", "sync", "carry", "takein", "transfer", "verify", "view", "wipe", "worker", "writeback", "topicfiles", "keeper", "harvest", "adr", "asof", "then", "why", "names", "taught", "bisect", "gate"},
    {"store"},
    {"keys", "sign", "signature", "trust"},
    {"ancestry", "better", "edges", "graphing", "learned", "check", "document", "erase", "faults", "filters", "headmove", "index", "llamavec", "marks", "notes", "patches", "plans", "priors", "remote", "rescue", "search", "aging", "drift", "removals", "renames", "staleness", "standing", "stored", "treeedit", "twins", "update", "vectors", "where", "commitlog", "alike", "kin", "disputes", "comeback", "revive", "stages"},
    {"cache", "embed", "guard", "history", "ledger", "notetree", "odb", "packfile", "parallel", "roots", "scan", "tables", "transcript", "linear"},
    {"changes", "chosen", "config", "failures", "fetch", "gitcmd", "here", "hooklines", "kept", "layout", "llama", "llamaproc", "protocol", "reflock", "session", "spool", "closed"},
    {"__init__", "digest", "errors", "fastjson", "fold", "pagerank", "communities", "credit", "usage", "hook", "plain", "promptform", "protocol", "rank", "record", "redact", "redact_context", "redact_rules", "registry", "stem", "plot", "retrain", "claudehome", "jsonedit", "section", "targets", "text", "topic", "sources", "toolcalls", "strip", "signals", "features", "lineanchor", "strip_said", "markers"},
]
HOMES = {"numpy": {"vectors"}, "pygit2": {"notes"}, "typer": {"cli"}, "rich": {"render"}, "llama_cpp": {"llama"}, "mcp": {"mcp_server"},
         "subprocess": {"gitcmd", "keys", "llamaproc", "marks", "remote", "cli"}, "sqlite3": {"cache", "faults", "guard", "store", "doctor"}}
HEAVY = {"numpy", "pygit2", "typer", "rich", "llama_cpp", "mcp", "sklearn", "scipy"}

# What a prompt waits for: standard library only, and none of its slow parts.
HOT = ["announce", "comeback", "disputes", "automemory", "bare", "block", "briefing", "cache", "call", "context", "document", "embed", "events", "facts", "failures", "fastjson", "faults",
       "filters", "fold", "guard", "here", "kept", "plain", "priors", "rank", "ready", "record", "relevance", "scan",
       "search", "session", "credit", "usage", "learned", "spool", "standing", "stored", "text", "trust", "sources", "strip", "toolcalls", "strip_said"]
SLOW = HEAVY | {"dataclasses", "typing", "inspect", "subprocess", "hashlib", "pathlib", "asyncio", "logging", "tempfile",
               "re", "enum", "json", "datetime", "contextlib", "copy", "random"}


def module_of(path: pathlib.Path) -> str:
    """The name of a module, without its room: names are unique in the package. All of `cli` is one door."""
    parts = path.relative_to(PACKAGE).parts
    if parts[0] == "cli":
        return "cli"
    return parts[-1].removesuffix(".py") if parts[-1] != "__init__.py" or len(parts) == 1 else parts[0]


ROOMS = {path.parent.name for path in PACKAGE.glob("*/__init__.py")} - {"cli"}


def imports(source: str) -> set[tuple[str, bool]]:
    """(module, whether it is ours) of every import, also those inside functions."""
    found: set[tuple[str, bool]] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for name in node.names:
                parts = [p for p in name.name.split(".") if p not in ROOMS]
                ours = parts[0] == "gitmem"
                found.add((parts[1] if ours and len(parts) > 1 else parts[0], ours))
        elif isinstance(node, ast.ImportFrom):
            ours = node.level > 0 or (node.module or "").split(".")[0] == "gitmem"
            inside = [p for p in (node.module or "").split(".") if p and not (ours and (p == "gitmem" or p in ROOMS))]
            if inside:
                found.add((inside[0], ours))
            else:
                found.update((name.name, ours) for name in node.names)
    return found


def graph() -> dict[str, set[tuple[str, bool]]]:
    out: dict[str, set[tuple[str, bool]]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        out.setdefault(module_of(path), set()).update(imports(path.read_text(encoding="utf-8")))
    return out


def layer(name: str) -> int | None:
    return next((i for i, names in enumerate(LAYERS) if name in names), None)


def test_every_module_has_a_layer() -> None:
    assert not [m for m in graph() if m not in {"__init__", *ROOMS} and layer(m) is None]


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
    assert imports("def f():\n    import numpy.linalg\n    from .cache import Cache\n    from ..core import rank\n    from ..core.text import terms") == {("numpy", False), ("cache", True), ("rank", True), ("text", True)}


def loaded(code: str) -> set[str]:
    """Top names of the modules a fresh isolated interpreter has after `code`."""
    probe = f"import sys; before = set(sys.modules); sys.path.insert(0, {str(PACKAGE.parent)!r})\n{code}\nprint(*sorted({{m.split('.')[0] for m in set(sys.modules) - before}}))"
    done = subprocess.run([sys.executable, "-I", "-c", probe], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def place(module: str) -> str:
    """The full name of a module."""
    return ".".join(next(p for p in PACKAGE.rglob(f"{module}.py")).relative_to(PACKAGE.parent).with_suffix("").parts)


def test_names_are_unique() -> None:
    names = [p.stem for p in PACKAGE.rglob("*.py") if p.stem != "__init__" and p.parent.name != "cli"]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("module", HOT)
def test_a_hot_module_loads_nothing_slow(module: str) -> None:
    assert loaded(f"import {place(module)}") & SLOW == set()


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
