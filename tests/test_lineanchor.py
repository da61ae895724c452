"""Lines that are known by what they say: found again however they are laid out, and `remember
--path FILE:10-20`.
"""

from __future__ import annotations

import json

import pytest
from conftest import Lab
from hypothesis import given, settings
from hypothesis import strategies as st

from gitmem.core import lineanchor, record, record_content

CODE = b"""import os

# why this is
# as it is
def send(message, retries):
    if retries:
        return post(message, retries)
    raise Failed
"""


def found(text: bytes, lines: str = "3-8", was: bytes = CODE) -> tuple[int, int] | None:
    """Where lines are in another text; the same with and without the old text at hand."""
    content = lineanchor.anchor(was, lines)
    known = lineanchor.find(text, lines, content, was)
    assert known == lineanchor.find(text, lines, content)
    return known


def test_moved_indented_and_wrapped_lines_are_found() -> None:
    assert found(CODE) == (3, 8)
    assert found(b"# first\n\n" + CODE) == (5, 10)
    assert found(b"class A:\n" + CODE.replace(b"\n", b"\n\t") + b"\n") == (4, 9)
    assert found(CODE.replace(b"\n", b"\r\n")) == (3, 8)
    assert found(CODE.replace(b"is\n# as it is", b"is as\n# it\n# is")) == (3, 9)
    assert found(CODE.replace(b"(message, retries):", b"(\n    message,\n    retries,\n):")) == (
        3,
        11,
    )
    assert found(CODE + CODE) == (3, 8)


@pytest.mark.parametrize(
    "change",
    [
        (b"if retries", b"if not retries"),
        (b"message", b"Message"),
        (b"    raise Failed", b"    # raise Failed"),
        (b"raise Failed\n", b""),
        (b"# as it is\n", b"# as it was\n"),
        (b"post(", b"put("),
        (b"def ", b"async def "),
    ],
)
def test_changed_words_are_not(change: tuple[bytes, bytes]) -> None:
    text = CODE.replace(*change)
    assert text != CODE and found(text) is None


def test_code_that_became_a_comment_is_not_found() -> None:
    assert found(CODE.replace(b"    if retries:", b"    # if retries:"), "6") is None
    assert found(b"# a comment\n# x = 1\n", "2", b"# a comment\nx = 1\n") is None


def test_a_comma_at_the_end_of_the_lines_counts_like_one_within() -> None:
    was, now = b"f(\n    a,\n    b,\n)\n", b"f(\n    a,\n)\n"
    assert found(now, "2", was) == (2, 2) and found(was, "2", now) == (2, 2)
    assert found(b"f(\n    b,\n    a\n)\n", "2", was) == (3, 3)
    assert found(b"f(\n    a + b,\n)\n", "2", was) is None
    assert found(b"f(a)\n", "2", was) is None  # `b` is out of the call
    assert found(b"x\n,\n", "2", b"y\n,\n") == (2, 2)


def test_lines_at_the_ends_that_say_nothing_count_where_they_were() -> None:
    was = b"#\n# one\n#\n\nx = 1\n"
    content = lineanchor.anchor(was, "1-4")
    assert lineanchor.find(was, "1-4", content, was) == (1, 4)
    assert lineanchor.find(b"y = 2\n" + was, "1-4", content, was) == (3, 3)
    assert lineanchor.find(b"# one\nx = 1\n", "1-4", content, was) == (1, 1)


def test_words_are_not_found_inside_of_longer_ones() -> None:
    assert found(b"max = 10\n", "1", b"x = 1\n") is None
    assert found(b"y = 2; x = 1; z = 3\n", "1", b"x = 1\n") == (1, 1)


def test_the_nearest_of_several_places_counts() -> None:
    text = b"pass\n" * 3 + b"x\n" * 30 + b"pass\n"
    assert found(text, "30", b"x\n" * 29 + b"pass\n") == (34, 34)


