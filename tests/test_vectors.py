"""numpy and plain Python give the same bytes, the same rows and the same scores."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from write_models import tokens_of, write_table

from gitmem.engine import embed, hamming, int8_vectors
from gitmem.engine.embed import StaticTable
from gitmem.engine.vectors import embed_many

ROOT = Path(__file__).resolve().parent.parent
HOSTILE = [
    "",
    "\0" * 5000,
    "word " * 200_000,
    "\ud800 lone \udfff 🙂",
    "مرحبا بالعالم שלום עולם",
    "数据库连接池 データベース " * 400,
    "e\u0301" * 50_000,
    "aB" * 5000,
    "x1 " * 17 + "İstanbul ẞtraße ﬁn " * 300,
]
TABLE = StaticTable()
BULK = StaticTable()


def test_hostile_texts_embed_to_the_same_bytes() -> None:
    assert embed_many(BULK, HOSTILE) == TABLE.embed(HOSTILE)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.text(st.characters(exclude_categories=[]), max_size=80),
            st.lists(
                st.sampled_from(["the", "dataBase", "x_y", "Café", "数据", "🙂", "unfathomably"])
            ).map(" ".join),
        ),
        max_size=8,
    )
)
def test_any_texts_embed_to_the_same_bytes(texts: list[str]) -> None:
    assert embed_many(BULK, texts) == TABLE.embed(texts)


def test_more_texts_than_a_chunk_stay_in_order() -> None:
    numbers = random.Random(1)
    vocabulary = tokens_of(BULK._map, BULK.rows, BULK._ends, BULK._text)
    texts = [
        " ".join(numbers.choices(vocabulary, k=numbers.choice([0, 1, 9, 60]))) for _ in range(1200)
    ]
    texts[700] = " ".join(numbers.choices(vocabulary, k=900))  # more than count
    assert embed_many(BULK, iter(texts)) == TABLE.embed(texts)
    assert embed_many(BULK, []) == []


@pytest.fixture(scope="module", params=["numpy", "plain"])
def either(request: pytest.FixtureRequest) -> Iterator[None]:
    """With numpy's core, which this file has loaded, and as in a process without it."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "plain":
            patch.setattr(hamming, "_numpy", lambda: None)
        assert bool(hamming._numpy()) == (request.param == "numpy")
        yield


