"""What a move of HEAD changes in the states that are kept (`anchor_state_store`).

From A to B only two kinds of anchors can change: those that lie, or whose
successor or twin lies, among the commits between A and B; and open ones,
where one of the commits that B has more carries their change, or where a
branch moved. All others are neither read nor written.

Promise: what is kept afterwards is what `anchor_state.stands` would say of every
anchor, which a test compares over generated histories. Cost: a walk
over A...B (`lineage`), patch-ids of the commits that B has more (none where nothing is
open), and the full search for the few anchors that may have changed.
"""

from __future__ import annotations

import copy
import json
import os

from ..core.digest import sha256
from ..engine import anchor_state_store
from ..engine.anchor_state_store import REACHABLE, UNKNOWN, UNMERGED, Stand
from ..engine.cache import Cache
from ..git import refs_mtime
from ..git.repository import Repo
from . import anchor_state, equivalent_commits, lineage, patch_id, slots
from .patch_id_cache import LATER, Patches
from .reachability import Ancestry, Ways, floor, near

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from .lineage import Lineage

_MAIN, _TAG = 1, 2
# commits that B has more, from which those are left out that no open anchor can have its twin among
_FEW = 500


class Ground:
    """What states rest on beside HEAD: the tips of branches, the main lines among them, where
    history ends; now, and when states were last kept.
    """

    def __init__(self, repo: Repo, cache: Cache) -> None:
        self.cache = cache
        self.refs = refs_mtime.stamp(
            repo.common_dir
        )  # before they are read: what comes later is seen by the next one
        rows = [
            row.split(" ", 1)
            for row in repo.git.text(
                "for-each-ref",
                "--format=%(objectname) %(refname) %(*objectname)",
                "refs/heads",
                "refs/remotes",
                "refs/tags",
                "refs/replace",
            ).splitlines()
        ]
        self.tips = {
            ref.split(" ")[1] or tip
            for tip, ref in rows
            if ref.startswith(("refs/heads/", "refs/remotes/"))
        }  # who fetches tags to refs/remotes has some there
        self.tags = {
            ref.split(" ")[1] or tip for tip, ref in rows if ref.startswith("refs/tags/")
        } - self.tips
        self.main = set(patch_id.main_lines(repo))
        self._was(dict(cache.db.execute("SELECT commit_id, main FROM tip")))
        self.inside = (
            set(cache.meta("inside").split()) if self.main == self.main_before else set()
        )  # HEADs that a main line contains, as far as known
        self.shallow = os.path.exists(os.path.join(repo.common_dir, "shallow"))
        self.partial = patch_id.partial(repo)
        said = [
            _content(repo, "shallow"),
            _content(repo, "info", "grafts"),
            str(self.partial),
            *(f"{tip} {ref}" for tip, ref in rows if ref.startswith("refs/replace/")),
        ]
        self.stamp = sha256(repr(said).encode()).hexdigest()
        self.same = cache.meta("ground") == self.stamp

    def _was(self, kept: dict[str, int]) -> None:
        self.before = {tip for tip, kind in kept.items() if kind != _TAG}
        self.main_before = {tip for tip, kind in kept.items() if kind == _MAIN}
        self.tags_before = {tip for tip, kind in kept.items() if kind == _TAG}

    def since(self, kept: dict[str, int]) -> Ground:
        """The same as seen from states that rest on something else, as `slots.ground` says."""
        out = copy.copy(self)
        out._was(kept)
        return out

    def keep(self) -> None:
        """Writes what is so now; the caller owns the transaction."""
        now = {(t, _TAG) for t in self.tags - self.main} | {
            (t, _MAIN if t in self.main else 0) for t in self.tips | self.main
        }
        before = {(t, _TAG) for t in self.tags_before} | {
            (t, _MAIN if t in self.main_before else 0) for t in self.before
        }
        self.cache.db.executemany(
            "DELETE FROM tip WHERE commit_id = ?", [(tip,) for tip, _ in before - now]
        )
        self.cache.db.executemany("INSERT OR REPLACE INTO tip VALUES(?, ?)", sorted(now - before))
        self.cache.set_meta("ground", self.stamp)
        self.cache.set_meta(anchor_state_store.REFS, self.refs)
        self.cache.set_meta(
            "inside",
            " ".join(sorted(self.inside.intersection(anchor_state_store.slots(self.cache)))),
        )

    @property
    def kept(self) -> bool:
        """Whether this is what was kept."""
        return (
            self.same
            and self.before == self.tips | self.main
            and self.main_before == self.main
            and self.tags_before == self.tags - self.main
        )


