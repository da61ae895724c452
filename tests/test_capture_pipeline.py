"""What becomes of what was heard: few memories, in private notes, nothing twice, no secret."""

from __future__ import annotations

import json
import os
import pathlib

import pytest
from capture_world import TOKEN, WIPED, heard, listed, waits
from conftest import Lab

from gitmem import worker
from gitmem.capture import linear, pipeline, sources, worker_tasks
from gitmem.capture.candidates import Candidate
from gitmem.capture.classify import Opinion
from gitmem.hooks import spool
from gitmem.store import Store, open_store

# --- keeping -----------------------------------------------------------------


def test_what_was_marked_is_kept_as_it_was_said_and_private(
    lab: Lab, repo: pathlib.Path, store: Store
) -> None:
    (outcome,) = pipeline.keep(store, heard(WIPED))
    assert outcome.status == pipeline.KEPT
    (item,) = listed(lab, repo)
    assert (
        item["id"] == outcome.id
        and item["body"] == WIPED
        and item["scope"] == "private"
        and item["confidence"] >= 0.95
    )
    assert (
        item["source"].startswith("session:s1#")
        and item["provenance"] == "CITED"
        and {"captured", "from-prompt"} <= set(item["tags"])
    )
    assert item["anchor"]["commit"] == lab.git(repo, "rev-parse", "HEAD").strip()
    assert lab.lines(repo, "mem/team") == []
    (line,) = [json.loads(line) for line in lab.lines(repo, "mem/private") if "staging" in line]
    assert line["session"] == "s1" and line["agent"] == "claude"


def test_the_same_prompt_three_times_is_one_memory(
    lab: Lab, repo: pathlib.Path, store: Store
) -> None:
    assert [o.status for o in pipeline.keep(store, heard(WIPED, WIPED))] == [
        pipeline.KEPT,
        pipeline.KNOWN,
    ]
    assert [o.status for o in pipeline.keep(store, heard(WIPED))] == [pipeline.KNOWN]
    assert [o.status for o in pipeline.keep(store, heard(WIPED, session="s2"))] == [pipeline.KNOWN]
    assert len(listed(lab, repo)) == 1


def test_an_answer_that_names_several_memories_is_at_most_suggested(
    lab: Lab, repo: pathlib.Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "thresholds", lambda store: (0.6, 0.5))
    told = [
        "we use PostgreSQL, not MongoDB, because orders and invoices share a transaction",
        "all timestamps are UTC, because the reports of two offices are compared by the hour",
        "the importer skips rows without an account number, because the bank sends summary rows",
        "Redis for the job queue was given up, because jobs were lost when the box restarted",
    ]
    for text in told:
        lab.mem(repo, "remember", text, "--type", "decision")
    ids = {m["body"]: m["id"][:8] for m in listed(lab, repo)}
    lines = "\n".join(f"- **Decision** ({ids[text]}): {text}." for text in told)
    answer = f"Here is what the repository's memories say:\n\n{lines}"
    (outcome,) = pipeline.keep(store, heard(answer, role="assistant"))
    assert outcome.status == pipeline.SUGGESTED  # sure enough, but it may only tell of them
    for text in told[1:]:
        answer = answer.replace(ids[text], "ab" * 4)
    (outcome,) = pipeline.keep(store, heard(answer, role="assistant", session="s2"))
    assert outcome.status == pipeline.KEPT  # one id: something may stand beside it


def test_the_same_in_other_words_is_known(lab: Lab, repo: pathlib.Path, store: Store) -> None:
    pipeline.keep(store, heard(WIPED))
    again = pipeline.keep(
        store,
        heard(
            "Remember: the staging database gets wiped every Sunday",
            "REMEMBER THIS: the staging database is wiped every sunday",
        ),
    )
    assert [o.status for o in again] == [pipeline.KNOWN, pipeline.KNOWN]
    assert len(listed(lab, repo)) == 1


@pytest.mark.parametrize("runs", [1, 2])
def test_what_its_author_marks_is_kept_though_it_was_suggested_before(
    lab: Lab, repo: pathlib.Path, store: Store, runs: int
) -> None:
    loose = "ok, fix the login. Decision: sessions live in signed cookies. Can you start with it?"
    marked = "Decision: sessions live in signed cookies"
    texts = heard(loose, marked)
    parts = [texts] if runs == 1 else [texts[:1], texts[1:]]
    outcomes = [o for part in parts for o in pipeline.keep(store, part)]
    assert [o.status for o in outcomes] == [pipeline.SUGGESTED, pipeline.KEPT]
    assert [m["body"] for m in listed(lab, repo)] == [marked]
    again = pipeline.keep(store, heard(loose, marked, session="s2"))
    assert [o.status for o in again] == [pipeline.KNOWN, pipeline.KNOWN]


