"""One index over the memories of many repositories, in a real PostgreSQL."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import sys
import threading
from collections.abc import Iterator

import pytest
from conftest import Lab
from postgres_world import (
    PASSWORD,
    QUOTED,
    Cluster,
    Organisation,
    programs,
    programs_with_pgvector,
    skip_without_server,
)
from sync_world import SECRET

from gitmem.core.errors import MemError, UsageError

DATABASE = "Use PostgreSQL, not MongoDB: orders and invoices share a transaction"
TWICE = "Retries of the payment provider carry an idempotency key, else customers pay twice"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    skip_without_server()
    made = Cluster(programs())
    yield made
    made.close()


@pytest.fixture
def with_vectors(lab: Lab) -> Iterator[Organisation]:
    skip_without_server()
    if not programs_with_pgvector():
        pytest.skip("no pgvector here")
    made = Cluster(programs_with_pgvector())
    yield Organisation(lab, made.database())
    made.close()


@pytest.fixture
def organisation(lab: Lab, cluster: Cluster) -> Organisation:
    return Organisation(lab, cluster.database())


def test_memories_of_all_repositories_are_found_outside_of_any(organisation: Organisation) -> None:
    shop, pay = organisation.repo("shop", DATABASE), organisation.repo("pay", TWICE)
    done = organisation.index(shop, pay)
    assert [(r["repository"], r["status"], r["written"]) for r in done] == [
        ("git.example.org/shop", "indexed", 1),
        ("git.example.org/pay", "indexed", 1),
    ]
    answer = organisation.recall("which database do we use")
    assert (answer["verdict"], answer["searched"]) == ("HIT", 2)
    assert answer["hits"][0]["repository"] == "git.example.org/shop"
    assert answer["hits"][0]["body"] == DATABASE
    asked = ["recall", "--from", organisation.url, "why do customers pay twice"]
    said = organisation.lab.mem(organisation.lab.root, *asked)
    assert TWICE in said and "git.example.org/pay" in said and "tok" not in said


def test_a_hit_has_what_a_hit_of_recall_has(organisation: Organisation) -> None:
    shop = organisation.repo("shop", DATABASE)
    organisation.index(shop)
    (there,) = organisation.recall("orders and invoices")["hits"]
    (here,) = organisation.lab.json(shop, "recall", "orders and invoices")["hits"]
    assert set(there) - set(here) == {"repository"} and set(here) <= set(there)
    same = ("id", "title", "body", "type", "tags", "author", "created_at", "scope")
    assert {name: there[name] for name in same} == {name: here[name] for name in same}
    assert there["anchor"]["state"] == "unknown"  # no clone is there that could say


def test_nothing_private_leaves(organisation: Organisation) -> None:
    lab, shop = organisation.lab, organisation.repo("shop", DATABASE)
    lab.mem(shop, "remember", "--private", "my own plan about invoices")
    lab.mem(shop, "remember", "--allow-secret", f"the key is {SECRET}")
    line = lab.lines(shop)[0]
    foreign = line.replace(DATABASE, "known to all <private>told in confidence</private>")
    foreign = foreign.replace('"id":"', '"id":"f0f0')
    lab.git(shop, "notes", "--ref=mem/team", "append", "-m", foreign, "HEAD")
    (done,) = organisation.index(shop)
    assert len(done["secrets"]) == 1
    held = organisation.stored()
    assert DATABASE in held and "known to all" in held
    assert not any(text in held for text in ("own plan", SECRET, "in confidence"))


def test_what_no_longer_holds_leaves_with_the_next_run(organisation: Organisation) -> None:
    lab, shop = organisation.lab, organisation.repo("shop", DATABASE, TWICE, "tabs are four wide")
    organisation.index(shop)
    ids = {m["body"]: m["id"] for m in lab.json(shop, "list")}
    lab.mem(shop, "forget", ids[DATABASE])
    lab.mem(shop, "supersede", ids[TWICE], "-m", "the provider drops doubled payments itself")
    lab.mem(shop, "purge", ids["tabs are four wide"], "--force")
    (done,) = organisation.index(shop)
    assert (done["written"], done["removed"], done["memories"]) == (1, 3, 1)
    held = organisation.stored()
    assert not any(text in held for text in (DATABASE, TWICE, "tabs")) and "doubled" in held


def test_an_index_from_which_the_last_memory_went_has_no_answer(organisation: Organisation) -> None:
    texts = (f"invoices and orders share database {n}" for n in range(6))
    shop = organisation.repo("shop", *texts)
    organisation.index(shop)
    ids = [item["id"] for item in organisation.lab.json(shop, "list")]
    organisation.lab.mem(shop, "forget", *ids)
    organisation.index(shop)
    answer = organisation.recall("which database has the orders")
    assert (answer["verdict"], answer["searched"], answer["hits"]) == ("MISS", 0, [])


def test_a_run_writes_what_changed_since_the_last_one(organisation: Organisation) -> None:
    shop = organisation.repo("shop", DATABASE)
    organisation.index(shop)
    assert organisation.index(shop)[0]["status"] == "unchanged"
    organisation.lab.mem(shop, "remember", TWICE)
    (done,) = organisation.index(shop)
    assert (done["written"], done["removed"], done["memories"]) == (1, 0, 2)


def test_a_newer_git_mem_looks_at_all_texts_again(
    organisation: Organisation, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gitmem.cli import run
    from gitmem.organisation import index_update

    shop = organisation.repo("shop", DATABASE)
    organisation.index(shop)
    for name, value in organisation.lab.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(index_update, "__version__", "9")
    monkeypatch.setattr(index_update.redact, "check", lambda words: ["it is a secret now"])
    run(["index", "--to", organisation.url, str(shop)])
    assert DATABASE not in organisation.stored()


def test_a_broken_repository_stops_none_of_the_others(organisation: Organisation) -> None:
    lab, shop, pay = organisation.lab, organisation.repo("shop", DATABASE), organisation.repo("pay")
    (lab.root / "empty").mkdir()
    done = organisation.index(lab.root / "nowhere", lab.root / "empty", pay, shop, rc=1)
    assert [r["status"] for r in done] == ["failed", "failed", "failed", "indexed"]
    assert organisation.bodies("orders and invoices") == [DATABASE]


def test_a_clone_without_memories_empties_nothing(organisation: Organisation) -> None:
    lab, shop = organisation.lab, organisation.repo("shop", DATABASE)
    organisation.index(shop)
    bare = organisation.repo("other")
    lab.git(bare, "remote", "set-url", "origin", "ssh://git@git.example.org:22/shop")
    (done,) = organisation.index(bare, rc=1)
    assert "no team memories here" in done["error"]
    assert organisation.bodies("orders and invoices") == [DATABASE]


def test_a_run_that_is_broken_off_leaves_a_repository_as_it_was(organisation: Organisation) -> None:
    from gitmem.organisation.postgres import Row, opened

    organisation.index(organisation.repo("shop", DATABASE))

    def rows() -> Iterator[Row]:
        yield Row("f" * 32, b"x", "{}", ["word"], bytes(256))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), opened(organisation.url, "x") as index:
        index.meaning = "none"
        name = "git.example.org/shop"
        index.write(name, "0" * 40, "", rows(), [*index.digests(name)])
    assert organisation.bodies("orders and invoices") == [DATABASE]


def test_a_dry_run_writes_nothing(organisation: Organisation) -> None:
    shop = organisation.repo("shop", DATABASE)
    said = organisation.lab.mem(shop, "index", "--to", organisation.url, "--dry-run")
    assert "1 would be written" in said
    asked = [sys.executable, "-m", "gitmem", "recall", "--from", organisation.url, "database"]
    refused = organisation.lab.run(organisation.lab.root, *asked)
    assert refused.returncode == 1 and "no memories are indexed" in refused.stderr


def test_words_are_never_part_of_a_statement(organisation: Organisation) -> None:
    evil = "'); DROP SCHEMA git_mem_1 CASCADE; -- \\' \" %s \U0001f4a5 ' & | !x:* \\"
    lab, shop = organisation.lab, organisation.repo("shop", f"the shop says {evil}")
    lab.mem(shop, "index", "--to", organisation.url, "--name", evil)
    assert organisation.recall(f"what says the shop {evil}")["hits"][0]["repository"] == evil
    assert organisation.bodies(evil, "--type", evil, "--tag", evil, "--author", evil) == []
    assert organisation.bodies("what says the shop") == [f"the shop says {evil}"]


def test_filters_choose(organisation: Organisation) -> None:
    lab, shop = organisation.lab, organisation.repo("shop", TWICE)
    lab.mem(shop, "remember", DATABASE, "--type", "decision", "--tag", "db")
    organisation.index(shop)
    asked = "orders invoices customers pay twice"
    for type in ("decision", "Decision"):  # records have it in lower case
        assert organisation.bodies(asked, "--type", type) == [DATABASE]
    assert organisation.bodies(asked, "--tag", "db") == [DATABASE]
    assert len(organisation.bodies(asked, "--author", "ADA")) == 2
    assert organisation.bodies(asked, "--author", "grace") == []


def test_no_message_holds_a_password(organisation: Organisation, cluster: Cluster) -> None:
    lab = organisation.lab
    addresses = (
        cluster.url(password="geheim%2Bfalsch"),
        *(f"postgresql://git:geheim{c}geheim@127.0.0.1:1/x" for c in "/@?#:% "),
        "postgresql://git:x/geheim@/postgres?host=/nowhere",
        cluster.url().replace(str(cluster.place), "/nowhere"),
        f"postgresql://git@/postgres?host=/nowhere&password={QUOTED}",
        "postgresql://git:geheim und@[/postgres",
        f"host=/nowhere password={PASSWORD}",
    )
    for address in addresses:
        for asked in (["recall", "--from", address, "x"], ["index", "--to", address]):
            done = lab.run(lab.root, sys.executable, "-m", "gitmem", *asked)
            assert done.returncode in (1, 2) and done.stderr.startswith("error: ")
            assert "geheim" not in done.stderr + done.stdout


def test_a_database_of_another_encoding_is_refused(
    organisation: Organisation, cluster: Cluster
) -> None:
    for encoding in ("SQL_ASCII", "LATIN1"):
        url, lab = cluster.database(encoding), organisation.lab
        for asked in (["recall", "--from", url, "größe"], ["index", "--to", url]):
            done = lab.run(lab.root, sys.executable, "-m", "gitmem", *asked)
            assert done.returncode == 1 and f"encoding is {encoding}" in done.stderr


def test_the_encoding_of_a_client_changes_nothing(organisation: Organisation) -> None:
    lab = organisation.lab
    lab.env["PGCLIENTENCODING"] = "SQL_ASCII"
    organisation.index(organisation.repo("shop", "日本語 größe"))
    assert organisation.bodies("größe") == ["日本語 größe"]


def foreign(organisation: Organisation, repo: pathlib.Path, **fields: str) -> None:
    """Another memory in the team's notes, as another program may write it."""
    record = {**json.loads(organisation.lab.lines(repo)[0]), "id": "f0" * 16, **fields}
    (organisation.lab.root / "line").write_text(json.dumps(record) + "\n")
    note = ("notes", "--ref=mem/team", "append", "-F", str(organisation.lab.root / "line"), "HEAD")
    organisation.lab.git(repo, *note)


