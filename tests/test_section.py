"""Our section in AGENTS.md and CLAUDE.md: only when it is asked for, only between its markers, and
gone without a trace.
"""

from __future__ import annotations

import pathlib
import re

import pytest
from conftest import Lab
from install_world import files, put

from gitmem.agents import targets


@pytest.fixture
def repo(lab: Lab) -> pathlib.Path:
    return lab.repo()


@pytest.mark.parametrize("target", targets.SECTIONS)
@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "# Rules\n\nBe kind.\n",
        "# Rules",
        "# Rules\r\n\r\nBe kind.\r\n",
        "\ufeff# Rules\n",
    ],
)
def test_a_section_stands_between_markers_and_goes_without_a_trace(
    lab: Lab, repo: pathlib.Path, target: str, text: str | None
) -> None:
    path = repo / targets.SECTIONS[target]
    if text is not None:
        put(path, text)
    before = files(lab.root)
    lab.mem(repo, "install", target)
    now = path.read_bytes().decode()
    assert (
        now.startswith(text or "")
        and now.count(targets.BEGIN) == now.count(targets.END) == 1
        and ("\r\n" in now) == ("\r\n" in (text or ""))
    )
    assert lab.mem(repo, "install", target) == "nothing had to change\n"
    lab.mem(repo, "uninstall", target)
    assert files(lab.root) == before


def test_text_that_others_write_around_a_section_stays(lab: Lab, repo: pathlib.Path) -> None:
    path = put(repo / "AGENTS.md", "# Rules\n")
    lab.mem(repo, "install", "agents-md")
    path.write_text(
        path.read_text().replace("# Rules", "# New rules").replace("HIT", "hit") + "\nMore.\n"
    )
    lab.mem(repo, "install", "agents-md")
    assert "HIT, WEAK or MISS" in path.read_text() and path.read_text().endswith("\nMore.\n")
    lab.mem(repo, "uninstall", "agents-md")
    assert path.read_text() == "# New rules\n\nMore.\n"


@pytest.mark.parametrize(
    "text",
    [targets.BEGIN, f"{targets.END}\n{targets.BEGIN}\n", f"{targets.BEGIN}\n{targets.END}\n" * 2],
)
def test_markers_that_do_not_fit_are_left_alone(lab: Lab, repo: pathlib.Path, text: str) -> None:
    path = put(repo / "AGENTS.md", text)
    for words in ("install", "uninstall"):
        lab.mem(repo, words, "agents-md", rc=(1,))
    assert path.read_text() == text


def test_nothing_else_touches_files_of_instructions(lab: Lab, repo: pathlib.Path) -> None:
    for name in targets.SECTIONS.values():
        put(repo / name, "mine\n")
    for agent in targets.AGENTS:
        lab.mem(repo, "install", agent, "--project")
    assert {(repo / name).read_text() for name in targets.SECTIONS.values()} == {"mine\n"}


def test_the_section_names_commands_that_exist() -> None:
    from gitmem.cli.commands import COMMANDS

    told = set(re.findall(r"`git mem ([a-z]+)", targets.TEXT))
    assert told and told <= set(COMMANDS)
