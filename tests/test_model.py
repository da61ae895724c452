"""`git mem model`: what there is, what is here, what is in use; nothing is downloaded but by
`fetch`.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import re
from collections.abc import Iterator

import pytest
from conftest import Lab, alive
from test_model_fetch import DATA, SUM, Server, half, send, whole

from gitmem.core.errors import MemError
from gitmem.models import chosen, llamaproc, promptform, registry


@pytest.fixture
def hub() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def place(lab: Lab) -> pathlib.Path:
    lab.env["GIT_MEM_MODEL_DIR"] = str(lab.root / "models")
    return lab.root / "models"


def gguf(path: pathlib.Path, more: bytes = b"") -> pathlib.Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"GGUF\3\0\0\0" + more)
    return path


def test_the_registry_states_no_guess() -> None:
    assert len({m.name for m in registry.MODELS}) == len(registry.MODELS)
    for m in registry.MODELS:
        assert m.url().startswith("https://") and m.url().endswith(".gguf") and m.licence
        assert re.fullmatch("[0-9a-f]{64}", m.sha256) and m.size
        assert re.fullmatch("[0-9a-f]{40}", m.revision), "a revision that cannot change"
    default = registry.find(registry.DEFAULT)
    assert default is not None and default.kind == registry.LANGUAGE and default.sha256


def test_list_names_size_licence_revision_and_checksum(lab: Lab, place: pathlib.Path) -> None:
    found = lab.json(lab.repo(), "model", "list")
    rows = {m["name"]: m for m in found["models"]}
    assert {
        "qwen3-0.6b",
        "qwen3-1.7b",
        "qwen3-4b",
        "qwen2.5-coder-0.5b",
        "qwen3-embedding-0.6b",
        "all-minilm-l6-v2",
    } == set(rows)
    assert (
        rows["qwen3-0.6b"]["licence"] == "Apache-2.0"
        and rows["qwen3-0.6b"]["size"] == 639446688
        and len(rows["qwen3-0.6b"]["sha256"]) == 64
    )
    assert not any(m["path"] for m in rows.values())
    assert not place.exists(), "looking creates nothing"


def test_list_works_outside_of_a_repository(lab: Lab, place: pathlib.Path) -> None:
    assert "qwen3-0.6b" in lab.mem(lab.root, "model", "list")


def test_fetch_downloads_verifies_and_lists(lab: Lab, place: pathlib.Path, hub: Server) -> None:
    url = hub.url + "/some/tiny.gguf"
    said = lab.run(lab.root, "git-mem", "model", "fetch", url, "--sha256", SUM)
    assert said.returncode == 0, said.stderr
    assert "checksum right" in said.stdout
    assert (place / f"tiny-{SUM[:16]}.gguf").read_bytes() == DATA
    assert lab.json(lab.root, "model", "fetch", url, "--sha256", SUM)["fetched"] is False
    assert len(hub.seen) == 1
    assert lab.json(lab.root, "model", "path", "tiny")["path"] == str(
        place / f"tiny-{SUM[:16]}.gguf"
    )


def test_fetch_goes_on_after_a_break(lab: Lab, place: pathlib.Path, hub: Server) -> None:
    hub.behave = half
    failed = lab.run(lab.root, "git-mem", "model", "fetch", hub.url + "/t.gguf", "--sha256", SUM)
    assert (
        failed.returncode == 1
        and "broke off" in failed.stderr
        and "goes on where it ended" in failed.stderr
    )
    hub.behave = whole
    lab.mem(lab.root, "model", "fetch", hub.url + "/t.gguf", "--sha256", SUM)
    assert hub.seen[-1][1] == "bytes=1500000-"


def test_a_named_model_comes_from_the_mirror_and_must_have_its_checksum(
    lab: Lab, place: pathlib.Path, hub: Server
) -> None:
    hub.behave = lambda h: send(h, 200, b"GGUF" + bytes(25_008_060))
    failed = lab.run(
        lab.root,
        "git-mem",
        "model",
        "fetch",
        "all-minilm-l6-v2",
        env={"GIT_MEM_MODEL_HUB": hub.url},
    )
    assert (
        failed.returncode == 1
        and "has the SHA-256" in failed.stderr
        and "Traceback" not in failed.stderr
    )
    assert (
        hub.seen[0][0]
        == "/second-state/All-MiniLM-L6-v2-Embedding-GGUF/resolve/544f204f2eaa2d71361ffc74d6df7170285b286a/all-MiniLM-L6-v2-Q8_0.gguf"  # noqa: E501
    )
    assert not list(place.glob("*.gguf*"))


def test_without_a_known_checksum_nothing_is_fetched(
    lab: Lab, place: pathlib.Path, hub: Server
) -> None:
    failed = lab.run(lab.root, "git-mem", "model", "fetch", hub.url + "/x.gguf")
    assert failed.returncode == 1 and hub.seen == []
    assert "knows no checksum" in failed.stderr and "--sha256" in failed.stderr


def test_a_page_instead_of_a_model_is_removed(lab: Lab, place: pathlib.Path, hub: Server) -> None:
    page = b"<html>sign in</html>"
    hub.behave = lambda h: send(h, 200, page)
    failed = lab.run(
        lab.root,
        "git-mem",
        "model",
        "fetch",
        hub.url + "/x.gguf",
        "--sha256",
        hashlib.sha256(page).hexdigest(),
    )
    assert failed.returncode == 1 and "no GGUF file" in failed.stderr
    assert not list(place.glob("*.gguf*"))


@pytest.mark.parametrize(
    "words",
    [
        ("fetch", "nothing-like-this"),
        ("fetch", "qwen3-0.6b", "--sha256", "12"),
        ("fetch", "qwen3-0.6b", "--sha256", "0" * 64),
    ],
)
def test_wrong_words_are_refused(lab: Lab, place: pathlib.Path, words: tuple[str, ...]) -> None:
    assert lab.run(lab.root, "git-mem", "model", *words).returncode == 2


def test_an_added_file_stays_where_it_is_and_is_not_deleted(lab: Lab, place: pathlib.Path) -> None:
    mine = gguf(lab.root / "mine" / "Own.gguf")
    added = lab.json(lab.root, "model", "add", str(mine))
    assert (
        added["name"] == "own"
        and added["path"] == str(mine)
        and added["sha256"] == hashlib.sha256(mine.read_bytes()).hexdigest()
    )
    assert lab.json(lab.root, "model", "remove", "own")["deleted"] is False
    assert mine.exists()
    assert lab.run(lab.root, "git-mem", "model", "path", "own").returncode == 1


def test_a_fetched_file_is_deleted_with_its_name(
    lab: Lab, place: pathlib.Path, hub: Server
) -> None:
    lab.mem(lab.root, "model", "fetch", hub.url + "/t.gguf", "--sha256", SUM)
    assert lab.json(lab.root, "model", "remove", "t")["deleted"] is True
    assert not list(place.glob("*.gguf*"))


def test_no_model_takes_the_place_of_another(lab: Lab, place: pathlib.Path, hub: Server) -> None:
    other, page = b"GGUF another", b"<html>sign in</html>"
    sums = {data: hashlib.sha256(data).hexdigest() for data in (other, page)}
    lab.mem(lab.root, "model", "fetch", hub.url + "/a/m.gguf", "--sha256", SUM)
    mine = pathlib.Path(lab.json(lab.root, "model", "path", "m")["path"])
    hub.behave = lambda h: send(h, 200, other)
    taken = lab.run(
        lab.root, "git-mem", "model", "fetch", hub.url + "/b/m.gguf", "--sha256", sums[other]
    )
    assert (
        taken.returncode == 1
        and "'m' is the name of another file" in taken.stderr
        and "--name" in taken.stderr
    )
    lab.mem(
        lab.root,
        "model",
        "fetch",
        hub.url + "/b/m.gguf",
        "--sha256",
        sums[other],
        "--name",
        "other",
    )
    theirs = pathlib.Path(lab.json(lab.root, "model", "path", "other")["path"])
    hub.behave = lambda h: send(h, 200, page)
    assert (
        lab.run(
            lab.root,
            "git-mem",
            "model",
            "fetch",
            hub.url + "/c/m.gguf",
            "--sha256",
            sums[page],
            "--name",
            "third",
        ).returncode
        == 1
    )
    assert mine.read_bytes() == DATA and theirs.read_bytes() == other
    lab.mem(lab.root, "model", "remove", "m")
    assert not mine.exists() and theirs.read_bytes() == other


def test_a_file_with_two_names_goes_with_the_last(
    lab: Lab, place: pathlib.Path, hub: Server
) -> None:
    for name in ("one", "two"):
        lab.mem(lab.root, "model", "fetch", hub.url + "/m.gguf", "--sha256", SUM, "--name", name)
    (file,) = place.glob("*.gguf")
    assert len(hub.seen) == 1
    assert lab.json(lab.root, "model", "remove", "one")["deleted"] is False and file.exists()
    assert lab.json(lab.root, "model", "remove", "two")["deleted"] is True and not file.exists()


def test_an_added_file_does_not_take_the_name_of_a_fetched_one(
    lab: Lab, place: pathlib.Path, hub: Server
) -> None:
    lab.mem(lab.root, "model", "fetch", hub.url + "/t.gguf", "--sha256", SUM)
    failed = lab.run(lab.root, "git-mem", "model", "add", str(gguf(lab.root / "mine" / "t.gguf")))
    assert failed.returncode == 1 and "is the name of another file" in failed.stderr
    assert lab.json(lab.root, "model", "path", "t")["path"].startswith(str(place))


@pytest.mark.parametrize(
    "url",
    [
        "https://[x/a.gguf",
        "https://h:99999/a.gguf",
        "https://h:x/a.gguf",
        "https://ü.example/a.gguf",
        "https://",
        "https:///a.gguf",
        "ssh://h/a.gguf",
    ],
)
def test_what_is_no_address_is_told(lab: Lab, place: pathlib.Path, url: str) -> None:
    failed = lab.run(lab.root, "git-mem", "model", "fetch", url, "--sha256", SUM)
    assert (
        failed.returncode == 1
        and "cannot fetch" in failed.stderr
        and "bug" not in failed.stderr
        and not place.exists()
    )


@pytest.mark.parametrize(
    "path",
    ["/..", "/", "", "/a/ü.gguf", "/a b.gguf", "/" + "x" * 300 + ".gguf", "/.gguf?x=/../y#/z"],
)
def test_any_path_makes_a_file_in_the_directory(
    lab: Lab, place: pathlib.Path, hub: Server, path: str
) -> None:
    said = lab.json(lab.root, "model", "fetch", hub.url + path, "--sha256", SUM)
    assert pathlib.Path(said["path"]).parent == place and [
        f.read_bytes() for f in place.glob("*.gguf")
    ] == [DATA]


def test_what_is_no_model_is_not_added(lab: Lab, place: pathlib.Path) -> None:
    (lab.root / "text.gguf").write_text("hello")
    for name, words in (("text.gguf", "no GGUF file"), ("gone.gguf", "no file"), (".", "no file")):
        failed = lab.run(lab.root, "git-mem", "model", "add", name)
        assert failed.returncode == 1 and words in failed.stderr
    failed = lab.run(
        lab.root, "git-mem", "model", "add", str(gguf(lab.root / "a.gguf")), "--name", "qwen3-0.6b"
    )
    assert failed.returncode == 1 and "not the file that is known as" in failed.stderr


def test_use_is_a_setting_of_git_and_path_follows_it(lab: Lab, place: pathlib.Path) -> None:
    repo = lab.repo()
    mine, other = gguf(lab.root / "mine.gguf"), gguf(lab.root / "other.gguf", b"2")
    lab.mem(repo, "model", "add", str(mine))
    assert lab.run(repo, "git-mem", "model", "path").returncode == 1
    lab.mem(repo, "model", "use", "mine")
    assert lab.git(repo, "config", "mem.model").strip() == "mine"
    assert lab.mem(repo, "model", "path").strip() == str(mine)
    assert next(m for m in lab.json(repo, "model", "list")["models"] if m["name"] == "mine")["used"]
    assert lab.mem(repo, "model", "path", env={"GIT_MEM_MODEL": str(other)}).strip() == str(other)
    assert lab.run(repo, "git-mem", "model", "path", env={"GIT_MEM_MODEL": "none"}).returncode == 1
    lab.mem(repo, "model", "use", str(other), "--embed")
    assert lab.mem(repo, "model", "path", "--embed").strip() == str(other)
    assert lab.mem(
        repo, "model", "path", "--embed", env={"GIT_MEM_EMBED_MODEL": str(mine)}
    ).strip() == str(mine)
    lab.mem(repo, "model", "use", "default")
    assert lab.run(repo, "git", "config", "mem.model").returncode == 1
    failed = lab.run(lab.root, "git-mem", "model", "use", "none")
    assert failed.returncode == 128 and "--global" in failed.stderr
    lab.mem(lab.root, "model", "use", "mine", "--global")
    assert lab.mem(lab.root, "model", "path").strip() == str(mine)


def test_use_of_what_is_not_here_is_refused(lab: Lab, place: pathlib.Path) -> None:
    repo = lab.repo()
    failed = lab.run(repo, "git-mem", "model", "use", "qwen3-1.7b")
    assert failed.returncode == 1 and "model fetch qwen3-1.7b" in failed.stderr
    assert lab.run(repo, "git-mem", "model", "use", "no/such.gguf").returncode == 1
    assert lab.run(repo, "git", "config", "mem.model").returncode == 1


def test_a_changed_or_vanished_file_is_not_used(tmp_path: pathlib.Path) -> None:
    mine = gguf(tmp_path / "m.gguf")
    environ = {"GIT_MEM_MODEL_DIR": str(tmp_path / "models"), "HOME": str(tmp_path)}
    chosen.add(chosen.directory(environ), str(mine), "", "", "")
    assert chosen.choice(registry.LANGUAGE, "m", environ).path == str(mine)
    gguf(mine, b"other")
    assert "has changed" in chosen.choice(registry.LANGUAGE, "m", environ).problem
    mine.unlink()
    assert "not there" in chosen.choice(registry.LANGUAGE, "m", environ).problem
    assert "was not fetched" in chosen.choice(registry.LANGUAGE, "qwen3-4b", environ).problem
    assert "not there" in chosen.choice(registry.LANGUAGE, str(mine), environ).problem
    for kind in (registry.LANGUAGE, registry.EMBEDDING):
        assert chosen.choice(kind, "", environ) == chosen.Choice("", "", "", ""), (
            "without a choice there is no model and no complaint"
        )


def test_a_damaged_list_counts_as_empty_and_is_written_anew(tmp_path: pathlib.Path) -> None:
    for text in ("{", "[]", '{"a": 1}', '{"a": {"path": "x"}}'):
        (tmp_path / "models.json").write_text(text)
        assert chosen.installed(str(tmp_path)) == {}
    chosen.add(str(tmp_path), str(gguf(tmp_path / "m.gguf")), "", "", "")
    assert [*chosen.installed(str(tmp_path))] == ["m"]


def test_a_checksum_that_was_asked_for_must_hold(tmp_path: pathlib.Path) -> None:
    with pytest.raises(MemError, match="not " + "0" * 64):
        chosen.add(str(tmp_path), str(gguf(tmp_path / "m.gguf")), "", "", "0" * 64)
    assert chosen.installed(str(tmp_path)) == {}


# --- the prompt ------------------------------------------------------------------


def test_labels_are_the_types_and_skip_and_the_tool_lists_them() -> None:
    assert promptform.TOOL["function"]["parameters"]["properties"]["type"]["enum"] == list(
        promptform.LABELS
    )
    assert promptform.SKIP in promptform.LABELS
    assert all(label in promptform.SYSTEM for label in promptform.LABELS)


def test_every_example_is_a_call_that_parses() -> None:
    for _, text, label in promptform.EXAMPLES:
        call = promptform.call(label, text)
        inner = json.loads(call.removeprefix("<tool_call>\n").removesuffix("\n</tool_call>"))
        assert inner["name"] == "create_memory" and inner["arguments"]["type"] == label
    assert (
        json.loads(promptform.call("decision", 'say "no" to \\ and\nmore').split("\n")[1])[
            "arguments"
        ]["title"]
        == "say 'no' to  and more"
    )


def test_a_long_turn_keeps_its_beginning_and_its_end() -> None:
    text = "begin " + "x" * 100_000 + " end"
    short = promptform.shortened(text)
    assert len(short) < promptform.MOST + 20 and short.startswith("begin") and short.endswith("end")
    assert promptform.shortened("short") == "short"


# --- the process -----------------------------------------------------------------

PYTHON = __import__("sys").executable


def child(code: str) -> llamaproc.Child:
    return llamaproc.Child([PYTHON, "-c", code])


def test_a_hanging_model_is_killed_at_its_deadline() -> None:
    hung = child("import sys, time\nsys.stdin.readline()\ntime.sleep(600)")
    hung._start()
    pid = hung.process.pid  # type: ignore[union-attr]
    assert hung.call({"op": "about"}, 0.2) is None
    assert not alive(pid) and hung.reason == "no answer in time"


def test_a_model_that_reads_nothing_is_killed_too() -> None:
    deaf = child("import time\ntime.sleep(600)")
    deaf._start()
    pid = deaf.process.pid  # type: ignore[union-attr]
    assert deaf.call({"op": "labels", "text": "x" * 5_000_000}, 0.3) is None
    assert not alive(pid)


@pytest.mark.parametrize(
    "code",
    [
        "import os; os.abort()",
        "import sys; sys.exit(3)",
        "raise SystemExit",
        "print('no json', flush=True); input()",
        "print('[1]', flush=True); input()",
        'print(\'{"error": "no such file"}\', flush=True); input()',
        "import sys\nwhile True: sys.stdout.write('x' * 65536)",
    ],
)
def test_a_crash_or_nonsense_is_no_answer_and_stops_after_two(code: str) -> None:
    broken = child(code)
    for _ in range(2):
        assert broken.call({"op": "about"}, 20, 20) is None
        assert broken.process is None
    broken.argv = ["/nonexistent"]
    assert broken.call({"op": "about"}, 20) is None
    assert broken.failures == 2, "a model that failed twice in a row is not started again"


ECHO = (
    f"LABELS = {list(promptform.LABELS)!r}"
    + """