def test_of_a_text_with_more_words_than_a_row_holds_the_first_are_found(
    organisation: Organisation,
) -> None:
    shop = organisation.repo("shop", DATABASE)
    words = " ".join(f"Aa{n}Bb{n}.Cc{n}_dd{n}" for n in range(25_000))
    foreign(organisation, shop, body=f"the kangaroo counts {words}")
    assert organisation.index(shop)[0]["written"] == 2
    assert len(organisation.bodies("kangaroo counts")) == 1


def test_what_the_server_refuses_stops_no_other_repository(organisation: Organisation) -> None:
    shop, pay = organisation.repo("shop", DATABASE), organisation.repo("pay", TWICE)
    digits = "".join(map(str, range(4000)))
    foreign(organisation, shop, id=digits, body="an id that no index takes")
    done = organisation.index(shop, pay, rc=1)
    assert [r["status"] for r in done] == ["failed", "indexed"] and "index row" in done[0]["error"]
    assert organisation.bodies("customers pay twice") == [TWICE]


@pytest.mark.parametrize("remote", ["../hub.git", "hub.git"])
def test_two_repositories_with_one_relative_remote_are_two(
    organisation: Organisation, remote: str
) -> None:
    made = []
    for text in (DATABASE, TWICE):
        made.append(organisation.repo(f"{len(made)}/shop", text))
        organisation.lab.git(made[-1], "remote", "set-url", "origin", remote)
    done = organisation.index(*made)
    hubs = [os.path.normpath(shop / remote).removesuffix(".git") for shop in made]
    assert [r["repository"] for r in done] == hubs
    assert DATABASE in organisation.stored() and TWICE in organisation.stored()


