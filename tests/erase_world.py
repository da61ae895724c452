"""A repository with notes in which some lines are doomed, in every shape that git gives its
objects.
"""

from __future__ import annotations

import pathlib
import subprocess

from conftest import Lab
from notes_world import ADA, REF, opened

from gitmem.core import record, record_content
from gitmem.erasure import erase
from gitmem.git import odb
from gitmem.git.config import backup_of

WORD = "Zanzibarium"


class Place:
    """A repository with notes in which some lines are doomed."""

    def __init__(self, lab: Lab, path: pathlib.Path) -> None:
        self.lab, self.path = lab, path
        self.repo, self.notes = opened(path)
        self.head = self.repo.head()
        self.ids: set[str] = set()

    def add(self, text: str, doomed: bool = False) -> str:
        data = record.create(record_content.checked({"body": text}), commit=self.head)
        self.notes.append([(self.head, record.dump(data))], "m", ADA)
        if doomed:
            self.ids.add(str(data["id"]))
        return str(data["id"])

    def doom(self, line: bytes) -> bool:
        found = record.parse(line)
        return found is not None and found.id in self.ids

    def leave(self) -> None:
        """Gives the ref a history without the doomed lines, as a purge does, and drops its
        reflog."""
        tip = self.notes.tip()
        kept = [(self.head, line) for _, line in self.notes.lines(tip) if not self.doom(line)]
        self.git("update-ref", "-d", backup_of(REF))
        self.git("update-ref", "-d", REF)
        if kept:
            self.notes.append(kept, "m", ADA)
        self.repo.git.close()

    def erase(self, hints: bool = True) -> erase.Report:
        return erase.erase(self.repo, self.doom, [i.encode() for i in self.ids] if hints else [])

    def git(self, *argv: str, stdin: str | None = None) -> str:
        return self.lab.git(self.path, *argv, stdin=stdin)

    def objects(self) -> set[str]:
        return set(
            self.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split()
        )

    def holding(self) -> list[str]:
        """Files of the repository that hold the word, however they are stored."""
        return holding(self.path, WORD)

    def sound(self) -> None:
        done = self.lab.run(self.path, "git", "fsck", "--strict", "--full")
        assert (
            done.returncode == 0
            and "missing" not in done.stdout + done.stderr
            and "error" not in done.stderr
        ), done.stdout + done.stderr


def one_doomed(lab: Lab) -> Place:
    """One doomed line, and one before and after it that stay."""
    made = Place(lab, lab.repo("repo", 3))
    made.add("stays, before")
    made.add(f"the customer is called {WORD}", doomed=True)
    made.add("stays, after")
    return made


def holding(path: pathlib.Path, word: str) -> list[str]:
    """Objects and files below a repository's git directory with a word: every object by git, every
    file raw and inflated.
    """
    directory = path / ".git" if (path / ".git").is_dir() else path
    listed = subprocess.run(
        [
            "git",
            "--git-dir",
            str(directory),
            "cat-file",
            "--batch-all-objects",
            "--batch",
            "--buffer",
        ],
        capture_output=True,
        check=True,
    ).stdout
    found = [f"object: {listed.count(word.encode())}"] if word.encode() in listed else []
    for file in directory.rglob("*"):
        if file.is_file():
            raw = file.read_bytes()
            inflated = b""
            if "objects" in file.parts and raw:
                inflated = b"".join(odb.inflated(str(file), 20))
            if word.encode() in raw or word.encode() in inflated:
                found.append(str(file.relative_to(directory)))
    return found


def as_it_is(place: Place) -> None:
    pass


def packed(place: Place) -> None:
    place.git(
        "-c", "gc.reflogExpire=never", "-c", "gc.reflogExpireUnreachable=never", "gc", "-q"
    )  # the fixed dates are long ago


def packed_with_everything(place: Place) -> None:
    """Bitmap, multi-pack-index, commit-graph with changed paths, the files of a dumb server."""
    place.git("repack", "-q", "-a", "-d", "-b")
    place.git("commit-graph", "write", "--reachable", "--changed-paths")
    place.add("one more")
    place.git("repack", "-q", "-d")
    place.git("multi-pack-index", "write")
    place.git("update-server-info")


def packed_in_parts(place: Place) -> None:
    """Several packs, a bitmap over all of them, a commit-graph in layers, and loose objects."""
    place.git("repack", "-q", "-d")
    place.git("commit-graph", "write", "--reachable", "--split")
    place.add("one more")
    place.git("repack", "-q", "-d")
    place.git("commit-graph", "write", "--reachable", "--split=no-merge")
    place.git("multi-pack-index", "write", "--bitmap")
    place.add("still loose")


def kept(place: Place) -> None:
    place.git("repack", "-q", "-a", "-d")
    next((place.path / ".git/objects/pack").glob("*.pack")).with_suffix(".keep").write_text(
        "for a reason\n"
    )


SHAPES = [as_it_is, packed, packed_with_everything, packed_in_parts, kept]


def bodies(place: Place) -> set[str]:
    return {
        str(r.data["body"])
        for _, line in place.notes.lines(place.notes.tip())
        if (r := record.parse(line))
    }
