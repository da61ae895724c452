"""`import gitmem`, as other programs use it: values in, values out."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator

import pytest
from conftest import Lab

import gitmem
from gitmem.core.errors import MemError, NotARepository, Refused, UsageError
from gitmem.embedding import reader
from gitmem.library import Memories

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "library.md"
TEXT = "Use PostgreSQL, not MongoDB: orders and invoices share a transaction"


@pytest.fixture
def repo(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    for name, value in lab.env.items():
        monkeypatch.setenv(name, value)
    return lab.repo("repo", 2)


@pytest.fixture
def mem(repo: pathlib.Path) -> Iterator[Memories]:
    with gitmem.open(repo) as opened:
        yield opened


def test_the_example_of_the_document_runs(
    repo: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = PAGE.read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(example.replace("path/to/repository", str(repo)), {})
    said = capsys.readouterr()
    assert said.out.startswith("HIT\n") and TEXT in said.out and said.err == ""


def test_a_process_beside_reads_what_is_asked(
    repo: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever serves many questions has begun it (`git mem mcp`)."""
    monkeypatch.delenv("GIT_MEM_ENCODER")
    monkeypatch.delenv("GIT_MEM_HISTORY")
    question = "Thanks, looks good! Can you tell where purchases and bills live? Let me know."
    with gitmem.open(repo) as mem:
        mem.remember(TEXT)
        here = mem.recall(question)
        assert not here["degraded"]
        reader.begin()
        monkeypatch.setattr(reader, "read", lambda *_: pytest.fail("read here"))
        try:
            assert mem.recall(question) == here
            assert mem.recall(TEXT)["verdict"] == "HIT"
            mem.recall("where do commits live", only="history")
            assert mem.recall(question) == here
        finally:
            reader._begun.pop().end()


def test_type_checkers_of_other_programs_read_the_annotations() -> None:
    assert (pathlib.Path(gitmem.__file__).parent / "py.typed").is_file()


def test_a_memory_is_what_the_command_line_shows(
    lab: Lab, repo: pathlib.Path, mem: Memories
) -> None:
    stored = mem.remember(TEXT, type="decision", tags=["db"], paths=["src/"])
    assert stored["status"] == "stored"
    assert mem.show(stored["id"][:8]) == lab.json(repo, "show", stored["id"])
    assert mem.list(types=["decision"]) == lab.json(repo, "list", "--type", "decision")
    question = "which database"
    assert mem.recall(question)["hits"][0]["id"] == stored["id"]
    assert mem.recall(question)["verdict"] == lab.json(repo, "recall", question)["verdict"]


def test_what_others_write_and_take_back_is_seen(
    lab: Lab, repo: pathlib.Path, mem: Memories
) -> None:
    assert mem.list() == []
    id = lab.json(repo, "remember", TEXT)["id"]
    assert [m["id"] for m in mem.list()] == [id]
    lab.mem(repo, "forget", id)
    assert mem.recall("which database")["hits"] == []
    mem.restore(id)
    assert lab.json(repo, "list")[0]["id"] == id


def test_a_new_version_and_a_successor(mem: Memories) -> None:
    id = mem.remember(TEXT)["id"]
    assert mem.edit(id, type="gotcha", tags=["a"])["tags"] == ["a"]
    new = mem.supersede(id, "Use SQLite, orders are few", type="decision")
    assert [m["id"] for m in mem.list()] == [new["id"]]
    assert {m["id"] for m in mem.list(superseded=True)} == {id, new["id"]}


def test_conditions(mem: Memories) -> None:
    mem.remember("An old lesson about the build", created_at="2020-05-01T00:00:00Z")
    mem.remember("A new lesson about the build", tags=["ci"], paths=["build/"])
    titles = lambda **given: [m["title"] for m in mem.list(**given)]  # noqa: E731
    assert titles(until="2021-01-01") == ["An old lesson about the build"]
    assert titles(since="2021-01-01T00:00:00+02:00") == ["A new lesson about the build"]
    assert titles(tags=["ci", "other"]) == titles(paths=["build"]) == titles(since="2021-01-01")
    assert titles(scope="private") == []


