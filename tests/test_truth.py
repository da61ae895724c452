"""What is printed, written down and installed says what is so."""

from __future__ import annotations

import json
import os
import pathlib
import pty
import re
import subprocess
import sys
import tomllib

from conftest import Lab

from gitmem.capture import classify
from gitmem.capture.classify import Opinion

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Where a package's module has another name, or another package imports it.
MODULES = {"llama-cpp-python": "llama_cpp", "scikit-learn": "sklearn", "scipy": "networkx"}


def test_uninstall_takes_back_what_init_was_told_on_a_terminal(lab: Lab) -> None:
    repo = lab.repo()
    before = (repo / ".git" / "config").read_bytes()
    ours, theirs = pty.openpty()
    os.write(ours, b"n\ny\n")  # no git hooks; yes to what commits say
    subprocess.run(
        [sys.executable, "-m", "gitmem", "init", "--offline"],
        cwd=repo,
        env=lab.env,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        check=True,
    )
    os.close(ours)
    os.close(theirs)
    assert lab.git(repo, "config", "mem.capture") == "commits\n"
    lab.mem(repo, "uninstall")
    assert (repo / ".git" / "config").read_bytes() == before


def test_every_package_of_an_extra_is_imported_somewhere() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    source = "\n".join(p.read_text() for p in (ROOT / "gitmem").rglob("*.py"))
    for name, packages in extras.items():
        for package in packages if name != "dev" else ():
            word = re.split(r"[<>=!~\[ ]", package)[0]
            module = MODULES.get(word, word.replace("-", "_"))
            assert re.search(
                rf"(?m)^ *(import|from) {module}\b|import_module\(.{module}", source
            ), f"extra '{name}': nothing imports {word}"


def test_the_manual_says_that_sync_shares_memories() -> None:
    page = (ROOT / "man" / "git-mem.1").read_text()
    assert "git mem sync" in page and "neither anywhere" not in page


def test_recall_is_degraded_where_the_chosen_embedding_model_is_gone(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "invoices are kept in cents")
    assert lab.json(repo, "recall", "invoices in cents")["degraded"] is False
    lab.git(repo, "config", "mem.embedModel", str(lab.root / "gone.gguf"))
    answer = lab.json(repo, "recall", "invoices in cents")
    assert (
        answer["degraded"] is True
        and "gone.gguf' is not there" in answer["degraded_reason"]
        and len(answer["hits"]) == 1
    )
    assert (
        lab.json(repo, "recall", "invoices in cents", "--hot")["degraded"] is False
    )  # hooks never ask it


def test_a_model_that_decided_nothing_is_not_named_as_the_stage() -> None:
    text = "We chose PostgreSQL over MongoDB because orders and invoices share one transaction"
    alone = classify.judge("user", text, suggest=0.0)
    said = classify.judge("user", text, suggest=0.0, ask=lambda role, text: Opinion(0.3))
    assert said._replace(p_skip=None) == alone


def test_show_prints_every_field_and_recall_the_provenance(lab: Lab) -> None:
    repo = lab.repo()
    draft = {
        "body": "invoices are kept in cents",
        "title": "cents",
        "subtitle": "not floats",
        "facts": ["floats lose cents", "EUR only"],
        "concepts": ["money"],
        "agent": "claude",
        "session": "s-1",
        "provenance": "VERIFIED",
        "phase": "one",
        "paths": ["f0.txt:1"],
    }
    lab.mem(repo, "remember", "--jsonl", "-", stdin=json.dumps(draft) + "\n")
    id = lab.json(repo, "list")[0]["id"]
    rows = [
        tuple(re.split(r":\s+", line, maxsplit=1))
        for line in lab.mem(repo, "show", id).splitlines()
    ]
    for row in (
        ("subtitle", "not floats"),
        ("agent", "claude"),
        ("session", "s-1"),
        ("concepts", "money"),
        ("fact", "floats lose cents"),
        ("fact", "EUR only"),
        ("paths", "f0.txt:1 (same)"),
        ("provenance", "VERIFIED"),
        ("phase", "one"),
    ):
        assert row in rows, row
    said = lab.mem(repo, "recall", "invoices in cents")
    assert "VERIFIED" in said and "f0.txt:1" in said
