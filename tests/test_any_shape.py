"""A teammate's record may have any shape in any field: every command that reads goes on, and no
output carries what steers or hides.
"""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import pytest
from conftest import Lab
from test_foreign_records import put

from gitmem.cli import run
from gitmem.core import record, sanitize
from gitmem.core.errors import MemError
from gitmem.git.object_reader import LARGEST

HOSTILE = "start\x1b]0;x\x07\x1b[2J\u202ebidi\u2066\u200bzero\U000e0041tag\x9b1m\x7f\u2028end"
SHAPES: list[Any] = [
    "",
    0,
    -1,
    10**30,
    1.5,
    float("nan"),
    float("inf"),
    True,
    None,
    [],
    {},
    [[]],
    [{}],
    [None],
    ["", "a"],
    {"a": {"b": []}},
    "\ud800",
    "\0",
    "NaN",
    "x" * 10_000,
    ["e"] * 10_000,
    HOSTILE,
    [HOSTILE],
]
FIELDS = (
    "at",
    "created",
    "n",
    "author",
    "commit",
    "signature",
    "signed_at",
    "title",
    "subtitle",
    "type",
    "tags",
    "paths",
    "facts",
    "concepts",
    "source",
    "phase",
    "provenance",
    "confidence",
    "agent",
    "session",
    "branch",
    "patch",
    "base",
    "branch_patch",
    "salt",
    "after",
    "supersedes",
    "reason",
    "head",
)
INSIDE = ("path", "lines", "blob", "content")
APART = (
    "suggest",
    "verdict",
    "feedback",
    "receipt",
    "calibration",
    "share",
    "forget",
    "edit",
    "move",
    "mark",
    "purge",
)


def base(head: str, n: int, op: str = "create") -> dict[str, Any]:
    return {
        "v": 1,
        "op": op,
        "id": f"{n:032}",
        "at": "2026-01-02T03:04:05Z",
        "n": f"{n:016x}",
        "author": "Ada <ada@example.org>",
        "commit": head,
        "type": "decision",
        "body": f"Memory number {n} of the strange ones",
        "paths": [{"path": "f0.txt"}],
    }


def shapes(head: str) -> list[dict[str, Any]]:
    out = [
        {**base(head, n * 100 + m), field: shape}
        for n, field in enumerate(FIELDS, 1)
        for m, shape in enumerate(SHAPES)
    ]
    for n, name in enumerate(INSIDE, 100):
        out += [
            {**base(head, n * 100 + m), "paths": [{"path": "f0.txt", "lines": "1", name: shape}]}
            for m, shape in enumerate(SHAPES)
        ]
    out.append({**base(head, 99_999), "paths": [{"path": "", "lines": "1"}]})
    out.append(
        {
            **base(head, 99_998),
            "paths": [{"path": "f0.txt", "lines": f"{n}"} for n in range(10_000)],
        }
    )
    for n, op in enumerate(APART, 200):
        for m, shape in enumerate(shape for shape in SHAPES if len(str(shape)) < 1_000):
            out.append(
                {
                    **base(head, n * 100 + m, op),
                    **dict.fromkeys(
                        (
                            "after",
                            "lines",
                            "memory",
                            "verdict",
                            "shown",
                            "cited",
                            "touched",
                            "contradicted",
                            "session",
                            "ids",
                            "body",
                            "versions",
                            "weights",
                            "kind",
                            "about",
                        ),
                        shape,
                    ),
                }
            )
    return out


