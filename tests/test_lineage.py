"""How commits hang together, as kept in the cache, against what git says of generated histories."""

from __future__ import annotations

import pathlib
import random

import pytest
from conftest import Lab
from places import opened

from gitmem.anchors import deletion_index, lineage, reachability
from gitmem.core.errors import GitFailed
from gitmem.engine.cache import Cache
from gitmem.store import Store


@pytest.fixture(autouse=True)
def every_commit_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lineage, "NEW", 1)


def history(lab: Lab, seed: int, commits: int, roots: int = 3) -> tuple[pathlib.Path, list[str]]:
    """A repository of random commits with up to four parents, some with none; and their ids, in the
    order they were made.
    """
    rng = random.Random(seed)
    repo = lab.root / f"h{seed}"
    lab.git(lab.root, "init", "-q", "-b", "main", str(repo))
    return repo, grown(lab, repo, rng, [], commits, roots)


def grown(
    lab: Lab, repo: pathlib.Path, rng: random.Random, ids: list[str], commits: int, roots: int = 0
) -> list[str]:
    """All ids, after so many commits more."""
    out, first = [], len(ids)
    for n in range(first, first + commits):
        above = (
            rng.sample(range(max(0, n - 12), n), min(n, rng.choice((1, 1, 1, 2, 2, 4))))
            if n >= roots
            else []
        )
        # Clocks are wrong now and then.
        out.append(
            f"commit refs/heads/c{n}\nmark :{n + 1}\ncommitter A <a@b>"
            f" {1_700_000_000 + n * 60 - rng.choice((0, 0, 0, 9_000))} +0000\ndata 1\nx\n"
        )
        out += [
            f"{'from' if i == 0 else 'merge'} {ids[p] if p < first else f':{p + 1}'}\n"
            for i, p in enumerate(above)
        ]
        out.append(f"M 644 inline f{n}\ndata 1\nx\n")
    lab.git(repo, "fast-import", "--quiet", stdin="".join(out))
    return lab.git(repo, "rev-parse", *[f"c{n}" for n in range(first + commits)]).split()


def listed(lab: Lab, repo: pathlib.Path, *asked: str) -> set[str]:
    return set(lab.git(repo, "rev-list", *asked).split())


def ancestors(lab: Lab, repo: pathlib.Path) -> dict[str, set[str]]:
    """{commit: what it contains}, from the parents alone: where clocks are wrong, `git rev-list A
    ^B` lists commits that B contains.
    """
    rows = [
        row.split()
        for row in lab.git(
            repo, "rev-list", "--topo-order", "--reverse", "--parents", "--all"
        ).splitlines()
    ]
    out: dict[str, set[str]] = {}
    for commit, *above in rows:
        out[commit] = {commit}.union(*(out[p] for p in above))
    return out


def cache_of(store: Store) -> Cache:
    return store.with_cache(lambda cache: cache)[0]


