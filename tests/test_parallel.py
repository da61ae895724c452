"""A second process: the plain answer, whatever becomes of it, and no pipe of the parent kept
open."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from gitmem.engine.parallel import Helper


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processors, and no thread that another test has left."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    monkeypatch.setattr(sys, "platform", "linux")


def kill(helper: Helper) -> None:
    assert helper._child > 0  # to -1 a signal would go to every process
    os.kill(helper._child, signal.SIGKILL)


def double(items: list[int]) -> list[int]:
    return [2 * i for i in items]


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.usefixtures("two")
def test_the_answer_is_that_of_the_plain_call(share: float) -> None:
    helper = Helper(double)
    for numbers in (list(range(1000)), [], [5], list(range(50_000)), [7]):
        helper.begin(numbers, share)
        assert helper.result() == double(numbers)
    assert helper._child > 0  # it did not give up
    helper.close()


@pytest.mark.usefixtures("two")
def test_without_a_process_the_plain_call_is_what_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left() -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "fork", none_left)
    before = os.listdir("/proc/self/fd")
    helper = Helper(double)
    assert len(os.listdir("/proc/self/fd")) == len(before)
    helper.begin([1, 2])
    assert helper.result() == [2, 4]
    helper.close()


@pytest.mark.usefixtures("two")
def test_one_child_does_every_list_and_keeps_what_it_has_learnt() -> None:
    seen: list[int] = []

    def work(items: list[int]) -> list[int]:
        seen.extend(items)
        return [os.getpid() * 100 + len(seen) for _ in items]

    helper = Helper(work)
    answers = []
    for numbers in ([1, 2], [3], [4, 5, 6]):
        helper.begin(numbers)
        answers.append(helper.result()[0])
    helper.close()
    assert [answer % 100 for answer in answers] == [2, 3, 6] and not seen
    assert {answer // 100 for answer in answers} == {answers[0] // 100} != {os.getpid()}


@pytest.mark.usefixtures("two")
def test_a_child_that_dies_is_replaced_by_the_plain_call() -> None:
    parent = os.getpid()

    def work(items: list[int]) -> list[int]:
        if os.getpid() != parent:
            os._exit(9)
        return double(items)

    helper = Helper(work)
    for _ in range(2):
        helper.begin(list(range(100_000)), 0.5)  # more than a pipe holds
        assert helper.result() == double(list(range(100_000)))
    helper.close()


@pytest.mark.parametrize("when", ["before", "meanwhile"])
@pytest.mark.usefixtures("two")
def test_a_child_that_is_killed_is_replaced_by_the_plain_call(when: str) -> None:
    helper = Helper(double)
    if when == "before":
        kill(helper)
    helper.begin(list(range(100_000)))
    if when == "meanwhile":
        kill(helper)
    assert helper.result() == double(list(range(100_000)))
    helper.close()


@pytest.mark.usefixtures("two")
def test_what_cannot_be_sent_is_done_here() -> None:
    helper = Helper(lambda items: [str(item) for item in items])
    thing = object()
    helper.begin([thing, 1])
    assert helper.result() == [str(thing), "1"]
    helper.close()


def test_beside_a_thread_nothing_is_forked() -> None:
    parent, done = os.getpid(), threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        helper = Helper(lambda items: [os.getpid() for _ in items])
        helper.begin([1, 2, 3], 0.5)
        assert set(helper.result()) == {parent}
    finally:
        done.set()
        thread.join()


@pytest.mark.usefixtures("two")
def test_a_child_nobody_waits_for_keeps_no_process_waiting() -> None:
    """It once held the input of `git cat-file` open, and closing it waited for ever."""
    other = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    helper = Helper(lambda items: ["x" * 1000 for _ in items])
    helper.begin(list(range(1000)))  # the answer is more than a pipe holds
    assert other.stdin is not None
    other.stdin.close()
    assert other.wait(timeout=20) == 0
    helper.close()
    helper.close()


def test_a_child_ends_with_its_parent() -> None:
    """A killed one cannot end it. The child has our pipe, too, so `run` would wait for it."""
    code = (
        "import os, signal\nfrom gitmem.engine.parallel import Helper\nhelper = Helper(list)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, timeout=20)
    assert done.returncode == -signal.SIGKILL