def reading(id: str) -> list[list[str]]:
    """Every command that reads, with and without JSON."""
    bare = [
        ["list", "--all", "-n", "5000"],
        ["list", "--stale"],
        ["list", "--forgotten"],
        ["list", "--include-superseded"],
        ["list", "--since", "2020-01-01", "--type", "decision"],
        ["show", id],
        ["log"],
        ["why", "f0.txt"],
        ["why", "f0.txt:1"],
        ["why", "."],
        ["blame", "f0.txt"],
        ["diff", "HEAD~1..HEAD"],
        ["check"],
        ["bisect", id],
        ["recall", "number of the strange"],
        ["recall", "strange", "--all", "--explain"],
        ["stats"],
        ["verify"],
        ["status"],
        ["review"],
        ["consolidate"],
        ["graph"],
        ["graph", id],
        ["sync", "--dry-run"],
        ["doctor"],
        ["receipts"],
        ["capture"],
    ]
    plain_only = [
        ["context"],
        ["context", "--format", "md"],
        ["context", "--format", "json"],
        ["export"],
        ["export", "--format", "md"],
        ["graph", "--format", "dot"],
        ["index"],
        ["config"],
        ["sync", "--dry-run"],
    ]
    return bare + [[*words, "--json"] for words in bare] + plain_only


def clean(out: str) -> bool:
    return (
        not [c for c in set(out) if sanitize.hidden(c) and c != "\n" and not c.isspace()]
        and "\x1b" not in out
    )


@pytest.fixture
def strange(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> tuple[pathlib.Path, list[dict[str, Any]]]:
    lab.git(lab.root, "clone", "-q", "--bare", str(lab.repo("seed", 2)), "hub.git")
    lab.git(lab.root, "clone", "-q", str(lab.root / "hub.git"), "repo")
    repo = lab.root / "repo"
    lab.mem(repo, "init", "--offline")
    head = lab.git(repo, "rev-parse", "HEAD").strip()
    made = shapes(head)
    lines = [json.dumps(data).encode() for data in made]
    assert sum(map(len, lines)) < LARGEST
    put(lab, repo, lines)
    monkeypatch.chdir(repo)
    return repo, made


def test_no_shape_of_any_field_ends_a_command_that_reads(
    strange: tuple[pathlib.Path, list[dict[str, Any]]], capsys: pytest.CaptureFixture[str]
) -> None:
    _, made = strange
    wrong = []
    for words in reading("0" * 27 + "99999"):
        try:
            run(words)
        except (MemError, SystemExit):
            pass
        except Exception as e:
            wrong.append((words, repr(e)[:200]))
        out, err = capsys.readouterr()
        if not clean(out) or not clean(err):
            wrong.append(
                (words, "raw: " + ascii([c for c in set(out + err) if sanitize.hidden(c)]))
            )
        if "--json" in words and out and json.loads(out) is None:
            wrong.append((words, "no JSON"))
    assert not wrong, "\n".join(map(str, wrong))
    for data in made[:: len(SHAPES) // 3]:
        if data["op"] == "create":
            run(["show", data["id"]])
            run(["show", data["id"], "--json"])
            assert clean("".join(capsys.readouterr()))


def test_an_id_that_is_shown_otherwise_ends_no_command(lab: Lab) -> None:
    repo = lab.repo("repo", 2)
    lines = []
    for n, id in enumerate(("a\rb", "a\0b", HOSTILE)):
        for name, rev, text in (("s", "HEAD~1", "Sunday"), ("m", "HEAD", "Monday")):
            commit = lab.git(repo, "rev-parse", rev).strip()
            body = f"The staging database number {n} is wiped every {text}"
            made = {**base(commit, n), "id": id + name, "body": body}
            lines.append(json.dumps(made).encode())
        gone = json.dumps({**base(commit, n), "id": f"{id}g"}).encode()
        about = {"after": [record.version_of(gone)], "head": commit}
        lines += [gone, json.dumps({**base(commit, n, "forget"), "id": f"{id}g", **about}).encode()]
    put(lab, repo, lines)
    forgotten = lab.json(repo, "list", "--forgotten")
    assert len(forgotten) == 3 and all(item["forgotten"]["author"] for item in forgotten)
    found = lab.json(repo, "diff", "HEAD~1..HEAD")["contradicts"]
    assert {(m["memory"]["id"][-1], m["against"]["id"][-1]) for m in found} == {("m", "s")}


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({}, "forgotten by Ada, 2026-01-02"),
        ({"author": None}, "forgotten, 2026-01-02"),
        ({"at": "once", "reason": "old"}, "forgotten by Ada: old"),
    ],
)
def test_a_list_of_forgotten_memories_says_what_a_record_says(
    lab: Lab, said: dict[str, Any], told: str
) -> None:
    repo = lab.repo()
    head = lab.git(repo, "rev-parse", "HEAD").strip()
    line = json.dumps({**base(head, 1), "paths": []}).encode()
    forget = {**base(head, 1, "forget"), "after": [record.version_of(line)], **said}
    put(lab, repo, [line, json.dumps(forget).encode()])
    assert f"({told})" in lab.mem(repo, "list", "--forgotten")


