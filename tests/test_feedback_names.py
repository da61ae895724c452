"""Which file a memory is about when a session changes one: after renames, where something else
stands under the old name, and where nobody knows.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from conftest import Lab
from test_feedback import UUID, Place

from gitmem.core import confidence, short


@pytest.fixture
def place(lab: Lab) -> Place:
    return Place(lab)


class Moved:
    """A memory about p.py, which became Legacy.py; another p.py stands where it was."""

    def __init__(self, lab: Lab, place: Place) -> None:
        self.place, self.lab = place, lab
        self.old = "".join(f"old rule {n}\n" for n in range(12))
        self.commit("p.py", self.old)
        self.id = json.loads(
            lab.mem(
                place.repo,
                "remember",
                "--path",
                "p.py:5-8",
                "--json",
                "the old rules keep their order",
            )
        )["id"]
        lab.git(place.repo, "mv", "p.py", "legacy.py")
        self.commit("x", "x\n")
        lab.git(place.repo, "mv", "legacy.py", "Legacy.py")
        self.commit("p.py", "".join(f"brand new {n}\n" for n in range(12)))

    def commit(self, name: str, text: str) -> None:
        (self.place.repo / name).write_text(text)
        self.lab.git(self.place.repo, "add", "-A")
        self.lab.git(self.place.repo, "commit", "-qm", name)
        self.place.head = self.lab.git(self.place.repo, "rev-parse", "HEAD").strip()

    def said(self, touched: list[str], head: str = "") -> dict[str, Any]:
        """What the record of a session says of it; another commit than HEAD was there when it was
        told.
        """
        self.place.head = head or self.place.head
        self.place.session(UUID, [self.id, self.place.ids[2]], touched=touched)
        self.place.tend()
        (found,) = self.place.records()
        said = [how for name, _, how, _ in confidence.rows(found) if name == short.of(self.id)]
        return {"used": "touched" in said, "told": "prompt" in said}


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize(
    ("touched", "used"), [("Legacy.py", True), ("p.py", False), ("legacy.py", False)]
)
def test_use_follows_a_file_to_its_name_and_not_to_what_stands_where_it_was(
    place: Place, lab: Lab, kept: bool, touched: str, used: bool
) -> None:
    moved = Moved(lab, place)
    if kept:
        lab.mem(place.repo, "index")
    assert moved.said([touched]) == {"used": used, "told": True}


@pytest.mark.parametrize("touched", ["p.py", "legacy.py"])
def test_an_old_name_is_neither_use_nor_neglect_where_head_moved_after_it_was_told(
    place: Place, lab: Lab, touched: str
) -> None:
    moved = Moved(lab, place)
    lab.mem(place.repo, "index")
    assert moved.said([touched], lab.git(place.repo, "rev-parse", "HEAD~2").strip()) == {
        "used": False,
        "told": False,
    }


def test_a_session_that_committed_its_change_used_what_it_was_told(place: Place, lab: Lab) -> None:
    moved = Moved(lab, place)
    before = place.head
    moved.commit("Legacy.py", moved.old + "more\n")
    assert moved.said(["Legacy.py"], before) == {"used": True, "told": True}


@pytest.mark.parametrize(("standing", "touched"), [(True, "p.py"), (False, "p.py")])
def test_what_a_shallow_clone_cannot_follow_is_neither_use_nor_neglect(
    place: Place, lab: Lab, standing: bool, touched: str
) -> None:
    moved = Moved(lab, place)
    if not standing:
        (place.repo / "Legacy.py").unlink()
        (place.repo / "p.py").unlink()
    moved.commit("y", "y\n")
    (place.repo / ".git" / "shallow").write_text(place.head + "\n")
    assert moved.said([touched]) == {"used": False, "told": False}
