"""`why` and `blame` about lines: found again where they stand now."""

from __future__ import annotations

import pathlib
import sys

import pytest
from conftest import Lab
from places import head, opened, tell
from why_world import CODE, about, found, make

from gitmem.engine.filters import Filter
from gitmem.memory import remember
from gitmem.timeline import why
from gitmem.timeline.file_lines import Line, Target


@pytest.fixture
def repo(lab: Lab) -> pathlib.Path:
    return make(lab)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("3-2", "names no lines"),
        ("0", "names no lines"),
        ("0-4", "names no lines"),
        ("4-", "names no lines"),
        ("1-9000", "names no lines"),
        ("123456789", "names no lines"),
    ],
)
def test_lines_that_no_file_can_have_are_refused_as_remember_does(
    lab: Lab, repo: pathlib.Path, lines: str, said: str
) -> None:
    about(lab, repo, "of the file", "src/parser.py")
    for argv in (("why",), ("blame",), ("why", "--at", "HEAD"), ("remember", "text", "--path")):
        done = lab.run(repo, sys.executable, "-m", "gitmem", *argv, f"src/parser.py:{lines}")
        assert done.returncode == 2 and f"'src/parser.py:{lines}' {said}" in done.stderr, (
            argv,
            done.stderr,
        )
    (repo / f"odd:{lines}").write_text("one\n")
    lab.git(repo, "add", "-A")
    lab.git(repo, "commit", "-q", "-m", "a file of that very name")
    about(lab, repo, "of the odd one", f"odd:{lines}")
    assert found(repo, f"odd:{lines}") == {"of the odd one": ["file", "commit"]}
    assert "one" in lab.mem(repo, "blame", f"odd:{lines}")
    lab.git(repo, "rm", "-q", f"odd:{lines}")
    lab.git(repo, "commit", "-q", "-m", "gone")
    assert set(found(repo, f"odd:{lines}", at="HEAD~1")) == {"of the odd one"}


def test_lines_that_are_not_committed_yet_have_no_commit(lab: Lab, repo: pathlib.Path) -> None:
    tell(repo, "the rules are simple")
    (repo / "src" / "parser.py").write_text("# new\n" + CODE)
    told = lab.json(repo, "blame", "src/parser.py:1-2")
    assert [(line["commit"], bool(line["memories"]), line["text"]) for line in told["lines"]] == [
        (None, False, "# new"),
        (head(lab, repo), True, "def rule_0(x):"),
    ]
    text = lab.mem(repo, "blame", "src/parser.py:1-2")
    assert "not yet" in text and told["memories"][0]["id"][:8] in text.splitlines()[1]


def test_lines_of_a_memory_are_found_where_they_stand_now(lab: Lab, repo: pathlib.Path) -> None:
    with opened(repo) as store:
        made = remember.remember(
            store,
            [
                {
                    "body": "seven is special",
                    "paths": [{"path": "src/parser.py", "lines": "15-16"}],
                    "commit": "HEAD",
                },
                {"body": "of the file", "paths": ["src/parser.py"], "commit": "HEAD~1"},
            ],
        )
    assert found(repo, "src/parser.py:16") == {
        "seven is special": ["line"],
        "of the file": ["file"],
    }
    assert found(repo, "src/parser.py:12") == {
        "of the file": ["file"]
    }  # its commit wrote that line, too, but it says which it is about
    lab.git(repo, "mv", "src/parser.py", "rules.py")
    (repo / "rules.py").write_text(
        "# one\n# two\n"
        + CODE.replace("    return x + 7\n", "        return x + 7\n").replace("x + 3\n", "x * 3\n")
    )
    lab.git(repo, "commit", "-q", "-am", "moved and laid out anew")
    assert (
        found(repo, "rules.py:17")["seven is special"]
        == found(repo, "rules.py:18")["seven is special"]
        == ["line"]
    )
    assert "seven is special" not in found(repo, "rules.py:16") and "seven is special" not in found(
        repo, "rules.py:19"
    )
    (item,) = [m for m in lab.json(repo, "why", "rules.py:18") if m["id"] == made[0].id]
    assert item["why"][0] == {"by": "line", "path": "src/parser.py", "lines": [[17, 18]]}
    told = lab.json(repo, "blame", "rules.py:16-19")
    beside = {
        line["line"]: any(id == made[0].id for id in line["memories"]) for line in told["lines"]
    }
    assert beside == {16: False, 17: True, 18: True, 19: False} and {
        m["body"] for m in told["memories"]
    } == {"seven is special", "of the file"}
    (repo / "rules.py").write_text("other text\n" * 40)
    lab.git(repo, "commit", "-q", "-am", "all is new")
    (item,) = [m for m in lab.json(repo, "why", "rules.py:18") if m["id"] == made[0].id]
    assert item["why"] == [{"by": "former name", "path": "src/parser.py", "lines_unknown": True}]
    assert "its lines were changed or removed" in lab.mem(repo, "why", "rules.py:18")


