"""The way `history` of `eval_feedback.py`: days of commits as they were, as sessions.

Nothing is drawn.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from datetime import datetime
from typing import Any

from eval_retrieval import Store
from feedback_sessions import SESSIONS, Learnt, told
from feedback_worlds import SEEN, Hits

from gitmem.capture import commitlog, sources
from gitmem.core import commit_message, text
from gitmem.engine import embed
from gitmem.feedback import usage
from gitmem.git import commit_reader, repository

AUTHORS, DAY, OLDEST, FEWEST = (
    2,
    3,
    2_000,
    200,
)  # authors of a clone, commits of a session, the most and the fewest memories from before the first one  # noqa: E501
# What is found, what is relevant, which files are changed afterwards, the age in days of each hit.
Prompt = tuple[Hits, set[int], set[str], dict[int, float]]
Lived = list[
    tuple[str, list[list[Prompt]], list[set[str]]]
]  # (clone, prompts of the sessions, files of the memories)


class Growing(Store):
    """A store that has only its first memories, until it is asked for more."""

    double = True

    def __init__(self, table: embed.StaticTable, docs: list[dict[str, Any]]) -> None:
        super().__init__(table, docs)
        self.all, self.whole = docs, self.matrix
        self.db.executescript(
            "DROP TABLE vocabulary; DROP TABLE fts; CREATE VIRTUAL TABLE fts USING fts5(title,"
            " body, content='', tokenize='ascii')"
        )
        self.docs, self.df = [], defaultdict(int)

    def grow(self, count: int) -> None:
        for row in range(len(self.docs), count):
            words = text.terms(self.all[row]["text"])
            self.db.execute(
                "INSERT INTO fts(rowid, title, body) VALUES (?, '', ?)", (row, " ".join(words))
            )
            for word in set(words):
                self.df[word] += 1
        self.docs, self.matrix = self.all[:count], self.whole[:count]


class History:
    """The commits of a clone, oldest first, the files each changed, and the memories they would
    be."""

    def __init__(self, clone: str) -> None:
        git = repository.open_repo(clone).git
        self.commits = commit_reader.read(git, ["HEAD"], [], 1_000_000)
        renames: dict[str, list[tuple[str, str]]] = {}
        raw = git.run(
            "log",
            "--no-merges",
            "-M100%",
            "--diff-filter=R",
            "--format=%x01%H",
            "--name-status",
            "-z",
            "HEAD",
        ).decode("utf-8", "replace")
        for part in raw.split("\1")[1:]:
            id, *words = [word for word in part.replace("\n", "").split("\0") if word]
            renames[id] = list(zip(words[1::3], words[2::3], strict=False))
        names: dict[str, str] = {}  # what a file is called now -> the file
        self.files: list[set[str]] = []
        for commit in self.commits:
            for old, new in renames.get(commit.id, ()):
                if old in names:
                    names[new] = names.pop(old)
            self.files.append({names.setdefault(path, commit.id + path) for path in commit.paths})
        self.memories = [
            (at, found)
            for at, commit in enumerate(self.commits)
            for found in commitlog.candidates([commit])
        ]
        self.places = [at for at, _ in self.memories]

    def before(self, at: int) -> int:
        """How many memories there are when a commit is made."""
        return bisect.bisect_left(self.places, at)

    def spans(self) -> list[tuple[str, list[list[int]]]]:
        """(author, commits of 2 * SESSIONS sessions)."""
        days: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for at, commit in enumerate(self.commits):
            if 0 < len(commit.paths) <= sources.MOST_PATHS and not commit_message.BOT.search(
                commit.author
            ):
                days[commit.author.partition(" <")[0]][commit.at[:10]].append(at)
        sessions = {
            author: [day for _, day in sorted(own.items()) if len(day) >= DAY]
            for author, own in days.items()
        }
        out = []
        for author in sorted(sessions, key=lambda author: (-len(sessions[author]), author))[
            :AUTHORS
        ]:
            fit = [day for day in sessions[author] if self.before(day[0]) >= FEWEST]
            last = len(fit) - 2 * SESSIONS
            out += [
                (author, fit[start : start + 2 * SESSIONS])
                for start in ([last, last // 2] if last >= 2 * SESSIONS else [last])
                if start >= 0
            ]
        return out

    def prompts(
        self, table: embed.StaticTable, sessions: list[list[int]]
    ) -> tuple[list[list[Prompt]], list[set[str]]]:
        """(the prompts of each session, the files of each memory)."""
        first = max(0, self.before(sessions[0][0]) - OLDEST)
        memories = self.memories[first : self.before(sessions[-1][-1])]
        store = Growing(
            table,
            [
                {"_id": str(row), "title": "", "text": found.text}
                for row, (_, found) in enumerate(memories)
            ],
        )
        files = [self.files[at] if found.paths else set() for at, found in memories]
        out: list[list[Prompt]] = []
        last = -1
        for session in sessions:
            out.append([])
            for at in session:
                if at < last:  # of another time zone, say: the store has its memory already
                    continue
                last = at
                store.grow(self.before(at) - first)
                found = store.search(self.commits[at].message.strip().partition("\n")[0])
                hits = (
                    [(h.row, h.fused) for h in found["hits"][:SEEN]],
                    found["verdict"][0] == "HIT",
                )
                relevant = {row for row in range(len(store.docs)) if files[row] & self.files[at]}
                newest = memories[len(store.docs) - 1][1].at
                ages = {row: days(memories[row][1].at, newest) for row, _ in hits[0]}
                out[-1].append((hits, relevant, self.files[at], ages))
        return out, files


def days(earlier: str, later: str) -> float:
    """From one time of ISO 8601 to another; never less than none."""
    between = datetime.fromisoformat(later) - datetime.fromisoformat(earlier)
    return max(0.0, between.total_seconds() / 86_400)


def relive(sessions: list[list[Prompt]], files: list[set[str]]) -> Learnt:
    """What is known after all sessions in which files were changed."""
    learnt = Learnt()
    for number, session in enumerate(sessions):
        shown: dict[int, int] = {}
        changed: dict[str, int] = {}
        for place, (hits, _, edited, _) in enumerate(session):
            shown.update(dict.fromkeys(told(hits, learnt, set(shown)), place))
            changed.update(dict.fromkeys(edited, place))
        used = {
            row: {name for name in files[row] if changed.get(name, -1) >= place}
            for row, place in shown.items()
        }
        touched = usage.shares({row: names for row, names in used.items() if names})
        learnt.helped.update(touched)
        learnt.take(number, set(shown), set(), touched)
    return learnt


def lived(clones: dict[str, str], table: embed.StaticTable) -> Lived:
    out: Lived = []
    for name, clone in clones.items():
        history = History(clone)
        out += [(name, *history.prompts(table, sessions)) for _, sessions in history.spans()]
    return out
