"""Of real texts hardly any is refused, and each is once a secret stands in it."""

import json
import os
import random
from pathlib import Path

import pytest
from test_redact import SHAPES, build

from gitmem.core import redact

EVAL = Path(
    os.environ.get("GIT_MEM_EVAL_ROOT") or Path(__file__).parent.parent.parent / "shared" / "eval"
)


SETS = [
    "commits/corpus",
    "topics/corpus",
    "decisions/corpus",
    "cosqa/corpus",
    "locomo/corpus",
    "capture_commits/items",
    "capture_turns/labelled",
    "capture_typed/items",
]


def texts(name: str) -> list[str]:
    path = EVAL / "dev" / f"{name}.jsonl"
    if not path.exists():
        pytest.skip(f"evaluation data not found at {path}; set GIT_MEM_EVAL_ROOT")
    rows = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return [f"{row.get('title') or row.get('subject') or ''}\n{row['text']}" for row in rows]


@pytest.mark.parametrize("name", SETS)
def test_at_most_one_in_a_thousand_real_texts_is_refused(name: str) -> None:
    corpus = texts(name)
    refused = [(f[0], text) for text in corpus if (f := redact.find(text))]
    assert len(refused) <= 0.001 * len(corpus), [
        (f.rule, text[f.start : f.end]) for f, text in refused
    ]


def test_at_most_one_in_a_thousand_pieces_of_the_standard_library_is_refused() -> None:
    pieces = [
        piece
        for path in sorted(Path(os.__file__).parent.glob("*.py"))
        for piece in path.read_text(encoding="utf-8").split("\n\n\n")
    ]
    refused = [text[f[0].start : f[0].end] for text in pieces if (f := redact.find(text))]
    assert len(pieces) > 1000 and len(refused) <= 0.001 * len(pieces), refused


def test_real_texts_with_a_secret_put_in_are_all_refused() -> None:
    corpus, rng = texts("commits/corpus"), random.Random(1)
    for n in range(500):
        words = rng.choice(corpus).split(" ")
        words.insert(rng.randrange(len(words) + 1), f"\n{build(rng.choice(SHAPES)[1], n)}\n")
        assert redact.find(" ".join(words)), words
