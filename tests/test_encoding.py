"""The encoder in the search: asked where words do not settle it, filled in behind, gone with a
memory, never waited for.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
import time
import types
from collections.abc import Iterable

import pytest
from conftest import Lab, until
from hook_world import Hooks, make

from gitmem import doctor, worker
from gitmem.cli import admin
from gitmem.core import common_words, rank, text, verdict
from gitmem.core.errors import MemError
from gitmem.embedding import encoder, encoder_file, reader
from gitmem.embedding.encoder_file import ENCODER_PATH, EncoderFile
from gitmem.engine import cache as cache_file
from gitmem.engine import cache_check, embed, encoding, model_vectors
from gitmem.engine.cache import Cache
from gitmem.engine.filters import Filter
from gitmem.engine.search import Search
from gitmem.hooks import spool, worker_log
from gitmem.memory import recall
from gitmem.store import Store, open_store

BODY = (
    "Uploads are retried three times with growing pauses, because the object store drops"
    " connections"
)
QUESTION = "what happens when sending a large file breaks off halfway"
OTHERS = [
    f"The {thing} of the {place} is painted {colour}"
    for thing in ("door", "fence", "roof")
    for place in ("barn", "mill", "inn")
    for colour in ("red", "white", "green")
]


@pytest.fixture(autouse=True)
def on(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    del lab.env["GIT_MEM_ENCODER"]
    monkeypatch.delenv("GIT_MEM_ENCODER", raising=False)


@pytest.fixture
def hooks(lab: Lab) -> Hooks:
    return make(lab)


def add(lab: Lab, repo: pathlib.Path, bodies: list[str]) -> None:
    """Stores memories, and starts no worker beside the test."""
    lines = "".join(json.dumps({"body": body}) + "\n" for body in bodies)
    off = {"GIT_MEM_ENCODER": "false", "GIT_MEM_HISTORY": "false"}
    lab.mem(repo, "remember", "--jsonl", "-", stdin=lines, env=off)


@pytest.fixture
def repo(lab: Lab) -> pathlib.Path:
    path = lab.repo()
    add(lab, path, [BODY, *OTHERS])
    return path


def first(lab: Lab, repo: pathlib.Path) -> tuple[str, float]:
    """The first hit's text, and how much words counted: half where the encoder was not asked, next
    to nothing where it was.
    """
    hit = lab.json(repo, "recall", "--hot", "--explain", QUESTION, rc=(0, 1))["hits"][0]
    return hit["body"], hit["explain"]["weight"]


def missing(lab: Lab, repo: pathlib.Path) -> int:
    return int(lab.json(repo, "status")["without_better_vectors"])


def opened(lab: Lab, repo: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.chdir(repo)
    return open_store(lab.env)


def test_a_question_in_other_words_finds_what_words_and_table_do_not(
    lab: Lab, repo: pathlib.Path
) -> None:
    made = lab.json(repo, "index", "--all")
    assert (made["made"], made["missing"]) == (len(OTHERS) + 1, 0) and missing(lab, repo) == 0
    body, weight = first(lab, repo)
    assert body == BODY and weight < 0.1
    answer = lab.json(repo, "recall", QUESTION, rc=(0, 1))
    assert (
        answer["hits"][0]["body"] == BODY
        and answer["hits"][0]["retrieval"] == "vector"
        and not answer["degraded"]
    )


def test_what_words_and_table_find_first_is_read_before_there_are_vectors(
    lab: Lab, repo: pathlib.Path
) -> None:
    """Among 500 others that the table takes for no nearer, and which have no vector yet either."""
    add(lab, repo, [f"Note {n}: {OTHERS[n % len(OTHERS)]} in year {n}" for n in range(500)])
    body, weight = first(lab, repo)
    assert body == BODY and weight < 0.1 and missing(lab, repo) == len(OTHERS) + 501
    with_table = lab.json(
        repo,
        "recall",
        "--hot",
        QUESTION,
        rc=(0, 1),
        env={"GIT_MEM_ENCODER": "false", "GIT_MEM_HISTORY": "false"},
    )
    with_encoder = lab.json(repo, "recall", "--hot", QUESTION, rc=(0, 1))
    assert (with_table["verdict"], with_encoder["verdict"]) == ("MISS", "HIT")


def test_a_new_memory_without_a_vector_is_in_the_answer(lab: Lab, repo: pathlib.Path) -> None:
    lab.mem(repo, "index", "--all")
    lab.mem(
        repo,
        "remember",
        "Broken transfers of big files are continued where they broke off",
        env={"GIT_MEM_ENCODER": "false", "GIT_MEM_HISTORY": "false"},
    )
    assert missing(lab, repo) == 1
    hits = lab.json(repo, "recall", "--hot", QUESTION, "-n", "9", rc=(0, 1))["hits"]
    assert "Broken transfers of big files are continued where they broke off" in {
        hit["body"] for hit in hits
    }


def test_a_ticket_half_in_german_finds_what_was_learned_in_english(lab: Lab) -> None:
    """The pair of texts that a search by words and fingerprints was seen to miss."""
    path = lab.repo()
    for body in (
        "Filament Resource policy registration",
        *OTHERS,
        "The admin password is in the vault",
        "Resources are freed on exit",
    ):
        lab.mem(
            path, "remember", body, env={"GIT_MEM_ENCODER": "false", "GIT_MEM_HISTORY": "false"}
        )
    lab.mem(path, "index", "--all")
    found = lab.json(path, "recall", "Resource autorisierung in admin panel", rc=(0, 1))["hits"]
    assert found[0]["body"] == "Filament Resource policy registration"


def test_the_worker_fills_them_in(lab: Lab, repo: pathlib.Path) -> None:
    assert missing(lab, repo) == len(OTHERS) + 1
    worker.run(str(repo / ".git"), lab.env, linger=0.0)
    assert missing(lab, repo) == 0
    assert worker_log.lines(str(repo / ".git" / "mem")) == []


@pytest.mark.parametrize("back", [False, True], ids=["no model chosen", "gone back from one"])
def test_who_writes_asks_for_vectors(lab: Lab, back: bool) -> None:
    path = lab.repo()
    if back:
        lab.mem(path, "model", "use", "none", "--embed")
    lab.mem(path, "remember", BODY)
    until(lambda: missing(lab, path) == 0)


@pytest.mark.parametrize("asks", ["recall", "prompt"])
def test_who_asks_after_the_cache_was_made_anew_gets_vectors_made(hooks: Hooks, asks: str) -> None:
    lab, path = hooks.lab, hooks.repo
    until(lambda: spool.asleep(hooks.mem_dir))  # else a worker that still runs makes them
    lab.mem(path, "index", "--rebuild")
    assert missing(lab, path) > 0
    if asks == "recall":
        lab.mem(path, "recall", QUESTION, rc=(0, 1))
    else:
        hooks.call("UserPromptSubmit", prompt=QUESTION)
    until(lambda: missing(lab, path) == 0)


def test_the_setting_turns_all_of_it_off(lab: Lab, repo: pathlib.Path) -> None:
    lab.mem(repo, "index", "--all")
    lab.git(repo, "config", "mem.encoder", "false")
    assert first(lab, repo)[1] == rank.WEIGHT
    lab.mem(repo, "remember", "one more")
    worker.run(str(repo / ".git"), lab.env, linger=0.0)
    assert lab.json(repo, "status")["without_better_vectors"] is None
    lab.git(repo, "config", "mem.encoder", "true")
    assert missing(lab, repo) == 1


def test_a_vector_goes_with_its_memory_and_the_full_check_knows_it(
    lab: Lab, repo: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.mem(repo, "index", "--all")
    id = next(m["id"] for m in lab.json(repo, "list") if m["body"] == BODY)
    lab.mem(repo, "purge", id, "--force")
    store = opened(lab, repo, monkeypatch)

    def look(cache: Cache) -> tuple[int, str]:
        left = len(list(model_vectors.read(cache, cache_file.ENCODED[0])))
        return left, cache_check.check_all(cache, store.table)

    left, wrong = store.with_cache(look)[0]
    store.close()
    assert (left, wrong) == (len(OTHERS), "")


def test_a_portion_ends_in_time_and_the_next_one_goes_on(
    lab: Lab, repo: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_vectors, "BATCH", 4)
    store = opened(lab, repo, monkeypatch)
    made = store.with_cache(lambda cache: encoding.fill(cache, 0.0))[0]
    assert made == 4, "one batch, whatever the clock says"
    assert store.with_cache(encoding.fill)[0] == len(OTHERS) + 1 - 4
    store.close()


def damaged(lab: Lab, monkeypatch: pytest.MonkeyPatch, change: bytes) -> str:
    """The path of an encoder whose weights were overwritten, in use for the rest of the test; ""
    for none at all.
    """
    path = lab.root / "encoder.bin"
    if change:
        data = bytearray(pathlib.Path(ENCODER_PATH).read_bytes())
        data[900_000:1_200_000] = change * (300_000 // len(change))
        path.write_bytes(data)
    monkeypatch.setattr(reader, "_opened", [])
    for module, name in ((encoder, "Encoder"), (encoder_file, "EncoderFile")):
        monkeypatch.setattr(getattr(module, name).__init__, "__defaults__", (str(path),))
    return str(path)


@pytest.mark.parametrize("change", [b"", b"\xff", b"\x7f"], ids=["none", "nan", "overflow"])
def test_a_damaged_encoder_costs_quality_and_no_answer(
    lab: Lab,
    repo: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    change: bytes,
    capfd: pytest.CaptureFixture[str],
) -> None:
    lab.mem(repo, "index", "--all")
    with_table = lab.json(
        repo,
        "recall",
        QUESTION,
        rc=(0, 1),
        env={"GIT_MEM_ENCODER": "false", "GIT_MEM_HISTORY": "false"},
    )["hits"]
    path = damaged(lab, monkeypatch, change)
    store = opened(lab, repo, monkeypatch)
    answer = recall.recall(store, QUESTION, Filter(), limit=8)
    assert [hit["id"] for hit in answer["hits"]] == [hit["id"] for hit in with_table]
    assert (
        answer["degraded"]
        and "encoder" in answer["degraded_reason"]
        and capfd.readouterr().err == ""
    )
    assert [f.level for f in doctor.examine(store) if path in f.text] == [doctor.BAD]
    store.close()


def test_no_vector_is_stored_that_a_changed_encoder_made(
    lab: Lab, repo: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights that are finite and wrong give no error: the checksum of the file is asked before the
    first vector that stays.
    """
    damaged(lab, monkeypatch, b"\x3c")
    store = opened(lab, repo, monkeypatch)
    assert reader.read("a question")[0] and store.with_cache(encoding.fill)[0] == 0
    assert missing(lab, repo) == len(OTHERS) + 1
    store.close()