def test_what_was_rejected_is_not_kept_where_its_author_marks_it(
    lab: Lab, repo: pathlib.Path, store: Store
) -> None:
    (one,) = pipeline.keep(
        store, heard("ok, fix it. Decision: sessions live in signed cookies. Can you start?")
    )
    lab.mem(repo, "review", "--reject", one.id)
    (outcome,) = pipeline.keep(store, heard("Decision: sessions live in signed cookies"))
    assert outcome.status == pipeline.KNOWN


def test_what_would_take_a_memorys_place_is_asked_once(store: Store) -> None:
    said = (
        "Decision: the job queue runs on Redis",
        "Decision: the job queue runs on NATS instead of Redis",
        "Decision: job queue runs on NATS instead of Redis!",
    )
    found = [pipeline.keep(store, heard(text))[0].status for text in said]
    assert found == [pipeline.KEPT, pipeline.SUGGESTED, pipeline.KNOWN] and len(waits(store)) == 1


def test_what_a_person_remembered_is_not_captured_again(
    lab: Lab, repo: pathlib.Path, store: Store
) -> None:
    lab.mem(repo, "remember", "the staging database is wiped every Sunday")
    assert [o.status for o in pipeline.keep(store, heard(WIPED))] == [pipeline.KNOWN]


def test_a_forgotten_memory_stays_away(lab: Lab, repo: pathlib.Path, store: Store) -> None:
    (first,) = pipeline.keep(store, heard(WIPED))
    lab.mem(repo, "forget", first.id)
    assert [
        o.status for o in pipeline.keep(store, [*heard(WIPED), *heard(WIPED, session="s2")])
    ] == [
        pipeline.KNOWN,
        pipeline.KNOWN,
    ]
    assert listed(lab, repo) == []


@pytest.mark.parametrize(
    "said",
    [
        "yes",
        "thanks, looks good",
        "fix the failing test please",
        "What if we decided to use Redis?",
        "ls -la",
        'He said "we decided to drop Windows", is that true?',
    ],
)
def test_small_talk_questions_and_orders_are_nothing(store: Store, said: str) -> None:
    assert [o.status for o in pipeline.keep(store, heard(said))] == [pipeline.SKIPPED]
    assert store.private.tip() == "" and waits(store) == []


def test_a_secret_is_refused_on_both_ways(lab: Lab, repo: pathlib.Path, store: Store) -> None:
    found = pipeline.keep(
        store,
        [
            *heard(f"Remember this: token {TOKEN}"),
            Candidate(
                "commit", f"the token is {TOKEN}", type="learning", explicit=True, source="commit:x"
            ),
        ],
    )
    assert [o.status for o in found] == [pipeline.REFUSED, pipeline.REFUSED]
    lab.git(repo, "config", "mem.secrets", "allow")  # what a person may allow, capture may not
    assert [o.status for o in pipeline.keep(store, heard(f"Decision: token {TOKEN}"))] == [
        pipeline.REFUSED
    ]
    assert store.private.tip() == ""


def test_what_is_unsure_is_suggested(store: Store) -> None:
    said = "the retry lives in the queue and not in the client"
    found = pipeline.keep(store, heard(said), ask=lambda role, text: None, model=_Always(0.8))
    assert [o.status for o in found] == [pipeline.SUGGESTED]
    (one,) = waits(store)
    assert (
        one.body == said
        and one.text("session") == "s1"
        and one.text("role") == "user"
        and {"captured", "from-prompt"} <= set(one.words("tags"))
    )
    assert [
        o.status for o in pipeline.keep(store, heard(said, session="s2"), model=_Always(0.8))
    ] == [pipeline.KNOWN]
    assert [
        o.status
        for o in pipeline.keep(
            store,
            heard("the retry lives in the queue, not in the client", session="s2"),
            model=_Always(0.8),
        )
    ] == [pipeline.KNOWN]


def test_what_a_tool_did_is_only_suggested_and_about_its_file(store: Store) -> None:
    edit = [
        Candidate(
            "tool",
            "Tool: Edit\nFile: a.py\nChange: `x` → `Decision: y`\nResult: applied",
            paths=["a.py"],
            session="s",
            source="session:s#tool-1",
        )
    ]
    (sure,) = pipeline.keep(store, edit, ask=lambda role, text: Opinion(1.0, "bugfix"))
    assert sure.status == pipeline.SUGGESTED
    (one,) = waits(store)
    assert one.paths == ["a.py"] and "from-tool" in one.words("tags")


