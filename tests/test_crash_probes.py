"""The tests of crashes can fail: they find a writer that is wrong on purpose."""

from __future__ import annotations

import random
import shutil
import sys
from collections import Counter

import pytest
from crash_world import NEW, OLD, SECRET, sound
from faults.harness import MEM, Bench, cut

pytest_plugins = ["crash_world"]


def broken(code: str) -> list[str]:
    """The executable with something taken out of it."""
    return [
        sys.executable,
        "-c",
        (
            "import sys, os\nfrom gitmem.notes import note_store; from"
            f" gitmem.git import reflock\n{code}\nsys.argv[0] = 'git-mem'\nfrom gitmem.__main__"
            " import main\nsys.exit(main())"
        ),
        "remember",
        NEW,
    ]


def must_fail(bench: Bench, argv: list[str], words: str, path: str, **more: bool) -> None:
    """Some kill at or after a call on `path` shows what is wrong with the executable."""
    whole = bench.run(argv)
    assert whole.status == 0, whole.error
    found: list[str] = []
    for at in [
        n for e in reversed(whole.events) if path in e.path for n in (e.number + 1, e.number)
    ]:
        run = bench.run(argv, at)
        try:
            sound(bench.lab, run, [*OLD, SECRET], [NEW], acknowledged="remembered" in run.answer)
        except Exception as e:
            found.append(str(e))
            if words in found[-1]:
                return
    pytest.fail(f"the fault was not found: {found}")


def test_the_probe_finds_a_writer_that_answers_too_early(bench: Bench) -> None:
    code = (
        "real = note_store.Notes.append\ndef append(*a, **k):\n    print('remembered', flush=True);"
        " os.fsync(1)\n    return real(*a, **k)\nnote_store.Notes.append = append"
    )
    must_fail(bench, broken(code), "the answer was given", "/answer")


def test_the_probe_finds_a_writer_that_moves_the_ref_in_steps(bench: Bench) -> None:
    """In many, byte by byte: the cache before it takes some calls more in one run than another."""
    code = (
        "real = note_store.Notes.append\ndef append(self, *a, **k):\n    path ="
        " os.path.join(self.git.common_dir, self.ref)\n    old = open(path).read()\n    new ="
        " real(self, *a, **k)\n    open(path, 'w').close(); f = os.open(path, os.O_WRONLY);"
        " [os.write(f, bytes([one])) for one in new.encode() + b'\\n']; return new\n"
        "note_store.Notes.append = append"
    )
    must_fail(bench, broken(code), "invalid", "/refs/notes/mem/team")


@pytest.mark.parametrize(
    ("code", "undo", "words"),
    [
        ("reflock.SYNCED = ()", False, "empty"),
        ("reflock.sync_names = lambda *a: None", True, "the answer was given"),
        ("", True, ""),
        ("", False, ""),
    ],
    ids=["files not synced", "names not synced", "as it is, names undone", "as it is"],
)
def test_the_probe_finds_a_writer_that_does_not_sync(
    bench: Bench, code: str, undo: bool, words: str
) -> None:
    """A power cut right after the answer: all that is not synced goes, up to the first name that no
    sync covers.
    """

    class First(random.Random):
        def randrange(self, *a: int) -> int:  # type: ignore[override]
            return 0

    run = bench.run(broken(code))
    assert run.status == 0 and "remembered" in run.answer
    cut(run, bench.root / "template", First(1), lose=1.0, fill="empty", undo=undo)
    try:
        sound(bench.lab, run, [*OLD, SECRET], [NEW], acknowledged=True, quiet=False)
    except Exception as e:
        assert words and words in str(e), e
    else:
        assert not words, "a writer that syncs nothing passed"


def test_the_shim_sees_what_the_kernel_sees(bench: Bench) -> None:
    """Every file below .git that the kernel was asked to create, name or remove is in the shim's
    log.
    """
    if not shutil.which("strace"):
        pytest.skip("no strace")
    trace = bench.root / "trace"
    run = bench.run(
        [
            "strace",
            "-f",
            "-qq",
            "-o",
            str(trace),
            "-e",
            "trace=rename,renameat,renameat2,link,linkat,unlink,unlinkat,mkdir,mkdirat,fsync,fdatasync,ftruncate",
            *MEM,
            "remember",
            NEW,
        ]
    )
    if "Operation not permitted" in run.error:
        pytest.skip("strace may not trace here")
    assert run.status == 0, run.error
    names = {
        "renameat": "rename",
        "renameat2": "rename",
        "linkat": "link",
        "unlinkat": "unlink",
        "mkdirat": "mkdir",
        "fdatasync": "sync",
        "fsync": "sync",
        "ftruncate": "cut",
    }
    calls, begun = [], {}
    for row in trace.read_text().splitlines():
        pid, call = row.split(None, 1)
        if call.endswith("<unfinished ...>"):  # another process came between: its end follows
            begun[pid] = call
            continue
        if call.startswith("<... "):
            call = begun.pop(pid) + call
        if "ENOENT" not in call and "EEXIST" not in call:
            calls.append(call)
    calls = [
        row for row in calls if f"{run.root}/state" not in row and f"{run.root}/keep" not in row
    ]
    kernel = Counter(
        names.get(name, name) for row in calls if (name := row.split("(")[0]).isidentifier()
    )
    shim = Counter(e.call for e in run.events)
    assert kernel["rename"] >= 2 and kernel["link"] >= 3 and kernel["sync"] >= 7
    assert {name: shim[name] for name in kernel} == dict(kernel)
