"""`git mem mcp`, asked by the protocol's own client."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
import verdict
from conftest import Lab
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

TEXT = "Use PostgreSQL, not MongoDB: orders and invoices share a transaction"
QUESTION = "which database do orders and invoices use"
KEY = "AKIA" + "QZ7T2M4X6B8N0V3C"


@pytest.fixture
def repo(lab: Lab) -> pathlib.Path:
    return lab.repo("repo", 2)


def talk(lab: Lab, repo: pathlib.Path, ask: Callable[[ClientSession], Awaitable[None]]) -> Any:
    """Runs `ask` in one session with a server of this repository; what it told at the start."""
    program = StdioServerParameters(command="git-mem", args=["mcp"], env=lab.env, cwd=repo)
    said: list[Any] = []

    async def session() -> None:
        with open(os.devnull, "w") as quiet:
            async with stdio_client(program, quiet) as streams, ClientSession(*streams) as client:
                said.append(await client.initialize())
                await ask(client)

    anyio.run(session)
    return said[0]


async def call(client: ClientSession, tool: str, **given: Any) -> str:
    done = await client.call_tool(tool, given)
    assert not done.is_error, done.content
    (part,) = done.content
    return str(part.text)


async def refused(client: ClientSession, tool: str, **given: Any) -> str:
    done = await client.call_tool(tool, given)
    assert done.is_error
    return str(done.content[0].text)


def test_an_agent_keeps_finds_shows_and_hides(lab: Lab, repo: pathlib.Path) -> None:
    async def ask(client: ClientSession) -> None:
        said = await call(client, "remember", text=TEXT, type="decision", paths=["db/"])
        assert said.startswith("stored ") and TEXT in said
        id = said.split()[1]
        found = await call(client, "recall", query=QUESTION, paths=[""])
        assert found.startswith("HIT: 1 among 1 memory\n" + id) and "db/" in found
        assert TEXT in await call(client, "show", ids=[id])
        assert json.loads(await call(client, "status"))["memories"] == 1
        assert await call(client, "forget", ids=[id], reason="a test") == f"forgot {id}"
        assert (await call(client, "recall", query=QUESTION)).startswith("MISS")

    talk(lab, repo, ask)
    (forgotten,) = lab.json(repo, "list", "--forgotten")
    assert forgotten["forgotten"]["reason"] == "a test"


def processes(parent: int | str) -> dict[str, bytes]:
    """{child: its command line}."""
    proc = pathlib.Path("/proc")
    found = (proc / f"{parent}/task/{parent}/children").read_text().split()
    return {pid: (proc / pid / "cmdline").read_bytes() for pid in found}


def served_by() -> list[str]:
    """Beside the server that runs now: what answers prompts, and what reads questions."""
    (server,) = [pid for pid, line in processes(os.getpid()).items() if b"\0mcp\0" in line]
    found = [pid for pid, line in processes(server).items() if b"\0mcp\0" in line]
    assert len(found) == 2
    return found


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="no /proc here")
def test_the_process_that_reads_questions_may_die_and_ends_with_the_session(
    lab: Lab, repo: pathlib.Path
) -> None:
    del lab.env["GIT_MEM_ENCODER"]
    lab.mem(repo, "remember", TEXT)
    question = "where do customers' purchases and bills live"  # no word in common
    beside: list[str] = []

    async def ask(client: ClientSession) -> None:
        found = await call(client, "recall", query=question)
        assert found == await call(client, "recall", query=question)
        beside.extend(served_by())

    async def ask_and_kill(client: ClientSession) -> None:
        found = await call(client, "recall", query=question)
        for pid in served_by():
            os.kill(int(pid), signal.SIGKILL)
        for _ in range(2):
            assert await call(client, "recall", query=question) == found

    talk(lab, repo, ask_and_kill)
    talk(lab, repo, ask)
    assert not any(os.path.exists(f"/proc/{pid}/exe") for pid in beside)


def test_what_others_write_meanwhile_is_found(lab: Lab, repo: pathlib.Path) -> None:
    async def ask(client: ClientSession) -> None:
        assert (await call(client, "recall", query=QUESTION)).startswith("MISS")
        lab.mem(repo, "remember", TEXT)
        assert (await call(client, "recall", query=QUESTION)).startswith("HIT")
        lab.git(repo, "checkout", "-q", "--orphan", "elsewhere")
        lab.git(repo, "commit", "-q", "-m", "another beginning")
        found = await call(client, "recall", query=QUESTION)
        assert "unmerged" in found

    talk(lab, repo, ask)


def test_a_branch_without_the_directory_it_was_started_in_ends_nothing(
    lab: Lab, repo: pathlib.Path
) -> None:
    """git refuses to run where the working directory is gone, also after it came back."""
    (repo / "part").mkdir()
    (repo / "part" / "db.py").touch()
    lab.git(repo, "add", "part")
    lab.git(repo, "commit", "-q", "-m", "A part")

    async def ask(client: ClientSession) -> None:
        for n, branch in enumerate(("HEAD~1", "main")):
            lab.git(repo, "checkout", "-q", branch)
            said = await call(client, "remember", text=f"{TEXT}, {n}", paths=["db.py"])
            assert said.startswith("stored ")
            assert "part/db.py" in await call(client, "recall", query=QUESTION, paths=["db.py"])

    talk(lab, repo / "part", ask)


def test_an_answer_says_that_the_filter_is_why_there_is_none(lab: Lab, repo: pathlib.Path) -> None:
    """ "MISS: nothing among 0 memories" reads as if nothing were known here."""

    async def ask(client: ClientSession) -> None:
        for all_there_is in ({}, {"only": "memories"}):
            found = await call(client, "recall", query=QUESTION, **all_there_is)
            assert "no memories here yet" in found
        await call(client, "remember", text=TEXT, type="decision")
        for narrowed in ({"types": ["bug"]}, {"paths": ["no/such.py"]}):
            found = await call(client, "recall", query=QUESTION, **narrowed)
            assert found == "MISS: nothing passes this filter"
        found = await call(client, "recall", query=QUESTION, types=[""], paths=[""])
        assert found.startswith("HIT: 1 among 1 memory")

    talk(lab, repo, ask)


def test_what_is_refused_says_why_and_stores_nothing(lab: Lab, repo: pathlib.Path) -> None:
    async def ask(client: ClientSession) -> None:
        said = await refused(client, "remember", text=f"the key is {KEY}")
        assert "secret" in said and "--" not in said
        assert KEY not in await refused(client, "remember", text=f"the key is {KEY}")
        said = await refused(client, "remember", text=TEXT, scope="private")
        # It was stored for the team.
        assert "no argument 'scope'; remember takes text, type, title, tags, paths, private" in said
        said = await refused(client, "recall", query=QUESTION, tags=["db"])
        assert "no argument 'tags'; recall takes query, types, paths, limit, only" in said
        assert "no argument 'all'; status takes none" in await refused(client, "status", all=True)
        assert "no memory id" in await refused(client, "show", ids=["zzz"])
        assert await refused(client, "show", ids=[]) and await refused(client, "forget", ids=[])
        assert await refused(client, "recall", query=" ")
        with pytest.raises(Exception, match="nothing to look for"):
            await client.get_prompt("recall", {"question": " "})
        assert await refused(client, "recall", query="a", limit=1000)

    talk(lab, repo, ask)
    assert lab.json(repo, "list") == []


@pytest.mark.parametrize(
    "added",
    [
        {"wait_for_previous": True},
        {"toolCallId": "call_0B", "sessionId": "8d1", "action": "sendMessage", "chatInput": "why"},
        {"task_progress": "- [ ] ask"},
    ],
    ids=["gemini", "n8n", "cline"],
)
def test_what_a_client_adds_to_the_arguments_of_every_tool_is_no_reason_to_refuse(
    lab: Lab, repo: pathlib.Path, added: dict[str, Any]
) -> None:
    async def ask(client: ClientSession) -> None:
        said = await call(client, "remember", text=TEXT, **added)
        assert said.startswith("stored ")
        found = await call(client, "recall", query=QUESTION, **added)
        assert found.startswith("HIT: 1 among 1 memory")
        assert await call(client, "status", **added)

    talk(lab, repo, ask)


def test_what_was_hidden_before_a_refusal_is_named(lab: Lab, repo: pathlib.Path) -> None:
    ids = [lab.json(repo, "remember", f"fact {n}")["id"][:8] for n in range(3)]

    async def ask(client: ClientSession) -> None:
        said = await refused(client, "forget", ids=[ids[0], "ffffffff", ids[1]])
        assert f"forgot {ids[0]}, but not the others: no memory 'ffffffff'" in said
        assert "forgot nothing: no memory" in await refused(client, "forget", ids=["ffffffff"])
        with pytest.raises(Exception, match="no memory 'ffffffff'"):
            await client.read_resource("git-mem://memory/ffffffff")

    talk(lab, repo, ask)
    assert {item["id"][:8] for item in lab.json(repo, "list")} == set(ids[1:])


def test_an_answer_is_bounded_and_quoted(lab: Lab, repo: pathlib.Path) -> None:
    lines = "".join(
        json.dumps({"body": f"lesson {n} \x1b[31m\u202e " + "word " * 1000}) + "\n"
        for n in range(30)
    )
    lab.mem(repo, "remember", "--jsonl", "-", stdin=lines)
    ids = [item["id"] for item in lab.json(repo, "list")]

    async def ask(client: ClientSession) -> None:
        found = await call(client, "recall", query="which lesson about a word", limit=20)
        assert len(found) < 16_200 and found.count("\n") <= 20
        whole = await call(client, "show", ids=ids[:20])
        assert len(whole) < 16_200 and "more characters" in whole
        said = await call(client, "remember", text="lesson \x1b[31m\u202e")
        assert not {"\x1b", "\u202e"} & set(whole + found + said)

    talk(lab, repo, ask)


def test_what_a_client_is_told_of_the_server_is_short(lab: Lab, repo: pathlib.Path) -> None:
    tools: list[Any] = []

    async def ask(client: ClientSession) -> None:
        tools.extend((await client.list_tools()).tools)
        (template,) = (await client.list_resource_templates()).resource_templates
        id = (await call(client, "remember", text=TEXT)).split()[1]
        read = await client.read_resource(template.uri_template.replace("{id}", id))
        assert TEXT in read.contents[0].text
        assert {p.name for p in (await client.list_prompts()).prompts} == {"recall", "keep"}
        asked = await client.get_prompt("recall", {"question": "which database"})
        assert TEXT in asked.messages[0].content.text
        asked = await client.get_prompt("recall", {"question": "which"})
        assert "MISS" not in asked.messages[0].content.text

    started = talk(lab, repo, ask)
    assert "recall" in started.instructions and len(started.instructions) < 700
    named = {tool.name: tool for tool in tools}
    assert set(named) == {"recall", "show", "remember", "forget", "status"}
    assert named["recall"].annotations.read_only_hint
    assert named["forget"].annotations.destructive_hint
    assert not any(tool.input_schema["additionalProperties"] for tool in tools)
    whole = "".join(tool.model_dump_json(exclude_none=True) for tool in tools)
    assert len(whole) < 4_500, len(whole)


def test_without_a_repository_it_says_so(lab: Lab) -> None:
    done = lab.run(lab.root, "git-mem", "mcp")
    assert done.returncode == 128 and "not a git repository" in done.stderr


@pytest.mark.process
def test_without_the_package_it_says_what_to_install(lab: Lab, repo: pathlib.Path) -> None:
    program = "import sys; sys.modules['mcp'] = None; from gitmem.__main__ import main; sys.argv = ['git-mem', 'mcp']; sys.exit(main())"  # noqa: E501
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=repo, env=lab.env, capture_output=True, text=True
    )
    assert done.returncode == 1 and f"{sys.executable} -m pip install 'mcp" in done.stderr


@pytest.mark.process
@pytest.mark.parametrize("how", ["Ctrl-C", "the client has closed its end"])
def test_it_ends_with_no_word(lab: Lab, repo: pathlib.Path, how: str) -> None:
    """Ctrl-C waited for the next line of stdin, a closed pipe was called a bug."""
    pipes: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(
        [sys.executable, "-m", "gitmem", "mcp"], cwd=repo, env=lab.env, bufsize=0, **pipes
    ) as server:
        about = {"name": "test", "version": "1"}
        given = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about}
        asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": given}
        line = json.dumps(asked).encode() + b"\n"
        server.stdin.write(line)
        assert b"git-mem" in server.stdout.readline()
        if how == "Ctrl-C":
            server.send_signal(signal.SIGINT)
            assert server.wait(60) == -signal.SIGINT
        else:
            server.stdout.close()
            server.stdin.write(line)
            server.stdin.close()
            assert server.wait(60) == 0
        assert server.stderr.read() == b""


def test_the_protocol_s_inspector_reads_tools_and_answers(lab: Lab, repo: pathlib.Path) -> None:
    inspector = verdict.CACHE / "inspector-1.0.3"
    if not shutil.which("node"):
        pytest.skip("no node here")
    if not inspector.is_dir():
        pytest.skip("no inspector: tools/fetch_clients.sh brings it")
    lab.mem(repo, "remember", TEXT)
    (lab.root / "package.json").touch()  # it looks for its own beside the working directory
    program = inspector / "node_modules/@modelcontextprotocol/inspector-cli/build/cli.js"
    argv = ["node", str(program), "--cli", "git-mem", "mcp", "--method"]
    asked = [
        ["tools/list"],
        ["tools/call", "--tool-name", "recall", "--tool-arg", f"query={QUESTION}"],
    ]
    runs = [
        subprocess.run([*argv, *words], cwd=repo, env=lab.env, capture_output=True, timeout=120)
        for words in asked
    ]
    tools, answer = (json.loads(run.stdout) for run in runs)
    assert {t["name"] for t in tools["tools"]} >= {"recall", "show", "remember", "forget", "status"}
    assert all(t["annotations"] and t["inputSchema"] for t in tools["tools"])
    assert answer["content"][0]["text"].startswith("HIT: 1 among 1 memory\n")
