"""`git mem ui`: what the page holds, that no memory is markup in it, and who its server answers."""

from __future__ import annotations

import http.client
import json
import os
import pathlib
import re
import socket
import stat
import struct
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from conftest import Lab
from review_world import Place

from gitmem.core.errors import MemError
from gitmem.memory import memories
from gitmem.ui import page, page_data, page_server

EVIL = "Close it </script><script>alert(1)</script> <!-- <b>&amp; {{js}}"


@pytest.fixture
def place(lab: Lab) -> Place:
    return Place(lab)


def data_of(html: str) -> dict[str, Any]:
    """The value that stands in a page."""
    text = html.partition('id="data">')[2].partition("</script>")[0]
    found: dict[str, Any] = json.loads(text)
    return found


def gathered(place: Place, scope: str = "") -> dict[str, Any]:
    with closing(place.store()) as store:
        return page_data.gather(store, scope)


def test_the_page_holds_each_memory_with_its_commit_paths_and_history(place: Place) -> None:
    mem, repo = place.lab.mem, place.repo
    first = place.lab.json(
        repo, "remember", "Times are UTC", "--type", "decision", "--path", "f0.txt"
    )
    mem(repo, "edit", first["id"], "-m", "Times are stored as UTC")
    old = place.lab.json(repo, "remember", "Rounded per line")
    mem(repo, "supersede", old["id"], "-m", "Rounded per invoice")
    gone = place.lab.json(repo, "remember", "Say nothing of this")
    mem(repo, "forget", gone["id"])
    (repo / "f0.txt").write_text("other\n")
    place.lab.git(repo, "commit", "-qam", "Other text")
    found = gathered(place)
    by_body = {m["body"]: m for m in found["memories"]}
    assert set(by_body) == {"Times are stored as UTC", "Rounded per line", "Rounded per invoice"}
    edited = by_body["Times are stored as UTC"]
    assert [(h["op"], h["body"]) for h in edited["history"]] == [
        ("create", "Times are UTC"),
        ("edit", "Times are stored as UTC"),
    ]
    assert edited["paths"][0] == {"path": "f0.txt", "state": "changed"}
    assert found["commits"][edited["anchor"]["commit"]]["subject"] == "commit 0"
    assert by_body["Rounded per line"]["status"] == "superseded"
    assert "history" not in by_body["Rounded per invoice"]
    assert found["branch"] == "main" and found["repository"] == "repo"


def test_a_page_is_made_where_a_teammates_commit_is_not_here(place: Place) -> None:
    lab, repo = place.lab, place.repo
    lab.git(repo, "clone", "-q", ".", "../ada")
    ada = repo.parent / "ada"
    lab.git(ada, "commit", "-q", "--allow-empty", "-m", "not pushed")
    lab.mem(ada, "remember", "Known before its commit is")
    lab.git(repo, "fetch", "-q", "../ada", "refs/notes/mem/team:refs/notes/mem/team")
    found = gathered(place)
    (memory,) = found["memories"]
    assert memory["anchor"]["reason"] == "its commit is not here"
    assert [facts["subject"] for facts in found["commits"].values()] == ["commit 0"]


def test_the_page_says_what_became_of_suggestions_by_their_confidence(place: Place) -> None:
    sure = place.one("Rounded per line", confidence=0.93)
    place.lab.mem(place.repo, "review", "--accept", sure)
    for text, stated in (("Rounded down", 0.91), ("Rounded up", 0.55)):
        doubtful = place.one(text, confidence=stated)
        place.lab.mem(place.repo, "review", "--reject", doubtful)
    place.one("Not decided yet", confidence=0.75)
    assert list(gathered(place)["feedback"]["decided"].items()) == [
        ("90 to 100 %", {"accepted": 1, "rejected": 1}),
        ("50 to 69 %", {"accepted": 0, "rejected": 1}),
    ]
    assert "feedback" not in gathered(place, "team")