def test_two_threads_that_fail_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    found = encoding.embedder()
    assert found

    def fail(texts: list[str]) -> list[bytes]:
        raise ValueError("no such layer")

    monkeypatch.setattr(found, "_one", types.SimpleNamespace(embed=fail))
    with pytest.raises(ValueError, match="no such layer"):
        found.embed(["one", "two"])


def test_without_an_encoder_index_says_so_and_not_that_it_is_off(
    lab: Lab, repo: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged(lab, monkeypatch, b"")
    store = opened(lab, repo, monkeypatch)
    assert store.with_cache(encoding.fill)[0] == 0
    with pytest.raises(MemError, match="cannot be used"):
        admin._better_vectors(store)
    store.close()


def test_a_question_that_finds_no_memory_to_think_in_is_answered_by_the_table(
    lab: Lab, repo: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> list[bytes]:
        raise MemoryError

    monkeypatch.setattr(reader, "read", full)
    store = opened(lab, repo, monkeypatch)
    answer = recall.recall(store, QUESTION, Filter(), limit=8, hot=True)
    assert answer["hits"] and answer["degraded"]
    store.close()


def test_what_says_too_little_is_not_asked() -> None:
    assert not verdict.enough(["go"] * 9) and verdict.enough(["upload", "retri", "paus"])
    assert not verdict.enough(text.query_terms("Great, ok, let's move on to 3.2"))
    assert verdict.enough(text.query_terms("Let's go: which uploads retry, and why the pauses?"))
    for word in [
        "alright",
        "cool",
        "continue",
        "get",
        "go",
        "good",
        "great",
        "hello",
        "hi",
        "let",
        "next",
        "nice",
        "ok",
        "okay",
        "perfect",
        "please",
        "proceed",
        "sure",
        "thanks",
        "yes",
        "yeah",
        "yep",
        "yup",
    ]:
        assert set(text.query_terms(word)) <= common_words.SMALL_TALK, word


# Modules that take 1 to 4 ms, and that a prompt with all vectors does not need. (`struct` reads the
# file of the table, which answers what says too little for the encoder.)
SPARED = {"collections", "operator", "struct", "functools", "re", "gitmem.engine.document"}
PROBE = (
    "import sys, os\nknown = set(sys.modules)\nfrom gitmem.__main__ import main\n"
    "leave, fork = os._exit, os.fork\n"
    "forks = []\nos.fork = lambda: forks.append(pid := fork()) or pid\ndef end(s):\n"
    "    if 0 not in forks:\n        new = set(sys.modules) - known\n"
    f"        slow = 'numpy' if 'numpy' in new else sorted(new & {SPARED})\n"
    "        print(len(forks), slow, file=sys.stderr)\n"
    "    leave(s)\nos._exit = end\nmain()\n"
)


def test_a_prompt_asks_the_encoder_in_a_process_beside_and_loads_no_numpy(hooks: Hooks) -> None:
    def probed(prompt: str) -> str:
        payload = json.dumps(
            {
                "session_id": prompt,
                "cwd": str(hooks.repo),
                "hook_event_name": "UserPromptSubmit",
                "prompt": prompt,
            }
        )
        argv = [sys.executable, "-P", "-c", PROBE, "hook", "UserPromptSubmit"]
        return hooks.lab.run(hooks.repo, *argv, stdin=payload).stderr.strip()

    hooks.lab.env["GIT_MEM_PATIENCE"] = "100"
    hooks.lab.mem(hooks.repo, "index", "--all")
    until(lambda: spool.asleep(hooks.mem_dir))
    question = "clocks in other countries: who turns them into what the reader sees?"
    assert probed(question) == "0 numpy", "no prompt asked before"
    assert probed(f"now {question}") == "1 []"
    assert probed("go on") == "1 ['struct']", "it loads before anybody knows the prompt"
    spool.claim(str(hooks.mem_dir), os.getpid())
    assert probed(f"and {question}") == "0 numpy", "a worker has the other processor"
    spool.claim(str(hooks.mem_dir), 0)
    hooks.lab.git(hooks.repo, "config", "mem.promptContext", "false")
    assert probed("is it off?").startswith("1 ["), "git reads the settings: other modules"
    assert probed("it is off").startswith("0 ["), "the last prompt did not ask"
    hooks.lab.git(hooks.repo, "config", "mem.promptContext", "true")
    hooks.lab.env["GIT_MEM_ENCODER"] = "false"
    assert probed(f"again: {question}").startswith("0 [")


def test_recall_asks_the_encoder_in_a_process_beside(lab: Lab, repo: pathlib.Path) -> None:
    lab.mem(repo, "index", "--all")
    argv = [sys.executable, "-X", "importtime", "-m", "gitmem", "recall", QUESTION, "--json"]
    done = lab.run(repo, *argv)
    assert "gitmem.embedding.reader" in done.stderr
    assert "gitmem.embedding.encoder\n" not in done.stderr, "the process beside loads it"
    answer = json.loads(done.stdout)
    assert answer["hits"][0]["body"] == BODY and not answer["degraded"]
    asked = json.dumps({"_id": "1", "text": QUESTION})
    (line,) = lab.mem(repo, "recall", "--batch", "-", stdin=asked).splitlines()
    scores = [
        [(hit["id"], hit["score"]) for hit in json.loads(one)["hits"]]
        for one in (line, done.stdout)
    ]
    assert scores[0] == scores[1], "a batch asks in its own process"


@pytest.mark.parametrize("made", [False, True], ids=["no vectors yet", "all vectors"])
def test_a_prompt_that_words_settle_waits_for_no_vector_until_all_are_made(
    lab: Lab, repo: pathlib.Path, monkeypatch: pytest.MonkeyPatch, made: bool
) -> None:
    if made:
        lab.mem(repo, "index", "--all")
    asked: list[str] = []
    behind = False

    def encode(question: str, texts: Iterable[str], until: float) -> list[bytes]:
        asked.append(question)
        return []

    def ask(question: str, unasked: bool) -> tuple[str, str, bool]:
        """(the first hit's id, how it was found, whether the encoder was asked)."""
        nonlocal behind
        asked.clear()
        search = Search(cache, store.table.vector, encoder=encode, unasked=unasked)
        hits, _, _ = search.ask(question, Filter(), 5)
        behind = search.behind
        return cache.texts([hits[0].row])[0][2], hits[0].retrieval, bool(asked)

    store = opened(lab, repo, monkeypatch)
    cache = store.with_cache(lambda cache: cache)[0]
    settled = f"is it true: {BODY}?"
    body = " ".join(text.terms(BODY))
    assert ask(settled, True) == ((body, "hybrid", True) if made else (body, "bm25", False))
    assert behind is not made, "the worker is asked for the vectors"
    assert ask(settled, False) == (body, "hybrid", True), "who asked gets the best order"
    assert ask(QUESTION, True)[2] and ask("uploads retried", True)[1:] == ("hybrid", False)
    store.close()


def test_where_texts_are_not_read_the_surer_answer_stands(
    lab: Lab, repo: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question's vector, with none to compare it with, would silence every prompt."""
    store = opened(lab, repo, monkeypatch)
    cache = store.with_cache(lambda cache: cache)[0]

    def ask(read: reader.Read | None = None, until: float = 0.0) -> tuple[list[str], float]:
        search = Search(cache, store.table.vector, encoder=read, reads_until=until)
        hits, _, sure = search.ask("which uploads are retried, and why the pauses?", Filter(), 5)
        return [hit.retrieval for hit in hits], sure

    by_table = ask()
    assert ask(reader.read, time.monotonic()) == by_table
    assert ask(reader.read)[1] >= by_table[1]
    store.close()


def test_of_a_long_question_the_encoder_reads_both_ends() -> None:
    long = "why does the upload fail? " + "pasted words of a log " * 100 + "who can mend it?"
    ends = text.ends(long, 400)
    assert ends.startswith("why does") and ends.endswith("mend it?") and len(ends) == 401
    assert reader.read(long) == reader.read(ends) != reader.read(long[:400])


def test_the_file_names_its_space_without_numpy() -> None:
    assert EncoderFile().space.endswith("-e1") and EncoderFile().dims == 384


def test_the_spaces_that_hooks_know_are_those_of_the_packaged_files() -> None:
    found = EncoderFile()
    assert (embed.StaticTable().space, found.space, found.dims) == (
        cache_file.SPACE,
        *cache_file.ENCODED,
    )
