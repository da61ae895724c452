"""Each command once, end to end, as a person or an agent types it."""

from __future__ import annotations

import json
import pathlib
import shutil
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
    lab.mem(path, "remember", "--stdin", stdin="from standard input\n")
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
    assert (memory["id"], memory["type"], memory["tags"], memory["supersedes"]) == (
        new,
        "convention",
        ["ops"],
        [old],
    )
    shown = lab.json(path, "show", old)
    assert shown["status"] == "superseded" and shown["superseded_by"] == [new]
    assert {m["id"] for m in lab.json(path, "list", "--include-superseded")} == {old, new}
    assert [h["id"] for h in lab.json(path, "recall", "when do deploys run")["hits"]] == [new]
    assert fail(lab, path, "supersede", old, "x")[0] == 1


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
        and "attached to HEAD" in done.stdout
        and "line 2" in done.stderr
    )
    assert fail(lab, path, "import", "-", stdin="")[0] == 1
    assert fail(lab, path, "import", "no-such-file")[0] == 1


@pytest.mark.parametrize("lost", [False, True])
def test_init_is_quiet_the_second_time_and_uninstall_restores_byte_for_byte(
    lab: Lab, lost: bool
) -> None:
    lab.repo("seed")
    lab.git(lab.root, "clone", "-q", "seed", "clone")
    path = lab.root / "clone"
    with (path / ".git" / "config").open("a") as file:
        file.write("[notes]\n")  # a section that git would take away with its last entry
    before = (path / ".git" / "config").read_bytes()
    changed = lab.json(path, "init")["changed"]
    assert len(changed) == 3 and lab.git(path, "status", "--porcelain") == ""
    assert lab.json(path, "init")["changed"] == []
    assert lab.run(path, "git", "config", "--get-all", "remote.origin.push").stdout == ""
    lab.git(path, "fetch", "-q")  # the remote has no memories: the pattern must not fail
    lab.mem(path, "remember", "kept")
    if lost:
        shutil.rmtree(path / ".git" / "mem")
    assert lab.json(path, "uninstall")["kept"] == ["refs/notes/mem/team"]
    assert (path / ".git" / "config").read_bytes() == before
    assert (
        not (path / ".git" / "mem").exists()
        and not (path / ".git" / "git-mem-install.json").exists()
    )
    lab.mem(path, "init")
    lab.git(path, "config", "user.name", "Someone")
    lab.mem(path, "uninstall")
    assert (
        "mem" not in (path / ".git" / "config").read_text().replace("someone", "")
        and "Someone" in (path / ".git" / "config").read_text()
    )


def test_a_fetch_brings_the_teams_memories_and_a_stock_merge_unites_them(lab: Lab) -> None:
    lab.repo("seed")
    lab.git(lab.root, "clone", "-q", "--bare", "seed", "hub.git")
    for name in "ab":
        lab.git(lab.root, "clone", "-q", "hub.git", name)
        lab.mem(lab.root / name, "init")
        lab.mem(lab.root / name, "remember", f"{name} learned something")
    lab.git(lab.root / "a", "push", "-q", "origin", "refs/notes/mem/team")
    lab.git(lab.root / "b", "fetch", "-q")
    lab.git(
        lab.root / "b", "notes", "--ref=mem/team", "merge", "refs/notes/remotes/origin/mem/team"
    )
    assert {m["body"] for m in lab.json(lab.root / "b", "list")} == {
        "a learned something",
        "b learned something",
    }


def test_status_stats_doctor_config_and_index(lab: Lab) -> None:
    path = lab.repo()
    assert lab.json(path, "status")["memories"] == 0
    assert not (path / ".git" / "mem").exists(), "status creates nothing"
    lab.mem(path, "init")
    lab.mem(path, "remember", "a fact", "--type", "decision")
    status = lab.json(path, "status")
    assert (status["memories"], status["without_vectors"], status["missing_settings"]) == (1, 0, [])
    assert lab.json(path, "stats")["types"] == {"decision": 1}
    assert {f["level"] for f in lab.json(path, "doctor")} == {"ok", "off"}  # off: what is opt-in
    assert lab.json(path, "index", "--rebuild")["memories"] == 1
    lab.mem(path, "config", "mem.limit", "3")
    assert (
        lab.git(path, "config", "mem.limit").strip() == "3"
        and lab.mem(path, "config", "limit").strip() == "3"
    )
    lab.mem(path, "config", "limit", "")
    assert fail(lab, path, "config", "limit", "many")[0] == 2
    assert fail(lab, path, "config", "colour")[0] == 2
    for form in ("status", "stats", "doctor", "config", "index", "list", "log"):
        assert lab.mem(path, form)


def test_switched_off_means_off(lab: Lab) -> None:
    path = lab.repo()
    done = lab.run(
        path, sys.executable, "-m", "gitmem", "remember", "x", env={"GIT_MEM_DISABLE": "1"}
    )
    assert done.returncode == 1 and "switched off" in done.stderr
    lab.git(path, "config", "mem.enabled", "false")
    assert fail(lab, path, "recall", "x")[0] == 1
    assert lab.json(path, "status")["enabled"] is False


def test_a_policy_file_may_set_policy_and_nothing_else(lab: Lab) -> None:
    path = lab.repo()
    (path / ".gitmem.toml").write_text('scope = "private"\nref = "elsewhere"\nenabled = false\n')
    assert lab.json(path, "remember", "x")["scope"] == "private"
    rows = {r["name"]: (r["value"], r["from"]) for r in lab.json(path, "config")}
    assert rows["mem.scope"] == ("private", ".gitmem.toml") and rows["mem.ref"] == (
        "mem",
        "default",
    )
    assert any("ref" in f["text"] for f in lab.json(path, "doctor") if f["level"] == "warn")