def test_nothing_to_hold_on_to() -> None:
    assert (
        lineanchor.anchor(b"\n\n \n", "1-3")
        == lineanchor.anchor(b"a\n", "5")
        == lineanchor.anchor(b"a\0b\n", "1")
        == lineanchor.anchor(b"a", "x")
        == ""
    )
    assert (
        lineanchor.find(b"", "1", "", b"") is None
        and lineanchor.find(b"a", "1", "junk") is None
        and lineanchor.find(b"a", "1", "99999999999.ab") is None
    )


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("a/b.py:10-20", ("a/b.py", "10-20")),
        ("b.py:7", ("b.py", "7")),
        ("b.py", ("b.py", "")),
        ("b.py:", ("b.py:", "")),
        (":3", (":3", "")),
        ("b.py:0", ("b.py:0", "")),
        ("b.py:9-3", ("b.py:9-3", "")),
        ("b:c.py:3", ("b:c.py", "3")),
        ("b.py:１", ("b.py:１", "")),
    ],
)
def test_a_path_and_its_lines(path: str, parts: tuple[str, str]) -> None:
    assert lineanchor.split(path) == parts


@settings(max_examples=150, deadline=None)
@given(st.lists(st.text("ab(,)#*/ \t", max_size=12), min_size=1, max_size=8), st.data())
def test_any_lines_find_themselves_and_survive_white_space(
    rows: list[str], data: st.DataObject
) -> None:
    text = "\n".join(rows).encode()
    first = data.draw(st.integers(1, len(rows)))
    last = data.draw(st.integers(first, len(rows)))
    lines = f"{first}-{last}"
    content = lineanchor.anchor(text, lines)
    if content:
        places = lineanchor.Layout(text).places(*lineanchor.Layout(text).range(first, last))
        assert any(first <= a and b <= last for a, b in places)
        spread = "\n".join("  " + row.replace("\t", "   ") + "\t\n" for row in rows).encode()
        assert lineanchor.find(spread, lines, content) is not None


# --- in records -----------------------------------------------------------------


def test_remember_notes_lines_and_recall_says_where_they_are(lab: Lab) -> None:
    repo = lab.repo()
    (repo / "m.py").write_bytes(CODE)
    lab.git(repo, "add", "-A")
    lab.git(repo, "commit", "-q", "-m", "code")
    lab.mem(
        repo,
        "remember",
        "Sending is retried once, the broker answers late",
        "--path",
        "m.py:5-8",
        "--path",
        "m.py:1",
    )
    (line,) = [json.loads(row) for row in lab.lines(repo)]
    blob = lab.git(repo, "rev-parse", "HEAD:m.py").strip()
    assert line["paths"] == [
        {"path": "m.py", "lines": "5-8", "blob": blob, "content": lineanchor.anchor(CODE, "5-8")},
        {"path": "m.py", "lines": "1", "blob": blob, "content": lineanchor.anchor(CODE, "1")},
    ]
    (repo / "m.py").write_bytes(b"import sys\n" + CODE.replace(b"import os", b"import re"))
    lab.git(repo, "commit", "-q", "-a", "-m", "change")
    paths = lab.json(repo, "recall", "is sending retried")["hits"][0]["paths"]
    assert paths == [
        {"path": "m.py", "state": "same", "lines": "5-8", "lines_now": "6-9"},
        {"path": "m.py", "state": "changed", "lines": "1"},
    ]
    exported = json.loads(lab.mem(repo, "export"))
    assert exported["paths"] == [{"path": "m.py", "lines": "5-8"}, {"path": "m.py", "lines": "1"}]


