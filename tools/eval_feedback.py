#!/usr/bin/env python3
"""What feedback does to ranking, in simulated sessions whose usage is known.

A world is one LoCoMo conversation, one repository of the sets `commits`,
`topics` and `decisions`, or the commit messages of a clone. Twenty sessions ask
its questions: each prompt is answered as the prompt hook does (only a HIT; at
most five memories of at least 0.6 of the best; none twice a session). What was
used becomes feedback records, and these go through `credit.rows`,
`credit.count`, `credit.in_vain` and `credit.lift`, as the cache does it. Then
later questions are ranked without and with what was learned.

No question is ever asked twice. Four ways to go on. In the first three the user
of a session names a relevant memory that was shown with probability P, an
irrelevant one with Q:

- `own`: LoCoMo, whose questions are people's own. Half of them, drawn at random,
  come in the sessions, the others later: what they share is what the data has.
- `kept`: the other sets have one question a memory. About half of these
  memories come up in a session, by a sentence of theirs, and as many others do;
  later come the questions of the authors, all of them.
- `work`: what people ask about follows Zipf's law, before and after: few memories come
  up again and again, most never. Each time by another question: the author's
  own, or two content words of the memory and one of another, drawn at random:
  about as hard as the authors' own (MRR@10 of 0.46 and 0.45 on `fit`; with four
  words of the memory it is 0.86). Twenty sessions of eight prompts, then as many
  prompts later.
- `history`: nothing is drawn. A session is a day on which one author made three
  commits or more, its prompts are their subjects, the memories are what `git mem
  import git-log` would take from the commits before (at most 2,000 older than the
  first session, and those that came since). What was shown and names a file that
  the session's commits then changed was used, as the product counts it. Twenty
  such days in a row, then the next twenty ask; relevant is what is about a
  file that the commit changed. Commits of more than ten files are about none, as in
  the import, and a file that was renamed as it was is the same file. For the two
  authors of a clone with most such days: the newest forty, and forty in the middle.

Reported beside MRR@10: questions whose memories nobody used before (they pay
for what the others gain), how many irrelevant memories a prompt is told, and
how many are told for questions of other worlds, or where nothing is relevant.
In brackets: 95 of 100 resamples of the worlds.

    python tools/eval_feedback.py [--eval ../shared/eval] [--part fit|test|none] [--fit] [--seeds 5] [NAME=CLONE ...]

Worlds of --eval are divided by a hash of their name; constants are chosen on
`fit`, and on the clones CHOSEN, alone.

**The one confirmation.** Written down before any of them was fetched: JUDGED are
repositories of which nothing was used in this project. Constants, ways and this
file stay as they are in the commit that adds these lines; each is fetched at its
newest state, those that cannot be had are named; one run, `--part none`,
5 seeds, with `kept`, `work` (the messages of the newest 4,000 commits that have a body,
200 subjects as questions: `eval_graph.subjects`) and `history`. What counts is
`work`, all repositories together: 10 % or more is reached, less is not, and
irrelevant memories told a prompt must not rise. The other ways are reported
beside it, whatever they show. Nothing is chosen after that run.
"""

from __future__ import annotations

import argparse
import bisect
import itertools
import json
import random
import re
import sys
import zlib
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import eval_graph  # noqa: E402
from eval_retrieval import Store  # noqa: E402

from gitmem.agents import inject  # noqa: E402
from gitmem.capture import commitlog  # noqa: E402
from gitmem.core import credit, rank, text  # noqa: E402
from gitmem.engine import embed  # noqa: E402
from gitmem.feedback import usage  # noqa: E402
from gitmem.git.gitcmd import Git  # noqa: E402

CHOSEN = ("jj-vcs/jj", "pypa/pip", "restic/restic", "astral-sh/uv")
JUDGED = ("libgit2/libgit2", "mpv-player/mpv", "swaywm/sway", "mesonbuild/meson", "fish-shell/fish-shell", "borgbackup/borg",
          "jgm/pandoc", "tmux/tmux", "redis/redis", "NixOS/nix", "tigerbeetle/tigerbeetle", "rust-lang/cargo")
