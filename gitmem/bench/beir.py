"""The evaluation on a folder in BEIR's form.

A folder has `corpus.jsonl` ({"_id", "title", "text", "metadata"}), `queries.jsonl` ({"_id", "text",
"metadata"}) and judgements in `qrels.tsv` or `qrels/test.tsv`. Documents become memories of a
throw-away repository, one for each `metadata.group`: a question is asked inside its own group only.
Nothing is left out silently: what cannot be read is an error, what a figure does not cover is
counted in the answer.
"""

import json
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from random import Random
from typing import Any, NamedTuple

from ..core.errors import MemError
from ..engine import encoding
from ..engine.filters import Filter
from ..git.gitcmd import Git
from ..memory import recall, remember
from ..store import Store, open_store
from . import scores

Grades = dict[str, dict[str, int]]  # {question: {document: grade}}, grades above 0 only
Ranked = dict[str, list[str]]  # {question: documents in the order they were found}

_QRELS = ("qrels.tsv", os.path.join("qrels", "test.tsv"))
_MOST = 100  # of a grade: its gain is 2^grade - 1
_SHAPE = "a BEIR folder has corpus.jsonl, queries.jsonl and qrels.tsv or qrels/test.tsv"


class Text(NamedTuple):
    """A document or a question."""

    id: str
    title: str
    text: str
    group: str


class Folder(NamedTuple):
    documents: list[Text]
    questions: list[Text]  # those that have a judgement
    grades: Grades
    unjudged: int  # questions without one


def read(folder: str) -> Folder:
    """The three files. Raises MemError."""
    if not os.path.isdir(folder):
        raise MemError(f"no such folder: '{folder}'", hint=_SHAPE)
    documents = _texts(os.path.join(folder, "corpus.jsonl"))
    questions = _texts(os.path.join(folder, "queries.jsonl"))
    paths = [os.path.join(folder, name) for name in _QRELS]
    found = next(filter(os.path.exists, paths), "")
    if not found:
        raise MemError(f"no judgements in '{folder}'", hint=_SHAPE)
    grades = _grades(found)
    if lost := grades.keys() - {q.id for q in questions}:
        raise MemError(f"'{found}' judges the question '{min(lost)}', which queries.jsonl lacks")
    judged = [q for q in questions if q.id in grades]
    if not judged:
        raise MemError(f"'{found}' judges no question of queries.jsonl")
    return Folder(documents, judged, grades, len(questions) - len(judged))


def _lines(path: str) -> Iterator[tuple[int, str]]:
    """(number, line) of a text file, blank lines left out."""
    try:
        with open(path, encoding="utf-8-sig", newline="\n") as f:
            for number, line in enumerate(f, 1):
                if line.strip():
                    yield number, line.rstrip("\r\n")
    except UnicodeDecodeError as e:
        raise MemError(f"'{path}' is not UTF-8") from e
    except OSError as e:
        raise MemError(f"cannot read '{path}': {e.strerror}", hint=_SHAPE) from e


def _texts(path: str) -> list[Text]:
    out: dict[str, Text] = {}
    for number, line in _lines(path):
        try:
            value = json.loads(line)
            id, text = str(value["_id"]), str(value.get("text") or "")
            group = str((value.get("metadata") or {}).get("group") or "")
            item = Text(id, str(value.get("title") or ""), text, group)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
            where = f"line {number} of '{path}'"
            raise MemError(f'{where} is no JSON object with an "_id" and a "text"') from e
        if id in out:
            raise MemError(f"line {number} of '{path}' repeats the id '{id}'")
        out[id] = item
    return list(out.values())


def _grades(path: str) -> Grades:
    """Three columns (question, document, grade) with or without a header, or the four of TREC."""
    out: Grades = {}
    for number, line in _lines(path):
        fields = line.split("\t") if line.count("\t") >= 2 else line.split()
        if len(fields) == 4:
            del fields[1]
        if number == 1 and not fields[-1].strip().lstrip("-").isdigit():
            continue
        try:
            question, document, grade = fields
            if int(grade) > _MOST:
                raise ValueError
            if int(grade) > 0:
                out.setdefault(question, {})[document] = int(grade)
        except ValueError as e:
            raise MemError(
                f"line {number} of '{path}' is no judgement",
                hint=f"each line has a question, a document and a whole number up to {_MOST}",
            ) from e
    return out


