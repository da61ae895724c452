"""What is no UTF-8, or holds NUL: as an argument it is refused or works as a path, as a text it is
refused with the byte's place; nothing is stored damaged.
"""

from __future__ import annotations

import io
import json
import os
import pathlib
import pty
import subprocess
import sys
from collections.abc import Iterator

import pytest
import typer
from conftest import Lab

from gitmem import cli
from gitmem.cli import common
from gitmem.core import record
from gitmem.core.errors import MemError
from gitmem.core.record import no_text

ODD = "caf\udce9.txt"
PLACE = "is not UTF-8: byte 0xe9 at offset 3"


@pytest.mark.parametrize(
    "data, why",
    [
        (b"", ""),
        ("süß 🐘".encode(), ""),
        (b"caf\xe9", PLACE),
        (b"a\0b", "holds a NUL byte at offset 1"),
        (b"a\0\xff", "holds a NUL byte at offset 1"),
        (b"\xffa\0", "is not UTF-8: byte 0xff at offset 0"),
        (b"ab\xc3", "is not UTF-8: byte 0xc3 at offset 2"),
    ],
)
def test_bytes_that_are_no_text_are_named_with_their_place(data: bytes, why: str) -> None:
    assert no_text(data) == why


# Arguments


def commands() -> list[tuple[str, list[str], list[str], int]]:
    """(command, its options that take a value, their like for arguments, how many arguments it
    needs).
    """
    found = []
    for name, command in sorted(typer.main.get_command(cli.load()).commands.items()):  # type: ignore[attr-defined]
        subcommands = getattr(command, "commands", None)
        for words, one in (
            [(f"{name} {sub}", c) for sub, c in subcommands.items()]
            if subcommands
            else [(name, command)]
        ):
            options = [
                p.opts[-1]
                for p in one.params
                if p.param_type_name == "option" and not getattr(p, "is_flag", False)
            ]
            arguments = [p for p in one.params if p.param_type_name == "argument"]
            found.append(
                (words, options, [p.name for p in arguments], sum(p.required for p in arguments))
            )
    return found


