"""The process of an embedding model: broken answers, slow texts, a file that changes."""

from __future__ import annotations

import pathlib
import sys

import pytest
from test_model_vectors import MODEL

from gitmem.models import llamavec


@pytest.mark.parametrize(
    "answer",
    [
        '{"vectors": []}',
        '{"vectors": [[1, 2]]}',
        '{"vectors": [[1,2,3,4,5,6,7,"x"]]}',
        '{"vectors": [[1,2,3,4,5,6,7,NaN]]}',
        "{}",
    ],
)
def test_a_broken_answer_is_told(answer: str, tmp_path: pathlib.Path) -> None:
    code = (
        'import json, sys\nfor line in sys.stdin: print(\'{"dims": 8, "pooling": 1}\' if'
        f" '\"about\"' in line else {answer!r}, flush=True)"
    )
    with (
        llamavec.LlamaVectors(__file__, "m", "", argv=[sys.executable, "-c", code]) as model,
        pytest.raises(llamavec.NoVectors),
    ):
        model.embed(["one"])


def test_a_text_has_time_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large model takes seconds for each, a batch of 32 minutes."""
    monkeypatch.setattr(llamavec, "_SECONDS", 2.0)
    slow = MODEL.replace("    one =", "    time.sleep(0.5 * len(r['texts']))\n    one =")
    argv = [sys.executable, "-c", "import time\n" + slow.replace("POOLING", "1")]
    with llamavec.LlamaVectors(__file__, "slow", "", argv=argv) as model:
        assert model.dims == 8
        process = model.process
        assert len(model.embed(["one", "two", "three", "four", "five"])) == 5
        assert model.process is process, "it was not killed meanwhile"


def test_a_file_that_was_written_over_gives_no_vectors(tmp_path: pathlib.Path) -> None:
    """Where it is mapped, what a loaded model answers changes with it; its space would not."""
    (file := tmp_path / "model").write_bytes(b"one")
    argv = [sys.executable, "-c", MODEL.replace("POOLING", "1")]
    with llamavec.LlamaVectors(str(file), "model", "ab" * 32, argv=argv) as model:
        assert model.question("a cat")
        file.write_bytes(b"another")
        with pytest.raises(llamavec.NoVectors, match="has changed"):
            model.question("a cat")