SECRET = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"


@pytest.mark.parametrize(
    "argv",
    [
        ["remember", "deploy with " + SECRET],
        ["remember", "x", "--title", SECRET],
        ["remember", "x", "--tag", SECRET],
        ["remember", "x", "--path", SECRET],
        ["remember", "x", "--source", SECRET],
        ["remember", "x", "--phase", SECRET],
        ["edit", "ID", "-m", SECRET],
        ["supersede", "ID", SECRET],
        ["forget", "ID", "--reason", SECRET],
    ],
)
def test_no_write_path_stores_a_secret(lab: Lab, argv: list[str]) -> None:
    path = lab.repo()
    id = lab.json(path, "remember", "harmless")["id"]
    code, message = fail(lab, path, *[id if a == "ID" else a for a in argv])
    assert code == 1 and SECRET not in message
    for file in (path / ".git").rglob("*"):
        if file.is_file():
            assert SECRET.encode() not in file.read_bytes()
    assert SECRET not in lab.git(path, "notes", "--ref=mem/team", "show", "HEAD")


def test_a_secret_is_stored_when_the_person_insists(lab: Lab) -> None:
    path = lab.repo()
    assert (
        lab.json(path, "remember", "an example token: " + SECRET, "--allow-secret")["status"]
        == "stored"
    )


def test_nothing_in_the_working_tree_is_imported(lab: Lab) -> None:
    path = lab.repo()
    for name in ("json", "sqlite3", "typer", "re", "subprocess", "gitmem", "numpy"):
        (path / f"{name}.py").write_text("raise SystemExit('executed the working tree')\n")
    script = pathlib.Path(sys.executable).parent / "git-mem"
    if not script.exists():
        pytest.skip("the console script is not installed here")
    for env in ({}, {"PYTHONPATH": "."}):
        done = lab.run(path, str(script), "status", env=env)
        assert done.returncode == 0 and "executed" not in done.stdout + done.stderr, done.stderr


def test_words_that_do_not_exist_exit_2(lab: Lab) -> None:
    path = lab.repo()
    for argv in (
        ["nonsense"],
        ["recall"],
        ["recall", "x", "--nonsense"],
        ["recall", "x", "-n", "many"],
        ["recall", "x", "-n", "-3"],
        ["list", "--scope", "mine"],
    ):
        code, message = fail(lab, path, *argv)
        assert code == 2 and message.startswith("error: "), argv
    for id in ("zz", "abc", "0" * 8):
        assert fail(lab, path, "show", id)[0] == 1


def test_a_closed_pipe_is_no_error(lab: Lab) -> None:
    path = lab.repo()
    lab.mem(
        path,
        "remember",
        "--jsonl",
        "-",
        stdin="".join(json.dumps({"body": f"line {i} " * 30}) + "\n" for i in range(300)),
    )
    done = lab.run(path, "sh", "-c", f"'{sys.executable}' -m gitmem list | head -1")
    assert done.returncode == 0 and done.stderr == ""


def test_terminal_escapes_are_shown_not_obeyed(lab: Lab) -> None:
    path = lab.repo()
    lab.mem(
        path,
        "remember",
        "-m",
        "red \x1b[31m text\x07 and \u202e reversed",
        "--title",
        "title \x1b]0;owned\x07",
    )
    for command in (
        ["list"],
        ["recall", "red text"],
        ["show", lab.json(path, "list")[0]["id"]],
        ["log"],
    ):
        out = lab.mem(path, *command, rc=(0, 1))
        assert "\x1b" not in out and "\x07" not in out and "\u202e" not in out
        if command[0] != "log":
            raw = lab.mem(path, *command, "--json", rc=(0, 1))
            assert "\x1b" not in raw and "\u202e" not in raw and "\\u202e" in raw
            found = json.loads(raw)
            assert (
                "\u202e"
                in (
                    found["hits"][0]
                    if command[0] == "recall"
                    else found[0]
                    if command[0] == "list"
                    else found
                )["body"]
            )


def test_the_cache_is_for_its_owner_alone(lab: Lab) -> None:
    path = lab.repo()
    lab.run(
        path,
        "sh",
        "-c",
        f"umask 000; '{sys.executable}' -m gitmem remember 'seen by me'; '{sys.executable}' -m"
        " gitmem recall 'seen by me'",
    )
    found = {
        str(p.relative_to(path)): p.stat().st_mode & 0o077
        for p in [path / ".git" / "mem", *(path / ".git" / "mem").rglob("*")]
    }
    assert len(found) > 2 and set(found.values()) == {0}, found


@pytest.mark.parametrize(
    "argv",
    [
        ("push", "--private-to", ""),
        ("pull", "--private-from="),
        ("sync", "--remote", ""),
        ("recall", "x", "--at", ""),
        ("list", "--since="),
        ("context", "--as-of", ""),
        ("why", "f0.txt", "--at", ""),
        ("check", "--since", ""),
        ("remember", "text", "--commit", ""),
    ],
)
def test_an_option_that_a_variable_left_empty_is_an_error(lab: Lab, argv: tuple[str, ...]) -> None:
    repo = lab.repo()
    done = lab.run(repo, sys.executable, "-m", "gitmem", *argv)
    assert (
        done.returncode == 2
        and " is empty" in done.stderr
        and "Traceback" not in done.stderr
        and not done.stdout
    )
    assert "refs/notes" not in lab.git(repo, "for-each-ref")
