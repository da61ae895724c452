"""The confidence that lives: bounded, monotone, a function of the set of records."""

from __future__ import annotations

import itertools
import random

import pytest

from gitmem.core import confidence, record, short
from gitmem.core.confidence import Evidence
from gitmem.feedback import usage

A, B, C = (n * 32 for n in "abc")
S = [f"0f8fad5b-d9cb-469f-a165-7086772895{i:02x}" for i in range(30)]


def told(
    session: int,
    ids: list[str],
    route: str = "prompt",
    cited: dict[str, int] | None = None,
    touched: dict[str, int] | None = None,
) -> dict[str, object]:
    return {
        "v": 1,
        "op": "feedback",
        "id": f"{session:032x}",
        "session": S[session],
        "shown": {route: ids},
        "cited": cited or {},
        "touched": touched or {},
    }


def counted(*records: dict[str, object], id: str = A, versions: tuple[str, ...] = ()) -> Evidence:
    merged: dict[tuple[str, str], int] = {}
    for data in records:
        for found, session, how, number in confidence.rows(data):
            if found in (id, short.of(id)):
                old = merged.get((session, how), number)
                merged[session, how] = (
                    min(old, number) if how == confidence.TOUCHED else max(old, number)
                )
    return confidence.count([(s, h, n) for (s, h), n in merged.items()], versions)


def test_a_memory_without_evidence_keeps_what_was_stated_to_the_last_digit() -> None:
    assert [confidence.confidence(x / 100, Evidence()) for x in range(101)] == [
        x / 100 for x in range(101)
    ]
    assert confidence.value(Evidence()) == 0.5
    assert confidence.factor(0.5) == 1.0
    assert (
        confidence.start(None, "VERIFIED")
        > confidence.start(None, "CITED")
        > confidence.start(None, "CACHED")
        > confidence.start(None, "ASSUMED")
    )
    assert confidence.start(0.3, "VERIFIED") == 0.3
    assert confidence.start(True, None) == confidence.start(7, ["x"]) == confidence.UNSAID


def test_being_told_is_no_credit() -> None:
    for route in confidence.SHOWN:
        assert confidence.value(counted(told(1, [A], route))) <= 0.5, route
    assert counted(told(1, [A, B], cited={B: 3})).used == 0


def test_use_raises_neglect_lowers_slowly_and_a_contradiction_at_once() -> None:
    used, ignored = counted(told(1, [A], cited={A: 1})), counted(told(1, [A]))
    assert confidence.confidence(0.6, used) > 0.6 > confidence.confidence(0.6, ignored)
    assert confidence.confidence(0.6, used) - 0.6 > 0.6 - confidence.confidence(0.6, ignored)
    assert confidence.confidence(0.9, counted({"op": "feedback", "contradicted": {A: []}})) < 0.3


@pytest.mark.parametrize("seed", range(200))
def test_values_stay_in_bounds_and_move_only_the_right_way(seed: int) -> None:
    rng = random.Random(seed)
    start, used, ignored, against = (
        rng.random(),
        rng.choice([0.0, rng.random() * 1e6]),
        rng.choice([0.0, rng.random() * 1e6]),
        rng.choice([0, rng.randrange(100)]),
    )
    here = confidence.confidence(start, Evidence(used, ignored, against))
    assert 0 <= here <= 1
    assert 1 - confidence.GAIN <= confidence.factor(here) <= 1 + confidence.GAIN
    more = rng.random() * 10
    assert confidence.confidence(start, Evidence(used + more, ignored, against)) >= here - 1e-12
    assert confidence.confidence(start, Evidence(used, ignored + more, against)) <= here + 1e-12
    assert confidence.confidence(start, Evidence(used, ignored, against + 1)) <= here


def test_the_bound_of_a_score_is_within_what_a_prior_may_do() -> None:
    from gitmem.core import rank

    assert 1 + confidence.GAIN <= rank.PRIOR_MAX
    assert confidence.MOST <= rank.PRIOR_MAX


@pytest.mark.parametrize("seed", range(200))
def test_an_answer_is_lifted_within_bounds_and_only_the_right_way(seed: int) -> None:
    rng = random.Random(seed)
    used, vain, against = (
        rng.choice([0.0, rng.random() * 10, rng.random() * 1e6]) for _ in range(3)
    )
    here = confidence.lift(used, vain, int(against))
    assert 1 / confidence.MOST <= here <= confidence.MOST
    more = rng.random() * 10
    assert (
        confidence.lift(used + more, vain, int(against))
        >= here
        >= confidence.lift(used, vain + more, int(against))
    )
    assert here >= confidence.lift(used, vain, int(against) + 1)


