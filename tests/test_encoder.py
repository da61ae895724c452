"""The packaged encoder gives the vectors of its model, the same for a text wherever it stands.

`data/encoder.json` has the model's vectors before rounding, made by torch
(`tools/build_encoder.py --reference`).
"""

from __future__ import annotations

import json
import math
import os
import pathlib
import random
import struct
import subprocess
import sys
from base64 import b64decode
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from write_models import write_encoder

from gitmem.embedding import EncoderDamaged, encoder_file
from gitmem.embedding.encoder import MAX_TOKENS, Encoder
from gitmem.embedding.encoder_file import ENCODER_PATH, HEADER, EncoderFile
from gitmem.engine.int8_vectors import cosine, quantise, sign_code

HERE = pathlib.Path(__file__).parent
REFERENCE: dict[str, str] = json.loads((HERE / "data" / "encoder.json").read_text("utf-8"))
ENCODER = Encoder()
QUESTION = "why do uploads fail?"
ASK = f"from gitmem.embedding.encoder import Encoder\nvector = Encoder().embed([{QUESTION!r}])[0]\n"
SLOW = {"inspect", "ast", "typing", "pickle", "json", "re", "numpy.lib", "numpy.linalg"}


def loaded(code: str) -> str:
    """What a fresh isolated interpreter prints that can import this package."""
    start = f"import sys; sys.path.insert(0, {str(HERE.parent)!r})\n"
    environment = {name: value for name, value in os.environ.items() if "THREADS" not in name}
    done = subprocess.run(
        [sys.executable, "-I", "-c", start + code],
        capture_output=True, text=True, check=True, env=environment,
    )  # fmt: skip
    return done.stdout


# --- the model ---------------------------------------------------------------


@pytest.mark.parametrize("text", REFERENCE, ids=lambda text: text[:20])
def test_a_vector_is_that_of_the_model_before_rounding(text: str) -> None:
    (vector,) = ENCODER.embed([text])
    assert cosine(vector, b64decode(REFERENCE[text])) > 0.998


def test_a_vector_has_384_signed_bytes_and_uses_all_bits() -> None:
    (vector,) = ENCODER.embed(["how do we retry uploads"])
    assert len(vector) == ENCODER.dims == 384
    assert max(abs(value) for value in memoryview(vector).cast("b")) == 127
    assert len(sign_code(vector)) == 48
    small = ENCODER.vector("how do we retry uploads")
    assert abs(float(small @ small) - 1) < 1e-5
    assert vector == quantise([round(float(x) * 2**40) for x in small])


def test_meaning_counts_more_than_words() -> None:
    texts = ["the cat sat on the mat", "a kitten rested on the rug", "the cat command on the Mac"]
    vectors = ENCODER.embed(texts)
    assert cosine(vectors[0], vectors[1]) > cosine(vectors[0], vectors[2])


def erf_gelu(x: float) -> float:
    return x * (1 + math.erf(x / math.sqrt(2))) / 2


