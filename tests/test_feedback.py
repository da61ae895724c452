"""The whole loop: told, used, noted at the session's end, counted in the cache, seen in the
ranking; and what may not count.
"""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from typing import Any

import pytest
from conftest import Lab

from gitmem.agents import receipts, session
from gitmem.core import confidence, record, short
from gitmem.engine import cache_check, usage_store
from gitmem.engine.cache import Cache
from gitmem.feedback import usage_records
from gitmem.store import Store, open_store

UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"
OTHER = "0f8fad5b-d9cb-469f-a165-70867728950f"


class Place:
    """A repository with three memories, two about one directory, and hands to play hooks and
    worker.
    """

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.repo = lab.repo()
        self.mem = str(self.repo / ".git" / "mem")
        lines = [
            {
                "body": "Orders and invoices share a transaction in the shop database",
                "paths": ["db/"],
                "type": "decision",
            },
            {
                "body": "The shop database keeps orders for ten years",
                "paths": ["db/"],
                "type": "convention",
            },
            {"body": "The parser keeps comments", "paths": ["src/parser.py"], "type": "gotcha"},
        ]
        said = self.lab.mem(
            self.repo, "remember", "--jsonl", "-", "--json", stdin="\n".join(map(json.dumps, lines))
        )
        self.ids = [json.loads(line)["id"] for line in said.splitlines()]
        self.head = lab.git(self.repo, "rev-parse", "HEAD").strip()

    def shown(self, name: str, ids: list[str], route: str = "prompt") -> None:
        assert session.Notes(self.mem, name).add_shown(ids, route, "claude", self.head, {})

    def session(
        self,
        name: str,
        ids: list[str],
        cited: list[str] | None = None,
        touched: list[str] | None = None,
        route: str = "prompt",
    ) -> None:
        self.shown(name, ids, route)
        if touched:
            session.Notes(self.mem, name).add("touched", touched)
        if cited:
            session.Notes(self.mem, name).add("cited", cited)
        session.Notes(self.mem, name).add("end", ["other"])

    def store(self) -> Store:
        return open_store(self.lab.env, str(self.repo))

    def tend(self) -> int:
        store = self.store()
        try:
            return receipts.tend(store)
        finally:
            store.close()

    def records(self) -> list[dict[str, Any]]:
        found = [json.loads(line) for line in self.lab.lines(self.repo, "mem/private")]
        return [r for r in found if r["op"] == "receipt"]

    def table(self) -> list[tuple[Any, ...]]:
        return table(self.store())


def table(store: Store) -> list[tuple[Any, ...]]:
    def read(cache: Cache) -> list[tuple[Any, ...]]:
        assert cache_check.check_all(cache) == ""
        return cache.db.execute(
            "SELECT id, value, used, ignored, against FROM confidence ORDER BY id"
        ).fetchall()

    try:
        return store.with_cache(read)[0]
    finally:
        store.close()


@pytest.fixture
def place(lab: Lab) -> Place:
    return Place(lab)


def test_a_session_leaves_one_record_with_short_names_and_counts(place: Place) -> None:
    a, b, c = place.ids
    place.shown(UUID, [a, b], "start")
    place.shown(UUID, [c])
    session.Notes(place.mem, UUID).add("touched", ["db/secret.sql", "README.md"])
    session.Notes(place.mem, UUID).add("cited", [c])
    session.Notes(place.mem, UUID).add("cited", [c, a])
    session.Notes(place.mem, UUID).add("end", ["other"])
    before = place.lab.run(
        place.repo, "git", "rev-list", "--count", "refs/notes/mem/private"
    ).stdout.strip()
    assert (before, place.tend()) == ("", 1)
    assert place.lab.git(place.repo, "rev-list", "--count", "refs/notes/mem/private").strip() == "1"
    (found,) = place.records()
    said = {
        "shown": {"start": short.pack([a, b]), "prompt": short.pack([c])},
        "answers": 2,
        "files": 2,
        "use": {short.pack([a]): [1, 1, 2], short.pack([b]): [0, 1, 2], short.pack([c]): [2]},
    }
    assert {name: found[name] for name in said} == said and "open" not in found
    assert "secret" not in "".join(place.lab.lines(place.repo, "mem/private"))


def test_workers_that_come_twice_or_were_killed_before_they_marked_the_file_add_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, _ = place.ids
    place.session(UUID, [a, b], cited=[a])
    with monkeypatch.context() as m:
        m.setattr(session, "mark", lambda path, entry: False)
        place.tend()
        place.tend()
    first = place.table()
    place.tend()
    assert len(place.records()) == 1
    assert place.table() == first
    assert {row[0]: row[2:] for row in first} == {
        a: (1.0, 0.0, 0),
        b: (0.0, confidence.NEGLECT["prompt"], 0),
    }


