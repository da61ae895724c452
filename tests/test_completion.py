"""`git mem <TAB>`: what is offered, that asking changes nothing, and that real shells show it."""

from __future__ import annotations

import json
import os
import pathlib
import shlex
import shutil
import sys

import pytest
from conftest import Lab

from gitmem.completion import complete
from gitmem.migration import formats


def offered(lab: Lab, where: pathlib.Path, *typed: str) -> dict[str, str]:
    """{word: what it is}."""
    done = lab.run(where, "git-mem", "complete", "--", *typed)
    assert (done.returncode, done.stderr) == (0, "")
    return {row.partition("\t")[0]: row.partition("\t")[2] for row in done.stdout.splitlines()}


def words(*typed: str) -> list[str]:
    return [word for word, _ in complete.words(list(typed))]


# --- the table ---------------------------------------------------------------


@pytest.mark.quick
def test_commands_are_offered_but_no_low_level_one_and_no_alias() -> None:
    assert {"recall", "remember", "help", "model"} <= set(words(""))
    assert not {"hook", "index", "reanchor", "calibrate", "search", "complete"} & set(words(""))
    assert words("sh") == ["show", "share"]
    assert words("help", "sh") == ["show", "share"]


@pytest.mark.quick
def test_options_are_offered_by_one_name_each_and_their_values_in_both_forms() -> None:
    assert words("recall", "--t") == ["--type", "--tag"]
    assert words("search", "--t") == ["--type", "--tag"]
    assert words("list", "--scope", "") == ["team", "private"]
    assert words("list", "--scope=p") == ["--scope=private"]
    assert words("list", "--json", "--scope", "t") == ["team"]
    assert words("recall", "--", "--t") == []


@pytest.mark.quick
def test_settings_targets_and_parts_of_a_command_are_offered() -> None:
    assert words("config", "mem.cap") == ["mem.capture", "mem.captureAuto", "mem.captureSuggest"]
    assert words("config", "mem.capture", "") == ["false", "commits", "all"]
    assert words("config", "mem.sign", "t") == ["true"]
    assert words("install", "c") == [
        "claude",
        "codex",
        "cursor",
        "copilot",
        "claude-md",
        "completion",
    ]
    assert words("install", "claude", "--p") == ["--project", "--pre-push"]
    assert words("install", "claude", "--no") == ["--no-allow"]
    assert words("model", "f") == ["fetch"]
    assert "qwen3-0.6b" in words("model", "fetch", "")


@pytest.mark.quick
def test_names_of_files_are_left_to_the_shell() -> None:
    assert words("why", "") == words("recall", "--path", "sr") == [complete.FILES]
    assert words("why", "a.py", "") == words("remember", "--title", "") == []
    named = ["claude", "sessions", "git-log", "adr", *formats.FORMATS, complete.FILES]
    assert words("import", "") == named
    assert words("import", "adr", "") == words("import", "--team", "beads", "d") == [complete.FILES]


@pytest.mark.quick
@pytest.mark.parametrize("typed", [["xyzzy", ""], ["recall", "--xyzzy", "--xyz"], ["\n"]])
def test_nothing_is_offered_after_words_that_fit_nothing(typed: list[str]) -> None:
    assert words(*typed) == []


# --- what is in the repository ------------------------------------------------


@pytest.fixture
def world(lab: Lab) -> tuple[pathlib.Path, str, str]:
    """A repository with an older shared memory and a newer private one, and their short ids."""
    repo = lab.repo()
    text = "Orders share a transaction"
    old = {"body": text, "type": "decision", "created_at": "2020-01-01T00:00:00Z"}
    team = lab.json(repo, "remember", "--jsonl", "-", stdin=json.dumps(old))["id"]
    own = lab.json(repo, "remember", "The pager\x1b[31m is raw", "--tag", "ui", "--private")["id"]
    lab.mem(repo, "list")  # takes both into the cache
    return repo, team[:8], own[:8]


def test_ids_come_with_titles_the_newest_first(
    lab: Lab, world: tuple[pathlib.Path, str, str]
) -> None:
    repo, team, own = world
    found = offered(lab, repo, "show", "")
    assert list(found) == [own, team]
    assert found[team] == "decision: Orders share a transaction"
    assert "\x1b" not in found[own]
    assert list(offered(lab, repo, "show", team[:4])) == [team]
    assert list(offered(lab, repo, "show", own, team[:4])) == [team]
    assert list(offered(lab, repo, "share", "")) == [own]
    assert offered(lab, repo, "edit", team, "") == {}
    assert (
        len(next(iter(offered(lab, repo, "show", team + lab.json(repo, "show", team)["id"][8]))))
        == 32
    )


