"""The cache after any number of updates is the cache built from nothing; new memories are never
invisible; purged ones are gone.
"""

from __future__ import annotations

import json
import os
import pathlib
import time
import types
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import Lab
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gitmem.core import record
from gitmem.engine import cache as cache_file
from gitmem.engine import cache_check, index
from gitmem.engine.cache import Cache
from gitmem.engine.filters import Filter
from gitmem.hooks import spool
from gitmem.memory import listing, recall, remember
from gitmem.store import Store, open_store

QUERIES = (
    "why did we choose the clock",
    "invoices in cents",
    "retry the payment worker",
    "unknownword",
    "schema \U0001f600 ü",
)
TEXTS = (
    "the retry worker uses a monotonic clock",
    "invoices are stored in cents",
    "the payment worker retries three times",
    "schema migrations run before the deploy",
    "ü and \U0001f600 and \ud83d lone",
    "we chose the clock of the database",
    "---",
    "a",
)
ELSEWHERE = "1" * 40  # a commit that is not here
OPS = (
    "create",
    "create",
    "create",
    "edit",
    "edit",
    "forget",
    "restore",
    "supersede",
    "share",
    "purge",
    "purge line",
    "foreign",
    "odd",
    "feedback",
    "mark",
    "move",
)

Step = tuple[str, int, int, int, int]
Line = tuple[str, bytes, str]  # key, line, scope


class FakeNotes:
    """A notes ref that is a list: what arrives, in any order and portions."""

    def __init__(self, ref: str, git: Any) -> None:
        self.ref = ref
        self.git = git
        self.items: list[tuple[str, bytes]] = []
        self.missing: list[str] = []
        self.unread: dict[str, int] = {}
        self.listed = False
        self.history = types.SimpleNamespace(mended="")

    def tip(self, former: str = "") -> str:
        return str(len(self.items) or "")

    def time(self, tip: str) -> str:
        return ""

    def reflog_size(self) -> str:
        return self.tip()

    def lines(self, tip: str, since: str = "", deep: bool = False) -> Iterator[tuple[str, bytes]]:
        yield from self.items[0 if deep else int(since or 0) : int(tip)]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    lab = Lab(tmp_path_factory.mktemp("index"))
    repo = lab.repo("repo", 2)
    with pytest.MonkeyPatch.context() as patch:
        for name in [n for n in os.environ if n.startswith("GIT_")]:
            patch.delenv(name)
        patch.setenv("HOME", lab.env["HOME"])
        store = open_store({"GIT_MEM_ENCODER": "false"}, str(repo))
        yield store
        store.close()


def dump(data: dict[str, Any]) -> bytes:
    try:
        return record.dump(data)
    except UnicodeEncodeError:  # another tool's line with an escaped lone surrogate
        return json.dumps(data, sort_keys=True).encode()


