"""The spool: no line is lost, none lies about for long, none stops another."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import time

import pytest

from gitmem.hooks import spool


def drained(mem: pathlib.Path) -> list[bytes]:
    out: list[bytes] = []
    spool.drain(str(mem), out.extend)
    return out


def texts(mem: pathlib.Path) -> str:
    return "".join(p.read_text(encoding="utf-8", errors="replace") for p in mem.glob("spool*"))


def test_lines_come_out_in_their_order_and_the_spool_is_empty_then(tmp_path: pathlib.Path) -> None:
    for i in range(5):
        spool.append(str(tmp_path), b'{"n":%d}' % i)
    assert spool.waiting(str(tmp_path))
    assert drained(tmp_path) == [b'{"n":%d}' % i for i in range(5)]
    assert not spool.waiting(str(tmp_path)) and drained(tmp_path) == []
    assert list(tmp_path.glob("spool*")) == []


def test_the_spool_is_for_its_owner_alone(tmp_path: pathlib.Path) -> None:
    before = os.umask(0)
    try:
        spool.append(str(tmp_path), b"x")
    finally:
        os.umask(before)
    assert [p.stat().st_mode & 0o777 for p in tmp_path.glob("spool*")] == [0o600, 0o600]


def test_an_append_is_one_write(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bytes] = []
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: written.append(data) or real(fd, data))
    spool.append(str(tmp_path), b"whole")
    assert written == [b"\nwhole\n"]


def test_many_writers_lose_no_line_to_a_worker_that_drains_meanwhile(
    tmp_path: pathlib.Path,
) -> None:
    code = (
        "import sys\nsys.path.insert(0, sys.argv[1])\nfrom gitmem.hooks import spool\nfor i in"
        " range(300): spool.append(sys.argv[2], b'%s %d' % (sys.argv[3].encode(), i))"
    )
    root = str(pathlib.Path(spool.__file__).parent.parent.parent)
    writers = [
        subprocess.Popen([sys.executable, "-c", code, root, str(tmp_path), name]) for name in "abcd"
    ]
    found: list[bytes] = []
    while any(w.poll() is None for w in writers) or spool.waiting(str(tmp_path)):
        spool.drain(str(tmp_path), found.extend)
    assert set(found) == {
        b"%s %d" % (name, i) for name in (b"a", b"b", b"c", b"d") for i in range(300)
    }


def test_a_line_written_into_the_file_after_it_was_taken_is_handed_out_too(
    tmp_path: pathlib.Path,
) -> None:
    late = os.open(tmp_path / "spool", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(late, b"early\n")
    found: list[bytes] = []

    def handle(lines: list[bytes]) -> None:
        if not found:
            os.write(late, b"late\n")
        found.extend(lines)

    spool.drain(str(tmp_path), handle)
    os.close(late)
    assert found == [b"early", b"late"]


def test_a_line_appended_to_a_file_that_is_gone_is_appended_again(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, taken = os.write, []

    def write(fd: int, data: bytes) -> int:
        done = real(fd, data)
        if not taken:
            taken.append(1)
            os.unlink(tmp_path / "spool")
        return done

    monkeypatch.setattr(os, "write", write)
    spool.append(str(tmp_path), b"mine")
    assert drained(tmp_path) == [b"mine"]


def test_a_drain_that_was_killed_hands_its_lines_out_once_more_and_then_drops_them(
    tmp_path: pathlib.Path,
) -> None:
    spool.append(str(tmp_path), b"poison")
    for left in ("poison", "\0oison"):
        with pytest.raises(ZeroDivisionError):
            spool.drain(str(tmp_path), lambda lines: 1 // 0)
        assert left in texts(tmp_path) and spool.waiting(str(tmp_path))
    spool.append(str(tmp_path), b"next")
    dropped: list[str] = []
    found: list[bytes] = []
    spool.drain(str(tmp_path), found.extend, log=dropped.append)
    assert found == [b"next"] and "1 events given up: a worker was killed" in dropped[0]
    assert texts(tmp_path) == ""


def test_a_line_that_kills_costs_no_other(tmp_path: pathlib.Path) -> None:
    for line in (b"a", b"poison", b"b", b"c"):
        spool.append(str(tmp_path), line)
    os.utime(tmp_path / "spool", (time.time() - 3600, time.time() - 3600))
    found: list[bytes] = []

    def handle(lines: list[bytes]) -> None:
        if b"poison" in lines:
            raise ZeroDivisionError
        found.extend(lines)

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            spool.drain(str(tmp_path), handle)
    assert found == [b"a"] and time.time() - (tmp_path / "spool.again").stat().st_mtime > 3000
    spool.drain(str(tmp_path), handle)
    assert found == [b"a", b"b", b"c"] and texts(tmp_path) == ""


def test_two_kills_at_any_moment_drop_one_line_at_most(tmp_path: pathlib.Path) -> None:
    """By SIGKILL, not by an exception: nothing is there to tidy up."""
    for i in range(5):
        spool.append(str(tmp_path), b"%d" % i)
    code = (
        "import os, signal, sys\nsys.path.insert(0, sys.argv[1])\nfrom gitmem.hooks import"
        " spool\nspool.drain(sys.argv[2], lambda lines: os.kill(os.getpid(), signal.SIGKILL))"
    )
    for name in ("spool.taken", "spool.again"):
        assert (
            subprocess.run(
                [
                    sys.executable,
                    "-c",
                    code,
                    str(pathlib.Path(spool.__file__).parent.parent.parent),
                    str(tmp_path),
                ],
                check=False,
            ).returncode
            < 0
        )
        assert (tmp_path / name).exists()
    dropped: list[str] = []
    found: list[bytes] = []
    spool.drain(str(tmp_path), found.extend, log=dropped.append)
    assert (
        found == [b"1", b"2", b"3", b"4"] and "1 events given up: a worker was killed" in dropped[0]
    )


def test_whoever_interrupts_a_drain_loses_nothing(tmp_path: pathlib.Path) -> None:
    spool.append(str(tmp_path), b"mine")

    def interrupted(lines: list[bytes]) -> None:
        raise KeyboardInterrupt

    for _ in range(4):
        with pytest.raises(KeyboardInterrupt):
            spool.drain(str(tmp_path), interrupted)
    assert drained(tmp_path) == [b"mine"]


@pytest.mark.parametrize("short", [True, False])
def test_what_failed_stays_where_it_is_while_the_disk_is_full(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, short: bool
) -> None:
    lines = [b"%d" % i for i in range(30)]
    for line in lines:
        spool.append(str(tmp_path), line)
    real = os.write

    def full(fd: int, data: bytes) -> int:
        if short:
            return real(fd, data[: len(data) // 2])
        raise OSError(28, "No space left on device")

    for _ in range(4):
        with monkeypatch.context() as m:
            m.setattr(os, "write", full)
            with pytest.raises(OSError, match="No space"):
                spool.drain(str(tmp_path), lambda lines: lines)
        assert spool.waiting(str(tmp_path)) and not (tmp_path / "spool.later").read_bytes()
    spool.drain(str(tmp_path), lambda lines: lines, later=False)
    assert drained(tmp_path) == lines


def test_an_append_that_was_cut_short_says_so(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write
    with monkeypatch.context() as m:
        m.setattr(os, "write", lambda fd, data: real(fd, data[:3]))
        with pytest.raises(OSError, match="No space"):
            spool.append(str(tmp_path), b"torn")
    spool.append(str(tmp_path), b"whole")
    assert drained(tmp_path) == [b"to", b"whole"]


def test_a_torn_line_costs_only_itself(tmp_path: pathlib.Path) -> None:
    (tmp_path / "spool").write_bytes(b'{"whole":1}\n{"torn":')
    spool.append(str(tmp_path), b'{"whole":2}')
    assert drained(tmp_path) == [b'{"whole":1}', b'{"torn":', b'{"whole":2}']


@pytest.mark.parametrize("line", [b"two\nlines", b"x" * (spool.LONGEST + 1)])
def test_what_is_no_line_is_refused(tmp_path: pathlib.Path, line: bytes) -> None:
    with pytest.raises(ValueError, match="one line"):
        spool.append(str(tmp_path), line)
    assert not spool.waiting(str(tmp_path))


def test_the_spool_never_grows_past_its_bound_and_keeps_the_newest(tmp_path: pathlib.Path) -> None:
    line = b"x" * 100_000
    for i in range(120):
        spool.append(str(tmp_path), line + b"%d" % i)
        assert sum(p.stat().st_size for p in tmp_path.glob("spool*")) <= spool.MOST + len(line) + 10
    found = [int(x[100_000:]) for x in drained(tmp_path)]
    assert found == list(range(found[0], 120)) and len(found) >= 25


def test_nothing_is_older_than_a_day_while_others_append(tmp_path: pathlib.Path) -> None:
    def later(hours: float) -> None:
        for p in tmp_path.glob("spool*"):
            os.utime(p, (time.time() - hours * 3600, time.time() - hours * 3600))

    spool.append(str(tmp_path), b"first")
    later(13)
    spool.append(str(tmp_path), b"second")  # begins a new file after its line
    later(13)
    spool.append(str(tmp_path), b"third")
    assert b"first" not in drained(tmp_path)


def test_what_nobody_has_touched_for_a_day_is_dropped(tmp_path: pathlib.Path) -> None:
    spool.append(str(tmp_path), b"old")
    os.utime(tmp_path / "spool", (1, 1))
    assert drained(tmp_path) == []


def test_what_finds_no_place_among_what_failed_is_told_once(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "MOST", 60)
    told: list[str] = []
    for n in range(6):
        spool.append(str(tmp_path), b'{"event":"x%d"}' % n)
        spool.drain(str(tmp_path), lambda lines: lines, later=False, log=told.append)
    kept = (tmp_path / "spool.later").read_bytes().split()
    assert 1 <= len(kept) < 6 and len(told) == 6 - len(kept)
    assert all(text.startswith("1 events given up: too many") for text in told)
    told.clear()
    for n in range(3):
        spool.append(str(tmp_path), b'{"event":"y%d"}' % n)
    spool.drain(str(tmp_path), lambda lines: lines, later=False, log=told.append)
    assert len(told) == 1 and told[0].startswith("3 events given up")