SESSIONS, PROMPTS, P, Q = 20, 8, 0.8, 0.03  # 115 real sessions (capture_turns) have 8.5 prompts of a user on average
WAYS = ("own", "kept", "work", "history")
LEAST = 12  # kept questions from which a repository is a world
SEEN = 24  # hits that priors may reorder: 8 asked for, three times as many looked at
AUTHORS, DAY, OLDEST, FEWEST = 2, 3, 2_000, 200  # of `history`: authors of a clone, commits of a session, memories from before the first one
RESAMPLES = 2_000
Hits = tuple[list[tuple[int, float]], bool]  # (row, fused score), and whether it is a HIT
Prompt = tuple[Hits, set[int], set[str]]  # what is found, what is relevant, which files are changed afterwards


class World:
    def __init__(self, name: str, table: embed.StaticTable, docs: list[dict[str, Any]], questions: list[tuple[str, set[int]]], natural: bool) -> None:
        self.name, self.docs, self.questions, self.natural = name, docs, questions, natural
        self.store = Store(table, docs)
        self.store.double = True
        self.known: dict[str, Hits] = {}

    def ask(self, question: str) -> Hits:
        if question not in self.known:
            found = self.store.search(question)
            self.known[question] = [(h.row, h.fused) for h in found["hits"][:SEEN]], found["verdict"][0] == "HIT"
        return self.known[question]

    def words(self, row: int, rng: random.Random) -> str:
        """A question of two content words of a memory and one of another; "" where it has hardly any."""
        own, other = self._content(row), self._content(rng.randrange(len(self.docs)))
        if len(own) < 8 or not other:
            return ""
        chosen = [*rng.sample(own, 2), rng.choice(other)]
        rng.shuffle(chosen)
        return " ".join(chosen)

    def _content(self, row: int) -> list[str]:
        return sorted({w for w in re.findall(r"[A-Za-z][A-Za-z_-]{3,}", self.docs[row]["text"]) if text.query_terms(w)})

    def sentence(self, row: int, rng: random.Random, not_this: str) -> str:
        """A question made of a sentence of a memory; "" where it has none long enough."""
        found = [s for s in re.split(r"(?<=[.!?])\s+|\n\n", self.docs[row]["text"]) if 6 <= len(s.split()) <= 40 and s.strip() not in not_this]
        return rng.choice(found) if found else ""


