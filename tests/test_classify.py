"""One turn through the stages: the tier follows the confidence, what is explicit is kept, and a
model that is silent changes nothing.
"""

from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Callable

import pytest
from conftest import EVAL, Lab

from gitmem.capture import classify, features, linear
from gitmem.capture.classify import Opinion, judge

LONG = (
    "I'd like the sessions in object storage only, without a column in the database: the one reader"
    " is resume, which needs the whole blob anyway, and a column would have to be migrated twice."
    " So the server stores it as it is and never looks inside."
)
MIDDLE = "I want the sessions sorted by date, newest first, and the search field above the table."
LABELLED = EVAL / "dev" / "capture_turns" / "labelled.jsonl"


def test_an_explicit_marker_is_stored_without_asking_anybody() -> None:
    def ask(role: str, text: str) -> Opinion:
        raise AssertionError("asked")

    said = judge("user", "Remember this: the staging database is wiped every Sunday.", ask=ask)
    assert (said.keep, said.tier, said.stage) == (True, classify.AUTO, "rules")
    assert said.confidence >= 0.95


def test_an_explicit_marker_is_kept_whatever_the_threshold() -> None:
    assert (
        judge("user", "Remember this: the staging database is wiped every Sunday.", auto=0.999).tier
        == classify.AUTO
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "<private>Remember this: the code is 4711</private>",
        "<memory_context>Remember this: echo</memory_context>",
        "Remember this: #skip it",
    ],
)
def test_what_its_author_did_not_say_or_keeps_back_is_skipped(text: str) -> None:
    said = judge("user", text)
    assert (said.keep, said.confidence, said.tier) == (False, 0.0, classify.SKIP)


def test_the_tier_follows_the_confidence_and_the_thresholds() -> None:
    confidence = judge("user", LONG).confidence
    assert 0 < confidence < 1
    assert judge("user", LONG, auto=confidence, suggest=0).tier == classify.AUTO
    assert judge("user", LONG, auto=1.0, suggest=confidence).tier == classify.SUGGEST
    assert judge("user", LONG, auto=1.0, suggest=confidence + 0.001).tier == classify.SKIP


def test_only_a_blocker_that_is_marked_as_one_is_stored_without_asking() -> None:
    report = (
        "Everything works now, except for one test: undo.layers.test.js fails with 'expected spy"
        " to be called 2 times, but got 1', and I do not know why."
    )
    found = judge("user", report, auto=0.1, suggest=0.1)
    assert (found.type, found.tier) == ("blocker", classify.SUGGEST)
    marked = judge("user", "Blocker: the release waits for the signing key of the vendor.")
    assert (marked.type, marked.tier) == ("blocker", classify.AUTO)


def test_a_model_is_asked_where_the_fast_stages_are_unsure_and_its_stage_is_named() -> None:
    weighed = linear.load().adjusted(linear.Calibration(llm=1.0))
    said = judge("user", MIDDLE, model=weighed, ask=lambda role, text: Opinion(0.9, "decision"))
    assert (said.stage, said.p_skip) == ("llm", pytest.approx(0.1))


def test_a_model_that_does_not_answer_leaves_the_judgement_as_it_was() -> None:
    assert judge("user", LONG, ask=lambda role, text: None) == judge("user", LONG)


def test_a_model_is_not_asked_about_a_yes() -> None:
    asked: list[str] = []
    judge("user", "yes", ask=lambda role, text: asked.append(text))  # type: ignore[func-returns-value]
    assert asked == []


def test_confidence_never_falls_as_the_score_rises() -> None:
    shares = [linear.load().confidence(s / 10) for s in range(-200, 200)]
    assert shares == sorted(shares)
    assert 0 < shares[0] < 0.05
    assert 0.95 <= shares[-1] < 1


def test_the_shares_of_the_types_add_up() -> None:
    shares = linear.load().types("user", LONG)
    assert set(shares) == set(linear.TYPES)
    assert sum(shares.values()) == pytest.approx(1)


def test_a_model_adjusted_to_a_user_moves_and_the_packaged_one_does_not() -> None:
    packaged = linear.load()
    before = judge("user", MIDDLE).confidence
    low, high = (
        judge("user", MIDDLE, model=packaged.adjusted(linear.Calibration(offset=offset))).confidence
        for offset in (-2.0, 0.5)
    )
    assert low < before < high
    assert judge("user", MIDDLE).confidence == before


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0",
        "\ud800 x",
        "a" * 100_000,
        "?!" * 5000,
        "日本語の文。" * 500,
        "```" * 5000,
        "- x\n" * 5000,
        "💥" * 3000,
    ],
)
def test_any_text_has_features_of_the_same_shape(text: str) -> None:
    hashed, numbers, _ = features.features("assistant", text)
    assert len(numbers) == features.NUMBERS
    assert hashed == sorted(set(hashed))
    assert all(0 <= i < features.HASHED for i in hashed)
    assert all(-10 < v < 10 for v in numbers)
    judge("assistant", text)


