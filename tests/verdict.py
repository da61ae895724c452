"""Fails a run in which a test was skipped for a reason that nobody has allowed.

Hooks of pytest (tests/conftest.py takes them). The reasons that are allowed are
listed here. A test that a document names as the holder of a promise may not wait
for data outside the repository, nor lack what lies in the tests' own cache: there it
is to be run. A document names a test, or its file.
"""

from __future__ import annotations

import os
import pathlib
import re
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Where tools/fetch_*.sh put what tests run beside git mem.
CACHE = pathlib.Path(
    os.environ.get("GIT_MEM_TEST_CACHE")
    or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "git-mem-test"
)

# What a machine lacks. Such a test runs on others.
MACHINE = (
    r"no (Claude Code|client) \S+( here)?: (sh )?tools/fetch_clients\.sh",
    (
        r"no (named"
        r" pipes|/proc/locks|/proc|gpg|gpgsm|ssh-keygen|ssh-agent|man|sha256sum|shellcheck) here"
    ),
    r"no (bash|bash-completion|zsh|fish|dash|busybox|ksh|mksh) here",
    r"no (chromium|tmux) here",
    r"no (axe-core|inspector): tools/fetch_clients\.sh brings it",
    r"no (PostgreSQL|pgvector|psycopg) here",
    r"no node here",
    r"no C compiler here|cc makes no preloaded library here",
    r"no strace|strace may not trace here",
    r"only root (can|may) |needs root to change the owner",
    r"devices cannot be made here|cannot mount a tmpfs here|no file system may be mounted here",
    r"no (faults|clock) can be (injected|changed) here",
    r"this (man|gpgsm) (knows no --warnings|makes no certificate)",
    r"this git (knows|has) no (reftable|cruft packs)",
    r"(the console script|git-mem) is not installed",
    r"this release knows no profiles",
    r"no forks: GIT_MEM_TEST_PROCESS is set",
    r"llama-cpp-python is not installed: tools/fetch_llama\.sh|the PyPI package `gguf` is not",
    r"no .*: tools/fetch_models\.sh brings it|no model",
)
# Of these, what lies in CACHE where the test could run. A git that knows reftables does, too, but
# its tests have a run of their own (tools/test.sh).
IN_CACHE = (
    (r"llama-cpp-python is not installed", "llama_cpp_python-*.whl"),
    (r"no (?:\S*/)?(\S+): tools/fetch_models\.sh", r"\1"),
    (r"no axe-core", "axe-*.js"),
    (r"no inspector", "inspector-*"),
    (r"no client ([a-z]+\S*) here:", r"\1/package.json"),
    (r"no (?:Claude Code|client) (\S+?)(?: here)?:", r"claude-\1/claude"),
)
# What belongs to the case itself: one of several parameters says nothing new.
CASE = (r"the same as in a large one",)
# Data that lies outside the repository, so that no document may rest on such a test.
OUTSIDE = (r"no evaluation (data|texts)|evaluation data not found",)


def held() -> set[str]:
    """The tests and test files that documents name."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    named = re.compile(r"\btest_\w+(?:\.py)?")
    return {name for page in pages for name in named.findall(page.read_text(encoding="utf-8"))}


def there(reason: str, cache: pathlib.Path) -> str:
    """What lies in the cache, "" for nothing, of which a reason says that it is missing."""
    for pattern, name in IN_CACHE:
        found = re.match(pattern, reason)
        if found:
            return next((str(path) for path in cache.glob(found.expand(name))), "")
    return ""


def judged(
    skipped: list[tuple[str, str]], promised: set[str], cache: pathlib.Path = CACHE
) -> list[str]:
    """What is wrong with the (test, reason) that were skipped."""
    wrong = []
    for test, reason in skipped:
        reason = reason.removeprefix("Skipped: ")
        path, _, inside = test.partition("::")
        name = inside.rpartition("::")[2].partition("[")[0]
        file = pathlib.PurePath(path).name
        if any(re.match(one, reason) for one in OUTSIDE):
            if name in promised:
                wrong.append(f"{test}: a document rests on it, and it was skipped: {reason}")
        elif (name in promised or file in promised) and (path := there(reason, cache)):
            wrong.append(f"{test}: a document rests on it, and '{path}' is here: {reason}")
        elif not any(re.match(one, reason) for one in (*MACHINE, *CASE)):
            wrong.append(f"{test}: this reason is not in tests/verdict.py: {reason}")
    return wrong


def _skipped(config: pytest.Config) -> list[tuple[str, str]]:
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    reports = reporter.stats.get("skipped", []) if reporter else []
    return [
        (r.nodeid, r.longrepr[2] if isinstance(r.longrepr, tuple) else str(r.longrepr))
        for r in reports
    ]


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workerinput") or session.exitstatus != 0:
        return
    if judged(_skipped(session.config), held()):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    wrong = judged(_skipped(config), held())
    if wrong:
        terminalreporter.section("skipped, and should not be")
        for row in wrong:
            terminalreporter.line(row)