def test_lines_are_claimed_only_in_the_file_that_has_them_now(lab: Lab, repo: pathlib.Path) -> None:
    with opened(repo) as store:
        remember.remember(
            store,
            [
                {
                    "body": "seven is special",
                    "paths": [{"path": "src/parser.py", "lines": "15-16"}],
                    "commit": "HEAD",
                },
                {"body": "of the file", "paths": ["src/parser.py"], "commit": "HEAD"},
            ],
        )
    lab.git(repo, "mv", "src/parser.py", "src/rules.py")
    lab.git(repo, "commit", "-q", "-m", "moved")
    (repo / "src" / "parser.py").write_text("".join(f"brand new {i}\n" for i in range(40)))
    lab.git(repo, "add", "-A")
    lab.git(repo, "commit", "-q", "-m", "another file")
    about(lab, repo, "of the new file", "src/parser.py")
    for _ in range(2):
        others = {"seven is special": ["former name"], "of the file": ["former name"]}
        assert found(repo, "src/rules.py:15") == {
            "seven is special": ["line"],
            "of the file": ["commit", "former name"],
        }
        assert found(repo, "src/parser.py:15") == {"of the new file": ["commit", "file"], **others}
        assert found(repo, "src/parser.py") == {"of the new file": ["file", "commit"], **others}
        told = lab.json(repo, "blame", "src/parser.py:14-16")
        assert all(len(line["memories"]) == 1 for line in told["lines"]) and {
            m["body"] for m in told["memories"]
        } == {"of the new file", "seven is special", "of the file"}
        (item,) = [
            m for m in lab.json(repo, "why", "src/parser.py:15") if m["body"] == "of the file"
        ]
        assert item["why"] == [
            {"by": "former name", "path": "src/parser.py", "now": "src/rules.py"}
        ]
        assert "about src/parser.py, which is src/rules.py now" in lab.mem(
            repo, "why", "src/parser.py:15"
        )
        lab.mem(repo, "index")


class _Id(str):
    """Counts with how many others it is compared."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        _Id.compared += 1
        return str.__eq__(self, other)


@pytest.mark.quick
def test_many_memories_about_many_lines_are_not_compared_with_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = [Line(number, "c", "text") for number in range(11, 61)]
    spans = [{"by": "commit", "lines": [[11, 20], [30, 60]]}, {"by": "line", "lines": [[15, 40]]}]
    items = [{"id": _Id(f"{n:032x}"), "why": spans} for n in range(200)]
    found = why.Why(items, 0, 0, Filter())
    monkeypatch.setattr(why, "target", lambda *_: Target("file"))
    monkeypatch.setattr(why, "_ask", lambda *_, **how: (found, lines, "file"))
    why.blame(None, "file", at="")  # type: ignore[arg-type]
    assert all(line.ids == [item["id"] for item in items] for line in lines)
    assert _Id.compared <= 2 * len(lines) * len(items)
