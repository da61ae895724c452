"""`--at REV` beside slower ways to the same answer: a cache built from the records of then, and
`git merge-base` asked about each record.
"""

from __future__ import annotations

import random

import pytest
from conftest import Lab
from places import commit, head, opened, tell, topic

from gitmem.anchors import snapshot_view
from gitmem.core import fold, record
from gitmem.engine import cache as cache_file
from gitmem.engine import embed, memory_rows
from gitmem.engine.filters import Filter
from gitmem.engine.memory_rows import SCOPE_BITS
from gitmem.engine.search import Search
from gitmem.engine.update import Update, batch_of
from gitmem.memory import listing, memories, remember


def test_then_equals_a_cache_that_was_built_from_the_records_of_then(lab: Lab) -> None:
    """The same memories, by the same scores but for how rare words are."""
    repo = lab.repo()
    words = ["parser", "export", "queue", "cache", "invoice", "retry", "clock", "token"]
    ids = [
        tell(repo, f"the {word} of part {i} holds number {i * 7}") for i, word in enumerate(words)
    ]
    topic(lab, repo, 2)
    lab.git(repo, "checkout", "-q", "main")
    commit(lab, repo, "a.txt", "one")
    with opened(repo) as store:
        for i, id in enumerate(ids[:6]):
            (
                memories.edit(store, id, {"body": f"the {words[i]} was rewritten"})
                if i % 3 == 0
                else memories.forget(store, id)
                if i % 3 == 1
                else memories.supersede(store, id, {"body": f"another {words[i]} now"})
            )
        table = embed.StaticTable()
        lines = [
            item
            for scope, notes in store.sources
            if notes.tip()
            for item in [(key, line, SCOPE_BITS[scope]) for key, line in notes.lines(notes.tip())]
        ]
        first_lines = [
            item
            for item in lines
            if record.parse(item[1]).data.get("head", "") != head(lab, repo)
            and record.parse(item[1]).data.get("commit") == head(lab, repo, "HEAD~1")
        ]  # type: ignore[union-attr]
        fresh = cache_file.open_in_memory()
        update = Update(fresh, table, None)
        update.take(batch_of(first_lines))
        update.finish()

        def ask(cache: cache_file.Cache) -> None:
            with snapshot_view.opened(store, cache, "HEAD~1") as past:
                wanted = past.filter(Filter())
                assert wanted.count(past) == 8 == fresh.count()
                for query in (*words, "which part has number 21", "rewritten", "another queue"):
                    texts = []
                    for place, conditions in ((past, wanted), (fresh, Filter())):
                        hits, _, _ = Search(place, table.vector).ask(query, conditions, 8)
                        texts.append(
                            [
                                (
                                    memory_rows.load(place, [h.row])[0][0]["body"],
                                    h.retrieval,
                                    h.cosine,
                                )
                                for h in hits
                            ]
                        )
                    assert sorted(texts[0]) == sorted(texts[1]) and texts[0][:1] == texts[1][:1], (
                        query
                    )

        store.with_cache(ask)


@pytest.mark.parametrize("seed", range(4))
def test_a_list_as_of_any_commit_is_what_a_slow_reference_says(lab: Lab, seed: int) -> None:
    """Branches, merges, edits, supersedes and forgets by chance; the reference asks `git
    merge-base` about each record and folds what is left.
    """
    rng = random.Random(seed)
    repo = lab.repo()
    branches = ["main"]
    for step in range(14):
        what = rng.choice(
            [
                "commit",
                "commit",
                "branch",
                "switch",
                "merge",
                "tell",
                "tell",
                "edit",
                "supersede",
                "forget",
            ]
        )
        if what == "branch":
            branches.append(f"b{step}")
            lab.git(repo, "checkout", "-q", "-b", branches[-1])
        elif what == "switch":
            lab.git(repo, "checkout", "-q", rng.choice(branches))
        elif what == "merge":
            lab.git(repo, "merge", "-q", "--no-ff", "-m", f"merge {step}", rng.choice(branches))
        elif what == "commit":
            commit(lab, repo, f"{step}.txt", str(step))
        else:
            with opened(repo) as store:
                ids = sorted(
                    m["id"] for m in listing.list_memories(store, Filter(), all_branches=True)[0]
                )
                if what == "tell" or not ids:
                    remember.remember(store, [{"body": f"text {step} of a memory"}])
                elif what == "edit":
                    memories.edit(store, rng.choice(ids), {"body": f"edited in step {step}"})
                elif what == "supersede":
                    memories.supersede(
                        store, rng.choice(ids), {"body": f"in its place since step {step}"}
                    )
                else:
                    memories.forget(store, rng.choice(ids))
    records = [r for line in lab.lines(repo) if (r := record.parse(line.encode()))]

    def before(commit_id: str, at: str) -> bool:
        return lab.run(repo, "git", "merge-base", "--is-ancestor", commit_id, at).returncode == 0

    for at in sorted(set(lab.git(repo, "rev-list", "--all", "--not", "--glob=refs/notes").split())):
        known = [
            r
            for r in records
            if before(str(r.data["head" if r.op in ("edit", "forget") else "commit"]), at)
        ]
        wanted = {
            str(v.data["body"])
            for m in fold.fold(known).values()
            if m.status == fold.ACTIVE
            for v in m.versions
            if before(str(v.data["commit"]), at)
        }
        with opened(repo) as store:
            items = listing.list_memories(store, Filter(), all_branches=True, at=at)[0]
        said = {m["body"] for m in items}.union(
            *({a["body"] for a in m.get("alternatives", ())} for m in items)
        )
        assert said == wanted, (seed, at)