def test_a_real_name_wins_and_wrong_lines_are_refused_alone(lab: Lab) -> None:
    repo = lab.repo()
    (repo / "log:1-2").write_text("x\n")
    (repo / "src").mkdir()
    (repo / "src" / "a").write_text("x\n")
    lab.git(repo, "add", "-A")
    lab.git(repo, "commit", "-q", "-m", "odd")
    (repo / "new:3").write_text("not committed\n")
    lab.mem(
        repo,
        "remember",
        "An odd name",
        "--path",
        "log:1-2",
        "--path",
        "new:3",
        "--path",
        "f0.txt:1",
        "--path",
        "later.py:4-5",
    )
    (line,) = [json.loads(row) for row in lab.lines(repo)]
    assert [(p["path"], p.get("lines")) for p in line["paths"]] == [
        ("log:1-2", None),
        ("new:3", None),
        ("f0.txt", "1"),
        ("later.py", "4-5"),
    ]
    rows = [
        {"body": "one", "paths": ["f0.txt:7-9"]},
        {"body": "two", "paths": [{"path": "f0.txt", "lines": "1"}]},
        {"body": "three", "paths": [{"path": "f0.txt", "lines": "the first"}]},
        {"body": "four", "paths": [{"path": "f0.txt", "lines": 1}]},
        {"body": "five", "paths": ["src:1"]},
    ]
    done = lab.run(
        repo,
        "git-mem",
        "remember",
        "--jsonl",
        "-",
        "--json",
        stdin="".join(json.dumps(r) + "\n" for r in rows),
    )
    answers = [json.loads(row) for row in done.stdout.splitlines()]
    assert (
        [a["status"] for a in answers] == ["refused", "stored", "stored", "refused", "refused"]
        and answers[0]["reason"] == "'f0.txt' has 1 line, not 7-9"
        and "directory" in answers[4]["reason"]
    )


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("f0.txt:5-2", "names no lines"),
        ("f0.txt:0", "names no lines"),
        ("gone.txt:0-3", "names no lines"),
        ("f0.txt:4-", "names no lines"),
        ("f0.txt:-4", "names no lines"),
        ("f0.txt:1-99", "'f0.txt' has 1 line, not 1-99"),
        ("f0.txt:1-9000", "names no lines"),
        ("f0.txt:123456789", "names no lines"),
        ("f0.txt:abc", "neither a file nor lines"),
        ("f0.txt:", "neither a file nor lines"),
    ],
)
def test_lines_that_no_file_can_have_are_wrong_usage(lab: Lab, path: str, said: str) -> None:
    repo = lab.repo()
    done = lab.run(repo, "git-mem", "remember", "A text", "--path", path)
    assert done.returncode == 2 and said in done.stderr and lab.lines(repo) == []
    id = lab.json(repo, "remember", "Another text")["id"]
    done = lab.run(repo, "git-mem", "edit", id, "--path", path)
    assert done.returncode == 2 and said in done.stderr
    rows = [
        {"body": "one"},
        {"body": "two", "paths": [path]},
        {"body": "three", "paths": ["f0.txt:1"]},
    ]
    done = lab.run(
        repo,
        "git-mem",
        "remember",
        "--jsonl",
        "-",
        stdin="".join(json.dumps(r) + "\n" for r in rows),
    )
    assert (
        done.returncode == 1
        and "line 2: " in done.stderr
        and said in done.stderr
        and "2 stored, 0 known, 1 refused" in done.stdout
    )
    if path != "f0.txt:":  # nobody can tell it from the file itself
        (repo / path).write_text("a name of its own\n")
        lab.mem(repo, "remember", "A text about an odd name", "--path", path)
        assert path in [p["path"] for m in lab.json(repo, "list") for p in m["paths"]]