def test_of_many_drafts_a_bad_one_stops_none(mem: Memories) -> None:
    drafts = [{"body": "one thing"}, {"body": ""}, {"body": "x", "paths": "a"}, {"body": "another"}]
    answers = list(mem.remember_many(drafts))
    assert [isinstance(a, MemError) for a in answers] == [False, True, True, False]
    assert len(mem.list()) == 2


def test_what_is_refused_is_raised(mem: Memories, tmp_path: pathlib.Path) -> None:
    with pytest.raises(Refused, match="secret"):
        mem.remember("the key is AKIAQZ7T2M4X6B8N0V3C")
    with pytest.raises(Refused):
        mem.remember("   ")
    with pytest.raises(UsageError, match="'colour'"):
        mem.list(colour="red")  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="list of texts"):
        mem.recall("a question", types="decision")  # type: ignore[typeddict-item]
    for time in ("long ago", "0001-01-01T00:00:00+14:00"):
        with pytest.raises(UsageError, match="since"):
            mem.list(since=time)
    with pytest.raises(UsageError):
        mem.recall("  ")
    with pytest.raises(UsageError, match="limit is 0"):
        mem.recall("a question", limit=0)
    with pytest.raises(UsageError, match="limit is -1"):
        mem.list(limit=-1)
    with pytest.raises(UsageError, match="scope is 'teams'"):
        mem.list(scope="teams")
    with pytest.raises(UsageError, match="'typ'"):
        mem.edit("0123", typ="decision")  # type: ignore[call-arg]
    with pytest.raises(MemError):
        mem.show("0123")
    with pytest.raises(NotARepository):
        gitmem.open(tmp_path)
    with pytest.raises(MemError, match="no directory"):
        gitmem.open(__file__)


def test_a_repository_that_is_switched_off_gives_nothing(lab: Lab, repo: pathlib.Path) -> None:
    lab.git(repo, "config", "mem.enabled", "false")
    with pytest.raises(MemError, match="switched off"):
        gitmem.open(repo)


def test_a_repository_that_is_gone_stays_gone_and_may_come_back(
    mem: Memories, repo: pathlib.Path
) -> None:
    mem.remember(TEXT)
    assert mem.recall("which database")["hits"]
    (repo / ".git").rename(repo / "away")
    for _ in range(2):
        with pytest.raises(NotARepository, match="gone"):
            mem.recall("which database")
    assert not (repo / ".git").exists()
    (repo / "away").rename(repo / ".git")
    assert mem.recall("which database")["hits"]


def test_all_stores_of_a_process_have_one_table(lab: Lab, repo: pathlib.Path) -> None:
    """`index --to` opens thousands."""
    with gitmem.open(repo) as one, gitmem.open(lab.repo("other")) as other:
        assert one._store.table is other._store.table


def test_a_tip_that_is_lost_meanwhile_is_noticed(lab: Lab, repo: pathlib.Path) -> None:
    with gitmem.open(repo) as mem:
        mem.remember(TEXT)
        mem.remember("The parser must not recurse")
        mem.recall("which database")
        lost = lab.git(repo, "rev-parse", "refs/notes/mem/team").strip()
        (repo / ".git" / "objects" / lost[:2] / lost[2:]).unlink()
        assert mem.recall("which database")["hits"][0]["body"] == TEXT
        assert lab.git(repo, "log", "--format=%h", "refs/notes/mem/team")


def test_a_commit_that_was_pruned_meanwhile_ends_no_question(lab: Lab, repo: pathlib.Path) -> None:
    """The process that reads objects has packs open that git has removed since."""
    with gitmem.open(repo) as mem:
        mem.remember(TEXT, paths=["f0.txt"])
    lab.git(repo, "gc", "-q")
    with gitmem.open(repo) as mem:
        mem.recall("which database")
        lab.git(repo, "commit", "-q", "--amend", "-m", "other words")
        lab.git(repo, "reflog", "expire", "--expire=all", "--all")
        lab.git(repo, "gc", "-q", "--prune=now")
        (hit,) = mem.recall("which database")["hits"]
        assert hit["body"] == TEXT
