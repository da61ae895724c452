"""Notes of Claude Code as it writes them, and as people and older clients leave them: read without
loss, told apart by what they say.
"""

from __future__ import annotations

import pytest

from gitmem.agents import automemory_note

# As clients 2.1.197 and 2.1.330 ask their model to write it.
WRITTEN = """---
name: testing-real-db
description: Integration tests must hit a real database, not mocks
metadata:
  type: feedback
  modified: 2026-05-04T10:00:00Z
  originSessionId: 1f0e
---

Integration tests must hit a real database.

**Why:** mocked tests passed while the production migration failed. See [[release-freeze]].
**How to apply:** every test under tests/db, see also [[ci|the pipeline]] and [[release-freeze#dates]].
"""  # noqa: E501


def test_a_file_of_the_client_is_read_whole() -> None:
    t = automemory_note.read("testing_real_db.md", WRITTEN, ("Integration tests", "real DB"))
    assert (t.title, t.description, t.kind, t.modified, t.session) == (
        "Integration tests",
        "Integration tests must hit a real database, not mocks",
        "feedback",
        "2026-05-04T10:00:00Z",
        "1f0e",
    )
    assert t.body.startswith("Integration tests must") and t.body.endswith(
        "[[release-freeze#dates]]."
    )
    assert t.links == ["release-freeze", "ci"]


@pytest.mark.parametrize(
    ("front", "kind", "description"),
    [
        ("type: user\ndescription: plain", "user", "plain"),
        (
            "metadata: {type: reference, x: y}\ndescription: 'it''s quoted'",
            "reference",
            "it's quoted",
        ),
        ('metadata: {"type": "user", "x": 1}\ndescription: JSON', "user", "JSON"),
        ("metadata: {\n  type: user\n}\ndescription: over lines", "user", "over lines"),
        ("type: user\ndescription: [[release-freeze]]", "user", "release-freeze"),
        ('metadata:\n    type: "project"\ndescription: "says \\"so\\""', "project", 'says "so"'),
        ("description: >\n  folded\n  text\ntype: user", "user", "folded text"),
        (
            "description: |-\n  two\n  lines\nmetadata:\n  # a comment\n  type: user # why",
            "user",
            "two lines",
        ),
        (
            (
                "metadata:\n  type: somethingelse\n- list\n: nothing\nbroken line\ndescription:"
                " kept: whole"
            ),
            "",
            "kept: whole",
        ),
    ],
)
def test_front_matter_of_any_usual_shape_is_understood(
    front: str, kind: str, description: str
) -> None:
    t = automemory_note.read("x.md", f"---\n{front}\n---\nThe body.\n")
    assert (t.kind, t.description, t.body) == (kind, description, "The body.")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "---",
        "---\n",
        "---\nname: x\nno end",
        "\ufeff---\nname: x\n---",
        "--- \n\n---",
        "no front matter\n---\nat all",
        "{\r\n}\r\n",
        "[[",
        "[[a|",
        "<private>",
        "---\nmetadata: {\n---\n{",
    ],
)
def test_any_text_is_accepted(text: str) -> None:
    automemory_note.read("some_file-name.md", text)
    automemory_note.read_index(text)


def test_what_is_not_closed_is_no_front_matter_and_stays() -> None:
    assert automemory_note.read("x.md", "---\nname: x\nno end").body == "---\nname: x\nno end"


def test_the_title_comes_from_the_index_else_the_heading_else_the_name() -> None:
    assert (
        automemory_note.read("a.md", "# From the heading\n\ntext", ("From the index", "")).title
        == "From the index"
    )
    assert automemory_note.read("a.md", "# From the heading\n\ntext").title == "From the heading"
    assert (
        automemory_note.read("a.md", "---\nname: from-the-name\ndescription: d\n---\ntext").title
        == "From the name"
    )
    assert automemory_note.read("release_freeze.md", "text").title == "Release freeze"
    assert len(automemory_note.read("a.md", "# " + "long " * 500).title) <= 300


def test_a_file_with_only_a_description_says_that() -> None:
    assert (
        automemory_note.read("a.md", "---\ndescription: The build needs two runs\n---\n").body
        == "The build needs two runs"
    )


