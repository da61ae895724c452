"""What became of lines that memories are about."""

from __future__ import annotations

import pytest
from conftest import Lab
from tale import Tale

from gitmem.anchors.path_state import PathState as State
from gitmem.core import lineanchor


@pytest.fixture
def tale(lab: Lab) -> Tale:
    return Tale.begun(lab)


CODE = """import os


# why this is
# as it is
def send(message, retries):
    if retries:
        return post(message, retries)
    raise Failed


def other():
    pass
"""


def test_lines_are_same_while_they_stand_somewhere(tale: Tale) -> None:
    tale.write("m.py", CODE).commit()
    lines = tale.wanted("m.py", lines="4-9")
    tale.write("m.py", "import sys\n" + CODE.replace("pass", "return 1")).commit()
    assert tale.state(lines) == State("same", lines="5-10")
    tale.write("m.py", CODE.replace("pass", "return 1")).commit()
    assert tale.state(lines) == State("same")
    tale.write(
        "m.py",
        CODE.replace("# why this is\n# as it is", "# why this\n# is as it is")
        .replace("(message, retries):", "(\n    message,\n    retries,\n):")
        .replace("    ", "  "),
    ).commit()
    assert tale.state(lines) == State("same", lines="4-12")
    tale.move("m.py", "n.py").commit()
    assert tale.state(lines) == State("renamed", "n.py", lines="4-12")
    tale.write("n.py", CODE.replace("if retries", "if not retries")).commit()
    assert tale.state(lines) == State("changed", "n.py")
    tale.git("rm", "-q", "n.py")
    tale.commit()
    assert tale.state(lines) == State("gone")


def test_lines_of_a_file_whose_old_content_is_not_here_are_found_by_their_anchor(
    lab: Lab, tale: Tale
) -> None:
    from gitmem.core import lineanchor

    tale.write("m.py", CODE).commit()
    at, path, blob, _ = tale.wanted("m.py")
    content = lineanchor.anchor(CODE.encode(), "4-9")
    tale.write("m.py", "import sys\n" + CODE).commit()
    lab.git(lab.root, "clone", "-q", "--depth", "1", f"file://{tale.repo}", "shallow")
    shallow = Tale(lab, lab.root / "shallow")
    assert shallow.states([(at, path, blob, f"4-9@{content}"), (at, path, blob, "4-9")]) == [
        State("same", lines="5-10"),
        State("changed"),
    ]


@pytest.mark.parametrize("lines", ["free text", "0-3", "9-2", "900-901", "1-99999999", ""])
def test_lines_that_say_nothing_count_as_the_whole_file(tale: Tale, lines: str) -> None:
    tale.write("m.py", CODE).commit()
    wanted = tale.wanted("m.py", lines=lines)
    tale.write("m.py", CODE + "\n").commit()
    assert tale.state(wanted) == State("changed")


def test_lines_whose_text_is_not_here_are_looked_for_in_bounds(lab: Lab) -> None:
    """In a shallow clone every part of a file of that length would be hashed: a recall once took
    minutes.
    """
    text = "".join(f"value_{i} = compute({i}, offset={i * 7})\n" for i in range(6000))
    lines = lineanchor.anchor(text.encode(), "1-2000")
    assert lineanchor.find(("# new\n" + text).encode(), "1-2000", lines) == (
        2,
        2001,
    )  # found at the begin of a line
    with pytest.raises(lineanchor.TooLong):
        lineanchor.find(text.replace("value_3 =", "other_3 =").encode(), "1-2000", lines)