def lines_of(steps: list[Step], head: str) -> list[Line]:  # noqa: C901
    """Lines that the steps write, each knowing those before it."""
    out: list[Line] = []
    made: list[tuple[str, str, str]] = []  # id, version, anchor
    for number, (op, a, b, c, scope) in enumerate(steps):
        where = ("team", "private", "both")[scope % 3]
        anchor = (head, "", ELSEWHERE)[c % 3]
        key = anchor or "2" * 40
        at = f"2026-01-{1 + b % 3:02d}T00:00:00Z"
        old = made[a % len(made)] if made else None
        common: dict[str, Any] = {"v": 1, "at": at, "n": f"{number:016x}"}
        content: dict[str, Any] = {
            "body": TEXTS[b % len(TEXTS)],
            "type": ("decision", "bugfix", "\ud800")[c % 3],
            "tags": [["x"], ["y", "x"], []][a % 3],
            "paths": [{"path": f"src/{a % 3}.py"}],
            "commit": anchor,
        }
        if a % 3:
            content.update(
                {"patch": f"{a:040x}"}
                if a % 3 == 1
                else {"patch": f"{b:040x}", "base": ELSEWHERE, "branch_patch": f"{c:040x}"}
            )
        if a % 2:
            content["title"] = TEXTS[c % len(TEXTS)]
        if op == "create":
            data = {**common, **content, "op": "create", "id": f"{number:032x}"}
        elif op == "supersede" and old:
            data = {
                **common,
                **content,
                "op": "create",
                "id": f"{number:032x}",
                "after": [v for i, v, _ in made if i == old[0]][-2:],
                "supersedes": [old[0]],
            }
        elif op == "edit" and old:
            data = {
                **common,
                **content,
                "op": "edit",
                "id": old[0],
                "after": [old[1]] if b % 2 else [],
            }
        elif op == "forget" and old:
            data = {
                **common,
                "op": "forget",
                "id": old[0],
                "after": [v for i, v, _ in made if i == old[0]],
            }
        elif op == "restore" and old:
            taken = [v for i, v, _ in made if c % 2 or i == old[0]][-(1 + b % 2) :]
            data = {**common, "op": "restore", "id": old[0], "after": taken}
        elif op in ("share", "feedback") and old:
            data = {**common, "op": op, "id": old[0]}
        elif op == "mark":
            data = record.mark(
                (head, ELSEWHERE)[a % 2],
                f"{b:040x}",
                *((ELSEWHERE, f"{c:040x}") if c % 2 else ("", "")),
            )
            key = str(data["commit"])
        elif op == "move":
            data = {
                **common,
                "op": "move",
                "id": (head, ELSEWHERE, "none")[a % 3],
                "commit": (head, ELSEWHERE, "3" * 40, 7)[b % 4],
            }
            key = str(data["commit"]) if len(str(data["commit"])) == 40 else head
        elif op == "purge" and old:
            data = {**common, "op": "purge", "id": old[0]}
        elif op == "purge line" and old:
            data = {**common, "op": "purge", "id": f"{number:032x}", "lines": [old[1], 7]}
        elif op == "odd":
            data = {
                **common,
                "op": "create",
                "id": ("\ud800", "x" * 40, "")[a % 3],
                "body": TEXTS[b % len(TEXTS)],
                "title": 7,
                "type": ["t"],
                "tags": {"a": 1},
                "after": [3, "zz", "00"],
                "paths": "src",
                "confidence": "high",
                "at": None,
                "commit": 9,
            }
        else:
            data = {}
        line = (
            dump(data)
            if data
            else (
                b"a remark by hand",
                b"{broken",
                b'{"v": 2, "op": "create", "id": "n"}',
                b"\xff\xfe",
                b"[1]",
            )[a % 5]
        )
        if data and data["op"] in ("create", "edit", "forget", "restore", "mark", "move"):
            made.append((str(data["id"]), record.version_of(line), anchor))
        out += [(key, line, s) for s in (("team", "private") if where == "both" else (where,))]
        if b % 5 == 0:
            out.append((head, line, "team"))  # a rewrite took it along, or a merge doubled it
    return out


