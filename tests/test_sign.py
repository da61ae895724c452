"""Signed records, with real keys: what is signed, what a signature is worth, and what happens where
none can be made.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import signal
import subprocess
import sys

import pytest
import signers
from conftest import Lab
from signers import PACKAGE, Ring, calls, check, counted, fail, keys_of, rewrite

from gitmem.core import record
from gitmem.core.errors import CannotSign
from gitmem.signing import sign
from gitmem.signing.signature import BAD, EXPIRED, GOOD, REVOKED, UNKNOWN, UNTRUSTED, Checker


@pytest.fixture
def ring(lab: Lab) -> signers.Ring:
    return signers.made(lab)


# --- making ------------------------------------------------------------------


def test_every_way_to_write_signs_its_record(ring: Ring, lab: Lab) -> None:
    path = ring.repo()
    one = lab.json(path, "remember", "the first memory")["id"]
    lab.mem(path, "edit", one, "--type", "decision")
    two = lab.json(path, "supersede", one, "what holds instead")["id"]
    lab.mem(path, "forget", two, "--reason", "neither")
    mine = lab.json(path, "remember", "a private thought", "--private")["id"]
    lab.mem(path, "share", mine)
    lab.mem(
        path, "remember", "--jsonl", "-", stdin='{"body": "a"}\n{"body": "b", "source": "log:1"}\n'
    )
    lines = [json.loads(row) for ref in ("mem/team", "mem/private") for row in lab.lines(path, ref)]
    assert sorted({r["op"] for r in lines}) == ["create", "edit", "forget", "share"]
    assert all(r["signature"].startswith("-----BEGIN SSH SIGNATURE-----\n") for r in lines)
    items = ring.verify(path, "--all")
    assert len(items) == 8 and {(i["state"], i["signer"], i["author_matches"]) for i in items} == {
        ("good", "ada@example.org", True)
    }


def test_no_module_writes_a_line_around_the_signature() -> None:
    """What a person writes passes `Store.lines`. What a worker finds does not, because it cannot
    ask for a passphrase: marks and moves, what it captures (`remember(sign=False)`) and suggests.
    Verdicts and calibrations are private and no memories."""
    makers = {
        path.stem
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "dump"
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "record"
    }
    assert makers == {
        "store",
        "sign",
        "signature",
        "reanchor",
        "patch_id_marks",
        "record_content",  # measures a line
        "remember",
        "calibrate",
        "usage_records",
        "memories",
        "review_records",
    }


def test_the_signature_covers_the_line_and_the_version_covers_the_signature(
    ring: Ring, lab: Lab
) -> None:
    path = ring.repo()
    id = lab.json(path, "remember", "long enough to need no salt " * 12)["id"]
    (line,) = lab.lines(path)
    parsed = record.parse(line.encode())
    assert parsed and record.dump(parsed.data) == line.encode()
    armor = parsed.data["signature"]
    checked = subprocess.run(
        [
            "ssh-keygen",
            "-Y",
            "verify",
            "-n",
            "git-mem",
            "-f",
            str(ring.allowed),
            "-I",
            "ada@example.org",
            "-s",
            "/dev/stdin",
        ],
        input=armor,
        text=True,
        capture_output=True,
        check=False,
    )
    assert checked.returncode, "stdin is the text, so this probe must fail"
    (ring.home / "s").write_text(armor)
    checked = subprocess.run(
        [
            "ssh-keygen",
            "-Y",
            "verify",
            "-n",
            "git-mem",
            "-f",
            str(ring.allowed),
            "-I",
            "ada@example.org",
            "-s",
            str(ring.home / "s"),
        ],
        input=record.signed_bytes(parsed.data),
        capture_output=True,
        check=False,
    )
    assert checked.returncode == 0, "as docs/format.md says, with ssh-keygen alone"
    lab.mem(path, "config", "sign", "false")
    other = lab.repo("other")
    assert lab.json(other, "remember", "long enough to need no salt " * 12)["id"] == id, (
        "the id does not cover it"
    )


def test_commit_gpgsign_means_memories_too_unless_mem_sign_says_otherwise(
    ring: Ring, lab: Lab
) -> None:
    path = lab.repo()

    def signed(env: dict[str, str] | None = None) -> bool:
        (made,) = [
            json.loads(
                lab.mem(path, "remember", f"memory {os.urandom(4).hex()}", "--json", env=env)
            )
        ]
        return "signature" in next(
            r for r in map(json.loads, lab.lines(path)) if r["id"] == made["id"]
        )

    lab.git(path, "config", "user.signingKey", str(ring.home / "ada"))
    assert not signed()
    lab.git(path, "config", "commit.gpgSign", "yes")
    assert signed()
    lab.git(path, "config", "mem.sign", "no")
    assert not signed()
    assert signed({"GIT_MEM_SIGN": "1"})
    lab.git(path, "config", "commit.gpgSign", "false")
    lab.git(path, "config", "mem.sign", "auto")
    assert not signed()
    assert fail(lab, path, "config", "sign", "sometimes")[0] == 2


def test_signing_off_starts_no_process_more_and_loads_nothing(ring: Ring, lab: Lab) -> None:
    plain, keyed = lab.repo("plain"), ring.repo("keyed")
    lab.git(keyed, "config", "mem.sign", "false")
    where = counted(lab, "git", "ssh-keygen")
    for path in (plain, keyed):
        lab.mem(path, "remember", "the first one", "--path", "f0.txt")
    calls(where)
    seen = []
    for path in (plain, keyed):
        lab.mem(path, "remember", "nothing to sign here")
        seen.append(sorted(row.split()[:1] + row.split()[2:3] for row in calls(where)))
    assert (
        seen[0] == seen[1]
        and seen[0].count(["git", "config"]) == 1
        and "ssh-keygen" not in str(seen)
    )
    code = (
        f"import os, sys; os.chdir({str(keyed)!r})\nfrom gitmem.cli import run\nrun(['remember', 'x"
        " y z']); run(['recall', 'x y z'])\nassert not {'gitmem.signing.sign',"
        " 'gitmem.signing.keys', 'gitmem.signing.signature'} & set(sys.modules)"
    )
    done = lab.run(keyed, sys.executable, "-c", code)
    assert done.returncode == 0, done.stderr


BROKEN = {
    "no such file": (("user.signingKey", "/no/such/place/key"),),
    "no key at all": (("user.signingKey", ""), ("gpg.ssh.defaultKeyCommand", "")),
    "no such program": (("gpg.ssh.program", "/no/such/place/ssh-keygen"),),
    "a program that fails": (("gpg.ssh.program", "false"),),
    "a program that says nothing": (("gpg.ssh.program", "true"),),
    "a key that is locked": (("user.signingKey", "LOCKED"),),
    "an unknown format": (("gpg.format", "rot13"),),
    "a default key command that fails": (
        ("user.signingKey", ""),
        ("gpg.ssh.defaultKeyCommand", "false"),
    ),
    "a public key that no agent has": (
        (
            "user.signingKey",
            "key::ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBS92Wih8ahEger4qMwCf0F9IXnTjsuWWXxTBFn/UUk7",
        ),
    ),
}


@pytest.mark.parametrize("settings", BROKEN.values(), ids=BROKEN)
def test_a_signature_that_cannot_be_made_refuses_the_write_and_nothing_is_stored(
    ring: Ring, lab: Lab, settings: tuple[tuple[str, str], ...]
) -> None:
    path = ring.repo()
    id = lab.json(path, "remember", "stored before")["id"]
    ring.key("locked", passphrase="secret")
    for name, value in settings:
        lab.git(path, "config", name, str(ring.home / "locked") if value == "LOCKED" else value)
    before = (lab.lines(path), lab.lines(path, "mem/private"))
    many = "".join(json.dumps({"body": f"memory {i}"}) + "\n" for i in range(12))
    for argv, stdin in (
        (["remember", "not without a signature"], None),
        (["remember", "mine", "--private"], None),
        (["edit", id, "--type", "decision"], None),
        (["supersede", id, "x"], None),
        (["forget", id], None),
        (["remember", "--jsonl", "-"], many),
    ):
        done = lab.run(
            path,
            "setsid",
            sys.executable,
            "-m",
            "gitmem",
            *argv,
            stdin=stdin,
            env={"SSH_AUTH_SOCK": "", "SSH_ASKPASS_REQUIRE": "never"},
        )
        assert (
            done.returncode == 1
            and "cannot sign" in done.stderr
            and "nothing was stored" in done.stderr
            and "bug" not in done.stderr
        ), (argv, done.stderr)
        assert (lab.lines(path), lab.lines(path, "mem/private")) == before
    assert not [n for n in os.listdir(path / ".git" / "mem") if n.startswith("sign-")]


def test_a_program_that_hangs_is_ended_and_named(lab: Lab) -> None:
    slow = lab.root / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 600\n")
    slow.chmod(0o755)
    keys = keys_of(
        {"gpg.format": "ssh", "gpg.ssh.program": str(slow), "user.signingkey": "x"}, lab.root
    )
    with pytest.raises(CannotSign, match="gave no answer"):
        sign.lines(keys, [record.share("0" * 32)], str(lab.root), patience=0.2)


def test_an_import_is_signed_by_one_process_and_in_order(ring: Ring, lab: Lab) -> None:
    path = ring.repo()
    where = counted(lab, "ssh-keygen")
    many = "".join(json.dumps({"body": f"memory {i} of an import"}) + "\n" for i in range(60))
    lab.mem(path, "remember", "--jsonl", "-", stdin=many)
    assert len(calls(where)) == 1
    assert {i["state"] for i in ring.verify(path)} == {"good"}
    assert not [n for n in os.listdir(path / ".git" / "mem") if n.startswith("sign-")]


def test_what_a_killed_import_laid_out_is_swept(ring: Ring, lab: Lab) -> None:
    for age, left in ((7200, []), (0, ["sign-abandoned"])):
        place = lab.root / "mem" / "sign-abandoned"
        place.mkdir(parents=True, exist_ok=True)
        os.utime(place, (place.stat().st_mtime - age,) * 2)
        sign.sweep(str(lab.root / "mem"))
        assert os.listdir(lab.root / "mem") == left


def test_a_public_key_and_a_key_command_sign_through_the_agent(ring: Ring, lab: Lab) -> None:
    if shutil.which("ssh-agent") is None:
        pytest.skip("no ssh-agent here")
    path = ring.repo()
    public = (ring.home / "ada.pub").read_text().rsplit(" ", 1)[0]
    socket = lab.root / "agent"
    agent = subprocess.Popen(
        ["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert agent.stdout and agent.stdout.readline()
        lab.env["SSH_AUTH_SOCK"] = str(socket)
        assert lab.run(path, "ssh-add", "-q", str(ring.home / "ada")).returncode == 0
        shutil.move(str(ring.home / "ada"), str(ring.home / "elsewhere"))
        for i, (name, value) in enumerate(
            (
                ("user.signingKey", "key::" + public),
                ("user.signingKey", public),
                ("user.signingKey", str(ring.home / "ada.pub")),
                ("gpg.ssh.defaultKeyCommand", f"echo 'key::{public}'"),
            )
        ):
            lab.git(path, "config", "user.signingKey", "")
            lab.git(path, "config", name, value)
            lab.mem(path, "remember", f"signed in way {i}")
        assert [i["state"] for i in ring.verify(path)] == ["good"] * 4
    finally:
        agent.send_signal(signal.SIGTERM)
        agent.communicate()


def test_a_relative_key_starts_at_the_top_of_the_working_tree_as_for_git(
    ring: Ring, lab: Lab
) -> None:
    path = ring.repo()
    shutil.copy(ring.home / "ada", path / ".git" / "key")
    shutil.copy(ring.allowed, path / "allowed")
    lab.git(path, "config", "user.signingKey", ".git/key")
    lab.git(path, "config", "gpg.ssh.allowedSignersFile", "allowed")
    (path / "sub").mkdir()
    lab.mem(path / "sub", "remember", "from below")
    lab.mem(path / ".git", "remember", "as a worker runs", env={"GIT_DIR": str(path / ".git")})
    for where, env in ((path / "sub", {}), (path / ".git", {"GIT_DIR": str(path / ".git")})):
        assert [i["state"] for i in json.loads(lab.mem(where, "verify", "--json", env=env))] == [
            "good"
        ] * 2


def test_a_text_without_a_signature_gets_one_from_whoever_vouches_for_it(
    ring: Ring, lab: Lab
) -> None:
    path = ring.repo()
    lab.git(path, "config", "mem.sign", "false")
    id = lab.json(path, "remember", "older than our keys", "--type", "gotcha")["id"]
    assert fail(lab, path, "sign", id)[0] == 1
    lab.git(path, "config", "mem.sign", "true")
    assert lab.json(path, "sign", id[:6]) == {"id": id, "status": "signed"}
    (memory,) = lab.json(path, "list")
    assert (memory["id"], memory["body"], memory["type"]) == (id, "older than our keys", "gotcha")
    assert [(i["op"], i["state"]) for i in ring.verify(path)] == [("edit", "good")]
    code, message = fail(lab, path, "sign", id)
    assert code == 1 and "signed already, by ada@example.org" in message


# --- checking ----------------------------------------------------------------


def test_a_changed_text_is_bad_whoever_changed_it(ring: Ring, lab: Lab) -> None:
    path = ring.repo()
    lab.mem(
        path,
        "remember",
        "pay into account one, and never into any other account, whoever asks for it in a mail or"
        " on the phone " * 3,
        "--title",
        "Accounts",
    )
    (line,) = lab.lines(path)
    data = json.loads(line)
    changed = {**data, "body": data["body"].replace("one", "two")}
    forged = {**changed, "id": record.memory_id("Accounts", changed["body"], "", "")}
    for wrong in (
        changed,
        forged,
        {**data, "author": "Bob <bob@example.org>"},
        {**data, "at": "2020-01-01T00:00:00Z"},
        {**data, "extra": 1},
    ):
        rewrite(lab, path, [record.dump(wrong).decode()])
        (item,) = [
            i
            for i in ring.verify(path, "--all", rc=(1,))
            if i["version"] == record.version_of(record.dump(wrong))
        ]
        assert (item["state"], item["signer"]) == ("bad", None)
    assert "bad signature" in lab.mem(path, "list")


def test_a_signature_counts_on_a_canonical_line_only(ring: Ring, lab: Lab) -> None:
    """A name that stands twice reads in two ways; the signed one must not vouch for the other."""
    path = ring.repo()
    lab.mem(path, "remember", "the true text")
    (line,) = lab.lines(path)
    twice = line.replace('{"at"', '{"body":"another text","at"', 1)
    spaced = line.replace('{"at":', '{"at": ', 1)
    keys = keys_of({"gpg.ssh.allowedsignersfile": str(ring.allowed)}, path)
    with Checker(keys) as checker:
        verdicts = [
            checker.of(r)
            for r in (record.parse(text.encode()) for text in (line, twice, spaced))
            if r
        ]
    assert [v.state for v in verdicts] == [GOOD, BAD, BAD]


def test_a_signature_of_another_record_is_bad(ring: Ring, lab: Lab) -> None:
    path = ring.repo()
    for text in ("one", "two"):
        lab.mem(path, "remember", text)
    first, second = map(json.loads, lab.lines(path))
    with Checker(keys_of({"gpg.ssh.allowedsignersfile": str(ring.allowed)}, path)) as checker:
        assert check(checker, {**first, "signature": second["signature"]}).state == BAD


ODD = [
    "",
    "x",
    "-----BEGIN SSH SIGNATURE-----",
    "-----BEGIN SSH SIGNATURE-----\nU1NIU0lH\n-----END SSH SIGNATURE-----",
    "-----BEGIN SSH SIGNATURE-----\n!!!\n",
    "-----BEGIN PGP SIGNATURE-----\n\nabc\n-----END PGP SIGNATURE-----",
    "-----BEGIN SIGNED MESSAGE-----\nabc",
    7,
    None,
    ["x"],
    {"a": 1},
    "\u00fc",
    "-----BEGIN SSH SIGNATURE-----\n" + "A" * 70_000,
]


@pytest.mark.parametrize("odd", ODD, ids=range(len(ODD)))
def test_a_broken_signature_is_never_good_and_never_an_error(lab: Lab, odd: object) -> None:
    data = {**record.share("0" * 32), "signature": odd}
    with Checker(keys_of({"gnupghome": str(lab.root)}, lab.root)) as checker:
        assert check(checker, data).state in (BAD, UNKNOWN, "none")


def test_every_flipped_character_of_a_signed_line_is_noticed(ring: Ring, lab: Lab) -> None:
    path = ring.repo()
    lab.mem(path, "remember", "a text of some length", "--tag", "t", "--type", "decision")
    (line,) = lab.lines(path)
    raw = line.encode()
    with Checker(keys_of({"gpg.ssh.allowedsignersfile": str(ring.allowed)}, path)) as checker:
        parsed = record.parse(raw)
        assert parsed and checker.of(parsed).state == GOOD
        for at in range(0, len(raw), 23):
            changed = record.parse(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :])
            assert changed is None or checker.of(changed).state != GOOD, at


def test_the_allowed_signers_file_says_whose_key_it_is_and_since_when(ring: Ring, lab: Lab) -> None:
    path = ring.repo()
    ring.key("bob")
    data = record.share("0" * 32, author="Ada <ada@example.org>", at="2026-06-01T12:00:00Z")
    lab.git(path, "config", "user.signingKey", str(ring.home / "ada"))
    armor = sign.signatures(
        keys_of({"gpg.format": "ssh", "user.signingkey": str(ring.home / "ada")}, path),
        [record.signed_bytes(data)],
        str(path),
    )[0]
    signed = {**data, "signature": armor}

    def verdict(*rows: tuple[str, str, str], **more: str) -> tuple[str, str]:
        ring.allow(*rows)
        with Checker(
            keys_of({"gpg.ssh.allowedsignersfile": str(ring.allowed), **more}, path)
        ) as checker:
            found = check(checker, signed)
            assert check(checker, signed).state == found.state, "also when the key is known"
        return found.state, found.signer

    assert verdict(("ada@example.org", "", "ada")) == (GOOD, "ada@example.org")
    assert verdict(("x@example.org,ada@example.org", "", "ada")) == (GOOD, "x@example.org")
    assert verdict(("*@example.org", "", "ada")) == (GOOD, "*@example.org")
    assert verdict(("ada@example.org", 'namespaces="git,git-mem"', "ada")) == (
        GOOD,
        "ada@example.org",
    )
    assert verdict(
        ("ada@example.org", 'valid-after="20260101",valid-before="20270101"', "ada")
    ) == (GOOD, "ada@example.org")
    assert verdict(("bob@example.org", "", "bob")) == (UNTRUSTED, "")
    assert verdict() == (UNTRUSTED, "")
    assert verdict(("ada@example.org", 'namespaces="git"', "ada")) == (UNTRUSTED, "ada@example.org")
    assert verdict(("ada@example.org", 'valid-before="20260501"', "ada"))[0] == EXPIRED
    assert verdict(("ada@example.org", 'valid-after="20260701"', "ada"))[0] == EXPIRED
    assert (
        verdict(("ada@example.org", "", "ada"), **{"gpg.ssh.program": "/no/such/place/ssh-keygen"})[
            0
        ]
        == UNKNOWN
    )
    revoked = str(ring.home / "ada.pub")
    assert verdict(("ada@example.org", "", "ada"), **{"gpg.ssh.revocationfile": revoked}) == (
        REVOKED,
        "ada@example.org",
    )
    assert verdict(("bob@example.org", "", "bob"), **{"gpg.ssh.revocationfile": revoked}) == (
        REVOKED,
        "",
    )
    assert verdict(
        ("ada@example.org", "", "ada"), **{"gpg.ssh.revocationfile": str(ring.home / "bob.pub")}
    ) == (GOOD, "ada@example.org")
    assert (
        verdict(("ada@example.org", "", "ada"), **{"gpg.ssh.revocationfile": "/no/such/place"})[0]
        == UNKNOWN
    )


def test_a_signature_made_for_something_else_is_bad(ring: Ring, lab: Lab) -> None:
    data = record.share("0" * 32)
    for namespace in ("git", "file"):
        made = subprocess.run(
            ["ssh-keygen", "-Y", "sign", "-n", namespace, "-f", str(ring.home / "ada")],
            input=record.signed_bytes(data),
            capture_output=True,
            check=True,
        ).stdout
        with Checker(
            keys_of({"gpg.ssh.allowedsignersfile": str(ring.allowed)}, lab.root)
        ) as checker:
            found = check(checker, {**data, "signature": made.decode().strip()})
        assert found.state == BAD and namespace in found.reason


def test_an_imported_record_is_judged_by_when_it_was_signed(ring: Ring, lab: Lab) -> None:
    """A memory of 2019, imported today with a key of this year, is no forgery."""
    path = ring.repo()
    ring.allow(("ada@example.org", 'valid-after="20250101"', "ada"))
    lab.mem(
        path,
        "remember",
        "--jsonl",
        "-",
        stdin='{"body": "long ago", "created_at": "2019-01-01T00:00:00Z"}\n',
    )
    assert json.loads(lab.lines(path)[0])["signed_at"] > "2025"
    assert [i["state"] for i in ring.verify(path)] == ["good"]


def test_signed_records_survive_a_merge_by_stock_git(ring: Ring, lab: Lab) -> None:
    ring.key("bob")
    ring.allow(("ada@example.org", "", "ada"), ("bob@example.org", "", "bob"))
    lab.repo("seed")
    lab.git(lab.root, "clone", "-q", "--bare", "seed", "hub.git")
    for name in ("ada", "bob"):
        lab.git(lab.root, "clone", "-q", "hub.git", f"of-{name}")
        where = lab.root / f"of-{name}"
        lab.git(where, "config", "mem.sign", "true")
        lab.git(where, "config", "user.signingKey", str(ring.home / name))
        for i in range(3):
            lab.mem(where, "remember", f"{name} learned {i}")
    lab.git(lab.root / "of-ada", "push", "-q", "origin", "refs/notes/mem/team")
    lab.git(lab.root / "of-bob", "fetch", "-q", "origin", "refs/notes/mem/team:refs/notes/theirs")
    lab.git(
        lab.root / "of-bob",
        "notes",
        "--ref=mem/team",
        "merge",
        "-q",
        "-s",
        "cat_sort_uniq",
        "refs/notes/theirs",
    )
    found = ring.verify(lab.root / "of-bob")
    assert (
        sorted((i["state"], i["signer"]) for i in found)
        == [("good", "ada@example.org")] * 3 + [("good", "bob@example.org")] * 3
    )


def test_verify_says_what_else_is_odd_about_a_record(ring: Ring, lab: Lab) -> None:
    path = ring.repo()
    lab.mem(path, "remember", "for somebody else", env={"GIT_AUTHOR_EMAIL": "bob@example.org"})
    id = lab.json(path, "remember", "a signed decision")["id"]
    lab.git(path, "config", "mem.sign", "false")
    lab.mem(
        path,
        "remember",
        "the token is ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8",
        "--allow-secret",
    )
    assert fail(lab, path, "verify")[0] == 0, "no signature was tampered with"
    items = {i["title"]: i for i in ring.verify(path)}
    assert (
        items["for somebody else"]["author_matches"] is False
        and items["a signed decision"]["author_matches"] is True
    )
    assert [s["field"] for t, i in items.items() for s in i["secrets"] if "token" in t] == ["body"]
    lab.mem(path, "forget", id)
    hiding = [i for i in ring.verify(path, "--all") if i["hides_signed"]]
    assert [(i["op"], i["id"]) for i in hiding] == [("forget", id)]
    forged = {**json.loads(lab.lines(path)[0]), "id": "f" * 32}
    del forged["signature"]
    rewrite(lab, path, [*lab.lines(path), record.dump(forged).decode()])
    items_all = ring.verify(path, rc=(1,))
    assert [i["id"] for i in items_all if not i["id_holds"]] == ["f" * 32]
    assert "its id is not that of its text" in lab.mem(path, "verify", rc=(1,))
    assert ring.verify(path, id[:8])[0]["state"] == "good", (
        "named by its id, also when it is forgotten"
    )
    assert fail(lab, path, "verify", "0" * 8)[0] == 1
