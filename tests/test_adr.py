"""Decision records of the common shapes become memories, and follow their files."""

from __future__ import annotations

import pathlib

import pytest
from capture_world import TOKEN, listed
from conftest import Lab

from gitmem.memory import adr

# As `adr new` of adr-tools writes it (Michael Nygard's form).
NYGARD = """# 7. Use Parquet for exports

Date: 2024-05-06

## Status

{status}

## Context

Readers skip columns.

## Decision

We will write Parquet.

## Consequences

CSV is gone.
"""
# MADR 2: fields as a list.
MADR2 = """# Use Markdown

* Status: accepted
* Deciders: Ada, Grace
* Date: 2018-01-02

Technical Story: #12

## Context and Problem Statement

Which format?

## Considered Options

* Markdown
* AsciiDoc

## Decision Outcome

Chosen option: "Markdown", because every forge shows it.

### Positive Consequences

* Plain text

## Links <!-- optional -->
"""
# MADR 3 and 4: front matter.
MADR4 = """---
# These are optional metadata elements. Feel free to remove any of them.
status: "accepted"
date: 2024-03-01
decision-makers: Ada
---

# Use Plain JUnit5

## Context and Problem Statement

How to assert?

<!-- This is an optional element. Feel free to remove. -->
## Considered Options

* Hamcrest
* Plain JUnit5

## Decision Outcome

Chosen option: "Plain JUnit5", because it is standard.

### Consequences

* Good, because readable

## Pros and Cons of the Options

### Hamcrest

* Bad, because a dependency
"""
# MADR 4, minimal and without front matter.
MADR4_BARE = """# Cache in the browser

## Context and Problem Statement

Pages load slowly.

## Decision Outcome

Chosen option: "ETags", because proxies know them.
"""
# Run-in headings, as in this project's own records.
RUN_IN = """# 10. git through its own executable only

**Context.** pygit2 opens no reftable.

**Decision.** No pygit2. One open `git cat-file --batch` reads.

**Rejected.** *pygit2 beside it*: two ways to be wrong.

**Held by** `tests/test_x.py`.
"""
LINES = """# Log in UTC

Status: accepted
Date: 2021-07-08
Context: servers stand in three zones.
Decision: all logs are in UTC.
"""
PLAIN = """Keep the API versions in the path

The header was tried: caches ignored it.
"""


def decision(text: str, name: str = "") -> adr.Decision:
    got = adr.parse(text, name)
    assert isinstance(got, adr.Decision), got
    return got


@pytest.mark.quick
@pytest.mark.parametrize(
    ("text", "title", "date", "first", "also"),
    [
        (NYGARD.format(status="Accepted"), "Use Parquet for exports", "2024-05-06",
         "## Decision\n\nWe will write Parquet.\n\n## Context", "CSV is gone."),
        (MADR2, "Use Markdown", "2018-01-02", "## Decision Outcome\n\nChosen option: \"Markdown\"",
         "* AsciiDoc"),
        (MADR4, "Use Plain JUnit5", "2024-03-01", "## Decision Outcome\n\nChosen option: \"Plain",
         "* Bad, because a dependency"),
        (MADR4_BARE, "Cache in the browser", "", "## Decision Outcome", "Pages load slowly."),
        (RUN_IN, "git through its own executable only", "", "**Decision.** No pygit2.",
         "two ways to be wrong"),
        (LINES, "Log in UTC", "2021-07-08", "Decision: all logs are in UTC.", "three zones"),
        (PLAIN, "Keep the API versions in the path", "", "The header was tried", ""),
    ],
    ids=["adr-tools", "madr-2", "madr-4", "madr-4-bare", "run-in", "fields", "plain"],
)  # fmt: skip
def test_a_record_of_each_common_shape_begins_with_its_decision(
    text: str, title: str, date: str, first: str, also: str
) -> None:
    got = decision(text, "0007-name.md")
    assert (got.title, got.status, got.date) == (title, "accepted", date)
    assert got.body.startswith(first) and also in got.body
    assert "Date:" not in got.body and "tatus" not in got.body


@pytest.mark.quick
def test_options_that_were_rejected_are_part_of_the_memory() -> None:
    """ "Why not Hamcrest?" is what people ask of a decision."""
    assert "### Hamcrest" in decision(MADR4).body