@pytest.fixture
def place(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Iterator[pathlib.Path]:
    repo = lab.repo()
    lab.mem(repo, "remember", "invoices are kept in cents", "--path", ODD)
    for key in [*os.environ]:
        if key not in lab.env:
            monkeypatch.delenv(key)
    for key, value in lab.env.items():
        monkeypatch.setenv(key, value)
    monkeypatch.chdir(repo)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    yield repo


def answer(argv: list[str]) -> tuple[int, str]:
    """As `__main__` gives it; what is a bug there is raised here."""
    try:
        return cli.run(argv), ""
    except MemError as e:
        return e.code, e.message


def test_every_argument_and_option_value_that_is_not_utf8_is_refused_or_a_path(
    place: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = {
        p: p.read_bytes()
        for p in place.rglob("*")
        if p.is_file() and ".git" in p.parts and "mem" not in p.parts[-3:]
    }
    tried = 0
    worked = set()
    for words, options, arguments, needed in commands():
        name = words.split()
        if name[0] in ("hook", "worker"):
            continue  # agents and git start them: test_hook_attacks
        calls = [
            [*name, *["x"] * at, ODD, *["x"] * (needed - at - 1)] for at in range(len(arguments))
        ]
        for option in options:
            calls += [
                [*name, *["x"] * needed, option, ODD],
                [*name, *["x"] * needed, f"{option}={ODD}"],
            ]
        for argv in calls:
            tried += 1
            status, said = answer(argv)
            if "is not UTF-8: byte 0xe9 at offset" in said:
                assert status == 2
            elif argv[-1].startswith("-") or argv[-2].startswith("-"):
                worked.add(argv[-2] if argv[-1] == ODD else argv[-1].partition("=")[0])
            else:
                worked.add(name[0])
    capfd.readouterr()
    assert tried > 200
    assert worked <= {*common._PATH_OPTIONS, *common._PATH_COMMANDS}, worked
    assert {p: p.read_bytes() for p in before if p.exists()} == before


@pytest.mark.parametrize(
    "argv",
    [
        ["show", ODD],
        ["bisect", ODD],
        ["list", "--type", ODD],
        ["recall", ODD],
        ["remember", ODD],
        ["remember", "-m", "x", "--tag", ODD],
        [ODD],
        ["--" + ODD],
        ["config", "ref", ODD],
        ["remember", "-m", ODD],
    ],
)
def test_as_a_process_it_is_one_line_and_exit_2(lab: Lab, argv: list[str]) -> None:
    repo = lab.repo()
    done = lab.run(repo, sys.executable, "-m", "gitmem", *argv)
    assert (
        done.returncode == 2
        and done.stderr.count("\n") == 1
        and "is not UTF-8: byte 0xe9 at offset" in done.stderr
        and not done.stdout
    )
    assert lab.lines(repo) == []


@pytest.mark.parametrize(
    "argv", [["why", "--json", ODD], ["log", "--", ODD], ["why", ODD, "--json"]]
)
def test_a_path_behind_a_flag_is_a_path(place: pathlib.Path, argv: list[str]) -> None:
    assert "is not UTF-8" not in answer(argv)[1]


def test_a_path_that_is_not_utf8_is_found_where_a_memory_names_it(lab: Lab) -> None:
    repo = lab.repo()
    (repo / "plain").write_text("x\n")
    with open(os.path.join(os.fsencode(repo), os.fsencode(ODD)), "w") as f:
        f.write("x\n")
    lab.git(repo, "add", "-A")
    lab.git(repo, "commit", "-qm", "odd")
    id = lab.json(repo, "remember", "about the odd one", "--path", ODD)["id"]
    lab.mem(repo, "remember", "about another one", "--path", "plain")
    for words in (["recall", "about one", "--path", ODD], ["list", "--path", ODD]):
        found = lab.json(repo, *words)
        assert [m["id"] for m in (found["hits"] if isinstance(found, dict) else found)] == [id], (
            words
        )
    assert id in [m["id"] for m in lab.json(repo, "why", ODD)]


# Texts


@pytest.mark.parametrize(
    "raw, why", [(b"caf\xe9 and more", PLACE), (b"abc\0def", "holds a NUL byte at offset 3")]
)
def test_a_text_is_refused_with_the_place_by_every_way_in(lab: Lab, raw: bytes, why: str) -> None:
    repo = lab.repo()
    known = lab.json(repo, "remember", "known before")["id"]
    lines = lab.lines(repo)
    text = raw.decode("utf-8", "surrogateescape")
    (repo / "in.txt").write_bytes(raw)
    (repo / "in.jsonl").write_bytes(b'{"body":"good"}\n{"body":"' + raw + b'"}\n')
    editor = repo / "editor"
    editor.write_text('#!/bin/sh\ncat in.txt >"$1"\n')
    editor.chmod(0o755)
    for words, stdin in (
        (["remember", "--stdin"], text),
        (["edit", known, "--stdin"], text),
        (["supersede", known, "--stdin"], text),
        (["import", "in.txt"], ""),
        (["import", "-"], text),
    ):
        done = lab.run(repo, sys.executable, "-m", "gitmem", *words, stdin=stdin)
        assert done.returncode == 1 and why in done.stderr, (words, done.stderr)
    ours, theirs = pty.openpty()
    typed = subprocess.run(
        [sys.executable, "-m", "gitmem", "remember"],
        cwd=repo,
        env={**lab.env, "GIT_EDITOR": str(editor)},
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(ours)
    os.close(theirs)
    assert typed.returncode == 1 and why in typed.stderr
    assert lab.lines(repo) == lines
    done = lab.run(
        repo, sys.executable, "-m", "gitmem", "remember", "--jsonl", "in.jsonl", "--json"
    )
    (good, bad) = map(json.loads, done.stdout.splitlines())
    assert (
        done.returncode == 1
        and good["status"] == "stored"
        and (bad["line"], bad["status"]) == (2, "refused")
    )
    assert bad["reason"] == why.replace("offset 3", "offset 12")
    assert not any("\ufffd" in line or "\\u0000" in line for line in lab.lines(repo))


@pytest.mark.parametrize("field", ["body", "title", "tags", "type", "phase", "facts", "source"])
def test_an_escape_that_makes_nul_or_half_a_character_is_refused_in_every_field(
    lab: Lab, field: str
) -> None:
    repo = lab.repo()
    rows = [
        {"body": "b", field: ["ab" + odd] if field in ("tags", "facts") else "ab" + odd}
        for odd in ("\0", "\ud800")
    ]
    done = lab.run(
        repo,
        sys.executable,
        "-m",
        "gitmem",
        "remember",
        "--jsonl",
        "-",
        "--json",
        stdin="".join(json.dumps(row) + "\n" for row in rows),
    )
    assert [json.loads(line)["reason"] for line in done.stdout.splitlines()] == [
        f"'{field}' holds a NUL byte at offset 2",
        f"'{field}' is not UTF-8: byte 0xed at offset 2",
    ]
    assert lab.lines(repo) == []


def test_a_decision_record_that_is_not_utf8_is_named_and_the_others_come_in(lab: Lab) -> None:
    repo = lab.repo()
    (repo / "docs" / "adr").mkdir(parents=True)
    text = "# Use cents\n\n## Status\n\nAccepted\n\n## Decision\n\nAmounts are cents{}.\n"
    (repo / "docs/adr/0001-a.md").write_text(text.format(""))
    (repo / "docs/adr/0002-b.md").write_bytes(text.format(" in a café").encode("latin-1"))
    done = lab.json(repo, "import", "adr", rc=(1,))
    assert "is not UTF-8: byte 0xe9 at offset" in json.dumps(done) and len(lab.lines(repo)) == 1


def test_an_edit_of_a_foreign_record_that_holds_nul_does_not_fail_on_it(lab: Lab) -> None:
    """Only what the user gives is judged: another tool's text stays as readers show it."""
    repo = lab.repo()
    line = record.dump(
        record.create({"body": "ab\0cd", "type": "decision", "author": "x"}, commit="")
    ).decode()
    lab.git(repo, "notes", "--ref=mem/team", "add", "-m", line, "HEAD")
    id = lab.json(repo, "list")[0]["id"]
    lab.mem(repo, "edit", id, "--tag", "new")
    assert lab.json(repo, "list")[0]["tags"] == ["new"]