class Learnt:
    """What sessions have taught, from their feedback records."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[tuple[str, str], int]] = defaultdict(dict)
        self.counted: dict[int, credit.Evidence] = {}
        self.told: dict[int, dict[str, bool]] = {}
        self.helped: set[int] = set()  # memories that were used where they were relevant

    def take(self, number: int, shown: set[int], cited: set[int], touched: dict[int, int]) -> None:
        ids = {row: f"{row:032x}" for row in shown}
        record = {"op": "feedback", "id": "", "session": f"{number:032x}", "shown": {"prompt": [ids[row] for row in sorted(shown)]},
                  "cited": {ids[row]: 1 for row in cited}, "touched": {ids[row]: n for row, n in touched.items()}}
        for id, name, how, n in credit.rows(record):
            self.rows[id][name, how] = n
        for row in shown:
            found = self.rows[ids[row]]
            self.counted[row] = credit.count([(s, h, n) for (s, h), n in found.items()])
            used = {s for s, h in found if h in (credit.CITED, credit.TOUCHED)}
            self.told[row] = {s: s in used for s, h in found if h in credit.MEANT}

    def factors(self, hits: Hits) -> dict[int, float]:
        near = dict(hits[0])
        vain = credit.in_vain(near, {row: self.told[row] for row in near if row in self.told})
        return {row: credit.lift(self.counted[row].used, vain[row], self.counted[row].against) for row in near if row in self.counted}


def ranked(hits: Hits, learnt: Learnt | None) -> list[rank.Hit]:
    """The hits as `rank.apply_priors` orders them."""
    made = []
    for row, fused in hits[0]:
        hit = rank.Hit(row, None, None)
        hit.fused = fused
        made.append(hit)
    return rank.apply_priors(made, learnt.factors(hits) if learnt else {})


def told(hits: Hits, learnt: Learnt | None, shown: set[int]) -> list[int]:
    """What the prompt hook says."""
    if not hits[1] or not hits[0]:
        return []
    return [hit.row for hit in inject.worth_telling(ranked(hits, learnt)[:8]) if hit.row not in shown][: inject.FEW]


def plan(world: World, rng: random.Random, way: str) -> tuple[list[list[tuple[str, set[int]]]], list[tuple[str, set[int]]]]:
    """(questions of each session, questions for later)."""
    questions = world.questions[:]
    rng.shuffle(questions)
    if way == "own":
        half = len(questions) // 2
        asked, later = questions[:half], questions[half:]
    elif way == "kept":
        later, asked = questions, []
        wanted = {row for _, rows in later for row in rows}
        others = [row for row in range(len(world.docs)) if row not in wanted]
        for text, rows in later[: len(later) // 2]:
            for row in [rng.choice(sorted(rows)), rng.choice(others)]:
                for _ in range(rng.choice((1, 2, 3))):  # work comes back to what it was about
                    said = world.sentence(row, rng, text)
                    if said and not any(said == other for other, _ in asked):
                        asked.append((said, {row}))
        rng.shuffle(asked)
    else:
        order = list(range(len(world.docs)))
        rng.shuffle(order)
        weights = [1 / (place + 1) for place in range(len(order))]
        left = {row: [text for text, rows in questions if row in rows] for row in order}
        drawn: list[tuple[str, set[int]]] = []
        said_before: set[str] = set()
        while len(drawn) < 2 * SESSIONS * PROMPTS:
            row = rng.choices(order, weights)[0]
            said = left[row].pop() if left[row] and rng.random() < 0.5 else world.words(row, rng)
            if said and said not in said_before:
                said_before.add(said)
                drawn.append((said, {row} | next((rows for text, rows in questions if text == said), set())))
        asked, later = drawn[: SESSIONS * PROMPTS], drawn[SESSIONS * PROMPTS :]
    return [asked[i::SESSIONS] for i in range(SESSIONS)], later


def learn(world: World, sessions: list[list[tuple[str, set[int]]]], rng: random.Random) -> Learnt:
    """What is known after all sessions in which memories are named."""
    learnt = Learnt()
    for number, session in enumerate(sessions):
        shown: set[int] = set()
        cited: set[int] = set()
        for question, relevant in session:
            for row in told(world.ask(question), learnt, shown):
                shown.add(row)
                if rng.random() < (P if row in relevant else Q):
                    cited.add(row)
                    learnt.helped.update({row} & relevant)
        learnt.take(number, shown, cited, {})
    return learnt


# --- what was done ---------------------------------------------------------


class Growing(Store):
    """A store that has only its first memories, until it is asked for more."""

    double = True

    def __init__(self, table: embed.StaticTable, docs: list[dict[str, Any]]) -> None:
        super().__init__(table, docs)
        self.all, self.whole = docs, self.matrix
        self.db.executescript("DROP TABLE vocabulary; DROP TABLE fts; CREATE VIRTUAL TABLE fts USING fts5(title, body, content='', tokenize='ascii')")
        self.docs, self.df = [], defaultdict(int)

    def grow(self, count: int) -> None:
        for row in range(len(self.docs), count):
            words = text.terms(self.all[row]["text"])
            self.db.execute("INSERT INTO fts(rowid, title, body) VALUES (?, '', ?)", (row, " ".join(words)))
            for word in set(words):
                self.df[word] += 1
        self.docs, self.matrix = self.all[:count], self.whole[:count]


class History:
    """The commits of a clone, oldest first, the files each changed, and the memories they would be."""

    def __init__(self, clone: str) -> None:
        git = Git(clone)
        self.commits = commitlog.read(git, ["HEAD"], [], 1_000_000)
        renames: dict[str, list[tuple[str, str]]] = {}
        raw = git.run("log", "--no-merges", "-M100%", "--diff-filter=R", "--format=%x01%H", "--name-status", "-z", "HEAD").decode("utf-8", "replace")
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
        self.memories = [(at, found) for at, commit in enumerate(self.commits) for found in commitlog.candidates([commit])]
        self.places = [at for at, _ in self.memories]

    def before(self, at: int) -> int:
        """How many memories there are when a commit is made."""
        return bisect.bisect_left(self.places, at)

    def spans(self) -> list[tuple[str, list[list[int]]]]:
        """(author, commits of 2 * SESSIONS sessions)."""
        days: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for at, commit in enumerate(self.commits):
            if 0 < len(commit.paths) <= commitlog._PATHS and not commitlog._BOT.search(commit.author):
                days[commit.author.partition(" <")[0]][commit.at[:10]].append(at)
        sessions = {author: [day for _, day in sorted(own.items()) if len(day) >= DAY] for author, own in days.items()}
        out = []
        for author in sorted(sessions, key=lambda author: (-len(sessions[author]), author))[:AUTHORS]:
            fit = [day for day in sessions[author] if self.before(day[0]) >= FEWEST]
            last = len(fit) - 2 * SESSIONS
            out += [(author, fit[start : start + 2 * SESSIONS]) for start in ([last, last // 2] if last >= 2 * SESSIONS else [last]) if start >= 0]
        return out

    def prompts(self, table: embed.StaticTable, sessions: list[list[int]]) -> tuple[list[list[Prompt]], list[set[str]]]:
        """(the prompts of each session, the files of each memory)."""
        first = max(0, self.before(sessions[0][0]) - OLDEST)
        memories = self.memories[first : self.before(sessions[-1][-1])]
        store = Growing(table, [{"_id": str(row), "title": "", "text": found.text} for row, (_, found) in enumerate(memories)])
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
                hits = [(h.row, h.fused) for h in found["hits"][:SEEN]], found["verdict"][0] == "HIT"
                out[-1].append((hits, {row for row in range(len(store.docs)) if files[row] & self.files[at]}, self.files[at]))
        return out, files


def relive(sessions: list[list[Prompt]], files: list[set[str]]) -> Learnt:
    """What is known after all sessions in which files were changed."""
    learnt = Learnt()
    for number, session in enumerate(sessions):
        shown: dict[int, int] = {}
        changed: dict[str, int] = {}
        for place, (hits, _, edited) in enumerate(session):
            shown.update(dict.fromkeys(told(hits, learnt, set(shown)), place))
            changed.update(dict.fromkeys(edited, place))
        used = {row: {name for name in files[row] if changed.get(name, -1) >= place} for row, place in shown.items()}
        touched = usage.shares({row: names for row, names in used.items() if names})
        learnt.helped.update(touched)
        learnt.take(number, set(shown), set(), touched)
    return learnt


# --- measuring -------------------------------------------------------------


def reciprocal(order: list[rank.Hit], relevant: set[int]) -> float:
    return next((1 / (i + 1) for i, hit in enumerate(order[:10]) if hit.row in relevant), 0.0)


Sums = dict[str, dict[str, dict[str, float]]]  # {way and part of the questions: {world: sums}}


def judge(sums: Sums, way: str, world: str, learnt: Learnt, later: list[tuple[Hits, set[int]]], strangers: list[Hits]) -> None:
    for hits, relevant in later:
        before, after = told(hits, None, set()), told(hits, learnt, set())
        if not relevant:
            strangers = [*strangers, hits]
            continue
        row = {"n": 1, "before": reciprocal(ranked(hits, None), relevant), "after": reciprocal(ranked(hits, learnt), relevant),
               "wrong before": len(set(before) - relevant), "wrong after": len(set(after) - relevant),
               "right before": len(set(before) & relevant), "right after": len(set(after) & relevant)}
        for name in (way, f"{way}, used before" if relevant & learnt.helped else f"{way}, not used before"):
            for key, n in row.items():
                sums[name][world][key] += n
    for hits in strangers:
        found = sums[f"{way}, nothing answers"][world]
        found["n"] += 1
        found["wrong before"] += len(told(hits, None, set()))
        found["wrong after"] += len(told(hits, learnt, set()))


def sums_of() -> Sums:
    return defaultdict(lambda: defaultdict(lambda: defaultdict(float)))


def measure(worlds: list[World], seeds: int, sums: Sums) -> None:
    for place, world in enumerate(worlds):
        for way, seed in itertools.product(("own",) if world.natural else ("kept", "work"), range(seeds)):
            rng = random.Random(f"{world.name} {way} {seed}")
            sessions, later = plan(world, rng, way)
            learnt = learn(world, sessions, rng)
            strangers = [world.ask(question) for question, _ in worlds[(place + 1) % len(worlds)].questions[:40]] if len(worlds) > 1 else []
            judge(sums, way, world.name, learnt, [(world.ask(question), relevant) for question, relevant in later], strangers)


Lived = list[tuple[str, list[list[Prompt]], list[set[str]]]]  # (clone, prompts of the sessions, files of the memories)


def lived(clones: dict[str, str], table: embed.StaticTable) -> Lived:
    out: Lived = []
    for name, clone in clones.items():
        history = History(clone)
        out += [(name, *history.prompts(table, sessions)) for _, sessions in history.spans()]
    return out


def measure_lived(spans: Lived, sums: Sums) -> None:
    for name, sessions, files in spans:
        learnt = relive(sessions[:SESSIONS], files)
        judge(sums, "history", name, learnt, [(hits, relevant) for session in sessions[SESSIONS:] for hits, relevant, _ in session], [])


def told_by_clones(clones: dict[str, str], table: embed.StaticTable) -> list[World]:
    """A world of each clone's commit messages: bodies as memories, subjects as questions."""
    out = []
    for name, clone in clones.items():
        docs, asked = eval_graph.subjects(eval_graph.history(clone))
        place = {doc["_id"]: i for i, doc in enumerate(docs)}
        if len(asked) >= LEAST:
            out.append(World(f"clone:{name}", table, docs, [(question, {place[id] for id in found}) for question, found in asked], False))
    return out


