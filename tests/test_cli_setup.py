"""Init, settings, policy, secrets and terminals, as somebody at the command line meets them."""

from __future__ import annotations

import json
import pathlib
import shutil
import sys

import pytest
from conftest import Lab
from test_cli import fail


@pytest.mark.parametrize("lost", [False, True])
def test_init_is_quiet_the_second_time_and_uninstall_restores_byte_for_byte(
    lab: Lab, lost: bool
) -> None:
    lab.repo("seed")
    lab.git(lab.root, "clone", "-q", "seed", "clone")
    path = lab.root / "clone"
    with (path / ".git" / "config").open("a") as file:
        file.write("[notes]\n")  # a section that git would take away with its last entry
    before = (path / ".git" / "config").read_bytes()
    changed = lab.json(path, "init")["changed"]
    assert len(changed) == 3 and lab.git(path, "status", "--porcelain") == ""
    assert lab.json(path, "init")["changed"] == []
    assert lab.run(path, "git", "config", "--get-all", "remote.origin.push").stdout == ""
    lab.git(path, "fetch", "-q")  # the remote has no memories: the pattern must not fail
    lab.mem(path, "remember", "kept")
    if lost:
        shutil.rmtree(path / ".git" / "mem")
    assert lab.json(path, "uninstall")["kept"] == ["refs/notes/mem/team"]
    assert (path / ".git" / "config").read_bytes() == before
    assert (
        not (path / ".git" / "mem").exists()
        and not (path / ".git" / "git-mem-install.json").exists()
    )
    lab.mem(path, "init")
    lab.git(path, "config", "user.name", "Someone")
    lab.mem(path, "uninstall")
    assert (
        "mem" not in (path / ".git" / "config").read_text().replace("someone", "")
        and "Someone" in (path / ".git" / "config").read_text()
    )


def test_init_names_the_tour_where_nobody_has_remembered_anything(lab: Lab) -> None:
    path = lab.repo()
    assert "\n  git mem tour " in lab.mem(path, "init")
    lab.mem(path, "remember", "a fact")
    said = lab.mem(path, "init")
    assert "\n  1 memory here\n" in said and "next:" not in said


def test_a_fetch_brings_the_teams_memories_and_a_stock_merge_unites_them(lab: Lab) -> None:
    lab.repo("seed")
    lab.git(lab.root, "clone", "-q", "--bare", "seed", "hub.git")
    for name in "ab":
        lab.git(lab.root, "clone", "-q", "hub.git", name)
        lab.mem(lab.root / name, "init")
        lab.mem(lab.root / name, "remember", f"{name} learned something")
    lab.git(lab.root / "a", "push", "-q", "origin", "refs/notes/mem/team")
    lab.git(lab.root / "b", "fetch", "-q")
    lab.git(
        lab.root / "b", "notes", "--ref=mem/team", "merge", "refs/notes/remotes/origin/mem/team"
    )
    assert {m["body"] for m in lab.json(lab.root / "b", "list")} == {
        "a learned something",
        "b learned something",
    }


def test_status_stats_doctor_config_and_index(lab: Lab) -> None:
    path = lab.repo()
    assert lab.json(path, "status")["memories"] == 0
    assert not (path / ".git" / "mem").exists(), "status creates nothing"
    lab.mem(path, "init")
    lab.mem(path, "remember", "a fact", "--type", "decision")
    status = lab.json(path, "status")
    assert (status["memories"], status["without_vectors"], status["missing_settings"]) == (1, 0, [])
    assert lab.json(path, "stats")["types"] == {"decision": 1}
    assert {f["level"] for f in lab.json(path, "doctor")} == {"ok", "off"}  # off: what is opt-in
    assert lab.json(path, "index", "--rebuild")["memories"] == 1
    assert lab.json(path, "config", "mem.limit", "3") == {"name": "mem.limit", "value": "3"}
    assert (
        lab.git(path, "config", "mem.limit").strip() == "3"
        and lab.mem(path, "config", "limit").strip() == "3"
    )
    lab.mem(path, "config", "limit", "")
    assert fail(lab, path, "config", "limit", "many")[0] == 2
    assert fail(lab, path, "config", "colour")[0] == 2
    for form in ("status", "stats", "doctor", "config", "index", "list", "log"):
        assert lab.mem(path, form)


