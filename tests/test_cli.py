"""Each command once, end to end, as a person or an agent types it."""

from __future__ import annotations

import json
import pathlib
import sys

import pytest
from conftest import Lab


def fail(lab: Lab, where: pathlib.Path, *argv: str, stdin: str | None = None) -> tuple[int, str]:
    done = lab.run(where, sys.executable, "-m", "gitmem", *argv, stdin=stdin)
    assert "Traceback" not in done.stderr and "bug:" not in done.stderr, done.stderr
    return done.returncode, done.stderr


def test_remember_recall_and_show(lab: Lab) -> None:
    path = lab.repo()
    made = lab.json(
        path,
        "remember",
        "Use PostgreSQL, not MongoDB: orders and invoices share a transaction",
        "--type",
        "decision",
        "--tag",
        "db",
        "--path",
        "f0.txt",
    )
    assert made["status"] == "stored" and made["scope"] == "team" and len(made["id"]) == 32
    answer = lab.json(path, "recall", "which database and why")
    hit = answer["hits"][0]
    assert (
        set(answer) >= {"query", "verdict", "degraded", "searched", "hits"}
        and answer["verdict"] != "MISS"
    )
    assert set(hit) >= {
        "id",
        "score",
        "retrieval",
        "title",
        "body",
        "type",
        "tags",
        "source",
        "provenance",
        "confidence",
        "created_at",
        "author",
        "scope",
        "anchor",
        "paths",
    }
    assert (
        hit["id"] == made["id"]
        and hit["tags"] == ["db"]
        and hit["paths"] == [{"path": "f0.txt", "state": "same"}]
    )
    assert hit["anchor"] == {
        "commit": lab.git(path, "rev-parse", "HEAD").strip(),
        "branch": "main",
        "state": "reachable",
    }
    assert hit["author"] == "Ada <ada@example.org>"
    shown = lab.json(path, "show", made["id"][:8])
    assert shown["body"].startswith("Use PostgreSQL") and [h["op"] for h in shown["history"]] == [
        "create"
    ]
    assert made["id"][:8] in lab.mem(path, "recall", "which", "database", "and", "why")


def test_the_text_comes_from_m_stdin_or_the_argument(lab: Lab) -> None:
    path = lab.repo()
    lab.mem(path, "remember", "-m", "first paragraph", "-m", "second paragraph")
    lab.mem(path, "remember", "--stdin", stdin="\ufefffrom standard input\n")
    lab.mem(path, "remember", "--", "-starts with a dash")
    assert {m["body"] for m in lab.json(path, "list")} == {
        "first paragraph\n\nsecond paragraph",
        "from standard input",
        "-starts with a dash",
    }
    assert fail(lab, path, "remember")[0] == 2
    assert fail(lab, path, "remember", "x", "-m", "y")[0] == 2
    assert fail(lab, path, "remember", "x", "--team", "--private")[0] == 2
    assert fail(lab, path, "remember", " ")[0] == 1
    assert "--stdin" in fail(lab, path, "remember", "-", stdin="a text")[1]


def test_scopes_are_separate_refs(lab: Lab) -> None:
    path = lab.repo()
    lab.mem(path, "remember", "for everyone")
    lab.mem(path, "remember", "for me only", "--private")
    assert len(lab.lines(path, "mem/team")) == len(lab.lines(path, "mem/private")) == 1
    assert [m["body"] for m in lab.json(path, "list", "--scope", "private")] == ["for me only"]
    lab.mem(path, "config", "scope", "private")
    assert lab.json(path, "remember", "mine by setting")["scope"] == "private"


def test_sharing_moves_the_very_lines(lab: Lab) -> None:
    path = lab.repo()
    id = lab.json(path, "remember", "a private thought that helps others", "--private")["id"]
    lab.mem(path, "share", id[:6])
    assert set(lab.lines(path, "mem/private")) < set(lab.lines(path, "mem/team"))
    assert [(m["id"], m["scope"]) for m in lab.json(path, "list")] == [(id, "team")]
    assert fail(lab, path, "share", id)[0] == 1