def _content(repo: Repo, *name: str) -> bytes:
    try:
        with open(os.path.join(repo.common_dir, *name), "rb") as f:
            return f.read()
    except OSError:
        return b""


def begin(
    repo: Repo, cache: Cache, ground: Ground, heads: Collection[str], head: str, ways: Ways
) -> tuple[str, int, Ground] | None:
    """(HEAD whose states are nearest to those of `head`, their slot, what they rest on); None where
    nothing that is kept is of use. `heads`: those of all worktrees.
    """
    kept, left = anchor_state_store.slots(cache), slots.left(cache)
    # From the states of this HEAD, else of one that no worktree has any more, else of any; where
    # that is far, perhaps of one that was left before.
    base = (
        head
        if head in kept
        else next((c for c in (*(c for c in kept if c not in heads), *kept)), "")
    )
    if not base or not ground.same or not repo.commit(base):
        return None
    if base != head and (head in left or ways.between(repo, cache, base, head).far):
        ways.left.add(base)
    if base != head and head in left:
        base = head
    elif base in ways.left:
        base = next((c for c in left if repo.commit(c) and near(repo, cache, c, head)), base)
    ways.base[head] = base
    return (
        (base, kept[base], ground)
        if base in kept
        else (base, left[base], ground.since(slots.ground(cache, base)))
    )