@pytest.mark.quick
@pytest.mark.parametrize(
    ("status", "word", "successor"),
    [
        ("Accepted\n\nSupercedes [3. Use CSV](0003-use-csv.md)", "accepted", ""),
        ("Superceded by [8. Use Avro](0008-use-avro.md)", "superceded", "8"),
        ("~~accepted~~ superseded by [ADR-0012](0012-x.md)", "superseded", "12"),
        ("Partly superseded by ADR 9", "partly", ""),
        ("Deprecated", "deprecated", ""),
        ("Rejected", "rejected", ""),
        ("on hold", "on", ""),
    ],
)
def test_a_status_is_read_as_tools_and_people_write_it(
    status: str, word: str, successor: str
) -> None:
    got = decision(NYGARD.format(status=status))
    assert (got.status, got.successor) == (word, successor)
    said = f"Status: {status}\n\n## Decision"
    assert got.body.startswith("## Decision" if word == "accepted" else said)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("text", "name", "why"),
    [
        ("", "0001-x.md", "it states no decision"),
        ("# Only a title\n", "0001-x.md", "it states no decision"),
        ("## Decision\n\nUse Go.\n", "0002-go.md", "it has no title"),
        ("Status: accepted\n## Decision\n\nUse Go.\n", "0002-go.md", "it has no title"),
        ("* Status: accepted\n", "0002-go.md", "it states no decision"),
        ("# A guide\n\nHow to deploy.\n", "deploy.md", "it states no decision"),
        ("# A guide\n\n```\n## Decision\n\nWe\n```\n", "guide.md", "it states no decision"),
        ("# {short title, representative of solved problem}\n\n## Decision Outcome\n\nx\n",
         "0000-new.md", "it is a template"),
        ("# [short title of solved problem and solution]\n\n## Decision Outcome\n\nx\n",
         "x.md", "it is a template"),
    ],
)  # fmt: skip
def test_what_is_no_record_says_why(text: str, name: str, why: str) -> None:
    assert adr.parse(text, name) == why


@pytest.mark.quick
def test_a_number_is_no_part_of_a_title_and_a_count_is() -> None:
    titles = [
        adr.parse(f"# {title}\n\n## Decision\n\nx\n")
        for title in ("ADR-0007: Use Go", "[ADR 7] Use Go", "0007 Use Go", "7. Use Go", "7 Use Go")
    ]
    assert [t.title for t in titles if isinstance(t, adr.Decision)] == [
        *["Use Go"] * 4,
        "7 Use Go",
    ]


@pytest.mark.quick
def test_this_projects_own_records_are_all_read() -> None:
    place = pathlib.Path(__file__).parent.parent / "docs" / "decisions"
    files = sorted(place.glob("[0-9]*.md"))
    got = [adr.parse(file.read_text(), file.name) for file in files]
    assert len(got) >= 35
    assert all(isinstance(g, adr.Decision) and g.body.startswith("**Decision.**") for g in got)


# --- the command --------------------------------------------------------------


def put(place: pathlib.Path, **files: str) -> None:
    place.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (place / f"{name.strip('_')}.md").write_text(text)


def test_import_adr_knows_files_by_what_they_say(lab: Lab) -> None:
    repo = lab.repo()
    place = repo / "docs" / "adr"
    put(
        place,
        _0007_parquet=NYGARD.format(status="Accepted"),
        _0008_junit=MADR4,
        _0009_gone=NYGARD.format(status="Superseded by [8](0008-junit.md)"),
        _0010_no=NYGARD.format(status="Rejected").replace("Parquet", "Avro"),
        README="# ADRs\n",
        template=MADR4,
    )
    (place / "0011-x.adoc").write_text("= X\n")
    lab.git(repo, "add", "docs")
    lab.git(repo, "commit", "-q", "-m", "records")
    assert lab.json(repo, "import", "adr", "--dry-run")["stored"] == 3 and listed(lab, repo) == []
    said = lab.mem(repo, "import", "adr", "-n").splitlines()
    assert said[0].startswith("would be stored docs/adr/0007_parquet.md: ") and said[-1][0] == "3"
    first = lab.json(repo, "import", "adr")
    assert (first["stored"], first["left_out"], first["refused"]) == (3, 4, 0)
    assert {f["path"][9:]: f["reason"] for f in first["files"] if f["reason"]} == {
        "0009_gone.md": "it is superseded",
        "0011-x.adoc": "it is no Markdown",
        "README.md": "by its name it is no record",
        "template.md": "by its name it is no record",
    }
    items = {m["title"]: m for m in listed(lab, repo)}
    parquet = items["Use Parquet for exports"]
    assert (parquet["type"], parquet["scope"]) == ("decision", "team")
    assert parquet["created_at"].startswith("2024-05-06")
    assert [(p["path"], p["state"]) for p in parquet["paths"]] == [
        ("docs/adr/0007_parquet.md", "same")
    ] and parquet["anchor"]["commit"] == lab.git(repo, "rev-parse", "HEAD").strip()
    avro = items["Use Avro for exports"]
    assert avro["type"] == "dead-end" and avro["body"].startswith("Status: Rejected")
    assert lab.json(repo, "import", "adr")["known"] == 3
    put(place, _0008_junit=MADR4.replace("standard", "what everybody knows"))
    again = lab.json(repo, "import", "adr")
    assert (again["stored"], again["edited"], again["known"]) == (0, 1, 2)
    assert (
        "what everybody knows"
        in {m["title"]: m["body"] for m in listed(lab, repo)}["Use Plain JUnit5"]
    )
    lab.git(repo, "mv", "docs/adr", "docs/decisions")
    assert lab.json(repo, "import", "adr")["known"] == 3  # the same texts under other names