def load(root: Path, table: embed.StaticTable) -> list[World]:
    out = []
    for name in ("locomo", "commits", "topics", "decisions"):
        base = root / "dev" / name
        docs = [json.loads(line) for line in (base / "corpus.jsonl").open(encoding="utf-8")]
        texts = {q["_id"]: q["text"] for q in map(json.loads, (base / "queries.jsonl").open(encoding="utf-8"))}
        relevant: dict[str, set[str]] = defaultdict(set)
        for line in (base / "qrels.tsv").read_text(encoding="utf-8").splitlines()[1:]:
            query, doc, score = line.split("\t")
            if int(score) > 0:
                relevant[query].add(doc)
        groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for doc in docs:
            groups[doc["metadata"].get("group") or doc["metadata"].get("repo") or ""].append(doc)
        for group, members in sorted(groups.items()):
            place = {doc["_id"]: i for i, doc in enumerate(members)}
            asked = [(texts[q], {place[d] for d in found}) for q, found in sorted(relevant.items()) if found <= set(place)]
            if len(asked) >= LEAST:
                out.append(World(f"{name}:{group}", table, members, asked, name == "locomo"))
    return out


def part_of(world: World) -> str:
    return "fit" if zlib.crc32(world.name.encode()) % 2 else "test"


def total(found: dict[str, dict[str, float]], names: list[str]) -> dict[str, float]:
    out: dict[str, float] = defaultdict(float)
    for name in names:
        for key, value in found[name].items():
            out[key] += value
    return out