import json, sys
for n, line in enumerate(sys.stdin):
    r = json.loads(line)
    if r.get("text") == "crash": sys.exit(1)
    print(json.dumps({"labels": dict.fromkeys(LABELS, 1 / 7)}), flush=True)
"""
)


def test_a_crash_costs_one_event_and_the_next_is_answered() -> None:
    with llamaproc.Asker("", argv=[PYTHON, "-c", ECHO]) as asker:
        assert asker.ask("user", "one") == dict.fromkeys(promptform.LABELS, 1 / 7)
        assert asker.ask("user", "crash") is None
        assert "status 1" in asker.reason
        types = dict.fromkeys(promptform.TYPES, 1 / 6)
        assert asker.opinion("user", "two") == (1 - 1 / 7, "decision", types)
        pid = asker.process.pid  # type: ignore[union-attr]
    assert not alive(pid)


def test_after_its_time_nothing_is_asked() -> None:
    with llamaproc.Asker("", argv=["/nonexistent"], until=0.0) as asker:
        assert asker.ask("user", "one") is None
        assert asker.failures == 0


def test_an_answer_with_other_labels_is_none() -> None:
    code = (
        "import json, sys\nfor line in sys.stdin: print(json.dumps({'labels': {'skip': 1.0}}),"
        " flush=True)"
    )
    with llamaproc.Asker("", argv=[PYTHON, "-c", code]) as asker:
        assert asker.ask("user", "one") is None


def test_the_process_ends_with_its_pipe(tmp_path: pathlib.Path) -> None:
    """Also without llama-cpp-python: the process says so and ends."""
    asker = llamaproc.Asker(str(gguf(tmp_path / "broken.gguf")), str(tmp_path / "cache"))
    assert asker.ask("user", "one") is None
    assert asker.reason
    assert asker.process is None