def test_status_says_what_is_not_set_up(lab: Lab) -> None:
    path = lab.repo()
    assert "not set up yet: memories follow `git commit --amend`" in lab.mem(path, "status")
    lab.mem(path, "init")
    assert "not set up" not in lab.mem(path, "status")
    lab.git(path, "remote", "add", "origin", "../hub.git")
    told = lab.mem(path, "status")
    assert "not set up yet: `git fetch` brings the team's memories from 'origin'" in told
    assert "--amend" not in told


def test_switched_off_means_off(lab: Lab) -> None:
    path = lab.repo()
    done = lab.run(
        path, sys.executable, "-m", "gitmem", "remember", "x", env={"GIT_MEM_DISABLE": "1"}
    )
    assert done.returncode == 1 and "switched off" in done.stderr
    lab.git(path, "config", "mem.enabled", "false")
    assert fail(lab, path, "recall", "x")[0] == 1
    assert lab.json(path, "status")["enabled"] is False


def test_a_policy_file_may_set_policy_and_nothing_else(lab: Lab) -> None:
    path = lab.repo()
    (path / ".gitmem.toml").write_text('scope = "private"\nref = "elsewhere"\nenabled = false\n')
    assert lab.json(path, "remember", "x")["scope"] == "private"
    rows = {r["name"]: (r["value"], r["from"]) for r in lab.json(path, "config")}
    assert rows["mem.scope"] == ("private", ".gitmem.toml") and rows["mem.ref"] == (
        "mem",
        "default",
    )
    assert any("ref" in f["text"] for f in lab.json(path, "doctor") if f["level"] == "warn")


SECRET = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"


@pytest.mark.each
@pytest.mark.parametrize(
    "argv",
    [
        ["remember", "deploy with " + SECRET],
        ["remember", "x", "--title", SECRET],
        ["remember", "x", "--tag", SECRET],
        ["remember", "x", "--path", SECRET],
        ["remember", "x", "--source", SECRET],
        ["remember", "x", "--phase", SECRET],
        ["edit", "ID", "-m", SECRET],
        ["supersede", "ID", SECRET],
        ["forget", "ID", "--reason", SECRET],
    ],
)
def test_no_write_path_stores_a_secret(lab: Lab, argv: list[str]) -> None:
    path = lab.repo()
    id = lab.json(path, "remember", "harmless")["id"]
    code, message = fail(lab, path, *[id if a == "ID" else a for a in argv])
    assert code == 1 and SECRET not in message
    for file in (path / ".git").rglob("*"):
        if file.is_file():
            assert SECRET.encode() not in file.read_bytes()
    assert SECRET not in lab.git(path, "notes", "--ref=mem/team", "show", "HEAD")


def test_a_secret_is_stored_when_the_person_insists(lab: Lab) -> None:
    path = lab.repo()
    assert (
        lab.json(path, "remember", "an example token: " + SECRET, "--allow-secret")["status"]
        == "stored"
    )


def test_nothing_in_the_working_tree_is_imported(lab: Lab) -> None:
    path = lab.repo()
    for name in ("json", "sqlite3", "typer", "re", "subprocess", "gitmem", "numpy"):
        (path / f"{name}.py").write_text("raise SystemExit('executed the working tree')\n")
    script = pathlib.Path(sys.executable).parent / "git-mem"
    if not script.exists():
        pytest.skip("the console script is not installed here")
    for env in ({}, {"PYTHONPATH": "."}):
        done = lab.run(path, str(script), "status", env=env)
        assert done.returncode == 0 and "executed" not in done.stdout + done.stderr, done.stderr