def test_a_record_that_was_superseded_since_gives_way_to_its_successor(lab: Lab) -> None:
    repo = lab.repo()
    place = repo / "doc" / "adr"
    put(place, _0007_parquet=NYGARD.format(status="Accepted"), _0009_utc=LINES)
    lab.mem(repo, "import", "adr")
    put(
        place,
        _0007_parquet=NYGARD.format(status="Superceded by [8. Use Avro](0008-use-avro.md)"),
        _0008_use_avro=NYGARD.format(status="Accepted\n\nSupercedes [7](0007.md)").replace(
            "Parquet", "Avro"
        ),
        _0009_utc=LINES.replace("accepted", "deprecated"),
    )
    said = lab.mem(repo, "import", "adr")
    assert "took its place" in said
    items = {m["title"]: m["body"] for m in lab.json(repo, "list")}
    assert set(items) == {"Use Avro for exports", "Log in UTC"}
    assert items["Log in UTC"].startswith("Status: deprecated")  # no record took its place
    again = lab.json(repo, "import", "adr")
    assert (again["known"], again["left_out"], again["edited"]) == (2, 1, 0)


def test_a_number_that_two_records_have_names_no_successor(lab: Lab) -> None:
    repo = lab.repo()
    place = repo / "doc" / "adr"
    texts = {"2024-01-05-parquet.md": NYGARD, "2024-03-09-utc.md": LINES}
    place.mkdir(parents=True)
    for name, text in texts.items():
        (place / name).write_text(text.format(status="Accepted"))
    lab.mem(repo, "import", "adr")
    by = "Superseded by [Use Avro](2024-02-01-avro.md)"
    (place / "2024-01-05-parquet.md").write_text(NYGARD.format(status=by))
    avro = NYGARD.format(status="Accepted").replace("Parquet", "Avro")
    (place / "2024-02-01-avro.md").write_text(avro)
    assert "took its place" not in lab.mem(repo, "import", "adr")
    items = {m["title"]: m["body"] for m in lab.json(repo, "list")}
    assert len(items) == 3 and items["Use Parquet for exports"].startswith(f"Status: {by}")


def test_a_day_that_no_calendar_has_is_left_to_the_commit(lab: Lab) -> None:
    repo = lab.repo()
    text = NYGARD.format(status="Accepted")
    put(repo / "docs" / "adr", _1=text.replace("2024-05-06", "2024-05-66"))
    assert lab.json(repo, "import", "adr")["stored"] == 1
    assert lab.json(repo, "list")[0]["body"].startswith("## Decision")


def test_a_record_that_was_edited_here_or_forgotten_is_left_alone(lab: Lab) -> None:
    repo = lab.repo()
    place = repo / "doc" / "decisions"
    put(place, _1=MADR4, _2=MADR2)
    lab.mem(repo, "import", "adr", "--private")
    ids = {m["title"]: m["id"] for m in listed(lab, repo)}
    lab.mem(repo, "edit", ids["Use Plain JUnit5"], "-m", "we know better")
    lab.mem(repo, "forget", ids["Use Markdown"])
    put(place, _1=MADR4.replace("Context", "Why"), _2=MADR2.replace("Context", "Why"))
    found = lab.json(repo, "import", "adr")
    assert [f["reason"] for f in found["files"]] == [
        "its memory was edited here",
        "its memory was forgotten",
    ]
    assert [(m["body"], m["scope"]) for m in listed(lab, repo)] == [("we know better", "private")]


def test_import_adr_says_where_it_looked_and_follows_no_link(
    lab: Lab, tmp_path: pathlib.Path
) -> None:
    repo = lab.repo()
    done = lab.run(repo, "git-mem", "import", "adr")
    assert done.returncode == 1 and "docs/adr" in done.stderr
    put(tmp_path / "out", _1=MADR4)
    assert lab.run(repo, "git-mem", "import", "adr", str(tmp_path / "out")).returncode == 1
    put(repo / "here", _2=MADR2, _3=MADR4.replace("Plain JUnit5", f"token {TOKEN}"))
    (repo / "here" / "1.md").symlink_to(tmp_path / "out" / "1.md")
    found = lab.json(repo, "import", "adr", "here", rc=(1,))
    assert (found["stored"], found["refused"]) == (1, 1)
