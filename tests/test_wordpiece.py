"""Texts become the tokens that BERT's uncased tokenizer makes of them, whatever stands in them.

`data/wordpiece.json` has what Hugging Face's `tokenizers` 0.22 makes of each text.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from base64 import b64encode
from hashlib import sha512

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from write_models import tokens_of

from gitmem.embedding.encoder_file import EncoderFile
from gitmem.embedding.wordpiece import MAX_CHARS, WordPiece, words

DATA = pathlib.Path(__file__).parent / "data"
FIXTURES: dict[str, list[str]] = json.loads((DATA / "wordpiece.json").read_text("utf-8"))
FILE = EncoderFile()
NAMES = tokens_of(FILE.map, FILE.tokens, FILE._ends, FILE._text)
PIECES = WordPiece(FILE.find, FILE.longest)


def named(text: str, most: int = 10**6) -> list[str]:
    return [NAMES[number] for number in PIECES.tokens(text, most)]


@pytest.mark.parametrize("text", FIXTURES)
def test_a_text_has_the_tokens_of_the_reference(text: str) -> None:
    assert named(text) == ["[CLS]", *FIXTURES[text], "[SEP]"]


def test_each_token_is_found_at_its_number_and_no_other_is() -> None:
    assert [FILE.find(name) for name in NAMES] == list(range(len(NAMES)))
    assert [FILE.find(token) for token in ("", "no such token", "\udc80")] == [-1] * 3


def test_a_lone_surrogate_is_dropped() -> None:
    assert named("re\ud800try \udcff now") == named("retry now")


def test_names_of_special_tokens_are_ordinary_text() -> None:
    assert named("a [SEP] b")[1:-1] == ["a", "[", "sep", "]", "b"]


@pytest.mark.parametrize("most", [2, 3, 7, 256])
def test_a_long_text_is_cut_to_the_number_asked_for(most: int) -> None:
    text = "unaffable callers wait " * 200
    assert named(text, most) == [*named(text)[: most - 1], "[SEP]"]
    assert len(named(text, most)) == most


LARGE = {
    "one word": "x" * 1_000_000,
    "words without an end": " ".join([f"{n:06}" + "z" * 93 + "\u1e9f" for n in range(10_000)]),
    "base64": " ".join([b64encode(sha512(b"%d" % n).digest()).decode() for n in range(11_000)]),
    "emoji": "\U0001f680" * 1_000_000,
    "spaces": " " * 1_000_000 + "end",
    "NUL": "\0" * 1_000_000,
    "surrogates": "\ud800" * 1_000_000,
    "CJK": "中文" * 500_000,
    "combining": "e" + "\u0301" * 1_000_000,
}


@pytest.mark.parametrize("name", LARGE)
def test_a_megabyte_costs_no_more_than_its_head(name: str) -> None:
    asked = 0

    def find(token: str) -> int:
        nonlocal asked
        asked += 1
        return FILE.find(token)

    numbers = WordPiece(find, FILE.longest).tokens(LARGE[name], 256)
    assert 2 <= len(numbers) <= 256
    assert asked <= MAX_CHARS * FILE.longest


def test_space_before_a_text_does_not_count() -> None:
    assert named(LARGE["spaces"]) == ["[CLS]", "end", "[SEP]"]


@settings(max_examples=300)
@given(st.text(st.characters(), max_size=80))
def test_any_text_has_tokens(text: str) -> None:
    found = named(text, 64)
    assert (found[0], found[-1]) == ("[CLS]", "[SEP]")
    assert len(found) <= 64
    assert words(text) == words(" ".join(words(text)))


def test_ascii_needs_neither_numpy_nor_unicode_tables() -> None:
    code = (
        "import sys; before = set(sys.modules)\n"
        f"sys.path.insert(0, {str(DATA.parent.parent)!r})\n"
        "from gitmem.embedding import encoder_file, wordpiece\n"
        "file = encoder_file.EncoderFile()\n"
        "pieces = wordpiece.WordPiece(file.find, file.longest)\n"
        "assert len(pieces.tokens('why do this text fail?', 256)) == 8\n"
        "print(*set(sys.modules) - before)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) & {"numpy", "re", "unicodedata", "hashlib", "typing"} == set()
