"""The format: one record, one line; what is written is read back, what is foreign survives."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitmem.core import record, record_content
from gitmem.core.errors import Refused

texts = st.text(st.characters(codec=None, exclude_categories=()), max_size=60)
bodies = texts.filter(lambda t: bool(record.clean(t).strip()))
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(codec="utf-8"), max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(bodies, texts, st.lists(texts, max_size=3), texts)
def test_what_is_dumped_is_parsed_back(body: str, title: str, tags: list[str], source: str) -> None:
    fields = record_content.checked({"body": body, "title": title, "tags": tags, "source": source})
    data = record.create(fields, commit="a" * 40)
    line = record.dump(data)
    assert b"\n" not in line
    parsed = record.parse(line)
    assert parsed is not None and parsed.data == data
    assert record.dump(parsed.data) == line
    assert record.id_holds(data)


@given(
    bodies,
    st.dictionaries(
        st.text(st.characters(codec="utf-8"), min_size=1, max_size=8).map(lambda k: "x-" + k),
        json_values,
        max_size=4,
    ),
)
def test_unknown_fields_survive_a_round_trip(body: str, extra: dict[str, object]) -> None:
    data = {**record.create(record_content.checked({"body": body})), **extra}
    parsed = record.parse(record.dump(data))
    assert parsed is not None and parsed.data == data


@given(st.binary(max_size=200))
def test_no_line_raises(line: bytes) -> None:
    record.parse(line)
    record.newer(line)


@given(json_values)
def test_no_json_value_raises(value: object) -> None:
    record.parse(json.dumps(value).encode())
    record.newer(json.dumps(value).encode())


def test_deep_nesting_is_foreign_not_fatal() -> None:
    assert record.parse(b'{"v":1,"op":"create","id":"x","body":' + b"[" * 100_000) is None


def test_a_newer_format_is_kept_apart() -> None:
    line = record.dump({**record.create(record_content.checked({"body": "x"})), "v": 2})
    assert record.parse(line) is None
    assert record.newer(line) == 2
    assert record.newer(b"free text") == 0


def test_canonical_form_is_sorted_and_unescaped() -> None:
    line = record.dump({"v": 1, "op": "create", "body": "Größe 😀"}).decode()
    assert line == '{"body":"Größe 😀","op":"create","v":1}'


def test_the_id_covers_title_body_and_source() -> None:
    long = "x" * 300
    one = record.create(record_content.checked({"body": long}))
    assert record.create(record_content.checked({"body": long}))["id"] == one["id"]
    for change in ({"body": long + "y"}, {"title": "t"}, {"source": "s"}):
        assert record.create(record_content.checked({"body": long, **change}))["id"] != one["id"]
    assert (
        record.create(record_content.checked({"body": long, "tags": ["a"], "type": "decision"}))[
            "id"
        ]
        == one["id"]
    )


def test_a_short_text_is_salted_so_its_hash_cannot_be_guessed() -> None:
    one, two = (record.create(record_content.checked({"body": "pin 4711"})) for _ in range(2))
    assert one["salt"] != two["salt"] and one["id"] != two["id"]
    assert "salt" not in record.create(
        record_content.checked({"body": "pin 4711", "source": "notes.txt:3"})
    )
    assert "salt" not in record.create(record_content.checked({"body": "x" * 300}))


def test_a_hand_edited_line_fails_its_id() -> None:
    data = record.create(record_content.checked({"body": "use postgres"}))
    assert not record.id_holds({**data, "body": "use mongo"})


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"body": ""}, "no text"),
        ({"body": " \n "}, "no text"),
        ({}, "no text"),
        ({"body": 7}, "body"),
        ({"body": "x" * (record.MAX_BODY + 1)}, "limit"),
        ({"body": "x", "title": "t" * 301}, "title"),
        ({"body": "x", "tags": "a" * 300}, "tags"),
        ({"body": "x", "tags": [1]}, "tags"),
        ({"body": "x", "paths": [{}]}, "paths"),
        ({"body": "x", "provenance": "MAYBE"}, "provenance"),
        ({"body": "x", "confidence": 2}, "confidence"),
        ({"body": "x", "confidence": True}, "confidence"),
        ({"body": "x", "type": 3}, "type"),
    ],
)
def test_unfit_content_is_refused_by_name(fields: dict[str, object], word: str) -> None:
    with pytest.raises(Refused, match=word):
        record_content.checked(fields)


def test_a_body_of_exactly_the_limit_is_stored() -> None:
    assert len(record_content.checked({"body": "x" * record.MAX_BODY})["body"]) == record.MAX_BODY


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("2024-01-01T10:00:00+02:00", "2024-01-01T08:00:00Z"),
        ("2024-01-01", "2024-01-01T00:00:00Z"),
        ("2024-01-01T10:00:00Z", "2024-01-01T10:00:00Z"),
    ],
)
def test_times_are_stored_in_utc(text: str, stored: str) -> None:
    assert record.timestamp(text) == stored


@pytest.mark.parametrize("text", ["yesterday", "", "2024-13-01", "9999-12-31T23:59:59-23:00"])
def test_an_unreadable_time_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        record.timestamp(text)


def test_a_title_is_derived_from_the_first_line() -> None:
    assert record.title_of({"body": "\n  First   line\nsecond"}) == "First line"
    assert len(record.title_of({"body": "word " * 40})) <= 80


def test_a_half_character_that_another_tool_wrote_does_not_stop_an_edit() -> None:
    line = record.dump(record.edit("0" * 32, {"body": "x", "branch": "half \ud800"}, []))
    parsed = record.parse(line)
    assert parsed and parsed.data["branch"] == "half \ufffd"
