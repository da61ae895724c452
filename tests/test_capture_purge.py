"""What was purged does not come back from the commit or the conversation that it came from; what
nobody can promise is said in docs/capture.md.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import stat
from typing import Any

import pytest
from conftest import Lab

from gitmem.capture import capture_exclusions, pipeline, sources, suggestions, worker_tasks
from gitmem.capture.candidates import Candidate
from gitmem.store import Store, open_store

SAID = "Remember this: the caracal vault code word is sunflower everywhere"
OTHER = "Remember this: the ledger export runs at four in the morning"
LONG = (
    "Remember this: "
    + "the export job of the billing service writes its files to a bucket that is emptied by"
    " another team every first Monday of a quarter, " * 3
)


def heard(text: str, session: str = "s1", role: str = "user") -> list[Candidate]:
    return [
        Candidate(
            role,
            text,
            session=session,
            source=sources.source_of(session, role, text),
            explicit=True,
        )
    ]


def conversation(path: pathlib.Path, *texts: str) -> str:
    path.write_text(
        "".join(
            json.dumps({"type": "user", "message": {"role": "user", "content": text}}) + "\n"
            for text in texts
        )
    )
    return str(path)


def ended(path: str, session: str) -> list[dict[str, Any]]:
    return [json.loads(sources.ended(path, session, "claude", ""))]


def bodies(lab: Lab, repo: pathlib.Path) -> list[str]:
    return [m["body"] for m in lab.json(repo, "list", "--all")]


def test_a_conversation_is_not_read_again_for_what_was_purged(
    lab: Lab, repo: pathlib.Path, store: Store, tmp_path: pathlib.Path
) -> None:
    (kept,) = pipeline.keep(store, heard(SAID))
    lab.mem(repo, "purge", "--force", kept.id)
    path = conversation(tmp_path / "a.jsonl", SAID, OTHER)
    assert worker_tasks.from_sessions(store, ended(path, "s1")) == [] and bodies(lab, repo) == []
    assert [
        o.status
        for o in worker_tasks.from_sessions(
            store, ended(conversation(tmp_path / "b.jsonl", OTHER), "s2")
        )
    ] == [pipeline.KEPT]


@pytest.mark.parametrize("how", ["import", "named"])
def test_a_commits_line_is_not_read_again_after_its_purge(
    lab: Lab, repo: pathlib.Path, store: Store, how: str
) -> None:
    lab.git(
        repo,
        "-c",
        "core.hooksPath=/dev/null",
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "Move it\n\nDecision: the caracal vault stays closed, because its door sticks\nGotcha: the"
        " driver never drains its own pool",
    )
    lab.mem(repo, "import", "git-log", "HEAD~1..HEAD")
    (purged,) = [m for m in lab.json(repo, "list", "--all") if "caracal" in m["body"]]
    lab.mem(repo, "purge", "--force", purged["id"])
    if how == "import":
        assert "0 kept" in lab.mem(repo, "import", "git-log", "HEAD~1..HEAD")
    else:
        assert {
            o.status
            for o in worker_tasks.from_hooks(
                store, [{"head": lab.git(repo, "rev-parse", "HEAD").strip()}]
            )
        } <= {pipeline.KNOWN, pipeline.SKIPPED}
    assert [b for b in bodies(lab, repo) if "caracal" in b] == [] and len(bodies(lab, repo)) == 1


def test_a_purged_suggestion_of_a_commit_is_not_suggested_again(
    lab: Lab, repo: pathlib.Path, store: Store
) -> None:
    (made,) = suggestions.propose(
        store,
        [{"body": "the caracal vault stays closed", "source": "commit:abc", "confidence": 0.7}],
    )
    lab.mem(repo, "purge", "--force", made.id)
    (again,) = pipeline.keep(
        store,
        [
            Candidate(
                "commit",
                "the caracal vault stays closed",
                source="commit:abc",
                explicit=True,
                type="decision",
            )
        ],
    )
    assert (again.status, again.reason) == (pipeline.KNOWN, "what it said was purged")


@pytest.mark.parametrize("sure", [True, False])
def test_a_long_text_of_the_same_source_is_refused_by_its_id(
    lab: Lab, repo: pathlib.Path, store: Store, sure: bool
) -> None:
    (kept,) = pipeline.keep(store, heard(LONG))
    lab.mem(repo, "purge", "--force", kept.id)
    if not sure:
        lab.git(repo, "config", "mem.captureAuto", "0.99")
    with_settings = open_store(os.environ, str(repo))
    (again,) = pipeline.keep(with_settings, heard(LONG))
    with_settings.close()
    assert again.status == pipeline.REFUSED and "purged" in again.reason and bodies(lab, repo) == []


def test_what_is_said_again_after_a_purge_is_kept_as_the_docs_say(
    lab: Lab, repo: pathlib.Path, store: Store
) -> None:
    (kept,) = pipeline.keep(store, heard(SAID))
    lab.mem(repo, "purge", "--force", kept.id)
    assert [o.status for o in pipeline.keep(store, heard(SAID, "s2"))] == [pipeline.KEPT]


def test_what_was_purged_stays_out_after_the_cache_was_deleted(
    lab: Lab, repo: pathlib.Path, store: Store
) -> None:
    said = [Candidate("commit", SAID, source="commit:abc", explicit=True, type="decision")]
    (kept,) = pipeline.keep(store, said)
    lab.mem(repo, "purge", "--force", kept.id)
    shutil.rmtree(repo / ".git" / "mem")
    assert [o.status for o in pipeline.keep(store, said)] == [pipeline.KNOWN]
    assert bodies(lab, repo) == []


def test_the_mark_tells_neither_text_nor_source(lab: Lab, repo: pathlib.Path, store: Store) -> None:
    (one,), (two,) = pipeline.keep(store, heard(SAID)), pipeline.keep(store, heard(OTHER))
    lab.mem(repo, "purge", "--force", one.id)
    lab.mem(repo, "purge", "--force", two.id)
    file = repo / ".git" / "git-mem-closed"
    lines = file.read_text().split("\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and "s1" not in file.read_text()
    assert len([line for line in lines if line]) == 1, (
        "one session, one line: nothing in it depends on the text"
    )


def test_an_origin_is_a_commits_line_or_a_whole_session(tmp_path: pathlib.Path) -> None:
    assert (
        capture_exclusions.origin("session:a#b#user-12") == "session:a#b"
        and capture_exclusions.origin("commit:1#2") == "commit:1#2"
    )
    assert [
        capture_exclusions.origin(s)
        for s in ("session:#user-12", "adr:x", "", None, 7, "session:x")
    ] == [""] * 6
    (tmp_path / "git-mem-closed").write_bytes(b"\xff torn\nab\n\n")
    assert not capture_exclusions.Closed(str(tmp_path)).has(
        "commit:1"
    ) and not capture_exclusions.Closed(str(tmp_path)).has("")


def test_where_it_cannot_be_marked_nothing_is_purged(
    lab: Lab, repo: pathlib.Path, store: Store
) -> None:
    (kept,) = pipeline.keep(store, heard(SAID))
    (repo / ".git" / "git-mem-closed").mkdir()
    failed = lab.run(repo, "git-mem", "purge", "--force", kept.id)
    assert (
        failed.returncode == 1
        and "nothing was purged" in failed.stderr
        and bodies(lab, repo) == [SAID]
    )
