"""A second process: the plain answer, whatever becomes of it, and no pipe of the parent kept
open."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path

import pytest

from gitmem.engine.parallel import halved


def double(items: list[int]) -> list[int]:
    return [2 * i for i in items]


@pytest.mark.parametrize("count", [1, 2, 1001])
def test_the_answer_is_that_of_the_plain_call(count: int) -> None:
    assert halved(double, list(range(count))) == double(list(range(count)))


def test_a_child_that_dies_is_replaced_by_the_plain_call() -> None:
    parent = os.getpid()

    def work(items: list[int]) -> list[int]:
        if os.getpid() != parent:
            os._exit(9)
        return double(items)

    assert halved(work, list(range(100))) == double(list(range(100)))


def test_beside_a_thread_nothing_is_forked() -> None:
    parent, done = os.getpid(), threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert set(halved(lambda items: [os.getpid() for _ in items], [1, 2, 3])) == {parent}
    finally:
        done.set()
        thread.join()


def test_the_child_keeps_no_process_waiting(tmp_path: Path) -> None:
    """The child once held the input of `git cat-file` open, and closing it waited for ever."""
    parent = os.getpid()
    other = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    ended = tmp_path / "ended"

    def work(items: list[int]) -> list[int]:
        assert other.stdin is not None
        if os.getpid() == parent:
            other.stdin.close()
            assert other.wait(timeout=20) == 0
            ended.touch()
        for _ in range(400):
            if not ended.exists():
                time.sleep(0.1)
        return items

    assert halved(work, [1, 2]) == [1, 2]