def _near_duplicates(count: int, dims: int, seed: int) -> list[bytes]:
    """Many ties: few different vectors, some zero, some one step apart."""
    numbers = random.Random(seed)
    base = [bytes(numbers.randbytes(dims)) for _ in range(max(1, count // 5))] + [bytes(dims)]
    out = []
    for _ in range(count):
        vector = bytearray(numbers.choice(base))
        if numbers.random() < 0.3:
            vector[numbers.randrange(dims)] ^= 1
        out.append(bytes(vector))
    return out


@pytest.mark.usefixtures("either")
@settings(max_examples=60, deadline=None)
@given(
    width=st.sampled_from([1, 7, 32, 48, 62, 63, 64]),
    count=st.integers(0, 120),
    k=st.integers(0, 130),
    seed=st.integers(0, 2**32),
    extreme=st.booleans(),
)
def test_nearest_equals_its_definition(
    width: int, count: int, k: int, seed: int, extreme: bool
) -> None:
    numbers = random.Random(seed)
    codes = numbers.randbytes(width * count)
    query = numbers.randbytes(width)
    if extreme and count:  # the exact complement: the one distance that a byte cannot hold
        codes = codes[:-width] + bytes(byte ^ 255 for byte in query)
    asked = int.from_bytes(query, "big")
    every = [
        ((int.from_bytes(codes[i * width : (i + 1) * width], "big") ^ asked).bit_count(), i)
        for i in range(count)
    ]
    assert hamming.nearest(codes, query, k)[:k] == sorted(every)[:k]
    odd = list(range(1, count, 2))
    assert hamming.nearest(codes, query, k, odd)[:k] == sorted(every[i] for i in odd)[:k]


@pytest.mark.usefixtures("either")
def test_scan_over_several_chunks_equals_its_definition() -> None:
    numbers = random.Random(3)
    count = 40_000
    codes, query = numbers.randbytes(32 * count), numbers.randbytes(32)
    distances = np.bitwise_count(
        np.frombuffer(codes, np.uint8).reshape(-1, 32) ^ np.frombuffer(query, np.uint8)
    )
    sums = distances.sum(axis=1, dtype=np.uint16)
    best = np.argsort(sums, kind="stable")[:200]
    assert hamming.nearest(codes, query, 200)[:200] == [(int(sums[i]), int(i)) for i in best]


@pytest.mark.usefixtures("either")
def test_rescore_equals_cosine_of_every_row() -> None:
    many = _near_duplicates(5000, 256, 5)
    query = many[17]
    expected = sorted((-int8_vectors.cosine(query, v), i) for i, v in enumerate(many) if any(v))
    assert hamming.rescore(many, query, range(5000)) == [(-c, i) for c, i in expected]
    some = {i: many[i] for i in (4, 9)}
    assert hamming.rescore(some, query, [4, 9]) == hamming.rescore(many, query, [4, 9])


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("dims", [384, 1024, 1063, 2560])
def test_rescore_is_exact_however_large_the_values(dims: int) -> None:
    numbers = random.Random(dims)
    largest = [bytes([128]) * dims, bytes([127]) * dims, bytes([129]) * (dims - 1) + bytes([128])]
    many = largest + [bytes(numbers.choices([126, 127, 128, 129], k=dims)) for _ in range(20)]
    for query in many:
        expected = sorted((-int8_vectors.cosine(query, v), i) for i, v in enumerate(many))
        assert hamming.rescore(many, query, range(23)) == [(-c, i) for c, i in expected]


@pytest.mark.usefixtures("either")
def test_wrong_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="beyond"):
        hamming.nearest(bytes(64), bytes(32), 1, [2])
    with pytest.raises(ValueError, match="dimensions"):
        hamming.rescore([bytes(255)], bytes([1]) * 256, [0])


# --- writing tables ------------------------------------------------------


def _small(path: Path, tokens: list[str], seed: int = 0) -> str:
    rows = np.random.default_rng(seed).integers(-127, 128, (len(tokens), 256)).astype(np.int8)
    return write_table(str(path), "test-1", tokens, rows)


def test_written_table_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "a.tbl"
    space = _small(path, ["data", "##base", "é", "数"])
    table = StaticTable(str(path))
    table.verify()
    assert table.space == space
    assert space.startswith("test-1-")
    assert sorted(table.counted("database DATA base 数")) == [0, 0, 1, 3]
    texts = ["database", "data", "x", "数 data data data"]
    assert embed_many(StaticTable(str(path)), texts) == table.embed(texts)


def test_same_content_is_the_same_file_and_other_content_another_space(tmp_path: Path) -> None:
    tokens = ["data", "##base"]
    first = _small(tmp_path / "a.tbl", tokens)
    assert _small(tmp_path / "b.tbl", tokens) == first
    assert (tmp_path / "a.tbl").read_bytes() == (tmp_path / "b.tbl").read_bytes()
    assert _small(tmp_path / "c.tbl", tokens, seed=1) != first
    assert _small(tmp_path / "d.tbl", ["data", "##bass"]) != first


def test_vectors_change_only_together_with_the_encoding_number(tmp_path: Path) -> None:
    """If this digest changes, raise `embed.ENCODING` and pin the new one."""
    tokens = ["data", "##base", "pool", "naive", "数", "7", "x", "##y", "##z"]
    rows = (np.arange(len(tokens) * 256).reshape(-1, 256) * 37 % 255 - 127).astype(np.int8)
    write_table(str(tmp_path / "a.tbl"), "t", tokens, rows)
    table = StaticTable(str(tmp_path / "a.tbl"))
    texts = [
        "database poolDATA",
        "Naïve_数7 q",
        "x " * 20 + "xyz pool " * 60 + "data",
        "xyzyzyzyz data",
    ]
    made = sha256(b"".join(table.embed(texts))).hexdigest()[:16]
    assert (embed.ENCODING, made) == (1, "e1d2a238f0e70176")


def test_tokens_twice_and_rows_out_of_range_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="different tokens"):
        _small(tmp_path / "a.tbl", ["x", "x"])
    with pytest.raises(ValueError, match="int8"):
        write_table(str(tmp_path / "a.tbl"), "t", ["x"], np.full((1, 8), -128, np.int8))


# --- process -------------------------------------------------------------


def test_import_leaves_the_environment_as_it_was() -> None:
    code = (
        f"import os, sys; sys.path.insert(0, {str(ROOT)!r}); before = dict(os.environ); import"
        " gitmem.engine.vectors; print(dict(os.environ) == before)"
    )
    clean = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    for extra in ({}, {"OMP_NUM_THREADS": "4"}):
        done = subprocess.run(
            [sys.executable, "-I", "-c", code],
            env=clean | extra,
            check=True,
            capture_output=True,
            text=True,
        )
        assert done.stdout == "True\n"


def test_vector_sums_never_leave_their_lanes() -> None:
    assert len(embed.HEADS) * embed.MAX_CHARS * 255 < 2**32  # embed: one lane
    assert (
        len(embed.HEADS) * embed.MAX_CHARS * 127 * 256 < 2**31
    )  # quantise_rows: before the division
