"""Uniting the notes of two clones, and what becomes of text that one of them purged."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from conftest import Lab
from notes_world import ADA, REF, opened

from gitmem.core import fold, record, record_content
from gitmem.core.errors import Refused
from gitmem.notes import notetree, plans, treeedit


class Clone:
    def __init__(self, lab: Lab, path: pathlib.Path) -> None:
        self.lab, self.path = lab, path
        self.notes = opened(path)[1]
        self.head = lab.git(path, "rev-parse", "HEAD").strip()

    def remember(self, text: str) -> bytes:
        line = record.dump(record.create(record_content.checked({"body": text}), commit=self.head))
        self.notes.append([(self.head, line)], "m", ADA)
        return line

    def purge(self, line: bytes) -> plans.Written:
        parsed = record.parse(line)
        assert parsed
        tombstone = record.dump(
            record.envelope(
                "purge", {"id": parsed.id, "lines": [parsed.version], "all": True}, "", {}
            )
        )
        return self.notes.replant([(notetree.PURGED, tombstone)], "git mem: purge 1 memory", ADA)

    def take(self, other: Clone) -> plans.Written:
        self.lab.git(self.path, "fetch", "-q", str(other.path), f"+{REF}:refs/theirs")
        written = self.notes.unite(
            self.lab.git(self.path, "rev-parse", "refs/theirs").strip(), "git mem: sync", ADA
        )
        self.lab.git(self.path, "update-ref", "-d", "refs/theirs")
        return written

    def bodies(self) -> set[str]:
        records = [
            r for r in (record.parse(line) for _, line in self.notes.lines(self.notes.tip())) if r
        ]
        return {
            str(v.data["body"])
            for m in fold.fold(records).values()
            for v in m.versions
            if m.status == fold.ACTIVE
        }

    def holds(self, text: str, *what: str) -> bool:
        """Whether an object reachable from `what` (the notes ref and its reflog) holds a text."""
        names = self.lab.git(
            self.path,
            "rev-list",
            "--objects",
            *(what or (REF,)),
            "--reflog" if not what else "--no-walk=sorted",
        ).split("\n")
        ids = "\n".join(n.split(" ")[0] for n in names if n)
        return text in self.lab.git(self.path, "cat-file", "--batch", stdin=ids)

    def parents(self) -> list[str]:
        return self.lab.git(self.path, "rev-list", "--parents", "-n", "1", REF).split()[1:]


def two(lab: Lab) -> tuple[Clone, Clone]:
    seed = lab.repo("seed", 2)
    for name in "ab":
        lab.git(lab.root, "clone", "-q", str(seed), name)
    return Clone(lab, lab.root / "a"), Clone(lab, lab.root / "b")


def stock_merge(clone: Clone, other: Clone) -> None:
    clone.lab.git(clone.path, "fetch", "-q", str(other.path), f"+{REF}:refs/notes/theirs")
    clone.lab.unite(clone.path, "refs/notes/theirs")
    clone.lab.git(clone.path, "update-ref", "-d", "refs/notes/theirs")


def test_a_clone_without_notes_takes_the_others_tip_as_it_is(lab: Lab) -> None:
    a, b = two(lab)
    a.remember("one")
    assert b.take(a).lines == 1
    assert b.notes.tip() == a.notes.tip()


def test_a_clone_that_is_behind_moves_forward_without_a_commit(lab: Lab) -> None:
    a, b = two(lab)
    a.remember("one")
    b.take(a)
    a.remember("two")
    assert b.take(a).lines == 1
    assert b.notes.tip() == a.notes.tip()
    assert b.take(a).lines == 0


def test_two_histories_become_one_that_both_can_move_forward_to(lab: Lab) -> None:
    a, b = two(lab)
    a.remember("one")
    b.remember("two")
    written = b.take(a)
    assert written.lines == 1 and not written.replaced and not written.refused
    assert len(b.parents()) == 2
    a.take(b)
    assert a.notes.tip() == b.notes.tip()
    assert a.bodies() == b.bodies() == {"one", "two"}


def test_lines_that_stock_git_removed_over_there_come_in_all_the_same(lab: Lab) -> None:
    a, b = two(lab)
    a.remember("one")
    b.remember("two")
    lab.git(a.path, "notes", "--ref=mem/team", "remove", "HEAD")
    b.take(a)
    assert b.bodies() == {"one", "two"}
    a.take(b)
    assert a.bodies() == {"one", "two"}


def test_a_foreign_tip_that_lost_nothing_is_taken_as_it_is(lab: Lab) -> None:
    a, b = two(lab)
    a.remember("one")
    b.take(a)
    lab.git(a.path, "notes", "--ref=mem/team", "append", "-m", "a remark by hand", "HEAD")
    b.take(a)
    assert b.notes.tip() == a.notes.tip()


def test_what_we_purged_does_not_come_back_from_a_clone_that_has_it(lab: Lab) -> None:
    a, b = two(lab)
    doomed = a.remember("the secret name is Zanzibarium")
    b.take(a)
    a.remember("stays")
    b.remember("theirs")
    assert a.purge(doomed).replaced
    assert not a.holds("Zanzibarium")
    written = a.take(b)
    assert written.refused and not written.replaced
    assert a.bodies() == {"stays", "theirs"}
    assert not a.holds("Zanzibarium")
    tip = a.notes.tip()
    assert a.take(b).lines == 0 and a.notes.tip() == tip, (
        "a refused history adds nothing the second time"
    )


def test_a_refusal_that_leaves_nothing_to_do_is_still_said(lab: Lab) -> None:
    a, b = two(lab)
    doomed = a.remember("the secret name is Zanzibarium")
    b.take(a)
    a.purge(doomed)
    for _ in range(2):  # a sync must know each time that the remote is to be replaced
        assert a.take(b).refused


def test_an_incoming_purge_takes_the_text_out_of_our_history(lab: Lab) -> None:
    a, b = two(lab)
    doomed = a.remember("the secret name is Zanzibarium")
    b.take(a)
    b.remember("ours")
    a.purge(doomed)
    written = b.take(a)
    assert written.replaced and not written.refused
    assert b.bodies() == {"ours"}
    assert b.parents() == [a.notes.tip()], "so that a push is a plain one"
    assert not b.holds("Zanzibarium")
    assert a.take(b).lines == 1 and a.notes.tip() == b.notes.tip()


def test_text_that_stock_git_merged_back_is_left_behind_by_the_next_write(lab: Lab) -> None:
    a, b = two(lab)
    doomed = a.remember("the secret name is Zanzibarium")
    b.take(a)
    a.purge(doomed)
    stock_merge(b, a)
    assert b.holds("Zanzibarium")
    b.remember("later")
    assert not b.holds("Zanzibarium")
    assert b.bodies() == {"later"}


def test_a_hub_where_stock_git_merged_it_back_is_taken_without_the_text(lab: Lab) -> None:
    a, b = two(lab)
    doomed = a.remember("the secret name is Zanzibarium")
    b.take(a)
    a.purge(doomed)
    stock_merge(b, a)
    lab.git(
        b.path,
        "notes",
        "--ref=mem/team",
        "append",
        "-m",
        record.dump(record.create(record_content.checked({"body": "by hand"}))).decode(),
        "HEAD",
    )
    written = a.take(b)
    assert written.refused
    assert a.bodies() == {"by hand"} and not a.holds("Zanzibarium")


def test_a_purge_that_was_cut_off_before_the_reflog_went_does_not_undo_itself(
    lab: Lab, monkeypatch: Any
) -> None:
    a, _ = two(lab)
    doomed = a.remember("the secret name is Zanzibarium")
    a.remember("stays")
    with monkeypatch.context() as m:
        m.setattr(type(a.notes.history), "drop_reflog", lambda self: None)
        a.purge(doomed)
    assert a.holds("Zanzibarium")
    a.remember("later")
    assert a.bodies() == {"stays", "later"}
    assert not a.holds("Zanzibarium", REF)


def test_a_note_of_others_in_the_tree_survives_a_new_history(lab: Lab) -> None:
    a, _ = two(lab)
    doomed = a.remember("the secret name is Zanzibarium")
    blob = lab.git(a.path, "hash-object", "-w", "--stdin", stdin="kept").strip()
    tree = lab.git(
        a.path,
        "mktree",
        stdin=lab.git(a.path, "ls-tree", REF) + f'100644 blob {blob}\ta "quoted" name\n',
    ).strip()
    commit = lab.git(a.path, "commit-tree", "-m", "foreign", "-p", REF, tree).strip()
    lab.git(a.path, "update-ref", REF, commit)
    a.purge(doomed)
    assert 'a \\"quoted\\" name' in lab.git(a.path, "ls-tree", "-r", REF)
    assert not a.holds("Zanzibarium")


def test_purging_two_memories_one_after_the_other_keeps_both_out(lab: Lab) -> None:
    a, b = two(lab)
    first, second = a.remember("first Zanzibarium"), a.remember("second Zanzibarium")
    b.take(a)
    a.purge(first)
    b.purge(second)
    b.take(a)
    a.take(b)
    assert a.bodies() == b.bodies() == set()
    assert not a.holds("Zanzibarium") and not b.holds("Zanzibarium")


def test_a_line_that_was_purged_is_refused_when_it_is_written_again(lab: Lab) -> None:
    a, _ = two(lab)
    doomed = a.remember("the secret name is Zanzibarium")
    a.purge(doomed)
    with pytest.raises(Refused, match="was purged"):
        a.notes.append([(a.head, doomed)], "m", ADA)
    a.remember("another text")
    assert a.bodies() == {"another text"}


def test_a_purged_line_that_is_no_record_comes_back_from_no_clone(lab: Lab) -> None:
    a, b = two(lab)
    a.remember("stays")
    lab.git(
        a.path, "notes", "--ref=mem/team", "append", "-m", "the secret name is Zanzibarium", "HEAD"
    )
    b.take(a)
    b.remember("of b")
    tombstone = record.dump(
        record.envelope(
            "purge",
            {"id": "0" * 32, "lines": [record.version_of(b"the secret name is Zanzibarium")]},
            "",
            {},
        )
    )
    assert a.notes.replant([(notetree.PURGED, tombstone)], "git mem: purge 1 memory", ADA).replaced
    assert not a.holds("Zanzibarium")
    assert a.take(b).refused and not a.holds("Zanzibarium") and a.bodies() == {"stays", "of b"}
    assert b.take(a).replaced and not b.holds("Zanzibarium")
    lab.git(
        b.path,
        "notes",
        "--ref=mem/team",
        "append",
        "-m",
        "  the secret name is Zanzibarium ",
        "HEAD",
    )
    b.remember("more")
    assert not b.holds("Zanzibarium") and b.bodies() == {"stays", "of b", "more"}


def test_a_merge_that_brought_purged_text_is_not_built_upon_by_a_clone_that_has_the_text_too(
    lab: Lab,
) -> None:
    a, b = two(lab)
    doomed = a.remember("the secret name is Zanzibarium")
    b.take(a)
    lab.git(lab.root, "clone", "-q", str(a.path), "c")
    c = Clone(lab, lab.root / "c")
    c.take(a)
    c.purge(doomed)
    stock_merge(b, c)  # b's tip: the text and the purge record side by side, on top of a's
    written = a.take(b)
    assert written.replaced and written.refused
    assert not a.holds("Zanzibarium") and a.bodies() == set()


def test_settling_leaves_a_merge_of_purged_text_behind_and_does_nothing_else(lab: Lab) -> None:
    a, b = two(lab)
    doomed = a.remember("the secret name is Zanzibarium")
    b.take(a)
    a.purge(doomed)
    stock_merge(b, a)
    assert b.notes.settle("m", ADA).replaced
    assert not b.holds("Zanzibarium")
    tip = b.notes.tip()
    assert not b.notes.settle("m", ADA).replaced and b.notes.tip() == tip


def test_a_commit_that_claims_to_hold_everything_and_took_lines_out_is_not_followed(
    lab: Lab,
) -> None:
    a, b = two(lab)
    a.remember("one")
    b.take(a)
    empty = lab.git(a.path, "mktree", stdin="").strip()
    forged = lab.git(
        a.path, "commit-tree", "-m", "git mem: tidy\n\nMem-Complete: 1", "-p", REF, empty
    ).strip()
    lab.git(a.path, "update-ref", REF, forged)
    b.take(a)
    assert b.bodies() == {"one"}
    assert forged in b.parents(), "so that a push is a plain one"


def test_lines_that_two_clones_continued_differently_do_not_multiply(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(treeedit, "BOUND", 600)
    a, b = two(lab)
    for n in range(4):
        for clone in (a, b):
            for i in range(3):
                clone.remember(f"{clone.path.name} {n} {i} " + "words " * 40)
        a.take(b)
        b.take(a)
        lab.git(b.path, "notes", "--ref=mem/team", "append", "-m", f"apart again {n}", "HEAD")
        a.remember(f"apart too {n}")
    b.take(a)
    lines = [
        line
        for _, line in notetree.contents(
            b.notes.git, notetree.all_notes(b.notes.git, b.notes.tip())
        )
    ]
    assert len(lines) == len(set(lines)) == 4 * 8
