"""A prompt's hook that a loaded process answers by a fork: the same answer, or its own."""

from __future__ import annotations

import json
import marshal
import os
import pathlib
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from conftest import Lab

from gitmem import prefork_server
from gitmem.agents import prefork
from gitmem.git import memfile

pytestmark = pytest.mark.process
TEXT = "Use PostgreSQL, not MongoDB: orders and invoices share a transaction"
SERVER = (
    "import sys; from gitmem import prefork_server\n"
    "with prefork_server.beside(sys.argv[1]): sys.stdin.read()"
)
# Hands a call over as the hook does, and says whether a fork took it.
HOOK = (
    "import os, sys; from gitmem.agents import prefork\n"
    "sys.stderr.write(str(prefork.answered(sys.argv[1:], os.environ)))"
)


@pytest.fixture
def repo(lab: Lab) -> pathlib.Path:
    repo = lab.repo("repo", 1)
    lab.mem(repo, "init", "--offline")
    lab.git(repo, "config", "mem.promptContext", "true")
    lab.mem(repo, "remember", TEXT, "--type", "decision")
    lab.env["GIT_MEM_PATIENCE"] = "50"
    return repo


def until(condition: object, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.02)


def sockets(repo: pathlib.Path) -> set[pathlib.Path]:
    found = (repo / ".git" / "mem").glob(memfile.SOCKET + "*")
    return {path for path in found if path.suffix != ".new"}


@contextmanager
def served(lab: Lab, repo: pathlib.Path, server: str = SERVER) -> Iterator[subprocess.Popen[bytes]]:
    argv, before = [sys.executable, "-c", server, str(repo / ".git")], sockets(repo)
    with subprocess.Popen(argv, env=lab.env, cwd=lab.root, stdin=subprocess.PIPE) as process:
        try:
            until(lambda: sockets(repo) - before)
            yield process
        finally:
            process.kill()
    until(lambda: sockets(repo) <= before)


def prompt(session: str, repo: pathlib.Path) -> str:
    return json.dumps(
        {
            "session_id": session,
            "cwd": str(repo),
            "hook_event_name": "UserPromptSubmit",
            "prompt": "which database do orders and invoices use",
        }
    )


def asked(
    lab: Lab, repo: pathlib.Path, session: str = "one", event: str = "UserPromptSubmit"
) -> tuple[str, str]:
    """(what the hook printed, whether a fork did it). A fork may be late on a busy machine: then it
    has done nothing, and is asked again.
    """
    end = time.monotonic() + 20
    while True:
        done = subprocess.run(
            [sys.executable, "-c", HOOK, event],
            cwd=repo,
            env=lab.env,
            input=prompt(session, repo),
            text=True,
            capture_output=True,
        )
        late = done.stderr == "False" and event == "UserPromptSubmit"
        if not late or time.monotonic() > end:
            return done.stdout, done.stderr


def test_a_fork_says_what_the_hook_says(lab: Lab, repo: pathlib.Path) -> None:
    alone = lab.run(repo, "git-mem", "hook", "UserPromptSubmit", stdin=prompt("alone", repo))
    with served(lab, repo):
        text, forked = asked(lab, repo)
        assert (text, forked) == (alone.stdout, "True") and TEXT in text
        again, forked = asked(lab, repo)  # the session was shown it
        assert forked == "True"
        assert TEXT not in again and "was shown before" in again
        through = lab.run(repo, "git-mem", "hook", "UserPromptSubmit", stdin=prompt("x", repo))
        assert (through.stdout, through.stderr, through.returncode) == (alone.stdout, "", 0)