@pytest.mark.parametrize("seed", range(4))
def test_it_says_what_git_says(lab: Lab, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lineage, "_PART", 16)  # many rows of the table
    rng = random.Random(seed)
    repo, ids = history(lab, seed, 60)
    for _ in range(3):
        has = ancestors(lab, repo)
        with opened(repo) as store:
            cache = cache_of(store)
            line = lineage.of(store.repo, cache)
            for _ in range(12):
                one, other, *tips = rng.sample(ids, 6)
                assert line.cover(cache, [one, other, *tips])
                a, b = line.apart(one, other)
                assert (
                    set(line.commits(a)) == has[one] - has[other]
                    and set(line.commits(b)) == has[other] - has[one]
                )
                for places in (a, b):
                    assert all(p < n for n in places for p in line.parents(n)) and places == sorted(
                        places, reverse=True
                    )
                held = line.below(one)
                assert (
                    {line.commit(n) for n, inside in enumerate(held) if inside}
                    == has[one]
                    == listed(lab, repo, one)
                )
                assert set(line.above(one, tips)) == {
                    c for c in set().union(*(has[t] for t in tips)) if one in has[c]
                } - {one}
                here, there = [one, tips[0]], [other, tips[1]]
                beyond = set().union(*(has[c] for c in here)) - set().union(
                    *(has[c] for c in there)
                )
                only = line.only(here, there)
                assert set(line.commits(only)) == beyond and only == sorted(only, reverse=True)
                walked, read = (
                    reachability.Ancestry(store.repo.git, there, here),
                    reachability.Ancestry(store.repo.git, there, here, line),
                )
                assert (
                    read.beyond == {c: lab.git(repo, "rev-parse", c + "^@").split() for c in beyond}
                    and read.here == walked.here
                )
                began = {
                    p
                    for c in has[one] ^ has[other]
                    for p in lab.git(repo, "rev-parse", c + "^@").split()
                } - (has[one] ^ has[other])
                assert set(line.commits(line.knots([*a, *b]))) == (
                    set().union(*(has[p] for p in began))
                    - has[one].intersection(*(has[p] for p in began))
                    if began
                    else set()
                )
                few = line.apart(one, other, 3)
                assert min(3, len(a) + len(b)) <= len(few[0]) + len(few[1]) <= len(a) + len(b)
                for n in a[:5]:
                    assert set(line.commits(line.parents(n))) == set(
                        lab.git(repo, "rev-parse", line.commit(n) + "^@").split()
                    )
        ids = grown(lab, repo, rng, ids, 20)  # the next process begins with what this one kept


def test_a_short_way_is_the_same_without_all_that_is_known(lab: Lab) -> None:
    repo, ids = history(lab, 7, 60, roots=1)
    seen = 0
    with opened(repo) as store:
        cache = cache_of(store)
        for one in ids:
            for other in random.Random(one).sample(ids, 6):
                step = reachability.Between.step(store.repo, one, other)
                if step is not None:
                    walk = reachability.Between.walk(store.repo, cache, one, other)
                    assert step.lost == walk.lost and step.gained == walk.gained and not walk.knots
                    assert all(step.forks(c) == walk.forks(c) for c in step.lost)
                    assert set(step.above) == set(walk.above)
                    seen += bool(step.lost) + bool(step.gained)
        assert seen > 20
        assert reachability.Between.step(store.repo, "ab" * 20, ids[0]) is None


def test_what_head_left_behind_and_contains_it_is_known(lab: Lab) -> None:
    repo, ids = history(lab, 9, 50)
    has = ancestors(lab, repo)
    seen = 0
    with opened(repo) as store:
        for one in ids[10:]:
            for other in ids[::7]:
                between = reachability.Between.walk(store.repo, cache_of(store), one, other)
                assert between.both.keys() == has[one] ^ has[other]
                assert set(between.above) == {c for c in has[one] - has[other] if other in has[c]}
                seen += bool(between.above) and len(between.above) < len(between.lost)
    assert seen > 5


def test_where_git_is_asked_anyway_branches_are_taken_in_with_it(lab: Lab) -> None:
    repo, ids = history(lab, 10, 30, roots=1)
    with opened(repo) as store:
        cache = cache_of(store)
        lineage.ahead(cache, ids, 5.0)
        line = lineage.of(store.repo, cache)
        assert ids[4] not in line  # nothing was read: nobody takes in branches for their own sake
        assert line.cover(cache, ids[:2], also=["ab" * 20, ids[4]]) and ids[4] in line
        assert line.cover(cache, ids[:2], also=ids) and ids[29] not in line  # nothing to be asked
        reachability.Between.walk(store.repo, cache, ids[1], ids[7], [ids[12]])
        assert ids[12] in line and ids[29] not in line
        lineage.ahead(cache, [*ids, "cd" * 20], 5.0)
        assert all(c in line for c in ids)