def facts(store: Store, cache: Cache) -> dict[str, Any]:
    """All a cache says, free of row numbers."""
    db = cache.db
    codes, vectors = (
        cache.codes(),
        cache.vectors(r for (r,) in db.execute("SELECT row FROM memory")),
    )
    rows = {
        row: (id, version)
        for row, id, version in db.execute(
            "SELECT m.row, m.id, l.version FROM memory m JOIN line l ON l.n = m.line"
        )
    }
    out: dict[str, Any] = {
        "line": sorted(db.execute("SELECT version, memory, op, scope, raw FROM line")),
        "cover": sorted(
            db.execute("SELECT c.version, l.version FROM cover c JOIN line l ON l.n = c.by")
        ),
        "effective_cover": sorted(
            db.execute(
                "SELECT c.version, l.version FROM effective_cover c JOIN line l ON l.n = c.by"
            )
        ),
        "move": sorted(
            db.execute("SELECT m.old, m.new, l.version FROM move m JOIN line l ON l.n = m.n")
        ),
        "anchor": sorted(db.execute("SELECT * FROM patch_mark")),
        "orphans": (
            db.execute(
                "SELECT (SELECT count(*) FROM move WHERE n NOT IN (SELECT n FROM line)), (SELECT"
                " count(*) FROM cover WHERE by NOT IN (SELECT n FROM line))"
            ).fetchone()
        ),
        "memory": sorted(
            db.execute(
                "SELECT m.id, l.version, m.status, m.scope, m.type, m.at, m.author,"
                " m.source, m.anchor, m.digest FROM memory m JOIN line l ON l.n = m.line"
            ),
            key=repr,
        ),
        "label": sorted(
            (k, v, rows[row]) for k, v, row in db.execute("SELECT kind, value, row FROM label")
        ),
        "term": dict(db.execute("SELECT word, df FROM term")),
        "vector": sorted(
            (rows[row], v, codes[row * 32 : row * 32 + 32]) for row, v in vectors.items()
        ),
        "count": cache.count(),
        "counts": listing.counts(store, cache),
    }
    out["list"] = [
        (m["id"], m["body"], m["title"], m["tags"], m["scope"], m["status"])
        for m in listing.list_memories(store, Filter(), all_branches=True)[0]
    ]
    out["hidden"] = [
        (m["id"], m["status"])
        for m in listing.list_memories(
            store, Filter(superseded=True, types=["decision"]), all_branches=True
        )[0]
    ]
    for query in QUERIES:
        for wanted in (Filter(), Filter(types=["decision"]), Filter(tags=["y"])):
            answer = recall.recall(store, query, wanted, limit=100)
            # Every part of a score, to the last bit: all are made of whole numbers, in one order.
            hits = sorted(
                (h["id"], h["body"], h["score"], h["retrieval"], sorted(h["explain"].items()))
                for h in answer["hits"]
            )
            out[f"{query} {wanted.types} {wanted.tags}"] = (
                hits,
                answer["verdict"],
                answer["probability"],
                answer["searched"],
            )
    return out


def on(store: Store, cache: Cache, lines: list[Line], portions: list[int]) -> dict[str, Any]:
    """The facts of a cache that took the lines in portions."""
    refs = {
        scope: FakeNotes(f"refs/notes/fake/{scope}", store.repo.git)
        for scope in ("team", "private")
    }
    before, sources = store._cache, store.sources
    store._cache, store.sources = cache, list(refs.items())  # type: ignore[misc]
    try:
        at = 0
        for size in [*portions, len(lines)]:
            for key, line, scope in lines[at : at + size]:
                refs[scope].items.append((key, line))
            at += size
            store.with_cache(lambda c: None)
        assert cache_check.check_all(cache, store.table) == ""
        return facts(store, cache)
    finally:
        store._cache, store.sources = before, sources


STEPS = st.lists(
    st.tuples(st.sampled_from(OPS), *[st.integers(0, 11)] * 4), min_size=1, max_size=25
)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    derandomize=True,
)
@given(
    steps=STEPS,
    shuffle=st.randoms(use_true_random=False),
    portions=st.lists(st.integers(1, 6), max_size=8),
)
@example(
    steps=[("create", 0, 0, 0, 0), ("supersede", 0, 1, 0, 0), ("purge", 1, 0, 0, 0)],
    shuffle=None,
    portions=[1, 1, 1],
)
@example(
    steps=[("create", 0, 0, 0, 0), ("forget", 0, 0, 0, 0), ("purge line", 1, 0, 0, 0)],
    shuffle=None,
    portions=[1, 1, 1],
)
@example(
    steps=[("create", 0, 0, 0, 1), ("edit", 0, 1, 0, 0), ("edit", 0, 2, 0, 2)],
    shuffle=None,
    portions=[1, 1, 1],
)
def test_cache_after_any_updates_equals_a_cache_built_from_nothing(
    world: Store, steps: list[Step], shuffle: Any, portions: list[int]
) -> None:
    lines = lines_of(steps, world.repo.head())
    if shuffle:
        shuffle.shuffle(lines)
    grown = on(world, cache_file.open_in_memory(), lines, portions)
    built = on(world, cache_file.open_in_memory(), lines, [])
    backwards = on(world, cache_file.open_in_memory(), lines[::-1], [])
    assert grown["orphans"] == (0, 0)
    for name in built:
        assert grown[name] == built[name], name
        assert backwards[name] == built[name], name