def test_a_hook_waits_for_no_encoder_that_hangs(lab: Lab, repo: pathlib.Path) -> None:
    """The fork's own process must not keep open what the hook waits for."""
    del lab.env["GIT_MEM_ENCODER"]
    lab.mem(repo, "index", "--all")
    hangs = (
        "import time; from gitmem.embedding import reader\nkept = reader.encoder\n"
        "reader.encoder = lambda: time.sleep(60) if reader.begun else kept()\nreader.begun = []\n"
        "fork = reader.beside\nreader.beside = lambda: (reader.begun.append(1), fork())[1]\n"
    )
    with served(lab, repo, hangs + SERVER):
        asked(lab, repo, "first")  # from now on a process is started with each prompt
        lab.env["GIT_MEM_PATIENCE"] = "4"
        begun = time.monotonic()
        text, forked = asked(lab, repo, "second")
        assert forked == "True" and TEXT in text, "words and the table answer"
        assert time.monotonic() - begun < 8, "the process beside would live for ten seconds"


def below(pid: int) -> list[int]:
    """Processes that a process has started, and those that these have."""
    try:
        found = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except FileNotFoundError:
        return []
    return [one for child in map(int, found) for one in (child, *below(child))]


def alive(pid: int) -> bool:
    try:
        return ") Z " not in pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def renewed(pid: int, former: set[int]) -> bool:
    """Whether server, fork and its encoder's process are there, and none of some former ones."""
    now = below(pid)
    return len(now) == 3 and former.isdisjoint(now)


def test_a_fork_waits_for_the_next_call_with_its_encoder_ready(
    lab: Lab, repo: pathlib.Path
) -> None:
    del lab.env["GIT_MEM_ENCODER"]
    lab.mem(repo, "index", "--all")
    alone = lab.run(repo, "git-mem", "hook", "UserPromptSubmit", stdin=prompt("alone", repo))
    (repo / ".git" / "mem" / "worker.pid").unlink(missing_ok=True)
    with served(lab, repo) as process:
        until(lambda: len(below(process.pid)) == 3)  # server, fork, the encoder's process
        for session in ("one", "two"):
            _, spare, encoder = below(process.pid)
            assert asked(lab, repo, session) == (alone.stdout, "True")
            until(partial(renewed, process.pid, {spare, encoder}))  # a fork takes one call
        left = below(process.pid)
    until(lambda: not any(alive(pid) for pid in left))


def test_a_fork_that_was_killed_is_made_again_and_two_calls_at_once_get_one_each(
    lab: Lab, repo: pathlib.Path
) -> None:
    with served(lab, repo) as process:
        until(lambda: len(below(process.pid)) == 2)
        os.kill(below(process.pid)[1], signal.SIGKILL)
        assert asked(lab, repo)[1] == "True"
        argv = [sys.executable, "-c", HOOK.replace("\n", "\nprefork.WAIT = 60\n", 1)]
        pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
        begun = [
            subprocess.Popen([*argv, "UserPromptSubmit"], cwd=repo, env=lab.env, **pipes)
            for _ in range(2)
        ]  # both have been taken before either is told its prompt
        for hook, session in zip(begun, ("two", "three"), strict=True):
            assert hook.communicate(prompt(session, repo).encode())[1] == b"True"


def test_a_call_that_was_given_up_takes_no_fork(lab: Lab, repo: pathlib.Path) -> None:
    late = (
        "import time; from gitmem import prefork_server\n"
        "prefork_server._rehearse = lambda mem_dir: time.sleep(1)\n"
    )
    with served(lab, repo, late + SERVER) as process:
        until(lambda: len(below(process.pid)) == 2)
        (path,) = sockets(repo)
        for _ in range(3):  # while the fork rehearses
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as hook:
                hook.connect(prefork.reachable(str(path)))
                hook.send(marshal.dumps((prefork.version(), [], {}, str(repo), 0.0)))
        _, spare = below(process.pid)
        time.sleep(1.5)
        assert below(process.pid)[1:] == [spare]
        assert asked(lab, repo)[1] == "True"


def test_a_fork_has_the_environment_and_place_of_its_call(lab: Lab, repo: pathlib.Path) -> None:
    with served(lab, repo):
        lab.env["GIT_MEM_DISABLE"] = "1"
        assert asked(lab, repo) == ("", "True")
        del lab.env["GIT_MEM_DISABLE"]
        lab.mem(repo, "forget", lab.json(repo, "list")[0]["id"])
        assert asked(lab, repo) == ("", "True")
        lab.git(repo, "worktree", "add", "-q", str(lab.root / "linked"))
        lab.mem(repo, "remember", TEXT + " always")
        assert TEXT in asked(lab, lab.root / "linked", "two")[0]


