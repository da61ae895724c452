"""What a session costs the private notes, and short names of memories: what they stand for, and
what not.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from conftest import Lab
from test_feedback import UUID, Place, table

from gitmem import worker
from gitmem.agents import session
from gitmem.core import confidence, record, short
from gitmem.hooks import worker_log


class Long:
    """A session with forty memories, through hooks and worker."""

    def __init__(self, lab: Lab) -> None:
        self.lab, self.repo = lab, lab.repo()
        lab.mem(self.repo, "init", "--offline")
        lines = [
            {"body": f"Rule {n} of the shop: part {n} keeps its own table", "paths": [f"s{n}.py"]}
            for n in range(40)
        ]
        said = lab.mem(
            self.repo, "remember", "--jsonl", "-", "--json", stdin="\n".join(map(json.dumps, lines))
        )
        self.ids = [str(json.loads(line)["id"]) for line in said.splitlines()]
        lab.mem(self.repo, "remember", "My own notes", "--private")
        lab.mem(self.repo, "index")
        self.old = set(self.lines())

    def hook(self, event: str, **fields: object) -> str:
        said = {"session_id": UUID, "cwd": str(self.repo), "hook_event_name": event, **fields}
        return self.lab.mem(
            self.repo,
            "hook",
            event,
            stdin=json.dumps(said),
            env={"GIT_MEM_PATIENCE": "1000", "GIT_MEM_NO_WORKER": "1"},
        )

    def tell(self, ids: list[str], route: str) -> None:
        """As the hooks note it, which choose their memories themselves."""
        head = self.lab.git(self.repo, "rev-parse", "HEAD").strip()
        refs = {
            ref: self.lab.git(self.repo, "rev-parse", ref).strip()
            for ref in ("refs/notes/mem/private", "refs/notes/mem/team")
        }
        assert session.Notes(str(self.repo / ".git/mem"), UUID).add_shown(
            ids, route, "claude", head, refs
        )

    def edit(self, name: str) -> None:
        self.hook(
            "PostToolUse",
            tool_name="Edit",
            tool_input={"file_path": str(self.repo / name)},
            tool_response={},
        )

    def lines(self) -> list[str]:
        return self.lab.lines(self.repo, "mem/private")

    def end(self) -> list[str]:
        """The lines that the session's end adds."""
        self.hook("SessionEnd", reason="prompt_input_exit")
        worker.run(str(self.repo / ".git"), self.lab.env, linger=0.0, wait=30.0)
        assert worker_log.lines(str(self.repo / ".git/mem")) == []
        new = [line for line in self.lines() if line not in self.old]
        self.old.update(new)
        return new


