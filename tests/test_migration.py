"""Memories of other tools come in whole, once, with a word about each that does not."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import sqlite3
import subprocess
import threading
import time
from typing import Any

import pytest
from capture_world import TOKEN, listed
from conftest import Lab

from gitmem.core import front_matter
from gitmem.migration import claude_mem, formats, json_exports, rule_files, vault
from gitmem.migration.drafts import Skipped

DATA = pathlib.Path(__file__).parent / "data" / "import"


class World:
    """A repository `shop`, and the fixtures of all formats with a secret and its HEAD in them."""

    def __init__(self, lab: Lab) -> None:
        self.lab, self.repo = lab, lab.repo("shop")
        self.data = lab.root / "data"
        head = lab.git(self.repo, "rev-parse", "HEAD").strip()
        for path in DATA.rglob("*.*"):
            if path.is_file():
                copy = self.data / path.relative_to(DATA)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_text(path.read_text().replace("@TOKEN@", TOKEN).replace("@HEAD@", head))

    def place(self, name: str) -> str:
        """Where the fixture of a format is, in the form in which its tool keeps it."""
        if name == "claude-mem":
            path = self.data / "claude-mem.db"
            with contextlib.closing(sqlite3.connect(path)) as db:
                db.executescript((self.data / "claude-mem.sql").read_text())
        elif name == "rules":
            path = self.data / "CLAUDE.md"
            path.write_text((self.data / "rules.md").read_text())
        elif name == "git-notes-memory":
            for note in (self.data / name).iterdir():
                ref = f"--ref=refs/notes/mem/{note.stem}"
                self.lab.git(self.repo, "notes", ref, "append", "-F", str(note), "HEAD")
            return ""
        else:
            names = {
                "markdown": "basic-memory",
                "mcp-memory": "mcp-memory.jsonl",
                "mcp-memory-service": "mcp-memory-service.json",
                "beads": "beads.jsonl",
            }
            path = self.data / names.get(name, name)
        return str(path)


@pytest.fixture
def world(lab: Lab) -> World:
    return World(lab)


# stored, refused (a secret each), broken, left out, attached to HEAD
COUNTS = {
    "claude-mem": (4, 1, 0, 2, 0),
    "markdown": (2, 1, 0, 2, 0),
    "mcp-memory": (2, 1, 2, 2, 0),
    "mcp-memory-service": (2, 1, 1, 0, 0),
    "git-notes-memory": (3, 1, 1, 1, 0),
    "beads": (3, 1, 1, 3, 0),
    "agentlore": (2, 1, 1, 1, 1),
    "rules": (3, 1, 0, 4, 0),
}


def test_every_format_has_a_fixture() -> None:
    assert COUNTS.keys() == formats.FORMATS.keys()


@pytest.mark.parametrize("name", COUNTS)
def test_each_format_comes_in_once_and_says_what_it_left_out(world: World, name: str) -> None:
    lab, repo, place = world.lab, world.repo, world.place(name)
    words = ["import", *filter(None, [place]), "--from", name]

    def counts(*more: str) -> tuple[int, ...]:
        found = lab.json(repo, *words, *more, rc=(0, 1))
        keys = ("stored", "duplicate", "refused", "broken")
        return (*(found[key] for key in keys), len(found["left_out"]), found["moved_to_head"])

    stored, *rest, moved = COUNTS[name]
    assert counts("-n") == (stored, 0, *rest, moved) and listed(lab, repo) == []
    assert counts() == (stored, 0, *rest, moved)
    kept = listed(lab, repo)
    assert len(kept) == stored and TOKEN not in str(kept)
    assert counts() == counts("-n") == (0, stored, *rest, 0)
    assert listed(lab, repo) == kept
    private = formats.FORMATS[name].private
    assert {m["scope"] for m in kept} == {"private" if private else "team"}


@pytest.mark.parametrize("name", [n for n in COUNTS if n != "git-notes-memory"])
def test_a_path_is_recognised_by_what_is_in_it(world: World, name: str) -> None:
    place = world.place(name)
    assert formats.recognise(place) == name
    assert world.lab.json(world.repo, "import", place, "-n", rc=(0, 1))["format"] == name


def found(world: World, name: str) -> dict[str, dict[str, Any]]:
    """The memories of a format, by their titles."""
    place = world.place(name)
    world.lab.run(world.repo, "git-mem", "import", *filter(None, [place]), "--from", name)
    return {m["title"]: m for m in listed(world.lab, world.repo)}


def paths(memory: dict[str, Any]) -> list[str]:
    return [p["path"] for p in memory["paths"]]


def test_claude_mem_brings_titles_facts_files_and_times(world: World) -> None:
    kept = found(world, "claude-mem")
    order = kept["Orders live in PostgreSQL"]
    assert (order["type"], order["created_at"]) == ("decision", "2026-03-01T10:00:00Z")
    assert order["subtitle"] == "One transaction for orders and invoices"
    assert order["facts"][1] == "MongoDB was tried for a week"
    assert order["concepts"] == ["trade-off", "why-it-exists"]
    assert paths(order) == ["db/orders.py", "README.md"]
    alert = kept["The webhook trusted its sender"]
    assert alert["body"] == "- Signatures were never checked" and alert["type"] == "gotcha"
    assert paths(alert) == ["api/webhook.py"]
    assert paths(kept["Retries doubled the charge"]) == []  # a file outside of the repository
    summary = kept["Make checkout survive a retry"]
    assert summary["type"] == "progress"
    assert "Learned: The provider forgets keys after a day" in summary["body"]


def test_claude_mem_of_another_name_is_chosen_and_its_database_not_written(world: World) -> None:
    lab, place = world.lab, world.place("claude-mem")
    before = pathlib.Path(place).read_bytes()
    done = lab.run(lab.repo("renamed"), "git-mem", "import", place)
    assert done.returncode == 1 and "'shop'" in done.stderr and "--project" in done.stderr
    said = lab.json(lab.root / "renamed", "import", place, "--project", "blog", rc=(0, 1))
    assert said["stored"] == 1
    home = lab.root / ".claude-mem"
    home.mkdir()
    os.replace(place, home / "claude-mem.db")
    assert lab.json(world.repo, "import", "claude-mem", rc=(0, 1))["stored"] == 4
    assert (home / "claude-mem.db").read_bytes() == before
    assert os.listdir(home) == ["claude-mem.db"]


def test_a_note_of_basic_memory_keeps_its_text_tags_and_link(world: World) -> None:
    kept = found(world, "markdown")
    note = kept["Checkout"]
    assert note["type"] == "decision" and note["created_at"] == "2026-05-01T07:30:00Z"
    assert note["tags"] == ["idempotency", "payments", "retry"]
    assert note["body"].startswith("How a basket") and "[[Payment Provider]]" in note["body"]
    assert note["source"] == "markdown:notes/checkout"
    other = kept["Payment Provider: limits and keys"]
    assert other["tags"] == ["api", "limits", "payments", "vendor-profile"]


def test_exports_in_json_keep_relations_comments_and_types(world: World) -> None:
    entity = found(world, "mcp-memory")["Checkout_Service"]
    assert entity["body"].splitlines()[-1] == "- owned_by: Ada"
    assert entity["tags"] == ["service"]
    service = found(world, "mcp-memory-service")
    runner = next(m for m in service.values() if "small runner" in m["body"])
    assert runner["type"] == "decision" and runner["created_at"] == "2025-08-21T12:00:00Z"
    script = next(m for m in service.values() if "bash 5" in m["body"])
    assert script["tags"] == ["bash", "deploy", "stakeholder"]
    issues = found(world, "beads")
    order = issues["Keep orders in PostgreSQL"]
    assert "Grace: The spike with MongoDB lost two invoices." in order["body"]
    assert "Closed: Orders and invoices must commit together" in order["body"]
    assert order["created_at"] == "2026-04-20T08:00:00Z" and order["author"] == "Ada"
    assert "Closed" not in issues["Charges are doubled on retry"]["body"]


def test_notes_of_git_notes_memory_are_read_in_place(world: World) -> None:
    lab, repo = world.lab, world.repo
    world.place("git-notes-memory")
    refs = lab.git(repo, "for-each-ref", "refs/notes")
    assert lab.json(repo, "import", "git-notes-memory", rc=(1,))["stored"] == 3
    assert set(refs.splitlines()) < set(lab.git(repo, "for-each-ref", "refs/notes").splitlines())
    kept = {m["title"]: m for m in listed(lab, repo)}
    order = next(m for title, m in kept.items() if title.startswith("Orders live"))
    assert order["title"].endswith("have to be committed together")
    assert "A rule above, and a second paragraph below it." in order["body"]
    assert order["tags"] == ["architecture", "checkout", "database"]
    head = lab.git(repo, "rev-parse", "HEAD").strip()
    assert order["anchor"]["commit"] == head and order["type"] == "decision"
    assert kept["The provider has no sandbox"]["type"] == "learning"
    assert "Logs are in UTC, whichever zone a server stands in" in kept


def test_entries_of_agentlore_keep_anchors_evidence_and_commit(world: World) -> None:
    kept = found(world, "agentlore")
    order = kept["Orders live in PostgreSQL"]
    assert paths(order) == ["db", "src/orders.py"] and order["provenance"] == "CITED"
    assert order["body"].endswith("Evidence: PR #48 - two lost invoices")
    assert kept["The ledger is frozen"]["type"] == "gotcha"


def test_rules_are_list_items_under_their_headings(world: World) -> None:
    kept = {m["subtitle"]: m for m in found(world, "rules").values()}
    assert kept["Commands"]["body"].splitlines()[2].strip().startswith("- the slow half")
    assert {m["type"] for m in kept.values()} == {"convention"} and "Style > Python" in kept


def test_only_what_a_tool_wrote_itself_is_named_in_words(world: World) -> None:
    said = world.lab.run(world.repo, "git-mem", "import", world.place("beads"))
    assert said.returncode == 1 and "3 stored, 0 known, 2 refused, 3 left out" in said.stdout
    assert "left out shop-a4: it is open" in said.stdout
    assert "'beads:shop-a6': " in said.stderr and TOKEN not in said.stderr
    assert "line 8 is no JSON object" in said.stderr


@pytest.mark.parametrize("name", ["markdown", "mcp-memory"])
def test_another_text_from_a_known_source_is_named_and_not_taken(lab: Lab, name: str) -> None:
    repo, path = lab.repo("repo"), lab.root / "notes"

    def words(text: str) -> tuple[str, ...]:
        if name == "markdown":
            path.mkdir(exist_ok=True)
            (path / "index.md").write_text(f"---\ntitle: Index\n---\n{text}\n")
        else:
            row = {"type": "entity", "name": "Index", "entityType": "x", "observations": [text]}
            path.write_text(json.dumps(row) + "\n")
        return "import", str(path), "--from", name

    lab.mem(repo, *words("Caches live in Redis"))
    assert "another text" not in lab.mem(repo, *words("Caches live in Redis"))
    said = lab.mem(repo, *words("Queues live in Rabbit"))
    (kept,) = listed(lab, repo)
    assert f"{kept['id'][:8]} is known by its source, with another text: Index" in said
    assert lab.json(repo, *words("Queues live in Rabbit"))["other_text"] == [kept["id"]]


def test_an_export_comes_through_a_pipe(world: World) -> None:
    text = pathlib.Path(world.place("beads")).read_text()
    said = world.lab.json(world.repo, "import", "-", "--from", "beads", stdin=text, rc=(1,))
    assert (said["stored"], said["broken"]) == (3, 1)


def test_a_commit_that_is_no_text_stops_no_other_memory(world: World) -> None:
    rows = '{"body": "one", "commit": "\\ud800"}\n{"body": "another"}\n'
    (world.repo / "rows.jsonl").write_text(rows)
    found = world.lab.json(world.repo, "import", "rows.jsonl")
    assert (found["stored"], found["moved_to_head"]) == (2, 1)


def test_a_pipe_by_name_is_read_once_and_whole(lab: Lab) -> None:
    repo, pipe = lab.repo("repo"), lab.root / "pipe"
    os.mkfifo(pipe)
    text = "".join(json.dumps({"body": f"Fact {n} {'w' * 2000}"}) + "\n" for n in range(50))
    with subprocess.Popen(
        ["tee", str(pipe)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as p:
        writer = threading.Thread(target=p.communicate, args=(text.encode(),))
        writer.start()
        assert lab.json(repo, "import", str(pipe))["stored"] == 50
        writer.join()


def test_a_text_that_is_no_utf8_stops_no_other_row_of_claude_mem(world: World) -> None:
    place = world.place("claude-mem")
    with contextlib.closing(sqlite3.connect(place)) as db:
        db.execute("UPDATE observations SET narrative = CAST(x'61ff62' AS TEXT) WHERE id = 1")
        db.commit()
    assert world.lab.json(world.repo, "import", place, rc=(1,))["stored"] == COUNTS["claude-mem"][0]


@pytest.mark.parametrize(
    "words",
    [
        ["x", "--from", "nothing"],
        ["adr", "--from", "beads"],
        ["x", "y"],
        ["x", "--project", "shop", "--from", "beads"],
        ["-", "--project", "shop"],
        ["adr", "--project", "shop"],
        [],
    ],
)
def test_words_that_make_no_sense_are_refused(lab: Lab, words: list[str]) -> None:
    assert lab.run(lab.repo(), "git-mem", "import", *words).returncode == 2


@pytest.mark.parametrize("name", ["no-such.db", "text.txt", "broken.db", "old.db"])
def test_what_no_format_fits_stores_nothing(lab: Lab, name: str) -> None:
    repo = lab.repo()
    (lab.root / "text.txt").write_text("only words\n")
    (lab.root / "broken.db").write_bytes(b"SQLite format 3\0" + b"x" * 2000)
    with contextlib.closing(sqlite3.connect(lab.root / "old.db")) as db:
        for table in ("observations", "session_summaries"):
            db.execute(f"CREATE TABLE {table} (id INTEGER, sdk_session_id TEXT, project TEXT)")
            db.execute(f"INSERT INTO {table} VALUES (1, 's', 'repo')")
        db.commit()
    done = lab.run(repo, "git-mem", "import", str(lab.root / name))
    assert done.returncode == 1 and "bug" not in done.stderr and listed(lab, repo) == []


def test_who_names_nothing_known_is_told_where_to_look(lab: Lab) -> None:
    repo = lab.repo()
    (lab.root / "text.txt").write_text("only words\n")
    for words, hint in (
        ([str(lab.root)], "--from FORMAT"),
        ([str(lab.root / "text.txt")], "--from FORMAT"),
        (["git-notes-memory"], "looked in refs/notes/mem/decisions, …\n"),
        (["-"], "looked in standard input; `--from FORMAT`"),
        ([str(repo), "--from", "rules"], f"looked in {repo}"),
    ):
        done = lab.run(repo, "git-mem", "import", *words)
        assert done.returncode == 1 and hint in done.stderr


# ---- the directory of Markdown that `export` writes


def test_a_directory_of_markdown_comes_back_whole(lab: Lab) -> None:
    one = lab.repo("one")
    drafts = [
        '{"body": "---\\ntitle: no\\n---\\n# Heading\\n\\n  indented", "title": "A: \\"b\\" #c"}',
        '{"body": "short", "tags": ["x, y", "#z"], "paths": ["f0.txt", {"path": "f0.txt",'
        ' "lines": "1"}], "created_at": "2026-02-03T04:05:06Z", "source": "wiki:7"}',
        '{"body": "bell \\u0007 and \\u202e", "type": "gotcha", "confidence": 0.25,'
        ' "facts": ["one", "two"], "scope": "private", "phase": "planning"}',
    ]
    lab.mem(one, "remember", "--jsonl", "-", stdin="\n".join(drafts))
    vault = lab.root / "vault"
    words = ["export", str(vault), "--format", "markdown", "--scope", "all"]
    assert "3 memories written" in lab.mem(one, *words)
    assert len(list(vault.glob("*.md"))) == 3
    assert lab.run(one, "git-mem", *words).returncode == 1, "the directory is not empty"
    other = lab.repo("other")
    assert lab.json(other, "import", str(vault))["stored"] == 3
    assert lab.json(other, "import", str(vault))["duplicate"] == 3
    assert lab.json(one, "import", str(vault))["duplicate"] == 3

    def rows(repo: pathlib.Path) -> list[dict[str, Any]]:
        out = [dict(m) for m in listed(lab, repo)]
        for m in out:
            del m["id"]
        return sorted(out, key=lambda m: m["body"])

    assert rows(other) == rows(one)


def test_lines_at_a_commit_that_is_not_here_become_files(lab: Lab) -> None:
    one, other = lab.repo("one"), lab.repo("other")
    (one / "f0.txt").write_text("a\nb\nc\n")
    lab.git(one, "commit", "-qam", "rows")
    lab.mem(one, "remember", "Row one is magic", "--path", "f0.txt:1", "--path", "f0.txt")
    lab.mem(one, "remember", "Row three is magic", "--path", "f0.txt:3")
    told = lab.mem(other, "import", "-", stdin=lab.mem(one, "export"))
    assert "2 stored" in told and "2 memories attached to HEAD, without lines" in told
    same = [{"path": "f0.txt", "state": "same"}]
    assert [m["paths"] for m in listed(lab, other)] == [same, same]
    for paths in (["f0.txt:3"], "f0.txt:3", {"path": "f0.txt", "lines": "3"}):
        typed = {"body": f"Row three as {paths}", "paths": paths, "commit": "e" * 40}
        assert "1 stored" in lab.mem(other, "import", "-", stdin=json.dumps(typed))
    assert [m["paths"] for m in listed(lab, other)] == [same] * 5


def test_an_import_says_that_what_stood_in_private_was_left_out(lab: Lab) -> None:
    repo = lab.repo()
    text = json.dumps({"body": "We use tabs <private>as the customer X asks</private>"})
    for words in (["-n"], []):
        told = lab.mem(repo, "import", "-", *words, stdin=text)
        assert "what stood in <private> was left out of 1 memory" in told
    assert [m["body"] for m in listed(lab, repo)] == ["We use tabs"]


def test_an_edited_file_of_an_export_is_read_as_it_stands(lab: Lab) -> None:
    one, other = lab.repo("one"), lab.repo("other")
    lab.mem(one, "remember", "We use tabs")
    lab.mem(one, "export", str(lab.root / "v"), "--format", "markdown")
    (file,) = (lab.root / "v").iterdir()
    file.write_text(file.read_text().replace("tabs", "spaces"))
    lab.mem(other, "import", str(lab.root / "v"))
    assert [m["body"] for m in listed(lab, other)] == ["We use spaces"]


@pytest.mark.quick
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 'it''s'", {"a": "it's"}),
        ("a: x # note", {"a": "x"}),
        ("a: [b, 'c, d', \"e\"]", {"a": ["b", "c, d", "e"]}),
        ("a: [\n  b,\n  'c'\n]\nd: e", {"a": ["b", "c"], "d": "e"}),
        ("a:\n- b\n- c: d", {"a": ["b", "c: d"]}),
        ("a:\n  - b\n    c", {"a": ["b c"]}),
        ("a: |\n  b\n   c\n\n  d", {"a": "b\n c\n\nd"}),
        ("a: >\n  b\n  c", {"a": "b c"}),
        ("a:\n  b: c\n  d:\n  - e", {"a.b": "c", "a.d": ["e"]}),
        ("a:\n  b\n  c", {"a": "b c"}),
        ("tags:\n  -b\n  -c", {"tags": "-b -c"}),
        ("a:\n  # b\n  - c\nd:\n  # e", {"a": ["c"], "d": ""}),
        ('a: "b\n  # c"\nd:\n  - "e\n    # f"', {"a": "b # c", "d": ["e # f"]}),
        ("a: 'b\n  #1 c'", {"a": "b #1 c"}),
        ("a: b: c\n# a: d", {"a": "b: c"}),
        ('a: "b \\x41\\\n  \\ c"', {"a": "b A c"}),
        ('a: [{"b": 1}]', {"a": [{"b": 1}]}),
        ("a: &x [*x, *x]\n? b\nc: ~", {"a": "&x [*x, *x]", "c": ""}),
    ],
)
def test_front_matter_reads_what_tools_write(text: str, value: dict[str, Any]) -> None:
    assert front_matter.split(f"---\n{text}\n---\nbody\n") == (value, "body\n")


@pytest.mark.quick
def test_front_matter_that_an_editor_rewrote_is_still_a_memory_of_ours() -> None:
    text = "---\ngit-mem: abc\naliases: [x]\nconfidence: 0.5\ntags:\n  - a\n---\n\nbody\n"
    assert list(vault.parse(text, "f.md")) == [
        {"body": "body", "confidence": 0.5, "tags": ["a"], "scope": ""}
    ]


@pytest.mark.quick
@pytest.mark.parametrize(
    "value", [None, 7, 1e300, 10**400, True, "", [], ["x", None, {}], {"a": [1]}, "\ud800"]
)
def test_a_value_of_any_shape_is_no_fault(value: Any) -> None:
    def bent(row: dict[str, Any]) -> list[str]:
        return [json.dumps({**row, name: value}) for name in row]

    for line in (DATA / "beads.jsonl").read_text().splitlines()[:7]:
        list(json_exports.beads("\n".join(bent(json.loads(line)))))
    for line in (DATA / "mcp-memory.jsonl").read_text().splitlines()[:7]:
        list(json_exports.graph("\n".join(bent(json.loads(line)))))
    for row in json.loads((DATA / "mcp-memory-service.json").read_text())["memories"]:
        for changed in bent(row):
            list(json_exports.service(f'{{"memories": [{changed}, {json.dumps(value)}]}}'))
    row = dict.fromkeys(("facts", "concepts", "files_read", "narrative", "title", "type"), value)
    row |= {"id": 1, "project": "p", "memory_session_id": value, "created_at_epoch": value}
    tables = {"observations": [row], "session_summaries": [row]}
    assert len(list(claude_mem.parse(tables, ["p"], "/top"))) == 2


@pytest.mark.quick
def test_front_matter_that_never_ends_is_text() -> None:
    assert front_matter.split("---\na: b\n") == (None, "---\na: b\n")


@pytest.mark.quick
def test_hostile_markdown_takes_time_by_its_length() -> None:
    begun = time.process_time()
    for part in ("<!-- agentlore\n", "- [", "<!-- begin", "```\n- a b c\n", "\n\n"):
        text = part * (200_000 // len(part))
        list(rule_files.rules(text, "f"))
        list(rule_files.lore("## x\n" + text, "f"))
        rule_files.LORE.search(text)
    wide = "a" + " " * 200_000 + "b"
    list(rule_files.rules(f"# {wide}", "f"))
    (note,) = vault.parse(
        f"---\ntags: [{wide}]\nother: {'[' * 9000}x{']' * 9000}\n---\n# {wide}", "f"
    )
    assert note == Skipped("f", "it says nothing")
    assert time.process_time() - begun < 20  # seconds; by the square it would be minutes
