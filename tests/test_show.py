"""One memory, whole: also where two clones edited it at the same time."""

from __future__ import annotations

import json
import pathlib

from conftest import Lab


def edited_twice(lab: Lab) -> tuple[pathlib.Path, str]:
    """(a clone that has both, the id) of a memory that two clones edited before either saw the
    other's edit.
    """
    seed = lab.repo("seed")
    lab.git(lab.root, "clone", "-q", "--bare", str(seed), "hub.git")
    a, b = lab.root / "a", lab.root / "b"
    for path in (a, b):
        lab.git(lab.root, "clone", "-q", str(lab.root / "hub.git"), str(path))
    id = lab.json(a, "remember", "the invoice is sent on Monday", "--tag", "mail")["id"]
    lab.mem(a, "sync")
    lab.mem(b, "sync")
    lab.mem(a, "edit", id, "-m", "the invoice is sent on Tuesday")
    lab.mem(b, "edit", id, "-m", "the invoice is sent on Friday")
    for path in (a, b, a):
        lab.mem(path, "sync")
    return a, id


def test_both_versions_of_a_concurrent_edit_are_in_the_json(lab: Lab) -> None:
    a, id = edited_twice(lab)
    shown = json.loads(lab.mem(a, "show", id, "--json"))
    assert shown["id"] == id and shown["body"] in {
        "the invoice is sent on Tuesday",
        "the invoice is sent on Friday",
    }
    assert {v["body"] for v in shown["versions"]} == {
        "the invoice is sent on Tuesday",
        "the invoice is sent on Friday",
    }
    assert all(
        v["id"] == id and v["tags"] == ["mail"] and "versions" not in v for v in shown["versions"]
    )
    # Each is named as in the history, so that a reader knows who wrote which.
    assert {v["version"] for v in shown["versions"]} == {
        h["version"] for h in shown["history"] if h["op"] == "edit"
    }
    assert json.loads(lab.mem(lab.root / "b", "show", id, "--json"))["body"] == shown["body"]


def test_a_person_is_shown_both_versions_until_an_edit_covers_them(lab: Lab) -> None:
    a, id = edited_twice(lab)
    shown = lab.mem(a, "show", id)
    assert "sent on Tuesday" in shown and "sent on Friday" in shown and "at the same time" in shown
    lab.mem(a, "edit", id, "-m", "the invoice is sent on Wednesday")
    assert "versions" not in lab.json(a, "show", id)
    assert "at the same time" not in lab.mem(a, "show", id)