def test_what_is_not_there_may_be_named_and_a_column_is_no_line(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(
        repo,
        "remember",
        "To come",
        "--path",
        "later.py",
        "--path",
        "src/a:b.c",
        "--path",
        "f0.txt:1:7",
        "--path",
        "std::vector",
    )
    (line,) = [json.loads(row) for row in lab.lines(repo)]
    assert [(p["path"], p.get("lines")) for p in line["paths"]] == [
        ("later.py", None),
        ("src/a:b.c", None),
        ("f0.txt", "1"),
        ("std::vector", None),
    ]


def test_an_edit_of_the_text_leaves_a_path_alone_that_is_wrong_today(lab: Lab) -> None:
    repo = lab.repo()
    path = {"path": "f0.txt:5-2"}
    data = record.create(
        record_content.checked({"body": "An old text", "paths": [path], "author": "Ada"}),
        commit=lab.git(repo, "rev-parse", "HEAD").strip(),
    )
    lab.git(repo, "notes", "--ref=mem/team", "add", "-m", record.dump(data).decode())
    lab.mem(repo, "edit", data["id"], "-m", "A new text")
    (found,) = lab.json(repo, "list")
    assert found["body"] == "A new text" and found["paths"][0]["path"] == "f0.txt:5-2"


def test_what_supersedes_is_about_the_same_lines(lab: Lab) -> None:
    """They moved, one path was renamed, of one the text is another, one is gone, one never was
    there.
    """
    repo = lab.repo()
    rows = [f"line {n}" for n in range(1, 21)]
    for name in ("moved.py", "old.py", "other.py", "cut.py", "gone.py"):
        (repo / name).write_text("".join(f"{name} {row}\n" for row in rows))
    lab.git(repo, "add", "-A")
    lab.git(repo, "commit", "-q", "-m", "files")
    id = lab.json(
        repo,
        "remember",
        "What was decided",
        *(
            f"--path={p}"
            for p in (
                "moved.py:5-8",
                "old.py:3",
                "other.py:5-6",
                "other.py:12",
                "cut.py:5-6",
                "gone.py:2",
                "never.py:7-9",
                "f0.txt",
            )
        ),
    )["id"]

    def change(name: str, *edits: tuple[int, int, list[str]]) -> None:
        text = (repo / name).read_text().splitlines()
        for first, last, new in edits:
            text[first - 1 : last] = new
        (repo / name).write_text("".join(f"{row}\n" for row in text))

    change("moved.py", (1, 0, ["new", "new"]))
    change("other.py", (12, 12, []), (5, 5, ["five", "five and a half"]), (1, 1, []))
    change("cut.py", (4, 7, []))
    lab.git(repo, "mv", "old.py", "new.py")
    lab.git(repo, "rm", "-q", "gone.py")
    lab.git(repo, "commit", "-q", "-a", "-m", "changes")
    lab.mem(repo, "supersede", id, "-m", "What was decided anew")
    line = next(row for row in map(json.loads, lab.lines(repo)) if "supersedes" in row)
    assert [(p["path"], p.get("lines")) for p in line["paths"]] == [
        ("moved.py", "7-10"),
        ("new.py", "3"),
        ("other.py", None),
        ("cut.py", None),
        ("gone.py", "2"),
        ("never.py", "7-9"),
        ("f0.txt", None),
    ]
    assert all(("content" in p) == ("lines" in p) for p in line["paths"] if p.get("blob")) and [
        p["path"] for p in line["paths"] if not p.get("blob")
    ] == ["gone.py", "never.py"]


def test_lines_are_counted_at_the_commit_and_an_edit_notes_them_at_head(lab: Lab) -> None:
    repo = lab.repo()
    (repo / "m.py").write_bytes(CODE)
    lab.git(repo, "add", "-A")
    lab.git(repo, "commit", "-q", "-m", "code")
    assert (
        "has 1 line,"
        in lab.run(
            repo, "git-mem", "remember", "old", "--commit", "HEAD~1", "--path", "f0.txt:2"
        ).stderr
    )
    id = lab.json(repo, "remember", "new", "--path", "m.py")["id"]
    lab.mem(repo, "edit", id, "--path", "m.py:5-8")
    assert lab.json(repo, "list")[0]["paths"] == [{"path": "m.py", "state": "same", "lines": "5-8"}]
    assert "has 8 lines" in lab.run(repo, "git-mem", "edit", id, "--path", "m.py:50").stderr


def test_what_a_newer_version_adds_to_a_path_survives_an_edit() -> None:
    entry = {"path": "a.py", "blob": "a" * 40, "column": 7, "anchor2": "x", "deep": {"a": [1]}}
    assert record_content.checked({"body": "x", "paths": [entry]})["paths"] == [entry]
    line = record.dump({**record.create(record_content.checked({"body": "x", "paths": [entry]}))})
    parsed = record.parse(line)
    assert (
        parsed is not None and parsed.data["paths"] == [entry] and record.dump(parsed.data) == line
    )