def test_private_passages_are_cut_everywhere() -> None:
    t = automemory_note.read(
        "a.md",
        "---\ndescription: seen <private>hidden1</private>\n---\nseen"
        " <private>hidden2\nhidden3</private> too <PRIVATE>hidden4",
    )
    assert "hidden" not in t.title + t.description + t.body and "too" in t.body
    assert all(
        "hidden" not in passage.body
        for passage in automemory_note.read_index("# A\nseen <private>hidden</private>")[1]
    )


def test_an_index_gives_titles_and_hooks_and_its_own_text_as_topics() -> None:
    entries, passages = (
        automemory_note.read_index("""- [Integration tests](testing_real_db.md) — real DB
* [With \\[brackets\\]](./with%20space.md): hook
- [No hook](plain.md)
- [A page](https://example.org/x.md) is no topic
some text before any heading

## Build
Run `make` twice.
## Empty
## Build
Once more.
""")
    )
    assert entries == {
        "testing_real_db.md": ("Integration tests", "real DB"),
        "with space.md": ("With [brackets]", "hook"),
        "plain.md": ("No hook", ""),
    }
    assert [(p.file, p.title) for p in passages] == [
        ("MEMORY.md#", ""),
        ("MEMORY.md#build", "Build"),
        ("MEMORY.md#build-2", "Build"),
    ]
    assert "example.org" in passages[0].body and passages[1].body == "Run `make` twice."


def test_our_own_lines_of_an_index_are_not_read_and_others_among_them_are() -> None:
    entries, passages = automemory_note.read_index(
        f"- [Theirs](theirs.md) — hook\n{automemory_note.BEGIN}\n- [Ours](git-mem-1.md) — x\n"
        f"- [New](new.md) — y\n{automemory_note.END}\nrest\n"
    )
    assert list(entries) == ["theirs.md", "new.md"] and [p.body for p in passages] == ["rest"]


def test_the_digest_tells_an_edit_from_another_layout() -> None:
    one = automemory_note.read(
        "a.md", "---\nname: a\ntype: user\nmodified: 2026-01-01\n---\nSome text\nhere\n"
    ).digest
    assert (
        automemory_note.read(
            "a.md",
            "---\r\nname: a\r\nmetadata:\r\n  type: user\r\n  modified:"
            " 2026-02-02\r\n---\r\n\r\nSome text\r\nhere",
        ).digest
        == one
    )
    assert (
        automemory_note.read(
            "a.md", "---\nname: a\ntype: user\n---\nSome other text\nhere\n"
        ).digest
        != one
    )
    assert (
        automemory_note.read("a.md", "---\nname: a\ntype: project\n---\nSome text\nhere\n").digest
        != one
    )


@pytest.mark.parametrize(
    ("kind", "body", "type"),
    [
        ("user", "Ten years of Go, new to React", "preference"),
        ("feedback", "Never mock the database in integration tests", "convention"),
        ("feedback", "The short summaries were well received", "learning"),
        ("project", "We decided on PostgreSQL instead of MongoDB", "decision"),
        ("project", "The release is blocked by the licence review", "blocker"),
        ("project", "Merge freeze until 2026-03-05", "progress"),
        ("project", "The mobile team has two people", "finding"),
        ("reference", "Pipeline bugs are tracked in Linear, project INGEST", "research"),
        ("", "Something else", ""),
    ],
)
def test_the_clients_types_become_ours(kind: str, body: str, type: str) -> None:
    assert automemory_note.read("a.md", f"---\ntype: {kind}\n---\n{body}").type == type


@pytest.mark.parametrize("start", ["# a", "- [a](a.md) - a"])
def test_no_line_makes_the_reader_slow(start: str) -> None:
    """By the square or the cube of its length each of these took minutes, or for ever."""
    line = start + " " * 200_000 + "x"
    automemory_note.read_index(line)
    automemory_note.read("a.md", line)


def test_marks_at_the_end_of_a_heading_are_none_of_its_words() -> None:
    _, topics = automemory_note.read_index(
        "# Stack ##\n\nPython\n\n#\tC#   \n\nno\n## #\n\nwords\n"
    )
    assert [t.title for t in topics] == ["Stack", "C", ""]
