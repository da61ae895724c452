"""The private file of one agent session: append-only, bounded, safe under hooks that run side by
side.
"""

from __future__ import annotations

import os
import pathlib
import stat
import subprocess
import sys

import pytest
from conftest import Lab
from hook_world import PROMPT, make

from gitmem.agents import session

A, B, C = ("a" * 32, "b" * 32, "c" * 32)


@pytest.fixture
def mem(tmp_path: pathlib.Path) -> str:
    path = tmp_path / "mem"
    path.mkdir()
    return str(path)


def test_what_was_noted_as_shown_is_shown_and_of_no_other_session(mem: str) -> None:
    assert session.Notes(mem, "s1").add("shown", [A, B])
    assert session.Notes(mem, "s1").add("shown", [C])
    assert session.Notes(mem, "s1").shown() == {A, B, C}
    assert session.Notes(mem, "s2").shown() == set()


def test_an_injection_says_route_agent_head_and_tips_and_none_of_these_is_an_id(mem: str) -> None:
    session.Notes(mem, "s1").add_shown(
        [A],
        "prompt",
        "claude",
        "f" * 40,
        {"refs/notes/mem/team": "1" * 40, "refs/notes/mem/private": ""},
    )
    ((kind, _, values, _),) = [
        e for e in session.entries(session.path_of(mem, "s1")) if e[0] == "shown"
    ]
    assert (kind, values) == (
        "shown",
        ["route=prompt", "agent=claude", f"head={'f' * 40}", f"refs/notes/mem/team={'1' * 40}", A],
    )
    assert session.Notes(mem, "s1").shown() == {A}
    assert session.Notes(mem, "s1").read()["shown"] == [A]


def test_after_a_compaction_a_memory_may_be_shown_again(mem: str) -> None:
    session.Notes(mem, "s1").add("shown", [A])
    session.Notes(mem, "s1").add("context", ["compact"])
    session.Notes(mem, "s1").add("shown", [B])
    assert session.Notes(mem, "s1").shown() == {B}
    assert session.Notes(mem, "s1").read()["shown"] == [A, B]


def test_read_gives_each_value_once_in_its_first_order_and_a_list_for_every_kind(mem: str) -> None:
    for path in ("src/a.py", "src/b.py", "src/a.py"):
        session.Notes(mem, "s1").add("touched", [path])
    found = session.Notes(mem, "s1").read()
    assert found["touched"] == ["src/a.py", "src/b.py"]
    assert found["cited"] == [] and set(found) == set(session.KINDS)
    assert session.Notes(mem, "never").read()["shown"] == []


@pytest.mark.parametrize(
    "value",
    [
        "a b.txt",
        "a\tb",
        "a\nb",
        "\\n",
        "\\\n",
        "\\\\n",
        "ü/ö.txt",
        "\udcff.txt",
        "\ud83d",
        "",
        ".",
        "a=b",
    ],
)
def test_any_path_comes_back_as_it_was(mem: str, value: str) -> None:
    assert session.Notes(mem, "s1").add("touched", [value, "z"])
    assert session.Notes(mem, "s1").read()["touched"] == [value, "z"]


def test_the_file_is_private_and_its_name_tells_nothing(mem: str) -> None:
    session.Notes(mem, "../../etc/passwd").add("shown", [A])
    (name,) = os.listdir(os.path.join(mem, session.DIR))
    assert len(name) == 32 and "passwd" not in name
    path = os.path.join(mem, session.DIR, name)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700


def test_torn_and_foreign_lines_are_skipped_and_the_next_line_is_whole(mem: str) -> None:
    session.Notes(mem, "s1").add("shown", [A])
    with open(session.path_of(mem, "s1"), "ab") as f:
        foreign = f'["shown",NaN,"{C}"]\n["shown","x"]\n["later",1.0,"v"]\n["shown",1.0,"{C[:9]}'
        f.write(b'nonsense\n\xff\xfe\n[]\n{"a":1}\n5\n["shown",1.0,2]\n' + foreign.encode())
    session.Notes(mem, "s1").add("shown", [B])
    assert session.Notes(mem, "s1").shown() == {A, B}


def test_without_a_session_or_a_cache_directory_nothing_is_noted(
    mem: str, tmp_path: pathlib.Path
) -> None:
    assert not session.Notes(mem, "").add("shown", [A])
    assert not session.Notes(mem, "").add("shown", [A])
    assert not session.Notes(str(tmp_path / "gone"), "s1").add("shown", [A])
    assert os.listdir(mem) == [] and not (tmp_path / "gone").exists()
    assert session.Notes(mem, "").shown() == set() and session.Notes(mem, "").read()["shown"] == []


def test_a_link_in_place_of_the_file_is_not_followed(mem: str, tmp_path: pathlib.Path) -> None:
    os.mkdir(os.path.join(mem, session.DIR))
    target = tmp_path / "target"
    target.write_text("")
    os.symlink(target, session.path_of(mem, "s1"))
    assert session.Notes(mem, "s1").add("shown", [A]) and session.Notes(mem, "s1").shown() == {A}
    assert target.read_text() == ""


