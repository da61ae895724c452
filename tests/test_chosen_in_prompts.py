"""An embedding model that the user chose answers prompts, where a session keeps it loaded."""

from __future__ import annotations

import json
import pathlib

import pytest

pytest.importorskip(
    "llama_cpp", reason="llama-cpp-python is not installed: tools/fetch_llama.sh builds it"
)
pytest.importorskip("gguf", reason="the PyPI package `gguf` is not installed")

import gguf_encoder
import test_prefork
from conftest import Lab, until

from gitmem.embedding.encoder import Encoder
from gitmem.models import llama

pytestmark = pytest.mark.process

TEXTS = """
All timestamps are stored in UTC, the interface converts them
Orders and invoices share one PostgreSQL transaction
The parser is written by hand, no generator
Tests run in parallel with two workers
Uploads are tried three times before the user is asked
Logs rotate at ten megabytes
The build needs Python 3.11
Passwords are hashed with argon2id
Feature flags live in the settings table
The cache may be deleted at any time
Emails are sent by a queue, never in the request
The API returns cents, not euros
Sessions end after one hour without a click
The search index is rebuilt at night
Images are resized on the client
The nightly job copies the archive to another region
Downloads are signed for five minutes
Names of branches become names of previews
A lock file guards the migration
The installer writes nothing outside of the home directory
Webhooks are retried for a day
Translations are loaded when a page opens
The scheduler skips a run that is late
Metrics are sampled one in a hundred
""".strip().splitlines()
REWORDED = "in which time zone do we keep dates and hours in the database"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return gguf_encoder.write(tmp_path_factory.mktemp("model") / "encoder.gguf")


def test_the_file_is_the_packaged_encoder_and_a_text_of_any_length_is_read(
    model: pathlib.Path,
) -> None:
    vectors, encoder = llama.Vectors(str(model), 1), Encoder()
    for text in TEXTS[:3]:
        pairs = zip(vectors._unit(text), encoder.vector(text), strict=True)
        assert sum(x * y for x, y in pairs) == pytest.approx(1, abs=1e-3)
    assert len(vectors.embed(["longer than its 256 positions " * 400])[0]) == 384


def test_a_prompt_is_told_what_the_model_finds(lab: Lab, model: pathlib.Path) -> None:
    repo = lab.repo("repo", 1)
    lab.mem(repo, "init", "--offline")
    lab.git(repo, "config", "mem.promptContext", "true")
    lab.git(repo, "config", "mem.embedModel", str(model))
    lines = "".join(json.dumps({"body": text}) + "\n" for text in TEXTS)
    lab.mem(repo, "remember", "--jsonl", "-", stdin=lines)
    lab.mem(repo, "index", "--all")
    lab.env["GIT_MEM_PATIENCE"] = "50"
    asked = json.loads(test_prefork.prompt("one", repo)) | {"prompt": REWORDED}

    def told(session: str) -> str:
        text = json.dumps(asked | {"session_id": session})
        return lab.run(repo, "git-mem", "hook", "UserPromptSubmit", stdin=text).stdout

    assert told("alone") == "", "words and table do not find it, the encoder is off in tests"
    with test_prefork.served(lab, repo):
        number = iter(range(1000))
        until(lambda: TEXTS[0] in told(f"served {next(number)}"))
        asked["prompt"] = "go on"
        assert told("silent") == ""
        asked["prompt"] = REWORDED
        lab.git(repo, "config", "mem.embedModel", "none")
        assert told("changed") == "", "a model that the settings do not name is not asked"
