"""A question read in a process beside: the same vectors, in time or not at all, and it ends."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from conftest import clean_env

from gitmem.embedding import reader

QUESTION = "what happens when sending a large file breaks off halfway"
TEXTS = ["uploads are retried three times", "the door of the barn is red", ""]


def started() -> reader.Beside:
    found = reader.beside()
    assert found
    return found


def with_encoder(found: Callable[[], None]) -> reader.Beside:
    """A process beside in which opening the encoder does this."""
    kept = reader.encoder
    reader.encoder = found  # type: ignore[assignment]
    try:
        return started()
    finally:
        reader.encoder = kept


def test_it_answers_as_this_process_does() -> None:
    beside, late = started(), time.monotonic() + 60
    beside.begin(QUESTION)
    here = reader.read(QUESTION, TEXTS, late)
    assert beside.read(QUESTION, iter(TEXTS), late) == here and len(here) == 4
    assert beside.read(QUESTION, TEXTS[:1], late) == here[:1], "asked again, of an ended process"
    unasked = started()
    assert unasked.read(QUESTION, (), 0.0) == here[:1], "nobody said before what would be asked"


def test_a_process_that_a_command_began_reads_one_question_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    questions = (QUESTION, "", "which door is red", QUESTION)
    here = [reader.read(question, TEXTS) for question in questions]
    reader.begin()
    made = reader._begun[-1]
    with monkeypatch.context() as patched:
        patched.setattr(reader, "read", lambda *_: pytest.fail("read here"))
        for question, expected in zip(questions, here, strict=True):
            assert reader.begun("nobody asks for this one's vector")
            ask = reader.begun(question)
            assert ask and ask(question, TEXTS) == expected
            assert ask(question, TEXTS) == expected, "the cache was read again"
    os.kill(made._pid, signal.SIGKILL)
    ask = reader.begun(QUESTION)
    assert ask and ask(QUESTION, TEXTS) == here[0]
    assert reader.begun(QUESTION) is None, "from now on this process reads"


@pytest.mark.parametrize("how", ["another question", "stopped", "killed", "ended by itself"])
def test_a_process_that_does_not_answer_is_ended_and_this_one_reads(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(reader, "_SECONDS", 1)
    here, ended = reader.read(QUESTION), how == "ended by itself"
    with monkeypatch.context() as patched:
        patched.setattr(reader, "encoder", (lambda: None) if ended else reader.encoder)
        reader.begin()
    made = reader._begun[-1]
    if how == "stopped":
        os.kill(made._pid, signal.SIGSTOP)
    if how == "killed":
        os.kill(made._pid, signal.SIGKILL)
    ask = reader.begun("another question" if how == "another question" else QUESTION)
    assert ask and ask(QUESTION) == here
    with pytest.raises(ChildProcessError):
        os.waitpid(made._pid, 0)
    assert reader.begun(QUESTION) is None, "from now on this process reads"


def test_a_command_leaves_no_process(tmp_path: pathlib.Path) -> None:
    """Where the first process looks after none, each stayed as a zombie."""
    program = (
        "import os, subprocess, sys\n"
        "import ctypes; ctypes.CDLL(None).prctl(36, 1)\n"  # orphans become ours
        "for words in (['recall', 'x'], ['recall', '-h'], ['recall']):\n"
        "    subprocess.run([sys.executable, '-m', 'gitmem', *words], capture_output=True)\n"
        "try: print(os.waitpid(-1, 0))\nexcept ChildProcessError: print('none')\n"
    )
    argv = [sys.executable, "-c", program]
    env = clean_env(tmp_path)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, env=env, check=True)
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.stdout == "none\n", done.stderr


def test_a_process_that_loads_little_reads_the_same() -> None:
    program = (
        "import sys\n"
        "from gitmem.embedding import reader\n"
        "beside = reader.beside()\n"
        f"made = beside.read({QUESTION!r})\n"
        "assert 'numpy' not in sys.modules\n"
        f"print(made == reader.read({QUESTION!r}), len(made))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["True", "1"], done.stderr


def test_no_text_is_begun_after_its_time() -> None:
    beside = started()
    assert len(beside.read(QUESTION)) == 1
    assert len(beside.read(QUESTION, TEXTS, 1.0)) == 1
    assert started().read(QUESTION, TEXTS, 1.0) == reader.read(QUESTION, TEXTS, 1.0) == []


def test_a_question_that_takes_too_long_is_given_up() -> None:
    beside = with_encoder(lambda: time.sleep(30))
    beside.begin(QUESTION)
    assert beside.read(QUESTION, TEXTS, time.monotonic() + 0.05) == []
    assert beside.read(QUESTION, TEXTS, time.monotonic() + 60) == [], "a late vector is no one's"


def test_a_process_that_dies_is_an_encoder_that_cannot_be_used() -> None:
    beside = with_encoder(lambda: os._exit(9))
    time.sleep(0.1)
    beside.begin(QUESTION)
    assert beside.read(QUESTION, TEXTS) == []


def test_another_question_than_was_begun_gets_no_vector_of_that_one() -> None:
    beside = started()
    beside.begin("another question")
    assert beside.read(QUESTION) == []
    beside.end()


def test_a_prompt_larger_than_a_pipe_is_read_too() -> None:
    long = "\ud800 " + QUESTION * 2000
    assert started().read(long) == reader.read(long)


def test_it_is_ended_and_leaves_no_zombie() -> None:
    for beside in (started(), with_encoder(lambda: time.sleep(30))):
        beside.read(QUESTION, (), time.monotonic() + 0.2)
        beside.end()
        beside.end()
        with pytest.raises(ChildProcessError):
            os.waitpid(beside._pid, 0)


def test_where_no_process_is_left_nothing_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    before = set(os.listdir("/dev/fd"))
    monkeypatch.setattr(os, "fork", none)
    assert reader.beside() is None and set(os.listdir("/dev/fd")) <= before
    monkeypatch.delattr(os, "fork")
    assert reader.beside() is None


def test_it_ends_with_the_process_that_started_it_and_keeps_no_output_of_it_open() -> None:
    """An agent waits for the end of a hook's output."""
    out, into = os.pipe()
    ours = os.fork()
    if not ours:
        try:
            os.dup2(into, 1)
            os.close(into)
            with_encoder(lambda: time.sleep(60))
            os.write(1, b"answer")
        finally:
            os._exit(0)
    os.close(into)
    begun, said = time.monotonic(), b""
    while part := os.read(out, 100):
        said += part
    assert said == b"answer" and time.monotonic() - begun < 5
    os.close(out)
    os.waitpid(ours, 0)
