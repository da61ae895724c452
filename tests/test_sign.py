"""Signed records, with real keys: what is signed, and what happens where that cannot be done."""

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
from signers import PACKAGE, Ring, calls, counted, fail, keys_of

from gitmem.core import record
from gitmem.core.errors import CannotSign
from gitmem.signing import sign


@pytest.fixture
def ring(lab: Lab) -> signers.Ring:
    return signers.made(lab)


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
        "commit_index",  # in the cache of commits alone
        "remember",
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


def test_a_program_that_hangs_is_ended_and_named(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sign, "PATIENCE", 0.2)
    slow = lab.root / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 600\n")
    slow.chmod(0o755)
    keys = keys_of(
        {"gpg.format": "ssh", "gpg.ssh.program": str(slow), "user.signingkey": "x"}, lab.root
    )
    with pytest.raises(CannotSign, match="gave no answer"):
        sign.lines(keys, [record.about("share", "0" * 32)], str(lab.root))


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