class _Always:
    """A model with one confidence."""

    calibration = linear.PACKAGED

    def __init__(self, confidence: float) -> None:
        self._confidence = confidence

    def score(self, role: str, text: str) -> float:
        return 0.0

    def confidence(self, score: float, role: str = "user", text: str = "") -> float:
        return self._confidence

    def types(self, role: str, text: str) -> dict[str, float]:
        return {"decision": 1.0}

    def calibrated(self, confidence: float, p_skip: float | None = None) -> float:
        return confidence


# --- worker ------------------------------------------------------------------


def leave(repo: pathlib.Path, *texts: str, role: str = "user") -> None:
    for text in texts:
        spool.append(str(repo / ".git" / "mem"), sources.heard(role, text, "s1", "claude", ""))


def test_now_works_off_the_spool_and_leaves_nothing_of_it(lab: Lab, repo: pathlib.Path) -> None:
    leave(repo, WIPED, "what is the time?", f"Remember this: token {TOKEN}")
    answer = lab.json(repo, "capture", "--now")
    assert len(answer["kept"]) == 1 and answer["suggested"] == []
    assert [m["body"] for m in listed(lab, repo)] == [WIPED]
    mem = repo / ".git" / "mem"
    assert list(mem.glob("spool*")) == [] and not any(
        TOKEN.encode() in p.read_bytes() or b"what is the time" in p.read_bytes()
        for p in mem.rglob("*")
        if p.is_file()
    )


def test_with_capture_off_what_waits_is_dropped(lab: Lab, repo: pathlib.Path) -> None:
    leave(repo, WIPED)
    lab.git(repo, "config", "mem.capture", "false")
    assert "mem.capture is off" in lab.mem(repo, "capture", "--now")
    assert listed(lab, repo) == [] and list((repo / ".git" / "mem").glob("spool*")) == []


def test_now_waits_for_the_worker_that_has_the_lock(lab: Lab, repo: pathlib.Path) -> None:
    import subprocess
    import sys

    from gitmem.engine import cache_lock

    leave(repo, WIPED)
    with cache_lock.locked(spool.lock(str(repo / ".git" / "mem")), 5.0) as held:
        assert held
        waiting = subprocess.Popen(
            [sys.executable, "-m", "gitmem", "capture", "--now", "--json"],
            cwd=repo,
            env=lab.env,
            stdout=subprocess.PIPE,
            text=True,
        )
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.communicate(timeout=2)
    out, _ = waiting.communicate(timeout=60)
    assert len(json.loads(out)["kept"]) == 1


def test_a_worker_killed_in_between_makes_nothing_twice(lab: Lab, repo: pathlib.Path) -> None:
    leave(repo, WIPED)
    mem = str(repo / ".git" / "mem")
    with pytest.raises(KeyboardInterrupt):
        spool.drain(mem, lambda lines: _die(repo, lines))
    assert spool.waiting(mem)
    worker.run(str(repo / ".git"), os.environ, linger=0.0)
    assert [m["body"] for m in listed(lab, repo)] == [WIPED] and not spool.waiting(mem)


def _die(repo: pathlib.Path, lines: list[bytes]) -> None:
    store = open_store(os.environ, str(repo))
    worker_tasks.from_events(store, [json.loads(line) for line in lines])
    store.close()
    raise KeyboardInterrupt


def test_a_session_that_ended_is_read_and_tells_nothing_twice(
    lab: Lab, repo: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    log = tmp_path / "s1.jsonl"
    log.write_text(
        "".join(
            json.dumps({"type": "user", "message": {"role": "user", "content": t}}) + "\n"
            for t in (WIPED, "Decision: use argon2id for passwords")
        )
    )
    leave(repo, WIPED)
    spool.append(str(repo / ".git" / "mem"), sources.ended(str(log), "s1", "claude", ""))
    lab.mem(repo, "capture", "--now")
    assert sorted(m["body"] for m in listed(lab, repo)) == [
        "Decision: use argon2id for passwords",
        WIPED,
    ]


def test_a_thousand_events_become_few_memories(lab: Lab, repo: pathlib.Path, store: Store) -> None:
    talk = [
        "run the tests again",
        "why does it fail?",
        "thanks",
        "now fix module {i}",
        "I'll read file {i} and then run the linter.",
        "what about case {i}?",
        "ok go on",
        "ls -la",
        "Option A",
    ]
    texts = [talk[i % len(talk)].format(i=i) for i in range(996)] + [
        f"Decision: service {w} speaks gRPC" for w in ("alpha", "beta", "gamma", "delta")
    ]
    found = pipeline.keep(store, heard(*texts))
    assert sum(o.status == pipeline.KEPT for o in found) == 4 == len(listed(lab, repo))
