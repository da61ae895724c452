"""The fold: a pure function of the set of records."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from gitmem.core import fold, record
from gitmem.core.record import Record


def made(data: dict[str, object]) -> Record:
    parsed = record.parse(record.dump(data))
    assert parsed is not None
    return parsed


def create(body: str, **extra: object) -> Record:
    return made(record.create(record.content({"body": body}), **extra))


def edit(memory: str, body: str, after: list[str]) -> Record:
    return made(record.edit(memory, record.content({"body": body}), after))


def forget(memory: str, after: list[str]) -> Record:
    return made(record.forget(memory, after))


def view(records: list[Record]) -> dict[str, object]:
    """Everything a reader can see of a fold."""
    return {id: (m.status, [v.version for v in m.versions], sorted(m.heads), m.superseded_by) for id, m in fold.fold(records).items()}


@st.composite
def histories(draw: st.DrawFn) -> list[Record]:
    """Records that grow from one another, with arbitrary (also dangling and repeated) `after`."""
    records: list[Record] = []
    for i in range(draw(st.integers(1, 14))):
        if not records or draw(st.booleans()):
            records.append(create(f"memory {i}"))
            continue
        target = draw(st.sampled_from(records))
        after = draw(st.lists(st.sampled_from([r.version for r in records] + ["f" * 32]), max_size=3))
        kind = draw(st.sampled_from(["edit", "forget", "supersede", "share", "purge", "unknown"]))
        if kind == "edit":
            records.append(edit(target.id, f"edit {i}", after))
        elif kind == "forget":
            records.append(forget(target.id, after))
        elif kind == "supersede":
            records.append(create(f"instead {i}", after=after, supersedes=[target.id]))
        elif kind == "share":
            records.append(made(record.share(target.id)))
        elif kind == "purge":
            records.append(made(record.envelope("purge", {"id": target.id}, "", {"lines": after} if after else {})))
        else:
            records.append(made(record.envelope("feedback", {"id": target.id}, "", {"after": after})))
    return records


@given(histories(), st.randoms(use_true_random=False))
def test_order_and_repetition_do_not_matter(records: list[Record], rng: random.Random) -> None:
    shuffled = records + rng.choices(records, k=len(records))
    rng.shuffle(shuffled)
    assert view(shuffled) == view(records)


@given(histories(), st.integers(0, 14))
def test_merging_in_any_grouping_gives_the_same(records: list[Record], cut: int) -> None:
    left, right = records[:cut], records[cut:]
    lines = {r.line for r in left} | {r.line for r in right}
    assert view([r for r in map(record.parse, lines) if r]) == view(records)


@settings(max_examples=30)
@given(histories(), st.lists(st.sampled_from([b"", b"  ", b"free text", b"{}", b'{"v":9,"op":"create","id":"x","body":"y"}', b"[1]", b"{broken", b"\xff\xfe"]), max_size=6))
def test_blank_foreign_and_newer_lines_change_nothing(records: list[Record], noise: list[bytes]) -> None:
    lines = [r.line for r in records] + noise
    assert view([r for r in map(record.parse, lines) if r]) == view(records)


def test_an_order_dependent_fold_would_be_caught() -> None:
    """The probe: last writer wins by position is not commutative, and `view` shows it."""
    one = create("a")
    x, y = edit(one.id, "x", [one.version]), edit(one.id, "y", [one.version])

    def last_wins(records: list[Record]) -> str:
        return [r for r in records if r.op == "edit"][-1].version

    assert last_wins([one, x, y]) != last_wins([one, y, x])
    assert view([one, x, y]) == view([one, y, x])


def test_concurrent_edits_are_both_visible_until_one_covers_them() -> None:
    one = create("a")
    x, y = edit(one.id, "x", [one.version]), edit(one.id, "y", [one.version])
    assert len(fold.fold([one, x, y])[one.id].versions) == 2
    z = edit(one.id, "z", [x.version, y.version])
    assert [v.data["body"] for v in fold.fold([one, x, y, z])[one.id].versions] == ["z"]


def test_forget_hides_only_what_it_saw() -> None:
    one = create("a")
    gone = forget(one.id, [one.version])
    assert fold.fold([one, gone])[one.id].status == fold.FORGOTTEN
    unseen = edit(one.id, "changed meanwhile", [one.version])
    memory = fold.fold([one, gone, unseen])[one.id]
    assert memory.status == fold.ACTIVE and memory.versions[0].data["body"] == "changed meanwhile"


def test_a_superseded_memory_names_what_replaced_it() -> None:
    old = create("use mongo")
    new = create("use postgres", after=[old.version], supersedes=[old.id])
    folded = fold.fold([old, new])
    assert folded[old.id].status == fold.SUPERSEDED and folded[old.id].superseded_by == [new.id]
    assert folded[new.id].status == fold.ACTIVE


def test_an_edit_that_covers_another_memory_supersedes_it_and_keeps_its_own_id() -> None:
    stays, gone = create("use postgres"), create("we use postgres")
    merged = edit(stays.id, "use postgres", [stays.version, gone.version])
    folded = fold.fold([stays, gone, merged])
    assert folded[gone.id].status == fold.SUPERSEDED and folded[gone.id].superseded_by == [stays.id]
    assert folded[stays.id].status == fold.ACTIVE and [v.version for v in folded[stays.id].versions] == [merged.version]


def test_two_clones_that_merge_in_opposite_ways_lose_neither() -> None:
    one, other = create("use redis"), create("use cookies")
    here, there = edit(one.id, "use redis!", [one.version, other.version]), edit(other.id, "use cookies!", [one.version, other.version])
    folded = fold.fold([one, other, here, there])
    assert {m.status for m in folded.values()} == {fold.ACTIVE}


def test_a_purge_takes_every_line_of_the_memory() -> None:
    one, other = create("a"), create("b")
    records = [one, other, edit(one.id, "x", [one.version]), made(record.envelope("purge", {"id": one.id}, "", {}))]
    folded = fold.fold(records)
    assert one.id not in folded and other.id in folded


def test_a_purge_of_lines_leaves_the_other_lines() -> None:
    one = create("a")
    x = edit(one.id, "x", [one.version])
    folded = fold.fold([one, x, made(record.envelope("purge", {"id": "0" * 32}, "", {"lines": [x.version]}))])
    assert [v.data["body"] for v in folded[one.id].versions] == ["a"]


def test_a_purge_of_lines_dooms_a_line_of_any_kind_but_a_purge_record() -> None:
    lines = [b"a key, written by hand", b'{"v":1,"op":"create","id":"ab', record.dump({"v": 1, "op": "feedback", "id": "x"}), record.dump({"v": 2, "op": "create", "id": "x"}), b"\xff"]
    purges = [record.dump(record.envelope("purge", {"id": "0" * 32}, "", {})), record.dump({"v": 2, "op": "purge", "id": "x"})]
    versions = [record.version_of(line) for line in [*lines, *purges, b""]]
    graves = fold.Tombstones([made(record.envelope("purge", {"id": "1" * 32, "lines": versions}, "", {}))])
    assert all(map(graves.doom, lines)) and graves.doom(b" " + lines[0] + b"\r")
    assert not any(map(graves.doom, [*purges, b"", b" ", b"another line"]))


def test_the_same_text_twice_is_shown_once() -> None:
    text = "y" * 300
    assert len(fold.fold([create(text), create(text)])[create(text).id].versions) == 1
