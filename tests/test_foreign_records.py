"""Records of other tools: any shape in any field, and no command ends with a bug."""

from __future__ import annotations

import json
import pathlib
import subprocess
from typing import Any

import pytest
from conftest import Lab

REF = "refs/notes/mem/team"
ODD: list[Any] = [
    None,
    float("nan"),
    True,
    0,
    -1,
    1.5,
    10**30,
    [],
    [[]],
    {},
    {"a": [1]},
    "",
    "\0",
    "\ud800",
    "\u202e",
    "9" * 5000,
    "f" * 32,
    "0" * 40,
    ["x", 1, None, {"path": 3}],
    [{"path": ["a"]}],
    [{"path": "\ud800", "blob": 5, "lines": [1]}],
    [None],
    "9999999-99-99",
    "-----BEGIN SSH SIGNATURE-----\nx",
    "../../etc/passwd",
    "-x",
    "main~1:x",
    "a/" * 3000,
]
FIELDS = (
    "op",
    "id",
    "at",
    "n",
    "author",
    "commit",
    "signature",
    "signed_at",
    "body",
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
    "created",
    "reason",
)
COMMANDS = (
    ["list", "--all"],
    ["list", "--all", "--json"],
    ["log"],
    ["recall", "words of others"],
    ["recall", "words", "--json", "--explain", "--all"],
    ["recall", "words", "--path", "f0.txt", "--author", "a"],
    ["stats"],
    ["stats", "--json"],
    ["verify"],
    ["doctor"],
    ["doctor", "--json"],
    ["export"],
    ["export", "--format", "md"],
    ["status"],
    ["list", "--stale"],
    ["sync", "--dry-run"],
    ["sync", "--dry-run", "--json"],
    ["sync"],
    ["context"],
)


def put(lab: Lab, repo: pathlib.Path, lines: list[bytes]) -> None:
    """A note on HEAD with these lines, on top of what is there."""
    head = lab.git(repo, "rev-parse", "HEAD").strip()
    blob = (
        subprocess.run(
            ["git", "hash-object", "-w", "--stdin"],
            cwd=repo,
            input=b"\n".join(lines) + b"\n",
            env=lab.env,
            capture_output=True,
            check=True,
        )
        .stdout.decode()
        .strip()
    )
    tree = lab.git(repo, "mktree", stdin=f"100644 blob {blob}\t{head}\n").strip()
    lab.git(repo, "update-ref", REF, lab.git(repo, "commit-tree", "-m", "foreign", tree).strip())


@pytest.mark.parametrize("op", ["create", "edit", "move", "other"])
def test_no_shape_of_a_foreign_record_ends_a_command_with_a_bug(lab: Lab, op: str) -> None:
    lab.git(lab.root, "clone", "-q", "--bare", str(lab.repo("seed", 2)), "hub.git")
    lab.git(lab.root, "clone", "-q", str(lab.root / "hub.git"), "repo")
    repo = lab.root / "repo"
    head = lab.git(repo, "rev-parse", "HEAD").strip()
    lines = []
    for n, field in enumerate(FIELDS):
        for m, value in enumerate(ODD if op == "create" else ODD[n % 4 :: 4]):
            data = {
                "v": 1,
                "op": op,
                "id": f"{n:016x}{m:016x}",
                "at": "2026-01-02T03:04:05Z",
                "n": f"{m:016x}",
                "author": "A <a@b.org>",
                "commit": head,
                "body": f"words of others {n} {m}",
            }
            if op in ("mark", "move"):
                data["id"] = head
            lines.append(json.dumps({**data, field: value}).encode())
    deep = b"[" * 3000 + b"]" * 3000
    lines += [
        b'{"v":1,"op":"%s","id":"%s","body":"deep","tags":%s}' % (op.encode(), b"d" * 32, deep),
        b'{"v":1,"op":"create","id":"%s","body":"huge","confidence":%s}' % (b"e" * 32, b"9" * 5000),
        b'{"v":1,',
        b"\xff\xfe{",
    ]
    put(lab, repo, lines)
    for words in COMMANDS:
        done = lab.run(repo, "git-mem", *words)
        assert done.returncode in (0, 1, 2) and "bug:" not in done.stderr, (words, done.stderr)
    assert set(lab.lines(repo)) >= {
        line.decode() for line in lines if not line.startswith(b"\xff")
    }, "every line is kept"
    for id in ("0" * 14 + "08" + "0" * 15 + "4", "d" * 32, "e" * 32):
        for words in (
            ["show", id],
            ["show", id, "--json"],
            ["edit", id, "--title", "a better one"],
            ["forget", id],
            ["purge", id, "--force"],
        ):
            done = lab.run(repo, "git-mem", *words)
            assert done.returncode in (0, 1, 2) and "bug:" not in done.stderr, (words, done.stderr)


def test_a_foreign_value_is_found_under_the_name_that_is_shown(lab: Lab) -> None:
    repo = lab.repo()
    odd = {"type": "t\ud800", "tags": ["tag\ud800"], "paths": [{"path": "caf\ud800\r.txt"}]}
    data = {"v": 1, "op": "create", "id": "f" * 32, "at": "2026-01-02T03:04:05Z", "body": "b"}
    put(lab, repo, [json.dumps({**data, **odd}).encode()])
    (shown,) = lab.json(repo, "list", "--all")
    for option, value in zip(
        ("--type", "--tag", "--path"),
        (shown["type"], shown["tags"][0], shown["paths"][0]["path"]),
        strict=True,
    ):
        assert len(lab.json(repo, "list", "--all", option, value)) == 1, option
