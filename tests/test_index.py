"""The cache after any number of updates is the cache built from nothing; new memories are never
invisible; purged ones are gone.
"""

from __future__ import annotations

import json
import os
import types
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import Lab
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gitmem.core import record
from gitmem.engine import cache as cache_file
from gitmem.engine import cache_check, model_vectors
from gitmem.engine.cache import Cache
from gitmem.engine.filters import Filter
from gitmem.memory import listing, recall
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

    def waiting(self) -> bool:
        return False

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
        store = open_store({"GIT_MEM_ENCODER": "false", "GIT_MEM_HISTORY": "false"}, str(repo))
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
    codes = model_vectors.codes(cache, cache_file.SPACE, 256)
    vectors = dict(model_vectors.read(cache, cache_file.SPACE))
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
            (rows[row], v, codes.codes[row * 32 : row * 32 + 32]) for row, v in vectors.items()
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
        for column in ("status", "scope & 1"):
            plain = f"SELECT {column}, count(DISTINCT id) FROM memory GROUP BY 1"
            counted = cache.db.execute(f"SELECT {column}, {listing._COUNT} GROUP BY 1").fetchall()
            assert counted == cache.db.execute(plain).fetchall()
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
    real, cache = model_vectors.put, cache_file.open_in_memory()
    monkeypatch.setattr(
        model_vectors,
        "put",
        lambda db, space, new: real(
            db, space, {row: bytes(len(v)) for row, v in new.items()} if db is cache.db else new
        ),
    )
    with pytest.raises(AssertionError):
        on(world, cache, lines, [1, 1, 1])


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