def test_words_that_do_not_exist_exit_2(lab: Lab) -> None:
    path = lab.repo()
    for argv in (
        ["nonsense"],
        ["recall"],
        ["recall", "x", "--nonsense"],
        ["recall", "x", "-n", "many"],
        ["recall", "x", "-n", "-3"],
        ["list", "--scope", "mine"],
    ):
        code, message = fail(lab, path, *argv)
        assert code == 2 and message.startswith("error: "), argv
    for id in ("zz", "abc", "0" * 8):
        assert fail(lab, path, "show", id)[0] == 1


def test_a_closed_pipe_is_no_error(lab: Lab) -> None:
    path = lab.repo()
    lab.mem(
        path,
        "remember",
        "--jsonl",
        "-",
        stdin="".join(json.dumps({"body": f"line {i} " * 30}) + "\n" for i in range(300)),
    )
    done = lab.run(path, "sh", "-c", f"'{sys.executable}' -m gitmem list | head -1")
    assert done.returncode == 0 and done.stderr == ""


def test_terminal_escapes_are_shown_not_obeyed(lab: Lab) -> None:
    path = lab.repo()
    lab.mem(
        path,
        "remember",
        "-m",
        "red \x1b[31m text\x07 and \u202e reversed",
        "--title",
        "title \x1b]0;owned\x07",
    )
    for command in (
        ["list"],
        ["recall", "red text"],
        ["show", lab.json(path, "list")[0]["id"]],
        ["log"],
    ):
        out = lab.mem(path, *command, rc=(0, 1))
        assert "\x1b" not in out and "\x07" not in out and "\u202e" not in out
        if command[0] != "log":
            raw = lab.mem(path, *command, "--json", rc=(0, 1))
            assert "\x1b" not in raw and "\u202e" not in raw and "\\u202e" in raw
            found = json.loads(raw)
            assert (
                "\u202e"
                in (
                    found["hits"][0]
                    if command[0] == "recall"
                    else found[0]
                    if command[0] == "list"
                    else found
                )["body"]
            )


def test_the_cache_is_for_its_owner_alone(lab: Lab) -> None:
    path = lab.repo()
    lab.run(
        path,
        "sh",
        "-c",
        f"umask 000; '{sys.executable}' -m gitmem remember 'seen by me'; '{sys.executable}' -m"
        " gitmem recall 'seen by me'",
    )
    found = {
        str(p.relative_to(path)): p.stat().st_mode & 0o077
        for p in [path / ".git" / "mem", *(path / ".git" / "mem").rglob("*")]
    }
    assert len(found) > 2 and set(found.values()) == {0}, found


@pytest.mark.parametrize(
    "argv",
    [
        ("push", "--private-to", ""),
        ("pull", "--private-from="),
        ("sync", "--remote", ""),
        ("recall", "x", "--at", ""),
        ("list", "--since="),
        ("context", "--as-of", ""),
        ("why", "f0.txt", "--at", ""),
        ("check", "--since", ""),
        ("remember", "text", "--commit", ""),
        ("remember", "text", "--path", ""),
        ("list", "--path="),
        ("list", "--author", ""),
        ("list", "--phase", ""),
        ("why", ""),
        ("export", "--scope", ""),
        ("ui", "--output", "page.html", "--scope", ""),
    ],
)
def test_an_option_that_a_variable_left_empty_is_an_error(lab: Lab, argv: tuple[str, ...]) -> None:
    repo = lab.repo()
    done = lab.run(repo, sys.executable, "-m", "gitmem", *argv)
    assert (
        done.returncode == 2
        and " is empty" in done.stderr
        and "Traceback" not in done.stderr
        and not done.stdout
    )
    assert "refs/notes" not in lab.git(repo, "for-each-ref")
