"""Capture with the packaged encoder: one judgement in dry run and worker, the table's without a
usable encoder.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import Lab

from gitmem.capture import classify, features, linear, sources
from gitmem.doctor import setup_checks
from gitmem.embedding import encoder, encoder_file, reader
from gitmem.embedding.encoder_file import EncoderFile
from gitmem.engine.embed import StaticTable
from gitmem.hooks import spool

TURN = (
    "The retries of uploads ought to wait longer each time, otherwise the object store shuts us out"
)


@pytest.fixture
def repo(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    del lab.env["GIT_MEM_ENCODER"]
    monkeypatch.delenv("GIT_MEM_ENCODER", raising=False)
    path = lab.repo()
    lab.mem(path, "init", "--offline")
    for name, value in (("capture", "all"), ("captureAuto", "0.001"), ("captureSuggest", "0.001")):
        lab.git(path, "config", f"mem.{name}", value)
    return path


class Spy:
    """An encoder that counts what it reads."""

    def __init__(self) -> None:
        self.read: list[str] = []
        self._encoder = reader.encoder()
        self.space = EncoderFile().space
        self.layer = ""

    def add_turn_layer(self) -> str:
        assert self._encoder is not None
        return self.layer or self._encoder.add_turn_layer()

    def turn_vector(self, text: str) -> object:
        assert self._encoder is not None
        self.read.append(text)
        return self._encoder.turn_vector(text)


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Spy:
    found = Spy()
    monkeypatch.setattr(reader, "_opened", [found])
    return found


def dry(lab: Lab, repo: pathlib.Path) -> float:
    turn = json.dumps({"id": "a", "role": "user", "text": TURN})
    said = lab.mem(repo, "capture", "--dry-run", "--jsonl", "-", "--json", stdin=turn)
    return float(json.loads(said)["confidence"])


def own(encoder: bool) -> float:
    model = linear.load(encoder)
    return model.confidence(model.score("user", TURN), "user")


def test_the_two_ways_differ() -> None:
    assert abs(own(True) - own(False)) > 0.01, "or the tests below could not fail"


def test_a_dry_run_and_the_worker_judge_a_turn_the_same(lab: Lab, repo: pathlib.Path) -> None:
    said = dry(lab, repo)
    assert said == pytest.approx(own(True), abs=1e-3)
    spool.append(str(repo / ".git" / "mem"), sources.heard("user", TURN, "s1", "claude", ""))
    lab.mem(repo, "capture", "--now")
    stored = [m["stated_confidence"] for m in lab.json(repo, "list", "--all")]
    assert stored == [pytest.approx(said, abs=1e-3)]


def test_with_the_setting_off_the_table_judges(lab: Lab, repo: pathlib.Path) -> None:
    lab.git(repo, "config", "mem.encoder", "false")
    assert dry(lab, repo) == pytest.approx(own(False), abs=1e-3)


def test_without_a_usable_encoder_the_table_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = own(False)
    monkeypatch.setattr(reader, "_opened", [None])
    assert own(True) == expected


def test_weights_for_another_encoder_are_not_used(spy: Spy) -> None:
    spy.space = "another"
    assert own(True) == own(False)


def test_weights_for_another_layer_are_not_used(spy: Spy) -> None:
    spy.layer = "another"
    assert own(True) == own(False)


def test_without_a_whole_layer_the_table_judges_and_doctor_says_so(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = own(False)
    whole = pathlib.Path(encoder_file.TURN_PATH).read_bytes()
    layer_file = encoder_file.layer_file
    path = tmp_path / "turn_layer.bin"
    monkeypatch.setattr(encoder, "layer_file", lambda _, *rest: layer_file(str(path), *rest))
    for content in (None, whole[:-64], b"", whole[:-1] + bytes([whole[-1] ^ 1])):
        if content is not None:
            path.write_bytes(content)
        monkeypatch.setattr(reader, "_opened", [])
        assert own(True) == expected
        assert [f.level for f in doctor_says()] == [setup_checks.OK] * 2 + [setup_checks.BAD]


def test_doctor_names_a_broken_model_of_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "load", lambda: json.loads("{"))
    table, model = doctor_says()
    assert (table.level, model.level) == (setup_checks.OK, setup_checks.BAD)
    assert "no turn can be captured" in model.text


def doctor_says() -> list[setup_checks.Finding]:
    settings = SimpleNamespace(flag=lambda name: name == "encoder")
    store: Any = SimpleNamespace(table=StaticTable(), settings=settings)
    return list(setup_checks.packaged(store))


def test_without_a_numpy_that_fits_the_table_judges() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "sys.modules['gitmem.embedding.numpy_core'] = None\n"
        "from gitmem.capture import linear\nm = linear.load(True)\n"
        "print(m.confidence(m.score('user', sys.argv[2]), 'user'))"
    )
    root = str(pathlib.Path(linear.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, root, TURN], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) == pytest.approx(own(False))


def test_a_turn_is_read_once_and_what_a_rule_ends_not_at_all(spy: Spy) -> None:
    data = json.loads(pathlib.Path(linear.PATH).read_text(encoding="utf-8"))
    model = linear.Model(data, encoder=True)
    for text in ("yes", "ls -la", "Remember this: the staging database is wiped every Sunday."):
        classify.judge("user", text, model=model)
    assert spy.read == []
    classify.judge("user", TURN, model=model)
    assert spy.read == [TURN]


@pytest.mark.parametrize("role", ["commit", "tool"])
def test_commits_and_tools_stay_with_the_table(spy: Spy, role: str) -> None:
    model, plain = linear.load(True), linear.load()
    score = model.score(role, TURN)
    assert score == plain.score(role, TURN)
    assert model.confidence(score, role) == plain.confidence(score, role)
    assert spy.read == []


def test_the_encoder_reads_a_bounded_part_of_a_turn(spy: Spy) -> None:
    linear.load(True).score("assistant", "what the cache holds is made of the notes alone. " * 500)
    assert [len(text) for text in spy.read] == [features.ENCODED]


@pytest.mark.parametrize("text", ["", "\0", "\ud800 x", "💥" * 3000, "日本語の文。" * 500])
def test_any_text_can_be_read(text: str) -> None:
    classify.judge("assistant", text, model=linear.load(True))


def test_the_type_of_a_turn_is_judged_with_the_vector_that_its_score_was_made_of(
    spy: Spy, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    types = linear.Model.types

    def watched(model: linear.Model, role: str, text: str) -> dict[str, float]:
        seen.append(len(spy.read))
        return types(model, role, text)

    monkeypatch.setattr(linear.Model, "types", watched)
    classify.judge("user", TURN, model=linear.load(True))
    assert seen == [1] and len(spy.read) == 1


def test_what_a_user_taught_moves_this_way_of_judging_too() -> None:
    packaged = linear.load(True)
    lower = packaged.adjusted(linear.Calibration(offset=-2.0))
    before, after = (classify.judge("user", TURN, model=m) for m in (packaged, lower))
    assert after.confidence < before.confidence


def test_weights_fit_the_features_and_the_encoder() -> None:
    data = json.loads(pathlib.Path(linear.PATH).read_text(encoding="utf-8"))
    model = linear.Model(data)
    for weights in model._by_encoder.keep.values():
        assert len(weights.hashed) == features.HASHED
    for weights in (*model._by_encoder.keep.values(), *model._by_encoder.types.values()):
        # mean and maximum over the tokens, before and after the layer
        dims = 4 * EncoderFile().dims
        assert (len(weights.numbers), len(weights.vector)) == (features.NUMBERS, dims)
    packaged = reader.encoder()
    assert packaged is not None and model.fits(packaged)


def test_the_type_asks_the_encoder_only_where_the_score_did(spy: Spy) -> None:
    data = json.loads(pathlib.Path(linear.PATH).read_text(encoding="utf-8"))
    model, plain = linear.Model(data, encoder=True), linear.Model(data)
    assert model.types("user", TURN) == plain.types("user", TURN)
    assert spy.read == []
    model.score("user", TURN)
    assert model.types("user", TURN) != plain.types("user", TURN)
    assert spy.read == [TURN]


@pytest.mark.parametrize("text", ["uploads", "загрузки", "上传要重试"])
def test_confidence_never_falls_as_the_score_rises(text: str) -> None:
    model = linear.load(True)
    for role in linear.TURNS:
        shares = [model.confidence(s / 10, role, text) for s in range(-200, 200)]
        assert shares == sorted(shares)


def test_a_high_score_says_less_about_a_turn_that_is_not_ascii() -> None:
    model = linear.load(True)
    for role in linear.TURNS:
        latin, other = (model.confidence(4.0, role, text) for text in ("a naïve cache", "загрузки"))
        assert other < latin == model.confidence(4.0, role, "plain")
