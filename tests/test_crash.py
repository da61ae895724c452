"""git mem dies, its disk fills up, its power fails, at every call that changes a file: nothing
acknowledged is lost, nothing half-written is seen.

`GIT_MEM_FAULTS=all` fails at every call, else at a fixed choice of them (GIT_MEM_FAULTS_SEED
chooses another). docs/reliability.md says what is promised."""

from __future__ import annotations

import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator

import pytest
from conftest import Lab
from faults.harness import ALL, MEM, SEED, Bench, Run, Unavailable, build, cut

from gitmem.core import record
from gitmem.engine import cache_check
from gitmem.engine.filters import Filter
from gitmem.memory import recall, remember
from gitmem.store import open_store

REF = "refs/notes/mem/team"
OLD = ["the first invoice is stored in cents", "the second invoice is stored in euros"]
SECRET = "the third invoice is private"
NEW = "the fourth invoice arrives now"
AFTER = "the last invoice is written afterwards"


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    try:
        return build(tmp_path_factory.mktemp("shim"))
    except Unavailable as e:
        pytest.skip(f"no faults can be injected here: {e}")


@pytest.fixture(scope="session")
def first(library: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Two memories of the team and a private one, all of them acknowledged; the cache knows two of
    them.
    """
    made = Bench(Lab(tmp_path_factory.mktemp("first")), library)
    for text in OLD:
        made.lab.mem(made.template, "remember", text)
    made.lab.mem(made.template, "list")
    made.lab.mem(made.template, "remember", "--private", SECRET)
    return made


@pytest.fixture
def bench(lab: Lab, library: pathlib.Path, first: Bench) -> Bench:
    return Bench(lab, library, first)


@pytest.fixture
def empty(lab: Lab, library: pathlib.Path) -> Bench:
    """A repository without any memory."""
    return Bench(lab, library)


def records(lab: Lab, repo: pathlib.Path) -> list[record.Record]:
    """All records of both refs, read with stock git; every line must be a whole one."""
    out = []
    for ref in ("mem/team", "mem/private"):
        for line in lab.lines(repo, ref):
            parsed = record.parse(line.encode())
            assert parsed is not None, f"half a record: {line[:80]}"
            out.append(parsed)
    return out


def pass_time(repo: pathlib.Path) -> None:
    """A minute passes: a writer waits ten seconds before it judges a lock."""
    places = [repo / ".git" / place for place in ("refs", "logs", "reftable")]
    found = [lock for place in places for lock in place.rglob("*.lock")]
    for path in [*found, *(repo / ".git").glob("packed-refs.*")]:
        past = path.stat().st_mtime - 60
        os.utime(path, (past, past))


def sound(
    lab: Lab,
    run: Run,
    kept: list[str],
    new: list[str],
    *,
    acknowledged: bool = False,
    quiet: bool = True,
) -> set[str]:
    """What must hold after any fault; returns which of the `new` texts are there.

    The repository is valid; every text in `kept` is there; of the `new` ones each is there whole or
    not at all, and all of them if the answer was given. The next write and the next question
    succeed at once and without a word (if `quiet`), and the cache is right."""
    fsck = lab.run(run.repo, "git", "fsck", "--strict", "--no-dangling")
    assert fsck.returncode == 0 and "error" not in fsck.stderr, fsck.stderr + fsck.stdout
    pass_time(run.repo)
    said: list[str] = []
    store = open_store({"GIT_MEM_ENCODER": "false"}, str(run.repo), said.append)
    try:
        assert remember.remember(store, [{"body": AFTER}])[0].status == remember.STORED
        found = {str(r.data["body"]) for r in records(lab, run.repo) if r.op in record.CONTENT_OPS}
        assert set(kept) <= found, "acknowledged and lost"
        assert found - {*kept, *new} == {AFTER}, "something nobody wrote"
        assert not acknowledged or set(new) <= found, "the answer was given and the memory is lost"
        answer = recall.recall(store, "which invoice", Filter(), limit=500)
        assert not answer["degraded"] and AFTER in {h["body"] for h in answer["hits"]}
        assert store.with_cache(lambda cache: cache_check.check_all(cache, store.table)) == (
            "",
            True,
        )
    finally:
        store.close()
    assert not quiet or not said, said
    return found & set(new)


# Killed at every call


def test_a_remember_killed_at_any_call(bench: Bench) -> None:
    seen: set[bool] = set()

    def one(run: Run, at: int) -> None:
        there = sound(
            bench.lab, run, [*OLD, SECRET], [NEW], acknowledged="remembered" in run.answer
        )
        seen.add(bool(there))
        if at % 3:
            return
        # And by the executable itself, which also says nothing.
        done = bench.lab.run(run.repo, *MEM, "recall", AFTER, "--json")
        assert (
            done.returncode == 0
            and done.stderr == ""
            and json.loads(done.stdout)["hits"][0]["body"] == AFTER
        )

    bench.each([*MEM, "remember", NEW], one, share=18)
    assert seen == {False, True}  # some runs died before the ref moved and some after


def test_the_first_remember_killed_at_any_call(empty: Bench) -> None:
    empty.each(
        [*MEM, "remember", NEW],
        lambda run, at: (
            sound(empty.lab, run, [], [NEW], acknowledged="remembered" in run.answer) and None
        ),
        share=10,
    )


@pytest.mark.parametrize("command", ["edit", "forget", "supersede", "share"])
def test_a_change_killed_at_any_call(bench: Bench, command: str) -> None:
    lab = bench.lab
    first = next(
        m["id"]
        for m in lab.json(bench.template, "list")
        if m["body"] == (SECRET if command == "share" else OLD[0])
    )
    argv = {"edit": ["edit", first, "-m", NEW], "supersede": ["supersede", first, NEW]}.get(
        command, [command, first]
    )

    def one(run: Run, at: int) -> None:
        there = sound(
            lab,
            run,
            [*OLD, SECRET],
            [NEW] if command in ("edit", "supersede") else [],
            acknowledged=bool(run.answer),
        )
        shown = {m["body"] for m in lab.json(run.repo, "list")}
        assert shown >= {OLD[1], SECRET, AFTER}
        if command == "forget":
            assert not run.answer or OLD[0] not in shown
        elif command == "share":
            assert not run.answer or sum(r.op == "share" for r in records(lab, run.repo)) == 1
        else:
            assert (OLD[0] in shown) == (NEW not in there)

    bench.each([*MEM, *argv], one, share=5)


BULK = (
    "import gitmem.cli.write as w; w._BLOCK = 6; import sys; sys.argv[0] = 'git-mem'; from"
    " gitmem.__main__ import main; sys.exit(main())"
)


@pytest.mark.parametrize("limit", [2, 100], ids=["pack", "loose"])
def test_a_bulk_import_killed_at_any_call(bench: Bench, limit: int) -> None:
    """Blocks of six lines: each is there whole or not at all, in order; what the answer names is
    there. As a pack that stays, and as loose objects.
    """
    lab = bench.lab
    lab.git(bench.template, "config", "fastimport.unpackLimit", str(limit))
    texts = [f"invoice number {i} of the import " + "x" * 200 for i in range(18)]
    lines = "".join(json.dumps({"body": t}) + "\n" for t in texts)

    def one(run: Run, at: int) -> None:
        there = sound(lab, run, [*OLD, SECRET], texts)
        assert there == set(texts[: len(there)]) and len(there) % 6 == 0
        ids = {json.loads(row)["id"] for row in run.answer.splitlines() if row.endswith("}")}
        assert ids <= {r.id for r in records(lab, run.repo)}

    bench.each(
        [sys.executable, "-c", BULK, "remember", "--jsonl", "-", "--json"],
        one,
        share=7,
        stdin=lines,
    )


def test_an_index_killed_at_any_call(bench: Bench) -> None:
    shutil.rmtree(bench.template / ".git" / "mem")
    bench.each(
        [*MEM, "index"], lambda run, at: sound(bench.lab, run, [*OLD, SECRET], []) and None, share=6
    )


def test_one_process_of_a_remember_killed_at_any_call(bench: Bench) -> None:
    """The kernel ends a single process when memory is short: git dies and we say so, or we die and
    git goes on.
    """

    def one(run: Run, at: int) -> None:
        assert (
            run.status in (0, 1, -signal.SIGKILL)
            and "Traceback" not in run.error
            and "bug:" not in run.error
        )
        there = sound(
            bench.lab, run, [*OLD, SECRET], [NEW], acknowledged=run.status == 0, quiet=False
        )
        assert not (there and "nothing was written" in run.error)

    bench.each([*MEM, "remember", NEW], one, share=8, env={"FAULT_ALONE": "1"})


# Killed while it talks to a remote

THEIRS = "the fifth invoice comes from a colleague"


@pytest.fixture
def shared(bench: Bench) -> Bench:
    """The repository of `bench`, two memories ahead of a remote that is one memory ahead of it.

    Nobody kills the remote's own processes: they are of another machine.
    """
    lab, root = bench.lab, bench.root / "template"
    lab.git(root, "clone", "-q", "--bare", "repo", "hub.git")
    lab.git(root, "clone", "-q", "hub.git", "colleague")
    lab.mem(root / "colleague", "remember", THEIRS)
    lab.git(root / "colleague", "push", "-q", "origin", REF)
    shutil.rmtree(root / "colleague")
    for key, value in {
        "url": "../hub.git",
        "fetch": "+refs/heads/*:refs/remotes/origin/*",
        "uploadpack": "setsid -w git-upload-pack",
        "receivepack": "setsid -w git-receive-pack",
    }.items():
        lab.git(bench.template, "config", f"remote.origin.{key}", value)
    return bench


@pytest.mark.parametrize("before", [False, True], ids=["first", "again"])
def test_a_sync_killed_at_any_call(shared: Bench, before: bool) -> None:
    """Here and at the remote all is whole; the next sync brings both together."""
    lab = shared.lab
    if before:  # the tracking copy is there, and both sides went on
        lab.mem(shared.template, "sync")
        lab.mem(shared.template, "remember", NEW)

    def one(run: Run, at: int) -> None:
        hub = run.root / "hub.git"
        lab.git(hub, "fsck", "--strict", "--no-dangling")
        sound(
            lab,
            run,
            [*OLD, SECRET, *([NEW, THEIRS] if before else [])],
            [] if before else [THEIRS],
            quiet=False,
        )
        done = lab.run(run.repo, *MEM, "sync")
        assert done.returncode == 0, done.stderr
        there = {
            str(r.data["body"]) for line in lab.lines(hub) if (r := record.parse(line.encode()))
        }
        assert there == {*OLD, THEIRS, AFTER, *([NEW] if before else [])}
        assert there <= {m["body"] for m in lab.json(run.repo, "list")}

    shared.each([*MEM, "sync"], one, share=6)


def test_a_power_cut_at_any_call_of_a_sync(shared: Bench) -> None:
    power(shared, [*MEM, "sync"], [*OLD, SECRET], [THEIRS], 5)


def test_a_purge_killed_at_any_call(bench: Bench) -> None:
    """Said to be done, it is: no object here has the text.

    Cut off, it is finished by the same call, or by the next sync; nothing else is lost.
    """
    lab = bench.lab
    id = next(m["id"] for m in lab.json(bench.template, "list") if m["body"] == OLD[0])

    def here(repo: pathlib.Path) -> bool:
        out = subprocess.run(
            ["sh", "-c", "git cat-file --batch-all-objects --batch"],
            cwd=repo,
            env=lab.env,
            capture_output=True,
            check=True,
        ).stdout
        return OLD[0].encode() in out or any(
            OLD[0].encode() in p.read_bytes() for p in (repo / ".git" / "mem").iterdir()
        )

    def one(run: Run, at: int) -> None:
        if run.answer:
            assert not here(run.repo)
        sound(lab, run, [OLD[1], SECRET], [OLD[0]], quiet=False)
        pass_time(run.repo)
        done = lab.run(run.repo, *MEM, "purge", id, "--force")
        assert done.returncode in (0, 1) and "Traceback" not in done.stderr, done.stderr
        assert done.returncode == 0 or "no memory" in done.stderr, done.stderr
        assert not here(run.repo), done.stdout + done.stderr
        assert {m["body"] for m in lab.json(run.repo, "list")} == {OLD[1], SECRET, AFTER}

    bench.each([*MEM, "purge", id, "--force"], one, share=7)


# The power fails


def power(
    bench: Bench, argv: list[str], kept: list[str], new: list[str], share: int, stdin: str = ""
) -> None:
    """Power cuts at calls of a command, and after its end; how much is lost is chosen by the seed
    and the call.
    """
    template = bench.root / "template"

    def one(run: Run, at: int) -> None:
        said = bool(run.answer)
        for variant in range(2 if ALL else 1):
            root = bench.root / f"{run.root.name}-{variant}"
            shutil.copytree(run.root, root, symlinks=True)
            rng = random.Random(f"{SEED} {at} {variant}")
            moved = Run(
                root,
                run.status,
                run.answer,
                run.error,
                run.calls,
                run.processes,
                [
                    e._replace(
                        path=e.path.replace(str(run.root), str(root)),
                        more=e.more.replace(str(run.root), str(root)),
                    )
                    for e in run.events
                ],
            )
            lost = cut(
                moved,
                template,
                rng,
                lose=rng.choice([1.0, 0.5]),
                fill=rng.choice(["empty", "zeros"]),
                undo=rng.random() < 0.5,
            )
            try:
                sound(bench.lab, moved, kept, new, acknowledged=said, quiet=False)
            except BaseException as e:
                e.add_note(f"power cut, variant {variant}; lost: {lost}")
                raise
            shutil.rmtree(root)

    bench.each(argv, one, share=share, stdin=stdin)


def test_a_power_cut_at_any_call_of_a_remember(bench: Bench) -> None:
    power(bench, [*MEM, "remember", NEW], [*OLD, SECRET], [NEW], 12)


def test_a_power_cut_at_any_call_of_the_first_remember(empty: Bench) -> None:
    power(empty, [*MEM, "remember", NEW], [], [NEW], 8)


def test_a_power_cut_in_an_import_keeps_the_blocks_that_were_answered(bench: Bench) -> None:
    bench.lab.git(bench.template, "config", "fastimport.unpackLimit", "2")
    texts = [f"invoice number {i} of the import" for i in range(18)]
    lines = "".join(json.dumps({"body": t}) + "\n" for t in texts)

    def one(run: Run, at: int) -> None:
        rng = random.Random(f"{SEED} {at}")
        answered = {json.loads(row)["id"] for row in run.answer.splitlines() if row.endswith("}")}
        lost = cut(
            run,
            bench.root / "template",
            rng,
            lose=rng.choice([1.0, 0.5]),
            fill=rng.choice(["empty", "zeros"]),
            undo=rng.random() < 0.5,
        )
        there = sound(bench.lab, run, [*OLD, SECRET], texts, quiet=False)
        assert there == set(texts[: len(there)]) and len(there) % 6 == 0
        assert answered <= {r.id for r in records(bench.lab, run.repo)}, lost

    bench.each(
        [sys.executable, "-uc", BULK, "remember", "--jsonl", "-", "--json"],
        one,
        share=6,
        stdin=lines,
    )


# The disk is full, broken or read-only


def refused_or_stored(bench: Bench, run: Run, *, disk_works_again: bool = True) -> None:
    """A write on a bad disk is done, or refused in words; the words are true."""
    assert run.status in (0, 1) and "Traceback" not in run.error and "bug:" not in run.error, (
        run.error
    )
    assert run.status == 0 or "error: " in run.error, run.error
    there = sound(bench.lab, run, [*OLD, SECRET], [NEW], acknowledged=run.status == 0, quiet=False)
    assert not (there and "nothing was written" in run.error), run.error


@pytest.mark.parametrize(
    ("mode", "once", "share"),
    [("enospc", False, 7), ("eio", False, 5), ("eio", True, 6), ("short", True, 4)],
    ids=["full", "broken", "broken once", "short write"],
)
def test_a_remember_whose_disk_fails_at_any_call(
    bench: Bench, mode: str, once: bool, share: int
) -> None:
    bench.each(
        [*MEM, "remember", NEW],
        lambda run, at: refused_or_stored(bench, run),
        share=share,
        mode=mode,
        once=once,
    )


def test_on_a_full_disk_nothing_is_written_and_recall_answers(bench: Bench) -> None:
    run = bench.run([*MEM, "remember", NEW], at=1, mode="enospc")
    assert (
        run.status == 1
        and "error: cannot write 'refs/notes/mem/team'" in run.error
        and "No space left" in run.error
    ), run.error
    asked = bench.run(
        [*MEM, "recall", "which invoice is stored in cents", "--json"],
        at=1,
        mode="enospc",
        root=run.root,
    )
    assert asked.status == 0 and json.loads(asked.answer)["hits"][0]["body"] == OLD[0]
    assert (
        asked.error.count("\n") <= 1
        and "warning: the memory cache cannot be written" in asked.error
    )
    assert sound(bench.lab, run, [*OLD, SECRET], [NEW]) == set()


def mounted(where: pathlib.Path, *options: str) -> None:
    done = subprocess.run(
        ["mount", *options, str(where)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"no file system may be mounted here: {done.stderr.strip()}")


@pytest.fixture
def small_disk(lab: Lab) -> Iterator[pathlib.Path]:
    """A file system of 2 MiB."""
    where = lab.root / "disk"
    where.mkdir()
    if os.getuid() != 0:
        pytest.skip("only root may mount a small disk")
    mounted(where, "-t", "tmpfs", "-o", "size=2m", "tmpfs")
    yield where
    subprocess.run(["umount", "-l", str(where)], check=True)


def test_a_disk_that_really_fills_up(lab: Lab, small_disk: pathlib.Path) -> None:
    """Memories of growing size until nothing more goes in; then space comes back."""
    lab.git(lab.root, "init", "-q", "--template=", "-b", "main", str(small_disk / "repo"))
    repo = small_disk / "repo"
    lab.git(repo, "commit", "-q", "--allow-empty", "-m", "c")
    rng = random.Random(SEED)
    ballast = small_disk / "ballast"
    stored: list[str] = []
    refusals = 0
    for i in range(40):
        if i == 3:
            ballast.write_bytes(bytes(1_000_000))
        text = f"invoice {i} " + rng.randbytes(1000 * i).hex()
        done = lab.run(repo, *MEM, "remember", "--stdin", "--allow-secret", stdin=text)
        assert (
            done.returncode in (0, 1)
            and "Traceback" not in done.stderr
            and "bug:" not in done.stderr
        ), done.stderr
        if done.returncode == 0:
            stored.append(text)
        else:
            refusals += 1
            assert "space" in done.stderr and "nothing was written" in done.stderr, done.stderr
            asked = lab.run(repo, *MEM, "recall", "invoice 1", "--json")
            assert asked.returncode == 0 and json.loads(asked.stdout)["hits"], asked.stderr
            if refusals == 3:
                break
    assert stored and refusals == 3
    ballast.unlink()
    lab.mem(repo, "remember", AFTER)
    assert {m["body"] for m in lab.json(repo, "list")} == {*stored, AFTER}
    lab.git(repo, "fsck", "--strict")


def test_a_limit_on_the_size_of_files(bench: Bench) -> None:
    """As a quota does: the process that writes past it is ended by a signal, or gets an error."""
    text = "x y " + random.Random(SEED).randbytes(20_000).hex()
    run = bench.copy()

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))

    done = subprocess.run(
        [*MEM, "remember", "--stdin", "--allow-secret"],
        cwd=run / "repo",
        env=bench.lab.env,
        input=text,
        text=True,
        capture_output=True,
        preexec_fn=limit,
        check=False,
    )
    assert done.returncode == 1 and "error: cannot write 'refs/notes/mem/team'" in done.stderr, (
        done.stderr
    )
    left = Run(run, 1, "", done.stderr, 0, 0, [])
    assert sound(bench.lab, left, [*OLD, SECRET], [text], quiet=False) == set()


def test_a_read_only_repository_is_read_and_refuses_to_be_written(bench: Bench) -> None:
    repo = bench.copy() / "repo"
    if os.getuid() == 0:
        mounted(repo, "--bind", str(repo))
        mounted(repo, "-o", "remount,ro,bind")
    else:
        subprocess.run(["chmod", "-R", "a-w", str(repo)], check=True)
    try:
        done = bench.lab.run(repo, *MEM, "remember", NEW)
        assert (
            done.returncode == 1
            and "error: cannot write 'refs/notes/mem/team'" in done.stderr
            and "Traceback" not in done.stderr
        ), done.stderr
        asked = bench.lab.run(repo, *MEM, "recall", "which invoice is stored in cents", "--json")
        assert asked.returncode == 0 and json.loads(asked.stdout)["hits"][0]["body"] == OLD[0], (
            asked.stderr
        )
    finally:
        if os.getuid() == 0:
            subprocess.run(["umount", "-l", str(repo)], check=True)
        else:
            subprocess.run(["chmod", "-R", "u+w", str(repo)], check=True)
    assert (
        sound(bench.lab, Run(repo.parent, 1, "", "", 0, 0, []), [*OLD, SECRET], [NEW], quiet=False)
        == set()
    )


# Each harness can fail


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


def test_the_probe_finds_a_writer_that_moves_the_ref_in_two_steps(bench: Bench) -> None:
    code = (
        "real = note_store.Notes.append\ndef append(self, *a, **k):\n    path ="
        " os.path.join(self.git.common_dir, self.ref)\n    old = open(path).read()\n    new ="
        " real(self, *a, **k)\n    open(path, 'w').close(); f = os.open(path, os.O_WRONLY);"
        " os.write(f, new.encode() + b'\\n'); return new\nnote_store.Notes.append = append"
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
    # Of a call that another process interrupts strace tells the beginning and the end apart.
    calls = [
        row.split(None, 1)[1]
        for row in trace.read_text().splitlines()
        if " resumed>" not in row and "ENOENT" not in row and "EEXIST" not in row
    ]
    calls = [
        row for row in calls if f"{run.root}/state" not in row and f"{run.root}/keep" not in row
    ]
    kernel = Counter(
        names.get(name, name) for row in calls if (name := row.split("(")[0]).isidentifier()
    )
    shim = Counter(e.call for e in run.events)
    assert kernel["rename"] >= 2 and kernel["link"] >= 3 and kernel["sync"] >= 7
    assert {name: shim[name] for name in kernel} == dict(kernel)