def reference(parts: dict[str, list[list[float]]], tokens: list[int], heads: int) -> list[float]:
    """The model in plain Python: lists of lists, one number after the other."""

    def linear(x: list[list[float]], name: str) -> list[list[float]]:
        columns = list(zip(*parts[name], strict=True))
        scale, bias = parts[name + ".scale"][0], parts[name + ".bias"][0]
        return [
            [sum(map(float.__mul__, row, column)) * s + b
             for column, s, b in zip(columns, scale, bias, strict=True)] for row in x
        ]  # fmt: skip

    def norm(x: list[list[float]], name: str) -> list[list[float]]:
        out = []
        for row in x:
            mean = sum(row) / len(row)
            deviation = math.sqrt(sum((v - mean) ** 2 for v in row) / len(row) + 1e-12)
            both = parts[name + "norm.weight"][0], parts[name + "norm.bias"][0]
            terms = zip(row, *both, strict=True)
            out.append([(v - mean) / deviation * w + b for v, w, b in terms])
        return out

    def added(x: list[list[float]], y: list[list[float]]) -> list[list[float]]:
        return [[a + b for a, b in zip(*rows, strict=True)] for rows in zip(x, y, strict=True)]

    words, positions = parts["words"], parts["positions"]
    scaled = [[v * parts["words.scale"][0][token] for v in words[token]] for token in tokens]
    x = norm(added(scaled, positions[: len(tokens)]), "")
    dims = len(x[0])
    size = dims // heads
    for layer in range(2):
        rows = linear(x, f"{layer}.qkv")
        mixed = [[0.0] * dims for _ in rows]
        for head in range(heads):
            query, key, value = (
                [row[part + head * size : part + head * size + size] for row in rows]
                for part in (0, dims, 2 * dims)
            )
            for i, q in enumerate(query):
                powers = [math.exp(sum(map(float.__mul__, q, k))) for k in key]
                for j in range(size):
                    total = sum(p * v[j] for p, v in zip(powers, value, strict=True))
                    mixed[i][head * size + j] = total / sum(powers)
        x = norm(added(x, linear(mixed, f"{layer}.out")), f"{layer}.out.")
        inner = [[erf_gelu(v) for v in row] for row in linear(x, f"{layer}.up")]
        x = norm(added(x, linear(inner, f"{layer}.down")), f"{layer}.down.")
    sums = [sum(column) for column in zip(*x, strict=True)]
    length = math.sqrt(sum(v * v for v in sums))
    return [v / length for v in sums]


TINY = sorted(["[CLS]", "[SEP]", "[UNK]", "a", "b", "cache", "##s", "warm", "é"], key=str.encode)


def batched(flat: list[float], size: int) -> list[list[float]]:
    return [flat[at : at + size] for at in range(0, len(flat), size)]


def tiny(path: pathlib.Path, seed: int = 1) -> dict[str, list[list[float]]]:
    """Write an encoder of two layers, two heads and eight dimensions; its arrays as lists."""
    rng = random.Random(seed)
    parts, lists = {}, {}
    for name, kind, shape in encoder_file.arrays(len(TINY), 8, 2, 12, 6):
        size = math.prod(shape)
        if kind == "b":
            flat: list[float] = [rng.randint(-127, 127) for _ in range(size)]
        else:
            span = (0.001, 0.02) if name.endswith("scale") else (-1, 1)
            flat = [rng.uniform(*span) for _ in range(size)]
        lists[name] = [list(map(float, row)) for row in batched(flat, shape[-1])]
        parts[name] = struct.pack(f"<{size}{kind}", *flat)
    write_encoder(str(path), "tiny", TINY, 2, parts)
    return lists


def test_the_arithmetic_is_that_of_the_model_in_plain_python(tmp_path: pathlib.Path) -> None:
    for seed in range(5):
        lists = tiny(tmp_path / "tiny.bin", seed)
        encoder = Encoder(str(tmp_path / "tiny.bin"))
        tokens = [TINY.index(token) for token in ("[CLS]", "warm", "cache", "##s", "[SEP]")]
        expected = reference(lists, tokens, 2)
        found = [float(v) for v in encoder.vector("Warm caches")]
        assert max(abs(a - b) for a, b in zip(found, expected, strict=True)) < 1e-5


# --- one text, one vector ------------------------------------------------------


def test_a_text_has_the_same_bytes_alone_and_among_others() -> None:
    rng = random.Random(4)
    words = ["the", "cache", "rebuilt", "schema", "changes", "retry", "upload", "数据", "naïve"]
    texts = [" ".join(rng.choices(words, k=rng.randint(1, 60))) for _ in range(40)]
    together = ENCODER.embed(texts)
    order = rng.sample(range(40), 40)
    again = Encoder().embed([texts[i] for i in order])
    assert [together[i] for i in order] == again
    assert [ENCODER.embed([text])[0] for text in texts[:10]] == together[:10]