def test_a_lost_cache_gives_the_same_table(place: Place) -> None:
    a, b, c = place.ids
    place.session(UUID, [a, b, c], cited=[a], touched=["src/parser.py"])
    place.session("s2", [a, b], route="start")
    place.tend()
    before = place.table()
    assert len(before) == 3
    shutil.rmtree(place.mem)
    assert place.table() == before


def test_a_memory_that_was_used_ranks_higher_and_recall_says_why(place: Place) -> None:
    a, b, _ = place.ids
    hits = place.lab.json(place.repo, "recall", "shop database orders")["hits"]
    first, second = hits[0]["id"], hits[1]["id"]
    assert {first, second} == {a, b}
    assert [h["confidence"] for h in hits[:2]] == [None, None]
    for n in range(6):
        place.session(f"s{n}", [a, b], cited=[second])
    place.tend()
    answer = place.lab.json(place.repo, "recall", "shop database orders", "--explain")
    assert [h["id"] for h in answer["hits"][:2]] == [second, first]
    best = answer["hits"][0]
    assert best["use"] == {"used": 6, "ignored": 0, "contradicted": 0}
    assert best["explain"]["credit"] > 1 > answer["hits"][1]["explain"]["credit"]
    assert (
        best["stated_confidence"] is None
        and best["confidence"] > confidence.UNSAID > answer["hits"][1]["confidence"]
    )
    assert f"{best['confidence']:g} (sessions: 6 used)" in place.lab.mem(place.repo, "show", second)


def lifts(place: Place, near: dict[str, float]) -> dict[str, float]:
    """What the scores of these memories are multiplied with, where just they are found."""

    def read(cache: Cache) -> dict[str, float]:
        rows = dict(cache.db.execute("SELECT id, row FROM memory").fetchall())
        ids = {row: id for id, row in rows.items()}
        return {
            ids[row]: value
            for row, value in usage_store.lifts(
                cache, {rows[id]: score for id, score in near.items()}
            ).items()
        }

    store = place.store()
    try:
        return store.with_cache(read)[0]
    finally:
        store.close()


def test_what_was_told_in_vain_makes_room_for_the_likes_of_that_question_alone(
    place: Place,
) -> None:
    a, b, c = place.ids
    for n in range(4):
        place.session(f"s{n}", [a, b])
    place.tend()
    assert lifts(place, {a: 0.9, c: 0.8}) == {a: 1.0}
    beside = lifts(place, {a: 0.9, b: 0.8})
    assert beside[a] < 1.0 and beside[b] < 1.0
    assert lifts(place, {a: 0.9, b: 0.1, c: 0.8})[a] > beside[a]


def test_what_a_session_was_told_at_its_start_is_not_counted_against_an_answer(
    place: Place,
) -> None:
    a, b, _ = place.ids
    place.session(UUID, [a, b], route="start")
    place.tend()
    assert lifts(place, {a: 0.9, b: 0.8}) == {a: 1.0, b: 1.0}