def test_a_page_of_the_team_says_nothing_of_private_notes(place: Place) -> None:
    mem, repo = place.lab.mem, place.repo
    shared = place.lab.json(repo, "remember", "Known to all")
    mem(repo, "remember", "Only mine", "--private")
    with closing(place.store()) as store:
        better = {"body": "Better, and only mine"}
        memories.supersede(store, shared["id"], better, scope="private")
    place.one("Only suggested")
    found = gathered(place, "team")
    assert [m["body"] for m in found["memories"]] == ["Known to all"]
    assert not re.search("nly mine|Only suggested", json.dumps(found))
    assert "superseded_by" not in found["memories"][0]
    private = gathered(place, "private")["memories"]
    assert {m["scope"] for m in private} == {"private"} and len(private) == 2


def test_a_page_of_one_scope_says_what_a_branch_put_in_the_place_of_a_memory(place: Place) -> None:
    lab, repo = place.lab, place.repo
    old = lab.json(repo, "remember", "The export runs at six")["id"]
    lab.git(repo, "checkout", "-q", "-b", "topic")
    lab.git(repo, "commit", "-q", "--allow-empty", "-m", "two")
    new = lab.json(repo, "supersede", old, "The export runs at nine")["id"]
    lab.git(repo, "checkout", "-q", "-")
    shown = {m["id"]: m for m in gathered(place, "team")["memories"]}
    assert shown[old]["superseded_by"] == [new]
    assert shown[old]["superseded_on"]["branch"] == "topic"


def test_hidden_characters_are_shown_as_marks(place: Place) -> None:
    place.lab.mem(place.repo, "remember", "Reads \u202eback\u202c and \u200bforth")
    (found,) = gathered(place)["memories"]
    assert found["body"] == "Reads <U+202E>back<U+202C> and <U+200B>forth"