def test_the_comparison_notices_a_wrong_vector(
    world: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The probe: an update that stores something else is seen."""
    lines = lines_of(
        [("create", 0, 0, 0, 0), ("create", 2, 1, 0, 0), ("forget", 0, 0, 0, 0)], world.repo.head()
    )
    real = cache_file.Cache.set_vectors
    monkeypatch.setattr(
        cache_file.Cache,
        "set_vectors",
        lambda self, new: real(self, [(row, bytes(len(v))) for row, v in new]),
    )
    with pytest.raises(AssertionError):
        on(world, cache_file.open_in_memory(), lines, [1, 1, 1])


@pytest.mark.parametrize(
    "wrong",
    [
        "UPDATE patch_mark SET uses = uses + 1",
        "DELETE FROM patch_mark",
        "INSERT INTO move SELECT 'x', 'y', n FROM line",
        "DELETE FROM move",
        "UPDATE move SET new = old",
    ],
)
def test_the_full_check_finds_wrong_marks_and_moves(world: Store, wrong: str) -> None:
    head = world.repo.head()
    cache = cache_file.open_in_memory()
    on(
        world,
        cache,
        lines_of([("create", 1, 0, 0, 0), ("move", 0, 2, 0, 0), ("mark", 0, 0, 1, 0)], head),
        [],
    )
    cache.db.execute(wrong)
    assert cache_check.check_all(cache).startswith(
        "the m"
    ) and "of commits differ from the records" in cache_check.check_all(cache)


def test_many_hidden_memories_do_not_take_the_place_of_candidates(world: Store) -> None:
    """Hidden rows keep a zero code; 600 of them must not push the 30 living ones out of the vector
    candidates.
    """
    steps: list[Step] = [("create", 0, i % 6, 0, 0) for i in range(30)]
    base = lines_of(steps, world.repo.head())
    more = lines_of([*steps, *[("create", 0, 1, 0, 0)] * 300], world.repo.head())[len(base) :]
    forgets = [
        (
            key,
            dump(
                {
                    "v": 1,
                    "op": "forget",
                    "at": "2026",
                    "n": f"f{i}",
                    "id": json.loads(line)["id"],
                    "after": [record.version_of(line)],
                }
            ),
            scope,
        )
        for i, (key, line, scope) in enumerate(more)
    ]
    grown = on(
        world, cache_file.open_in_memory(), [*base, *more, *forgets], [len(base) + len(more)]
    )
    plain = on(world, cache_file.open_in_memory(), base, [])
    for query in QUERIES:
        assert grown[f"{query} [] []"] == plain[f"{query} [] []"]


# With git


def drafts(count: int, word: str = "invoice") -> str:
    return "".join(
        json.dumps({"body": f"{word} number {i} is stored in cents", "source": f"{word}:{i}"})
        + "\n"
        for i in range(count)
    )


def push(lab: Lab, clone: pathlib.Path) -> None:
    lab.git(clone, "push", "-q", "origin", "refs/notes/mem/team")


def pull(lab: Lab, clone: pathlib.Path) -> None:
    lab.git(
        clone, "fetch", "-q", "origin", "+refs/notes/mem/team:refs/notes/remotes/origin/mem/team"
    )
    lab.git(
        clone,
        "notes",
        "--ref=mem/team",
        "merge",
        "-q",
        "-s",
        "cat_sort_uniq",
        "refs/notes/remotes/origin/mem/team",
    )


def pair(lab: Lab) -> tuple[pathlib.Path, pathlib.Path]:
    seed = lab.repo("seed", 1)
    lab.git(lab.root, "clone", "-q", "--bare", str(seed), "hub.git")
    for name in "ab":
        lab.git(lab.root, "clone", "-q", "hub.git", name)
    return lab.root / "a", lab.root / "b"


def test_fifty_memories_that_stock_git_brought_a_second_ago_are_found_by_meaning(lab: Lab) -> None:
    ours, theirs = pair(lab)
    lab.mem(ours, "remember", "the retry worker uses a monotonic clock")
    push(lab, ours)
    lab.mem(ours, "list")
    pull(lab, theirs)
    lab.mem(theirs, "remember", "--jsonl", "-", stdin=drafts(49, "ledger"))
    lab.mem(theirs, "remember", "the physician prescribed antibiotics against the infection")
    push(lab, theirs)
    pull(lab, ours)
    answer = lab.json(ours, "recall", "doctor gave medicine", "--hot", rc=(0, 1))
    assert not answer["degraded"] and answer["searched"] == 51
    assert (
        answer["hits"][0]["body"].startswith("the physician")
        and answer["hits"][0]["retrieval"] == "vector"
    )


def test_more_than_two_hundred_answer_degraded_while_a_process_catches_up(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "the retry worker uses a monotonic clock")
    lab.mem(repo, "list")
    clone = lab.root / "clone"
    lab.git(lab.root, "clone", "-q", str(repo), "clone")
    lab.git(clone, "fetch", "-q", "origin", "refs/notes/mem/team:refs/notes/mem/team")
    lab.mem(clone, "remember", "--jsonl", "-", stdin=drafts(201))
    lab.git(repo, "fetch", "-q", str(clone), "refs/notes/mem/team:refs/notes/mem/team")
    answer = lab.json(repo, "recall", "which clock does the worker use", "--hot", rc=(0, 1))
    assert (
        answer["degraded"]
        and answer["degraded_reason"]
        and answer["searched"] == 1
        and answer["hits"]
    )
    end = time.monotonic() + 60
    while time.monotonic() < end:
        opened = cache_file.open_cache(str(repo / ".git" / "mem"), create=False)
        assert opened
        count = opened.count()
        opened.close()
        if count == 202:
            break
        time.sleep(0.1)
    assert count == 202
    answer = lab.json(repo, "recall", "which clock does the worker use", "--hot", rc=(0, 1))
    assert not answer["degraded"] and answer["searched"] == 202


def test_exactly_two_hundred_are_taken_in_on_the_spot(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "the retry worker uses a monotonic clock")
    lab.mem(repo, "list")
    store = open_store({"GIT_MEM_ENCODER": "false"}, str(repo))
    remember.remember(store, [json.loads(line) for line in drafts(200).splitlines()])
    store.close()
    answer = lab.json(repo, "recall", "invoice cents", "--hot", rc=(0, 1))
    assert not answer["degraded"] and answer["searched"] == 201


def files_with(repo: pathlib.Path, *needles: bytes) -> list[str]:
    return [
        p.name
        for p in (repo / ".git" / "mem").iterdir()
        for needle in needles
        if needle in p.read_bytes().lower()
    ]


def test_after_a_purge_record_the_text_is_in_no_file_of_the_cache(lab: Lab) -> None:
    repo = lab.repo()
    store = open_store({"GIT_MEM_ENCODER": "false"}, str(repo))
    secret = "xylophone zanzibar quetzalcoatl"
    id = remember.remember(
        store,
        [
            {
                "body": secret + " is the codename",
                "tags": ["wolpertinger"],
                "paths": ["vault/kryptonite.txt"],
            }
        ],
    )[0].id
    remember.remember(store, [json.loads(line) for line in drafts(120).splitlines()])
    listing.list_memories(store, Filter())
    remember.remember(store, [json.loads(line) for line in drafts(30, "order").splitlines()])
    listing.list_memories(store, Filter())
    needles = (b"xylophon", b"zanzibar", b"quetzalcoatl", b"wolpertinger", b"kryptonit")
    assert files_with(repo, *needles)
    store.team.append(
        [("", record.dump({"v": 1, "op": "purge", "id": id, "at": record.now(), "n": "0"}))],
        "purge",
        "A <a@b>",
    )
    found = recall.recall(store, "xylophone zanzibar", Filter(), limit=5)
    assert id not in [h["id"] for h in found["hits"]]
    assert files_with(repo, *needles) == []
    assert store._cache and cache_check.check_all(store._cache, store.table) == ""
    # Built anew, the line is still in the notes: it stays out.
    store.discard()
    assert id not in [m["id"] for m in listing.list_memories(store, Filter(), all_branches=True)[0]]
    assert files_with(repo, *needles) == []
    store.close()
    assert files_with(repo, *needles) == []


def test_a_purge_whose_scrub_failed_is_scrubbed_by_the_next_call(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = lab.repo()
    store = open_store({"GIT_MEM_ENCODER": "false"}, str(repo))
    id = remember.remember(store, [{"body": "xylophone zanzibar"}, {"body": "something else"}])[
        0
    ].id
    listing.list_memories(store, Filter())
    store.team.append(
        [("", record.dump({"v": 1, "op": "purge", "id": id, "at": record.now(), "n": "0"}))],
        "purge",
        "A <a@b>",
    )
    with monkeypatch.context() as patch:
        patch.setattr(Cache, "scrub", lambda self, wait: None)
        listing.list_memories(store, Filter())
    listing.list_memories(store, Filter())
    store.close()
    assert files_with(repo, b"zanzibar") == []


def test_another_embedding_table_replaces_every_vector(lab: Lab) -> None:
    repo = lab.repo()
    store = open_store({"GIT_MEM_ENCODER": "false"}, str(repo))
    remember.remember(store, [json.loads(line) for line in drafts(30).splitlines()])
    listing.list_memories(store, Filter())
    assert store._cache
    store._cache.set_meta("space", "an-older-space")
    store._cache.db.execute(
        "UPDATE vector SET v = zeroblob(length(v)), crc = -1"
    )  # reading one of them would raise
    before = recall.recall(store, "invoice 7 cents", Filter(), limit=3)
    assert before["hits"][0]["explain"]["cosine"] is not None and not before["degraded"]
    assert store._cache.meta("space") == store.table.space
    assert cache_check.check_all(store._cache, store.table) == ""
    store.close()


def test_vectors_of_another_space_take_no_part_where_they_cannot_be_replaced(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = lab.repo()
    store = open_store({"GIT_MEM_ENCODER": "false"}, str(repo))
    remember.remember(store, [json.loads(line) for line in drafts(30).splitlines()])
    listing.list_memories(store, Filter())
    assert store._cache
    store._cache.set_meta("space", "an-older-space")
    with monkeypatch.context() as patch:
        patch.setattr(Cache, "writable", False)
        for wanted in (Filter(), Filter(types=["discovery"])):
            answer = recall.recall(store, "invoice 7 cents", wanted, limit=3)
            assert (
                answer["degraded"]
                and answer["hits"]
                and all(
                    h["retrieval"] == "bm25" and h["explain"]["cosine"] is None
                    for h in answer["hits"]
                )
            )
    with monkeypatch.context() as patch:
        patch.setattr(index, "_RE_EMBED", 10)
        patch.setattr(spool, "ask", lambda common_dir: True)
        answer = recall.recall(store, "invoice 7 cents", Filter(), limit=3, hot=True)
        assert answer["degraded"] and all(h["retrieval"] == "bm25" for h in answer["hits"])
    answer = recall.recall(store, "invoice 7 cents", Filter(), limit=3)
    assert not answer["degraded"] and any(h["retrieval"] != "bm25" for h in answer["hits"])
    store.close()