def test_packed_weights_make_the_same_bytes() -> None:
    rng = random.Random(5)
    words = [*QUESTION.split(), "数据", "parser", "retried", "UPLOAD_STEP", "v2.4.1"]
    texts = [" ".join(rng.choices(words, k=n)) for n in [*range(1, 40), 90, 180, 300]]
    packed = Encoder()
    packed.pack()
    for text in texts:
        assert packed.vector(text).tobytes() == ENCODER.vector(text).tobytes()
    parts = [part for parts in packed._parts.values() for part in parts]
    assert all(part.flags.c_contiguous and part.flags.owndata for part in parts)


def test_two_threads_make_the_same_bytes_as_one() -> None:
    texts = [f"memory number {n} about locks and retries" for n in range(24)]
    expected = ENCODER.embed(texts)
    fresh = Encoder()
    with ThreadPoolExecutor(2) as pool:
        halves = pool.map(fresh.embed, (texts[::2], texts[1::2]))
        assert [list(half) for half in halves] == [expected[::2], expected[1::2]]


def test_another_process_makes_the_same_bytes() -> None:
    assert loaded(ASK + "print(vector.hex())").strip() == ENCODER.embed([QUESTION])[0].hex()


@pytest.mark.parametrize(
    "text", ["cache " * 180_000, "x" * 1_000_000, "\0 \ud800 \udfff \U0001f680 a", "中" * 100_000]
)
def test_any_text_has_a_vector(text: str) -> None:
    (vector,) = ENCODER.embed([text])
    assert len(vector) == 384


def test_a_text_counts_up_to_its_256th_token() -> None:
    head = "cache " * (MAX_TOKENS - 2)
    assert ENCODER.embed([head])[0] == ENCODER.embed([head + "moon " * 50])[0]
    assert ENCODER.embed([head])[0] != ENCODER.embed(["moon " + head])[0]


@pytest.mark.parametrize("text", ["", " \n", "\0", "\U0001f680 \U0001f680", "x" * 101])
def test_a_text_without_a_known_token_matches_nothing(text: str) -> None:
    assert ENCODER.embed([text]) == [bytes(384)]


def test_no_texts_have_no_vectors() -> None:
    assert ENCODER.embed([]) == []


# --- the file ------------------------------------------------------------------


def test_the_packaged_file_matches_its_checksum_and_its_page() -> None:
    ENCODER.file.verify()
    page = pathlib.Path(ENCODER_PATH).with_name("encoder.md").read_text("utf-8")
    assert f"`{ENCODER.space}`" in page
    page = pathlib.Path(encoder_file.TURN_PATH).with_suffix(".md").read_text("utf-8")
    assert f"`{ENCODER.add_turn_layer()}`" in page


def test_what_is_packaged_leaves_the_wheel_below_40_mb() -> None:
    files = pathlib.Path(ENCODER_PATH).parent.rglob("*")
    assert sum(path.stat().st_size for path in files if path.is_file()) < 38e6


def test_a_space_is_named_by_the_content(tmp_path: pathlib.Path) -> None:
    tiny(tmp_path / "one.bin", 1)
    tiny(tmp_path / "same.bin", 1)
    tiny(tmp_path / "other.bin", 2)
    one, same, other = (EncoderFile(str(tmp_path / f"{n}.bin")) for n in ("one", "same", "other"))
    assert one.space == same.space != other.space
    assert one.space.startswith("tiny-")


def bad(path: pathlib.Path) -> str:
    with pytest.raises(EncoderDamaged) as caught:
        Encoder(str(path)).file.verify()
    assert caught.value.hint
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_a_missing_or_empty_file_is_a_clear_error(tmp_path: pathlib.Path) -> None:
    assert "cannot open" in bad(tmp_path / "none.bin")
    (tmp_path / "empty.bin").write_bytes(b"")
    assert "cannot open" in bad(tmp_path / "empty.bin")


