"""Real texts that are in this repository (tests/data/SOURCES.md), so that their test always
runs."""

from __future__ import annotations

import json
import pathlib
import random

from gitmem.core import redact

DATA = pathlib.Path(__file__).parent / "data"
TEXTS = [
    json.loads(line)["text"]
    for line in (DATA / "texts.jsonl").read_text(encoding="utf-8").splitlines()
]


def token(rng: random.Random) -> str:
    """A token as its vendor documents it, in two parts: no scanner takes this file for a leak."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
    kind, size = rng.choice(
        [("gh" + "p_", 36), ("AK" + "IA", 16), ("sk_" + "live_", 24), ("glp" + "at-", 20)]
    )
    return kind + "".join(
        rng.choices(letters[:26] + "234567" if kind == "AKIA" else letters, k=size)
    )


def test_no_real_text_of_the_sample_is_refused() -> None:
    assert len(TEXTS) == 300
    assert [
        (found.rule, text[found.start : found.end]) for text in TEXTS for found in redact.find(text)
    ] == []


def test_each_real_text_of_the_sample_is_refused_with_a_secret_put_in() -> None:
    rng = random.Random(1)
    for text in TEXTS:
        words = text.split(" ")
        words.insert(rng.randrange(len(words) + 1), f"\n{token(rng)}\n")
        assert redact.find(" ".join(words)), words


def test_every_text_of_the_sample_has_a_source_that_is_named() -> None:
    page = (DATA / "SOURCES.md").read_text(encoding="utf-8")
    rows = [
        json.loads(line) for line in (DATA / "texts.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    for row in rows:
        assert row["commit"] and f"| {row['repository']} | {row['licence']}" in page