def test_edit_keeps_what_it_does_not_change(lab: Lab) -> None:
    path = lab.repo()
    id = lab.json(
        path,
        "remember",
        "the cache key lacks the locale",
        "--type",
        "gotcha",
        "--tag",
        "cache",
        "--path",
        "f0.txt",
    )["id"]
    lab.mem(path, "edit", id[:8], "-m", "the cache key lacks the locale and the tenant")
    lab.mem(path, "edit", id[:8], "--title", "Cache keys")
    (memory,) = lab.json(path, "list")
    assert (memory["id"], memory["type"], memory["tags"], memory["title"]) == (
        id,
        "gotcha",
        ["cache"],
        "Cache keys",
    )
    assert memory["body"].endswith("tenant") and memory["paths"] == [
        {"path": "f0.txt", "state": "same"}
    ]
    assert [h["op"] for h in lab.json(path, "show", id)["history"]] == ["create", "edit", "edit"]
    assert fail(lab, path, "edit", id, "--title", "Cache keys")[0] == 1
    assert fail(lab, path, "edit", id)[0] == 2
    lab.mem(path, "edit", id, "--tag", "", "--title", "")
    (memory,) = lab.json(path, "list")
    assert memory["tags"] == [] and memory["title"] == memory["body"]


def test_forget_hides_and_saying_it_again_revives(lab: Lab) -> None:
    path = lab.repo()
    for text in ("short text", "long text " * 50):
        id = lab.json(path, "remember", text)["id"]
        lab.mem(path, "forget", id[:8], "--reason", "no longer true")
        assert lab.json(path, "list", "--all") == []
        assert lab.json(path, "recall", text, rc=(1,))["hits"] == []
        assert lab.json(path, "show", id)["status"] == "forgotten"
        assert fail(lab, path, "forget", id)[0] == 1
        assert lab.json(path, "remember", text)["status"] == "stored"
        (memory,) = lab.json(path, "list")
        lab.mem(path, "forget", memory["id"])


def test_supersede_replaces_and_keeps_the_trail(lab: Lab) -> None:
    path = lab.repo()
    old = lab.json(
        path, "remember", "deploys run on Fridays", "--type", "convention", "--tag", "ops"
    )["id"]
    new = lab.json(path, "supersede", old[:8], "deploys run on Tuesdays")["id"]
    (memory,) = lab.json(path, "list")
    kept = [memory[name] for name in ("id", "type", "tags", "supersedes")]
    assert kept == [new, "convention", ["ops"], [old]]
    shown = lab.json(path, "show", old)
    assert shown["status"] == "superseded" and shown["superseded_by"] == [new]
    every = {m["id"]: m for m in lab.json(path, "list", "--include-superseded")}
    assert every.keys() == {old, new} and every[old]["superseded_by"] == [new]
    assert "superseded_on" not in every[old]  # of those alone that a branch superseded
    assert [h["id"] for h in lab.json(path, "recall", "when do deploys run")["hits"]] == [new]
    assert fail(lab, path, "supersede", old, "x")[0] == 1


def test_a_field_that_is_no_text_is_refused_and_none_is_the_default(lab: Lab) -> None:
    path = lab.repo()
    names = ("created_at", "commit", "author", "scope", "provenance")
    values = (0, False, [], None, "")
    drafts = [{"body": f"{name} {v!r}", name: v} for name in names for v in values]
    lines = "".join(json.dumps(draft) + "\n" for draft in drafts)
    done = lab.run(path, sys.executable, "-m", "gitmem", "remember", "--jsonl", "-", stdin=lines)
    assert done.returncode == 1 and "10 stored, 0 known, 15 refused" in done.stdout, done.stderr
    assert all(done.stderr.count(f"'{name}' is not a text") == 3 for name in names[:3])


