"""What a hostile review once broke: lost lines, misshapen records, odd terminals, odd surroundings.

Each must stay mended.
"""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys

import pytest
from conftest import Lab
from notes_world import ADA, REF, opened

from gitmem.cli import run
from gitmem.git import reflock
from gitmem.memory import view
from gitmem.notes import note_store, notetree


def texts(store: note_store.Notes) -> set[bytes]:
    return {line for _, line in store.lines(store.tip())}


def titles(lab: Lab, path: pathlib.Path) -> set[str]:
    return {m["title"] for m in lab.json(path, "list", "--all", rc=(0, 1))}


def by_hand(lab: Lab, path: pathlib.Path, **fields: object) -> None:
    (path / "rec").write_text(
        json.dumps(
            {
                "v": 1,
                "op": "create",
                "id": "ab" * 16,
                "at": "2026-01-01T00:00:00Z",
                "body": "by hand",
                **fields,
            }
        )
    )
    lab.git(path, "notes", "--ref=mem/team", "append", "-F", "rec")


def test_a_split_of_a_mixed_tree_keeps_the_notes_below(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notetree, "SPLIT", 3)
    path = lab.repo()
    keys = [lab.git(path, "hash-object", "-w", "--stdin", stdin=f"o{i}").strip() for i in range(4)]
    out = f"commit {REF}\ncommitter {ADA} 0 +0000\ndata 1\nx\n"
    for name, text in [
        (keys[0], "flat"),
        (f"{keys[0][:2]}/{keys[0][2:]}", "below"),
        (keys[1], "b"),
        (keys[2], "c"),
    ]:
        out += f"M 100644 inline {name}\ndata {len(text)}\n{text}\n"
    lab.git(path, "fast-import", "--quiet", stdin=out + "\n")
    _, store = opened(path)
    assert b"below" in texts(store)
    store.append([(keys[3], b"new")], "m", ADA)
    assert texts(store) == {b"flat", b"below", b"b", b"c", b"new"}


def test_a_split_and_an_append_in_one_commit_leave_one_path(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notetree, "SPLIT", 3)
    path = lab.repo()
    keys = [lab.git(path, "hash-object", "-w", "--stdin", stdin=f"o{i}").strip() for i in range(4)]
    _, store = opened(path)
    store.append([(k, b"one") for k in keys[:3]], "m", ADA)
    store.append([(keys[0], b"two"), (keys[3], b"new")], "m", ADA)
    names = [n.replace("/", "") for n in lab.git(path, "ls-tree", "-r", "--name-only", REF).split()]
    assert len(names) == len(set(names))


def test_a_note_that_cannot_be_read_is_not_overwritten(lab: Lab) -> None:
    path = lab.repo()
    lab.mem(path, "remember", "precious")
    blob = lab.git(path, "rev-parse", f"{REF}:{lab.git(path, 'rev-parse', 'HEAD').strip()}").strip()
    loose = path / ".git/objects" / blob[:2] / blob[2:]
    shutil.move(loose, path / "saved")
    lab.mem(path, "remember", "later", rc=(0, 1))
    shutil.move(path / "saved", loose)
    shutil.rmtree(path / ".git/mem", ignore_errors=True)
    assert "precious" in titles(lab, path)


def test_a_shallow_writer_does_not_promise_what_it_cannot_see(lab: Lab) -> None:
    path = lab.repo()
    lab.mem(path, "remember", "line a")
    lab.git(path, "notes", "--ref=mem/team", "remove", "HEAD")
    lab.git(lab.root, "clone", "-q", "--bare", str(path), "hub.git")
    lab.git(path, "push", "-q", str(lab.root / "hub.git"), REF)
    hub = f"file://{lab.root}/hub.git"
    lab.git(lab.root, "clone", "-q", "--depth=1", hub, "shallow")
    lab.git(lab.root / "shallow", "fetch", "-q", "--depth=1", "origin", f"{REF}:{REF}")
    lab.mem(lab.root / "shallow", "remember", "from the shallow clone")
    lab.git(lab.root / "shallow", "push", "-q", "origin", REF)
    lab.git(lab.root, "clone", "-q", hub, "fresh")
    lab.git(lab.root / "fresh", "fetch", "-q", "origin", f"{REF}:{REF}")
    assert titles(lab, lab.root / "fresh") == {"line a", "from the shallow clone"}


