"""Calibration: confidences fitted to what was accepted and rejected, only where that is better on
what was not seen.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
from typing import Any

import pytest
from conftest import Lab, Repository

from gitmem.capture import (
    calibrate,
    classify,
    linear,
    pipeline,
    suggestions,
)
from gitmem.capture.calibrate import Label
from gitmem.capture.candidates import Candidate
from gitmem.capture.linear import PACKAGED, Calibration
from gitmem.core import record
from gitmem.core.errors import MemError
from gitmem.store import open_store


def labels(
    n: int, truth: Calibration, seed: int = 1, low: float = 0.6, high: float = 0.95
) -> list[Label]:
    """Verdicts of somebody for whom packaged confidences are wrong by `truth`."""
    chance = random.Random(seed)
    scores = [chance.uniform(low, high) for _ in range(n)]
    return [Label(p, chance.random() < truth.apply(p), f"s{i % 17}") for i, p in enumerate(scores)]


STRICT = Calibration(1.0, -2.0)  # of somebody who rejects more than the packaged model expects


def seen_by_a_model(n: int, weight: float, seed: int = 1) -> list[Label]:
    """Verdicts that follow a language model's P(skip) with this weight, the score by chance."""
    chance = random.Random(seed)
    out = []
    for i in range(n):
        p_skip = chance.uniform(0.05, 0.95)
        kept = chance.random() < linear.sigmoid(weight * linear.logit(1 - p_skip))
        out.append(Label(chance.uniform(0.5, 0.6), kept, f"s{i % 17}", p_skip))
    return out


# --- numbers ----------------------------------------------------------------


@pytest.mark.parametrize("slope, offset", [(1.0, -2.0), (0.5, -1.0), (2.0, -2.5)])
def test_a_user_who_rejects_more_than_promised_gets_confidences_that_say_so(
    slope: float, offset: float
) -> None:
    truth = Calibration(slope, offset)
    found = calibrate.judge(labels(300, truth), PACKAGED)
    assert found.better
    assert calibrate.loss(found.after) < calibrate.loss(found.before)
    assert calibrate.calibration_error(found.after) < calibrate.calibration_error(found.before)
    for p in (0.75, 0.85, 0.92):
        assert abs(found.new.apply(p) - truth.apply(p)) < 0.12


def test_verdicts_that_agree_with_the_confidences_change_nothing() -> None:
    better = [calibrate.judge(labels(60, PACKAGED, seed), PACKAGED).better for seed in range(10)]
    assert sum(better) <= 2


def test_verdicts_by_chance_make_nothing_worse_on_others() -> None:
    truth = Calibration(1.0, -0.3)
    for seed in range(8):
        found = calibrate.judge(labels(25, truth, seed), PACKAGED)
        fresh = labels(4000, truth, seed + 1000)
        used = found.new if found.better else PACKAGED
        assert (
            calibrate.loss([(used.apply(x.score), x.kept) for x in fresh])
            < calibrate.loss([(x.score, x.kept) for x in fresh]) + 0.05
        )


def test_too_few_verdicts_change_nothing_however_clear_they_are() -> None:
    few = labels(calibrate.FEWEST - 1, STRICT)
    found = calibrate.judge(few, PACKAGED)
    assert not found.better
    assert "20 are needed" in found.reason


@pytest.mark.parametrize("kept", [True, False])
def test_verdicts_of_one_kind_alone_can_be_fitted(kept: bool) -> None:
    fit = calibrate.fit([Label(0.8, kept, str(i)) for i in range(50)])
    assert (fit.apply(0.8) > 0.8) == kept
    assert 0 < fit.apply(0.8) < 1


def test_what_is_in_force_stays_where_the_new_numbers_are_no_better() -> None:
    truth = Calibration(0.8, -1.0)
    assert not calibrate.judge(labels(200, truth), truth).better


