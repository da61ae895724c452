"""What a session is told at its start, end to end: real git, real cache, the command."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import time
import xml.etree.ElementTree as ElementTree

import pytest
from conftest import Lab
from hook_world import Hooks

from gitmem import worker
from gitmem.agents import context, events, head_facts, hook_cache
from gitmem.agents.context_render import Block
from gitmem.git import discover
from gitmem.store import open_store


def remembered(lab: Lab, repo: pathlib.Path, *memories: dict[str, object]) -> list[str]:
    """Stores memories and gives their ids."""
    out = lab.mem(
        repo,
        "remember",
        "--jsonl",
        "-",
        "--json",
        stdin="".join(json.dumps(m) + "\n" for m in memories),
    )
    return [json.loads(line)["id"] for line in out.splitlines()]


def at(day: int, **fields: object) -> dict[str, object]:
    return {"created_at": f"2026-01-{day:02d}T00:00:00Z", **fields}


def told(lab: Lab, repo: pathlib.Path, *words: str, **kw: object) -> ElementTree.Element:
    return ElementTree.fromstring(lab.mem(repo, "context", "--format", "xml", *words, **kw))  # type: ignore[arg-type]


def texts(element: ElementTree.Element, section: str = "") -> list[str]:
    return [
        str(e.text) for e in element.iterfind(f".//{section}/memory" if section else ".//memory")
    ]


def test_the_command_shows_blockers_decisions_and_the_rest(lab: Lab) -> None:
    repo = lab.repo()
    remembered(
        lab,
        repo,
        {"body": "all timestamps are UTC", "type": "decision"},
        {"body": "the certificate expires", "type": "blocker"},
        {"body": "pytest needs -p no:x", "type": "gotcha"},
    )
    root = told(lab, repo)
    assert texts(root, "active_blockers") == ["the certificate expires"]
    assert texts(root, "recent_decisions") == ["all timestamps are UTC"]
    assert texts(root, "relevant_memories") == ["pytest needs -p no:x"]


def test_the_same_state_gives_the_same_bytes_also_from_a_rebuilt_cache(lab: Lab) -> None:
    repo = lab.repo(commits=3)
    remembered(
        lab,
        repo,
        *[
            at(
                1 + n % 28,
                body=f"memory {n} about f{n % 3}.txt and subject {n * 7}",
                type=["decision", "gotcha"][n % 2],
                paths=[f"f{n % 3}.txt"],
            )
            for n in range(60)
        ],
    )
    first = lab.mem(repo, "context", "--agent-view")
    assert lab.mem(repo, "context", "--agent-view") == first
    shutil.rmtree(repo / ".git" / "mem")
    assert lab.mem(repo, "context", "--agent-view") == first
    assert ElementTree.fromstring(first).get(
        "timestamp"
    ) == "2026-01-02T03:04:05Z" or ElementTree.fromstring(first).get("timestamp", "").startswith(
        "20"
    )


def test_what_was_forgotten_or_superseded_is_not_told(lab: Lab) -> None:
    repo = lab.repo()
    ids = remembered(
        lab,
        repo,
        {"body": "blocked by the vendor", "type": "blocker"},
        {"body": "use MongoDB", "type": "decision"},
        {"body": "kept"},
    )
    lab.mem(repo, "forget", ids[0])
    lab.mem(repo, "supersede", ids[1], "-m", "use PostgreSQL")
    assert sorted(texts(told(lab, repo))) == ["kept", "use PostgreSQL"]


def test_nothing_to_tell_is_one_line_and_exit_code_1(lab: Lab) -> None:
    out = lab.mem(lab.repo(), "context", "--format", "xml", rc=(1,))
    assert out.count("\n") == 1 and "no memories" in out


def test_memories_about_the_files_of_recent_commits_come_first(lab: Lab) -> None:
    repo = lab.repo()
    remembered(
        lab,
        repo,
        *[
            at(20, body=f"general remark number {n} on topic{n} and matter{n * 3}")
            for n in range(40)
        ],
        at(1, body="the invoice parser drops cents", paths=["billing/parse.py"]),
    )
    (repo / "billing").mkdir()
    (repo / "billing" / "parse.py").write_text("x\n")
    lab.git(repo, "add", "-A")
    lab.git(repo, "commit", "-q", "-m", "read the file")
    assert texts(told(lab, repo, "--budget", "500"))[0] == "the invoice parser drops cents"


def test_memories_about_the_words_of_the_branch_come_first(lab: Lab) -> None:
    repo = lab.repo()
    remembered(
        lab,
        repo,
        *[
            at(20, body=f"general remark number {n} on topic{n} and matter{n * 3}")
            for n in range(40)
        ],
        at(1, body="webhooks are retried five times by the gateway"),
    )
    before = texts(told(lab, repo, "--budget", "500"))
    lab.git(repo, "checkout", "-q", "-b", "feature/webhook-retry")
    assert texts(told(lab, repo, "--budget", "500"))[0].startswith(
        "webhooks are retried"
    ) and not before[0].startswith("webhooks")


def test_omitted_memories_are_counted_and_the_command_that_finds_them_is_named(lab: Lab) -> None:
    repo = lab.repo()
    remembered(lab, repo, *[{"body": f"memory {n} " + f"word{n} " * 30} for n in range(50)])
    root = told(lab, repo, "--budget", "500")
    omitted = root.find("omitted")
    assert (
        omitted is not None
        and int(omitted.get("count", "0")) == 50 - len(texts(root))
        and "git mem recall" in str(omitted.text)
    )


def test_the_budget_can_be_fixed_by_option_setting_and_environment(lab: Lab) -> None:
    repo = lab.repo()
    remembered(lab, repo, *[{"body": f"memory {n} " + f"word{n} " * 30} for n in range(60)])

    def budget(*words: str, env: dict[str, str] | None = None) -> int:
        return int(json.loads(lab.mem(repo, "context", "--json", *words, env=env))["token_budget"])

    assert budget() == 2000
    lab.git(repo, "config", "mem.contextBudget", "700")
    assert budget() == 700
    assert budget(env={"GIT_MEM_CONTEXTBUDGET": "600"}) == 600
    assert budget("--budget", "900") == 900
    lab.git(repo, "config", "mem.contextBudget", "many")
    assert "contextBudget" in lab.run(repo, "git-mem", "context").stderr


def test_no_block_passes_the_limit_of_a_hook(lab: Lab) -> None:
    repo = lab.repo()
    remembered(
        lab,
        repo,
        *[
            {
                "body": f"memory {n} " + f"w\u00f6rd{n} \U0001f600<&> " * 60,
                "type": ["decision", "blocker", "gotcha"][n % 3],
            }
            for n in range(200)
        ],
    )
    out = lab.mem(repo, "context", "--format", "xml", "--budget", "100000")
    assert 6000 < len(out.encode("utf-16-le")) // 2 <= 9000


def test_json_has_the_same_memories_as_the_xml(lab: Lab) -> None:
    repo = lab.repo()
    ids = remembered(
        lab, repo, {"body": "one", "type": "decision", "paths": ["f0.txt"]}, {"body": "two"}
    )
    value = lab.json(repo, "context")
    items = [
        *value["working_memory"]["active_blockers"],
        *value["working_memory"]["recent_decisions"],
        *value["relevant_memories"],
    ]
    assert (
        sorted(i["id"] for i in items) == sorted(ids)
        and all(i["why"] for i in items)
        and value["omitted"] == 0
    )
    assert (
        items[0]["paths"] == [{"path": "f0.txt", "state": "same"}]
        and items[0]["anchor"]["state"] == "reachable"
    )


def test_a_wrong_format_is_refused(lab: Lab) -> None:
    done = lab.run(lab.repo(), "git-mem", "context", "--format", "yaml")
    assert done.returncode == 2 and "xml, md or json" in done.stderr


def test_memories_of_an_unmerged_branch_are_marked(lab: Lab) -> None:
    repo = lab.repo()
    lab.git(repo, "checkout", "-q", "-b", "topic")
    (repo / "t.txt").write_text("t\n")
    lab.git(repo, "add", "-A")
    lab.git(repo, "commit", "-q", "-m", "topic work")
    remembered(lab, repo, {"body": "only here"})
    lab.git(repo, "checkout", "-q", "main")
    remembered(lab, repo, {"body": "on main"})
    by = {e.text: (e.get("state"), e.get("branch")) for e in told(lab, repo).iter("memory")}
    assert by == {"only here": ("unmerged", "topic"), "on main": (None, None)}


def test_a_signature_policy_leaves_out_what_it_does_not_accept(lab: Lab) -> None:
    repo = lab.repo()
    lab.git(repo, "config", "mem.trust", "signed")
    assert "no memories here yet" in lab.mem(repo, "context", "--format", "xml", rc=(1,))
    remembered(lab, repo, {"body": "nobody signed this"})
    told = lab.mem(repo, "context", "--format", "xml", rc=(1,))
    assert "nobody signed" not in told and "no memories here yet" not in told
    assert "no memory here passes mem.trust (signed)" in told


class Place:
    """The repository as hooks see it, with an open cache."""

    def __init__(self, lab: Lab, repo: pathlib.Path) -> None:
        self.store = open_store(lab.env, str(repo))
        found = discover.find(str(repo), lab.env)
        assert found is not None
        self.here = found

    def build(self, purpose: str = "start", **session: list[str]) -> Block:
        return self.store.with_cache(
            lambda cache: context.build(cache, self.here, purpose=purpose, session_lines=session)
        )[0]


def test_files_that_a_session_touched_bring_what_is_known_of_them(lab: Lab) -> None:
    repo = lab.repo()
    ids = remembered(
        lab,
        repo,
        *[
            at(20, body=f"general remark number {n} on topic{n} and matter{n * 3} " * 3)
            for n in range(60)
        ],
        at(1, body="cents are dropped", paths=["billing/parse.py"]),
    )
    place = Place(lab, repo)
    assert ids[-1] not in place.build("compact").ids[:3]
    assert place.build("compact", touched=["billing/parse.py"]).ids[0] == ids[-1]


def test_after_compaction_what_was_shown_comes_first_again(lab: Lab) -> None:
    repo = lab.repo()
    ids = remembered(
        lab,
        repo,
        *[
            at(1 + n // 20, body=f"remark number {n} on topic{n} and matter{n * 3} " * 3)
            for n in range(340)
        ],
    )
    place = Place(lab, repo)
    old = sorted(set(ids[:20:19]) - set(place.build().ids))
    assert len(old) == 2
    assert set(place.build("compact", shown=old).ids[:2]) == set(old)
    assert place.build("start", shown=old).ids == place.build().ids


def test_each_purpose_names_its_source(lab: Lab) -> None:
    repo = lab.repo()
    remembered(lab, repo, {"body": "something"})
    place = Place(lab, repo)
    assert [place.build(p).source for p in ("start", "subagent", "compact")] == [
        "SessionStart",
        "SubagentStart",
        "SessionStart:compact",
    ]


def test_the_summary_is_told_what_to_keep_and_which_memories_were_shown() -> None:
    shown = [f"{n:032x}"[::-1] for n in range(30)]
    text = events.steer(shown)
    assert (
        "decisions" in text
        and shown[-1][:8] in text
        and "and 10 more" in text
        and len(text) < 900
        and not text.startswith("{")
    )
    assert "decisions" in events.steer([]) and "Memories" not in events.steer([])


def test_a_block_starts_no_process(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = lab.repo(commits=3)
    remembered(lab, repo, *[{"body": f"memory {n}", "paths": ["f1.txt"]} for n in range(5)])
    lab.mem(repo, "context")
    place = Place(lab, repo)
    place.store.with_cache(lambda cache: None)

    def refuse(*args: object, **kw: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr("subprocess.Popen.__init__", refuse)
    block = place.store.with_cache(lambda cache: context.build(cache, place.here), refresh=False)[0]
    assert len(block.items) == 5 and block.current


def test_facts_of_a_branch_are_its_files_and_words(lab: Lab) -> None:
    repo = lab.repo(commits=2)
    lab.git(repo, "checkout", "-q", "-b", "topic")
    (repo / "odd name\u00e9.txt").write_text("x\n")
    lab.git(repo, "add", "-A")
    lab.git(repo, "commit", "-q", "-m", "Retry webhooks")
    store = open_store(lab.env, str(repo))
    found = head_facts.Facts(head_facts.of(store.repo, store.repo.head()), True)
    assert found.own == ["odd name\u00e9.txt"] and found.changed == 1 and found.commits == 3
    assert set(found.branch) == {"retri", "webhook"} or {"webhook"} < set(found.branch) | {"retry"}
    assert next(iter(found.paths)) == "odd name\u00e9.txt" and set(found.paths) == {
        "odd name\u00e9.txt",
        "f0.txt",
        "f1.txt",
    }
    assert found.time == "2026-01-02T03:04:05Z"


def test_facts_are_kept_for_every_worktree_and_dropped_with_their_head(lab: Lab) -> None:
    repo = lab.repo(commits=2)
    remembered(lab, repo, {"body": "one"})
    lab.git(repo, "worktree", "add", "-q", "-b", "other", "../other", "HEAD~1")
    store = open_store(lab.env, str(repo))
    heads = {lab.git(p, "rev-parse", "HEAD").strip() for p in (repo, repo.parent / "other")}
    head_facts.learn(store)

    def kept() -> set[str]:
        return store.with_cache(
            lambda cache: {
                k[6:] for (k,) in cache.db.execute("SELECT key FROM meta WHERE key LIKE 'facts:%'")
            }
        )[0]

    assert kept() == heads
    (repo / "new.txt").write_text("x\n")
    lab.git(repo, "add", "-A")
    lab.git(repo, "commit", "-q", "-m", "next")
    head_facts.learn(store)
    assert lab.git(repo, "rev-parse", "HEAD").strip() in kept() and len(kept()) == 2


def test_facts_are_found_anew_where_history_ends_elsewhere(lab: Lab) -> None:
    lab.git(lab.root, "clone", "-q", "--depth=2", lab.repo("far", commits=5).as_uri(), "repo")
    repo = lab.root / "repo"
    remembered(lab, repo, {"body": "one"})

    def commits() -> int | None:
        worker.run(str(repo / ".git"), os.environ, 0.0)
        with contextlib.closing(open_store(lab.env, str(repo))) as store:
            return store.with_cache(
                lambda cache: head_facts.read(cache, store.repo.head()).commits
            )[0]

    assert commits() == int(lab.git(repo, "rev-list", "--count", "HEAD")) == 2
    lab.git(repo, "fetch", "-q", "--unshallow")
    assert commits() == int(lab.git(repo, "rev-list", "--count", "HEAD")) == 5
    lab.git(repo, "replace", "--graft", "HEAD~1")
    assert commits() == int(lab.git(repo, "rev-list", "--count", "HEAD")) == 2


def test_without_facts_of_this_head_those_of_before_are_used_and_the_block_says_so(
    lab: Lab,
) -> None:
    repo = lab.repo(commits=2)
    remembered(lab, repo, {"body": "one", "paths": ["f1.txt"]})
    lab.mem(repo, "context")
    (repo / "new.txt").write_text("x\n")
    lab.git(repo, "add", "-A")
    lab.git(repo, "commit", "-q", "-m", "next")
    block = Place(lab, repo).build()
    assert (
        not block.current and block.items[0].why[0] == "files of recent commits" and block.waiting
    )
    assert 'merged="unknown"' in block.render()


def test_damaged_facts_count_as_none(lab: Lab) -> None:
    repo = lab.repo()
    remembered(lab, repo, {"body": "one"})
    place = Place(lab, repo)
    for bad in ("{", "[]", "{}"):
        place.store.with_cache(
            lambda cache, bad=bad: cache.keep(
                1, lambda db: cache.set_meta("facts:" + place.here.head, bad)
            )
        )
        assert len(place.build().items) == 1


def test_a_repository_without_commits_has_a_context(lab: Lab) -> None:
    repo = lab.repo(commits=0)
    remembered(lab, repo, {"body": "begun before the first commit"})
    assert texts(told(lab, repo)) == ["begun before the first commit"]


def test_a_stamp_that_is_no_time_is_not_the_time_of_the_block(lab: Lab) -> None:
    repo = lab.repo()
    remembered(lab, repo, {"body": "one"})
    place = Place(lab, repo)
    place.store.with_cache(
        lambda cache: cache.keep(
            1, lambda db: cache.db.execute("UPDATE memory SET at = 'zz\"></memory_context>'")
        )
    )
    block = place.store.with_cache(lambda cache: context.build(cache, place.here), refresh=False)[0]
    assert (
        "zz" not in block.timestamp
        and ElementTree.fromstring(block.render()).tag == "memory_context"
    )


def test_where_head_has_just_moved_git_says_what_is_unmerged_and_the_worker_is_not_waited_for(
    lab: Lab,
) -> None:
    """A session that starts after `git switch` is when it matters; nobody but the worker writes the
    states down.
    """
    repo = lab.repo()
    lab.mem(repo, "remember", "timestamps are UTC", "--type", "decision")
    lab.git(repo, "switch", "-q", "-c", "topic")
    lab.git(repo, "commit", "-q", "--allow-empty", "-m", "topic")
    lab.mem(repo, "remember", "the queue needs a dead letter table", "--type", "decision")
    lab.git(repo, "switch", "-q", "main")
    lab.git(repo, "commit", "-q", "--allow-empty", "-m", "main goes on")
    # how long git may take is the next test's matter
    patient = "from gitmem.agents import hook_cache; hook_cache._LOOK = 60.0"
    told = Hooks(lab, repo).call("SessionStart", source="startup", first=patient)
    queue, utc = (
        next(line for line in told.splitlines() if text in line) for text in ("dead letter", "UTC")
    )
    assert 'state="unmerged"' in queue and 'branch="topic"' in queue and "state=" not in utc


def test_a_start_waits_no_longer_for_git_than_it_may(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "timestamps are UTC")
    anchor = lab.git(repo, "rev-parse", "HEAD").strip()
    for seconds, look, states in ((60, 60, ["reachable"]), (-1, 60, []), (60, -1, [])):
        monkeypatch.setattr(hook_cache, "_LOOK", look)
        lab.git(repo, "commit", "-q", "--allow-empty", "-m", "main goes on")
        place = Place(lab, repo)
        found = place.store.with_cache(
            lambda cache, place=place, until=time.monotonic() + seconds: hook_cache.stands(
                place.here, cache, [anchor], until
            )
        )[0]
        assert [s.state for s in found.values()] == states