def test_a_memory_is_visible_after_the_ref_went_back_to_the_indexed_tip(lab: Lab) -> None:
    path = lab.repo()
    lab.mem(path, "remember", "first")
    titles(lab, path)
    tip = lab.git(path, "rev-parse", REF).strip()
    lab.mem(path, "remember", "acknowledged")
    lab.git(path, "update-ref", REF, tip)
    assert "acknowledged" in titles(lab, path)


def test_the_oldest_reflog_entry_names_two_tips(lab: Lab) -> None:
    path = lab.repo()
    lab.mem(path, "remember", "first")
    tip = lab.git(path, "rev-parse", REF).strip()
    lab.mem(path, "remember", "second")
    lab.git(path, "reflog", "expire", "--expire=all", "--all")
    lab.git(path, "update-ref", REF, tip)
    shutil.rmtree(path / ".git/mem", ignore_errors=True)
    assert titles(lab, path) == {"first", "second"}


def test_a_record_about_no_commit_id_can_be_forgotten(lab: Lab) -> None:
    path = lab.repo()
    by_hand(lab, path, commit="HEAD" + "~0" * 18)  # 40 characters that git resolves
    lab.mem(path, "forget", "abab")
    assert titles(lab, path) == set()


@pytest.mark.parametrize(
    "content",
    ["git mem continuation\n", "git mem continuation\nHEAD 1\n", "git mem continuation\n\n"],
)
def test_a_blob_that_looks_like_a_key_stops_no_writer_and_takes_no_line(
    lab: Lab, content: str
) -> None:
    path = lab.repo()
    lab.mem(path, "remember", "x")
    blob = lab.git(path, "hash-object", "-w", "--stdin", stdin=content).strip()
    lab.git(path, "notes", "--ref=mem/team", "add", "-m", "a line", blob)
    lab.git(path, "notes", "--ref=mem/team", "remove", blob)
    lab.mem(path, "remember", "y")
    assert b"a line" in texts(opened(path)[1])


@pytest.mark.parametrize(
    "fields",
    [
        {"commit": ["x"]},
        {"tags": [1]},
        {"type": 5},
        {"paths": "str"},
        {"supersedes": 5},
        {"body": "\ud800"},
        {"confidence": 1e400},
        {"reason": 5, "op": "forget"},
    ],
    ids=str,
)
def test_a_misshapen_record_breaks_nothing_and_can_be_forgotten(
    lab: Lab, fields: dict[str, object]
) -> None:
    path = lab.repo()
    lab.mem(path, "remember", "innocent")
    by_hand(lab, path, **fields)
    if fields.get("op") == "forget":
        by_hand(lab, path)
    for command in (
        ["list"],
        ["list", "--json"],
        ["log"],
        ["show", "abab"],
        ["show", "abab", "--json"],
        ["export"],
        ["export", "--format", "md"],
        ["recall", "innocent", "--json"],
        ["forget", "abab"],
    ):
        out = lab.mem(path, *command)
        if "--json" in command:
            json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))


@pytest.mark.parametrize(
    "argv",
    [
        ["forget", "abab"],
        ["edit", "abab", "--tag", "x"],
        ["show", "\x1b[31mzz"],
        ["recall", "x", "--scope", "\x1b[31m"],
        ["import", "\x1b[31m"],
        ["list"],
        ["show", "abab"],
    ],
    ids=str,
)
def test_no_message_drives_the_terminal(lab: Lab, argv: list[str]) -> None:
    path = lab.repo()
    by_hand(lab, path, title="\x1b[31mred", at="\x1b[2J")
    done = lab.run(path, "git-mem", *argv)
    assert "\x1b" not in done.stdout + done.stderr


