"""A hook's way to the memories: nothing new costs no git, a little new is taken in, anything else
still gets an answer.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import sys
import time
from typing import Any

import pytest
from conftest import Lab

from gitmem import worker
from gitmem.agents import fallback, hook_cache
from gitmem.core import record, record_content
from gitmem.engine import cache as cache_file
from gitmem.engine import cache_lock, memory_rows
from gitmem.engine.cache import Cache
from gitmem.engine.filters import Filter
from gitmem.engine.search import Search
from gitmem.git import discover as here_file
from gitmem.git.discover import Here
from gitmem.hooks import spool
from gitmem.store import open_store


def place(repo: pathlib.Path) -> Here:
    found = here_file.find(str(repo), os.environ)
    assert found is not None
    return found


def events(repo: pathlib.Path) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    mem = repo / ".git" / "mem"
    for name in ("spool.old", "spool"):
        if (mem / name).exists():
            out += [json.loads(line) for line in (mem / name).read_bytes().split(b"\n") if line]
    return out


@pytest.fixture(autouse=True)
def no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked of the worker stays in the spool, to be looked at."""
    monkeypatch.setattr(spool, "wake", lambda common: False)


def far() -> float:
    return time.monotonic() + 60


def hits(question: str) -> Any:
    def ask(cache: Cache) -> list[str]:
        found, _, _ = Search(cache, hook_cache.vector).ask(question, Filter(), 5)
        return [
            str(data["body"]) for data, _, _ in memory_rows.load(cache, [hit.row for hit in found])
        ]

    return ask


def filled(lab: Lab, count: int = 3) -> pathlib.Path:
    """A repository with memories, all of them in the cache."""
    repo = lab.repo()
    add(lab, repo, [f"the payment worker number {n} retries twice" for n in range(count)])
    lab.mem(repo, "index")
    return repo


def add(lab: Lab, repo: pathlib.Path, bodies: list[str], **fields: str) -> None:
    """Memories that the cache has not seen, as after a fetch."""
    store = open_store(os.environ, str(repo))
    head = store.repo.head()
    records = [
        record.create(record_content.checked({"body": body, **fields}), commit=head)
        for body in bodies
    ]
    store.append("team", [(head, line) for line in store.lines(records)], "more memories")
    store.close()


def test_where_nothing_is_new_the_answer_is_fresh_and_nobody_is_asked(lab: Lab) -> None:
    repo = filled(lab)
    answer, fresh = hook_cache.with_memories(place(repo), hits("payment worker"), far())
    assert fresh and answer and len(answer) == 3 and events(repo) == []


def test_what_arrived_a_second_ago_is_found_and_the_worker_hears_of_it(lab: Lab) -> None:
    repo = filled(lab)
    add(lab, repo, [f"invoice {n} is rounded to whole cents by the ledger" for n in range(50)])
    answer, fresh = hook_cache.with_memories(place(repo), hits("who rounds invoices"), far())
    assert fresh and answer and "ledger" in answer[0]
    assert [e["event"] for e in events(repo)] == ["behind"]
    _, fresh = hook_cache.with_memories(place(repo), hits("x"), far())
    assert fresh and len(events(repo)) == 1


def test_a_prompt_asks_for_the_encoders_vectors_where_no_model_replaces_it(lab: Lab) -> None:
    repo = filled(lab)
    lab.git(repo, "config", "mem.promptContext", "true")
    mem = repo / ".git" / "mem"
    spool.claim(str(mem), os.getpid())  # what is asked stays in the spool
    env = {"GIT_MEM_ENCODER": "true", "GIT_MEM_PATIENCE": "50"}

    def asked(session: str) -> list[str]:
        text = json.dumps(
            {
                "session_id": session,
                "cwd": str(repo),
                "hook_event_name": "UserPromptSubmit",
                "prompt": "is it true that the payment worker number 2 retries twice?",
            }
        )
        (mem / "spool").unlink(missing_ok=True)
        told = lab.run(repo, "git-mem", "hook", "UserPromptSubmit", stdin=text, env=env)
        assert "payment worker number 2" in told.stdout
        return [e["event"] for e in events(repo)]

    asked("the states of anchors are not known yet")
    lab.mem(repo, "recall", "payment worker")
    assert asked("encoder") == ["behind"]
    lab.git(repo, "config", "mem.embedModel", "/a/model.gguf")
    assert asked("model") == [], "the worker makes that one's, which help a session that keeps it"


