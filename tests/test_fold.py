"""The fold: a pure function of the set of records."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitmem.core import fold, record, record_content, record_fields, unite
from gitmem.core.record import Record


def made(data: dict[str, object]) -> Record:
    parsed = record.parse(record.dump(data))
    assert parsed is not None
    return parsed


def create(body: str, **extra: object) -> Record:
    return made(record.create(record_content.checked({"body": body}), **extra))


def edit(memory: str, body: str, after: list[str]) -> Record:
    return made(record.edit(memory, record_content.checked({"body": body}), after))


def forget(memory: str, after: list[str]) -> Record:
    return made(record.about("forget", memory, after))


def restore(memory: str, after: list[str]) -> Record:
    return made(record.about("restore", memory, after))


def taken_back(records: list[Record], id: str) -> Record:
    """The record that `git mem restore` would write."""
    return restore(id, [r.version for r in fold.fold(records)[id].hidden_by])


def view(records: list[Record]) -> dict[str, object]:
    """Everything a reader can see of a fold."""
    return {
        id: (m.status, [(v.version, v.line) for v in m.versions], sorted(m.heads), m.superseded_by)
        for id, m in fold.fold(records).items()
    }


@st.composite
def histories(draw: st.DrawFn) -> list[Record]:
    """Records that grow from one another, with arbitrary (also dangling and repeated) `after`."""
    records: list[Record] = []
    for i in range(draw(st.integers(1, 14))):
        if not records or draw(st.booleans()):
            records.append(create(f"memory {i}"))
            continue
        target = draw(st.sampled_from(records))
        after = draw(
            st.lists(st.sampled_from([r.version for r in records] + ["f" * 32]), max_size=3)
        )
        kinds = ["edit", "forget", "supersede", "share", "purge", "restore", "unknown"]
        kind = draw(st.sampled_from(kinds))
        if kind == "edit":
            records.append(edit(target.id, f"edit {i}", after))
        elif kind == "forget":
            records.append(forget(target.id, after))
        elif kind == "supersede":
            records.append(create(f"instead {i}", after=after, supersedes=[target.id]))
        elif kind == "restore":
            records.append(restore(target.id, after))
        elif kind == "share":
            records.append(made(record.about("share", target.id)))
        elif kind == "purge":
            records.append(
                made(
                    record.envelope(
                        "purge", {"id": target.id}, "", {"lines": after} if after else {}
                    )
                )
            )
        else:
            records.append(
                made(record.envelope("feedback", {"id": target.id}, "", {"after": after}))
            )
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
@given(
    histories(),
    st.lists(
        st.sampled_from(
            [
                b"",
                b"  ",
                b"free text",
                b"{}",
                b'{"v":9,"op":"create","id":"x","body":"y"}',
                b"[1]",
                b"{broken",
                b"\xff\xfe",
            ]
        ),
        max_size=6,
    ),
)
def test_blank_foreign_and_newer_lines_change_nothing(
    records: list[Record], noise: list[bytes]
) -> None:
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
    assert folded[stays.id].status == fold.ACTIVE and [
        v.version for v in folded[stays.id].versions
    ] == [merged.version]


def test_two_clones_that_merge_in_opposite_ways_lose_neither() -> None:
    one, other = create("use redis"), create("use cookies")
    here, there = (
        edit(one.id, "use redis!", [one.version, other.version]),
        edit(other.id, "use cookies!", [one.version, other.version]),
    )
    folded = fold.fold([one, other, here, there])
    assert {m.status for m in folded.values()} == {fold.ACTIVE}


def test_a_purge_takes_every_line_of_the_memory() -> None:
    one, other = create("a"), create("b")
    records = [
        one,
        other,
        edit(one.id, "x", [one.version]),
        made(record.envelope("purge", {"id": one.id}, "", {})),
    ]
    folded = fold.fold(records)
    assert one.id not in folded and other.id in folded


def test_a_purge_of_lines_leaves_the_other_lines() -> None:
    one = create("a")
    x = edit(one.id, "x", [one.version])
    folded = fold.fold(
        [one, x, made(record.envelope("purge", {"id": "0" * 32}, "", {"lines": [x.version]}))]
    )
    assert [v.data["body"] for v in folded[one.id].versions] == ["a"]


def test_a_purge_of_lines_dooms_a_line_of_any_kind_but_a_purge_record() -> None:
    lines = [
        b"a key, written by hand",
        b'{"v":1,"op":"create","id":"ab',
        record.dump({"v": 1, "op": "feedback", "id": "x"}),
        record.dump({"v": 2, "op": "create", "id": "x"}),
        b"\xff",
    ]
    purges = [
        record.dump(record.envelope("purge", {"id": "0" * 32}, "", {})),
        record.dump({"v": 2, "op": "purge", "id": "x"}),
    ]
    versions = [record.version_of(line) for line in [*lines, *purges, b""]]
    graves = fold.Tombstones(
        [made(record.envelope("purge", {"id": "1" * 32, "lines": versions}, "", {}))]
    )
    assert all(map(graves.doom, lines)) and graves.doom(b" " + lines[0] + b"\r")
    assert not any(map(graves.doom, [*purges, b"", b" ", b"another line"]))


def test_the_same_text_twice_is_shown_once() -> None:
    text = "y" * 300
    assert len(fold.fold([create(text), create(text)])[create(text).id].versions) == 1


# --- versions beside each other ------------------------------------------------


def changed(
    old: Record,
    at: str = "2026-01-02T00:00:00Z",
    after: list[Record] | None = None,
    **fields: object,
) -> Record:
    """An edit of `old` that changes some fields, as `memories.edit` writes it."""
    kept = {k: v for k, v in old.data.items() if k in record_fields.CONTENT}
    seen = [r.version for r in after or [old]]
    return made(record.edit(old.id, {**record_content.checked({**kept, **fields})}, seen, at=at))


def shown(*records: Record) -> list[dict[str, object]]:
    (memory,) = fold.fold(records).values()
    return [
        {k: v for k, v in r.data.items() if k in record_fields.CONTENT} for r in memory.versions
    ]


def tagged(*tags: str, **fields: object) -> Record:
    return made(
        record.create(
            record_content.checked({"body": "use postgres " * 30, "tags": list(tags), **fields}),
            at="2026-01-01T00:00:00Z",
        )
    )


def test_two_tags_added_in_two_places_are_one_memory_with_both() -> None:
    base = tagged("db")
    one, two = changed(base, tags=["db", "orders"]), changed(base, tags=["db", "money"])
    (only,) = shown(base, one, two)
    assert only["tags"] == ["db", "money", "orders"]


def test_a_tag_taken_out_stays_out_and_one_added_beside_it_stays() -> None:
    base = tagged("db", "draft")
    (only,) = shown(base, changed(base, tags=["db"]), changed(base, tags=["db", "draft", "money"]))
    assert only["tags"] == ["db", "money"]


def test_of_versions_without_a_known_base_all_entries_stay() -> None:
    one, two = tagged("a"), tagged("b")
    assert one.id == two.id
    assert [item["tags"] for item in shown(one, two)] == [["a", "b"]]
    base = tagged("db", "draft")
    purge = made(record.envelope("purge", {"id": "0" * 32, "lines": [base.version]}, "", {}))
    left, right = changed(base, tags=["db"]), changed(base, tags=["db", "draft", "x"])
    assert [item["tags"] for item in shown(base, left, right, purge)] == [["db", "draft", "x"]]


def test_a_title_here_and_a_tag_there_do_not_contradict() -> None:
    base = tagged("db")
    (only,) = shown(base, changed(base, title="Postgres"), changed(base, tags=["db", "x"]))
    assert (only["title"], only["tags"]) == ("Postgres", ["db", "x"])


def test_two_titles_are_alternatives_with_the_same_tags() -> None:
    base = tagged("db")
    records = [
        base,
        changed(base, title="One", tags=["db", "a"], at="2026-01-03T00:00:00Z"),
        changed(base, title="Two"),
        changed(base, tags=["db", "b"], at="2026-01-04T00:00:00Z"),
    ]
    assert [(i["title"], i["tags"]) for i in shown(*records)] == [
        ("One", ["a", "b", "db"]),
        ("Two", ["a", "b", "db"]),
    ]


def test_an_edit_of_one_head_leaves_the_other_and_one_of_both_resolves() -> None:
    base = tagged("db")
    one, two = changed(base, tags=["db", "a"]), changed(base, tags=["db", "b"])
    three = changed(one, tags=["a", "c", "db"])
    assert [i["tags"] for i in shown(base, one, two, three)] == [["a", "b", "c", "db"]]
    last = changed(three, after=[two, three], tags=["only"])
    assert [i["tags"] for i in shown(base, one, two, three, last)] == [["only"]]


def test_what_both_had_seen_of_a_united_text_is_its_base() -> None:
    base = tagged("db")
    one, two = changed(base, tags=["db", "a"]), changed(base, tags=["db", "b"])
    three = changed(one, after=[one, two], tags=["a", "b", "c", "db"])
    four = changed(one, after=[one, two], tags=["b", "db"])
    assert [i["tags"] for i in shown(base, one, two, three, four)] == [["b", "c", "db"]]


def test_a_forget_of_one_head_hides_only_what_that_one_said() -> None:
    base = tagged("db")
    one, two = changed(base, tags=["db", "a"]), changed(base, tags=["db", "b"])
    assert [i["tags"] for i in shown(base, one, two, forget(base.id, [one.version]))] == [
        ["b", "db"]
    ]


def test_of_a_path_that_one_noted_again_the_new_note_counts() -> None:
    base = tagged("db", paths=[{"path": "db/", "blob": "1" * 40}])
    again = changed(base, paths=[{"path": "db/", "blob": "2" * 40}])
    later = changed(
        base, paths=[{"path": "db/", "blob": "1" * 40}, {"path": "x.py"}], at="2027-01-01T00:00:00Z"
    )
    (only,) = shown(base, again, later)
    assert only["paths"] == [{"path": "db/", "blob": "2" * 40}, {"path": "x.py"}]


def test_more_versions_than_people_write_are_shown_as_they_are() -> None:
    base = tagged("db")
    many = [changed(base, tags=[f"t{n}"]) for n in range(unite.MOST + 1)]
    assert len(shown(base, *many)) == unite.MOST + 1


def test_a_path_noted_again_before_the_last_edit_is_new_to_the_others() -> None:
    base = tagged("db", paths=[{"path": "db/", "blob": "1" * 40}])
    again = changed(base, paths=[{"path": "db/", "blob": "2" * 40}])
    last = changed(again, title="Postgres")
    other = changed(base, tags=["db", "x"], at="2026-02-01T00:00:00Z")
    assert [item["paths"] for item in shown(base, again, last, other)] == [
        [{"path": "db/", "blob": "2" * 40}]
    ]


@pytest.mark.parametrize("entries", [8, 40])
def test_what_a_history_costs_to_unite_is_reading_it(
    monkeypatch: pytest.MonkeyPatch, entries: int
) -> None:
    """16 versions that all had seen 100 texts: no work for each pair and each of those texts."""

    def texts(n: int) -> dict[str, object]:
        return {"facts": [f"fact {n} {k}" for k in range(entries)], "title": f"Title {n}"}

    base = tagged("db")
    seen = [changed(base, **texts(n)) for n in range(100)]
    records = [
        base,
        *seen,
        *(changed(base, after=seen, **texts(0), tags=[f"t{n}"]) for n in range(unite.MOST)),
    ]
    calls = {"repr": 0, "after": 0}
    after = Record.after.fget
    assert after

    def counted(value: object) -> str:
        calls["repr"] += 1
        return repr(value)

    def read(self: Record) -> list[str]:
        calls["after"] += 1
        return list(after(self))

    monkeypatch.setattr(unite, "repr", counted, raising=False)
    monkeypatch.setattr(Record, "after", property(read))
    assert len(shown(*records)) == 1
    assert calls["after"] <= 2 * unite.MOST * len(records)
    assert calls["repr"] <= 4 * len(records) * (entries + len(record_fields.CONTENT))


def test_sets_of_more_entries_than_a_record_may_have_are_not_united() -> None:
    base = made({**tagged("db").data, "tags": [f"t{n}" for n in range(record.MAX_ITEMS + 1)]})
    whole = made({**changed(tagged("db")).data, "after": [base.version], "tags": base.data["tags"]})
    gone = changed(tagged("db"), after=[base], tags=[])
    assert len(shown(base, whole, gone)) == 2  # also where few of them would be left


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.sampled_from(["tags", "title", "type", "facts", "forget", "restore", "sync"]),
            st.integers(0, 3),
            st.integers(0, 2),
        ),
        max_size=14,
    ),
    st.randoms(use_true_random=False),
)
def test_three_clones_that_edit_and_sync_in_any_order_show_the_same(
    steps: list[tuple[int, str, int, int]], rng: random.Random
) -> None:
    base = tagged("t0", "t1")
    clones: list[dict[str, Record]] = [{base.version: base} for _ in range(3)]
    for who, what, n, other in steps:
        mine = clones[who]
        (memory,) = fold.fold(mine.values()).values()
        if what == "sync":
            mine.update(clones[other])
            continue
        if (memory.status == fold.ACTIVE) == (what == "restore"):
            continue
        if what == "restore":
            r = taken_back([*mine.values()], base.id)
        elif what == "forget":
            r = forget(base.id, memory.heads[:1])
        else:
            tags = set(memory.versions[0].data.get("tags", [])) ^ {f"t{n}"}
            value = {"tags": sorted(tags), "title": f"T{n}", "type": "gotcha", "facts": [f"f{n}"]}[
                what
            ]
            seen = [v for v in memory.records if v.version in memory.heads[: 1 + n % 2]] or [base]
            r = changed(memory.versions[0], after=seen, **{what: value})
        mine[r.version] = r
    records = [r for clone in clones for r in clone.values()]
    one = view(records)
    rng.shuffle(records)
    assert view(records) == one == view(records + records[: len(records) // 2])
    (memory,) = fold.fold(records).values()
    lines = [r.line for r in memory.versions]
    assert len(set(lines)) == len(lines) and all(record.parse(line) for line in lines)
    tags = {t for r in memory.apart for t in r.data.get("tags", [])}
    assert all(set(r.data.get("tags", [])) <= tags for r in memory.versions)


_SHAPES: tuple[object, ...] = (
    5,
    True,
    1e308,
    -1,
    {},
    {"a": [1]},
    "x",
    "",
    [],
    [5],
    [{}],
    [None],
    [[1]],
    None,
)


@pytest.mark.parametrize(
    "field", ["tags", "paths", "facts", "concepts", "supersedes", "title", "type", "confidence"]
)
def test_no_shape_of_a_field_in_two_edits_ends_the_fold(field: str) -> None:
    """One memory of a teammate ended every command when two edits of it had a number for tags."""
    first = made(record.create(record_content.checked({"body": "honest words", "tags": ["a"]})))
    for ours, theirs in itertools.product(_SHAPES, _SHAPES):
        edits = [
            made(
                record.edit(
                    first.id,
                    {**record_content.checked({"body": body}), field: value},
                    [first.version],
                )
            )
            for body, value in (("one", ours), ("two", theirs))
        ]
        shown = fold.fold([first, *edits])[first.id].versions
        assert {str(v.data["body"]) for v in shown} == {"one", "two"}, (ours, theirs)
