"""The evaluation on a folder of BEIR's shape, through the commands that users call.

A folder has `corpus.jsonl` ({"_id", "title", "text", "metadata"}), `queries.jsonl` ({"_id", "text",
"metadata"}) and judgements in `qrels.tsv` or `qrels/test.tsv`. Documents become memories of a
throw-away repository, one for each `metadata.group`: a question is asked inside its own group only.

Promise: nothing is left out silently. A line that cannot be read, an id that occurs twice and a
judged question that is not there are errors; what a figure does not cover is counted in the answer.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any, NamedTuple

from ..core.errors import MemError
from . import sandbox, scores

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
    """The three files. Raises MemError for what cannot be read as such."""
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
        with open(path, "rb") as f:
            for number, raw in enumerate(f, 1):
                try:
                    line = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                except UnicodeDecodeError as e:
                    raise MemError(f"line {number} of '{path}' is not UTF-8") from e
                if line.strip():
                    yield number, line
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
    environ: Mapping[str, str],
    folder: str,
    sample: int | None,
    seed: int,
    tell: Callable[[str], None],
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
    ranked: Ranked = {}
    with sandbox.opened(environ) as box:
        run = _Run(box, tell)
        for n, (group, documents) in enumerate(groups.items(), 1):
            if len(groups) > 1:
                tell(f"group '{group}' ({n} of {len(groups)})")
            asked = [question for question in questions if question.group == group]
            if documents:
                ranked.update(run.answers(f"repo{n}", documents, asked))
    per = [scores.of_question(ranked.get(q.id, []), data.grades[q.id]) for q in questions]
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
    """The three commands of each repository: what they took together, and what was not stored."""

    def __init__(self, box: sandbox.Sandbox, tell: Callable[[str], None]) -> None:
        self.box = box
        self.tell = tell
        self.seconds = dict.fromkeys(("remember", "index", "recall"), 0.0)
        self.not_stored = 0

    def answers(self, name: str, documents: list[Text], questions: list[Text]) -> Ranked:
        """The answers from a new repository that has these documents."""
        repo = self.box.repo(name)
        # Numbers for ids: a source is cleaned, and an id may be any text.
        rows = [
            {"body": d.text or d.title, "title": d.title, "source": f"document {i}"}
            for i, d in enumerate(documents)
        ]
        self.tell(f"remembering {len(documents)} documents")
        file = self._file(f"{name}-documents", rows)
        for row in self._run(repo, "remember", "--jsonl", file, allowed=(0, 1)):
            self.not_stored += row["status"] != "stored"
        self.tell("making their vectors")
        self._run(repo, "index", "--all")
        self.tell(f"asking {len(questions)} questions")
        asked = [{"_id": str(i), "text": q.text} for i, q in enumerate(questions)]
        file = self._file(f"{name}-questions", asked)
        found = self._run(repo, "recall", "--hot", "--batch", file, "-n", str(scores.DEPTH))
        return {
            questions[int(row["_id"])].id: [
                documents[int(hit["source"].split()[1])].id for hit in row["hits"]
            ]
            for row in found
        }

    def _file(self, name: str, rows: list[dict[str, str]]) -> str:
        return self.box.write(f"{name}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))

    def _run(self, repo: str, *argv: str, allowed: tuple[int, ...] = (0,)) -> list[dict[str, Any]]:
        start = time.perf_counter()
        out = self.box.mem(repo, *argv, "--json", allowed=allowed)
        self.seconds[argv[0]] += time.perf_counter() - start
        return [json.loads(line) for line in out.split("\n") if line]