def test_a_branch_that_lacks_a_part_of_its_history_stops_no_other(lab: Lab) -> None:
    repo = lab.repo("repo", 3)
    lab.git(repo, "checkout", "-q", "-b", "torn")
    for n in range(2):
        lab.git(repo, "commit", "-q", "--allow-empty", "-m", f"empty {n}")
    lost, torn = lab.git(repo, "rev-parse", "torn~1", "torn").split()
    (repo / ".git" / "objects" / lost[:2] / lost[2:]).unlink()
    ids = lab.git(repo, "rev-list", "main").split()
    with opened(repo) as store:
        cache = cache_of(store)
        line = lineage.of(store.repo, cache)
        assert line.cover(cache, [ids[1]], also=[torn]) and ids[1] in line and torn not in line
        between = reachability.Between.walk(store.repo, cache, ids[0], ids[1], [torn])
        assert list(between.lost) == [ids[0]]
        lineage.ahead(cache, [torn], 5.0)
        with pytest.raises(GitFailed):
            line.cover(cache, [torn], also=[ids[2]])


def test_git_is_asked_once_for_a_commit(lab: Lab) -> None:
    repo, ids = history(lab, 1, 40)
    with opened(repo) as store:
        lineage.of(store.repo, cache_of(store)).cover(cache_of(store), ids)
    with opened(repo) as store:
        cache = cache_of(store)
        line = lineage.of(store.repo, cache)
        asked: list[tuple[str, ...]] = []
        store.repo.git.limited = lambda *args, **kw: asked.append(args) or (b"", True)  # type: ignore
        assert line.cover(cache, ids, 1.0) and not asked and line is lineage.of(store.repo, cache)


