"""What a signature of a record is worth, with real keys."""

from __future__ import annotations

import json
import subprocess

import pytest
import signers
from conftest import Lab
from signers import Ring, check, fail, keys_of, rewrite

from gitmem.core import record
from gitmem.signing import sign
from gitmem.signing.signature import BAD, EXPIRED, GOOD, REVOKED, UNKNOWN, UNTRUSTED, Checker


@pytest.fixture
def ring(lab: Lab) -> signers.Ring:
    return signers.made(lab)


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
    data = {**record.about("share", "0" * 32), "signature": odd}
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
    data = record.about(
        "share", "0" * 32, author="Ada <ada@example.org>", at="2026-06-01T12:00:00Z"
    )
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
    data = record.about("share", "0" * 32)
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
    lab.unite(lab.root / "of-bob", "refs/notes/theirs")
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