def test_it_ends_with_its_session_and_leaves_nothing(lab: Lab, repo: pathlib.Path) -> None:
    with served(lab, repo) as process:
        (path,) = sockets(repo)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        lab.mem(repo, "worker", str(repo / ".git"))
        lab.mem(repo, "doctor")
        lab.mem(repo, "purge", lab.json(repo, "list")[0]["id"], "--force")
        assert path.exists()
        process.send_signal(signal.SIGKILL)
        until(lambda: not path.exists())
    with served(lab, repo) as process, served(lab, repo):
        process.kill()
        process.wait()
        assert asked(lab, repo)[1] == "True"


def test_of_two_sessions_each_serves_when_the_other_has_ended_or_was_killed(
    lab: Lab, repo: pathlib.Path
) -> None:
    with served(lab, repo):
        with served(lab, repo):
            assert len(sockets(repo)) == 2
        assert asked(lab, repo)[1] == "True"
        with served(lab, repo) as process:
            killed = sockets(repo)
            for pid in (gone := below(process.pid)):  # its fork would wait for one more call
                os.kill(pid, signal.SIGKILL)
            until(lambda: not any(map(alive, gone)))
            assert asked(lab, repo)[1] == "True"
            with served(lab, repo):
                assert len(sockets(repo) - killed) == 1 and len(sockets(repo)) == 2