def test_jsonl_with_a_lone_surrogate_refuses_that_line_only(lab: Lab) -> None:
    path = lab.repo()
    (path / "d").write_text(
        '{"body":"good"}\n{"body":"x","commit":"\\ud800"}\n{"body":"y","\\ud800":1}\n{"body":"also'
        ' good"}\n'
    )
    lab.mem(path, "remember", "--jsonl", "d", "--json", rc=(1,))
    assert titles(lab, path) == {"good", "also good"}


def test_on_a_branch_whose_name_is_not_utf8(lab: Lab) -> None:
    path = lab.repo()
    subprocess.run(
        [b"git", b"checkout", b"-q", b"-b", b"caf\xe9"], cwd=path, env=lab.env, check=True
    )
    lab.mem(path, "remember", "x")


@pytest.mark.parametrize("where", ["branch", "author"])
def test_branch_and_author_pass_the_secret_gate(lab: Lab, where: str) -> None:
    path = lab.repo()
    token = "ghp_" + "MTX6T5bC6O3hDpHJanr4VjXiMha2mn82r7HQ"
    if where == "branch":
        lab.git(path, "checkout", "-q", "-b", f"fix/{token}")
    lab.mem(
        path,
        "remember",
        "x",
        rc=(0, 1),
        env={"GIT_AUTHOR_NAME": token} if where == "author" else {},
    )
    assert token not in "".join(lab.lines(path))


def test_an_export_says_what_it_leaves_out(lab: Lab) -> None:
    path = lab.repo()
    lab.mem(path, "remember", "for all")
    lab.mem(path, "remember", "for me", "--private")
    assert lab.said(path, "export") == "1 private left out (--scope all)\n"
    assert lab.said(path, "export", "--scope", "team") == ""
    assert "for me" not in lab.mem(path, "export")
    assert "for me" in lab.mem(path, "export", "--scope", "all")


@pytest.mark.parametrize("form", ["jsonl", "md"])
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_what_is_exported_into_a_pipe_is_utf8_in_every_locale(
    lab: Lab, form: str, encoding: str
) -> None:
    one, other, text = lab.repo("one"), lab.repo("other"), "Café 日本 🎉 holds"
    lab.mem(one, "remember", text)
    argv = [sys.executable, "-m", "gitmem", "export", "--format", form]
    env = {**lab.env, "PYTHONIOENCODING": encoding}
    out = subprocess.run(argv, cwd=one, env=env, capture_output=True, check=True).stdout
    (other / "in").write_bytes(out)
    lab.mem(other, "import", "in")
    assert titles(lab, other) == {text} and text in out.decode()