def measure(
    folder: str, sample: int | None, seed: int, tell: Callable[[str], None]
) -> dict[str, Any]:
    """All figures of one folder; `tell` takes lines of progress."""
    data = read(folder)
    questions = data.questions
    if sample and sample < len(questions):
        questions = Random(seed).sample(questions, sample)
    groups: dict[str, list[Text]] = {question.group: [] for question in questions}
    for document in data.documents:
        if document.group in groups:
            groups[document.group].append(document)
    run = _Run(tell)
    with _away_from_home() as root:
        for n, (group, documents) in enumerate(groups.items(), 1):
            if len(groups) > 1:
                tell(f"group '{group}' ({n} of {len(groups)})")
            asked = [question for question in questions if question.group == group]
            if documents:
                with closing(_repository(os.path.join(root, f"repo{n}"))) as store:
                    run.ask(store, documents, asked)
    per = [scores.of_question(run.ranked.get(q.id, []), data.grades[q.id]) for q in questions]
    known = {document.id for document in data.documents}
    return {
        "folder": folder,
        "documents": sum(map(len, groups.values())),
        "questions": len(questions),
        "omitted": {
            "questions_without_judgement": data.unjudged,
            "questions_not_in_sample": len(data.questions) - len(questions),
            "documents_not_stored": run.not_stored,
            "judged_documents_not_in_corpus": sum(
                id not in known for q in questions for id in data.grades[q.id]
            ),
        },
        "metrics": {name: scores.mean([values[name] for values in per]) for name in scores.METRICS},
        "seconds": {name: round(value, 2) for name, value in run.seconds.items()},
    }


class _Run:
    """What `remember`, `index --all` and `recall` answered, and how long each took."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.tell = tell
        self.ranked: Ranked = {}
        self.seconds = dict.fromkeys(("remember", "index", "recall"), 0.0)
        self.not_stored = 0

    def ask(self, store: Store, documents: list[Text], questions: list[Text]) -> None:
        with self._step("remember", f"remembering {len(documents)} documents"):
            results = _remembered(store, documents)
        self.not_stored += sum(result.status != remember.STORED for result in results)
        with self._step("index", "making their vectors"):
            if encoding.embedder() is None:
                raise MemError("the encoder cannot be used", hint="`git mem doctor` says why")
            store.with_cache(lambda cache: encoding.fill(cache, None))
        with self._step("recall", f"asking {len(questions)} questions"):
            queries = [(question.id, question.text) for question in questions]
            answers = recall.batch(store, queries, Filter(), limit=scores.DEPTH)
        for id, hits in answers:
            self.ranked[id] = [documents[int(hit["source"].split()[1])].id for hit in hits]

    @contextmanager
    def _step(self, name: str, what: str) -> Iterator[None]:
        self.tell(what)
        start = time.perf_counter()
        yield
        self.seconds[name] += time.perf_counter() - start


def _remembered(store: Store, documents: list[Text]) -> list[remember.Result]:
    # Numbers for ids: a source is cleaned, and an id may be any text.
    drafts = [
        {"body": d.text or d.title, "title": d.title, "source": f"document {i}"}
        for i, d in enumerate(documents)
    ]
    return [*remember.remember_many(store, drafts)]


def _repository(path: str) -> Store:
    """A new repository with one commit, opened."""
    Git().run("init", "-q", path)
    Git(cwd=path).run("commit", "-q", "--allow-empty", "-m", "bench")
    return open_store(os.environ, path)


@contextmanager
def _away_from_home() -> Iterator[str]:
    """A directory in which nobody's settings take part: HOME, without variables `GIT_*`. It goes
    when the block ends, also by Ctrl-C or SIGTERM.
    """
    before = dict(os.environ)
    handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="git-mem-bench-", ignore_cleanup_errors=True) as root:
        for name in before:
            if name.startswith(("GIT_", "XDG_")):
                del os.environ[name]
        for who in ("GIT_AUTHOR", "GIT_COMMITTER"):
            os.environ.update({f"{who}_NAME": "bench", f"{who}_EMAIL": "bench@localhost"})
        os.environ.update(HOME=root, GIT_CONFIG_NOSYSTEM="1")
        try:
            yield os.path.realpath(root)
        finally:
            os.environ.clear()
            os.environ.update(before)
            signal.signal(signal.SIGTERM, handler)
