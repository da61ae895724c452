"""`sync`, `pull` and `push` against real remotes: stock git beside us, hosts that refuse."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from conftest import Lab
from sync_world import REF, SECRET, TRACK, Team, store_of

from gitmem import sync
from gitmem.core.errors import MemError
from gitmem.git import remote


@pytest.fixture
def team(lab: Lab) -> Team:
    return Team(lab)


def test_two_clones_converge_and_hear_of_each_others_work(team: Team, lab: Lab) -> None:
    a, b = team.clone("a"), team.clone("b")
    lab.mem(a, "remember", "retries need jitter")
    lab.mem(b, "remember", "the cache key lacks the locale")
    assert lab.mem(a, "sync").strip() == "origin: 0 records received, 1 sent"
    assert lab.mem(b, "sync").strip() == "origin: 1 record received, 1 sent"
    assert lab.mem(a, "sync").strip() == "origin: 1 record received, 0 sent"
    assert lab.mem(a, "sync").strip() == "origin: up to date"
    assert (
        team.bodies(a)
        == team.bodies(b)
        == {"retries need jitter", "the cache key lacks the locale"}
    )
    assert (
        lab.git(a, "rev-parse", REF)
        == lab.git(b, "rev-parse", REF)
        == lab.git(team.hub, "rev-parse", REF)
    )


def test_what_the_remote_has_in_another_note_is_not_sent(team: Team, lab: Lab) -> None:
    """Who lacks the commit, or finds its note full, has the line in a continuation."""
    a, b = team.clone("a"), team.clone("b")
    lab.git(a, "commit", "-q", "--allow-empty", "-m", "not pushed")
    lab.mem(a, "remember", f"the public test key is {SECRET}", "--allow-secret")
    lab.mem(a, "sync", "--allow-secret")
    lab.mem(b, "remember", "said in b")
    said = json.loads(lab.mem(b, "sync", "--json"))
    assert [text["body"] for text in said["texts"]] == ["said in b"]


def test_copies_that_amends_leave_are_received_as_often_as_sent(team: Team, lab: Lab) -> None:
    a, b = team.clone("a"), team.clone("b")
    lab.mem(a, "init")
    lab.mem(a, "remember", "copied with each amend")
    for n in range(3):
        lab.git(a, "commit", "-q", "--amend", "--allow-empty", "-m", f"try {n}")
    sent = json.loads(lab.mem(a, "sync", "--json"))["sent"]
    assert json.loads(lab.mem(b, "sync", "--json"))["received"] == sent


def test_memories_of_a_commit_that_one_clone_lacks_do_not_merge_for_ever(
    team: Team, lab: Lab
) -> None:
    """Who lacks the commit has its lines in a continuation, who has it in its note."""
    a, b = team.clone("a"), team.clone("b")
    lab.mem(a, "remember", "known to both")
    lab.mem(a, "sync")
    lab.mem(b, "sync")
    (a / "g").write_text("2\n")
    lab.git(a, "add", ".")
    lab.git(a, "commit", "-qm", "not pushed")
    lab.mem(a, "remember", "about a commit that b lacks")
    lab.mem(b, "remember", "said in b")
    for clone in (a, b, a, b):
        lab.mem(clone, "sync")
    for clone in (a, b):
        assert lab.mem(clone, "sync").strip() == "origin: up to date"
    assert team.bodies(a) == team.bodies(b) and len(team.bodies(a)) == 3
    assert lab.git(a, "rev-parse", REF) == lab.git(b, "rev-parse", REF)
    assert "about a commit that b lacks" in lab.git(a, "notes", f"--ref={REF}", "show", "HEAD")


@pytest.mark.parametrize("kind", ["each has a commit of its own", "a note is full in each"])
def test_clones_with_the_same_lines_in_other_notes_agree(team: Team, lab: Lab, kind: str) -> None:
    clones = [team.clone(name) for name in "abc"]
    for clone in clones:
        if kind.startswith("each"):
            lab.git(clone, "commit", "-q", "--allow-empty", "-m", "not pushed")
        rows = [json.dumps({"body": f"{clone.name} {n} " + "word " * 4000}) for n in range(3)]
        lab.run(clone, "git-mem", "remember", "--jsonl", "-", stdin="\n".join(rows))
    for clone in clones * 3:
        lab.mem(clone, "sync")
    tips = {lab.git(repo, "rev-parse", REF) for repo in (team.hub, *clones)}
    assert len(tips) == 1 and all(len(team.bodies(clone)) == 9 for clone in clones)


def test_a_sync_that_brings_nothing_new_wakes_nobody(team: Team, lab: Lab) -> None:
    a, b = team.clone("a"), team.clone("b")
    lab.mem(a, "remember", "retries need jitter")
    lab.mem(a, "sync")
    brought = []
    for _ in range(2):
        store = store_of(b)
        sync.pull(store)
        brought.append(bool(store.wrote))
        store.close()
    assert brought == [True, False]


def test_pull_sends_nothing_and_push_takes_in_only_what_it_must(team: Team, lab: Lab) -> None:
    a, b = team.clone("a"), team.clone("b")
    lab.mem(a, "remember", "from a")
    lab.mem(a, "push")
    lab.mem(b, "remember", "from b")
    lab.mem(b, "pull")
    assert team.bodies(b) == {"from a", "from b"} and "from b" not in team.on_hub()
    lab.mem(a, "remember", "more from a")
    lab.mem(a, "push")
    out = lab.mem(b, "push").strip()
    assert out == "origin: 1 record received, 1 sent", (
        "somebody was faster, so theirs came in first"
    )
    assert "more from a" in team.on_hub() and "from b" in team.on_hub()


def test_nothing_but_the_team_ref_leaves(team: Team, lab: Lab) -> None:
    a = team.clone("a")
    before = lab.git(team.hub, "for-each-ref").splitlines()
    lab.git(a, "commit", "-q", "--allow-empty", "-m", "unpushed")
    lab.git(a, "tag", "-a", "-m", "t", "v1")
    lab.git(a, "config", "push.followTags", "true")
    lab.git(a, "config", "push.default", "matching")
    lab.mem(a, "remember", "for everybody")
    lab.mem(a, "remember", "for me", "--private")
    lab.mem(a, "sync")
    added = [row for row in lab.git(team.hub, "for-each-ref").splitlines() if row not in before]
    assert len(added) == 1 and added[0].endswith(REF)
    assert lab.run(a, "git", "config", "--get-regexp", r"^remote\..*\.push").stdout == ""


def test_dry_run_shows_the_very_texts_and_sends_nothing(team: Team, lab: Lab) -> None:
    a = team.clone("a")
    lab.mem(a, "remember", "a title line\nand a second line", "--type", "decision")
    out = lab.mem(a, "sync", "--dry-run")
    assert (
        "create decision a title line" in out
        and "    and a second line" in out
        and "nothing was sent" in out
    )
    assert team.on_hub() == ""
    texts = lab.json(a, "push", "--dry-run")["texts"]
    assert [json.loads(t["text"])["body"] for t in texts] == ["a title line\nand a second line"]
    lab.mem(a, "sync")
    assert "0 records would go" in lab.mem(a, "sync", "--dry-run")


def test_init_in_a_fresh_clone_says_that_the_remote_has_memories(team: Team, lab: Lab) -> None:
    a, fresh = team.clone("a"), team.clone("fresh")
    assert "has memories" not in lab.mem(fresh, "init")
    lab.mem(a, "remember", "from a")
    lab.mem(a, "sync")
    said = lab.mem(team.clone("second"), "init")
    assert "git mem sync   'origin' has memories of the team" in said
    assert "has memories" not in lab.mem(team.clone("third"), "init", "--offline")
    lab.git(fresh, "fetch", "-q")
    assert "has memories" in lab.mem(fresh, "init", "--offline"), (
        "fetched already, so nobody has to be asked"
    )
    assert lab.mem(fresh, "status").count("git mem sync") == 1


def test_init_does_not_wait_for_a_remote_that_is_silent(
    team: Team, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = team.clone("a")
    lab.git(a, "remote", "set-url", "origin", "ext::sleep 60")
    lab.git(a, "config", "protocol.ext.allow", "always")
    monkeypatch.setattr(remote, "LS_TIMEOUT", 0.2)
    store = store_of(a)
    assert not sync.offers(store, "origin")
    store.close()


def test_a_user_without_a_remote_or_with_several_is_told_what_to_name(team: Team, lab: Lab) -> None:
    alone = lab.repo("alone")
    done = lab.run(alone, sys.executable, "-m", "gitmem", "sync")
    assert done.returncode == 1 and "no remote to sync with" in done.stderr
    lab.git(alone, "remote", "add", "one", str(team.hub))
    lab.git(alone, "remote", "add", "two", str(team.hub))
    assert "one, two" in lab.run(alone, sys.executable, "-m", "gitmem", "sync").stderr
    lab.git(alone, "config", "mem.remote", "two")
    lab.mem(alone, "remember", "x y z")
    assert lab.mem(alone, "sync").startswith("two: ")
    assert (
        "no remote 'three'"
        in lab.run(alone, sys.executable, "-m", "gitmem", "sync", "--remote", "three").stderr
    )


def test_a_remote_that_cannot_be_reached_is_named(team: Team, lab: Lab) -> None:
    a = team.clone("a")
    lab.mem(a, "remember", "kept here")
    lab.git(a, "remote", "set-url", "origin", str(lab.root / "nowhere"))
    done = lab.run(a, sys.executable, "-m", "gitmem", "sync")
    assert (
        done.returncode == 1 and "cannot reach 'origin'" in done.stderr and "nowhere" in done.stderr
    )
    assert team.bodies(a) == {"kept here"}


def test_a_host_that_refuses_notes_is_quoted(team: Team, lab: Lab) -> None:
    a = team.clone("a")
    lab.mem(a, "remember", "kept here")
    team.hook(
        "update",
        'case "$1" in refs/notes/*) echo "only branches are accepted here" >&2; exit 1;; esac\n',
    )
    done = lab.run(a, sys.executable, "-m", "gitmem", "sync")
    assert done.returncode == 1
    assert f"'origin' refused {REF}: only branches are accepted here" in done.stderr
    assert "--remote" in done.stderr
    assert team.bodies(a) == {"kept here"}


def test_users_pre_push_hook_is_theirs_and_does_not_run_for_notes(team: Team, lab: Lab) -> None:
    a = team.clone("a")
    hook = a / ".git" / "hooks" / "pre-push"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    lab.mem(a, "remember", "x y z")
    lab.mem(a, "sync")
    assert "x y z" in team.on_hub()


def test_whoever_is_second_unites_and_tries_again(
    team: Team, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = team.clone("a"), team.clone("b")
    lab.mem(a, "remember", "from a")
    lab.mem(b, "remember", "from b")
    real, races = remote.Remote.push, [0]

    def push(self: remote.Remote, tip: str, *more: Any, **named: Any) -> remote.Pushed:
        if races[0] < 3:  # b is faster three times
            races[0] += 1
            lab.mem(b, "remember", f"b again {races[0]}")
            lab.mem(b, "sync")
        return real(self, tip, *more, **named)

    monkeypatch.setattr(remote.Remote, "push", push)
    store = store_of(a)
    report = sync.push(store)
    store.close()
    assert races[0] == 3 and report.received == 4
    lab.mem(b, "sync")
    assert (
        team.bodies(a)
        == team.bodies(b)
        == {"from a", "from b", "b again 1", "b again 2", "b again 3"}
    )


def test_many_clones_at_once_lose_nothing(team: Team, lab: Lab) -> None:
    clones = [team.clone(name) for name in "abcd"]
    script = (
        f'for i in 1 2 3; do "{sys.executable}" -m gitmem remember "$0 says $i" >/dev/null &&'
        f' "{sys.executable}" -m gitmem sync -q || echo failed; done'
    )
    running = [
        subprocess.Popen(
            ["sh", "-c", script, c.name],
            cwd=c,
            env=lab.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for c in clones
    ]
    said = [p.communicate() for p in running]
    assert not any(out or err for out, err in said), said
    for clone in clones:
        lab.mem(clone, "sync")
    assert all(
        team.bodies(c) == {f"{n} says {i}" for n in "abcd" for i in (1, 2, 3)} for c in clones
    )


def test_teammates_without_git_mem_merge_and_push_in_between(team: Team, lab: Lab) -> None:
    a, plain = team.clone("a"), team.clone("plain")
    lab.mem(a, "remember", "from a")
    lab.mem(a, "sync")
    lab.git(plain, "fetch", "-q", "origin", f"{REF}:{TRACK}")
    lab.git(plain, "notes", "--ref=mem/team", "append", "-m", "by hand", "HEAD~1")
    lab.git(plain, "notes", "--ref=mem/team", "merge", "-q", "-s", "union", TRACK)
    lab.git(plain, "push", "-q", "origin", REF)
    lab.mem(a, "remember", "second from a")
    assert lab.mem(a, "sync").strip() == "origin: 1 record received, 1 sent"
    assert all(word in team.on_hub() for word in ("from a", "by hand", "second from a"))


def test_what_stock_git_removed_on_the_hub_comes_back(team: Team, lab: Lab) -> None:
    a, plain = team.clone("a"), team.clone("plain")
    lab.mem(a, "remember", "from a")
    lab.mem(a, "sync")
    lab.git(plain, "fetch", "-q", "origin", f"{REF}:{REF}")
    lab.git(plain, "notes", "--ref=mem/team", "remove", "HEAD")
    lab.git(plain, "push", "-q", "origin", REF)
    assert "from a" not in team.on_hub()
    lab.mem(a, "sync")
    assert "from a" in team.on_hub()


def test_a_remote_that_was_force_pushed_takes_nothing_from_us(team: Team, lab: Lab) -> None:
    a, b = team.clone("a"), team.clone("b")
    lab.mem(a, "remember", "from a")
    lab.mem(a, "sync")
    lab.mem(b, "remember", "from b alone")
    lab.git(b, "push", "-q", "--force", "origin", REF)
    assert lab.mem(a, "sync").strip() == "origin: 1 record received, 1 sent"
    assert "from a" in team.on_hub() and "from b alone" in team.on_hub()


def test_what_only_the_tracking_copy_had_is_taken_in_before_a_fetch_replaces_it(
    team: Team, lab: Lab
) -> None:
    a, b = team.clone("a"), team.clone("b")
    lab.mem(a, "init")
    lab.mem(b, "remember", "fetched, never merged")
    lab.mem(b, "sync")
    lab.git(a, "fetch", "-q")
    lab.git(team.hub, "update-ref", "-d", REF)
    lab.mem(a, "sync")
    assert team.bodies(a) == {"fetched, never merged"} and "fetched, never merged" in team.on_hub()


def test_a_remote_that_lost_its_notes_gets_them_again(team: Team, lab: Lab) -> None:
    a = team.clone("a")
    lab.mem(a, "remember", "from a")
    lab.mem(a, "sync")
    lab.git(team.hub, "update-ref", "-d", REF)
    assert lab.mem(a, "sync").strip() == "origin: 0 records received, 1 sent"
    assert "from a" in team.on_hub()


def test_atomic_pushes_branch_and_memories_or_neither(team: Team, lab: Lab) -> None:
    a, b = team.clone("a"), team.clone("b")
    lab.git(a, "commit", "-q", "--allow-empty", "-m", "work")
    lab.mem(a, "remember", "about the work")
    assert "with main" in lab.mem(a, "sync", "--atomic")
    assert lab.git(a, "rev-parse", "main") == lab.git(team.hub, "rev-parse", "main")
    lab.git(b, "commit", "-q", "--allow-empty", "-m", "other work")
    lab.mem(b, "remember", "about the other work")
    done = lab.run(b, sys.executable, "-m", "gitmem", "sync", "--atomic")
    assert done.returncode == 1 and "refused the branch 'main'" in done.stderr
    assert "about the other work" not in team.on_hub()
    lab.git(b, "checkout", "-q", "--detach")
    assert (
        "HEAD is detached" in lab.run(b, sys.executable, "-m", "gitmem", "sync", "--atomic").stderr
    )


def test_atomic_unites_when_only_the_memories_were_late(team: Team, lab: Lab) -> None:
    a, b = team.clone("a"), team.clone("b")
    lab.mem(a, "remember", "from a")
    lab.mem(a, "sync")
    lab.git(b, "checkout", "-q", "-b", "topic")
    lab.git(b, "commit", "-q", "--allow-empty", "-m", "topic")
    lab.mem(b, "remember", "from b")
    lab.mem(b, "push", "--atomic")
    assert "from a" in team.on_hub() and "from b" in team.on_hub()
    assert lab.git(team.hub, "rev-parse", "topic") == lab.git(b, "rev-parse", "topic")


def test_a_secret_does_not_leave(team: Team, lab: Lab) -> None:
    a = team.clone("a")
    lab.git(a, "notes", "--ref=mem/team", "append", "-m", f"the key is {SECRET}", "HEAD")
    lab.mem(a, "remember", "harmless")
    done = lab.run(a, sys.executable, "-m", "gitmem", "sync")
    assert (
        done.returncode == 1
        and "looks like it holds a secret" in done.stderr
        and SECRET not in done.stderr
    )
    assert team.on_hub() == ""
    lab.mem(a, "sync", "--allow-secret")
    assert SECRET in team.on_hub()


def test_an_allowed_text_that_the_remote_has_stops_no_sync_after_an_amend(
    team: Team, lab: Lab
) -> None:
    a = team.clone("a")
    lab.mem(a, "init")
    lab.git(a, "commit", "-q", "--allow-empty", "-m", "not pushed")
    lab.mem(a, "remember", f"the public test key is {SECRET}", "--allow-secret")
    lab.mem(a, "sync", "--allow-secret")
    lab.git(a, "commit", "-q", "--amend", "--allow-empty", "-m", "again")
    assert "would go" in lab.mem(a, "sync", "--dry-run")
    assert "1 sent" in lab.mem(a, "sync")


def test_a_secret_that_comes_in_is_flagged_and_goes_no_further(team: Team, lab: Lab) -> None:
    a = team.clone("a")
    lab.mem(team.clone("b"), "remember", f"the key is {SECRET}", "--allow-secret")
    lab.mem(lab.root / "b", "sync", "--allow-secret")
    said = lab.mem(a, "sync")
    assert "that came in looks like it holds a secret" in said and SECRET not in said
    lab.git(lab.root, "init", "-q", "--bare", "elsewhere.git")
    lab.git(a, "remote", "add", "elsewhere", str(lab.root / "elsewhere.git"))
    assert (
        lab.run(a, sys.executable, "-m", "gitmem", "sync", "--remote", "elsewhere").returncode == 1
    )
    assert lab.git(lab.root / "elsewhere.git", "for-each-ref") == ""


def test_nothing_new_costs_no_push(team: Team, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    a = team.clone("a")
    lab.mem(a, "remember", "x y z")
    lab.mem(a, "sync")

    def push(self: remote.Remote, *args: Any, **named: Any) -> remote.Pushed:
        raise AssertionError("pushed")

    monkeypatch.setattr(remote.Remote, "push", push)
    store = store_of(a)
    assert not sync.push(store).sent
    store.close()


def test_others_who_never_stop_pushing_end_in_a_clear_error(
    team: Team, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = team.clone("a")
    lab.mem(a, "remember", "x y z")
    monkeypatch.setattr(
        remote.Remote, "push", lambda self, *args, **named: remote.Pushed(False, faster=True)
    )
    monkeypatch.setattr(sync, "PAUSE", 0.001)
    monkeypatch.setattr(sync, "ATTEMPTS", 4)
    store = store_of(a)
    monkeypatch.setattr(remote.Remote, "tip", lambda self: "another commit each time")
    with pytest.raises(MemError, match="others kept pushing"):
        sync.push(store)
    store.close()
    assert team.bodies(a) == {"x y z"}


def test_a_hub_that_is_locked_is_not_said_to_have_been_faster(team: Team, lab: Lab) -> None:
    a = team.clone("a")
    lab.mem(a, "remember", "x y z")
    tables = team.hub / "reftable"
    lock = (
        tables / "tables.list.lock"
        if tables.exists()
        else team.hub / "refs" / "notes" / "mem" / "team.lock"
    )
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.write_text("")
    done = lab.run(a, sys.executable, "-m", "gitmem", "sync")
    assert (
        done.returncode == 1
        and f"'origin' refused {REF}" in done.stderr
        and "others" not in done.stderr
    )