def test_what_nobody_tried_is_not_lifted_and_a_contradiction_outweighs_some_use() -> None:
    assert confidence.lift(0, 0) == 1.0
    assert confidence.lift(1, 0) > 1.0 > confidence.lift(0, 1)
    assert confidence.lift(5, 0, 1) < 1.0


def test_a_session_in_vain_counts_as_far_as_it_was_told_the_rest_of_what_is_found() -> None:
    near = {1: 0.8, 2: 0.6, 3: 0.2}
    assert confidence.in_vain(near, {1: {"s": False}}) == {
        1: 0.0
    }  # told it, and something else that has nothing to do with this
    assert confidence.in_vain(near, {1: {"s": False}, 2: {"s": True}})[1] == pytest.approx(
        0.6 / 0.8
    )
    assert confidence.in_vain(near, {1: {"s": False}, 2: {"s": True}, 3: {"s": False}})[
        1
    ] == pytest.approx(1.0)
    assert confidence.in_vain(near, {1: {"s": True}, 2: {"s": True}})[1] == 0.0  # it was used there
    assert confidence.in_vain(
        near, {1: {"s": False, "t": False, "u": False}, 2: {"s": True, "t": False}}
    )[1] == pytest.approx(2 * 0.6 / 0.8)
    assert confidence.in_vain({1: 0.5}, {1: {"s": False}}) == {1: 0.0}
    assert confidence.in_vain({}, {}) == {}


@pytest.mark.parametrize("seed", range(100))
def test_sessions_in_vain_are_at_most_as_many_as_there_are_and_their_order_changes_nothing(
    seed: int,
) -> None:
    rng = random.Random(seed)
    near = {row: rng.random() for row in range(24)}
    told = {
        row: {f"s{n}": rng.random() < 0.3 for n in rng.sample(range(12), rng.randrange(12))}
        for row in rng.sample(range(24), 15)
    }
    found = confidence.in_vain(near, told)
    assert set(found) == set(told)
    for row, sessions in told.items():
        assert 0 <= found[row] <= sum(not used for used in sessions.values()) + 1e-9
    assert (
        confidence.in_vain(
            near,
            {
                row: dict(rng.sample(list(sessions.items()), len(sessions)))
                for row, sessions in told.items()
            },
        )
        == found
    )


def test_order_repeats_and_portions_of_records_change_nothing() -> None:
    records = [
        told(1, [A, B]),
        told(1, [A], "start", cited={A: 2}),
        told(2, [A], touched={A: 3}),
        told(2, [], touched={A: 2}),
        told(3, [A], "start"),
        {"op": "verdict", "id": B, "memory": A, "verdict": "accepted"},
        {"op": "verdict", "id": B, "verdict": "rejected"},
    ]
    first = counted(*records)
    assert (first.used, first.ignored, first.against) == (
        1 + 0.5 + 1,
        confidence.NEGLECT["start"],
        0,
    )
    for order in itertools.permutations(records):
        again = counted(*order, *order[:3])
        assert (again.used, again.ignored, again.against) == (
            first.used,
            first.ignored,
            first.against,
        )


def test_a_session_counts_once_however_much_it_talked() -> None:
    assert counted(told(1, [A], cited={A: 500}, touched={A: 1})).used == 1.0


def test_memories_that_share_a_changed_file_share_the_credit() -> None:
    found = usage.shares({A: {"x", "y"}, B: {"x"}, C: {"x"}})
    assert found == {A: 1, B: 3, C: 3}
    assert counted(told(1, [A], touched={A: 4})).used == 0.25


def test_a_contradiction_counts_until_the_memory_is_edited() -> None:
    said = {"op": "feedback", "id": C, "contradicted": {A: [B]}}
    assert counted(said, said, versions=(B,)).against == 1
    assert counted(said, versions=(C,)).against == 0
    assert counted({"op": "verdict", "id": A, "verdict": "rejected"}).against == 1


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"op": "feedback"},
        {"op": "receipt", "session": S[0], "shown": {"prompt": [A]}},
        told(0, [A]) | {"session": 5},
        told(0, [A]) | {"session": "a b"},
        told(0, [A]) | {"shown": [A], "cited": [A], "touched": "x"},
        told(0, []) | {"shown": {"prompt": A, "nowhere": [A], "start": [5, None, "x"]}},
        told(0, [], cited={A: 0}),
        told(0, []) | {"cited": {A: True, B: 1.5, "x": 1, C: -2}},
        {"op": "feedback", "contradicted": {A: "x", "y": [B], C: [7]}},
        {"op": "verdict"},
        {"op": "verdict", "id": 5, "verdict": "rejected"},
        {"op": "verdict", "id": A, "verdict": "accepted", "memory": ["x"]},
    ],
)
def test_records_of_other_shapes_say_nothing(data: dict[str, object]) -> None:
    assert confidence.rows(data) == []