class Move:
    """HEAD went from `before`, whose states are kept under `slot`, to `head`; both may be the same,
    where only memories or branches changed.
    """

    def __init__(
        self,
        repo: Repo,
        cache: Cache,
        ground: Ground,
        before: str,
        slot: int,
        head: str,
        seconds: float,
        ways: Ways,
    ) -> None:
        self.repo, self.cache, self.ground, self.slot = repo, cache, ground, slot
        self.before, self.head = before, head
        self.patches = Patches(repo, cache, seconds)
        self.between = ways.between(repo, cache, before, head)
        self.gained = self.between.gained
        self.lost = self.between.lost
        self._ways: dict[str, list[str]] = {}
        self._outside: set[str] = set()
        self._contain: set[str] | None = None

    def changes(self, fresh: Iterable[str]) -> dict[str, Stand]:
        """{anchor: its new state} where it is another one.

        `fresh`: anchors of which records said something new.
        """
        inside = "SELECT value FROM json_each(?)"
        touched = anchor_state_store.touching(self.cache, self.slot, self.between.both)
        fresh = set(fresh)
        moved = anchor_state.joined(self.cache, self.between.both) | anchor_state.joined(
            self.cache, fresh
        )
        kept = {
            **anchor_state_store.rows(self.cache, self.slot, "state <> ?", REACHABLE),
            **touched,
        }
        if moved:
            kept.update(
                anchor_state_store.rows(
                    self.cache, self.slot, f"anchor IN ({inside})", json.dumps(sorted(moved))
                )
            )
        out: dict[str, Stand] = {}
        ask = {
            *fresh,
            *(a for a, s in kept.items() if a in moved or s.reason == anchor_state_store.WAITING),
            *self._pruned(kept),
        }
        dropped: set[str] = set()
        for anchor in touched.keys() - ask:
            if anchor in self.gained:
                out[anchor] = Stand(REACHABLE, anchor)
            elif anchor in self.lost:
                dropped.add(anchor)
            else:
                ask.add(anchor)  # the commit that carried its change
        dropped = self._dropped(dropped, out)
        try:
            ask |= (
                self._reached(
                    {a for a, s in kept.items() if s.state in (UNMERGED, UNKNOWN)}
                    - ask
                    - out.keys()
                )
                | dropped
            )
            if ask:
                kept.update(
                    anchor_state_store.rows(
                        self.cache,
                        self.slot,
                        f"anchor IN ({inside})",
                        json.dumps(sorted(ask - kept.keys())),
                    )
                )
                out.update(
                    anchor_state.stands(
                        self.repo,
                        self.cache,
                        ask,
                        self.head,
                        again=True,
                        main=self._on_main(),
                        beyond=self.between,
                        patches=self.patches,
                    )
                )
        finally:  # where git fails, too: what was found until then is not made again
            self.patches.save()
        return {a: s for a, s in out.items() if a not in kept or not _same(s, kept[a])}

    def _pruned(self, kept: dict[str, Stand]) -> set[str]:
        """The anchors whose commit nothing holds, and that a `git gc` has taken away since."""
        ground = self.ground
        left = {*ground.before, *ground.tags_before} - {*ground.tips, *ground.tags, *ground.main}
        gone = len(self._here(left)) < len(left)  # with what held them, before anybody looked
        loose = {
            a: s.commit
            for a, s in kept.items()
            if s.reason == anchor_state_store.ABANDONED or (gone and s.state == UNMERGED)
        }
        here = (
            set(self._here(set(loose.values())))
            if loose and not self.ground.partial
            else set(loose.values())
        )
        return {a for a, commit in loose.items() if commit not in here}

    def _on_main(self) -> Collection[str]:
        """What HEAD left behind, where that lies on a main line."""
        return self.lost if self.lost and self._inside(self.before) else ()

    def _inside(self, commit: str) -> bool:
        """Whether a main line contains one of both HEADs.

        Asked once: for an old release or a bisection git walks far.
        """
        ground = self.ground
        if commit in ground.main or commit in ground.inside:
            return True
        if commit not in self._outside:
            other = self.before if commit == self.head else self.head
            # Without a commit of its own it lies below the other.
            below = not (self.gained if commit == self.head else self.lost) and (
                other in ground.main or other in ground.inside
            )
            if commit == self.head:
                below = below or not ground.main.isdisjoint(self._above())
            else:
                below = below or any(
                    self.repo.git.run_status(
                        "merge-base", "--is-ancestor", commit, m, ok=(0, 1, 128)
                    )[1]
                    == 0
                    for m in sorted(ground.main)
                )
            if below:
                ground.inside.add(commit)
                return True
            self._outside.add(commit)
        return False

    def _line(self, tips: Collection[str]) -> Lineage:
        """How the commits of HEAD and of these hang together, as far as they are here.

        Where git replaces commits that is known of none before.
        """
        line = lineage.of(self.repo, self.cache)
        line.cover(self.cache, [self.head, *self._here(c for c in tips if c not in line)])
        return line

    def _above(self) -> set[str]:
        """The commits of branches that contain HEAD."""
        if self._contain is None:
            tips = self.ground.tips | self.ground.main
            line = self._line(tips)
            self._contain = set(line.above(self.head, [c for c in tips if c in line]))
        return self._contain

    def _over(self, above: set[str], commits: set[str]) -> set[str]:
        """Those of these commits, and below them, that no branch holds and that have one of `above`
        in their history.
        """
        names = self._here(commits) if commits else []
        if not names:
            return set()
        stdin = "".join(
            [
                *(f"{c}\n" for c in names),
                *(f"^{c}\n" for c in sorted(self.ground.tips | self.ground.main)),
            ]
        ).encode()
        out: set[str] = set()
        for row in reversed(
            self.repo.git.run("rev-list", "--topo-order", "--parents", "--stdin", stdin=stdin)
            .decode()
            .splitlines()
        ):
            commit, *parents = row.split(" ")
            if any(p in above or p in out or p == self.head for p in parents):
                out.add(commit)
        return out

    def _within(self) -> bool:
        """Whether both HEADs lie on main lines that did not move: then nothing but HEAD has changed
        for any branch.
        """
        return (
            bool(self.ground.main)
            and self.ground.main == self.ground.main_before
            and self._inside(self.head)
            and self._inside(self.before)
        )

    def _dropped(self, dropped: set[str], out: dict[str, Stand]) -> set[str]:
        """States of anchors that only the former revision contains; returns those that may have a
        twin.
        """
        if self.ground.shallow:
            out.update((a, Stand(UNKNOWN, a, reason=anchor_state.SHALLOW)) for a in dropped)
            return set()
        # A descendant of HEAD has its whole history: nothing in it is a later copy.
        # What a main line holds is on no branch that could be merged; of others the branches are to
        # be known before that happens.
        done = self.between.above if dropped and self._on_main() else ()
        out.update((a, Stand(UNMERGED, a)) for a in dropped if a in done)
        return {a for a in dropped if a not in done}

    def _reached(self, open_: set[str]) -> set[str]:
        """Those of the open anchors whose change a commit may carry that was not looked at before,
        and those whose branch moved.
        """
        if not open_ or self.ground.shallow:
            return set()
        out = self._elsewhere(open_)
        out |= self._rebased(open_ - out)
        out |= self._held(open_ - out)
        if not self.gained:
            return out
        out |= self._holding(open_ - out, self._waiting())
        left = open_ - out
        if not left:
            return out
        worth, left = self._worth(left)
        if self.ground.partial:
            return open_
        if not self.patches.learn(worth) or not self.patches.learn(
            self._unmarked(left) if worth else ()
        ):
            return open_
        ids = sorted(set(self.patches.own(worth).values()))
        return out | self._holding(left, self._matching(ids)) if ids else out

    def _waiting(self) -> set[str]:
        """The commits of branches whose patch-id was not to be made before HEAD has something that
        they have not, which is now, wherever HEAD was meanwhile.
        """
        later = [
            (tip.hex(), base.hex())
            for tip, base in self.cache.db.execute(
                "SELECT tip, base FROM branch WHERE id = ?", (LATER,)
            )
        ]
        tips = self._here({tip for tip, _ in later}) if later else []
        if not tips:
            return set()
        line = self._line(tips)
        inside, above = line.below(self.head), set(line.above(self.head, tips))
        beyond = self._beyond(
            tip for tip in tips if tip not in above and not inside[line.place(tip)]
        )
        # Where a main line took in what lay behind the base, as when it was reset and came back,
        # the branch begins later now.
        line = self._line(beyond)
        began = set(line.commits({p for c in beyond for p in line.parents(line.place(c))}))
        wanted = [(tip, base) for tip, base in later if tip in beyond and base in began]
        self.patches.branches(wanted)
        return self._beyond({tip for tip, _ in wanted})

    def _worth(self, open_: set[str]) -> tuple[list[str], set[str]]:
        """(those of the new commits that may be twins of open anchors, these anchors): what an
        anchor's own history has is no twin of it.
        """
        if len(self.gained) <= _FEW and len(self._unmarked(open_)) <= _FEW:
            return list(self.gained), open_
        # A commit above HEAD, as nearly all are in a bisection, has HEAD's whole history; so has
        # one whose branch began there.
        above = self._above()
        ways = {a: way for a, way in self._way(open_).items() if not above.issuperset(way)}
        above = above | self._over(
            above, {c for way in ways.values() for c in way if c not in above}
        )
        ways = {a: way for a, way in ways.items() if not above.issuperset(way)}
        stated = equivalent_commits.marks_of(self.cache, {c for way in ways.values() for c in way})
        bases = {c: {base for _, base, _ in found if base} for c, found in stated.items()}
        ways = {
            a: way
            for a, way in ways.items()
            if not all(c in above or (bases[c] and bases[c] <= above) for c in way)
        }
        if not ways:
            return [], set()
        line = Ancestry(
            self.repo.git,
            [self.head],
            {*bases, *(base for some in bases.values() for base in some)},
        )
        points: set[str] = set()
        left: set[str] = set()
        for anchor, way in ways.items():
            for commit in way:
                # Of a commit that is not here its base is known, or nothing.
                began = (
                    line.forks(commit)
                    if commit in line.here
                    else {
                        p
                        for base in bases[commit]
                        if base in line.here
                        for p in (line.forks(base) if base in line.beyond else {base})
                    }
                )
                if not began:
                    return list(self.gained), open_
                if self.head not in began:
                    points |= began
                    left.add(anchor)
        oldest = floor(self.repo.git, self.head, sorted(points)) if points else self.head
        if not oldest:
            return list(self.gained), left
        return (
            self.repo.git.text(
                "rev-list", self.head, "^" + self.before, "^" + oldest, "--"
            ).split(),
            left,
        )

    def _unmarked(self, open_: set[str]) -> list[str]:
        """The commits of anchors whose patch-id no record states and the cache does not have, as
        far as they are here.
        """
        commits = {c for way in self._way(open_).values() for c in way}
        stated = equivalent_commits.marks_of(self.cache, commits)
        bare = [c for c in commits if not any(patch for patch, _, _ in stated[c])]
        return self._here(self.patches.missing(bare))

    def _matching(self, ids: list[str]) -> set[str]:
        """Commits beside the revision's history that have one of these patch-ids, or lie on a
        branch that has.
        """
        asked = json.dumps(ids)
        inside = "SELECT value FROM json_each(?)"
        out = {
            c
            for (c,) in self.cache.db.execute(
                f"SELECT commit_id FROM anchor WHERE patch IN ({inside}) OR branch_patch IN"
                f" ({inside})",
                (asked, asked),
            )
        }
        out.update(c for found in self.patches.holders(ids).values() for c in found)
        known = {bytes.fromhex(id) for id in ids}
        return out | self._beyond(
            tip.hex()
            for tip, id in self.cache.db.execute("SELECT tip, id FROM branch WHERE id <> x''")
            if id in known
        )

    def _elsewhere(self, open_: set[str]) -> set[str]:
        """The open anchors that lie on branches which moved or came; without their base, where the
        window of recent commits moved back.
        """
        out = self._holding(open_, self._beyond(self.ground.tips - self.ground.before))
        if self.lost:
            rows = anchor_state_store.rows(self.cache, self.slot, "reason = ?", anchor_state.ABSENT)
            stated = equivalent_commits.marks_of(self.cache, open_ & rows.keys())
            out |= {a for a, found in stated.items() if not any(base for _, base, _ in found)}
        return out

    def _rebased(self, open_: set[str]) -> set[str]:
        """The open anchors of branches that leave the histories of HEAD and of the main lines
        elsewhere than before; all, where that is not told apart.
        """
        made = {tip.hex() for (tip,) in self.cache.db.execute("SELECT DISTINCT tip FROM branch")}
        tips = sorted(self.ground.tips & self.ground.before & made)
        if not open_ or self._within():
            return set()
        out: set[str] = set()
        now, then = (
            sorted({self.head, *self.ground.main}),
            sorted({self.before, *self.ground.main_before}),
        )
        for here, there in ((now, then), (then, now)):
            names = self._here([c for c in here if c not in there]), self._here(there)
            if names[0]:
                between = set(
                    self.gained
                    if (names[0], there) == ([self.head], [self.before])
                    else (
                        self.lost
                        if (names[0], there) == ([self.before], [self.head])
                        else self._list(*names)
                    )
                )
                if there is now:
                    out |= self._holding(
                        open_, between
                    )  # a main line went back: they are on a branch again
                beside = [
                    t for t in tips if t not in between
                ]  # a merged one leaves nothing anywhere
                if (
                    between
                    and beside
                    and len(self._list(names[0], [*names[1], *beside])) != len(between)
                ):
                    return open_
        return out

    def _held(self, open_: set[str]) -> set[str]:
        """The open anchors that a branch or tag held or holds, and none before or now.

        (HEAD holds what it contains, which is not open.)
        """
        ground = self.ground
        if {*ground.tips, *ground.tags} == {*ground.before, *ground.tags_before} and self._within():
            return set()
        now, then = (
            {*ground.tips, *ground.tags, self.head},
            {*ground.before, *ground.tags_before, self.before},
        )
        out: set[str] = set()
        for here, there in ((now, then), (then, now)):
            names = self._here(here - there) if open_ and here != there else []
            if names:
                out |= self._holding(open_, set(self._list(names, self._here(there))))
        return out

    def _beyond(self, tips: Iterable[str]) -> set[str]:
        """The commits of branches that neither the revision nor a main line contains."""
        asked = self._here([t for t in tips if t != self.head and t not in self.ground.main])
        return set(self._list(asked, sorted({self.head, *self.ground.main}))) if asked else set()

    def _list(self, names: Collection[str], without: Collection[str]) -> list[str]:
        """The commits that some of these contain, and none of those."""
        line = self.between.line
        if line and all(c in line for c in (*names, *without)):
            return line.commits(line.only(names, without))
        stdin = "".join([*(f"{c}\n" for c in names), *(f"^{c}\n" for c in without)]).encode()
        return self.repo.git.run("rev-list", "--stdin", stdin=stdin).decode().split()

    def _here(self, names: Iterable[str]) -> list[str]:
        """Those that are commits of this repository; of a tag its commit."""
        asked = sorted(names)
        return (
            [id for id in self.repo.git.ids([f"{c}^{{commit}}" for c in asked]) if id]
            if asked
            else []
        )

    def _holding(self, open_: set[str], commits: set[str]) -> set[str]:
        """Those of the anchors that stand at one of these commits."""
        return (
            {a for a, way in self._way(open_).items() if not commits.isdisjoint(way)}
            if commits
            else set()
        )

    def _way(self, anchors: set[str]) -> dict[str, list[str]]:
        missing = anchors - self._ways.keys()
        if missing:
            self._ways.update(anchor_state.moves(self.cache, missing))
        return {a: self._ways[a] for a in anchors}


def _same(one: Stand, other: Stand) -> bool:
    return (one.state, one.commit, one.into, one.reason) == (
        other.state,
        other.commit,
        other.into,
        other.reason,
    )
