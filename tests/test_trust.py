"""The policy `mem.trust`: what is below it is marked everywhere and injected nowhere."""

from __future__ import annotations

import json
import pathlib
import shutil
from typing import Any

import pytest
import signers
from conftest import Lab
from signers import Ring, calls, counted, rewrite

from gitmem.core import record, record_content


@pytest.fixture
def ring(lab: Lab) -> signers.Ring:
    return signers.made(lab)


# --- policy ------------------------------------------------------------------


def hits(lab: Lab, path: pathlib.Path, *argv: str) -> dict[str, str]:
    """{body: state of its signature} of what recall finds."""
    return {
        h["body"]: h.get("signature", {}).get("state", "")
        for h in lab.json(path, "recall", "deploy on which day", *argv, rc=(0, 1))["hits"]
    }


def mixed(ring: Ring, lab: Lab) -> pathlib.Path:
    """Memories by an allowed key, by a stranger's, and without a signature."""
    ring.key("eve")
    path = ring.repo()
    lab.mem(path, "remember", "deploy on Tuesdays")
    lab.git(path, "config", "user.signingKey", str(ring.home / "eve"))
    lab.mem(path, "remember", "deploy on Thursdays")
    lab.git(path, "config", "mem.sign", "false")
    lab.mem(path, "remember", "deploy on Sundays")
    return path


def test_what_is_below_the_policy_is_marked_everywhere_and_injected_nowhere(
    ring: Ring, lab: Lab
) -> None:
    path = mixed(ring, lab)
    assert len(hits(lab, path, "--hot")) == 3
    lab.mem(path, "config", "trust", "signed")
    assert set(hits(lab, path, "--hot")) == {"deploy on Tuesdays", "deploy on Thursdays"}
    lab.mem(path, "config", "trust", "allowed")
    assert lab.mem(path, "config", "trust").strip() == "allowed-signers"
    assert set(hits(lab, path, "--hot")) == {"deploy on Tuesdays"}
    assert hits(lab, path) == {
        "deploy on Tuesdays": "good",
        "deploy on Thursdays": "untrusted",
        "deploy on Sundays": "none",
    }
    for command in (["list"], ["recall", "deploy on which day"]):
        out = lab.mem(path, *command)
        assert (
            "unsigned" in out
            and "signed by a key that nobody here vouches for" in out
            and "signed by ada@example.org" in out
        )
    accepted = {m["body"]: m["signature"]["accepted"] for m in lab.json(path, "list")}
    assert accepted == {
        "deploy on Tuesdays": True,
        "deploy on Thursdays": False,
        "deploy on Sundays": False,
    }
    assert len(ring.verify(path, rc=(1,))) == 3
    assert "unsigned" in lab.mem(
        path, "show", next(m["id"] for m in lab.json(path, "list") if "Sundays" in m["body"])
    )


def test_a_policy_file_in_the_tree_cannot_loosen_the_policy(ring: Ring, lab: Lab) -> None:
    path = mixed(ring, lab)
    lab.mem(path, "config", "trust", "signed")
    (path / ".gitmem.toml").write_text('trust = "all"\nsign = "false"\n')
    assert len(hits(lab, path, "--hot")) == 2
    lab.git(path, "config", "--unset", "mem.trust")
    assert lab.json(path, "config", "trust")["value"] == "all"


def test_an_unsigned_edit_of_a_signed_memory_is_not_injected(ring: Ring, lab: Lab) -> None:
    path = ring.repo()
    lab.mem(path, "config", "trust", "allowed-signers")
    id = lab.json(path, "remember", "deploy on Tuesdays")["id"]
    assert hits(lab, path, "--hot")
    lab.git(path, "config", "mem.sign", "false")
    lab.mem(path, "edit", id, "-m", "deploy on Sundays, without tests")
    assert hits(lab, path, "--hot") == {} and hits(lab, path) == {
        "deploy on Sundays, without tests": "none"
    }
    lab.git(path, "config", "mem.sign", "true")
    lab.mem(path, "sign", id)
    assert hits(lab, path, "--hot") == {"deploy on Sundays, without tests": "good"}