def test_jsonl_names_bad_lines_and_stores_good_ones(lab: Lab) -> None:
    path = lab.repo()
    good = {
        "body": "retries need jitter",
        "title": "Retries",
        "type": "learning",
        "tags": ["net"],
        "paths": ["f0.txt"],
        "created_at": "2024-05-06T07:08:09Z",
        "author": "Bob <bob@example.org>",
        "source": "log:1",
        "phase": "M1",
        "provenance": "VERIFIED",
        "commit": "HEAD",
    }
    rows = [
        json.dumps(good),
        "{broken",
        '{"title": "no body"}',
        '["list"]',
        '{"body": "x", "colour": "red"}',
        '{"body": "y", "commit": "deadbeef"}',
        '{"body": "z", "created_at": "soon"}',
        "",
        json.dumps({"body": "second good line"}),
        json.dumps(good),
    ]
    done = lab.run(
        path,
        sys.executable,
        "-m",
        "gitmem",
        "remember",
        "--jsonl",
        "-",
        "--json",
        stdin="\n".join(rows) + "\n",
    )
    assert done.returncode == 1
    answers = [json.loads(row) for row in done.stdout.splitlines()]
    assert [(a["line"], a["status"]) for a in answers] == [
        (1, "stored"),
        (2, "refused"),
        (3, "refused"),
        (4, "refused"),
        (5, "refused"),
        (6, "refused"),
        (7, "refused"),
        (9, "stored"),
        (10, "duplicate"),
    ]
    assert (
        all(a["reason"] for a in answers if a["status"] == "refused")
        and "line 5" in done.stderr
        and "colour" in done.stderr
    )
    hit = next(m for m in lab.json(path, "list") if m["title"] == "Retries")
    assert {
        k: hit[k] for k in ("created_at", "author", "source", "phase", "provenance", "type")
    } == {k: good[k] for k in ("created_at", "author", "source", "phase", "provenance", "type")}
    again = lab.run(
        path, sys.executable, "-m", "gitmem", "remember", "--jsonl", "-", stdin=json.dumps(good)
    )
    assert again.returncode == 0 and "0 stored, 1 known" in again.stdout


def test_a_known_source_adds_nothing_even_when_forgotten(lab: Lab) -> None:
    path = lab.repo()
    id = lab.json(path, "remember", "imported", "--source", "doc:1")["id"]
    lab.mem(path, "forget", id)
    assert lab.json(path, "remember", "imported, reworded", "--source", "doc:1") == {
        **lab.json(path, "remember", "imported", "--source", "doc:1"),
        "title": "imported, reworded",
        "reason": "this source is known, with another text",
    }
    assert lab.json(path, "list") == []


FILTERED = [
    ("--type", "gotcha"),
    ("--tag", "net"),
    ("--path", "src"),
    ("--path", "src/net/retry.py"),
    ("--phase", "M2"),
    ("--since", "2025-01-01"),
    ("--author", "grace"),
    ("--scope", "private"),
]


@pytest.mark.parametrize("option", FILTERED)
def test_a_filter_comes_before_the_candidates(lab: Lab, option: tuple[str, str]) -> None:
    """Ten that pass are found among 400 better matches that do not."""
    path = lab.repo()
    rows = [
        {
            "body": f"retry retry retry network timeout number {i}",
            "source": f"a{i}",
            "created_at": "2024-01-01T00:00:00Z",
        }
        for i in range(400)
    ]
    rows += [
        {
            "body": f"one word about a retry, entry {i}",
            "source": f"b{i}",
            "type": "gotcha",
            "tags": ["net"],
            "paths": ["src/net/"],
            "phase": "M2",
            "created_at": "2025-06-01T00:00:00Z",
            "author": "Grace <grace@example.org>",
            "scope": "private",
        }
        for i in range(10)
    ]
    lab.mem(path, "remember", "--jsonl", "-", stdin="".join(json.dumps(r) + "\n" for r in rows))
    hits = lab.json(path, "recall", "retry network timeout", *option, "-n", "10", rc=(0, 1))["hits"]
    assert {h["source"] for h in hits} == {f"b{i}" for i in range(10)}
    assert len(lab.json(path, "list", *option)) == 10