def gain(m: dict[str, float]) -> float:
    return 100 * (m["after"] / m["before"] - 1) if m["before"] else 0.0


def wrong(m: dict[str, float]) -> float:
    return (m["wrong after"] - m["wrong before"]) / m["n"]


def between(found: dict[str, dict[str, float]], what: Any) -> str:
    """Where 95 of 100 resamples of the worlds lie."""
    rng = random.Random(6)
    names = sorted(found)
    drawn = sorted(what(total(found, rng.choices(names, k=len(names)))) for _ in range(RESAMPLES))
    return f"({drawn[RESAMPLES // 40]:+.3g} to {drawn[-RESAMPLES // 40]:+.3g})"


def show(sums: Sums) -> None:
    for name, found in sorted(sums.items()):
        m = total(found, list(found))
        n = m["n"]
        rises = f"wrong {m['wrong before'] / n:.3f} -> {m['wrong after'] / n:.3f} {between(found, wrong)}"
        if "before" not in m:
            print(f"{name:26} n {n:6.0f}  {rises}")
            continue
        print(f"{name:26} n {n:6.0f}  MRR@10 {m['before'] / n:.4f} -> {m['after'] / n:.4f}  {gain(m):+.1f} % {between(found, gain)}"
              f"  told right {m['right before'] / n:.3f} -> {m['right after'] / n:.3f}  {rises}")
    for way in WAYS:
        for name, m in sorted(sums[way].items()):
            print(f"  {way:8} {name:36} n {m['n']:5.0f}  {m['before'] / m['n']:.3f} -> {m['after'] / m['n']:.3f}  {gain(m):+.1f} %  wrong {wrong(m):+.3f}")