def test_the_file_is_bounded_and_touched_paths_leave_room_for_what_was_shown(mem: str) -> None:
    paths = [f"{i:04d}" + "x" * 400 for i in range(100)]
    while session.Notes(mem, "s1").add("touched", paths):
        pass
    assert session.Notes(mem, "s1").add("shown", [A])
    while session.Notes(mem, "s1").add("shown", [f"{i:032x}" for i in range(1000)]):
        pass
    assert os.stat(session.path_of(mem, "s1")).st_size <= session.MOST
    assert A in session.Notes(mem, "s1").shown()


def test_a_value_that_is_too_long_is_left_out_and_too_many_are_cut(mem: str) -> None:
    assert session.Notes(mem, "s1").add("touched", ["x" * 5000, "kept"])
    assert session.Notes(mem, "s1").read()["touched"] == ["kept"]
    assert session.Notes(mem, "s2").add("touched", [f"{i}" + "y" * 1000 for i in range(500)])
    assert os.stat(session.path_of(mem, "s2")).st_size <= 129 * 1024


def test_what_a_subagent_was_shown_the_session_has_not_seen(mem: str) -> None:
    session.Notes(mem, "s1").add_shown([A], "subagent", "claude", "", {})
    session.Notes(mem, "s1").add_shown([B], "prompt", "claude", "", {})
    assert session.Notes(mem, "s1").shown() == {B} and session.Notes(mem, "s1").read()["shown"] == [
        A,
        B,
    ]


def words(path: str) -> list[str]:
    return [v for kind, _, values, _ in session.pending(path) for v in values if kind == "shown"]


def test_a_memory_that_was_edited_since_it_was_shown_is_shown_as_it_is_now(lab: Lab) -> None:
    hooks = make(lab)
    assert "stored as UTC" in hooks.call("SessionStart", source="startup")
    (id,) = [m["id"] for m in lab.json(hooks.repo, "list") if "UTC" in m["title"]]
    for zone in ("user", "database", "user"):  # the last one: edited back
        lab.mem(hooks.repo, "edit", id, f"All timestamps are stored in the time zone of the {zone}")
        told = [hooks.call("UserPromptSubmit", prompt=PROMPT) for _ in range(2)]
        assert f"in the time zone of the {zone}" in told[0]
        assert id[:8] in told[1] and "time zone" not in told[1]


def test_after_a_mark_only_what_came_later_is_pending_also_what_a_hook_wrote_before_the_mark_was(
    mem: str,
) -> None:
    path = session.path_of(mem, "s1")
    session.Notes(mem, "s1").add("shown", [A])
    read = session.pending(path)
    session.Notes(mem, "s1").add("shown", [B])
    assert words(path) == [A, B]
    session.mark(path, read[-1])
    assert words(path) == [B] and session.Notes(mem, "s1").shown() == {A, B}
    session.mark(path, session.pending(path)[-1])
    assert session.pending(path) == []
    session.Notes(mem, "s1").add("shown", [C])
    assert words(path) == [C]


def test_a_mark_whose_line_a_purge_took_out_counts_where_it_stands(mem: str) -> None:
    path = session.path_of(mem, "s1")
    session.Notes(mem, "s1").add("shown", [A])
    session.mark(path, session.pending(path)[-1])
    session.Notes(mem, "s1").add("shown", [B])
    with open(path, "rb") as f:
        kept = [line for line in f.read().split(b"\n") if A.encode() not in line]
    with open(path, "wb") as f:
        f.write(b"\n".join(kept))
    assert words(path) == [B]


def test_hooks_of_one_session_side_by_side_lose_no_line(mem: str) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[3])\nfrom gitmem.agents.session import Notes\n"
        "for i in range(50): assert Notes(sys.argv[1], 's1').add('shown',"
        " [f'{int(sys.argv[2]) * 1000 + i:032x}'])"
    )
    root = str(pathlib.Path(session.__file__).parents[2])
    running = [subprocess.Popen([sys.executable, "-c", code, mem, str(n), root]) for n in range(6)]
    assert [p.wait(60) for p in running] == [0] * 6
    assert session.Notes(mem, "s1").shown() == {
        f"{n * 1000 + i:032x}" for n in range(6) for i in range(50)
    }


def test_files_without_a_line_for_a_week_go_and_the_others_stay(mem: str) -> None:
    for name in ("old", "new"):
        session.Notes(mem, name).add("shown", [A])
    written = os.stat(session.path_of(mem, "old")).st_mtime
    os.utime(session.path_of(mem, "old"), (written - session.OLDEST - 60,) * 2)
    assert session.evict(mem, written) == 1
    assert session.Notes(mem, "old").shown() == set() and session.Notes(mem, "new").shown() == {A}


def test_of_too_many_files_the_oldest_go(mem: str) -> None:
    for i in range(5):
        session.Notes(mem, f"s{i}").add("shown", [A])
        os.utime(session.path_of(mem, f"s{i}"), (1e9 + i,) * 2)
    assert session.evict(mem, 1e9, keep=2) == 3
    assert [bool(session.Notes(mem, f"s{i}").shown()) for i in range(5)] == [
        False,
        False,
        False,
        True,
        True,
    ]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_only_plain_files_are_sessions(mem: str) -> None:
    session.Notes(mem, "s1").add("shown", [A])
    directory = os.path.dirname(session.path_of(mem, "s1"))
    os.mkfifo(os.path.join(directory, "1" * 32))
    os.mkdir(os.path.join(directory, "2" * 32))
    os.symlink("/etc/passwd", os.path.join(directory, "3" * 32))
    assert [path for path, _ in session.files(mem)] == [session.path_of(mem, "s1")]