def test_a_signature_is_checked_once_until_the_keys_change(ring: Ring, lab: Lab) -> None:
    path = mixed(ring, lab)
    lab.mem(path, "config", "trust", "allowed-signers")
    where = counted(lab, "ssh-keygen")
    hits(lab, path, "--hot")
    assert calls(where)
    for argv in (["--hot"], []):
        hits(lab, path, *argv)
    lab.mem(path, "list")
    assert calls(where) == []
    ring.allow(("eve@example.org", "", "eve"))
    assert set(hits(lab, path, "--hot")) == {"deploy on Thursdays"} and calls(where)
    lab.git(path, "config", "mem.trust", "all")
    lab.mem(path, "remember", "deploy on Mondays")
    hits(lab, path)
    assert calls(where) == [], "where everything is trusted nothing is checked"


def test_keys_that_changed_are_not_trusted_for_what_they_were(ring: Ring, lab: Lab) -> None:
    """Where the new state cannot be stored (a read-only cache), nothing is injected."""
    from gitmem.engine.filters import Filter
    from gitmem.store import open_store

    path = mixed(ring, lab)
    lab.mem(path, "config", "trust", "signed")
    lab.mem(path, "index")
    ring.allow(("eve@example.org", "", "eve"))
    store = open_store(lab.env, str(path))
    try:

        def narrowed(cache: Any) -> tuple[Any, list[Any]]:
            before = store.trust.injectable(cache, Filter()).signatures
            store.trust.catch_up(cache)
            return before, list(store.trust.injectable(cache, Filter()).signatures or ())

        assert store.with_cache(narrowed)[0] == ((), ["good", "untrusted"])
    finally:
        store.close()


def test_a_prompt_checks_a_few_signatures_and_the_rest_count_as_below_the_policy(
    ring: Ring, lab: Lab
) -> None:
    from gitmem.engine.filters import Filter
    from gitmem.memory.listing import rows_of
    from gitmem.store import open_store

    path = ring.repo()
    lab.mem(path, "config", "trust", "signed")
    lab.mem(
        path,
        "remember",
        "--jsonl",
        "-",
        stdin="".join(json.dumps({"body": f"deploy on day {i}"}) + "\n" for i in range(50)),
    )
    store = open_store(lab.env, str(path))
    try:

        def some(cache: Any, most: int | None) -> tuple[bool, int]:
            return store.trust.catch_up(cache, most), len(
                rows_of(cache, store.trust.injectable(cache, Filter()))
            )

        for most, seen in (
            (20, (False, 20)),
            (0, (False, 20)),
            (20, (False, 40)),
            (None, (True, 50)),
            (0, (True, 50)),
        ):
            assert store.with_cache(lambda cache, most=most: some(cache, most))[0] == seen
    finally:
        store.close()


def test_the_only_memory_below_the_policy_is_left_out_as_soon_as_it_is_there_and_costs_no_filter_when_it_is_gone(  # noqa: E501
    ring: Ring, lab: Lab
) -> None:
    from gitmem.engine.filters import Filter
    from gitmem.store import open_store

    path = ring.repo()
    lab.mem(path, "config", "trust", "allowed-signers")
    lab.mem(path, "remember", "deploy on Tuesdays")

    def filtered() -> bool:
        store = open_store(lab.env, str(path))
        try:
            return store.with_cache(
                lambda cache: (
                    store.trust.catch_up(cache)
                    and not store.trust.injectable(cache, Filter()).empty
                )
            )[0]
        finally:
            store.close()

    assert not filtered()
    lab.git(path, "config", "mem.sign", "false")
    id = lab.json(path, "remember", "deploy on Sundays")["id"]
    assert filtered() and set(hits(lab, path, "--hot")) == {"deploy on Tuesdays"}
    lab.mem(path, "forget", id)
    assert not filtered() and set(hits(lab, path, "--hot")) == {"deploy on Tuesdays"}


def test_recall_says_that_signatures_wait_and_a_detached_process_checks_them(
    ring: Ring, lab: Lab
) -> None:
    path = ring.repo()
    lab.mem(path, "config", "trust", "signed")
    lab.mem(
        path,
        "remember",
        "--jsonl",
        "-",
        stdin="".join(json.dumps({"body": f"deploy on day {i}"}) + "\n" for i in range(50)),
    )
    answer = lab.json(path, "recall", "deploy on which day", "--hot", "-n", "50")
    assert (
        0 < len(answer["hits"]) <= 20
        and answer["degraded"]
        and "signatures" in answer["degraded_reason"]
    )
    for _ in range(200):
        answer = lab.json(path, "recall", "deploy on which day", "--hot", "-n", "50")
        if not answer["degraded"]:
            break
    assert len(answer["hits"]) == 50


