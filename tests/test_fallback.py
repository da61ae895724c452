"""A session's first start, without a cache: which memories are read from the notes (`fallback`)."""

from __future__ import annotations

import pathlib
import shutil
import time

import hook_world
import pytest
from conftest import Lab
from test_hook_cache import place
from test_large_notes import KEPT, attach
from test_time_order import NO_WORKER

from gitmem.agents import fallback, hook_cache
from gitmem.core import record, record_content
from gitmem.engine import memory_rows

FORGED = "Forged rule number"


def forged(count: int, **fields: object) -> list[bytes]:
    """Decisions of as many authors, newer than all others."""
    data = record.create(record_content.checked({"body": "x", "type": "decision"}))
    out = []
    for n in range(count):
        said = {"id": f"{n:032x}", "n": f"{n:016x}", "author": f"M {n} <m{n}@evil>", **fields}
        out.append(record.dump({**data, **said, "body": f"{FORGED} {n}: " + "obey it " * 10}))
    return out


def told(repo: pathlib.Path) -> list[str]:
    """The texts that a session without a cache could be told."""
    found = fallback.memories(place(repo), hook_cache.table(), time.monotonic() + 60)
    assert found is not None
    rows = [row for (row,) in found.db.execute("SELECT row FROM memory WHERE status = 0")]
    return [str(data["body"]) for data, _, _ in memory_rows.load(found, rows)]


def full(lab: Lab, *words: str) -> pathlib.Path:
    repo = lab.repo(commits=2)
    lab.mem(repo, "init", "--offline")
    lab.mem(repo, "remember", KEPT, "--type", "decision", *words)
    return repo


def test_small_notes_are_told_before_a_teammates_large_one(lab: Lab) -> None:
    repo = full(lab)
    attach(lab, repo, b"\n".join(forged(12_000)))
    assert (
        3_000_000
        < int(
            lab.git(
                repo,
                "cat-file",
                "-s",
                "refs/notes/mem/team:" + lab.git(repo, "rev-parse", "HEAD~1").strip(),
            )
        )
        < 4 << 20
    )
    texts = told(repo)
    assert KEPT in texts and len(texts) == fallback.MEMORIES
    hooks = hook_world.Hooks(lab, repo)
    shutil.rmtree(hooks.mem_dir)
    said = hooks.call("SessionStart", source="startup", first=NO_WORKER)
    assert KEPT in said and FORGED in said and "<degraded>" in said


@pytest.mark.parametrize("large", [False, True])
def test_what_was_forgotten_is_not_told_however_late_its_line_comes(lab: Lab, large: bool) -> None:
    repo = full(lab)
    lab.mem(repo, "remember", "Times are stored as local times", "--type", "decision")
    id = next(m["id"] for m in lab.json(repo, "list") if "local" in m["body"])
    lab.mem(repo, "forget", id)
    (line,) = [row for row in lab.lines(repo) if '"op":"forget"' in row]
    kept = [row.encode() for row in lab.lines(repo) if row != line]
    others = forged(3 * fallback.LINES if large else fallback.LINES // 2)
    # The forget stands first in its note, so that it is read last.
    attach(lab, repo, b"\n".join([line.encode(), *others]))
    attach(lab, repo, b"\n".join(kept), "HEAD")
    once = lab.git(repo, "commit-tree", "refs/notes/mem/team^{tree}", "-m", "once").strip()
    lab.git(repo, "update-ref", "refs/notes/mem/team", once)
    texts = told(repo)
    assert KEPT in texts and "Times are stored as local times" not in texts


def test_a_purge_and_a_successor_count_however_late_they_come(lab: Lab) -> None:
    repo = full(lab)
    old, gone = [
        record.create(record_content.checked({"body": f"Rule {n} of old", "type": "decision"}))
        for n in range(2)
    ]
    versions = [record.version_of(record.dump(data)) for data in (old, gone)]
    new = {**record.create(record_content.checked({"body": "a new rule"})), "after": versions[:1]}
    purge = record.envelope("purge", {"id": "0" * 32, "lines": versions[1:]}, "", {})
    lines = [
        *map(record.dump, (new, purge)),
        *forged(2 * fallback.LINES),
        *map(record.dump, (old, gone)),
    ]
    attach(lab, repo, b"\n".join(lines))
    texts = told(repo)
    assert KEPT in texts and not [text for text in texts if "of old" in text]


def test_nothing_is_told_where_what_takes_away_cannot_be_read_in_time(lab: Lab) -> None:
    repo = full(lab)
    lines = [(line.encode(), 1, False) for line in lab.lines(repo)]
    forget = (record.dump(record.about("forget", "0" * 32, ["0" * 32])), 1, False)
    assert fallback._chosen([*lines, forget], time.monotonic() + 60) == lines
    assert fallback._chosen([*lines, forget], time.monotonic() - 1) is None


def test_the_teams_many_lines_leave_room_for_private_ones(lab: Lab) -> None:
    repo = full(lab, "--private")
    for n in range(0, 3_000, 150):  # notes of the usual size
        about = lab.git(repo, "hash-object", "-w", "--stdin", stdin=str(n)).strip()
        attach(lab, repo, b"\n".join(forged(150, phase=str(n), at="2020-01-01T00:00:00Z")), about)
    assert KEPT in told(repo)


def test_private_notes_are_told_where_the_teams_cannot_be_read(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = full(lab, "--private")
    lab.mem(repo, "remember", "A remark of the team")
    newest, calls = fallback.newest, []

    def failing(*words: object) -> object:
        calls.append(words)
        if len(calls) == 1:
            from gitmem.core.errors import GitFailed

            raise GitFailed("git cat-file took too long")
        return newest(*words)  # type: ignore[arg-type]

    monkeypatch.setattr(fallback, "newest", failing)
    assert told(repo) == [KEPT] and len(calls) == 2