def test_few_commits_are_not_worth_a_write(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    repo, ids = history(lab, 8, 40, roots=1)
    monkeypatch.setattr(lineage, "NEW", 30)
    kept = []
    with opened(repo) as store:
        cache = cache_of(store)
        for n in (9, 19, 35, 39):
            line = lineage.of(store.repo, cache)
            assert line.cover(cache, ids[: n + 1])
            assert {
                line.commit(p) for p, inside in enumerate(line.below(ids[n])) if inside
            } == listed(lab, repo, ids[n])
            kept.append(int(cache.meta("lineage:commits", "0")))
    assert kept[0] == 0 and kept[-1] >= 30


def test_where_history_ends_elsewhere_now_it_is_read_anew(lab: Lab) -> None:
    origin, ids = history(lab, 2, 30, roots=1)
    lab.git(lab.root, "clone", "-q", "--depth", "3", "-b", "c29", f"file://{origin}", "shallow")
    repo = lab.root / "shallow"
    with opened(repo) as store:
        cache = cache_of(store)
        short = lineage.of(store.repo, cache)
        short.cover(cache, [ids[29]])
        assert (
            len(short.first) == len(listed(lab, repo, ids[29])) < len(listed(lab, origin, ids[29]))
        )
        lab.git(repo, "fetch", "-q", "--unshallow")
        whole = lineage.of(store.repo, cache)
        whole.cover(cache, [ids[29]])
        assert {
            whole.commit(n) for n, inside in enumerate(whole.below(ids[29])) if inside
        } == listed(lab, origin, ids[29])
    with opened(repo) as store:
        assert len(lineage.of(store.repo, cache_of(store)).first) == len(whole.first)


def test_replaced_commits_have_the_parents_that_git_gives_them_and_are_not_kept(lab: Lab) -> None:
    repo, ids = history(lab, 3, 20, roots=1)
    with opened(repo) as store:
        lineage.of(store.repo, cache_of(store)).cover(cache_of(store), [ids[19]])
    lab.git(repo, "replace", "--graft", ids[19], ids[0])
    with opened(repo) as store:
        cache = cache_of(store)
        line = lineage.of(store.repo, cache)
        line.cover(cache, [ids[19]])
        assert line.commits(line.parents(line.place(ids[19]))) == [ids[0]]
    lab.git(repo, "replace", "-d", ids[19])
    with opened(repo) as store:
        line = lineage.of(store.repo, cache_of(store))
        assert set(line.commits(line.parents(line.place(ids[19])))) == set(
            lab.git(repo, "rev-parse", ids[19] + "^@").split()
        )


def test_two_processes_at_once_leave_a_whole_table(lab: Lab) -> None:
    repo, ids = history(lab, 4, 40)
    with opened(repo) as one, opened(repo) as two:
        first, second = cache_of(one), cache_of(two)
        a, b = lineage.Lineage(one.repo, first), lineage.Lineage(two.repo, second)
        assert (
            a.cover(first, [ids[10]])
            and b.cover(second, [ids[39]])
            and a.cover(first, [ids[20]])
            and b.cover(second, [ids[30]])
        )
    with opened(repo) as store:
        cache = cache_of(store)
        line = lineage.of(store.repo, cache)
        assert len(line.first) and len(set(line.commits(range(len(line.first))))) == len(line.first)
        line.cover(cache, ids)
        assert {line.commit(n) for n, inside in enumerate(line.below(ids[39])) if inside} == listed(
            lab, repo, ids[39]
        )


def test_what_is_not_here_and_what_takes_too_long_is_said(lab: Lab) -> None:
    repo, ids = history(lab, 5, 10)
    with opened(repo) as store:
        cache = cache_of(store)
        with pytest.raises(GitFailed):
            lineage.of(store.repo, cache).cover(cache, ["ab" * 20])
        assert not lineage.of(store.repo, cache).cover(cache, ids, 0.0)
        with pytest.raises(deletion_index.Open):
            _ = deletion_index.History(store.repo, cache, "ab" * 20, 1.0).line


def test_an_answer_in_a_hurry_reads_down_to_what_is_asked(lab: Lab) -> None:
    repo, ids = history(lab, 6, 60, roots=1)
    with opened(repo) as store:
        cache = cache_of(store)
        history_of = deletion_index.History(store.repo, cache, ids[59], 5.0)
        history_of.only_for([ids[50]])
        assert history_of.last == history_of.line.place(ids[59]) and len(
            history_of.line.first
        ) < len(listed(lab, repo, ids[59]))
        assert not cache.db.execute(
            "SELECT 1 FROM lineage"
        ).fetchone()  # a part of a history is not kept
        everything = lineage.of(store.repo, cache)
        everything.cover(cache, [ids[59]])
        assert {
            everything.commit(n) for n, inside in enumerate(everything.below(ids[59])) if inside
        } == listed(lab, repo, ids[59])


def test_a_merge_is_one_also_where_a_parent_is_left_out(lab: Lab) -> None:
    repo = lab.repo()
    lab.git(repo, "checkout", "-q", "-b", "topic")
    lab.git(repo, "commit", "-q", "--allow-empty", "-m", "topic")
    lab.git(repo, "checkout", "-q", "main")
    lab.git(repo, "merge", "-q", "--no-ff", "-m", "merge", "topic")
    since, merge = lab.git(repo, "rev-parse", "topic", "main").split()
    with opened(repo) as store:
        history_of = deletion_index.History(store.repo, cache_of(store), merge, 5.0)
        history_of.only_for([since])
        line = history_of.line
        assert (
            line.place(merge) in line.more
            and line.parents(line.place(merge)) == [line.place(since)]
            and len(line.first) == 2
        )


def test_a_history_has_what_it_had_when_more_commits_come_to_be_known(lab: Lab) -> None:
    repo, ids = history(lab, 7, 10, roots=1)
    with opened(repo) as store:
        cache = cache_of(store)
        history_of = deletion_index.History(store.repo, cache, ids[9], 5.0)
        history_of.scan([""])
        lab.git(repo, "checkout", "-q", "-f", "c9")
        lab.git(repo, "rm", "-q", "f9")
        lab.git(repo, "commit", "-q", "-m", "away")
        later = lab.git(repo, "rev-parse", "HEAD").strip()
        lineage.of(store.repo, cache).cover(cache, [later])
        deletion_index.History(store.repo, cache, later, 5.0).learn([later])
        assert history_of.removals(["f9"]) == {"f9": []}
