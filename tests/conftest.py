"""Real git in temporary repositories: fixed dates, no configuration of the machine, every GIT_*
variable removed.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from client.harness import VERSIONS, Client, binary
from verdict import pytest_sessionfinish as pytest_sessionfinish
from verdict import pytest_terminal_summary as pytest_terminal_summary
from zygote import Zygote

from gitmem.embedding import numpy_core
from gitmem.store import Store, open_store

# A shell that starts the tests in the background has it ignored, and whatever they start inherits
# that: Ctrl-C ended nothing, and the tests of it waited for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest.register_assert_rewrite("crash_world")  # a plugin of several files
with numpy_core.OneThread():  # as git mem does: threads that wait for each other burn both cores
    import numpy  # noqa: F401

EVAL = pathlib.Path(
    os.environ.get(
        "GIT_MEM_EVAL_ROOT",
        pathlib.Path(__file__).resolve().parent.parent.parent / "shared" / "eval",
    )
)


_SHELF = tempfile.TemporaryDirectory(prefix="git-mem-tests-")
_TEMPLATES: dict[tuple[object, ...], pathlib.Path] = {}  # repositories to copy, for this process


def _one_git_mem(path: str) -> str:
    """PATH with the first git-mem only: `doctor` warns of a second."""
    places = dict.fromkeys(path.split(os.pathsep))
    having = [d for d in places if os.path.exists(os.path.join(d, "git-mem"))]
    return os.pathsep.join(d for d in path.split(os.pathsep) if d not in having[1:])


# What `git init` gives the repositories of the tests: tools/test.sh runs some with newer formats.
FORMATS = ("GIT_DEFAULT_HASH", "GIT_DEFAULT_REF_FORMAT")


def clean_env(home: pathlib.Path) -> dict[str, str]:
    env = {
        k: v
        for k, v in os.environ.items()
        if k in FORMATS or not k.startswith(("GIT_", "CLAUDE", "ANTHROPIC", "CODEX", "PYTHONPATH"))
    }
    env.update(
        HOME=str(home),
        XDG_CONFIG_HOME=f"{home}/.config",
        XDG_CACHE_HOME=f"{home}/.cache",
        XDG_STATE_HOME=f"{home}/.local/state",
        GIT_CONFIG_NOSYSTEM="1",
        GIT_TERMINAL_PROMPT="0",
        GIT_AUTHOR_NAME="Ada",
        GIT_AUTHOR_EMAIL="ada@example.org",
        GIT_COMMITTER_NAME="Ada",
        GIT_COMMITTER_EMAIL="ada@example.org",
        PATH=_one_git_mem(env["PATH"]),
        GIT_AUTHOR_DATE="2026-01-02T03:04:05Z",
        GIT_COMMITTER_DATE="2026-01-02T03:04:05Z",
        LANG="C.UTF-8",
        NO_COLOR="1",
        TZ="UTC",
        GIT_MEM_PATIENCE="100",  # another load on the machine must silence no hook that is tested
        GIT_MEM_ENCODER="false",
        GIT_MEM_HISTORY="false",  # test_history turns it on: each recall would read the commits
    )  # else scores change while a worker makes vectors: test_encoding turns it on
    return env


_ZYGOTE = Zygote(clean_env(pathlib.Path("/")))


def _text(data: bytes) -> str:
    """As `subprocess` decodes what a process wrote."""
    return data.decode("utf-8", "surrogateescape").replace("\r\n", "\n").replace("\r", "\n")


class Lab:
    """A temporary HOME; `git` and `mem` raise on failure, `run` never does."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.env = clean_env(root)
        self.fork = True  # git mem runs as a fork of tests/zygote.py

    def run(
        self,
        cwd: pathlib.Path | str,
        *argv: str,
        stdin: str | None = None,
        env: dict[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        words, complete = [str(a) for a in argv], {**self.env, **(env or {})}
        ours = _ZYGOTE.command(words, complete) if self.fork else None
        if ours is not None:
            data = (stdin or "").encode("utf-8", "surrogateescape")
            code, *outputs = _ZYGOTE.run(ours, str(cwd), complete, data, 120)
            return subprocess.CompletedProcess(words, code, *map(_text, outputs))
        return subprocess.run(
            words,
            cwd=cwd,
            env=complete,
            input=stdin if stdin is not None else "",
            text=True,
            encoding="utf-8",
            errors="surrogateescape",
            capture_output=True,
            timeout=120,
            check=False,
        )

    def git(self, cwd: pathlib.Path | str, *argv: str, stdin: str | None = None) -> str:
        done = self.run(cwd, "git", *argv, stdin=stdin)
        assert done.returncode == 0, f"git {argv}: {done.stderr}"
        return done.stdout

    def mem(
        self,
        cwd: pathlib.Path | str,
        *argv: str,
        stdin: str | None = None,
        rc: tuple[int, ...] = (0,),
        env: dict[str, str] | None = None,
    ) -> str:
        done = self.run(cwd, sys.executable, "-m", "gitmem", *argv, stdin=stdin, env=env)
        assert done.returncode in rc, (
            f"git mem {argv}: rc {done.returncode}: {done.stderr}{done.stdout}"
        )
        assert "Traceback" not in done.stderr
        return done.stdout

    def json(self, cwd: pathlib.Path | str, *argv: str, **kw: Any) -> Any:
        return json.loads(self.mem(cwd, *argv, "--json", **kw))

    def said(self, cwd: pathlib.Path | str, *argv: str) -> str:
        """What a command says beside its answer."""
        done = self.run(cwd, sys.executable, "-m", "gitmem", *argv)
        assert done.returncode in (0, 1) and "Traceback" not in done.stderr, done.stderr
        return done.stderr

    def repo(self, name: str = "repo", commits: int = 1, *options: str) -> pathlib.Path:
        if options:
            return self._made(self.root / name, commits, *options)
        return self.copied(name, str(commits), lambda path: self._made(path, commits))

    def copied(self, name: str, kind: str, make: Callable[[pathlib.Path], object]) -> pathlib.Path:
        """A repository as `make` makes one at a path: a copy of the first of its kind. Dates are
        fixed, so it would be the same; ids are, too. With settings or a HOME in use it is made.
        """
        path = self.root / name
        settings = [self.root / ".gitconfig", self.root / ".config"]
        if any(p.exists() for p in (path, *settings)):
            make(path)
            return path
        bearing = {k: v for k, v in self.env.items() if k.startswith("GIT_") or k == "PATH"}
        key = (kind, self.fork, *sorted(bearing.items()))
        if key not in _TEMPLATES:
            _TEMPLATES[key] = pathlib.Path(_SHELF.name) / str(len(_TEMPLATES))
            make(_TEMPLATES[key])
            for kept in (_TEMPLATES[key] / ".git").glob("mem/settings-*.json"):
                kept.unlink()  # of that place
        shutil.copytree(_TEMPLATES[key], path, copy_function=shutil.copy)  # with the time of now
        self.git(path, "update-index", "-q", "--refresh")
        return path

    def _made(self, path: pathlib.Path, commits: int, *options: str) -> pathlib.Path:
        self.git(self.root, "init", "-q", "-b", "main", *options, str(path))
        for i in range(commits):
            (path / f"f{i}.txt").write_text(f"line {i}\n")
            self.git(path, "add", "-A")
            # A newer git would start maintenance, whose lock comes and goes while this is copied.
            self.git(path, "-c", "maintenance.auto=false", "commit", "-q", "-m", f"commit {i}")
        return path

    def unite(self, repo: pathlib.Path, theirs: str, ref: str = "mem/team") -> None:
        """Stock git takes the notes of another ref in."""
        self.git(repo, "notes", f"--ref={ref}", "merge", "-q", "-s", "cat_sort_uniq", theirs)

    def lines(self, repo: pathlib.Path, ref: str = "mem/team") -> list[str]:
        """Every line of every note of a ref, read with stock git."""
        out = []
        for row in self.run(repo, "git", "notes", f"--ref={ref}", "list").stdout.splitlines():
            out += [
                line
                for line in self.git(repo, "cat-file", "blob", row.split()[0]).splitlines()
                if line.strip()
            ]
        return out


def initialised(lab: Lab, commits: int, name: str = "repo") -> pathlib.Path:
    """A repository where `init` has run."""

    def make(path: pathlib.Path) -> None:
        lab._made(path, commits)
        lab.mem(path, "init", "--offline")

    return lab.copied(name, f"{commits}, initialised", make)


class Repository:
    """A repository where `init` has run."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.repo = initialised(lab, 1)
        self.mem = self.repo / ".git" / "mem"

    def store(self) -> Store:
        return open_store(self.lab.env, str(self.repo))


@pytest.fixture
def lab(
    request: pytest.FixtureRequest, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> Lab:
    made = Lab(tmp_path)
    made.fork = request.node.get_closest_marker("process") is None
    for name in list(os.environ):
        if name.startswith("GIT_") and name not in ("GIT_MEM_EVAL_ROOT", *FORMATS):
            monkeypatch.delenv(name)
    for name in (
        "HOME",
        "XDG_CONFIG_HOME",
        "XDG_CACHE_HOME",
        "GIT_CONFIG_NOSYSTEM",
        "GIT_AUTHOR_NAME",
        "GIT_AUTHOR_EMAIL",
        "GIT_COMMITTER_NAME",
        "GIT_COMMITTER_EMAIL",
        "GIT_AUTHOR_DATE",
        "GIT_COMMITTER_DATE",
        "GIT_MEM_HISTORY",
    ):
        monkeypatch.setenv(name, made.env[name])
    return made


def pytest_itemcollected(item: pytest.Item) -> None:
    """A test that asks for no directory has no repository: `make quick` runs it."""
    if "tmp_path_factory" not in getattr(item, "fixturenames", ["tmp_path_factory"]):
        item.add_marker("quick")


@pytest.hookimpl(tryfirst=True)  # before pytest takes the marked out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test in a directory the normal run takes the first and the last case, `make nightly`
    all. A test marked `each` or `quick` keeps its cases.
    """
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if not any(map(item.get_closest_marker, ("quick", "each", "nightly"))):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for same in cases.values():
        for item in same[1:-1]:
            item.add_marker("nightly")


def sampled(cases: Iterable[Any], every: int) -> list[Any]:
    """Parameters: the normal run takes each `every`th of them, `make nightly` all."""
    rows = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [
        pytest.param(*row, marks=[pytest.mark.nightly] if i % every else [])
        for i, row in enumerate(rows)
    ]


def alive(pid: int) -> bool:
    """Whether there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def until(holds: Callable[[], object]) -> None:
    """Waits for what a detached process does. The end is there for a test that would wait for ever:
    a worker gives way so far that three busy sessions beside leave it a minute for a second's work.
    """
    end = time.monotonic() + 300
    while not holds():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.05)


@pytest.fixture
def repo(lab: Lab) -> pathlib.Path:
    """A repository with two commits that captures everything; a file that needs another one has a
    fixture of its own.
    """
    path = initialised(lab, 2)
    lab.git(path, "config", "mem.capture", "all")
    return path


@pytest.fixture
def store(repo: pathlib.Path) -> Iterator[Store]:
    opened = open_store(os.environ, str(repo))
    yield opened
    opened.close()


@pytest.fixture(params=sampled(VERSIONS, len(VERSIONS)))
def client(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[Client]:
    """The real Claude Code: the newest version that is here, nightly the older ones."""
    if binary(request.param) is None:
        pytest.skip(f"no Claude Code {request.param} here: sh tools/fetch_clients.sh")
    root = tmp_path / "client"
    root.mkdir()
    made = Client(request.param, root)
    yield made
    made.close()
