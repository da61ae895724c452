"""`git mem bench`: figures as defined, a folder through real commands, own memories untouched."""

from __future__ import annotations

import hashlib
import json
import math
import pathlib
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from typing import Any

import pytest
from conftest import Lab, until
from hook_world import SLOW

from gitmem.bench import bar_chart, beir, everyday, known_item, scores
from gitmem.core import text
from gitmem.core.errors import MemError
from gitmem.store import open_store

# --- figures -----------------------------------------------------------------


def test_figures_of_one_question_equal_those_computed_by_hand() -> None:
    found = scores.of_question(["a", "x", "b", "y"], {"a": 1, "b": 2, "c": 1})
    # Gains 1, 0, 3, 0 at the places 1 to 4; the best order has 3, 1, 1.
    dcg = 1 / 1 + 3 / 2
    ideal = 3 / 1 + 1 / math.log2(3) + 1 / 2
    assert found == pytest.approx(
        {"ndcg@10": dcg / ideal, "recall@5": 2 / 3, "recall@10": 2 / 3, "mrr@10": 1}
    )
    assert dcg / ideal == pytest.approx(0.6052, abs=1e-4)


def test_only_ten_places_count_and_five_for_recall_at_five() -> None:
    ranked = [f"x{i}" for i in range(5)] + ["a"] + [f"y{i}" for i in range(4)] + ["b"]
    found = scores.of_question(ranked, {"a": 1, "b": 1})
    assert found["recall@5"] == 0 and found["recall@10"] == 0.5
    assert found["mrr@10"] == pytest.approx(1 / 6)
    assert found["ndcg@10"] == pytest.approx((1 / math.log2(7)) / (1 + 1 / math.log2(3)))


def test_a_question_without_an_answer_counts_zero() -> None:
    assert set(scores.of_question([], {"a": 1}).values()) == {0.0}