def test_what_restore_can_bring_back_is_offered(
    lab: Lab, world: tuple[pathlib.Path, str, str]
) -> None:
    repo, team, own = world
    lab.mem(repo, "forget", own)
    lab.mem(repo, "supersede", team, "Invoices have a transaction of their own")
    lab.mem(repo, "list")
    assert set(offered(lab, repo, "restore", "")) == {team, own}


@pytest.mark.quick
def test_ids_that_begin_alike_are_offered_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = ["abcdef12" + digit * 24 for digit in "12"]
    lines = [f'{{"v":1,"op":"create","id":"{id}","title":"$(x)","body":"b"}}' for id in ids]
    rows = [(id, line.encode()) for id, line in zip(ids, lines, strict=True)]
    monkeypatch.setattr(complete, "_rows", lambda sql, *values: rows)
    assert words("show", "abc") == ids


def test_types_tags_branches_and_remotes_of_the_repository_are_offered(
    lab: Lab, world: tuple[pathlib.Path, str, str]
) -> None:
    repo, team, _ = world
    lab.mem(repo, "edit", team, "--tag", "$(touch x)", "--type", "odd-type")
    lab.mem(repo, "list")
    lab.git(repo, "branch", "topic/one")
    lab.git(repo, "remote", "add", "hub", "../hub.git")
    assert offered(lab, repo, "list", "--tag", "") == {"ui": "1 memory"}
    assert list(offered(lab, repo, "list", "--type", "odd")) == ["odd-type"]
    assert list(offered(lab, repo, "recall", "--at", "to")) == ["topic/one"]
    assert list(offered(lab, repo, "diff", "main..to")) == ["main..topic/one"]
    assert list(offered(lab, repo, "import", "git-log", "main..to")) == ["main..topic/one"]
    assert list(offered(lab, repo, "sync", "--remote", "")) == ["hub"]


def test_completion_changes_nothing_and_asks_nothing_of_a_repository_without_memories(
    lab: Lab, world: tuple[pathlib.Path, str, str]
) -> None:
    repo, _, own = world

    def files(top: pathlib.Path) -> dict[str, tuple[int, int]]:
        found = {str(p): p.lstat() for p in top.rglob("*")}
        return {name: (facts.st_mtime_ns, facts.st_size) for name, facts in found.items()}

    bare = lab.repo("bare")
    for where in (repo, bare, lab.root):
        before = files(where)
        for typed in (["show", ""], ["list", "--tag", ""], ["list", "--type", "od"], ["di"]):
            offered(lab, where, *typed)
        assert files(where) == before
    assert offered(lab, bare, "show", "") == offered(lab, lab.root, "show", "") == {}
    (repo / ".git/mem" / "index-0.db").write_text("")
    for cache in repo.glob(".git/mem/index-*.db"):
        cache.write_bytes(b"\0" * 5000)
    assert offered(lab, repo, "show", own[:2]) == {}


# --- installing ---------------------------------------------------------------


def home(lab: Lab, **more: str) -> dict[str, str]:
    """An environment with a home of its own, and `git-mem` on the path."""
    place = lab.root / "home"
    place.mkdir(exist_ok=True)
    shim = lab.root / "bin" / "git-mem"
    shim.parent.mkdir(exist_ok=True)
    shim.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m gitmem "$@"\n')
    shim.chmod(0o755)
    places = dict.fromkeys(("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"), "")
    path = f"{shim.parent}:{os.environ['PATH']}"
    return {"HOME": str(place), "PATH": path, "ZDOTDIR": str(place), **places, **more}


def test_installed_completion_is_taken_out_byte_for_byte(lab: Lab) -> None:
    env = home(lab)
    for shell in ("bash", "zsh", "fish"):
        (lab.root / "bin" / shell).symlink_to("/bin/true")
    zshrc = lab.root / "home" / ".zshrc"
    zshrc.write_text("autoload -Uz compinit && compinit")

    def files() -> dict[str, str]:
        everything = (lab.root / "home").rglob("*")
        return {str(p): p.read_text() for p in everything if p.is_file() and "state" not in str(p)}

    before = files()
    said = lab.run(lab.root, "git-mem", "install", "completion", env=env).stdout
    assert "bash: '" in said and "zsh: a section in" in said and "fish: '" in said
    assert len(files()) == 4 and zshrc.read_text().startswith(before[str(zshrc)] + "\n# git mem")
    again = lab.run(lab.root, "git-mem", "install", "completion", env=env).stdout
    assert again == "nothing had to change\n"
    lab.run(lab.root, "git-mem", "uninstall", "completion", env=env)
    assert files() == before and not (lab.root / "home/.local/share").exists()
    lab.run(lab.root, "git-mem", "install", "completion", env=env)
    zshrc.write_text(zshrc.read_text() + "# mine\n")
    lab.run(lab.root, "git-mem", "uninstall", "completion", env=env)
    assert zshrc.read_text() == "autoload -Uz compinit && compinit\n# mine\n"