def test_a_directory_whose_name_is_not_utf8_is_indexed(organisation: Organisation) -> None:
    shop = organisation.repo("shop", DATABASE)
    organisation.lab.git(shop, "remote", "remove", "origin")
    odd = shop.rename(shop.parent / os.fsdecode(b"sh\xffp"))
    done = organisation.lab.json(odd, "index", "--to", organisation.url)
    assert done["repositories"][0]["repository"].endswith("/sh\ufffdp")


def test_of_two_runs_at_once_none_leaves_what_the_other_wrote(
    organisation: Organisation, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gitmem.cli import run
    from gitmem.organisation.postgres import Index

    lab, shop = organisation.lab, organisation.repo("shop", DATABASE, TWICE)
    old = lab.root / "old"
    shutil.copytree(shop, old)
    lab.mem(shop, "forget", lab.json(shop, "recall", TWICE)["hits"][0]["id"])
    digests, others = Index.digests, []

    def slow(index: Index, name: str) -> dict[str, bytes]:
        known = digests(index, name)
        if not others:
            others.append(threading.Thread(target=organisation.index, args=(old,)))
            others[0].start()
            others[0].join(3)
        return known

    monkeypatch.setattr(Index, "digests", slow)
    for name, value in lab.env.items():
        monkeypatch.setenv(name, value)
    run(["index", "--to", organisation.url, str(shop)])
    others[0].join()
    monkeypatch.undo()
    organisation.index(shop)
    assert TWICE not in organisation.stored()


def test_an_answer_by_words_alone_says_so(organisation: Organisation) -> None:
    lab, shop = organisation.lab, organisation.repo("shop", DATABASE)
    said = lab.mem(shop, "index", "--to", organisation.url)
    answer = organisation.recall("orders and invoices")
    assert answer["degraded"] == ("pgvector" in said)
    assert answer["hits"] and ("pgvector" in answer["degraded_reason"]) == answer["degraded"]


def test_vectors_find_a_memory_without_a_word_of_the_question(with_vectors: Organisation) -> None:
    lab, shop = with_vectors.lab, with_vectors.repo("shop", DATABASE, TWICE, "tabs are four wide")
    asked = ("billing charged double", "--all-hits")

    def found() -> list[str]:
        answer = with_vectors.recall(*asked)
        assert not answer["degraded"] and answer["searched"] == 3 - gone
        return [hit["retrieval"] for hit in answer["hits"] if hit["body"] == TWICE]

    gone = 0
    with_vectors.index(shop)
    assert found() == ["vector"]
    assert with_vectors.bodies(*asked, "--type", "bugfix") == []
    lab.mem(shop, "forget", lab.json(shop, "recall", TWICE)["hits"][0]["id"])
    with_vectors.index(shop)
    gone = 1
    assert found() == []


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://ada:tok@git.example.org/org/shop.git", "git.example.org/org/shop"),
        ("ssh://git@git.example.org:2222/org/shop/", "git.example.org/org/shop"),
        ("git@git.example.org:org/shop.git", "git.example.org/org/shop"),
        ("/srv/git/shop.git", "/srv/git/shop"),
        ("../hub.git", "../hub"),
        ("file:///srv/git/shop.git", "/srv/git/shop"),
        ("https://ada:t[k@git.example.org/shop", "git.example.org/shop"),
    ],
)
def test_a_repository_has_one_name_however_it_is_reached(url: str, name: str) -> None:
    from gitmem.organisation.index_update import plain_name

    assert plain_name(url) == name


def test_without_psycopg_the_hint_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    from gitmem.cli import run

    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "gitmem.organisation.postgres", raising=False)
    monkeypatch.delattr("gitmem.organisation.postgres", raising=False)
    with pytest.raises(MemError) as refused:
        run(["recall", "--from", "postgresql:///x", "hello"])
    assert "psycopg" in refused.value.message
    assert "pip install 'psycopg[binary]" in refused.value.hint


@pytest.mark.parametrize("option", ["--all", "--hot", "--at=HEAD", "--only=history", "--path=x"])
def test_an_option_that_needs_a_clone_is_refused(option: str) -> None:
    from gitmem.cli import run

    with pytest.raises(UsageError, match=option.partition("=")[0]):
        run(["recall", "--from", "postgresql:///x", option, "hello"])


def test_options_of_the_organisations_index_need_it(lab: Lab, repo: pathlib.Path) -> None:
    done = lab.run(repo, sys.executable, "-m", "gitmem", "index", "--name", "x")
    assert done.returncode == 2 and "--to" in done.stderr
