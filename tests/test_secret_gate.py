"""Every word of every write path passes one gate, as its author gave it."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import Lab

from gitmem.anchors import reanchor
from gitmem.capture import calibrate, linear, review, suggestions
from gitmem.core.errors import Refused
from gitmem.feedback import usage_records
from gitmem.memory import adr, memories, proposals, remember, transfer, write_gate
from gitmem.store import Store, open_store

# put together at run time: a scanner that reads this file finds none
URL = "postgres://svc:" + "Tr0ub" + "4dor9@db.corp/shop"
KEY = "AKIA" + "QZ7T2M4X6B8N0V3C"
TEXTS = (
    "body",
    "title",
    "subtitle",
    "type",
    "source",
    "author",
    "agent",
    "session",
    "phase",
    "branch",
    "provenance",
    "commit",
    "created_at",
    "scope",
)
LISTS = ("tags", "facts", "concepts", "paths")


@contextlib.contextmanager
def opened(repo: pathlib.Path) -> Iterator[Store]:
    store = open_store(os.environ, str(repo))
    yield store
    store.close()


def kept(store: Store) -> str:
    """Every line of both notes refs, and the notes commits themselves."""
    git = store.repo.git
    refs = git.text("for-each-ref", "--format=%(refname)", "refs/notes/").split()
    said = ""
    for ref in refs:
        said += git.text("log", "--format=%an %ae %B", ref)
        for row in git.text("ls-tree", "-r", ref).splitlines():
            said += git.text("cat-file", "blob", row.split()[2])
    return said


def draft(field: str, value: str) -> dict[str, Any]:
    given: dict[str, Any] = {"body": f"use a queue, since {field}"}
    if field in LISTS:
        given[field] = ["a", value]
    elif field == "body":
        given[field] = f"the database is {value} now"
    else:
        given[field] = value
    return given


def a_memory(store: Store, text: str = "orders share a transaction", scope: str = "team") -> str:
    return remember.remember(store, [{"body": text, "scope": scope}])[0].id


def suggested(store: Store) -> suggestions.Suggestion:
    (result,) = suggestions.propose(
        store, [{"body": "retry twice, then give up", "confidence": 0.8}]
    )
    return store.with_cache(suggestions.stored)[0][result.id]


def by_remember(store: Store, given: dict[str, Any]) -> None:
    (result,) = remember.remember(store, [given])
    if result.status == remember.REFUSED:
        raise Refused(result.reason, hint=result.hint)


def by_import(store: Store, given: dict[str, Any]) -> None:
    (result,) = remember.remember_many(store, transfer.read(json.dumps(given)))
    if result.status == remember.REFUSED:
        raise Refused(result.reason)


def by_suggestion(store: Store, given: dict[str, Any]) -> None:
    (result,) = suggestions.propose(store, [given])
    if result.status == remember.REFUSED:
        raise Refused(result.reason)


def by_edit(store: Store, given: dict[str, Any]) -> None:
    memories.edit(store, a_memory(store), given)


def by_supersede(store: Store, given: dict[str, Any]) -> None:
    memories.supersede(store, a_memory(store), given)


def by_replace(store: Store, given: dict[str, Any]) -> None:
    stay, gone = (
        memories.find(store, a_memory(store, text)) for text in ("one way", "another way")
    )
    memories.replace(store, stay, gone, given)


def by_accept(store: Store, given: dict[str, Any]) -> None:
    review.accept(store, suggested(store), given)


DRAFTS = {"remember": by_remember, "import": by_import, "suggestion": by_suggestion}
CHANGES = {
    "edit": by_edit,
    "supersede": by_supersede,
    "replace": by_replace,
}
FIELDS = dict.fromkeys(DRAFTS, (*TEXTS, *LISTS))
FIELDS |= dict.fromkeys(CHANGES, (*TEXTS[:9], "provenance", *LISTS))
FIELDS["accept"] = ("body", "title", "type", "tags")


@pytest.mark.each
@pytest.mark.parametrize("way", FIELDS)
def test_a_secret_in_any_field_of_any_way_to_write_is_refused_as_given(
    store: Store, way: str
) -> None:
    write: Callable[[Store, dict[str, Any]], None] = {**DRAFTS, **CHANGES, "accept": by_accept}[way]
    for field in FIELDS[way]:
        if way == "import" and field == "commit":
            continue  # a commit that is not here is left out of an import
        for value in (URL, KEY):
            with pytest.raises(Refused, match="looks like it holds a secret") as refused:
                write(store, draft(field, value))
            assert value not in str(refused.value) + str(refused.value.hint), field
    said = kept(store).lower()
    assert KEY.lower() not in said and "tr0ub" not in said


def test_words_beside_a_memory_pass_the_same_gate(store: Store) -> None:
    id = a_memory(store)
    proposal = suggested(store)
    for write in (
        lambda: memories.forget(store, id, f"it is {URL}"),
        lambda: review.merge(store, proposal, id, f"it is {URL}", team=True),
        lambda: review.accept(store, proposal, {"body": f"it is {URL}"}),
    ):
        with pytest.raises(Refused, match="looks like it holds a secret"):
            write()
    assert "Tr0ub" not in kept(store)


def test_a_private_memory_with_a_secret_is_not_shared(store: Store) -> None:
    (result,) = remember.remember(
        store, [{"body": f"it is {URL}", "scope": "private"}], allow_secret=True
    )
    with pytest.raises(Refused):
        memories.share(store, result.id)
    assert "Tr0ub" not in "".join(store.repo.git.text("log", "--format=%B", "--all").splitlines())
    assert memories.find(store, result.id).scope == "private"


def test_an_author_whose_name_holds_a_secret_is_in_no_record(
    repo: pathlib.Path, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(repo) as store:
        id = a_memory(store)
    monkeypatch.setenv("GIT_AUTHOR_NAME", KEY)
    with opened(repo) as store:
        assert KEY in store.settings.author
        for write in (
            lambda: by_remember(store, {"body": "use a queue"}),
            lambda: memories.edit(store, id, {"title": "another"}),
            lambda: memories.supersede(store, id, {"body": "another"}),
            lambda: memories.forget(store, id, "old"),
            lambda: by_suggestion(store, {"body": "retry twice"}),
        ):
            with pytest.raises(Refused):
                write()
        usage_records.contradict(store, [id])
        calibrate.keep(store, linear.PACKAGED, 0)
        assert KEY not in kept(store)
        assert store.author == ""


def test_what_normalising_uncovers_is_refused_as_well(store: Store) -> None:
    halves = KEY[:9] + "\r\n" + KEY[9:]
    write_gate.admit(store, {"title": halves})  # two words, as given
    with pytest.raises(Refused):
        write_gate.stored(store, {"title": halves}, {"title": KEY})
    write_gate.stored(store, {"title": "a  b"}, {"title": "a b"})


def test_setting_that_lets_secrets_pass_still_cuts_what_is_private(
    store: Store, repo: pathlib.Path, lab: Lab
) -> None:
    lab.git(repo, "config", "mem.secrets", "allow")
    with opened(repo) as other:
        assert write_gate.admit(other, {"body": f"a {URL} <private>b</private>"}) == {
            "body": f"a {URL}"
        }


@pytest.mark.each
@pytest.mark.parametrize("argv", [
    ("remember", "one", "--path", URL), ("remember", "one", "--type", KEY), ("remember", "one", "--tag", KEY),  # noqa: E501
    ("remember", "one", "--commit", KEY), ("remember", "one", "--provenance", KEY), ("remember", "one", "--phase", URL),  # noqa: E501
    ("edit", "ID", "--path", URL), ("edit", "ID", "--type", KEY), ("edit", "ID", "--tag", URL), ("edit", "ID", "--title", URL),  # noqa: E501
    ("edit", "ID", "--phase", KEY), ("edit", "ID", "-m", URL), ("supersede", "ID", "two", "--path", URL),  # noqa: E501
    ("supersede", "ID", "two", "--type", KEY), ("forget", "ID", "--reason", URL)])  # fmt: skip
def test_a_command_refuses_a_secret_before_it_normalises_anything(
    lab: Lab, repo: pathlib.Path, argv: tuple[str, ...]
) -> None:
    id = lab.json(repo, "remember", "orders share a transaction")["id"]
    done = lab.run(repo, "git-mem", *[id if a == "ID" else a for a in argv])
    assert done.returncode == 1 and "looks like it holds a secret" in done.stderr
    assert KEY not in done.stderr and "Tr0ub" not in done.stderr
    said = "".join(lab.lines(repo)).lower()
    assert "tr0ub" not in said and KEY.lower() not in said


HELD = "the vault is at the " + "old mill"


@pytest.mark.parametrize(("text", "left"), [
    (f"keep this <private>{HELD}</private> and this", "keep this and this"),
    (f"keep <PRIVATE>{HELD}</Private>", "keep"),
    (f"keep < private >{HELD}</ private >", "keep"),
    (f"keep &lt;private&gt;{HELD}&lt;/private&gt; it", "keep it"),
    (f"keep \\u003cprivate\\u003e{HELD}\\u003c/private\\u003e", "keep"),
    (f"keep ＜private＞{HELD}＜/private＞", "keep"),
    (f"a <private>x <private>{HELD}</private> {HELD}</private> b", "a b"),
    ("the empty <private/> holds nothing", "the empty holds nothing"),
    ("use ssh -i <private key file> host, never password auth", "use ssh -i <private key file> host, never password auth"),  # noqa: E501
    ("the macro <private.h> must come last", "the macro <private.h> must come last"),
    ("<private-network> and <Private Bytes> and </private/etc> stay", "<private-network> and <Private Bytes> and </private/etc> stay"),  # noqa: E501
    ("`List<PrivateKey>` and <privates> are code", "`List<PrivateKey>` and <privates> are code"),
    ("a private note", "a private note"),
])  # fmt: skip
def test_what_stands_in_private_is_cut(store: Store, text: str, left: str) -> None:
    assert write_gate.admit(store, {"body": text, "n": 3, "tags": ("a",)}) == {
        "body": left,
        "n": 3,
        "tags": ("a",),
    }


def test_a_text_that_is_private_as_a_whole_is_refused(store: Store) -> None:
    for given in (
        {"body": f"<private>{HELD}</private>"},
        {"title": f" <private>{HELD}</private>"},
        {"tags": [f"<private>{HELD}</private>"]},
    ):
        with pytest.raises(Refused, match="stands in <private>"):
            write_gate.admit(store, given, allow_secret=True)


HALVES = (
    (f"keep this <private>{HELD}", "opens", "line 1, column 11"),
    (f"{HELD}</private> keep this", "closes", "line 1, column 29"),
    ("one\ngit mem cuts <private> parts", "opens", "line 2, column 14"),
    (f"a <private>x <private>{HELD}</private> b", "opens", "line 1, column 3"),
    (f"a <private reason='x'>{HELD}</private> b", "closes", "line 1, column 51"),
    (f"a <private>{HELD}<private/> b", "opens", "line 1, column 3"),
)


@pytest.mark.parametrize(("text", "does", "place"), HALVES)
def test_half_of_a_private_tag_is_refused_with_its_place(
    store: Store, text: str, does: str, place: str
) -> None:
    for given in ({"body": text}, {"title": text}, {"tags": [text]}):
        with pytest.raises(
            Refused, match=f"{does} <private> where nothing .* \\({place}\\)"
        ) as refused:
            write_gate.admit(store, given, allow_secret=True)
        assert HELD not in str(refused.value)


@pytest.mark.parametrize("argv", [("remember", "--jsonl", "-"), ("import", "-")])
def test_half_of_a_private_tag_costs_its_own_line_alone(
    lab: Lab, repo: pathlib.Path, argv: tuple[str, ...]
) -> None:
    texts = ("use a queue", f"retry twice <private>{HELD}", "the macro <private.h> must come last")
    done = lab.run(
        repo, "git-mem", *argv, stdin="".join(json.dumps({"body": t}) + "\n" for t in texts)
    )
    assert " 2: " in done.stderr and "opens <private> where nothing closes it" in done.stderr, (
        done.stderr
    )
    said = "".join(lab.lines(repo))
    assert texts[0] in said and texts[2] in said and "retry twice" not in said


@pytest.mark.each
@pytest.mark.parametrize(
    "way", ["remember", "stdin", "jsonl", "title", "edit", "supersede", "import", "forget"]
)
def test_private_parts_are_stored_by_no_command_and_the_user_is_told(
    lab: Lab, repo: pathlib.Path, way: str
) -> None:
    text = f"use a queue <private>{HELD}</private> for mail"
    id = lab.json(repo, "remember", "orders share a transaction")["id"]
    line = json.dumps({"body": text}) + "\n"
    argv: dict[str, list[str]] = {
        "remember": ["remember", text], "stdin": ["remember", "--stdin"], "jsonl": ["remember", "--jsonl", "-"],  # noqa: E501
        "title": ["remember", "one", "--title", text], "edit": ["edit", id, "-m", text],
        "supersede": ["supersede", id, text], "import": ["import", "-"], "forget": ["forget", id, "--reason", text],  # noqa: E501
    }  # fmt: skip
    done = lab.run(repo, "git-mem", *argv[way], stdin=text if way == "stdin" else line)
    assert done.returncode == 0, done.stderr
    if way not in ("import", "forget"):
        assert write_gate.LEFT_OUT in done.stderr
    said = "".join(lab.lines(repo))
    assert HELD not in said and "private>" not in said and "use a queue for mail" in said


def test_every_way_to_write_is_in_this_file() -> None:
    """A new call of `Store.append` has to be looked at: its module is listed here with its gate."""
    root = pathlib.Path(__file__).parent.parent / "gitmem"
    callers = {
        str(p.relative_to(root))
        for p in root.rglob("*.py")
        if "store.append(" in p.read_text(encoding="utf-8")
    }
    words = {"memory/remember.py", "memory/memories.py"}
    # These write words through `review_records`, whose callers have to ask the gate.
    for name in words | {"capture/suggestions.py", "capture/review.py", "memory/proposals.py"}:
        assert "write_gate." in (root / name).read_text(encoding="utf-8"), name
    # ids, numbers and `Store.author` alone
    records = {
        "memory/review_records.py",
        "agents/receipts.py",
        "anchors/patch_id_marks.py",
        "anchors/reanchor.py",
        "feedback/usage_records.py",
    }
    assert callers == words | records
    for name in records:
        assert "settings.author" not in (root / name).read_text(encoding="utf-8"), name
    assert adr and reanchor and proposals


def test_a_secret_in_the_name_is_in_no_notes_commit(
    lab: Lab, repo: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    remote = tmp_path / "remote.git"
    lab.git(repo, "init", "-q", "--bare", str(remote))
    lab.git(repo, "remote", "add", "origin", str(remote))
    ids = {
        scope: lab.json(repo, "remember", f"use a queue {scope}", f"--{scope}")["id"]
        for scope in ("team", "private")
    }
    for argv in (
        ["sync"],
        ["purge", ids["team"], "--force"],
        ["purge", ids["private"], "--force"],
        ["sync"],
        ["doctor", "--repair"],
    ):
        done = lab.run(
            repo, "git-mem", *argv, env={"GIT_AUTHOR_NAME": KEY, "GIT_COMMITTER_NAME": KEY}
        )
        assert done.returncode in (0, 1), (argv, done.stderr)
    for scope in ids:
        said = lab.git(repo, "log", "--format=%an%ae%cn%ce", f"refs/notes/mem/{scope}")
        assert said.strip() and KEY not in said, scope


def test_every_notes_commit_is_made_with_the_cleaned_name() -> None:
    root = pathlib.Path(__file__).parent.parent / "gitmem"
    for path in root.rglob("*.py"):
        for line in path.read_text(encoding="utf-8").split("\n"):
            call = re.search(
                r"(?<!remarks)\.(?:append|unite|settle|tidy|replant)\(.*settings\.author", line
            )
            assert not call, (path, line)