def test_only_ids_that_were_told_are_seen_in_an_answer() -> None:
    """How a text names one: tests/test_id_mentions.py."""
    a, b = "deadbeef" + "0" * 24, "cafebabe" + "1" * 24
    assert usage.cited("As memory deadbeef says, and `cafebabe1111`, it is UTC.", [a, b]) == [a, b]
    assert usage.cited("see [deadbeef], (cafebabe)", [b]) == [b]
    assert usage.cited("deadbeef" + "." * usage.LOOKED_AT, [a]) == []


def entry(kind: str, *values: str) -> tuple[str, float, list[str], bytes]:
    return kind, 0.0, list(values), b""


def test_a_file_that_was_changed_before_the_memory_was_told_is_no_use_of_it() -> None:
    named = {A: {"x.py"}, B: {"x.py"}, C: {"x.py"}}
    lines = [
        entry("shown", "route=prompt", A),
        entry("touched", "x.py"),
        entry("shown", "route=prompt", B),
    ]
    assert usage.changed_after(usage.stretches(lines), named) == {A: {"x.py"}}
    assert usage.changed_after(usage.stretches([*lines, entry("touched", "x.py")]), named) == {
        A: {"x.py"},
        B: {"x.py"},
    }
    assert usage.changed_after(usage.stretches(lines), named, since=2) == {}


def test_a_memory_told_because_its_file_is_changed_gains_nothing_from_that() -> None:
    lines = [entry("shown", "route=tool", A), entry("touched", "x.py")]
    assert usage.changed_after(usage.stretches(lines), {A: {"x.py"}}) == {}


def test_what_the_model_forgot_gains_nothing_from_later_changes() -> None:
    lines = [
        entry("shown", "route=start", A),
        entry("shown", "route=start", B),
        entry("context", "compact"),
        entry("shown", "route=compact", B),
        entry("touched", "x.py"),
    ]
    assert usage.changed_after(usage.stretches(lines), {A: {"x.py"}, B: {"x.py"}}) == {B: {"x.py"}}


def test_feedback_is_no_memory() -> None:
    assert "feedback" in record.APART_OPS


def ranked(found: list[tuple[int, float]], priors: dict[int, float]) -> list[int]:
    from gitmem.agents import inject
    from gitmem.core import rank

    hits = []
    for row, fused in found:
        hit = rank.Hit(row, None, None)
        hit.fused = fused
        hits.append(hit)
    return [hit.row for hit in inject.worth_telling(rank.apply_priors(hits, priors))]


def test_a_prompt_is_told_no_more_because_of_what_was_used_or_neglected() -> None:
    found = [(1, 0.9), (2, 0.6), (3, 0.42), (4, 0.3)]
    assert ranked(found, {}) == [1, 2]
    assert ranked(found, {3: 1.3, 4: 1.3}) == [1, 2]  # 0.42 * 1.3 would be near enough
    assert ranked(found, {1: 0.7}) == [1, 2]  # and so would 0.42 beside 0.63
    assert ranked(found, {2: 1.3}) == [1, 2]
    assert ranked(found, {2: 0.7}) == [1]
    assert ranked(found, dict.fromkeys((1, 2, 3, 4), 0.8)) == [1, 2]  # all of an unmerged branch
    assert ranked([(1, 0.9), (2, 0.85)], {2: 1.3}) == [2, 1]
    assert ranked([], {}) == []


def test_ten_sessions_in_vain_take_less_than_one_contradiction() -> None:
    assert (
        abs(confidence.confidence(0.7, Evidence(0, 10 * confidence.NEGLECT["prompt"], 0, 10)) - 0.7)
        < 0.3
    )


def test_the_context_block_ranks_by_it_too() -> None:
    from gitmem.agents import context_select

    assert (
        context_select.prior("reachable", None, 0.9)
        > context_select.prior("reachable", None)
        == context_select.prior("reachable", None, 0.5)
        > context_select.prior("reachable", None, 0.1)
        > 0
    )
