"""`fastjson` says what `json` says, without loading it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitmem.core import fastjson

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec=None, categories=None)),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def said(read: Any, text: str | bytes) -> str:
    try:
        return repr(read(text))
    except RecursionError:
        return "RecursionError"
    except ValueError:
        return "ValueError"


@given(VALUES, st.booleans(), st.booleans())
def test_values_are_written_and_read_as_by_the_package(value: Any, ascii: bool, sort: bool) -> None:
    theirs = json.dumps(
        value, ensure_ascii=ascii, sort_keys=sort, separators=(",", ":"), allow_nan=False
    )
    assert fastjson.encoder(ensure_ascii=ascii, sort_keys=sort)(value) == theirs
    assert said(fastjson.loads, theirs) == said(json.loads, theirs)
    raw = theirs.encode("utf-8", "surrogatepass")
    assert said(fastjson.loads, raw) == said(json.loads, raw)


@given(st.text(alphabet=' \t\n\r{}[]",:\\u0dnultrfase1-+.eE\ufeff'))
def test_any_text_is_read_or_refused_as_by_the_package(text: str) -> None:
    assert said(fastjson.loads, text) == said(json.loads, text)


@given(st.binary(max_size=12))
def test_any_bytes_are_read_or_refused_as_by_the_package(raw: bytes) -> None:
    for line in (raw, b'{"a":"' + raw + b'"}', json.dumps("text").encode("utf-16-le")):
        assert said(fastjson.loads, line) == said(json.loads, line)


@pytest.mark.parametrize(
    "text",
    ["NaN", "[Infinity]", "1" * 5000, "[" * 100_000, "", " ", "{} {}", '{"a":1,}', "\ufeff{}"],
)
def test_edges_are_as_in_the_package(text: str) -> None:
    assert said(fastjson.loads, text) == said(json.loads, text)


def test_what_is_no_json_is_refused_when_written() -> None:
    for value in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="JSON compliant"):
            fastjson.dumps([value])
    with pytest.raises(TypeError):
        fastjson.dumps({"a": b"bytes"})


def test_neither_the_package_nor_re_is_loaded() -> None:
    code = (
        "import sys; from gitmem.core import fastjson, record; fastjson.loads('{}');"
        " fastjson.dumps([]); print({'json', 're', 'enum'} & set(sys.modules))"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "set()"
    )


@pytest.mark.parametrize("text", ["{", '{"a"', "[1,]", '"\\x"', "tru", "", "{}}"])
def test_broken_text_is_refused_also_where_nobody_has_loaded_the_package(text: str) -> None:
    code = (
        f"from gitmem.core import fastjson\ntry:\n    fastjson.loads({text!r})\nexcept"
        " ValueError:\n    print('refused')"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "refused"
    )


def test_what_is_broken_is_refused_also_where_nobody_has_loaded_the_package() -> None:
    code = """
import sys
from gitmem.core import fastjson
for text in ('{"a":', '{"a":1', '"x', '[1,]', '{"a" 1}', '"\\\\u12"', '[' * 100000, 'nul', b'\\xff'):
    assert 'json' not in sys.modules or text
    try:
        fastjson.loads(text)
        print("read", text)
    except (ValueError, RecursionError):
        pass
    for name in [m for m in sys.modules if m.startswith('json')]:
        del sys.modules[name]
"""  # noqa: E501
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == ""
    )