def test_intervals_hold_the_mean_and_shrink_with_more_questions() -> None:
    widths = []
    for n in (8, 80, 800):
        values = [0.0, 0.2, 0.9, 1.0] * (n // 4)
        found = scores.mean(values)
        assert found.mean == pytest.approx(0.525) and found.n == n
        assert found.low < found.mean < found.high
        assert found == scores.mean(values)  # the seed is fixed
        widths.append(found.high - found.low)
    assert widths[0] > 2 * widths[1] > 4 * widths[2]
    shares = [scores.share(n // 4, n) for n in (8, 80, 800)]
    assert all(s.low < 0.25 < s.high for s in shares)
    assert shares[0].high - shares[0].low > 2 * (shares[1].high - shares[1].low)


def test_none_of_sixty_is_no_certainty() -> None:
    none, all_ = scores.share(0, 60), scores.share(60, 60)
    assert none.low == 0 and 0.05 < none.high < 0.07  # Wilson: z² / (n + z²)
    assert all_.high == 1 and all_.low == pytest.approx(1 - none.high)


def test_bars_are_one_svg_with_every_name_and_figure() -> None:
    root = ET.fromstring(
        bar_chart.bars([("a <b>", 0.5, 0.4, 0.6), ("silent", 0.0, 0.0, 0.06)], "x & y")
    )
    words = [e.text for e in root.iter() if e.tag.endswith("text")]
    assert "a <b>" in words and "x & y" in words and "0.500 (0.400 to 0.600)" in words
    widths = [float(e.attrib["width"]) for e in root.iter() if e.tag.endswith("rect")][1:]
    assert widths == [160.0, 0.0]


# --- a folder ----------------------------------------------------------------

DOCUMENTS = {
    "d1": (
        "Queue",
        "Messages that fail three times go to the dead letter table, never back to the queue.",
    ),
    "d2": ("", "Invoices are rounded half to even, as the tax office asks."),
    "d3": ("Login", "Sessions end after twelve hours because auditors asked for it."),
    "d4": ("", "The staging server loses its clock after a reboot: start chronyd first."),
}
QUESTIONS = {
    "q1": "where do failing messages go",
    "q2": "how are invoices rounded",
    "q3": "nobody judged this",
}


def folder(root: pathlib.Path, nested: bool = False) -> pathlib.Path:
    path = root / "set"
    path.mkdir()
    rows = [
        {"_id": id, "title": title, "text": body, "metadata": {}}
        for id, (title, body) in DOCUMENTS.items()
    ]
    write(path / "corpus.jsonl", rows)
    write(path / "queries.jsonl", [{"_id": id, "text": words} for id, words in QUESTIONS.items()])
    qrels = path / "qrels" / "test.tsv" if nested else path / "qrels.tsv"
    qrels.parent.mkdir(exist_ok=True)
    qrels.write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t2\nq2\td3\t0\n")
    return path


def write(path: pathlib.Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def bench(lab: Lab, cwd: pathlib.Path, *argv: str, rc: int = 0) -> tuple[str, str]:
    """What it prints. Its directory for temporary files must be empty afterwards."""
    temporary = lab.root / "temporary"
    temporary.mkdir(exist_ok=True)
    done = lab.run(
        cwd, sys.executable, "-m", "gitmem", "bench", *argv, env={"TMPDIR": str(temporary)}
    )
    assert done.returncode == rc, done.stderr
    assert "Traceback" not in done.stderr
    assert list(temporary.iterdir()) == []
    return done.stdout, done.stderr


def test_a_folder_is_measured_outside_of_any_repository(lab: Lab) -> None:
    path = folder(lab.root)
    out, err = bench(lab, lab.root, str(path), "--json", "--plot", str(lab.root / "figures.svg"))
    found = json.loads(out)
    assert (found["documents"], found["questions"]) == (4, 2)
    assert found["omitted"]["questions_without_judgement"] == 1
    assert found["metrics"] == {
        name: {"mean": 1.0, "low": 1.0, "high": 1.0, "n": 2} for name in scores.METRICS
    }
    assert set(found["seconds"]) == {"remember", "index", "recall"}
    assert found["seconds"]["remember"] > 0
    assert "remembering 4 documents" in err and "asking 2 questions" in err
    assert ET.parse(lab.root / "figures.svg").getroot().tag.endswith("svg")


def test_the_table_has_the_figures_and_what_was_left_out(lab: Lab) -> None:
    out, _ = bench(lab, lab.root, str(folder(lab.root)))
    assert out.splitlines()[0] == "set: 4 documents, 2 questions"
    assert any(
        line.split() == ["nDCG@10", "1.000", "1.000", "to", "1.000", "2"]
        for line in out.splitlines()
    )
    assert "questions without judgement: 1\n" in out


def test_a_question_is_asked_inside_its_own_group(lab: Lab) -> None:
    path = folder(lab.root)
    same = "The export runs at two in the night, and mails a report"
    write(
        path / "corpus.jsonl",
        [
            {"_id": f"{g}/{i}", "text": words, "metadata": {"group": g}}
            for g in ("one", "two")
            for i, words in enumerate((same + " to " + g, "the colour of the logo is blue"))
        ],
    )
    write(
        path / "queries.jsonl",
        [
            {"_id": g, "text": "when does the export run", "metadata": {"group": g}}
            for g in ("one", "two")
        ],
    )
    (path / "qrels.tsv").write_text("one\tone/0\t1\ntwo\ttwo/0\t1\n")
    out, err = bench(lab, lab.root, str(path), "--json")
    assert json.loads(out)["metrics"]["mrr@10"]["mean"] == 1.0
    assert "group 'two' (2 of 2)" in err


def test_what_is_not_stored_or_not_there_is_counted(lab: Lab) -> None:
    path = folder(lab.root)
    with open(path / "corpus.jsonl", "a") as f:
        f.write('{"_id": "empty", "title": "", "text": ""}\n')
    with open(path / "qrels.tsv", "a") as f:
        f.write("q1\tlost\t1\n")
    out, _ = bench(lab, lab.root, str(path), "--json")
    found = json.loads(out)
    assert found["omitted"] == {
        "questions_without_judgement": 1,
        "questions_not_in_sample": 0,
        "documents_not_stored": 1,
        "judged_documents_not_in_corpus": 1,
    }
    assert found["metrics"]["recall@10"]["mean"] == 0.75


def test_a_sample_is_chosen_by_the_seed(lab: Lab) -> None:
    path = folder(lab.root)
    out, _ = bench(lab, lab.root, str(path), "--json", "--sample", "1", "--seed", "7")
    found = json.loads(out)
    assert found["questions"] == 1 and found["omitted"]["questions_not_in_sample"] == 1
    assert (
        found["metrics"]
        == json.loads(bench(lab, lab.root, str(path), "--json", "--sample", "1", "--seed", "7")[0])[
            "metrics"
        ]
    )


@pytest.mark.parametrize(("name", "content", "said"), [
    ("corpus.jsonl", None, "cannot read"),
    ("queries.jsonl", None, "cannot read"),
    ("qrels.tsv", None, "no judgements in"),
    ("corpus.jsonl", b'{"_id": "d1", "text": "x"}\nnonsense\n', "line 2 of"),
    ("corpus.jsonl", b'["d1"]\n', "line 1 of"),
    ("corpus.jsonl", b'{"text": "no id"}\n', "line 1 of"),
    ("corpus.jsonl", b'{"_id": "d1", "text": "\xe9"}\n', "is not UTF-8"),
    ("corpus.jsonl", b'{"_id": "d1", "text": "x", "metadata": "y"}\n', "line 1 of"),
    ("corpus.jsonl", b'{"_id": "d1", "text": "x"}\n{"_id": "d1"}\n', "repeats the id 'd1'"),
    ("qrels.tsv", b"query-id\tcorpus-id\tscore\nq1\td1\tmuch\n", "is no judgement"),
    ("qrels.tsv", b"q1\td1\t2000\n", "is no judgement"),  # 2^grade is no float any more
    ("qrels.tsv", b"q9\td1\t1\n", "judges the question 'q9'"),
    ("qrels.tsv", b"q1\td1\t0\n", "judges no question"),
])  # fmt: skip
def test_a_folder_that_cannot_be_read_is_refused_before_anything_runs(
    tmp_path: pathlib.Path, name: str, content: bytes | None, said: str
) -> None:
    path = folder(tmp_path)
    (path / name).unlink() if content is None else (path / name).write_bytes(content)
    with pytest.raises(MemError, match=said):
        beir.read(str(path))


def test_judgements_may_lie_in_a_folder_of_their_own(tmp_path: pathlib.Path) -> None:
    read = beir.read(str(folder(tmp_path, nested=True)))
    assert read.grades == {"q1": {"d1": 1}, "q2": {"d2": 2}} and len(read.documents) == 4


def test_judgements_of_trec_and_a_byte_order_mark_are_read(tmp_path: pathlib.Path) -> None:
    path = folder(tmp_path)
    (path / "qrels.tsv").write_text("q1 0 d1 2\nq2 0 d2 0\n")
    (path / "queries.jsonl").write_bytes(b"\xef\xbb\xbf" + (path / "queries.jsonl").read_bytes())
    read = beir.read(str(path))
    assert read.grades == {"q1": {"d1": 2}} and read.unjudged == 2


def test_errors_are_one_line_and_leave_nothing(lab: Lab) -> None:
    for argv, said in (
        ([str(lab.root / "none")], "error: no such folder"),
        (
            [str(folder(lab.root)), "--plot", str(lab.root / "none" / "x.svg")],
            "error: cannot write",
        ),
    ):
        _, err = bench(lab, lab.root, *argv, rc=1)
        assert err.startswith(said) and "remembering" not in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_no_file(lab: Lab, number: int) -> None:
    path, temporary = folder(lab.root), lab.root / "temporary"
    temporary.mkdir()
    rows = [
        {
            "_id": f"d{i}",
            "text": f"memory number {i} about the part {i * 7919 % 1000} of the machine " * 40,
        }
        for i in range(400)
    ]
    write(path / "corpus.jsonl", rows)
    process = subprocess.Popen(
        [sys.executable, "-m", "gitmem", "bench", str(path)],
        env={**lab.env, "TMPDIR": str(temporary)},
        cwd=lab.root,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        while "vectors" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(number)
        assert process.wait(timeout=60) == 130
    finally:
        process.kill()
        process.stderr.close()
    assert list(temporary.iterdir()) == []


# --- the user's own memories ----------------------------------------------------

OWN = [
    "Connection pool size stays at twelve because the database proxy drops idle sessions",
    "Nightly backup job copies invoices before the accounting export starts",
    "Feature flags live in the settings table and are cached for sixty seconds",
    "Thumbnails are rendered lazily since eager rendering blocked the upload worker",
]


@pytest.fixture
def own(lab: Lab) -> pathlib.Path:
    repo = lab.repo()
    rows = [
        {"body": f"{line}. More of it stands in the second sentence.", "source": str(i)}
        for i, line in enumerate(OWN)
    ]
    rows.append({"body": "Use tabs"})  # too short for a question
    lab.mem(repo, "remember", "--jsonl", "-", stdin="".join(json.dumps(row) + "\n" for row in rows))
    lab.mem(repo, "recall", "backup")
    return repo


def test_own_memories_are_asked_about_without_their_rarest_words(
    lab: Lab, own: pathlib.Path
) -> None:
    found = json.loads(bench(lab, own, "--json")[0])
    items = found["known_items"]
    assert found["memories"] == 5 and items["questions"] == 4 == len(items["asked"])
    assert items["first"]["mean"] == sum(a["rank"] == 1 for a in items["asked"]) / 4
    assert items["mrr@10"]["low"] <= items["mrr@10"]["mean"] <= items["mrr@10"]["high"]
    assert found["everyday"]["prompts"] == 60 and found["everyday"]["told"]["n"] == 60
    for asked in items["asked"]:
        line = next(
            line for line in OWN if set(asked["question"].rstrip(".").split()) <= set(line.split())
        )
        assert len(text.query_terms(asked["question"])) == -(-len(text.query_terms(line)) // 2)


def test_the_vectors_of_the_encoder_are_counted(lab: Lab, own: pathlib.Path) -> None:
    del lab.env["GIT_MEM_ENCODER"]
    assert (
        "0 of 5 memories have the encoder's vector; `git mem index --all` makes the others"
        in bench(lab, own)[0]
    )
    lab.mem(own, "index", "--all")
    assert "5 of 5 memories have the encoder's vector\n" in bench(lab, own)[0]
    lab.git(own, "config", "mem.encoder", "false")
    assert json.loads(bench(lab, own, "--json")[0])["with_encoder_vector"] is None


def test_a_repository_without_memories_is_told_so(lab: Lab) -> None:
    out, _ = bench(lab, lab.repo())
    assert out.startswith("0 memories, 0 questions, 60 everyday prompts\n")
    assert "no title or first sentence" in out and "found first" not in out


def test_a_sample_of_own_memories_is_chosen_by_the_seed(lab: Lab, own: pathlib.Path) -> None:
    def asked(*argv: str) -> list[str]:
        return [
            a["id"] for a in json.loads(bench(lab, own, "--json", *argv)[0])["known_items"]["asked"]
        ]

    some = asked("--sample", "2", "--seed", "1")
    assert len(some) == 2 and some == asked("--sample", "2", "--seed", "1")
    assert any(some != asked("--sample", "2", "--seed", str(seed)) for seed in range(2, 8))


def state(lab: Lab, repo: pathlib.Path) -> dict[str, Any]:
    """Refs, objects, the working tree, and what `.git/mem` has but the cache."""
    files = [p for p in (repo / ".git" / "mem").rglob("*") if p.is_file() and "cache" not in p.name]
    return {
        "refs": lab.git(repo, "for-each-ref"),
        "objects": lab.git(repo, "count-objects", "-v"),
        "tree": lab.git(repo, "status", "--porcelain"),
        "config": digest(repo / ".git" / "config"),
        "receipts": lab.mem(repo, "receipts", "--json"),
        "files": {str(p): digest(p) for p in sorted(files)},
    }


def digest(path: pathlib.Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_own_memories_are_measured_without_changing_anything(lab: Lab, own: pathlib.Path) -> None:
    lab.mem(own, "init", "--offline")
    lab.git(own, "config", "mem.promptContext", "true")
    told = prompted(lab, own, "when does the nightly backup job copy the invoices", "s1")
    assert "backup" in told
    lab.mem(own, "index", "--all")
    until(lambda: not (own / ".git" / "mem" / "worker.pid").exists())
    before = state(lab, own)
    assert any("session" in name for name in before["files"])
    bench(lab, own, "--sample", "3")
    assert state(lab, own) == before
    # Nothing counts as shown: a new session is told it as ever.
    assert "backup" in prompted(
        lab, own, "when does the nightly backup job copy the invoices", "s2"
    )


def prompted(lab: Lab, repo: pathlib.Path, prompt: str, session: str) -> str:
    payload = {
        "session_id": session,
        "cwd": str(repo),
        "hook_event_name": "UserPromptSubmit",
        "prompt": prompt,
    }
    return lab.run(
        repo,
        sys.executable,
        "-m",
        "gitmem",
        "hook",
        "UserPromptSubmit",
        stdin=json.dumps(payload),
        env=SLOW,
    ).stdout


def test_the_bench_tells_exactly_where_the_prompt_hook_does(lab: Lab, own: pathlib.Path) -> None:
    lab.mem(own, "init", "--offline")
    lab.git(own, "config", "mem.promptContext", "true")
    lab.mem(own, "index", "--all")
    prompts = [
        *OWN,
        "why do thumbnails render lazily",
        "/mem:recall backup",
        "/review feature flags cached in the settings table",
        "pool",
        "sixty seconds",
        *everyday.PROMPTS[::12],
    ]
    by_hook = [p for n, p in enumerate(prompts) if prompted(lab, own, p, f"s{n}")]
    store = open_store(lab.env, str(own))
    try:
        told = store.with_cache(lambda cache: known_item.told_of(store, cache, prompts))[0]
    finally:
        store.close()
    assert told == by_hook
    assert OWN[1] in told and "ok" not in told and "/mem:recall backup" not in told


def test_a_line_loses_half_of_its_content_words_the_rarest_first() -> None:
    df = dict.fromkeys(text.query_terms("retry upload storage timeout bucket region"), 50)
    df[text.query_terms("bucket")[0]] = 1
    df[text.query_terms("region")[0]] = 2
    df[text.query_terms("retry")[0]] = 3
    line = "retry the upload to storage on timeout of the bucket in the region: retries"
    assert (
        known_item.masked(line, lambda terms: df)
        == "the upload to storage on timeout of the in the"
    )
    assert known_item.masked("too few words of content", lambda terms: df) == ""
    assert known_item.masked("", lambda terms: df) == ""


@pytest.mark.parametrize(("data", "line"), [
    ({"title": "The  title\there", "body": "not this"}, "The title here"),
    ({"body": "First sentence\nover two lines. Second one."}, "First sentence over two lines."),
    ({"body": "\n\nA heading without a stop\n\na paragraph. Stops."}, "A heading without a stop"),
    ({"title": 7, "body": "Version 1.2 is old! Use 2.0"}, "Version 1.2 is old!"),
    ({"body": ""}, ""),
])  # fmt: skip
def test_the_line_of_a_memory(data: dict[str, Any], line: str) -> None:
    assert known_item.line_of(data) == line


def test_everyday_prompts_are_sixty_different_ones() -> None:
    assert len(everyday.PROMPTS) == len(set(everyday.PROMPTS)) == 60