def test_the_coefficients_are_small() -> None:
    assert pathlib.Path(linear.PATH).stat().st_size < 100_000


def test_judging_loads_no_library(isolated: Callable[[str], set[str]]) -> None:
    assert (
        isolated("from gitmem.capture import classify; classify.judge('user', 'we use tabs here')")
        & {"sklearn", "scipy", "numpy", "llama_cpp"}
        == set()
    )


@pytest.fixture
def isolated() -> Callable[[str], set[str]]:
    def loaded(code: str) -> set[str]:
        import subprocess

        root = pathlib.Path(classify.__file__).parents[2]
        done = subprocess.run(
            [
                sys.executable,
                "-I",
                "-c",
                (
                    f"import sys; sys.path.insert(0, {str(root)!r});"
                    f" {code}\nprint(*{{m.split('.')[0] for m in sys.modules}})"
                ),
            ],
            capture_output=True,
            text=True,
            check=True,
        )
        return set(done.stdout.split())

    return loaded


def test_the_command_answers_every_good_line_and_names_the_bad_ones(lab: Lab) -> None:
    repo = lab.repo()
    lines = [
        '{"id": "a", "role": "user", "text": "From now on never commit generated files."}',
        "no json",
        "",
        '{"id": 7, "text": "ok"}',
        '{"id": "b", "role": "user"}',
        "[]",
    ]
    done = lab.run(
        repo,
        sys.executable,
        "-m",
        "gitmem",
        "capture",
        "--dry-run",
        "--jsonl",
        "-",
        "--json",
        stdin="\n".join(lines),
    )
    assert done.returncode == 1
    got = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(g["id"], g["keep"], g["tier"], g["stage"]) for g in got] == [
        ("a", True, "AUTO", "rules"),
        (7, False, "SKIP", "rules"),
    ]
    assert set(got[0]) == {"id", "keep", "type", "confidence", "tier", "stage"}
    assert [
        line.split(":")[1].strip() for line in done.stderr.splitlines() if line.startswith("error")
    ] == ["line 2", "line 5", "line 6"]


def test_a_dry_run_stores_nothing_and_follows_the_settings(lab: Lab) -> None:
    repo = lab.repo()
    turn = json.dumps({"id": "a", "role": "user", "text": LONG})
    tiers = []
    for auto, suggest in (("0.999", "0.001"), ("1", "1"), ("0.001", "0.001")):
        lab.git(repo, "config", "mem.captureAuto", auto)
        lab.git(repo, "config", "mem.captureSuggest", suggest)
        tiers.append(
            json.loads(lab.mem(repo, "capture", "--dry-run", "--jsonl", "-", "--json", stdin=turn))[
                "tier"
            ]
        )
    assert tiers == ["SUGGEST", "SKIP", "AUTO"]
    assert lab.git(repo, "for-each-ref", "refs/notes").strip() == ""


def test_a_threshold_is_a_number_from_0_to_1(lab: Lab) -> None:
    repo = lab.repo()
    lab.git(repo, "config", "mem.captureAuto", "95")
    done = lab.run(repo, sys.executable, "-m", "gitmem", "capture", "--dry-run", "--jsonl", "-")
    assert done.returncode == 2
    assert "not a number from 0 to 1" in done.stderr


@pytest.mark.skipif(not LABELLED.exists(), reason="no evaluation data here (GIT_MEM_EVAL_ROOT)")
@pytest.mark.nightly
def test_on_real_turns_what_is_kept_silently_is_worth_it() -> None:
    rows = [json.loads(line) for line in LABELLED.read_text(encoding="utf-8").splitlines()]
    model = linear.load(True)  # as it is by default
    said = [
        (r["keep"] == "keep", judge(r["role"], r["text"], model=model))
        for r in rows
        if r["keep"] != "unclear"
    ]
    auto = [kept for kept, j in said if j.tier == classify.AUTO]
    offered = [kept for kept, j in said if j.keep]
    wanted = sum(kept for kept, _ in said)
    assert sum(auto) >= 0.95 * len(auto)
    assert sum(auto) >= 0.1 * wanted
    assert sum(offered) >= max(0.6 * wanted, 0.7 * len(offered))


def test_a_model_may_change_the_type_and_nothing_else() -> None:
    alone = judge("user", LONG, suggest=0.1)
    shares = linear.load().types("user", LONG)
    other = sorted(shares, key=lambda name: shares[name])[-2]
    said = judge(
        "user", LONG, suggest=0.1, ask=lambda role, text: Opinion(0.0, other, {other: 1.0})
    )
    assert said.type == other and said.stage == "llm"
    assert (said.confidence, said.tier) == (alone.confidence, alone.tier)


def test_a_model_without_weight_is_not_asked_about_what_is_not_kept() -> None:
    asked: list[str] = []
    judge("user", LONG, suggest=1.0, ask=lambda role, text: asked.append(text))  # type: ignore[func-returns-value]
    assert asked == []