def test_a_session_that_hangs_takes_the_forks_of_no_other(
    lab: Lab, repo: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever of the two is asked first. Its own listener takes the call and is silent."""
    hanging = repo / ".git" / "mem" / f"{memfile.SOCKET}.hangs"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(prefork.reachable(str(hanging)))
        listener.listen(4096)  # it is asked again and again
        with served(lab, repo):
            (serves,) = sockets(repo) - {hanging}
            for order in ([hanging.name, serves.name], [serves.name, hanging.name]):
                hook = f"import os\nos.listdir = lambda _: {order}\n"
                with monkeypatch.context() as patched:
                    patched.setattr("test_prefork.HOOK", hook + HOOK)
                    told = asked(lab, repo)[1]
                assert told == "True"


def test_each_session_gets_its_share_of_the_time(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[float] = []

    def hangs(path: str, argv: object, environ: object, begun: float, until: float) -> bool:
        ends.append(until - begun)
        return False

    (tmp_path / ".git" / "mem").mkdir(parents=True)
    for n in range(3):
        (tmp_path / ".git" / "mem" / f"{memfile.SOCKET}.{n}").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(prefork, "_handed_over", hangs)
    assert not prefork.answered(["UserPromptSubmit"], {})
    first, second, third = ends
    assert prefork.WAIT / 3 <= first < second < third <= prefork.WAIT * 1.001


def test_only_prompts_are_handed_over(lab: Lab, repo: pathlib.Path) -> None:
    with served(lab, repo):
        assert asked(lab, repo, event="Stop") == ("", "False")


@pytest.mark.parametrize("fails", ["prefork_server.os.fork", "socket.socket.accept"])
def test_where_no_fork_lives_the_hook_answers_itself_and_no_loop_is_busy(
    lab: Lab, repo: pathlib.Path, fails: str
) -> None:
    tried = lab.root / "tried"
    none = f"""
import socket
from gitmem import prefork_server
def fails(*_):
    with open({str(tried)!r}, "a") as f:
        f.write("x")
    raise OSError
def load(kept=prefork_server._load):
    kept()
    {fails} = fails
prefork_server._load = load
"""
    begun = time.monotonic()
    with served(lab, repo, none + SERVER):
        for session in ("one", "two"):
            text = prompt(session, repo)
            assert TEXT in lab.run(repo, "git-mem", "hook", "UserPromptSubmit", stdin=text).stdout
        time.sleep(2)
        count, seconds = tried.stat().st_size, time.monotonic() - begun
        assert 1 <= count <= seconds / prefork_server._REST + 1


@pytest.mark.parametrize("answer", ["nothing", "refusal", "nobody"])
def test_without_a_fork_the_hook_answers_itself(lab: Lab, repo: pathlib.Path, answer: str) -> None:
    path = str(repo / ".git" / "mem" / memfile.SOCKET)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        if answer != "nobody":
            listener.listen()
        if answer == "refusal":
            listener.shutdown(socket.SHUT_RDWR)
        done = lab.run(repo, "git-mem", "hook", "UserPromptSubmit", stdin=prompt("one", repo))
    assert TEXT in done.stdout and done.returncode == 0
    assert json.loads(done.stdout)  # once


def test_another_installation_is_not_served(lab: Lab, repo: pathlib.Path) -> None:
    with served(lab, repo):
        hook = HOOK.replace("\n", "\nprefork.version = lambda: 'other'\n", 1)
        done = subprocess.run(
            [sys.executable, "-c", hook, "UserPromptSubmit"],
            cwd=repo,
            env=lab.env,
            input=prompt("one", repo),
            text=True,
            capture_output=True,
        )
        assert (done.stdout, done.stderr) == ("", "False")
        assert asked(lab, repo)[1] == "True"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_container_with_other_files_at_this_path_is_not_served(
    lab: Lab, repo: pathlib.Path
) -> None:
    """Its socket can be reached where the two share a `.git`."""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("no file system may be mounted here")
    with served(lab, repo):
        argv = ["unshare", "-m", sys.executable, "-c", HOOK, "UserPromptSubmit"]
        text = prompt("one", repo)
        done = subprocess.run(
            argv, cwd=repo, env=lab.env, input=text, text=True, capture_output=True
        )
        assert (done.stdout, done.stderr) == ("", "False")
        assert asked(lab, repo)[1] == "True"


def test_a_place_with_a_long_name_is_served(lab: Lab, repo: pathlib.Path) -> None:
    far = lab.root / ("deep" * 20) / ("deeper" * 20)
    far.parent.mkdir()
    os.rename(repo, far)
    mem = far / ".git" / "mem"
    (lab.root / "m").symlink_to(mem)
    for name in (f"{memfile.SOCKET}.gone", f"{memfile.SOCKET}.gone.new", f"{memfile.SOCKET}.1.new"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as dead:
            dead.bind(str(lab.root / "m" / name))
    os.utime(mem / f"{memfile.SOCKET}.gone.new", (0, 0))
    with served(lab, far):
        assert asked(lab, far)[1] == "True"
        left = {path.name for path in mem.glob(f"{memfile.SOCKET}*")} - {
            p.name for p in sockets(far)
        }
        assert left == {f"{memfile.SOCKET}.1.new"}, "somebody may be about to listen there"


@pytest.mark.parametrize("words", [0, 1, 2])
def test_a_fork_that_dies_before_it_went_on_leaves_the_call_to_the_hook(
    lab: Lab, repo: pathlib.Path, words: int
) -> None:
    """The other end says `words` words and is gone; only behind the second is the call its own."""
    path = str(repo / ".git" / "mem" / memfile.SOCKET)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen()
        hook = HOOK.replace("sys.stderr", "prefork.WAIT = 60; sys.stderr")
        argv = [sys.executable, "-c", hook, "UserPromptSubmit"]
        with subprocess.Popen(argv, cwd=repo, env=lab.env, stderr=subprocess.PIPE) as process:
            connection, _ = listener.accept()
            connection.recv(1 << 18)
            if words:
                connection.send(prefork.READY)
                assert connection.recv(1, 0 if words == 2 else socket.MSG_PEEK) == prefork.GO
            if words == 2:
                connection.send(prefork.READY)
            connection.close()
            assert process.communicate()[1] == str(words == 2).encode()