def test_a_script_of_somebody_else_is_left_alone(lab: Lab) -> None:
    env = home(lab)
    (lab.root / "bin" / "bash").symlink_to("/bin/true")
    theirs = lab.root / "home/.local/share/bash-completion/completions/git-mem"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("# mine\n")
    done = lab.run(lab.root, "git-mem", "install", "completion", env=env)
    assert done.returncode == 1 and "is not of git mem" in done.stderr
    lab.run(lab.root, "git-mem", "uninstall", "completion", env=env)
    assert theirs.read_text() == "# mine\n"


# --- in the shells ------------------------------------------------------------

# of the packages bash-completion and git
BASH_COMPLETION = pathlib.Path("/usr/share/bash-completion/bash_completion")
BASH_GIT = pathlib.Path("/usr/share/bash-completion/completions/git")
BASH = f"""
. {BASH_COMPLETION}; . {BASH_GIT}
ask () {{ COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${{#COMP_LINE}}
  COMPREPLY=(); __git_wrap__git_main; printf '%s\\n' "${{COMPREPLY[@]}}"; echo .; }}
"""


def in_shell(lab: Lab, shell: str, where: pathlib.Path, script: str) -> list[str]:
    if not shutil.which(shell):
        pytest.skip(f"no {shell} here")
    env = home(lab, TERM="xterm", COLUMNS="80")
    (lab.root / "home" / ".zshrc").write_text("autoload -Uz compinit && compinit -u\n")
    assert lab.run(where, "git-mem", "install", "completion", env=env).returncode == 0
    flags = {"bash": ["--norc"], "fish": [], "zsh": ["-f"]}[shell]
    done = lab.run(where, shell, *flags, "-c", script, env=env)
    return [part.strip("\n") for part in done.stdout.split(".\n")]


@pytest.mark.process
def test_bash_completes_through_the_completion_of_git(
    lab: Lab, world: tuple[pathlib.Path, str, str]
) -> None:
    if not (BASH_COMPLETION.exists() and BASH_GIT.exists()):
        pytest.skip("no bash-completion here")
    repo, team, own = world
    asked = [
        f"ask git mem show {team[:4]}",
        "ask git mem show ''",
        "ask git mem recall --type=dec",
        f"cd /; ask git -C {repo} mem share ''",
        "ask git mem why ''",
        "ask git mem import sess",
        "ask git mem export ./",
    ]
    found = in_shell(lab, "bash", repo, BASH + "\n".join(asked))
    one, both, value, other, files, name, path = found[:7]
    assert one == f"{team} "
    assert both.splitlines()[1] == f"{team}  (decision: Orders share a transaction)"
    assert value == "decision "
    assert other == f"{own} "
    assert files == path == "" and name == "sessions "


@pytest.mark.process
def test_fish_completes_through_the_completion_of_git(
    lab: Lab, world: tuple[pathlib.Path, str, str]
) -> None:
    repo, team, own = world
    asked = ["git mem show ", "git mem list --type=dec", f"git -C {repo} mem share ", "git mem sh"]
    script = "\n".join(f"complete -C '{line}'; echo ." for line in asked)
    both, value, other, command = in_shell(lab, "fish", repo, script)[:4]
    assert f"{team}\tdecision: Orders share a transaction" in both.splitlines()
    assert value == "--type=decision"
    assert other.startswith(own)
    assert command.splitlines()[0].startswith("show\t")


# zsh completes on a terminal alone: this starts one, presses keys, and reads the line then.
ZSH = r"""
zmodload zsh/zpty; zpty z zsh -i
show () {
  local text all=
  repeat 300; do
    zpty -r -t z text && all+=$text || sleep 0.1
    [[ $all == *$1* ]] && break
  done
  print -r -- $all
}
zpty -w z "show-it () { print -r \"LINE<\$BUFFER>\"; zle kill-whole-line }; zle -N show-it"
zpty -w z "bindkey '^I' complete-word '^X' show-it; PS1=; print REA''DY"
show READY >/dev/null
for line in "$@"; do zpty -n -w z "$line"$'\t\x18'; show '>'; done
"""


@pytest.mark.process
def test_zsh_completes_through_the_completion_of_git(
    lab: Lab, world: tuple[pathlib.Path, str, str]
) -> None:
    repo, team, own = world
    asked = [f"git mem show {team[:4]}", "git mem list --type=dec", f"git -C {repo} mem share "]
    told = "".join(in_shell(lab, "zsh", repo, f"set -- {shlex.join(asked)}\n{ZSH}"))
    assert f"LINE<git mem show {team} >" in told
    assert "LINE<git mem list --type=decision >" in told
    assert f"LINE<git -C {repo} mem share {own} >" in told