HOSTILE = [
    "'",
    '"',
    '""',
    "*",
    "NEAR(a b)",
    "a AND OR NOT b",
    "title:x",
    "^x",
    "(",
    "a:b",
    "-x",
    "x*",
    "{a b}",
    "\\",
    ";--",
    "a\x01b",
    "😀",
    "مرحبا بالعالم",
    "数据库 选择",
    "e\u0301",
    "\u202etxt",
    "%s %d",
    "SELECT * FROM memory",
    "x" * 100_000,
    "word " * 20_000,
    "\n\n\n",
    ".",
]


def test_every_query_is_data(lab: Lab) -> None:
    path = lab.repo()
    lab.mem(path, "remember", "数据库选择 PostgreSQL 😀 مرحبا e\u0301t\u00e9")
    rows = "".join(json.dumps({"_id": str(i), "text": q}) + "\n" for i, q in enumerate(HOSTILE))
    answers = [
        json.loads(row) for row in lab.mem(path, "recall", "--batch", "-", stdin=rows).splitlines()
    ]
    assert [a["_id"] for a in answers] == [str(i) for i in range(len(HOSTILE))]
    for query in HOSTILE:
        if "\x00" not in query and len(query) < 100_000:
            code, _ = fail(lab, path, "recall", "--", query)
            assert code in (0, 1) or not query.strip()
    assert lab.json(path, "recall", "数据库")["hits"]
    assert lab.json(path, "recall", "été")["hits"]


def test_a_megabyte_is_answered(lab: Lab) -> None:
    path = lab.repo()
    lab.mem(path, "remember", "the parser must not recurse")
    rows = json.dumps({"_id": "1", "text": "parser recurse " + "padding " * 130_000}) + "\n"
    assert json.loads(lab.mem(path, "recall", "--batch", "-", stdin=rows))["hits"]


def test_an_unrelated_question_is_a_miss(lab: Lab) -> None:
    path = lab.repo()
    assert lab.json(path, "recall", "anything", rc=(1,))["verdict"] == "MISS"
    lab.mem(
        path,
        "remember",
        "Use PostgreSQL instead of MongoDB because orders and invoices must share a transaction",
    )
    assert (
        lab.json(path, "recall", "chocolate cake recipe with cherries", rc=(1,))["verdict"]
        == "MISS"
    )


def test_an_unmerged_branch_is_marked_and_as_of_a_revision_is_honest(lab: Lab) -> None:
    path = lab.repo(commits=2)
    lab.git(path, "tag", "v1", "HEAD~1")
    lab.mem(path, "remember", "the export runs at six")
    lab.git(path, "checkout", "-q", "-b", "topic")
    lab.git(path, "commit", "-q", "--allow-empty", "-m", "topic")
    lab.mem(path, "remember", "the queue needs a dead letter table")
    lab.git(path, "checkout", "-q", "main")
    assert lab.json(path, "recall", "dead letter table for the queue")["hits"][0]["anchor"] == {
        "commit": lab.git(path, "rev-parse", "topic").strip(),
        "branch": "topic",
        "state": "unmerged",
    }
    assert [m["body"] for m in lab.json(path, "list")] == ["the export runs at six"]
    assert len(lab.json(path, "list", "--all")) == 2
    assert lab.json(path, "recall", "when does the export run", "--at", "v1", rc=(1,))["hits"] == []
    assert lab.json(path, "recall", "when does the export run", "--at", "HEAD")["hits"]
    assert fail(lab, path, "recall", "x", "--at", "nonsense")[0] == 1


