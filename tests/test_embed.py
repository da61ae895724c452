"""The static table and its plain-Python arithmetic: any text, no surprise, few imports."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from write_models import tokens_of

from gitmem.engine import embed, hamming, int8_vectors
from gitmem.engine.embed import StaticTable, TableDamaged

ROOT = Path(__file__).resolve().parent.parent
EVAL = Path(os.environ.get("GIT_MEM_EVAL_ROOT", ROOT.parent / "shared" / "eval"))

HOSTILE = [
    "",
    " \t\n" * 1000,
    "\0" * 5000,
    "a" * 100_000,
    "word " * 200_000,
    "\ud800 lone \udfff",
    "🙂🚀 👩‍👩‍👧",
    "مرحبا بالعالم שלום עולם",
    "数据库连接池 超时",
    "データベース",
    "e\u0301" * 50_000,
    "_" * 9000 + "x",
    "A" * 9000,
    "aB" * 5000,
    "İstanbul ẞtraße ﬁn",
    "\u202e abc \u2028 def",
    "ÿ" * 99 + " " + "q" * 100 + " " + "q" * 101,
]


@pytest.fixture(scope="module")
def table() -> StaticTable:
    return StaticTable()


def test_packaged_table_is_whole_and_small(table: StaticTable) -> None:
    table.verify()
    assert os.path.getsize(embed.TABLE_PATH) < 9_000_000
    assert table.dims == 256


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_gives_a_vector(table: StaticTable, text: str) -> None:
    vector = table.vector(text)
    assert len(vector) == table.dims
    assert len(int8_vectors.sign_code(vector)) == 32


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(exclude_categories=[]), max_size=300))
def test_any_text_gives_a_vector(text: str) -> None:
    table = _shared()
    assert len(table.vector(text)) == 256
    assert table.vector(text) == table.vector(text)


def _shared() -> StaticTable:
    if not hasattr(_shared, "table"):
        _shared.table = StaticTable()  # type: ignore[attr-defined]
    return _shared.table  # type: ignore[attr-defined, no-any-return]


def test_only_the_beginning_of_a_long_text_counts(table: StaticTable) -> None:
    words = ["database"] * embed.MAX_WORDS
    assert table.vector(" ".join([*words, "penguin"])) == table.vector(" ".join(words))


@pytest.mark.parametrize("text", ["", "...", "\0", "🙂", "q" * 101])
def test_text_without_words_is_zero_and_matches_nothing(table: StaticTable, text: str) -> None:
    zero = table.vector(text)
    assert zero == bytes(256)
    other = table.vector("database")
    assert int8_vectors.cosine(zero, other) == 0.0
    assert int8_vectors.cosine(zero, zero) == 0.0
    assert [row for _, row in hamming.rescore([zero, other], other, [0, 1])] == [1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("parse_config_file", ["parse", "config", "file"]),
        ("parseConfigFile", ["parse", "Config", "File"]),
        ("HTTPServerError", ["HTTP", "Server", "Error"]),
        ("SHA256sum utf8 S3Bucket", ["SHA256", "sum", "utf8", "S3", "Bucket"]),
        ("don't use x.y, ever!", ["don", "t", "use", "x", "y", "ever"]),
        ("Café NAÏVE", ["Cafe", "NAIVE"]),
        ("数据库db", ["数", "据", "库", "db"]),
        ("Привет, мир", ["Привет", "мир"]),
    ],
)
def test_words_of_identifiers_and_scripts(text: str, expected: list[str]) -> None:
    assert embed.words(text) == expected


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(max_codepoint=127), max_size=200))
def test_ascii_shortcut_agrees_with_the_pattern_for_every_script(text: str) -> None:
    assert (
        embed._any_words(text)
        == embed._ascii_words(text)
        == re.findall(r"[a-z0-9]+|[A-Z][a-z0-9]+|[A-Z]+(?![a-z])[0-9]*", text)
    )


def test_case_and_identifier_style_do_not_matter(table: StaticTable) -> None:
    assert table.vector("connection pool") == table.vector("connection_pool")
    assert table.vector("connection pool") == table.vector("connectionPool")


def test_every_token_is_found_at_its_row(table: StaticTable) -> None:
    tokens = tokens_of(table._map, table.rows, table._ends, table._text)
    assert [table._find(token.encode()) for token in tokens] == list(range(table.rows))
    assert [table._find(token) for token in (b"", b"no such token", b"\xff")] == [-1] * 3


def test_repeats_count_less_each_time() -> None:
    assert sorted(embed.damp([7] * 9 + [3])) == [3, 7, 7, 7, 7]


def test_first_words_count_most(table: StaticTable) -> None:
    filler = " ".join(["release"] * 60)
    asked = table.vector("database")
    first, last = table.vector("database " + filler), table.vector(filler + " database")
    assert (
        int8_vectors.cosine(asked, first)
        > int8_vectors.cosine(asked, last)
        > int8_vectors.cosine(asked, table.vector(filler))
    )


def test_three_equal_heads_would_change_nothing(table: StaticTable) -> None:
    sums = [5, -3, 0, 127, -128, 77]
    assert int8_vectors.quantise([3 * x for x in sums]) == int8_vectors.quantise(sums)
    assert len(table.counted("one two")) == 2
    assert len(table.counted("one " * 17)) == 3 * (17).bit_length()


def test_hash_is_skipped(table: StaticTable) -> None:
    assert table.vector("e3b0c44298fc1c149afbf4c8996fb92427ae41e4") == bytes(256)
    assert table.vector("fix e3b0c44298fc1c149afbf4c8996fb924") == table.vector("fix")


@given(st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=64))
def test_quantise_keeps_direction_and_uses_all_bits(sums: list[int]) -> None:
    values = memoryview(int8_vectors.quantise(sums)).cast("b").tolist()
    top = max(map(abs, sums))
    assert max(map(abs, values)) == (127 if top else 0)
    for value, x in zip(values, sums, strict=True):
        assert top == 0 or abs(value - 127 * x / top) <= 0.5 + 1e-9


@given(st.binary(min_size=256, max_size=256), st.binary(min_size=256, max_size=256))
def test_cosine_and_sign_code_follow_their_definition(a: bytes, b: bytes) -> None:
    x, y = memoryview(a).cast("b").tolist(), memoryview(b).cast("b").tolist()
    product = sum(i * i for i in x) * sum(i * i for i in y)
    expected = (
        sum(i * j for i, j in zip(x, y, strict=True)) / math.sqrt(product) if product else 0.0
    )
    assert int8_vectors.cosine(a, b) == expected
    bits = "".join(f"{byte:08b}" for byte in int8_vectors.sign_code(a))
    assert bits == "".join("1" if i > 0 else "0" for i in x)


def test_vectors_of_different_length_are_not_compared() -> None:
    with pytest.raises(ValueError, match="256 and 384"):
        int8_vectors.cosine(bytes(256), bytes(384))


# --- damage --------------------------------------------------------------


def _copy(tmp_path: Path, change: str) -> str:
    data = bytearray(Path(embed.TABLE_PATH).read_bytes())
    match change:
        case "empty":
            data = bytearray()
        case "short header":
            del data[50:]
        case "short":
            del data[-1:]
        case "longer":
            data += b"x"
        case "magic":
            data[0] ^= 1
        case "header":
            data[13] ^= 1
        case "row":
            data[-1000] ^= 1
        case "index":  # every slot points beyond the rows
            at, count = embed.HEADER.size, int.from_bytes(data[16:20], "little")
            data[at : at + 4 * count] = b"\xff" * (4 * count)
    path = tmp_path / "static.tbl"
    path.write_bytes(data)
    return str(path)


@pytest.mark.parametrize("change", ["empty", "short header", "short", "longer", "magic", "header"])
def test_damaged_table_is_refused_at_opening(tmp_path: Path, change: str) -> None:
    with pytest.raises(TableDamaged, match=r"static\.tbl"):
        StaticTable(_copy(tmp_path, change))


def test_missing_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TableDamaged, match="cannot open"):
        StaticTable(str(tmp_path / "none.tbl"))


def test_changed_row_is_found_by_verify(tmp_path: Path) -> None:
    damaged = StaticTable(_copy(tmp_path, "row"))
    with pytest.raises(TableDamaged, match="checksum"):
        damaged.verify()


def test_damaged_index_never_hangs(tmp_path: Path) -> None:
    damaged = StaticTable(_copy(tmp_path, "index"))
    with pytest.raises(TableDamaged, match="index"):
        for number in range(100_000):  # until a CRC shares the tag of the garbage
            damaged._find(str(number).encode())


# --- imports -------------------------------------------------------------

_HEAVY = {"numpy", "dataclasses", "typing", "inspect", "hashlib", "subprocess", "pathlib", "json"}


def _new_modules(statement: str) -> set[str]:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); before = set(sys.modules); {statement};"
        " print(*set(sys.modules) - before)"
    )
    command = [sys.executable, "-I", "-c", code]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


def test_hot_path_loads_nothing_heavy() -> None:
    loaded = _new_modules(
        "from gitmem.engine import embed, hamming, int8_vectors; t = embed.StaticTable();"
        " v = t.vector('wrong Café'); code = int8_vectors.sign_code(v);"
        " hamming.nearest(code, code, 1);"
        " hamming.rescore([v], v,"
        " [0])"
    )
    assert "gitmem.engine.hamming" in loaded
    assert not loaded & _HEAVY


def test_import_probe_can_fail() -> None:
    assert "dataclasses" in _new_modules("import dataclasses")


# --- meaning -------------------------------------------------------------

PAIRS = [
    ("The build server runs out of memory while linking", "compilation machine lacks RAM"),
    (
        "Cache rendered pages for ten minutes to spare the database",
        "storing html so that queries are fewer",
    ),
    ("Passwords are hashed with argon2, never md5", "how do we encrypt user credentials"),
    (
        "Retry uploads three times with exponential backoff",
        "what happens when sending a file fails",
    ),
    ("Dates are stored in UTC and shown in local time", "which timezone do we keep"),
    (
        "The mobile client drops messages when the network is slow",
        "phone app loses chat under poor connection",
    ),
    ("Release branches are cut every second Tuesday", "when do we ship a new version"),
    ("Use tabs in Makefiles, spaces elsewhere", "indentation style of our code"),
]


def test_paraphrases_with_other_words_are_found(table: StaticTable) -> None:
    memories = table.embed([memory for memory, _ in PAIRS])
    first = 0
    for i, question in enumerate(table.embed([question for _, question in PAIRS])):
        first += hamming.rescore(memories, question, range(len(PAIRS)))[0][1] == i
    assert first >= 6


def test_paraphrases_of_the_evaluation_set(table: StaticTable) -> None:
    path = EVAL / "paraphrases.jsonl"
    if not path.exists():
        pytest.skip(f"no evaluation data at {EVAL} (set GIT_MEM_EVAL_ROOT)")
    pairs = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    memories = table.embed([pair["memory"] for pair in pairs])
    ranks = []
    for i, question in enumerate(table.embed([pair["query"] for pair in pairs])):
        ranks.append(
            [row for _, row in hamming.rescore(memories, question, range(len(pairs)))].index(i)
        )
    assert sum(rank < 1 for rank in ranks) / len(ranks) >= 0.65
    assert sum(rank < 3 for rank in ranks) / len(ranks) >= 0.8
