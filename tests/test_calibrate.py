"""Calibration: confidences fitted to what was accepted and rejected, only where that is better on
what was not seen.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import xml.etree.ElementTree as ET
from typing import Any

import pytest
from conftest import Lab

from gitmem.capture import (
    calibrate,
    linear,
    reliability_diagram,
    retrain,
    suggestions,
    worker_tasks,
)
from gitmem.capture.calibrate import PACKAGED, PLAIN, Fit, Label, Learned
from gitmem.core import record
from gitmem.hooks import announce, spool
from gitmem.store import open_store


def labels(n: int, truth: Fit, seed: int = 1, low: float = 0.7, high: float = 0.95) -> list[Label]:
    """Verdicts of somebody for whom packaged confidences are wrong by `truth`."""
    chance = random.Random(seed)
    scores = [chance.uniform(low, high) for _ in range(n)]
    return [Label(p, chance.random() < truth.apply(p), f"s{i % 17}") for i, p in enumerate(scores)]


# --- numbers ----------------------------------------------------------------


@pytest.mark.parametrize("truth", [Fit(1.0, -2.0), Fit(0.5, -1.0), Fit(2.0, -2.5)])
def test_a_user_who_rejects_more_than_promised_gets_confidences_that_say_so(truth: Fit) -> None:
    found = calibrate.judge(labels(300, truth), PACKAGED)
    assert found.better
    assert calibrate.loss(found.after) < calibrate.loss(found.before)
    assert reliability_diagram.error(found.after) < reliability_diagram.error(found.before)
    for p in (0.75, 0.85, 0.92):
        assert abs(found.new.fit.apply(p) - truth.apply(p)) < 0.12


def test_verdicts_that_agree_with_the_confidences_change_nothing() -> None:
    better = [calibrate.judge(labels(60, PLAIN, seed), PACKAGED).better for seed in range(30)]
    assert sum(better) <= 3


def test_verdicts_by_chance_make_nothing_worse_on_others() -> None:
    truth = Fit(1.0, -0.3)
    for seed in range(20):
        found = calibrate.judge(labels(25, truth, seed), PACKAGED)
        fresh = labels(4000, truth, seed + 1000)
        used = found.new.fit if found.better else PLAIN
        assert (
            calibrate.loss([(used.apply(x.score), x.kept) for x in fresh])
            < calibrate.loss([(x.score, x.kept) for x in fresh]) + 0.05
        )


def test_too_few_verdicts_change_nothing_however_clear_they_are() -> None:
    found = calibrate.judge(
        [Label(0.9, False, str(i)) for i in range(calibrate.LEAST - 1)], PACKAGED
    )
    assert not found.better
    assert "20 are needed" in found.why


def test_what_is_in_force_stays_where_the_new_numbers_are_no_better() -> None:
    truth = Fit(0.8, -1.0)
    found = calibrate.judge(labels(200, truth), Learned(truth))
    assert not found.better


@pytest.mark.parametrize("kept", [True, False])
def test_one_kind_of_verdict_and_one_score_alone_can_be_fitted(kept: bool) -> None:
    fit = calibrate.fitted([Label(0.8, kept, str(i)) for i in range(50)])
    assert (fit.apply(0.8) > 0.8) == kept
    assert 0 < fit.apply(0.8) < 1


@pytest.mark.parametrize("seed", range(10))
def test_nothing_that_was_a_suggestion_becomes_automatic_by_verdicts(seed: int) -> None:
    fit = calibrate.fitted(labels(200, Fit(1.0 + seed / 5, 3.0), seed), 0.95)
    assert all(fit.apply(p / 1000) <= 0.9500001 for p in range(951))


@pytest.mark.parametrize("seed", range(10))
def test_a_fit_never_falls_and_can_be_undone(seed: int) -> None:
    chance = random.Random(seed)
    fit = calibrate.fitted([Label(chance.random(), chance.random() < 0.5, "s") for _ in range(60)])
    values = [fit.apply(p / 100) for p in range(101)]
    assert values == sorted(values)
    assert all(abs(fit.undo(fit.apply(p / 100)) - p / 100) < 1e-6 for p in range(1, 100))


def test_sessions_are_not_torn_between_what_is_fitted_and_what_is_judged() -> None:
    found = [Label(0.8, True, f"s{i % 7}") for i in range(70)]
    parts = calibrate._parts(found)
    assert sorted(i for part in parts for i in part) == list(range(70))
    homes = {(found[i].group, n) for n, part in enumerate(parts) for i in part}
    assert len(homes) == 7


def talk(n: int, seed: int = 5) -> list[Label]:
    """Verdicts of somebody who turns down whatever is about colours."""
    chance = random.Random(seed)
    out = []
    for i in range(n):
        colour = chance.random() < 0.5
        words = chance.sample(
            ["parser", "cache", "index", "worker", "socket", "header", "token", "branch"], 3
        )
        text = (
            f"The {words[0]} of the {words[1]}"
            f" {'is painted in a bright green colour' if colour else 'waits'} because the"
            f" {words[2]} needs it."
        )
        out.append(
            Label(
                0.8,
                chance.random() < (0.05 if colour else 0.95),
                f"s{i}",
                calibrate.grams("user", text),
            )
        )
    return out


def test_words_that_a_user_turns_down_are_learned_where_the_confidence_alone_cannot_tell() -> None:
    found = calibrate.judge(talk(100), PACKAGED)
    assert found.better
    assert found.new.weights
    about, other = (
        Label(0.8, True, "x", calibrate.grams("user", text))
        for text in ("A green colour is bright", "The socket waits for the branch")
    )
    assert found.new.apply(about) < 0.5 < found.new.apply(other)
    assert max(found.new.weights.values()) < 0


def test_words_get_no_weight_where_verdicts_do_not_depend_on_them() -> None:
    chance = random.Random(3)
    learned = [
        calibrate.judge(
            [x._replace(kept=chance.random() < 0.8) for x in talk(100, seed)], PACKAGED
        ).new.weights
        for seed in range(6)
    ]
    assert sum(bool(weights) for weights in learned) <= 1


def test_the_same_verdicts_in_another_order_give_the_same_weights() -> None:
    samples = [retrain.Sample(1.0, x.grams, x.kept) for x in talk(60)]
    a, b = retrain.trained(samples), retrain.trained(samples[::-1])
    assert a.keys() == b.keys()
    assert all(abs(a[g] - b[g]) <= 1e-3 for g in a)


# --- the plot ---------------------------------------------------------------


def test_the_error_is_the_mean_distance_of_the_bins() -> None:
    pairs = [(0.9, True)] * 8 + [(0.9, False)] * 2 + [(0.2, False)] * 10
    assert reliability_diagram.error(pairs) == pytest.approx(0.5 * 0.1 + 0.5 * 0.2)
    assert reliability_diagram.error([]) == 0
    assert [b.n for b in reliability_diagram.bins([(1.0, True), (0.999, True), (0.0, False)])] == [
        1,
        2,
    ]


def test_the_text_plot_marks_where_a_bar_should_end() -> None:
    lines = reliability_diagram.text([(0.75, True), (0.75, False)])
    assert lines[1].startswith("0.70-0.80    2   0.50 ")
    bar = lines[1][22:]
    assert (bar.count("#"), bar.index("|")) == (20, 30)


def test_the_svg_is_well_formed_and_names_both_curves() -> None:
    root = ET.fromstring(
        reliability_diagram.svg(
            [("before <1>", [(0.9, False)] * 3), ("after", [(0.3, False)] * 3)], "a & b"
        )
    )
    said = "".join(root.itertext())
    assert "before <1>: ECE 0.900, n = 3" in said
    assert "a & b" in said
    assert reliability_diagram.svg([("none", [])], "empty")


# --- the command ------------------------------------------------------------


class Place:
    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.repo = lab.repo()
        lab.mem(self.repo, "init")
        self.mem = self.repo / ".git" / "mem"

    def decide(self, found: list[Label], start: int = 0, packaged: bool = True) -> list[str]:
        """Suggestions with these confidences, which are the packaged model's, and the verdicts on
        them.
        """
        store = open_store(self.lab.env, str(self.repo))
        try:
            drafts = [
                {
                    "body": f"Sentence number {start + i} of many",
                    "confidence": x.score,
                    "stage": "linear",
                    "session": x.group,
                    **({"score": x.score} if packaged else {}),
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
                        "",
                    )
                    for r, x in zip(done, found, strict=True)
                ],
            )
            return [r.id for r in done]
        finally:
            store.close()

    def calibrate(self, *argv: str, rc: int = 0) -> Any:
        return self.lab.json(self.repo, "calibrate", *argv, rc=(rc,))

    def now(self) -> calibrate.Calibration:
        store = open_store(self.lab.env, str(self.repo))
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
    place.decide(labels(80, Fit(1.0, -2.5)))
    found = place.calibrate()
    assert (found["status"], found["verdicts"], found["better"]) == ("changed", 80, True)
    assert found["after"]["ece"] < found["before"]["ece"]
    assert (
        found["after"]["tiers"]["SUGGEST"]["count"] < found["before"]["tiers"]["SUGGEST"]["count"]
    )
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
        "verdicts",
        "base",
    }
    shutil.rmtree(place.mem)
    fit = place.now().fit
    assert fit.offset < -1 or fit.slope < 0.7
    assert fit.apply(0.8) < 0.6


def test_what_is_proposed_later_keeps_the_packaged_confidence_beside_the_one_in_force(
    place: Place,
) -> None:
    place.decide(labels(80, Fit(1.0, -2.5)))
    place.calibrate()
    place.decide([Label(place.now().fit.apply(0.9), True, "late")], start=500, packaged=False)
    last = next(
        json.loads(line)
        for line in place.lab.lines(place.repo, "mem/private")
        if '"late"' in line and '"suggest"' in line
    )
    assert last["score"] == pytest.approx(0.9, abs=0.001)
    assert last["confidence"] < 0.7


def test_a_second_calibration_takes_the_place_of_the_first_and_reset_goes_back(
    place: Place,
) -> None:
    place.decide(labels(60, Fit(1.0, -2.5)))
    first = place.calibrate()["new"]
    assert place.calibrate(rc=1)["status"] == "unchanged"
    place.decide(labels(200, Fit(1.0, 0.5), seed=7), start=100)
    second = place.calibrate()
    assert second["old"] == pytest.approx(first, abs=1e-5)
    assert place.now().fit.apply(0.85) > Fit(first["slope"], first["offset"]).apply(0.85)
    assert place.calibrate("--reset")["status"] == "reset"
    assert place.now().fit == PLAIN
    assert place.calibrate("--reset", rc=1)["status"] == "unchanged"


def test_a_dry_run_and_too_few_verdicts_write_nothing(place: Place) -> None:
    place.decide(labels(10, Fit(1.0, -2.5)))
    assert place.calibrate(rc=1)["status"] == "unchanged"
    assert "20 are needed" in place.lab.mem(place.repo, "calibrate", rc=(1,))
    place.decide(labels(60, Fit(1.0, -2.5), seed=3), start=100)
    assert place.calibrate("--dry-run")["better"]
    assert not [
        line for line in place.lab.lines(place.repo, "mem/private") if '"calibration"' in line
    ]


def test_the_report_is_text_and_a_picture_in_a_file(place: Place) -> None:
    place.decide(labels(60, Fit(1.0, -2.5)))
    said = place.lab.mem(place.repo, "calibrate", "--report", "plot.svg")
    assert "ECE" in said
    assert "new numbers" in said
    assert ET.parse(place.repo / "plot.svg").getroot().tag.endswith("svg")
    done = place.lab.run(place.repo, "git", "mem", "calibrate", "--report", "no/such/plot.svg")
    assert done.returncode == 1
    assert done.stderr.startswith("error: cannot write 'no/such/plot.svg'")


def test_numbers_for_another_packaged_model_do_not_count(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.decide(labels(60, Fit(1.0, -2.5)))
    place.calibrate()
    assert place.now().fit != PLAIN
    monkeypatch.setattr(calibrate, "_base", "another")
    assert place.now().fit == PLAIN


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
            {"v": 1, "op": "calibration", "id": f"{i}" * 32, "base": calibrate.base(), **o}
        ).decode()
        for i, o in enumerate(odd)
    ]
    place.lab.git(place.repo, "notes", "--ref=mem/private", "add", "-f", "-m", "\n".join(lines))
    assert place.now().fit == PLAIN


def test_the_worker_judges_with_what_is_in_force(place: Place) -> None:
    text = (
        "From what I saw the importer keeps comments only where the parser is told to, so we"
        " tell it."
    )
    before = linear.load()
    score = before.score("assistant", text)
    store = open_store(place.lab.env, str(place.repo))
    calibrate.keep(store, Learned(Fit(1.0, -2.0)), 30, [])
    after = worker_tasks.calibrated(store)
    store.close()
    assert after.confidence(score) == pytest.approx(
        Fit(1.0, -2.0).apply(before.confidence(score)), abs=0.01
    )
    assert linear.load().confidence(score) == before.confidence(score)


def test_words_that_were_turned_down_lower_what_the_worker_thinks_of_them_and_not_of_what_was_accepted(  # noqa: E501
    place: Place,
) -> None:
    learned = calibrate.judge(talk(100), PACKAGED).new
    store = open_store(place.lab.env, str(place.repo))
    calibrate.keep(store, learned, 100, [])
    assert calibrate.load(store).learned == learned
    after, before = worker_tasks.calibrated(store), linear.load()
    about, other = (
        "Turns out that the green colour is bright because of the lamp.",
        "The socket of the cache waits because the header needs it.",
    )
    label, fine = (
        Label(
            before.confidence(before.score("user", text)), True, "x", calibrate.grams("user", text)
        )
        for text in (about, other)
    )
    real, other_real = (after.confidence(after.score("user", text)) for text in (about, other))
    assert (real, other_real) == (
        pytest.approx(learned.apply(label), abs=0.001),
        pytest.approx(learned.apply(fine), abs=0.001),
    )
    assert real < learned.fit.apply(label.score) - 0.1
    assert other_real > learned.fit.apply(fine.score) - 0.1
    assert calibrate.load(store).packaged(
        "linear", learned.apply(label), "user", about
    ) == pytest.approx(label.score, abs=0.001)
    store.close()


def test_memories_stored_unasked_are_counted_and_so_are_those_taken_back(place: Place) -> None:
    ids = [
        place.lab.json(
            place.repo, "remember", f"Captured sentence {i}", "--private", "--tag", "captured"
        )["id"]
        for i in range(3)
    ]
    place.lab.mem(place.repo, "remember", "said by hand")
    place.lab.mem(place.repo, "forget", ids[0])
    assert place.calibrate(rc=1)["unasked"] == {"stored": 3, "taken_back": 1}


# --- announcing -------------------------------------------------------------


def start(place: Place, source: str = "startup", agent: str = "claude") -> dict[str, Any]:
    payload = json.dumps(
        {
            "session_id": "s",
            "cwd": str(place.repo),
            "hook_event_name": "SessionStart",
            "source": source,
        }
    )
    out = place.lab.mem(
        place.repo,
        "hook",
        "SessionStart",
        "--agent",
        agent,
        stdin=payload,
        env={"GIT_MEM_PATIENCE": "50"},
    )
    found: dict[str, Any] = json.loads(out) if out else {}
    return found


def test_what_was_captured_is_announced_once_at_the_next_start(place: Place) -> None:
    id = place.lab.json(
        place.repo, "remember", "Captured sentence", "--private", "--tag", "captured"
    )["id"]
    announce.add(str(place.mem), [id], ["e" * 32, "f" * 32])
    assert "systemMessage" not in start(place, "compact")
    said = start(place)
    assert said["systemMessage"].startswith(f"git mem: 1 memory was captured ({id[:8]}): ")
    assert "2 suggestions wait" in said["systemMessage"]
    assert "Captured sentence" in said["hookSpecificOutput"]["additionalContext"]
    assert "systemMessage" not in start(place)


def test_an_announcement_comes_also_where_there_is_nothing_else_to_say(place: Place) -> None:
    announce.add(str(place.mem), [], ["e" * 32])
    assert "1 suggestion waits: `git mem review`" in start(place)["systemMessage"]
    assert start(place).get("systemMessage") is None


def test_an_agent_that_shows_its_user_nothing_leaves_the_announcement_to_one_that_does(
    place: Place,
) -> None:
    announce.add(str(place.mem), ["e" * 32])
    assert "systemMessage" not in start(place, agent="codex")
    assert "systemMessage" in start(place)


def test_a_hook_that_was_killed_before_it_spoke_loses_no_announcement(tmp_path: Any) -> None:
    announce.add(str(tmp_path), ["a" * 32])
    first = announce.message(str(tmp_path))
    announce.add(str(tmp_path), ["b" * 32])
    assert announce.message(str(tmp_path)) == first
    announce.told(str(tmp_path))
    assert "bbbbbbbb" in announce.message(str(tmp_path))


def test_what_is_to_be_announced_is_found_again_in_the_notes(place: Place) -> None:
    id = place.lab.json(
        place.repo, "remember", "Captured sentence", "--private", "--tag", "captured"
    )["id"]
    place.lab.mem(place.repo, "remember", "said by hand", "--private")
    shutil.rmtree(place.mem)
    store = open_store(place.lab.env, str(place.repo))
    for _ in range(2):
        announce.fill(store)
        announce.fill(store)
        assert announce.message(str(place.mem)).startswith(
            f"git mem: 1 memory was captured ({id[:8]})"
        )
    announce.told(str(place.mem))
    announce.fill(store)
    assert announce.message(str(place.mem)) == ""
    store.close()


def test_a_foreign_line_in_the_file_says_nothing(tmp_path: Any) -> None:
    (tmp_path / announce.FILE).write_bytes(
        b"stored \x1b[2J\nrun me\nstored \xff\xfe\n\nstored " + b"a" * 32 + b"\n"
    )
    assert announce.message(str(tmp_path)).startswith("git mem: 1 memory was captured (aaaaaaaa)")
    assert os.stat(tmp_path / "captured.telling").st_size
    assert not spool.waiting(str(tmp_path))