def test_more_than_can_be_taken_in_is_answered_without_it(lab: Lab) -> None:
    repo = filled(lab)
    add(lab, repo, [f"invoice {n} is rounded to whole cents by the ledger" for n in range(201)])
    answer, fresh = hook_cache.with_memories(place(repo), hits("payment worker"), far())
    assert not fresh and answer and len(answer) == 3 and "payment" in answer[0]
    assert [e["event"] for e in events(repo)] == ["behind"]


def test_at_the_deadline_what_was_taken_in_stays_and_the_next_call_goes_on(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gitmem.engine import index
    from gitmem.engine.update import Update

    repo = filled(lab)
    add(lab, repo, [f"invoice {n} is rounded to whole cents by the ledger" for n in range(100)])
    taken: list[int] = []
    take = Update.take

    def counted(self: Update, batch: Any) -> int:
        taken.append(len(batch[0]))
        return take(self, batch)

    monkeypatch.setattr(Update, "take", counted)
    monkeypatch.setattr(index, "monotonic", lambda: 0.0 if len(taken) < 2 else 10.0**9)
    answer, fresh = hook_cache.with_memories(place(repo), lambda cache: cache.count(), far())
    assert not fresh and taken == [16, 16] and answer == 3 + 32
    assert [e["event"] for e in events(repo)] == ["behind"]
    monkeypatch.setattr(index, "monotonic", time.monotonic)
    assert hook_cache.with_memories(place(repo), lambda cache: cache.count(), far()) == (
        103,
        True,
    )


def test_a_late_call_takes_nothing_in(lab: Lab) -> None:
    repo = filled(lab)
    add(lab, repo, ["one more"])
    assert hook_cache.with_memories(
        place(repo), lambda cache: cache.count(), time.monotonic() - 1
    ) == (3, False)


def test_a_missing_cache_is_made_where_there_is_little(lab: Lab) -> None:
    repo = filled(lab)
    shutil.rmtree(repo / ".git" / "mem")
    assert hook_cache.with_memories(place(repo), lambda cache: cache.count(), far()) == (
        3,
        True,
    )


def test_without_memories_there_is_an_empty_answer_and_no_file(lab: Lab) -> None:
    repo = lab.repo()
    lab.git(repo, "config", "mem.limit", "3")
    assert hook_cache.with_memories(place(repo), lambda cache: cache.count(), far()) == (
        0,
        True,
    )
    assert not (repo / ".git" / "mem").exists()


def test_without_a_cache_and_with_many_memories_the_newest_blockers_come_from_the_notes(
    lab: Lab,
) -> None:
    repo = lab.repo()
    add(lab, repo, [f"invoice {n} is rounded" for n in range(250)])
    add(lab, repo, ["the release waits for the certificate"], type="blocker")

    def blockers(cache: Cache) -> list[str]:
        rows = [
            row
            for (row,) in cache.db.execute(
                "SELECT row FROM memory WHERE type = 'blocker' AND status = 0"
            )
        ]
        return [data["body"] for data, _, _ in memory_rows.load(cache, rows)]

    answer, fresh = hook_cache.with_memories(place(repo), blockers, far())
    assert answer == ["the release waits for the certificate"] and not fresh
    assert [e["event"] for e in events(repo)] == ["behind"]


def test_without_a_cache_a_decision_is_told_that_was_written_before_megabytes_of_others(
    lab: Lab,
) -> None:
    repo = lab.repo()
    add(lab, repo, ["all timestamps are UTC"], type="decision")
    add(lab, repo, [f"remark {n}: " + "rounded invoices, " * 100 for n in range(1_500)])

    def decisions(cache: Cache) -> list[str]:
        rows = [
            row
            for (row,) in cache.db.execute(
                "SELECT row FROM memory WHERE type = 'decision' AND status = 0"
            )
        ]
        return [data["body"] for data, _, _ in memory_rows.load(cache, rows)]

    answer, fresh = hook_cache.with_memories(place(repo), decisions, far())
    assert answer == ["all timestamps are UTC"] and not fresh


@pytest.mark.parametrize("what", ["text", "page", "cut", "no database"])
def test_a_damaged_cache_still_gives_an_answer_and_the_worker_makes_it_anew(
    lab: Lab, what: str
) -> None:
    repo = filled(lab)
    path = pathlib.Path(cache_file.path_of(str(repo / ".git" / "mem")))
    raw = bytearray(path.read_bytes())
    if what == "text":
        raw[raw.find(b"retries twice")] ^= 1
    elif what == "page":
        raw[5000:9000] = os.urandom(4000)
    elif what == "cut":
        del raw[len(raw) // 2 :]
    else:
        raw[:] = b"no database" * 2000
    stat = path.stat()
    path.write_bytes(raw)
    if what == "text":  # decay: nobody has written to the file as far as its stamp says
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    answer, fresh = hook_cache.with_memories(place(repo), hits("payment worker"), far())
    assert (
        not fresh
        and answer
        and len(answer) == 3
        and all("retries twice" in body for body in answer)
    )
    (event,) = events(repo)
    assert event["event"] == "behind" and event["damaged"] == path.stat().st_ino
    worker.run(str(repo / ".git"), os.environ, 0.0)
    assert hook_cache.with_memories(
        place(repo), lambda cache: len(hits("payment worker")(cache)), far()
    ) == (3, True)


def test_a_claim_of_damage_about_a_former_file_leaves_the_present_one(lab: Lab) -> None:
    repo = filled(lab)
    path = pathlib.Path(cache_file.path_of(str(repo / ".git" / "mem")))
    inode = path.stat().st_ino
    spool.append(str(repo / ".git" / "mem"), b'{"event":"behind","damaged":%d}' % (inode + 1))
    worker.run(str(repo / ".git"), os.environ, 0.0)
    assert path.stat().st_ino == inode


def test_what_was_forgotten_is_not_read_from_the_notes(lab: Lab) -> None:
    repo = lab.repo()
    add(lab, repo, ["keep the first", "drop the second"], type="decision")
    id = next(m["id"] for m in lab.json(repo, "list") if m["body"] == "drop the second")
    lab.mem(repo, "forget", id)
    found = fallback.memories(place(repo), hook_cache.table(), far())
    assert found is not None and found.count() == 1


def test_the_notes_are_read_within_bounds(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fallback, "MEMORIES", 7)
    repo = lab.repo()
    add(lab, repo, [f"invoice {n} is rounded" for n in range(50)])
    found = fallback.memories(place(repo), hook_cache.table(), far())
    assert found is not None and found.count() == 7
    assert fallback.memories(place(repo), hook_cache.table(), time.monotonic() - 1) is None


def test_a_bug_in_the_action_is_no_damage(lab: Lab) -> None:
    repo = filled(lab)
    with pytest.raises(ZeroDivisionError):
        hook_cache.with_memories(place(repo), lambda cache: 1 // 0, far())
    assert events(repo) == []


def test_records_below_the_policy_are_left_out(lab: Lab) -> None:
    from gitmem.signing import trust

    repo = filled(lab)
    lab.git(repo, "config", "mem.trust", "signed")
    found = place(repo)

    def ask(cache: Cache) -> int:
        return trust.Trust(found.settings, found.home).injectable(cache, Filter()).count(cache)

    assert hook_cache.with_memories(found, ask, far()) == (0, True)


PROBE = """
import sys
seen = []
sys.addaudithook(lambda event, args: seen.append((event, str(args[0]))) if event == "open" or event.startswith(("subprocess", "os.posix_spawn", "os.fork", "os.exec", "sqlite3.connect")) else None)
import os, time
from gitmem.agents import hook_cache
from gitmem.engine import anchor_state_store
from gitmem.engine.filters import Filter
from gitmem.engine.search import Search
from gitmem.git import discover as here_file
here = here_file.look(os.getcwd(), os.environ)
stand = lambda cache: lambda anchors: anchor_state_store.read(cache, anchors, here.head)
hits, fresh = hook_cache.with_memories(here, lambda cache: len(Search(cache, hook_cache.vector, stand(cache)).ask("payment worker", Filter(), 5)[0]), time.monotonic() + 60)
assert hits == 3 and fresh, (hits, fresh)
library = os.path.dirname(os.__file__)
package = os.path.dirname(os.path.dirname(hook_cache.__file__))
ours = [name for event, name in seen if not name.startswith((library, package, sys.prefix)) and not name.isdigit() and "lib-dynload" not in name]
print(len([1 for event, _ in seen if event.startswith(("subprocess", "os."))]), len(ours), sorted({m.split(".")[0] for m in sys.modules} & SLOW), ours)
"""  # noqa: E501


def test_a_question_starts_no_process_opens_few_files_and_loads_nothing_slow(lab: Lab) -> None:
    repo = filled(lab)
    os.utime(repo / ".git" / "config", ns=(10**18, 10**18))
    lab.mem(repo, "recall", "payment worker", "--hot")
    place(repo)  # git is asked once, and its answer kept
    slow = {
        "re",
        "json",
        "enum",
        "datetime",
        "contextlib",
        "typing",
        "dataclasses",
        "subprocess",
        "hashlib",
        "sqlite3",
        "copy",
        "tempfile",
        "inspect",
        "numpy",
        "random",
    }
    done = lab.run(repo, sys.executable, "-c", f"SLOW = {slow!r}\n{PROBE}")
    assert done.returncode == 0, done.stderr
    processes, files, rest = done.stdout.split(" ", 2)
    assert int(processes) == 0
    assert int(files) <= 16, rest
    assert rest.startswith("[] "), rest


def test_recall_hot_answers_as_a_hook_does(lab: Lab) -> None:
    repo = lab.repo(commits=2)
    lab.git(repo, "checkout", "-q", "-b", "side", "HEAD~1")
    (repo / "side.txt").write_text("x")
    lab.git(repo, "add", "-A")
    lab.git(repo, "commit", "-q", "-m", "aside")
    add(lab, repo, ["the payment worker retries twice on the side branch"])
    lab.git(repo, "checkout", "-q", "main")
    add(lab, repo, ["the payment worker retries twice"])
    from gitmem.engine import anchor_state_store

    def hook() -> list[tuple[str, float, str]]:
        here = place(repo)

        def ask(cache: Cache) -> list[tuple[str, float, str]]:
            found, _, _ = Search(
                cache,
                hook_cache.vector,
                lambda anchors: anchor_state_store.read(cache, anchors, here.head),
            ).ask("payment worker retries", Filter(), 5)
            loaded = memory_rows.load(cache, [hit.row for hit in found])
            stands = anchor_state_store.read(
                cache, [memory_rows.commit_of(d) for d, _, _ in loaded], here.head
            )
            return [
                (record.clean(d["id"]), round(hit.score, 4), stands[memory_rows.commit_of(d)].state)
                for hit, (d, _, _) in zip(found, loaded, strict=True)
            ]

        answer, _ = hook_cache.with_memories(here, ask, far())
        assert answer
        return answer

    def command() -> list[tuple[str, float, str]]:
        return [
            (h["id"], h["score"], h["anchor"]["state"])
            for h in lab.json(
                repo, "recall", "payment worker retries", "--hot", "-n", "5", rc=(0, 1)
            )["hits"]
        ]

    assert {state for _, _, state in hook()} == {"reachable", "unknown"}  # nobody has looked yet
    worker.run(str(repo / ".git"), os.environ, 0.0)
    assert hook() == command()
    assert {state for _, _, state in hook()} == {"reachable", "unmerged"}


def test_a_writer_at_work_holds_no_answer_up(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = filled(lab)
    waits: list[float] = []
    flock = cache_lock._flock

    def noted(fd: int, wait: float) -> bool:
        waits.append(wait)
        return flock(fd, wait)

    monkeypatch.setattr(cache_lock, "_flock", noted)
    mem = str(repo / ".git" / "mem")
    other = cache_file.open_cache(mem)
    assert other is not None
    with other.writing(10) as held:  # holds the lock, and its log is not in the file yet
        assert held
        other.set_meta("something", "x" * 100)
        other.db.execute("COMMIT")
        other.db.execute("BEGIN IMMEDIATE")
        waits.clear()
        assert hook_cache.with_memories(place(repo), hits("payment worker"), far())[1]
        assert [wait for wait in waits if wait > 0.1] == []
        assert cache_lock.has_log(cache_file.path_of(mem))
        for kept in hook_cache._kept:
            kept.db.close()
    other.close()
    assert (
        hook_cache.with_memories(place(repo), hits("payment worker"), far())[1]
        and events(repo) == []
    )


def test_what_takes_long_is_left_to_the_worker(lab: Lab) -> None:
    repo = filled(lab)
    cache = cache_file.open_cache(str(repo / ".git" / "mem"))
    assert cache is not None
    with cache.writing(10):
        cache.set_meta("scrub", "1")
    cache.close()
    answer, fresh = hook_cache.with_memories(place(repo), hits("payment worker"), far())
    assert (
        not fresh
        and answer
        and len(answer) == 3
        and [e["event"] for e in events(repo)] == ["behind"]
    )
    worker.run(str(repo / ".git"), os.environ, 0.0)
    assert hook_cache.with_memories(place(repo), hits("payment worker"), far())[1]
