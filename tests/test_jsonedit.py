"""Text edits of JSON that others wrote: what goes in comes out again, and nothing else moves."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitmem.agents import jsonedit
from gitmem.agents.jsonedit import Broken, Doc

OURS = {"hooks": [{"type": "command", "command": "ours"}]}
PATH = ("hooks", "Stop")

TEXTS = {
    "nothing": "",
    "white space": "\n\n",
    "empty": "{}",
    "empty with lines": "{\n}\n",
    "one line": '{"a": 1}',
    "minified": '{"a":1,"hooks":{"Stop":[{"x":1}]}}',
    "two spaces": '{\n  "a": 1,\n  "b": [1, 2]\n}\n',
    "four spaces, no newline": '{\n    "a": {\n        "b": 1\n    }\n}',
    "tabs": '{\n\t"hooks": {\n\t\t"Stop": [\n\t\t\t{"x": 1}\n\t\t]\n\t}\n}\n',
    "CRLF": '{\r\n  "a": 1,\r\n  "hooks": {\r\n  }\r\n}\r\n',
    "BOM": '\ufeff{\n  "a": 1\n}\n',
    "comments": (
        '// mine\n{\n  "a": 1, // one\n  /* two */ "b": 2 // the last\n  // end\n}\n// after\n'
    ),
    "comma at the end": '{\n  "a": 1,\n  "hooks": {\n    "Stop": [\n      1,\n    ],\n  },\n}\n',
    "an empty list": '{\n  "hooks": {"Stop": []}\n}\n',
    "a comment in an empty object": '{\n  "hooks": { /* none yet */ }\n}\n',
    "a comment up to the line's end": '{"a": 1, "hooks": { // none yet\n}}\n',
    "nothing but a comment": "// mine",
    "brackets in strings": '{"a": "}]{[,\\"//", "b": "/* no comment */"}',
    "keys twice": '{"hooks": 1, "hooks": {"Stop": [0]}}',
}


@pytest.mark.parametrize("name", TEXTS)
def test_an_insertion_is_there_and_can_be_cut_out_again(name: str) -> None:
    text = TEXTS[name]
    doc = Doc(text)
    doc.append(PATH, OURS)
    doc.append(("hooks", "Start"), OURS)
    doc.append(PATH, "second")
    assert doc.value(*PATH)[-2:] == [OURS, "second"] and doc.value("hooks", "Start") == [OURS]
    assert jsonedit.cut(doc.text, doc.spans) == text
    without = Doc(text).value() or {}
    now = doc.value()
    assert {k: v for k, v in now.items() if k != "hooks"} == {
        k: v for k, v in without.items() if k != "hooks"
    }


@pytest.mark.parametrize(
    "name",
    [
        n
        for n in TEXTS
        if n
        not in (
            "nothing",
            "white space",
            "empty with lines",
            "CRLF",
            "a comment in an empty object",
            "a comment up to the line's end",
            "nothing but a comment",
        )
    ],
)
def test_what_was_appended_is_removed_without_a_trace_also_when_others_wrote_meanwhile(
    name: str,
) -> None:
    doc = Doc(TEXTS[name])
    had = doc.value(*PATH)
    hooks = doc.at("hooks")
    doc.append(PATH, OURS)
    doc = Doc(doc.text)  # nothing is known of the spans any more
    if had is None:
        doc.remove("hooks") if hooks is None else doc.remove("hooks", "Stop")
    else:
        doc.remove("hooks", "Stop", len(had))
    assert doc.text == TEXTS[name]


def test_lines_are_indented_as_the_file_indents() -> None:
    doc = Doc('{\r\n\t"a": 1\r\n}\r\n')
    doc.append(("b",), {"c": 1})
    assert (
        doc.text == '{\r\n\t"a": 1,\r\n\t"b": [\r\n\t\t{\r\n\t\t\t"c": 1\r\n\t\t}\r\n\t]\r\n}\r\n'
    )


def test_a_comment_beside_the_last_item_stays_beside_it() -> None:
    doc = Doc('{\n  "a": 1 // why\n}\n')
    doc.put(("b",), 2)
    assert doc.text == '{\n  "a": 1, // why\n  "b": 2\n}\n'
    doc.remove("b")
    assert doc.text == '{\n  "a": 1 // why\n}\n'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1', "line 1"),
        ('{\n"a" 1}', "':' delimiter in line 2"),
        ('{"a": 1 "b": 2}', "','"),
        ("{a: 1}", "property name"),
        ("[1] 2", "extra data"),
        ('{"a": "b', "unterminated string"),
        ("/* {", "expecting value"),
        ("nope", "expecting value"),
        ("[" * 5000, "levels"),
        ('{"a": 01}', "','"),
        ("{,}", "property name"),
    ],
)
def test_what_is_no_json_is_refused(text: str, reason: str) -> None:
    with pytest.raises(Broken, match=reason):
        Doc(text)


@pytest.mark.parametrize(
    "text", ['{"hooks": null}', '{"hooks": []}', '{"hooks": {"Stop": {}}}', "[]", "7"]
)
def test_something_else_in_the_place_is_refused(text: str) -> None:
    doc = Doc(text)
    with pytest.raises(Broken):
        doc.append(PATH, OURS)
    assert doc.text == text


JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=4), x, max_size=3),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(st.text(max_size=4), JSON, max_size=4),
    st.dictionaries(
        st.sampled_from(["Stop", "Start", "x"]), st.lists(JSON, max_size=2), max_size=2
    ),
    st.sampled_from([None, 1, 2, 4, "\t"]),
    st.booleans(),
    st.booleans(),
)
def test_any_object_takes_an_insertion_and_loses_it_again(
    first: dict[str, Any], hooks: dict[str, Any], indent: Any, windows: bool, last: bool
) -> None:
    first = {k: v for k, v in first.items() if k != "hooks"}
    whole = {**first, "hooks": hooks} if last else {"hooks": hooks, **first}
    text = json.dumps(whole, indent=indent)
    text = text.replace("\n", "\r\n") if windows else text
    doc = Doc(text)
    assert doc.value() == whole
    doc.append(PATH, OURS)
    doc.append(("permissions", "allow"), "x")
    assert json.loads(doc.text)["hooks"]["Stop"] == [*hooks.get("Stop", []), OURS]
    assert jsonedit.cut(doc.text, doc.spans) == text
    again = Doc(doc.text)
    again.remove("permissions")
    if "Stop" in hooks:
        again.remove("hooks", "Stop", len(hooks["Stop"]))
    else:
        again.remove("hooks", "Stop")
    assert again.text == text