@pytest.mark.parametrize("seed", range(3))
def test_nothing_that_was_a_suggestion_becomes_automatic_by_verdicts(seed: int) -> None:
    lenient = Calibration(1.0 + seed / 5, 3.0)
    model = linear.load().adjusted(lenient)
    for text in ("I want the sessions sorted by date, newest first.", "The cache holds notes."):
        packaged = classify.judge("user", text, suggest=0.0)
        said = classify.judge("user", text, suggest=0.0, model=model)
        assert packaged.tier == classify.SUGGEST == said.tier
        assert packaged.confidence < said.confidence < 0.95
        assert said.score == packaged.score


@pytest.mark.parametrize("seed", range(3))
def test_a_fit_never_falls_as_the_packaged_confidence_rises(seed: int) -> None:
    chance = random.Random(seed)
    fit = calibrate.fit([Label(chance.random(), i % 2 == 0, "s") for i in range(60)])
    values = [fit.apply(p / 100) for p in range(101)]
    assert values == sorted(values)
    assert values[0] > 0 and values[-1] < 1


# --- the language model -----------------------------------------------------


def test_a_language_model_that_a_user_agrees_with_gets_weight() -> None:
    found = calibrate.judge(seen_by_a_model(200, 1.5), PACKAGED)
    assert found.better
    assert found.new.llm > 0.5
    low, high = found.new.apply(0.55, 0.9), found.new.apply(0.55, 0.1)
    assert low < 0.3 and high > 0.7
    assert low < found.new.apply(0.55) < high  # a turn that it was not asked about


def test_a_language_model_that_a_user_contradicts_gets_no_weight() -> None:
    assert calibrate.fit(seen_by_a_model(200, -1.5)).llm == 0


def test_a_few_answers_of_a_language_model_leave_its_weight_as_packaged() -> None:
    found = [
        label if i < calibrate.FEWEST - 1 else label._replace(p_skip=None)
        for i, label in enumerate(seen_by_a_model(200, 1.5))
    ]
    assert calibrate.fit(found).llm == PACKAGED.llm


def test_the_answer_of_a_language_model_with_weight_decides_about_an_unsure_turn() -> None:
    text = "I want the sessions sorted by date, newest first, and the search field above the table."
    before = classify.judge("user", text)
    assert before.confidence > classify.UNSURE_FROM

    def said(p_skip: float, suggest: float) -> classify.Judgement:
        return classify.judge(
            "user",
            text,
            suggest=suggest,
            model=linear.load().adjusted(Calibration(llm=1.0)),
            ask=lambda role, text: classify.Opinion(1 - p_skip),
        )

    sure = before.confidence
    assert said(0.05, sure + 0.01).keep and not said(0.95, sure).keep
    assert said(0.05, sure).stage == "llm" and said(0.05, sure).p_skip == pytest.approx(0.05)


# --- the plot ---------------------------------------------------------------


def test_the_error_is_the_mean_distance_of_the_bins() -> None:
    pairs = [(0.9, True)] * 8 + [(0.9, False)] * 2 + [(0.2, False)] * 10
    assert calibrate.calibration_error(pairs) == pytest.approx(0.5 * 0.1 + 0.5 * 0.2)
    assert calibrate.calibration_error([]) == 0
    found = calibrate.bins([(1.0, True), (0.999, True), (0.0, False)])
    assert [n for _, n, _, _ in found] == [1, 2]


def test_the_text_plot_marks_where_a_bar_should_end() -> None:
    lines = calibrate.diagram([(0.75, True), (0.75, False)])
    assert lines[1].startswith("0.70-0.80    2   0.50 ")
    bar = lines[1][22:]
    assert (bar.count("#"), bar.index("|")) == (20, 30)


# --- the command ------------------------------------------------------------


