"""`recall --hot`, alone or with `--batch`, answers as the prompt hook does, whatever is missing.

Not where more than 200 memories wait and there is no cache: decision 20.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import time
import types

import pytest
from conftest import Lab

from gitmem.agents import hook_cache, inject, prompt_question
from gitmem.embedding import reader
from gitmem.engine import memory_rows
from gitmem.engine.cache import Cache
from gitmem.git import discover
from gitmem.hooks import spool

BODY = "Uploads are retried three times with growing pauses, because the store drops connections"
OTHERS = [
    f"The {thing} of the {place} is painted {colour}, as the owner of the {place} decided"
    for thing in ("door", "fence", "roof", "gate")
    for place in ("barn", "mill", "inn")
    for colour in ("red", "white", "green")
]
QUESTIONS = [
    "what happens when sending a large file breaks off halfway",
    f"is it true: {BODY}?",
    f"who says that {OTHERS[7]}",
    "which colour does the gate of the mill have, and who decided so?",
    "why are uploads retried with growing pauses",
]
LIMITS = (1, 3, 8)

Answer = list[tuple[str, float, str]]


def fill(lab: Lab, repo: pathlib.Path, bodies: list[str]) -> None:
    """Without a worker beside the test."""
    lines = "".join(json.dumps({"body": body}) + "\n" for body in bodies)
    off = {"GIT_MEM_ENCODER": "false"}
    lab.mem(repo, "remember", "--jsonl", "-", stdin=lines, env=off)


def by_hook(lab: Lab, repo: pathlib.Path, question: str) -> tuple[Answer, float]:
    """What the hook has before it leaves out what is not worth telling, and how sure it is."""
    here = discover.find(str(repo), lab.env)
    assert here
    late = types.SimpleNamespace(half=time.monotonic() + 60, slow=time.monotonic() + 60)
    call = types.SimpleNamespace(here=here, deadline=late, environ=lab.env)

    def ask(cache: Cache) -> tuple[Answer, float]:
        search = inject._search(call, cache, {}, reader.read)  # type: ignore[arg-type]
        found, _, sure = search.ask(prompt_question.of(question), inject._eligible(cache, here), 8)
        loaded = memory_rows.load(cache, [hit.row for hit in found])
        return [
            (str(data["id"]), round(hit.score, 4), hit.retrieval)
            for hit, (data, _, _) in zip(found, loaded, strict=True)
        ], round(sure, 4)

    answer, _ = hook_cache.with_memories(here, ask, late.half)
    assert answer
    return answer


@pytest.mark.each
@pytest.mark.parametrize("state", ["no vectors", "some vectors", "all vectors", "no cache"])
def test_recall_hot_and_its_batch_answer_as_the_hook(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    del lab.env["GIT_MEM_ENCODER"]
    monkeypatch.delenv("GIT_MEM_ENCODER", raising=False)
    repo = lab.repo()
    fill(lab, repo, OTHERS[:-5])
    if state in ("some vectors", "all vectors"):
        lab.mem(repo, "index", "--all")
    fill(lab, repo, [BODY, *OTHERS[-5:]])
    if state == "all vectors":
        lab.mem(repo, "index", "--all")
    if state == "no cache":
        shutil.rmtree(repo / ".git/mem")
        (repo / ".git/mem").write_text("no directory")
    else:
        spool.claim(str(repo / ".git/mem"), os.getpid())  # no worker makes vectors meanwhile
    lines = "".join(json.dumps({"_id": q, "text": q}) + "\n" for q in QUESTIONS)
    settled = 0
    for question in QUESTIONS:
        expected, sure = by_hook(lab, repo, question)
        settled += {"bm25"} == {how for _, _, how in expected}
        for limit in LIMITS:
            told = lab.json(repo, "recall", "--hot", question, f"-n{limit}", rc=(0, 1))
            got = [(hit["id"], hit["score"], hit["retrieval"]) for hit in told["hits"]]
            assert (got, told["probability"]) == (expected[:limit], sure), (question, limit)
    assert bool(settled) == (state in ("no vectors", "some vectors"))
    for limit in LIMITS:
        batch = lab.mem(repo, "recall", "--hot", "--batch", "-", f"-n{limit}", stdin=lines)
        for line in batch.splitlines():
            row = json.loads(line)
            got = [(hit["id"], hit["score"], hit["retrieval"]) for hit in row["hits"]]
            assert got == by_hook(lab, repo, row["_id"])[0][:limit], row["_id"]


def test_a_batch_asks_the_worker_for_what_lacks(lab: Lab) -> None:
    del lab.env["GIT_MEM_ENCODER"]
    repo = lab.repo()
    fill(lab, repo, [BODY, *OTHERS])
    mem = repo / ".git/mem"
    spool.claim(str(mem), os.getpid())
    (mem / "spool").unlink(missing_ok=True)
    line = json.dumps({"_id": "q", "text": QUESTIONS[0]}) + "\n"
    lab.mem(repo, "recall", "--hot", "--batch", "-", stdin=line)
    assert b'"behind"' in (mem / "spool").read_bytes()