def test_a_session_costs_a_kilobyte_and_what_brings_nothing_new_costs_nothing(lab: Lab) -> None:
    here = Long(lab)
    here.hook("SessionStart", source="startup")
    at_start = session.Notes(str(here.repo / ".git/mem"), UUID).read()["shown"]
    assert set(at_start) & set(here.ids)
    rest = [id for id in here.ids if id not in at_start]
    here.tell(rest, "prompt")
    used = here.ids[:10]
    for n in range(5):
        here.edit(f"s{n}.py")
    here.hook(
        "Stop", last_assistant_message="As " + ", ".join(f"[{id[:8]}]" for id in used[3:]) + " say."
    )
    (line,) = here.end()
    told = len({*at_start, *here.ids})
    data = json.loads(line)
    assert sum(len(text) // 8 for text in data["shown"].values()) == told >= 40
    assert len(data["use"]) == 10 and data["use"][short.pack([used[3]])] == [1, 1, 1]
    # All but ids, numbers and names of fields, which are the same in each session.
    hashes = 3 * len(data["head"])
    assert len(line) == 809 + hashes + 8 * (told - 40) + sum(
        len(json.dumps(v, separators=(",", ":"))) for v in data["use"].values()
    )
    assert len(line) + 1 <= (1_000 if len(data["head"]) == 40 else 1_072)
    (shown,) = lab.json(here.repo, "receipts", "--session", UUID)
    assert sorted(id for ids in shown["shown"].values() for id in ids) == sorted(
        {*at_start, *here.ids}
    )
    assert shown["used"] == dict.fromkeys(sorted(used[:5]), 1)
    feedback = lab.json(here.repo, "stats")["feedback"]
    assert (feedback["injected"], feedback["used"], feedback["answers_from_memory"]) == (
        told,
        10,
        1,
    )

    here.hook("SessionStart", source="resume")
    for _ in range(20):
        here.hook("UserPromptSubmit", prompt="go on")
        here.tell(rest, "prompt")
    here.edit("README.md")
    assert here.end() == []


def test_after_a_resumption_only_what_is_new_is_written(place: Place) -> None:
    a, b, c = place.ids
    place.session(UUID, [a, b])
    place.tend()
    place.session(UUID, [a, b, c], cited=[a])
    place.tend()
    first, second = sorted(place.records(), key=lambda r: "use" in r)
    assert (first["shown"], second["shown"]) == (
        {"prompt": short.pack([a, b])},
        {"prompt": short.pack([c])},
    )
    assert {row[0]: row[2:4] for row in place.table()} == {
        a: (1.0, 0.0),
        b: (0.0, confidence.NEGLECT["prompt"]),
        c: (0.0, confidence.NEGLECT["prompt"]),
    }


@pytest.fixture
def place(lab: Lab) -> Place:
    return Place(lab)


def write(place: Place, ref: str, *records: dict[str, Any]) -> None:
    store = place.store()
    store.append(ref, [("", record.dump(data)) for data in records], "lines")
    store.close()


def test_records_with_whole_ids_count_beside_those_with_short_names(place: Place) -> None:
    a, b, c = place.ids
    name = UUID[:-1] + "0"
    old: list[dict[str, Any]] = [
        {
            "v": 1,
            "op": "receipt",
            "id": "1" * 32,
            "session": name,
            "agent": "claude",
            "ended": "2026-01-01T00:00:00Z",
            "shown": {"prompt": [a, b]},
            "used": {b: 2},
        },
        {
            "v": 1,
            "op": "feedback",
            "id": "2" * 32,
            "session": name,
            "shown": {"prompt": [a, b]},
            "cited": {a: 1},
            "touched": {b: 2},
            "answers": 1,
        },
    ]
    write(place, "private", *old)
    place.session(UUID, [a, c], cited=[a])
    place.tend()
    assert {row[0]: row[2:4] for row in place.table()} == {
        a: (2.0, 0.0),
        b: (0.5, 0.0),
        c: (0.0, confidence.NEGLECT["prompt"]),
    }
    stats = place.lab.json(place.repo, "stats")
    assert (stats["sessions"], stats["shown"], stats["used"]) == (2, {"prompt": 4}, 1)
    assert (
        stats["feedback"]["injected"],
        stats["feedback"]["used"],
        stats["feedback"]["answers_from_memory"],
    ) == (4, 3, 2)
    (found,) = place.lab.json(place.repo, "receipts", "--session", name)
    assert (found["shown"], found["used"], found["ended"]) == (
        {"prompt": [a, b]},
        {b: 2},
        "2026-01-01T00:00:00Z",
    )
    hits = place.lab.json(place.repo, "recall", "shop database orders invoices transaction")["hits"]
    assert next(h for h in hits if h["id"] == a)["use"] == {
        "used": 2,
        "ignored": 0,
        "contradicted": 0,
    }


@pytest.mark.parametrize("twin_first", [True, False])
def test_a_short_name_that_two_memories_share_counts_for_neither(
    place: Place, twin_first: bool
) -> None:
    a, b, _ = place.ids
    twin = {
        "v": 1,
        "op": "create",
        "id": a[:12] + "f" * 20,
        "body": "a forged name",
        "at": "2026-01-01T00:00:00Z",
    }
    if twin_first:
        write(place, "team", twin)
    place.session(UUID, [a, b], cited=[a, b])
    place.tend()
    if not twin_first:
        assert len(place.table()) == 2
        write(place, "team", twin)
    assert [row[0] for row in place.table()] == [b]
    (found,) = place.lab.json(place.repo, "receipts")
    assert sorted(found["shown"]["prompt"]) == sorted([a[:12], b])
    assert place.lab.json(place.repo, "stats")["feedback"]["by_type"]["gone"] == {
        "injected": 1,
        "used": 1,
        "ignored": 0,
    }
    write(place, "private", {"v": 1, "op": "feedback", "id": "3" * 32, "contradicted": {a: []}})
    assert [(row[0], row[4]) for row in place.table()] == sorted([(a, 1), (b, 0)])
    place.lab.mem(place.repo, "purge", twin["id"], "--force")
    assert {row[0]: row[4] for row in table(place.store())} == {a: 1, b: 0}


def test_short_names_are_read_as_they_were_packed_and_nothing_else_is_one() -> None:
    rng = random.Random(7)
    for n in (0, 1, 2, 3, 40):
        ids = [f"{rng.getrandbits(128):032x}" for _ in range(n)]
        text = short.pack(ids)
        assert len(text) == 8 * n and short.unpack(text) == [id[:12] for id in ids]
    for odd in (None, 5, "A", "AAAAAAA=", "AAAA\nAAA", "é" * 8, "AAAAAAA\u0100", ["AAAAAAAA"]):
        assert short.unpack(odd) == []


@pytest.mark.parametrize(
    "change",
    [
        {"session": "a b"},
        {"session": 5},
        {"shown": "AAAAAAAA", "use": []},
        {"shown": {"nowhere": "AAAAAAAA"}, "use": {"AAAAAAAA": [True]}},
        {"shown": {"prompt": "AAAA"}, "use": {"AAAAAAAAAAAAAAAA": [1]}},
        {"shown": {}, "use": {"AAAAAAAA": [-1, 5, 0]}},
        {"open": "AAAAAAAA", "use": {}},
    ],
)
def test_receipts_of_another_shape_say_nothing_of_use(change: dict[str, object]) -> None:
    whole = {
        "op": "receipt",
        "id": "1" * 32,
        "session": UUID,
        "shown": {"prompt": "AAAAAAAA"},
        "use": {"AAAAAAAA": [1]},
    }
    assert len(confidence.rows(whole)) == 2 and confidence.rows({**whole, **change}) == []
