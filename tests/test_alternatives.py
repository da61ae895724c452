"""A memory that was edited in two places: one memory everywhere, united or with alternatives."""

from __future__ import annotations

import atexit
import functools
import json
import pathlib
import shutil
import tempfile
from typing import Any

import pytest
from conftest import Lab
from places import opened

from gitmem.agents import inject
from gitmem.core import record
from gitmem.engine import cache_check
from gitmem.engine.cache import Cache
from gitmem.engine.filters import Filter
from gitmem.engine.memory_rows import TEAM
from gitmem.engine.search import Search
from gitmem.memory import listing, memories, recall, view

TEXT = "Orders and invoices are kept in Postgres"
HERE, THERE = "Orders are kept in Postgres 16", "The ledger is kept in SQLite"


@functools.cache
def first_team() -> tuple[pathlib.Path, str]:
    """The directory of a hub and three clones that have one memory, and its id."""
    root = pathlib.Path(tempfile.mkdtemp(prefix="team-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    lab = Lab(root)
    lab.git(root, "clone", "-q", "--bare", str(lab.repo("seed")), "hub.git")
    for name in "abc":
        lab.git(root, "clone", "-q", "hub.git", name)
    id = lab.json(root / "a", "remember", TEXT, "--tag", "db", "--path", "a.py")["id"]
    for name in "abc":
        lab.mem(root / name, "sync")
    return root, id


@pytest.fixture
def team(lab: Lab) -> tuple[list[pathlib.Path], str]:
    """Three clones that have one memory."""
    root, id = first_team()
    for name in ("hub.git", *"abc"):
        shutil.copytree(root / name, lab.root / name)
    clones = [lab.root / name for name in "abc"]
    for clone in clones:
        lab.git(clone, "remote", "set-url", "origin", str(lab.root / "hub.git"))
    return clones, id


def settle(lab: Lab, clones: list[pathlib.Path], how: str) -> None:
    """All clones get what the others have, by `sync` or by stock git."""
    for _ in range(2):
        for clone in clones:
            if how == "sync":
                lab.mem(clone, "sync")
                continue
            ref, track = "refs/notes/mem/team", "refs/notes/remotes/origin/mem/team"
            lab.git(clone, "fetch", "-q", "origin", f"+{ref}:{track}")
            lab.unite(clone, track)
            lab.git(clone, "push", "-q", "origin", ref)


def whole(repo: pathlib.Path) -> list[dict[str, Any]]:
    """What is listed; the cache is sound, and one built anew says the same."""
    with opened(repo) as store:
        items = listing.list_memories(store, Filter())[0]
        assert store.with_cache(lambda cache: cache_check.check_all(cache, store.table))[0] == ""
        store.discard()
        assert listing.list_memories(store, Filter())[0] == items
        assert store.with_cache(lambda cache: cache_check.check_all(cache, store.table))[0] == ""
    return items


@pytest.mark.parametrize("how", ["sync", "cat_sort_uniq"])
def test_tags_added_in_three_clones_are_one_memory(
    lab: Lab, team: tuple[list[pathlib.Path], str], how: str
) -> None:
    clones, id = team
    for n, clone in enumerate(clones):
        lab.mem(clone, "edit", id, "--tag", "db", "--tag", f"t{n}")
    settle(lab, clones, how)
    for clone in clones:
        (item,) = whole(clone)
        assert (item["id"], item["tags"]) == (
            id,
            ["db", "t0", "t1", "t2"],
        ) and "alternatives" not in item
        assert lab.mem(clone, "list").count("\n") == 1
        assert "HIT: 1 among 1 memory" in lab.mem(clone, "recall", "where are the orders kept")
        assert [m["id"] for m in lab.json(clone, "list", "--tag", "t2")] == [id]
    with opened(clones[0]) as store:
        cache = store.with_cache(lambda cache: cache)[0]
        cache.db.execute("INSERT INTO signature SELECT n, 'good', 'ada' FROM line")
        signed = Filter()
        signed.signatures = ["good"]
        assert (signed.count(cache), Filter().count(cache)) == (0, 1)  # nobody signed all of it
        store.discard()
    lab.mem(clones[0], "edit", id, "--tag", "all")  # covers all three
    settle(lab, clones, how)
    assert [[m["tags"] for m in whole(clone)] for clone in clones] == [[["all"]]] * 3


@pytest.mark.parametrize("how", ["sync", "cat_sort_uniq"])
def test_two_texts_are_one_memory_with_alternatives(
    lab: Lab, team: tuple[list[pathlib.Path], str], how: str
) -> None:
    clones, id = team
    one, two, _ = clones
    lab.mem(one, "edit", id, "-m", HERE, "--tag", "here")
    lab.mem(two, "edit", id, "-m", THERE, "--tag", "there")
    settle(lab, clones, how)
    for clone in clones:
        (item,) = whole(clone)
        assert sorted([item["body"], *(a["body"] for a in item["alternatives"])]) == sorted(
            [HERE, THERE]
        )
        assert item["tags"] == item["alternatives"][0]["tags"] == ["here", "there"]
        for text in (HERE, THERE):
            answer = lab.json(clone, "recall", text)
            (hit,) = answer["hits"]
            assert (hit["body"], answer["searched"], len(hit["alternatives"])) == (text, 1, 1)
        told = lab.mem(clone, "recall", HERE)
        assert "HIT: 1 among 1 memory" in told and "edited in two places: 2 versions" in told
        assert len({v["body"] for v in lab.json(clone, "show", id)["versions"]}) == 2
        stats = lab.json(clone, "stats")
        assert (stats["memories"], stats["types"], stats["concurrent"]) == (1, {"discovery": 1}, 1)
        assert len(lab.json(clone, "why", "a.py")) == 1 and len(lab.json(clone, "log")) == 1
        assert len(lab.json(clone, "list", "--at", "HEAD")) == 1
        context = lab.mem(clone, "context")
        assert context.count("<memory ") == 1 and 'versions="2"' in context
        done = lab.run(clone, "git-mem", "export")
        assert len(done.stdout.splitlines()) == 1 and "1 memory has alternatives" in done.stderr
    lab.mem(two, "edit", id, "-m", TEXT)
    settle(lab, clones, how)
    assert [[m["body"] for m in whole(clone)] for clone in clones] == [[TEXT]] * 3


def test_a_prompt_is_told_of_one_memory_and_its_versions(
    lab: Lab, team: tuple[list[pathlib.Path], str]
) -> None:
    clones, id = team
    for clone, text in zip(clones, (HERE, HERE + " now"), strict=False):
        lab.mem(clone, "edit", id, "-m", text)
    settle(lab, clones, "sync")
    with opened(clones[2]) as store:
        search = Search(store.with_cache(lambda cache: cache)[0], store.table.vector)
        rows = [(hit.row, hit.retrieval) for hit in search.ask(HERE, Filter(), 5)[0]]
        told, noted = inject.written(
            inject._load(search.cache, rows, {}, set(), store.repo.head()), "this", 2000
        )
    assert noted[::2] == [id] and told.count("<memory id") == 1 and 'versions="2"' in told


def test_a_private_text_is_not_united_with_one_of_the_team_alone(
    lab: Lab, team: tuple[list[pathlib.Path], str]
) -> None:
    clones, id = team
    one = clones[0]
    lab.mem(one, "edit", id, "--tag", "db", "--tag", "open")
    other = lab.root / "other"
    lab.git(lab.root, "clone", "-q", "hub.git", "other")
    lab.mem(other, "pull")
    lab.mem(other, "edit", id, "--tag", "db", "--tag", "mine")
    line = next(x for x in lab.lines(other) if '"mine"' in x)
    lab.git(one, "notes", "--ref=mem/private", "append", "-m", line)
    assert [m["tags"] for m in lab.json(one, "list", "--scope", "team")] == [["db", "open"]]
    assert [m["tags"] for m in lab.json(one, "list", "--scope", "private")] == [["db", "mine"]]
    assert len(whole(one)) == 1


def test_a_private_text_that_says_all_of_it_does_not_take_the_teams_place(
    lab: Lab, team: tuple[list[pathlib.Path], str]
) -> None:
    (one, two, _), id = team
    lab.mem(one, "edit", id, "--tag", "db", "--tag", "a")
    lab.mem(two, "edit", id, "--tag", "db", "--tag", "a", "--tag", "b")
    line = next(x for x in lab.lines(two) if '"b"' in x)
    lab.git(one, "notes", "--ref=mem/private", "append", "-m", line)
    for scope, tags in ("team", ["a", "db"]), ("private", ["a", "b", "db"]):
        assert [m["tags"] for m in lab.json(one, "list", "--scope", scope)] == [tags]
    assert len(whole(one)) == 1


@pytest.fixture
def disputed(lab: Lab, team: tuple[list[pathlib.Path], str]) -> tuple[pathlib.Path, str]:
    """A clone where one memory has two texts."""
    (one, two, _), id = team
    lab.mem(one, "edit", id, "-m", HERE)
    lab.mem(two, "edit", id, "-m", THERE)
    for line in (x for x in lab.lines(two) if THERE in x):
        lab.git(one, "notes", "--ref=mem/team", "append", "-m", line)
    return one, id


@pytest.mark.parametrize("as_json", [False, True])
def test_an_edit_that_settles_a_dispute_says_so_and_what_it_replaced(
    lab: Lab, disputed: tuple[pathlib.Path, str], as_json: bool
) -> None:
    repo, id = disputed
    done = lab.run(
        repo, "git-mem", "edit", id, "--tag", "db", "--tag", "new", *["--json"] * as_json
    )
    assert done.returncode == 0
    (item,) = lab.json(repo, "list")
    assert "alternatives" not in item and item["tags"] == ["db", "new"]
    other = ({HERE, THERE} - {item["body"]}).pop()
    assert (
        "note: settled: 2 versions stood beside each other, and this one takes the place of"
        f" '{other}'" in done.stderr
    )
    if as_json:
        (settled,) = json.loads(done.stdout)["settled"]
        assert settled["body"] == other and len(settled["version"]) == 32
    done = lab.run(repo, "git-mem", "edit", id, "--tag", "db", "--json")
    assert "settled" not in done.stdout and "settled" not in done.stderr


def test_what_is_read_for_the_versions_of_a_memory_grows_with_their_number(
    lab: Lab, disputed: tuple[pathlib.Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    repo, id = disputed
    (created,) = [
        r for x in lab.lines(repo) if (r := record.parse(x.encode())) and r.op == "create"
    ]
    lines = [
        record.dump(record.edit(id, {"body": f"text {n}"}, [created.version])) for n in range(20)
    ]
    lab.git(repo, "notes", "--ref=mem/team", "append", "-m", b"\n".join(lines).decode())
    asked: list[int] = []
    read = view.load
    monkeypatch.setattr(
        view, "load", lambda cache, rows: (asked.extend(rows), read(cache, rows))[1]
    )
    with opened(repo) as store:
        item, _ = listing.show(store, id)
    assert len(item["versions"]) == 22 and len(asked) <= 3 * 22
    for n, version in enumerate(item["versions"]):
        others = [v["body"] for v in item["versions"][:n] + item["versions"][n + 1 :]]
        assert [a["body"] for a in version["alternatives"]] == others


def test_verify_judges_every_line_behind_what_is_shown(
    lab: Lab, team: tuple[list[pathlib.Path], str]
) -> None:
    """Two lines of one content are shown once, and so are two that are united."""
    (one, *_), id = team
    (created,) = [r for x in lab.lines(one) if (r := record.parse(x.encode()))]
    alike = [
        record.dump(record.edit(id, {"body": TEXT, "tags": ["db", t]}, [created.version]))
        for t in ("a", "a", "b")
    ]
    lab.git(one, "notes", "--ref=mem/team", "append", "-m", b"\n".join(alike).decode())
    lab.mem(one, "remember", "Another memory of the team")
    assert len(whole(one)) == 2
    wanted = {record.version_of(line) for line in alike}
    assert {i["version"] for i in lab.json(one, "verify", id)} == wanted
    items = lab.json(one, "verify")
    assert {i["version"] for i in items} > wanted and len(items) == 4
    lab.mem(one, "forget", id)
    assert len(lab.json(one, "verify", id)) == 1 and len(lab.json(one, "verify")) == 1


@pytest.mark.parametrize("private_first", [False, True])
@pytest.mark.parametrize("how", ["twin", "twin of one of two", "forgotten"])
def test_a_private_twin_does_not_hide_the_teams_text(
    lab: Lab, team: tuple[list[pathlib.Path], str], private_first: bool, how: str
) -> None:
    """Two lines of one content, by time and by version in either order."""
    (one, two, _), id = team
    (created,) = [record.parse(x.encode()) for x in lab.lines(one)]
    assert created
    lines = [
        record.dump(
            {
                **record.edit(id, {"body": TEXT, "tags": ["a", "db"]}, [created.version]),
                "at": f"2026-01-02T03:04:0{n}Z",
                "n": f"{n:016x}",
            }
        )
        for n in range(2)
    ]
    lines.sort(key=record.version_of if how == "forgotten" else None)
    mine, theirs = lines if private_first else lines[::-1]
    lab.git(one, "notes", "--ref=mem/private", "append", "-m", mine.decode())
    lab.git(one, "notes", "--ref=mem/team", "append", "-m", theirs.decode())
    if how == "forgotten":
        seen = [created.version, *map(record.version_of, lines)]
        line = record.dump(record.about("forget", id, seen)).decode()
        lab.git(one, "notes", "--ref=mem/team", "append", "-m", line)
        with opened(one) as store:
            cache = store.with_cache(lambda cache: cache)[0]
            assert cache.db.execute("SELECT scope FROM memory").fetchall() == [(TEAM,)]
        return
    tags = ["a", "db"]
    if how != "twin":
        lab.mem(two, "edit", id, "--tag", "db", "--tag", "b")
        line = next(x for x in lab.lines(two) if '"b"' in x)
        lab.git(one, "notes", "--ref=mem/team", "append", "-m", line)
        tags = ["a", "b", "db"]  # the two of the team are united
    assert [m["tags"] for m in lab.json(one, "list", "--scope", "team")] == [tags]
    (item,) = whole(one)
    assert (item["scope"], item["tags"]) == ("team", tags) and "alternatives" not in item
    with opened(one) as store:
        found = memories.find(store, id)
        assert (found.scope, [v.data["tags"] for v in found.memory.versions]) == ("team", [tags])


def test_a_damaged_united_text_is_never_shown(
    lab: Lab, team: tuple[list[pathlib.Path], str]
) -> None:
    clones, id = team
    for n, clone in enumerate(clones):
        lab.mem(clone, "edit", id, "--tag", f"t{n}", "--tag", "db")
    settle(lab, clones, "sync")
    with opened(clones[0]) as store:
        store.with_cache(
            lambda cache: cache.keep(
                5.0,
                lambda db: db.execute(
                    "UPDATE united SET raw = CAST(replace(raw, 'Postgres', 'Postgras') AS BLOB)"
                ),
            )
        )
        assert store._cache and "differs" in cache_check.check_all(store._cache, store.table)
        hits = recall.recall(store, TEXT, Filter(), limit=3)["hits"]
        assert [h["body"] for h in hits] == [TEXT]


def test_the_first_of_a_list_are_the_first_of_the_whole_list(
    lab: Lab, team: tuple[list[pathlib.Path], str]
) -> None:
    """Alternatives count once, times that cannot be come last; the index has them in order."""
    clones, id = team
    times = ["2024-01-01", "2099-01-01", "2021-01-01", "2021-01-01", "2023-01-01", "2098-01-01"]
    made = [
        record.create({"body": f"memory {n}", "type": "fix"}, at=f"{day}T00:00:00Z")
        for n, day in enumerate(times)
    ]
    with opened(clones[0]) as store:
        store.append("team", [("", record.dump(data)) for data in made], "from a wrong clock")
    for clone, text in zip(clones, (HERE, THERE, "Both"), strict=False):
        lab.mem(clone, "edit", id, text)
    settle(lab, clones, "sync")
    gone = lab.json(clones[0], "list")[-1]["id"]
    lab.mem(clones[0], "supersede", gone, "memory 7")
    with opened(clones[0]) as store:

        def read(cache: Cache) -> None:
            for wanted in (
                Filter(),
                Filter(superseded=True),
                Filter(since="2022"),
                Filter(paths=["a.py"]),
            ):
                every = listing.rows_of(cache, wanted)
                assert len(every) == wanted.count(cache)
                for limit in range(1, len(every) + 2):
                    assert listing.rows_of(cache, wanted, limit) == every[:limit]
            sql, _ = Filter().sql()
            plan = f"EXPLAIN QUERY PLAN {sql} AND at <= ? ORDER BY at DESC, id, nth, row LIMIT 2"
            steps = [step[3] for step in cache.db.execute(plan, ("2027",))]
            assert steps[0].startswith("SEARCH memory USING INDEX memory_at")
            assert not any("FOR ORDER BY" in step for step in steps)

        store.with_cache(read)
    assert "6 more" in lab.mem(clones[0], "list", "-n", "1")


def test_the_old_text_of_an_edited_memory_adds_no_version(lab: Lab) -> None:
    path, old = lab.repo(), "The ledger is kept in SQLite. " * 10  # without a salt
    id = lab.json(path, "remember", old)["id"]
    lab.mem(path, "export", "-o", "before.jsonl")
    lab.mem(path, "edit", id, HERE)
    assert "0 stored, 1 known" in lab.mem(path, "import", "before.jsonl")
    again = lab.json(path, "remember", old)
    assert (again["id"], again["status"]) == (id, "duplicate") and "edited" in again["reason"]
    (item,) = lab.json(path, "list")
    assert item["body"] == HERE and "alternatives" not in item
    lab.mem(path, "forget", id)
    assert lab.json(path, "remember", old)["status"] == "stored"
    assert [item["body"] for item in lab.json(path, "list")] == [old]
