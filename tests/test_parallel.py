"""A second process: the plain answer, whatever becomes of it, and no pipe of the parent kept
open."""

from __future__ import annotations

import os
import subprocess
import threading

import pytest

from gitmem.engine.parallel import Task


def double(items: list[int]) -> list[int]:
    return [2 * i for i in items]


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_answer_is_that_of_the_plain_call(share: float) -> None:
    assert Task(double, list(range(1000)), share).result() == double(list(range(1000)))


def test_a_child_that_dies_is_replaced_by_the_plain_call() -> None:
    parent = os.getpid()

    def work(items: list[int]) -> list[int]:
        if os.getpid() != parent:
            os._exit(9)
        return double(items)

    assert Task(work, list(range(100)), 0.5).result() == double(list(range(100)))


def test_beside_a_thread_nothing_is_forked() -> None:
    parent, done = os.getpid(), threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert set(Task(lambda items: [os.getpid() for _ in items], [1, 2, 3], 0.5).result()) == {
            parent
        }
    finally:
        done.set()
        thread.join()


def test_a_task_nobody_collects_keeps_no_process_waiting() -> None:
    """The child once held the input of `git cat-file` open, and closing it waited for ever."""
    other = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    task = Task(
        lambda items: ["x" * 1000 for _ in items], list(range(1000)), 1.0
    )  # more than a pipe holds
    assert other.stdin is not None
    other.stdin.close()
    assert other.wait(timeout=20) == 0
    task.cancel()
    task.cancel()