def fit(worlds: list[World], spans: Lived, seeds: int) -> None:
    """Every combination on the grid: what each way gains, and what questions of memories pay that nobody used before."""
    for rise, fall, most in itertools.product((0.25, 0.3, 0.33, 0.36, 0.4), (0.0, 0.15, 0.25, 0.35), (1.5, 2.0)):
        credit.RISE, credit.FALL, credit.MOST = rise, fall, most
        sums = sums_of()
        measure(worlds, seeds, sums)
        measure_lived(spans, sums)
        said = []
        for way in WAYS:
            if way in sums:
                m, new = (total(sums[name], list(sums[name])) for name in (way, f"{way}, not used before"))
                said.append(f"{way} {gain(m):+.1f} % (new {gain(new):+.1f} %, wrong {wrong(m):+.3f})")
        print(f"RISE {rise} FALL {fall} MOST {most}: {'; '.join(said)}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--eval", type=Path, default=ROOT.parent / "shared" / "eval")
    parser.add_argument("--part", choices=("fit", "test", "none"), default="test")
    parser.add_argument("--fit", action="store_true", help="seek constants on the worlds of `fit` and the histories of the clones")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--uses", type=float, default=P, help="how probably a relevant memory that was shown is named")
    parser.add_argument("--noise", type=float, default=Q, help="how probably an irrelevant one is")
    parser.add_argument("clones", nargs="*", metavar="NAME=CLONE")
    args = parser.parse_args()
    globals().update(P=args.uses, Q=args.noise)
    table = embed.StaticTable()
    clones = dict(given.split("=", 1) for given in args.clones)
    worlds: list[World] = []
    if args.part != "none" and not (args.eval / "dev").is_dir():
        print(f"no evaluation sets at {args.eval}")
    elif args.part != "none":
        worlds = [w for w in load(args.eval, table) if part_of(w) == ("fit" if args.fit else args.part)]
    spans = lived(clones, table)
    if args.fit:
        fit(worlds, spans, args.seeds)
        return 0
    if args.part == "none":
        worlds = told_by_clones(clones, table)
    print(f"{len(worlds)} worlds: {', '.join(f'{w.name} ({len(w.docs)}, {len(w.questions)})' for w in worlds)}; {len(spans)} spans of history")
    sums = sums_of()
    measure(worlds, args.seeds, sums)
    measure_lived(spans, sums)
    show(sums)
    return 0


if __name__ == "__main__":
    sys.exit(main())