class Place(Repository):
    def decide(self, found: list[Label], start: int = 0) -> list[str]:
        """Suggestions with these packaged confidences, and the verdicts on them."""
        store = self.store()
        try:
            drafts = [
                {
                    "body": f"Sentence number {start + i} of many",
                    "confidence": x.score,
                    "stage": "linear",
                    "session": x.session,
                    "score": x.score,
                    **({} if x.p_skip is None else {"p_skip": x.p_skip}),
                }
                for i, x in enumerate(found)
            ]
            done = suggestions.propose(store, drafts)
            assert {r.status for r in done} == {"stored"}
            known = store.with_cache(suggestions.stored)[0]
            suggestions.decide(
                store,
                [
                    (
                        known[r.id],
                        suggestions.ACCEPTED if x.kept else suggestions.REJECTED,
                        r.id if x.kept else "",
                    )
                    for r, x in zip(done, found, strict=True)
                ],
            )
            return [r.id for r in done]
        finally:
            store.close()

    def calibrate(self, *argv: str, rc: int = 0) -> Any:
        return self.lab.json(self.repo, "calibrate", *argv, rc=(rc,))

    def now(self) -> Calibration:
        store = self.store()
        try:
            return calibrate.load(store)
        finally:
            store.close()


@pytest.fixture
def place(lab: Lab) -> Place:
    return Place(lab)


def test_calibrating_writes_one_private_record_without_text_and_outlives_the_cache(
    place: Place,
) -> None:
    place.decide(labels(80, Calibration(1.0, -2.5)))
    found = place.calibrate()
    assert (found["status"], found["verdicts"], found["better"]) == ("changed", 80, True)
    assert found["after"]["ece"] < found["before"]["ece"]
    records = [
        r
        for line in place.lab.lines(place.repo, "mem/private")
        if (r := json.loads(line))["op"] == "calibration"
    ]
    (line,) = records
    assert set(line) == {
        "v",
        "op",
        "id",
        "n",
        "at",
        "author",
        "slope",
        "offset",
        "llm",
        "llm_zero",
        "verdicts",
        "base",
    }
    shutil.rmtree(place.mem)
    fit = place.now()
    assert fit.offset < -1 or fit.slope < 0.7
    assert fit.apply(0.8) < 0.6


def test_a_suggestion_and_its_verdict_hold_the_numbers_that_calibration_needs(place: Place) -> None:
    store = open_store(place.lab.env, str(place.repo))
    calibrate.keep(store, Calibration(1.0, 0.2, 0.5), 30)
    model = calibrate.model(store)
    text = "I want the sessions sorted by date, newest first, and the search field above the table."
    (outcome,) = pipeline.keep(
        store,
        [Candidate("user", text, session="s1", source="session:s1#user-1")],
        ask=lambda role, text: classify.Opinion(0.9),
        model=model,
    )
    assert outcome.status == pipeline.SUGGESTED
    (waits,) = suggestions.waiting(store)
    packaged = classify.judge("user", text, model=model.adjusted(PACKAGED)).confidence
    numbers = [waits.number(name) for name in ("score", "p_skip", "confidence")]
    assert numbers == pytest.approx([packaged, 0.1, model.calibrated(packaged, 0.1)], abs=1e-4)
    suggestions.decide(store, [(waits, "rejected", "")])
    assert store.with_cache(calibrate.labels)[0] == [
        Label(pytest.approx(packaged, abs=1e-4), False, "s1", pytest.approx(0.1))
    ]
    store.close()


def test_a_second_calibration_takes_the_place_of_the_first_and_reset_goes_back(
    place: Place,
) -> None:
    place.decide(labels(60, Calibration(1.0, -2.5)))
    first = place.calibrate()["new"]
    assert place.calibrate(rc=1)["status"] == "unchanged"
    place.decide(labels(200, Calibration(1.0, 0.5), seed=7), start=100)
    second = place.calibrate()
    assert second["old"] == pytest.approx(first, abs=1e-5)
    assert place.now().apply(0.85) > Calibration(**first).apply(0.85)
    assert place.calibrate("--reset", "--dry-run")["status"] == "unchanged"
    assert place.now() != PACKAGED
    assert place.calibrate("--reset")["status"] == "reset"
    assert place.now() == PACKAGED
    assert place.calibrate("--reset", rc=1)["status"] == "unchanged"