def test_one_line_of_a_teammate_ends_no_export(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "An honest memory")
    head = lab.git(repo, "rev-parse", "HEAD").strip()
    put(
        lab,
        repo,
        [
            *(line.encode() for line in lab.lines(repo)),
            json.dumps(
                {**base(head, 1), "paths": [{"path": "", "lines": "1"}, {"path": "f0.txt"}]}
            ).encode(),
        ],
    )
    rows = [json.loads(row) for row in lab.mem(repo, "export").splitlines()]
    assert {row["body"] for row in rows} == {
        "An honest memory",
        "Memory number 1 of the strange ones",
    }
    assert [row["paths"] for row in rows if "paths" in row] == [["f0.txt"]]
    (found,) = [m for m in lab.json(repo, "list", "--all") if m["paths"]]
    assert [p["path"] for p in found["paths"]] == ["f0.txt"]


def test_markdown_for_a_pipe_shows_marks_and_comes_back_as_it_was(lab: Lab) -> None:
    one, other = lab.repo("one"), lab.repo("other")
    texts = [f"Colour {HOSTILE}\n\tindented\ttabs\nlast", "plain text\n\twith a tab"]
    for text in texts:
        lab.mem(one, "remember", "--stdin", stdin=text, rc=(0, 1))
    kept = {m["body"] for m in lab.json(one, "list")}
    assert len(kept) == 2
    page = lab.mem(one, "export", "--format", "md")
    assert (
        not [c for c in set(page) if sanitize.hidden(c) and c not in "\n\t"]
        and "<1b>" in page
        and "\tindented\ttabs" in page
    )
    lab.mem(other, "import", "-", stdin=page)
    assert {m["body"] for m in lab.json(other, "list")} == kept
    edited = lab.repo("edited")
    lab.mem(edited, "import", "-", stdin=page.replace("last", "changed by hand"))
    assert any(m["body"].endswith("changed by hand") for m in lab.json(edited, "list"))
    lab.mem(one, "export", "--format", "md", "-o", "page.md")
    assert (one / "page.md").read_text() == page


@pytest.mark.parametrize(
    "words",
    [
        ["list", "--all"],
        ["export"],
        ["export", "--format", "md"],
        ["context"],
        ["verify"],
        ["doctor"],
        ["check"],
    ],
)
def test_the_same_by_process(
    strange: tuple[pathlib.Path, list[dict[str, Any]]], lab: Lab, words: list[str]
) -> None:
    done = lab.run(strange[0], sys.executable, "-m", "gitmem", *words)
    assert done.returncode in (0, 1) and "bug:" not in done.stderr, done.stderr
    assert clean(done.stdout) and clean(done.stderr)


@pytest.mark.parametrize(
    "words",
    [
        ["show"],
        ["why"],
        ["recall"],
        ["list", "--type"],
        ["list", "--since"],
        ["bisect"],
        ["import"],
        ["forget"],
        ["log"],
        ["diff"],
        ["export", "-o"],
    ],
)
def test_an_error_quotes_nothing_that_steers_a_terminal(lab: Lab, words: list[str]) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "An honest memory")
    done = lab.run(repo, sys.executable, "-m", "gitmem", *words, HOSTILE.replace("]0;x", "/no/"))
    assert clean(done.stdout) and clean(done.stderr) and "bug:" not in done.stderr