def test_a_library_that_is_missing_leaves_out_the_communities_alone(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in ("Invoices are rounded per line", "Invoices are rounded per order"):
        place.lab.mem(place.repo, "remember", text, "--path", "f0.txt")
    monkeypatch.setitem(sys.modules, "scipy", None)  # networkx alone is common
    found = gathered(place)
    assert len(found["memories"]) == 2 and "communities" not in found


@pytest.mark.quick
def test_no_text_of_a_memory_can_close_its_script_element() -> None:
    value = {"memories": [{"id": "a", "title": EVIL, "body": "</SCRIPT ><!--\u2028\ud800"}]}
    html = page.joined(value).html
    assert data_of(html) == value
    assert len(re.findall("<script", html)) == 2 and len(re.findall("</script", html)) == 2
    assert "<!--" not in html and "alert(1)</script>" not in html


@pytest.mark.quick
def test_the_page_fetches_nothing_and_its_policy_allows_its_own_parts_only() -> None:
    made = page.joined({})
    said = made.html.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|@import|@font-face|url\(|\bsrc=|innerHTML|eval\(", said)
    assert made.policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in made.policy and "connect-src 'none'" in made.policy
    assert f'content="{made.policy}"' in made.html
    assert "connect-src 'self'" in page.joined({"served": True}).policy
    assert page.joined({"a": 1}).policy == made.policy  # the data are no part of it


def test_the_file_is_for_its_owner_alone_and_says_how_many(place: Place) -> None:
    lab, repo = place.lab, place.repo
    lab.mem(repo, "remember", EVIL)
    file = lab.root / "page.html"
    file.write_text("older")
    os.chmod(file, 0o644)
    assert lab.json(repo, "ui", "--output", str(file)) == {"file": str(file), "memories": 1}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert data_of(file.read_text())["memories"][0]["body"] == EVIL
    argv = (sys.executable, "-m", "gitmem", "ui", "--output", "-")
    env = {**lab.env, "PYTHONIOENCODING": "latin-1"}
    printed = subprocess.run(argv, cwd=repo, env=env, capture_output=True, check=True).stdout
    assert data_of(printed.decode())["memories"][0]["body"] == EVIL and not (repo / "-").exists()
    done = lab.run(repo, sys.executable, "-m", "gitmem", "ui", "--scope", "mine")
    assert done.returncode == 2 and "team or private" in done.stderr


def test_the_address_is_json_where_that_is_asked_for(place: Place) -> None:
    argv = [sys.executable, "-m", "gitmem", "ui", "--json", "--no-browser"]
    server = subprocess.Popen(
        argv, cwd=place.repo, env=place.lab.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert server.stdout
        said = json.loads(server.stdout.readline())
        assert said.keys() == {"url"} and said["url"].startswith("http://127.0.0.1:")
    finally:
        server.kill()
        server.communicate()


def test_another_branch_is_shown_also_where_it_lacks_the_directory_of_the_start(
    place: Place,
) -> None:
    lab, repo = place.lab, place.repo
    (repo / "part").mkdir()
    (repo / "part" / "file").touch()
    lab.git(repo, "add", "part")
    lab.git(repo, "commit", "-q", "-m", "A part")
    argv = [sys.executable, "-m", "gitmem", "ui", "--no-browser"]
    server = subprocess.Popen(argv, cwd=repo / "part", env=lab.env, stdout=subprocess.PIPE)
    try:
        assert server.stdout
        url = server.stdout.readline().decode().strip()
        for branch, *start in (["main"], ["same"], ["older", "HEAD~1"]):
            if branch != "main":
                lab.git(repo, "checkout", "-q", "-b", branch, *start)
            with urllib.request.urlopen(url, timeout=20) as answer:
                assert data_of(answer.read().decode())["branch"] == branch
    finally:
        server.kill()
        server.communicate()


def test_a_browser_that_is_waited_for_gets_the_page(place: Place) -> None:
    script = "import sys, urllib.request as u; print(len(u.urlopen(sys.argv[1], timeout=9).read()))"
    browser = place.lab.root / "browser"
    browser.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{script}' \"$1\" 2>&1\n")
    browser.chmod(0o755)
    argv = [sys.executable, "-m", "gitmem", "ui"]
    env = {**place.lab.env, "BROWSER": str(browser)}
    server = subprocess.Popen(argv, cwd=place.repo, env=env, stdout=subprocess.PIPE)
    try:
        assert server.stdout
        assert server.stdout.readline().startswith(b"http://")
        assert int(server.stdout.readline()) > 10_000
    finally:
        server.kill()
        server.communicate()


# --- the server ---


class Served:
    def __init__(self) -> None:
        self.decided: list[tuple[str, str, str, bool]] = []
        self.fails = ""
        self.server = page_server.Server(self._page, self._decide)
        threading.Thread(target=self._serve, daemon=True).start()

    def _page(self) -> page.Page:
        if self.fails:
            raise MemError(self.fails)
        return page.joined({"served": True})

    def _decide(self, id: str, verb: str, keep: str, team: bool) -> dict[str, Any]:
        self.decided.append((id, verb, keep, team))
        return {"status": verb}

    def _serve(self) -> None:
        try:
            self.server.serve()
        except (OSError, ValueError):
            pass  # closed

    def ask(
        self, method: str, path: str, body: str | None = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(
            page_server.HOST, self.server.server_port, timeout=20
        )
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        with closing(connection):
            connection.request(method, path, body, named)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    yield made
    made.server.server_close()


@pytest.mark.quick
def test_the_page_comes_with_strict_headers(served: Served) -> None:
    status, headers, body = served.ask("GET", served.server.path)
    assert status == 200 and b"git mem" in body
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'") and "frame-ancestors 'none'" in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    assert not [name for name in headers if name.startswith("Access-Control")]
    assert served.server.server_address[0] == "127.0.0.1"


@pytest.mark.quick
def test_a_page_that_cannot_be_made_says_why_and_is_made_at_the_next_load(served: Served) -> None:
    served.fails = "git log failed: é in '\udcff'"  # a directory's name need not be UTF-8
    status, headers, body = served.ask("GET", served.server.path)
    assert (status, body.decode()) == (503, "git log failed: é in '?'")
    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    served.fails = ""
    assert served.ask("GET", served.server.path)[0] == 200


@pytest.mark.quick
@pytest.mark.parametrize(
    ("path", "host"),
    [
        ("/", ""),
        ("/favicon.ico", ""),
        ("TOKENx", ""),
        ("TOKEN", "evil.example"),
        ("TOKEN", "localhost"),
    ],
)
def test_who_has_no_token_or_names_another_host_gets_nothing(
    served: Served, path: str, host: str
) -> None:
    named = {"Host": f"{host}:{served.server.server_port}"} if host else {}
    status, _, body = served.ask("GET", path.replace("TOKEN", served.server.path), **named)
    assert (status, body) == (404, b"")


@pytest.mark.quick
def test_only_the_page_itself_can_decide(served: Served) -> None:
    url, own = f"{served.server.path}review", f"http://{served.server.host}"
    body, kind = json.dumps({"id": "abcd", "verb": "accept"}), "application/json"
    for path, headers, given, expected in (
        (url, {"Content_Type": kind}, body, 403),
        (url, {"Content_Type": kind, "Origin": "http://evil.example"}, body, 403),
        (url, {"Content_Type": "text/plain", "Origin": own}, body, 403),
        (url, {"Content_Type": kind, "Origin": own}, "no json", 400),
        (url, {"Content_Type": kind, "Origin": own}, '{"id": "abcd", "verb": "purge"}', 400),
        (url, {"Content_Type": kind, "Origin": own}, "x" * 20_000, 400),
        (url, {"Content_Type": kind, "Origin": own}, "[1, 2]", 400),
        (
            url,
            {"Content_Type": kind, "Origin": own},
            '{"id": "a", "verb": "accept", "keep": null}',
            400,
        ),
        ("/review", {"Content_Type": kind, "Origin": own}, body, 404),
    ):
        assert served.ask("POST", path, given, **headers)[0] == expected
    for length in ("9" * 5000, "\xb2", "-1", "1e3"):
        headers = {"Content_Type": kind, "Origin": own, "Content_Length": length}
        assert served.ask("POST", url, "", **headers)[0] == 400
    assert served.decided == []
    status, _, said = served.ask("POST", url, body, Content_Type=kind, Origin=own)
    assert (status, json.loads(said)) == (200, {"status": "accept"})
    body = json.dumps({"id": "abcd", "verb": "accept", "keep": "ef", "team": True})
    served.ask("POST", url, body, Content_Type=kind, Origin=own)
    assert served.decided == [("abcd", "accept", "", False), ("abcd", "accept", "ef", True)]


@pytest.mark.quick
def test_a_connection_that_sends_nothing_holds_nobody_up(served: Served) -> None:
    with closing(http.client.HTTPConnection(page_server.HOST, served.server.server_port)) as silent:
        silent.connect()
        assert served.ask("GET", served.server.path)[0] == 200


@pytest.mark.quick
def test_connections_that_break_off_or_are_many_end_nothing(served: Served) -> None:
    address = page_server.HOST, served.server.server_port
    url = served.server.path
    for said in ("", "GET /", f"GET {url} HTTP/1.1\r\nHost: {served.server.host}\r\n\r\n"):
        with socket.create_connection(address) as gone:
            gone.sendall(said.encode())
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert served.ask("GET", url)[0] == 200
    with ExitStack() as silent:
        first = silent.enter_context(socket.create_connection(address, timeout=20))
        for _ in range(page_server._IDLE + 1):
            silent.enter_context(socket.create_connection(address))
        assert served.ask("GET", url)[0] == 200
        assert first.recv(1) == b""  # the oldest had to go


@pytest.mark.quick
def test_the_program_writes_no_html_and_fits_on_a_few_screens() -> None:
    for source in (pathlib.Path(page.__file__).parent.parent / "data" / "ui").iterdir():
        text = source.read_text(encoding="utf-8")
        writes = r"innerHTML|outerHTML|insertAdjacent|document\.write|new Function"
        assert not re.search(writes, text), source.name
        assert max(map(len, text.splitlines())) <= 100 and text.count("\n") <= 400, source.name