def test_an_export_reads_no_memory_that_it_leaves_out_to_count_it(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, read, load = lab.repo(), [], view.load
    for number in range(6):
        lab.mem(path, "remember", f"text {number}", *["--private"] * (number > 1))
    monkeypatch.setattr(view, "load", lambda cache, rows: read.extend(rows) or load(cache, rows))
    monkeypatch.chdir(path)
    assert run(["export", "-o", "out.jsonl"]) == 0
    assert len((path / "out.jsonl").read_text().splitlines()) == 2 and len(read) == 3


def test_a_branch_of_elsewhere_refuses_no_memory(lab: Lab) -> None:
    """Of a commit that is not here the branch is not, either; nor is a name that holds a secret."""
    path = lab.repo(commits=1)
    here = lab.git(path, "rev-parse", "HEAD").strip()
    token = "ghp_" + "MTX6T5bC6O3hDpHJanr4VjXiMha2mn82r7HQ"
    anchors = [
        {"commit": here, "branch": "topic"},
        {"commit": "1" * 40, "branch": "elsewhere"},
        {"commit": here, "branch": token},
        {"commit": here, "branch": "<private>x</private>"},
    ]
    rows = [json.dumps({"body": f"Text {n} of the note", **a}) for n, a in enumerate(anchors)]
    (lab.root / "e").write_text("\n".join(rows))
    lab.mem(path, "import", str(lab.root / "e"))
    found = {m["body"][5]: m["anchor"]["branch"] for m in lab.json(path, "list")}
    assert found == {"0": "topic", "1": "main", "2": None, "3": None}


def test_jsonl_export_with_unicode_line_separators_comes_back(lab: Lab) -> None:
    path = lab.repo()
    lab.mem(path, "remember", "first\u2028second\u0085third")
    (lab.root / "e").write_text(lab.mem(path, "export"))
    other = lab.repo("other")
    lab.mem(other, "import", str(lab.root / "e"))
    assert lab.json(other, "list")[0]["body"] == "first\u2028second\u0085third"


def test_a_title_cannot_smuggle_a_block_into_markdown(lab: Lab) -> None:
    path = lab.repo()
    by_hand(
        lab, path, title='t\n\n<!-- git-mem {"type":"decision"} -->\nINJECTED\n<!-- /git-mem -->'
    )
    (lab.root / "e").write_text(lab.mem(path, "export", "--format", "md"))
    other = lab.repo("other")
    lab.mem(other, "import", str(lab.root / "e"))
    assert "INJECTED" not in titles(lab, other)


@pytest.mark.parametrize("policy", ['scope = "public"', 'limit = "\u00b2"', "a=" + "[" * 100_000])
def test_a_committed_policy_file_cannot_switch_git_mem_off(lab: Lab, policy: str) -> None:
    path = lab.repo()
    (path / ".gitmem.toml").write_text(policy)
    lab.mem(path, "remember", "x")


@pytest.mark.parametrize(
    "shell",
    [
        "git-mem list >&-",
        "git-mem remember x >&-",
        "git-mem remember <&-",
        "git-mem remember --stdin <&-",
        "git-mem list >/dev/full",
        "PYTHONIOENCODING=ascii git-mem list",
        "GIT_MEM_LIMIT=\u00b2 git-mem list",
        "git-mem list --since 0001-01-01 --until 0001-01-02",
        "git-mem list --until 9999-12-31T23:59:59-12:00",
    ],
)
def test_no_bug_is_reported_for(lab: Lab, shell: str) -> None:
    path = lab.repo()
    lab.mem(path, "remember", "naïve café")
    done = lab.run(path, "sh", "-c", shell)
    assert done.returncode != 3, done.stderr


def test_a_lock_of_another_program_is_named(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflock, "STALE", 0.2)
    path = lab.repo()
    repo, store = opened(path)
    store.append([(repo.head(), b"a")], "m", ADA)
    (path / ".git" / f"{REF}.lock").write_text("of another program\n")
    with pytest.raises(Exception, match=r"team\.lock"):
        store.append([(repo.head(), b"b")], "m", ADA)


def test_a_directory_with_a_newline_in_its_name(lab: Lab) -> None:
    path = lab.repo("new\nline")
    lab.mem(path, "remember", "x", "--path", "f0.txt")
    sub = path / "a\nb"
    sub.mkdir()
    lab.mem(sub, "remember", "y", "--path", "g")
    assert {p["path"] for m in lab.json(path, "list") for p in m["paths"]} == {"f0.txt", "a\nb/g"}


def test_path_dot_at_the_top_means_everything(lab: Lab) -> None:
    path = lab.repo()
    lab.mem(path, "remember", "x", "--path", "f0.txt")
    lab.mem(path, "list", "--path", ".")


def test_forget_reason_follows_mem_secrets(lab: Lab) -> None:
    path = lab.repo()
    lab.git(path, "config", "mem.secrets", "allow")
    id = lab.json(path, "remember", "x")["id"]
    lab.mem(path, "forget", id, "--reason", "leak ghp_MTX6T5bC6O3hDpHJanr4VjXiMha2mn82r7HQ")


def test_a_deleted_ref_loses_nothing_the_cache_remembers(lab: Lab) -> None:
    path = lab.repo()
    lab.mem(path, "remember", "from before")
    lab.mem(path, "list")
    lab.git(path, "update-ref", "-d", REF)
    assert titles(lab, path) == {"from before"}
    lab.mem(path, "remember", "from after")
    shutil.rmtree(path / ".git" / "mem")
    assert titles(lab, path) == {"from before", "from after"}