def test_a_dry_run_and_too_few_verdicts_write_nothing(place: Place) -> None:
    place.decide(labels(10, Calibration(1.0, -2.5)))
    assert place.calibrate(rc=1)["status"] == "unchanged"
    assert "20 are needed" in place.lab.mem(place.repo, "calibrate", rc=(1,))
    place.decide(labels(60, Calibration(1.0, -2.5), seed=3), start=100)
    assert place.calibrate("--dry-run")["better"]
    assert not [
        line for line in place.lab.lines(place.repo, "mem/private") if '"calibration"' in line
    ]


def test_the_report_is_a_few_lines_of_text(place: Place) -> None:
    place.decide(labels(60, Calibration(1.0, -2.5)))
    said = place.lab.mem(place.repo, "calibrate")
    assert "ECE" in said and "####" in said
    assert "new numbers" in said


def test_without_scikit_learn_calibrating_says_how_to_install_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(MemError, match="scikit-learn is not installed") as error:
        calibrate.judge(labels(60, STRICT), PACKAGED)
    assert "-m pip install scikit-learn`" in error.value.hint
    assert place.now() == PACKAGED  # reading numbers needs none


def test_numbers_for_another_packaged_model_do_not_count(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.decide(labels(60, Calibration(1.0, -2.5)))
    place.calibrate()
    assert place.now() != PACKAGED
    monkeypatch.setattr(linear, "fingerprint", lambda: "another")
    assert place.now() == PACKAGED


def test_verdicts_on_what_was_purged_since_still_count(place: Place) -> None:
    ids = place.decide([Label(0.8, False, "s")] * 3)
    place.lab.mem(place.repo, "purge", ids[0], "--force")
    assert place.calibrate(rc=1)["verdicts"] == 2  # a purge takes all that names it
    (other,) = [
        line
        for line in place.lab.lines(place.repo, "mem/private")
        if '"suggest"' in line and ids[1] in line
    ]
    place.lab.mem(place.repo, "purge", record.version_of(other.encode()), "--force")
    assert place.calibrate(rc=1)["verdicts"] == 2


def test_odd_records_of_calibration_are_ignored(place: Place) -> None:
    odd: list[Any] = [
        {"slope": 0, "offset": 1, "verdicts": "many"},
        {"slope": "x", "offset": 1},
        {"slope": 1e9, "offset": 0},
        {"slope": [], "after": 3},
        {},
        {"slope": True, "offset": 2},
    ]
    lines = [
        record.dump(
            {"v": 1, "op": "calibration", "id": f"{i}" * 32, "base": linear.fingerprint(), **o}
        ).decode()
        for i, o in enumerate(odd)
    ]
    place.lab.git(place.repo, "notes", "--ref=mem/private", "add", "-f", "-m", "\n".join(lines))
    assert place.now() == PACKAGED


def test_the_worker_judges_with_what_is_in_force(place: Place) -> None:
    text = "From what I saw the importer keeps comments only where the parser is told to, so be it."
    store = open_store(place.lab.env, str(place.repo))
    before = calibrate.model(store)
    packaged = classify.judge("assistant", text, model=before)
    calibrate.keep(store, Calibration(1.0, -2.0), 30)
    said = classify.judge("assistant", text, model=calibrate.model(store))
    store.close()
    lower = Calibration(1.0, -2.0).apply(packaged.confidence)
    assert said.confidence == pytest.approx(lower, abs=0.01)
    assert said.score == packaged.score
    assert classify.judge("assistant", text, model=before) == packaged


def test_a_record_of_an_earlier_version_counts_without_its_weights_of_words(place: Place) -> None:
    line = {"v": 1, "op": "calibration", "id": "1" * 32, "base": linear.fingerprint()}
    line |= {"slope": 0.8, "offset": -1, "verdicts": 70, "weights": {"5": -1.0}}
    text = record.dump(line).decode()
    place.lab.git(place.repo, "notes", "--ref=mem/private", "add", "-f", "-m", text)
    assert place.now() == Calibration(0.8, -1.0)