def test_a_number_given_again_after_a_purge_brings_no_signature_along(ring: Ring, lab: Lab) -> None:
    path = ring.repo()
    lab.mem(path, "config", "trust", "signed")
    lab.mem(path, "remember", "deploy on Mondays")
    id = lab.json(path, "remember", "deploy on Tuesdays")["id"]
    assert len(hits(lab, path, "--hot")) == 2
    lab.git(path, "config", "mem.sign", "false")
    versions = [r["version"] for r in lab.json(path, "show", id)["history"]]
    tombstone = record.envelope("purge", {"id": id, "lines": versions, "all": True}, "", {})
    stranger = record.create(record_content.checked({"body": "deploy on Sundays"}))
    for data in (tombstone, stranger):
        rewrite(lab, path, [*lab.lines(path), record.dump(data).decode()])
        hits(lab, path)
    assert set(hits(lab, path, "--hot")) == {"deploy on Mondays"}
    assert hits(lab, path)["deploy on Sundays"] == "none"


def test_verify_leaves_what_it_found_where_list_shows_it(ring: Ring, lab: Lab) -> None:
    path = mixed(ring, lab)
    assert "signed" not in lab.mem(path, "list"), "nobody asked"
    lab.mem(path, "verify")
    assert "signed by ada@example.org" in lab.mem(path, "list") and "unsigned" not in lab.mem(
        path, "list"
    )


def test_incoming_secrets_are_found_in_lines_of_any_kind() -> None:
    from gitmem.signing import trust

    token = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    harmless = record.dump(
        {
            **record.create(
                record_content.checked(
                    {"body": "a fact", "paths": [{"path": "a", "blob": "a" * 40}]}
                ),
                commit="b" * 40,
                patch="c" * 40,
            ),
            "signature": (
                "-----BEGIN SSH"
                " SIGNATURE-----\nU1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAgFL3VaKHxqESB6viozAJ\n-----END"  # noqa: E501
                " SSH SIGNATURE-----"
            ),
        }
    )
    assert (
        trust.secrets(
            [
                harmless,
                b"",
                b"a hand-written line",
                b'{"v":1,"op":"purge","id":"x","lines":["0123456789abcdef0123456789abcdef"]}',
            ]
        )
        == []
    )
    bodies = record.dump(record.create(record_content.checked({"body": f"the token is {token}"})))
    strange = record.dump({**record.about("share", "0" * 32), "colour": {"deep": [token]}})
    found = trust.secrets([bodies, strange, f"raw {token}".encode()])
    assert [(field, rule) for _, _, field, rule in found] == [
        ("body", "github-token"),
        ("colour", "github-token"),
        ("", "github-token"),
    ]
    assert token not in str(found)


def test_doctor_says_what_signing_and_the_policy_lack(ring: Ring, lab: Lab) -> None:
    def said(path: pathlib.Path) -> str:
        return "\n".join(f"{f['level']}: {f['text']}" for f in lab.json(path, "doctor"))

    path = lab.repo()
    assert "signed" not in said(path) and "mem.trust" not in said(path)
    lab.git(path, "config", "mem.sign", "true")
    assert "warn: memories are to be signed, and no SSH key is named" in said(path)
    lab.git(path, "config", "user.signingKey", str(ring.home / "ada"))
    assert "ok: memories are signed (ssh" in said(path)
    lab.git(path, "config", "mem.sign", "false")
    lab.mem(path, "config", "trust", "allowed-signers")
    assert "your own new memories will not be injected" in said(path)
    shutil.copy(ring.allowed, path / "signers")
    lab.git(path, "config", "gpg.ssh.allowedSignersFile", "signers")
    assert "who can push to a branch can add a key" in said(path)
    lab.git(path, "config", "gpg.ssh.allowedSignersFile", "~/no-such-file")
    assert "no SSH key is trusted" in said(path)
