"""The chosen embedding model that a session keeps loaded: answers in time, or not at all."""

from __future__ import annotations

import os
import pathlib
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from conftest import alive, until

from gitmem.git import config
from gitmem.models import chosen, llamavec, warm_vectors

pytestmark = pytest.mark.process

# Its vectors say how long a text is; "slow" keeps it busy, "crash" ends it.
MODEL = """
import json, sys, time
for line in sys.stdin:
    r = json.loads(line)
    if r["op"] == "about": print(json.dumps({"dims": 2, "pooling": 1}), flush=True); continue
    (text,) = r["texts"]
    if "slow" in text: time.sleep(0.6)
    if "crash" in text: sys.exit(1)
    print(json.dumps({"vectors": [[1.0, len(text) / 127]]}), flush=True)
"""
SOON = 20.0


@contextmanager
def warm(monkeypatch: pytest.MonkeyPatch, model: str = MODEL) -> Iterator[warm_vectors.WarmVectors]:
    stub = llamavec.LlamaVectors(__file__, "stub", "ab" * 32, argv=[sys.executable, "-c", model])
    monkeypatch.setattr(llamavec, "of", lambda choice: stub)
    made = warm_vectors.WarmVectors(chosen.Choice("stub"), "stub")
    try:
        yield made
    finally:
        made._ask.close()
        os.wait()


def asked(model: warm_vectors.WarmVectors, text: str, seconds: float = SOON) -> int | None:
    """The length that the vector says, None where there was none."""
    found = model.question(text, time.monotonic() + seconds)
    return found and found[1][1]


def test_a_question_gets_its_vector_and_the_space(monkeypatch: pytest.MonkeyPatch) -> None:
    with warm(monkeypatch) as model:
        assert model.question("four", time.monotonic() + SOON) == (
            f"stub-{'ab' * 6}-v2-p1",
            bytes([127, 4]),
        )
        assert asked(model, "seven..") == 7


def test_an_answer_that_came_too_late_is_not_taken_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with warm(monkeypatch) as model:
        assert asked(model, "warm") == 4
        before = set(os.listdir("/proc/self/fd"))
        assert asked(model, "slow, so that nobody waits", 0.1) is None
        assert asked(model, "next") == 4
        assert set(os.listdir("/proc/self/fd")) <= before, "no pipe is left"


def test_questions_that_nobody_waits_for_any_more_keep_no_later_one_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with warm(monkeypatch) as model:
        assert asked(model, "warm") == 4
        for n in range(30):
            assert asked(model, f"slow {n}", 0) is None
        begun = time.monotonic()
        assert asked(model, "next") == 4 and time.monotonic() - begun < 9


@pytest.mark.parametrize("model", [MODEL, "raise SystemExit(1)"])
def test_a_model_that_crashes_twice_is_not_asked_again_and_costs_nobody_time(
    monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    with warm(monkeypatch, model) as made:
        assert asked(made, "crash") is None
        begun = time.monotonic()
        assert asked(made, "again") is None and time.monotonic() - begun < SOON / 2


def test_it_ends_with_the_last_that_could_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    note = MODEL.replace("import json", "import json, os") + "\n"
    note = note.replace('"pooling": 1', '"pooling": os.getpid()')
    with warm(monkeypatch, note) as model:
        found = model.question("who", time.monotonic() + SOON)
        assert found
        pid = int(found[0].rpartition("-p")[2].partition("-")[0])
        assert alive(pid)
    until(lambda: not alive(pid))


def test_it_ends_with_them_while_it_is_loaded_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    noted = tmp_path / "pid"
    hangs = f"import os, time; open({str(noted)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    begun = time.monotonic()
    with warm(monkeypatch, hangs):
        until(lambda: noted.exists() and noted.read_text() != "")
        assert alive(int(noted.read_text()))
    assert time.monotonic() - begun < SOON


def test_other_settings_are_not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    with warm(monkeypatch) as model:
        mine = config.build({"mem.embedmodel": "stub"}, {}, {}, strict=False)
        named = config.build({}, {}, {"GIT_MEM_EMBED_MODEL": "stub"}, strict=False)
        assert model.serves(mine) and model.serves(named)
        assert not model.serves(config.build({}, {}, {}, strict=False))
        another = {"GIT_MEM_EMBED_MODEL": "another"}
        assert not model.serves(config.build({"mem.embedmodel": "stub"}, {}, another, strict=False))


def test_a_model_whose_process_has_ended_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The encoder was not asked either, and each prompt asked for a worker that made nothing."""
    mine = config.build({"mem.embedmodel": "stub"}, {}, {}, strict=False)
    with warm(monkeypatch) as model:
        assert asked(model, "crash") is None
        until(lambda: not model.serves(mine))


def test_without_a_choice_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    none = config.build({}, {}, {}, strict=False)
    assert warm_vectors.start(none, {}) is None
    gone = config.build({}, {}, {"GIT_MEM_EMBED_MODEL": "/nowhere.gguf"}, strict=False)
    assert warm_vectors.start(gone, {}) is None
