"""What people see of the commands as a whole: the overview, the help of one, and what a call with
wrong words is told."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import Lab
from typer.main import get_command

from gitmem.cli import _nearest_command, commands, load


def told(lab: Lab, *argv: str) -> tuple[int, str, str]:
    done = lab.run(lab.root, "git-mem", *argv)
    return done.returncode, done.stdout, done.stderr


def listed(text: str) -> list[str]:
    return [row.split()[0] for row in text.splitlines() if row.startswith("   ")]


def test_h_shows_at_most_fifteen_commands_in_groups_and_names_the_rest(lab: Lab) -> None:
    status, text, _ = told(lab, "-h")
    assert status == 0 and "\nstart\n   init " in text and "\nfind\n   recall " in text
    assert listed(text) == [c.name for c in commands.COMMANDS.values() if c.daily]
    assert 10 <= len(listed(text)) <= 15
    assert "git mem help -a" in text and max(map(len, text.splitlines())) < 80
    assert told(lab, "--help") == told(lab, "help") == (0, text, "")
    assert told(lab) == (2, text, "")


def test_help_a_shows_all_commands_low_level_ones_last_and_no_alias(lab: Lab) -> None:
    _, text, _ = told(lab, "help", "-a")
    assert listed(text) == list(commands.COMMANDS)
    low = text[text.index(commands.LOW_LEVEL) :]
    assert listed(low) == ["hook", "index", "reanchor", "calibrate"]
    assert max(map(len, text.splitlines())) < 80


@pytest.mark.quick
def test_the_table_names_the_commands_that_there_are() -> None:
    from typer.main import get_command

    there = get_command(load()).commands  # type: ignore[attr-defined]
    assert set(there) == {*commands.COMMANDS, *commands.ALIASES}
    assert {name for name, command in there.items() if command.hidden} == set(commands.ALIASES)


@pytest.mark.parametrize("words", [["recall"], ["model", "fetch"]])
def test_the_help_of_a_command_has_three_names(lab: Lab, words: list[str]) -> None:
    status, text, _ = told(lab, *words, "-h")
    assert status == 0 and f"git mem {' '.join(words)} [OPTIONS]" in text
    assert told(lab, *words, "--help") == told(lab, "help", *words) == (0, text, "")
    assert lab.run(lab.root, "git", "mem", *words, "--help").stdout == text


@pytest.mark.quick
def test_help_names_the_value_of_each_option_by_what_it_is() -> None:
    root: Any = get_command(load())
    parts = [
        part for one in root.commands.values() for part in getattr(one, "commands", {}).values()
    ]
    options = [
        (f"{command.name} {param.opts[0]}", param.metavar)
        for command in (*root.commands.values(), *parts)
        for param in command.params
        if param.param_type_name == "option" and not (param.is_flag or param.hidden)
    ]
    assert len(options) > 60 and [name for name, value in options if not value] == []


@pytest.mark.parametrize(
    "words, message, hint",
    [
        ("list --tpye x", "--stale, --type)", "git mem list -h"),
        ("recall --tpye=x", "no such option: --tpye (", "git mem recall -h"),
        ("recall --xyzzy", "no such option: --xyzzy", "git mem recall -h"),
        ("model fetch --jsn", "no such option: --jsn (", "model fetch -h"),
        ("recall --no-verify-ssl", "no such option: --no-verify-ssl", "behind `--`"),
        ("remember --no-verify-ssl_fails", "no such option: --no-verify-ssl_fails", "behind `--`"),
        ("recall --type", "option '--type' requires an argument", "git mem recall -h"),
        ("recall -n x", "'x' is not a valid int", "git mem recall -h"),
        ("show", "missing argument 'ID...'", "git mem show -h"),
        ("config captrue", "no setting 'captrue'; did you mean mem.capture?", "mem.capture"),
    ],
)
def test_wrong_words_are_named_with_their_nearest_neighbour(
    lab: Lab, words: str, message: str, hint: str
) -> None:
    done = lab.run(lab.repo(), "git-mem", *words.split())
    error, _, more = done.stderr.partition("\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert error.startswith("error: ") and message in error and not error[7].isupper()
    assert hint in more and more.count("\n") == 1


@pytest.mark.parametrize(
    "word, meant",
    [
        *[("add", "remember"), ("save", "remember"), ("store", "remember"), ("find", "recall")],
        *[("query", "recall"), ("serach", "recall"), ("ls", "list"), ("rm", "forget")],
        *[("delete", "forget"), ("remove", "forget"), ("undo", "restore"), ("revert", "restore")],
        *[("undelete", "restore"), ("history", "log"), ("prime", "context"), ("cat", "show")],
        *[("remmeber", "remember"), ("FORGET", "forget"), ("restor", "restore")],
    ],
)
def test_a_word_of_another_tool_is_told_the_command_it_means(
    lab: Lab, word: str, meant: str
) -> None:
    status, out, error = told(lab, word, "ID")
    assert (status, out) == (2, "")
    assert error.startswith(f"error: no such command: {word}; did you mean {meant}?\n")
    assert "`git mem help -a` lists the commands" in error


@pytest.mark.quick
def test_nobody_is_told_to_purge() -> None:
    words = ["purg", "prge", "pruge", "purge!", "purges", "urge", "erase", "wipe", "xyzzy"]
    assert "purge" not in map(_nearest_command, words)
    assert _nearest_command("xyzzy") == _nearest_command("pruge") == ""


@pytest.mark.quick
def test_no_synonym_is_a_command_and_each_means_one() -> None:
    assert set(commands.SYNONYMS.values()) <= commands.COMMANDS.keys() - {"purge"}
    assert not commands.SYNONYMS.keys() & commands.COMMANDS.keys()
    said = " ".join(commands._SYNONYMS.values()).split()
    assert len(said) == len(set(said))


def test_memories_as_files_of_claude_are_one_of_the_exports(
    lab: Lab,
) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "Times are stored as UTC", "--type", "decision")
    assert lab.json(repo, "export", "claude", "--dry-run")["written"] == 1
    assert lab.json(repo, "export", "claude", "--limit", "5")["written"] == 1
    assert lab.json(repo, "export", "claude", "--remove")["removed"] == 1
    assert "claude" not in told(lab, "sync", "-h")[1]
    assert "[claude|DIR]" in told(lab, "export", "-h")[1]


@pytest.mark.parametrize(
    "words, message",
    [
        ("export claude --format md", "takes no --output, --format or --scope"),
        ("export --remove", "go with `git mem export claude`"),
        ("export calude", "git mem cannot export to 'calude'"),
        ("export --json --format md", "--json and --format md are two formats"),
    ],
)
def test_options_of_the_two_kinds_of_export_do_not_mix(lab: Lab, words: str, message: str) -> None:
    done = lab.run(lab.repo(), "git-mem", *words.split())
    assert done.returncode == 2 and message in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        *("check --format github", "diff --format md HEAD", "graph --format dot"),
        *("context --format xml", "context --format md"),
    ],
)
def test_json_and_another_format_are_refused(lab: Lab, words: str) -> None:
    repo, words = lab.repo(), f"{words} --json"
    done = lab.run(repo, "git-mem", *words.split())
    form = words.split()[2]
    assert (done.returncode, done.stdout) == (2, "")
    assert f"--json and --format {form} are two formats" in done.stderr
    same = words.replace(form, "json").split()
    assert lab.json(repo, *same[:-1], rc=(0, 1)) == lab.json(repo, *same, rc=(0, 1))