def test_of_many_sessions_whole_ones_are_looked_at(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, _ = place.ids
    for n in range(3):
        place.session(f"s{n}", [a, b], cited=[a])
    place.tend()
    whole = lifts(place, {a: 0.9, b: 0.8})
    assert whole[a] == confidence.lift(3, 0) and whole[b] == confidence.lift(0, 3)
    monkeypatch.setattr(
        usage_store, "LOOKED_AT", 3
    )  # rows: cited and shown of one session, and half of the next
    some = lifts(place, {a: 0.9, b: 0.8})
    assert some[a] == whole[a] and some[b] == confidence.lift(0, 1)


def test_use_never_brings_in_what_was_not_found(place: Place) -> None:
    c = place.ids[2]
    before = [
        h["id"] for h in place.lab.json(place.repo, "recall", "orders invoices transaction")["hits"]
    ]
    for n in range(30):
        place.session(f"s{n}", [c], cited=[c])
    place.tend()
    after = [
        h["id"] for h in place.lab.json(place.repo, "recall", "orders invoices transaction")["hits"]
    ]
    assert sorted(after) == sorted(before)


def test_a_stated_confidence_lives_and_stays_beside(place: Place) -> None:
    line = json.dumps(
        {
            "v": 1,
            "op": "create",
            "id": "ab" * 16,
            "body": "The mirror is behind by an hour",
            "confidence": 0.6,
            "at": "2026-01-01T00:00:00Z",
        }
    )
    store = place.store()
    store.append("team", [("", line.encode())], "a line of another tool")
    store.close()
    place.session(UUID, ["ab" * 16], cited=["ab" * 16])
    place.tend()
    (found,) = [m for m in place.lab.json(place.repo, "list") if m["id"] == "ab" * 16]
    assert (found["stated_confidence"], found["confidence"]) == (
        0.6,
        round(confidence.confidence(0.6, confidence.Evidence(1)), 4),
    )


def test_what_was_lived_here_is_not_exported_and_takes_nothing_from_the_files_of_agents(
    place: Place,
) -> None:
    from gitmem.agents import automemory_export

    before = place.lab.mem(place.repo, "export", "--scope", "all")
    for n in range(3):
        place.session(f"s{n}", place.ids, cited=place.ids[:1])
    place.tend()
    assert place.lab.mem(place.repo, "export", "--scope", "all") == before
    assert "confidence" not in before
    found = place.lab.json(place.repo, "list")
    assert all(m["confidence"] is not None and automemory_export._worthy(m) for m in found)
    assert not automemory_export._worthy({**found[0], "use": {"contradicted": 1}})


def test_notes_of_teammates_say_nothing_about_use_here(place: Place) -> None:
    a = place.ids[0]
    data = {
        "v": 1,
        "op": "feedback",
        "id": "1" * 32,
        "session": UUID,
        "shown": {"prompt": [a]},
        "cited": {a: 1},
    }
    store = place.store()
    store.append("team", [("", record.dump(data))], "forged")
    assert table(store) == []
    store = place.store()
    store.append("private", [("", record.dump(data))], "own")
    assert [row[0] for row in table(store)] == [a]


def test_a_contradiction_drops_confidence_until_the_memory_is_edited(place: Place) -> None:
    a = place.ids[0]
    store = place.store()
    assert usage_records.contradict(store, [a, a, "f" * 32]) == 1
    assert usage_records.contradict(store, [a]) == 1
    store.close()
    assert [row[4] for row in place.table()] == [1]
    (found,) = [m for m in place.lab.json(place.repo, "list") if m["id"] == a]
    assert found["confidence"] == round(confidence.UNSAID * confidence.DROP, 4)
    place.lab.mem(place.repo, "edit", a, "-m", "Orders and invoices share a transaction since 2.0")
    assert place.table() == []
    (found,) = [m for m in place.lab.json(place.repo, "list") if m["id"] == a]
    assert found["confidence"] is None


def test_a_superseded_memory_has_lost_most_of_its_confidence(place: Place) -> None:
    a = place.ids[0]
    place.session(UUID, [a], cited=[a])
    place.tend()
    place.lab.mem(place.repo, "supersede", a, "-m", "Orders and invoices are two services now")
    found = place.lab.json(place.repo, "show", a)
    assert found["status"] == "superseded" and found["confidence"] < 0.3


def test_a_purged_memory_leaves_neither_table_and_a_forgotten_one_comes_back_as_it_was(
    place: Place,
) -> None:
    a, b, _ = place.ids
    place.session(UUID, [a, b], cited=[a, b])
    place.tend()
    place.lab.mem(place.repo, "purge", a, "--force")
    assert [row[0] for row in place.table()] == [b]
    store = place.store()
    assert store.with_cache(
        lambda cache: cache.db.execute(
            "SELECT count(*) FROM usage_record WHERE id = ?", (short.of(a),)
        ).fetchone()
    )[0] == (0,)
    store.close()
    shutil.rmtree(place.mem)
    assert [row[0] for row in place.table()] == [b]


def test_feedback_that_came_before_its_memory_counts_when_it_comes(place: Place) -> None:
    late = "cd" * 16
    data = {
        "v": 1,
        "op": "feedback",
        "id": "1" * 32,
        "session": UUID,
        "shown": {"prompt": [late]},
        "cited": {late: 1},
    }
    store = place.store()
    store.append("private", [("", record.dump(data))], "first")
    assert table(store) == []
    store = place.store()
    store.append(
        "team", [("", b'{"v":1,"op":"create","id":"%s","body":"late"}' % late.encode())], "then"
    )
    assert [row[0] for row in table(store)] == [late]


def test_a_damaged_credit_is_found_and_made_anew(place: Place) -> None:
    a = place.ids[0]
    place.session(UUID, [a], cited=[a])
    place.tend()
    store = place.store()

    def spoil(cache: Cache) -> str:
        try:
            cache.db.execute("UPDATE confidence SET value = 0.99")
            return cache_check.check_all(cache)
        finally:
            cache.db.execute(
                "UPDATE confidence SET value = ?", (confidence.value(confidence.Evidence(1)),)
            )

    assert store.with_cache(spoil)[0]
    store.close()


def test_two_clones_that_unite_their_private_notes_have_one_table(place: Place, lab: Lab) -> None:
    a, b, c = place.ids
    other = lab.root / "other"
    shutil.copytree(place.repo, other)
    twin = Place.__new__(Place)
    twin.lab, twin.repo, twin.mem, twin.ids, twin.head = (
        lab,
        other,
        str(other / ".git" / "mem"),
        place.ids,
        place.head,
    )
    place.session(UUID, [a, b], cited=[a])
    place.session("both", [c])
    twin.session(OTHER, [a, c], touched=["db/x.sql", "src/parser.py"])
    twin.session("both", [c], cited=[c])
    place.tend()
    twin.tend()
    for here, there in ((place, twin), (twin, place)):
        lab.git(here.repo, "fetch", "-q", str(there.repo), "refs/notes/mem/private:refs/notes/x")
        lab.unite(here.repo, "refs/notes/x", "mem/private")
    assert place.table() == twin.table()
    assert {row[0]: row[2:4] for row in place.table()} == {
        a: (2.0, 0.0),
        b: (0.0, confidence.NEGLECT["prompt"]),
        c: (2.0, 0.0),
    }


def test_stats_count_what_was_told_used_and_ignored_by_type_and_route(place: Place) -> None:
    a, b, c = place.ids
    place.shown("s1", [a], "start")
    place.session("s1", [a, b], cited=[a])
    place.session("s2", [a, c], touched=["src/parser.py"])
    place.tend()
    found = place.lab.json(place.repo, "stats")["feedback"]
    assert found == {
        "sessions": 2,
        "sessions_not_measured": 0,
        "injected": 4,
        "used": 2,
        "ignored": 2,
        "cited": 1,
        "edited": 1,
        "answers_from_memory": 1,
        "accepted": 0,
        "rejected": 0,
        "contradicted": 0,
        "by_type": {
            "decision": {"injected": 2, "used": 1, "ignored": 1},
            "convention": {"injected": 1, "used": 0, "ignored": 1},
            "gotcha": {"injected": 1, "used": 1, "ignored": 0},
        },
        "by_route": {
            "prompt": {"injected": 4, "used": 2, "ignored": 2},
            "start": {"injected": 1, "used": 1, "ignored": 0},
        },
        "by_confidence": {
            "none stated": {"injected": 4, "used": 2, "ignored": 2, "contradicted": 0},
        },
    }
    text = place.lab.mem(place.repo, "stats")
    assert "4 (2 used, 2 not), in 2 sessions" in text and "{" not in text


def test_stats_count_by_the_confidence_stated_not_by_what_use_made_of_it(place: Place) -> None:
    drafts = [{"body": f"A log is kept {p} years", "confidence": p} for p in (0.9, 0.7, 0.2)]
    lines = "\n".join(map(json.dumps, drafts))
    said = place.lab.mem(place.repo, "remember", "--jsonl", "-", "--json", stdin=lines)
    sure, fair, doubtful = (json.loads(line)["id"] for line in said.splitlines())
    for n in range(3):
        place.session(f"s{n}", [doubtful, fair, "0" * 32], cited=[doubtful])
    place.tend()
    line = {"v": 1, "op": "feedback", "id": "3" * 32, "contradicted": {sure: [], fair: []}}
    place.lab.git(place.repo, "notes", "--ref=mem/private", "append", "-m", json.dumps(line))
    place.lab.mem(place.repo, "forget", fair)  # it was told all the same
    found = place.lab.json(place.repo, "stats")["feedback"]["by_confidence"]
    assert list(found.items()) == [
        ("90 to 100 %", {"injected": 0, "used": 0, "ignored": 0, "contradicted": 1}),
        ("70 to 89 %", {"injected": 3, "used": 0, "ignored": 3, "contradicted": 1}),
        ("below 50 %", {"injected": 3, "used": 3, "ignored": 0, "contradicted": 0}),
        ("gone", {"injected": 3, "used": 0, "ignored": 3, "contradicted": 0}),
    ]
    text = place.lab.mem(place.repo, "stats")
    assert re.search("confidence 70 to 89 %: *3 .0 used, 3 not., 1 contradicted", text)


def test_the_table_is_read_by_rows_alone() -> None:
    db = sqlite3.connect(":memory:")
    db.executescript(
        "CREATE TABLE memory(row INTEGER PRIMARY KEY, id TEXT);"
        " CREATE TABLE confidence(id TEXT PRIMARY KEY, value REAL)"
    )
    db.executemany("INSERT INTO memory VALUES(?, ?)", [(n, f"m{n}") for n in range(2000)])
    db.executemany(
        "INSERT INTO confidence VALUES(?, ?)", [(f"m{n}", n / 2000) for n in range(0, 2000, 2)]
    )

    class Fake:
        pass

    fake: Any = Fake()
    fake.db = db
    assert usage_store.values(fake, range(2000)) == {n: n / 2000 for n in range(0, 2000, 2)}
    assert usage_store.values(fake, []) == {}