def test_a_cut_file_is_a_clear_error(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "tiny.bin"
    tiny(path)
    whole = path.read_bytes()
    for size in (1, HEADER.size - 1, HEADER.size, 500, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        assert "bytes" in bad(path)
    path.write_bytes(whole + b"\0")
    assert "bytes" in bad(path)


def test_any_changed_byte_is_noticed(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "tiny.bin"
    tiny(path)
    whole = path.read_bytes()
    for at in [*range(HEADER.size), *range(HEADER.size, len(whole), 7)]:
        changed = bytearray(whole)
        changed[at] ^= 1 << at % 8
        path.write_bytes(changed)
        bad(path)


def test_a_vocabulary_without_special_tokens_is_a_clear_error(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "tiny.bin"
    tiny(path)
    path.write_bytes(path.read_bytes().replace(b"[SEP]", b"[sep]"))
    with pytest.raises(EncoderDamaged, match="vocabulary"):
        Encoder(str(path))


# --- what it costs ---------------------------------------------------------------


def test_a_question_loads_numpys_core_alone() -> None:
    modules = set(loaded(ASK + "print(*sys.modules)").split())
    assert "numpy._core._multiarray_umath" in modules
    assert modules & SLOW == set()
    assert not [name for name in modules if name.startswith("gitmem.core")]


def test_numpy_works_as_ever_after_its_core_was_loaded() -> None:
    code = ASK + (
        "import numpy; print(numpy.__version__)\n"
        "import numpy as np, numpy.linalg\n"
        "from numpy import ma\n"
        "print(np.linalg.norm(np.ones(4)), np.random.default_rng(1).integers(9))\n"
        "print(repr(np.float32(2)), np.dtypes.Float32DType, np.fft, np.testing)\n"
        "print(np.array([1, 2], 'datetime64[D]').dtype, np.ones(3).mean(), ma.masked)\n"
        "try: np.sum(np.ones(2), axis=5)\n"
        "except np.exceptions.AxisError: print('axis')\n"
        "from gitmem.engine import vectors\n"
        "print(vectors.quantise_rows(np.array([[1, -2]])).tolist())\n"
        "print(Encoder().embed(['why do uploads fail?'])[0] == vector)"
    )
    plain = "import numpy\n" + code
    assert loaded(code) == loaded(plain)
    assert loaded(code).endswith("axis\n[[64, -127]]\nTrue\n")


def test_a_numpy_whose_core_does_not_come_alone_is_loaded_whole(tmp_path: pathlib.Path) -> None:
    core = tmp_path / "numpy" / "_core"
    core.mkdir(parents=True)
    (tmp_path / "numpy" / "__init__.py").write_text(
        "from . import _core\nwhole, vecdot = _core.part, None\n"
    )
    (core / "__init__.py").write_text("part = 7\n")
    code = (
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "from gitmem.embedding.numpy_core import load\n"
        "print(load().whole)"
    )
    assert loaded(code) == "7\n"


def test_without_numpy_loading_it_is_an_import_error(tmp_path: pathlib.Path) -> None:
    code = (
        "from importlib.machinery import PathFinder\n"
        "find = PathFinder.find_spec\n"
        "PathFinder.find_spec = lambda *a: None if a[0].startswith('numpy') else find(*a)\n"
        "from gitmem.embedding.numpy_core import load\n"
        "try: load()\n"
        "except ImportError as error: print(error.name)"
    )
    assert loaded(code) == "numpy\n"


@pytest.mark.parametrize(
    "files",
    [
        {},  # a directory that was left behind
        {"__init__.py": "raise AttributeError('half installed')\n"},
        {
            "__init__.py": "",
            "_core/__init__.py": "",
            "_core/_multiarray_umath.py": "ndarray = dtype = None\n",  # numpy 1.26
        },
    ],
)
def test_a_numpy_that_does_not_fit_is_an_import_error(
    tmp_path: pathlib.Path, files: dict[str, str]
) -> None:
    (tmp_path / "numpy" / "_core").mkdir(parents=True)
    for name, text in files.items():
        (tmp_path / "numpy" / name).write_text(text)
    code = (
        f"sys.path[:] = [p for p in sys.path if 'packages' not in p] + [{str(tmp_path)!r}]\n"
        "from gitmem.embedding import reader\n"
        "print(reader.read('why'))"
    )
    assert loaded(code) == "[]\n"


# Only Linux's /proc gives the size and the peak of this program alone: getrusage counts what the
# process had before exec, which is pytest's own size. CI has it, so both tests run there.
needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="no /proc here")


def limited(room: int) -> str:
    """Code after which the process gets `room` MiB of addresses more."""
    return (
        "import re, resource\n"
        "from gitmem.embedding import reader\n"
        "taken = re.search(r'VmSize:\\s+(\\d+)', open('/proc/self/status').read())[1]\n"
        f"most = (int(taken) << 10) + ({room} << 20)\n"
        "resource.setrlimit(resource.RLIMIT_AS, (most, most))\n"
    )


@needs_proc
@pytest.mark.parametrize("room", range(180, 260, 20))
def test_an_encoder_without_memory_for_packed_weights_works_all_the_same(room: int) -> None:
    ask = "reader.pack()\nprint(len(reader.read('why are uploads retried')))"
    assert loaded(limited(room) + ask) == "1\n"


@needs_proc
@pytest.mark.parametrize("room", [60, 100])
def test_without_memory_for_a_product_the_encoder_is_not_used(room: int) -> None:
    """OpenBLAS ends the process with status 1: a hook ends with 0."""
    assert loaded(limited(room) + "print(reader.read('why'))") == "[]\n"


def test_loading_numpy_leaves_the_environment_as_it_was() -> None:
    before, after = "import os; before = dict(os.environ)\n", "print(before == dict(os.environ))"
    assert loaded(before + ASK + after) == "True\n"


@needs_proc
def test_a_question_takes_less_than_90_mib() -> None:
    lines = loaded(ASK + "print(open('/proc/self/status').read())").splitlines()
    peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    assert peak < 90 * 1024


def test_a_vectors_own_methods_load_numpy_where_they_need_it() -> None:
    ask = "from gitmem.embedding.encoder import Encoder\nimport numpy\n"
    said = loaded(ask + f"v = Encoder().vector({QUESTION!r})\nprint(v.sum() < 40, (v < 2).all())")
    assert said.split() == ["True", "True"]


# --- turns of chats ----------------------------------------------------------


def turn_vector(text: str) -> Any:
    ENCODER.add_turn_layer()
    return ENCODER.turn_vector(text)


def test_a_turns_vector_has_four_parts_of_length_one() -> None:
    parts = turn_vector("how do we retry uploads").reshape(4, -1)
    assert parts.shape[1] == ENCODER.dims
    assert all(abs(float(part @ part) - 1) < 1e-5 for part in parts)
    unknown = turn_vector("\U0001f680").reshape(2, -1)
    assert set(unknown[0].tolist()) == {0.0}
    assert (unknown[1] == turn_vector("").reshape(2, -1)[1]).all() and unknown[1].any()


def test_a_turns_vector_stays_the_same_whatever_else_was_read_and_packed() -> None:
    for first, second in (("add_turn_layer", "pack"), ("pack", "add_turn_layer")):
        other = Encoder()
        getattr(other, first)()
        other.vector("something else")
        getattr(other, second)()
        assert (other.turn_vector("retry uploads") == turn_vector("retry uploads")).all()


def test_early_layers_tell_the_kind_of_sentence_and_late_ones_its_subject() -> None:
    question, other, answer = "Which port?", "Which database?", "The server has port 8443."
    early = [turn_vector(text)[: 2 * ENCODER.dims] for text in (question, other, answer)]
    late = [ENCODER.vector(text) for text in (question, other, answer)]
    assert early[0] @ early[1] > early[0] @ early[2]
    assert late[0] @ late[1] < late[0] @ late[2]
