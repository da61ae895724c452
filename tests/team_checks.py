"""What must hold in a `team_world.World` once everybody has everything: clones that agree, nothing
acknowledged that is lost, nothing purged that is anywhere.
"""

from __future__ import annotations

import contextlib
import pathlib
import subprocess

from conftest import Lab
from team_world import World

from gitmem.anchors import anchor_state_update, patch_id_marks
from gitmem.core import fold, record


def quiesce(world: World) -> None:
    for _ in range(3):
        for clone in world.clones:
            world.sync(clone)


def view(world: World, clone: pathlib.Path) -> dict[str, tuple[str, tuple[str, ...]]]:
    """{id: (status, visible versions)} of the team's memories; the cache must say the same,
    also when built anew.
    """
    store = world.store(clone)
    try:
        records = [
            r
            for r in (
                record.parse(line) for _, line in store.team.lines(store.team.tip(), deep=True)
            )
            if r
        ]
        folded = {
            id: (m.status, tuple(sorted(v.version for v in m.versions)))
            for id, m in fold.fold(records).items()
            if m.records
        }
        # Here one's own private records count as well: one of them may supersede what was
        # shared since.
        own = [
            r
            for r in (
                record.parse(line)
                for _, line in store.private.lines(store.private.tip(), deep=True)
            )
            if r
        ]
        here = {id: m for id, m in fold.fold([*records, *own]).items() if id in folded}
        known = [m for m in world.known(store) if m["scope"] == "team"]

        def said(m: dict[str, object]) -> tuple[str, str, list[str]]:
            return str(m["id"]), str(m["body"]), [a["body"] for a in m.get("alternatives", ())]  # type: ignore[attr-defined]

        shown = sorted(said(m) for m in known if "superseded_by" not in m)
        active = sorted(id for id, m in here.items() if m.status == fold.ACTIVE)
        assert [id for id, *_ in shown] == active, (
            "cache and fold differ",
            set(active) ^ {id for id, *_ in shown},
            world.trace,
        )
        beside = {id: 1 + len(others) for id, _, others in shown}
        assert all(beside[id] == len(here[id].versions) for id in active), (
            "alternatives differ",
            world.trace,
        )
        # What was superseded by a commit that a rewrite took away, or that lies on another
        # branch, is still there, and says so.
        back = {str(m["id"]) for m in known if "superseded_by" in m}
        assert all(here[id].status == fold.SUPERSEDED for id in back), (
            "came back, but nothing took its place",
            back,
            world.trace,
        )
        anchor_state_update.update(store, patience=60)
        patch_id_marks.write_found(store)
        stands = {str(m["id"]): m["anchor"] for m in world.known(store)}
        scores = world.answers(clone)
        store.close_cache()
        world.lose_mem(clone)
        assert world.answers(clone) == scores, ("a rebuilt cache gives other scores", world.trace)
        anew = world.known(store)
        again = sorted(said(m) for m in anew if m["scope"] == "team" and "superseded_by" not in m)
        assert again == shown, (
            "the cache after many updates differs from one built anew",
            world.trace,
        )
        anchor_state_update.update(store, patience=60)
        anew_stands = {str(m["id"]): m["anchor"] for m in world.known(store)}
        differ = {
            id: (stands.get(id), anew_stands.get(id))
            for id in stands.keys() | anew_stands.keys()
            if stands.get(id) != anew_stands.get(id)
        }
        assert not differ, (
            "where a memory stands was known only to the cache",
            differ,
            world.trace,
        )
        return folded
    finally:
        store.close()


def check(world: World) -> None:
    """After quiescence: everyone is equal, what was acknowledged is there, what was purged is
    nowhere.
    """
    views = [view(world, c) for c in world.clones]
    assert views[0] == views[1] == views[2], ("clones differ", world.trace)
    for id in world.team - world.dead:
        assert id in views[0], ("acknowledged and lost", id, world.trace)
        assert id in world.hidden or views[0][id][0] == fold.ACTIVE, (
            "hidden, but nobody did that",
            id,
            views[0][id],
            world.trace,
        )
    for clone in world.clones:
        store = world.store(clone)
        mine = {str(m["id"]) for m in world.known(store)}
        store.close()
        lost = world.private[clone] - world.dead - world.hidden - mine
        assert not lost, ("private and lost", clone.name, lost, world.trace)
        world.git(clone, "fsck", "--strict", "--no-dangling")
        found = (
            {
                w: where(world.lab, clone, w)
                for w in world.purged
                if w.encode() in everything(world.lab, clone)
            }
            if world.purged
            else {}
        )
        assert not found, (
            "purged and still there",
            clone.name,
            found,
            {id: sorted(w) for id, w in world.words.items() if w & set(found)},
            world.trace,
        )
    world.git(world.hub, "gc", "-q", "--prune=now")  # what nobody reaches is the hub's own business
    on_hub = everything(world.lab, world.hub) if world.purged else b""
    assert not [w for w in world.purged if w.encode() in on_hub], (
        "purged and on the hub",
        world.trace,
    )


def where(lab: Lab, repo: pathlib.Path, word: str) -> list[str]:
    """The objects and files that hold a word, with what an object's text says of the word's
    line."""
    out = []
    for row in lab.git(repo, "cat-file", "--batch-all-objects", "--batch-check").splitlines():
        id, kind, _ = row.split()
        if kind != "tree" and word in (text := lab.git(repo, "cat-file", kind, id)):
            line = next(part for part in text.splitlines() if word in part)
            refs = (
                lab.run(
                    repo, "git", "for-each-ref", "--format=%(refname)", f"--contains={id}"
                ).stdout.split()
                if kind == "commit"
                else []
            )
            out.append(f"{kind} {id} {refs}: {line[:200]}")
    return out + [
        str(p)
        for p in (repo / ".git").rglob("*")
        if p.is_file() and word.encode() in p.read_bytes()
    ]


def everything(lab: Lab, repo: pathlib.Path) -> bytes:
    """Every object and every file of a repository's git directory."""
    git_dir = repo / ".git" if (repo / ".git").is_dir() else repo
    out = [
        subprocess.run(
            ["git", "cat-file", "--batch-all-objects", "--batch", "--unordered"],
            cwd=repo,
            env=lab.env,
            capture_output=True,
            check=True,
        ).stdout
    ]
    for path in git_dir.rglob("*"):
        if path.is_file():
            with contextlib.suppress(FileNotFoundError):
                out.append(path.read_bytes())
    return b"\n".join(out)