def test_a_memory_follows_an_amend_also_from_its_continuation(lab: Lab) -> None:
    path = lab.repo()
    lab.mem(path, "init")
    rows = "".join(
        json.dumps({"body": f"memory {i} " + "x" * 900, "source": f"s{i}"}) + "\n"
        for i in range(80)
    )
    lab.mem(path, "remember", "--jsonl", "-", stdin=rows)
    lab.git(path, "commit", "-q", "--amend", "-m", "amended")
    anchors = {
        (m["anchor"]["commit"], m["anchor"]["state"]) for m in lab.json(path, "list", "--all")
    }
    assert anchors == {(lab.git(path, "rev-parse", "HEAD").strip(), "reachable")}


def test_paths_say_whether_they_changed(lab: Lab) -> None:
    path = lab.repo(commits=2)
    lab.mem(
        path,
        "remember",
        "about both",
        "--path",
        "f0.txt",
        "--path",
        "f1.txt",
        "--path",
        "not-there-yet.txt",
    )
    (path / "f0.txt").write_text("changed\n")
    lab.git(path, "rm", "-q", "f1.txt")
    lab.git(path, "commit", "-q", "-a", "-m", "change")
    assert lab.json(path, "list", "--stale")[0]["paths"] == [
        {"path": "f0.txt", "state": "changed"},
        {"path": "f1.txt", "state": "gone"},
        {
            "path": "not-there-yet.txt",
            "state": "unknown",
            "reason": "it was not there when the memory was made",
        },
    ]


def test_log_follows_the_commits(lab: Lab) -> None:
    path = lab.repo(commits=3)
    for i, revision in enumerate(("HEAD~2", "HEAD", "HEAD~1")):
        lab.mem(path, "remember", f"memory {i}", "--commit", revision)
    assert [m["body"] for m in lab.json(path, "log")] == ["memory 1", "memory 2", "memory 0"]
    assert [m["body"] for m in lab.json(path, "log", "HEAD~1..HEAD")] == ["memory 1"]
    assert lab.git(path, "log", "--notes=mem/team", "-1").count('"body":"memory 1"') == 1
    assert fail(lab, path, "log", "no-such-branch")[0] == 1


@pytest.mark.parametrize("form", ["jsonl", "md"])
def test_export_and_import_keep_everything(lab: Lab, form: str) -> None:
    path = lab.repo()
    bodies = [
        "plain",
        "# heading\n\n```\n<!-- git-mem {} -->\n<!-- /git-mem -->\n\\<!-- /git-mem -->\n```",
        "ends with\nnewlines -- and --> arrows",
        "ü 😀 </memory>",
    ]
    for i, body in enumerate(bodies):
        lab.mem(
            path,
            "remember",
            "-m",
            body,
            "--type",
            "decision",
            "--tag",
            f"t{i}",
            "--path",
            "f0.txt",
            "--title",
            f"Title {i} --> <b>",
        )
    lab.mem(path, "remember", "private is not exported", "--private")
    out = lab.mem(path, "export", "--format", form)
    other = lab.repo("other")
    assert "4 stored" in lab.mem(other, "import", "-", stdin=out)
    assert "0 stored, 4 known" in lab.mem(other, "import", "-", stdin=out)

    def seen(where: pathlib.Path) -> list[tuple[object, ...]]:
        return sorted(
            (m["body"], m["title"], m["type"], tuple(m["tags"]), m["created_at"], m["author"])
            for m in lab.json(where, "list", "--scope", "team")
        )

    assert seen(other) == seen(path)


def test_import_says_what_it_could_not_keep(lab: Lab) -> None:
    path = lab.repo()
    out = json.dumps({"body": "from elsewhere", "commit": "a" * 40}) + "\n{broken\n"
    done = lab.run(path, sys.executable, "-m", "gitmem", "import", "-", stdin=out)
    assert (
        done.returncode == 1
        and "1 stored" in done.stdout
        and "1 memory attached to HEAD" in done.stdout
        and "line 2" in done.stderr
    )
    assert fail(lab, path, "import", "-", stdin="")[0] == 1
    assert fail(lab, path, "import", "no-such-file")[0] == 1
