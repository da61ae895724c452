"""A chosen model that cannot be used: doctor, `model list` and `capture` say so, and why."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import gguf_tiny
import pytest
from conftest import Lab
from test_classify import LONG

from gitmem.capture import worker_tasks
from gitmem.models import chosen, llamaproc, promptform, registry
from gitmem.store import open_store

TURN = json.dumps({"id": "a", "role": "user", "text": LONG})
ANSWERS = f"""import sys, json
for line in sys.stdin:
    print(json.dumps({{"labels": dict.fromkeys({list(promptform.LABELS)!r}, 0.1)}}), flush=True)
"""


class Place:
    """A repository whose `mem.model` names a file. `there`: whether llama.cpp seems installed."""

    def __init__(self, lab: Lab, there: bool) -> None:
        self.lab = lab
        self.repo = lab.repo()
        self.file = lab.root / "own.gguf"
        lab.mem(self.repo, "init")
        lab.git(self.repo, "config", "mem.model", str(self.file))
        self.llama = "importlib.machinery.ModuleSpec('llama_cpp', None)" if there else None

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        code = (
            "import importlib.machinery, runpy, sys, types; llama = types.ModuleType('llama_cpp');"
            f" llama.__spec__ = {self.llama}; sys.modules['llama_cpp'] = llama if llama.__spec__"
            " else None; runpy.run_module('gitmem', run_name='__main__')"
        )
        done = self.lab.run(self.repo, sys.executable, "-c", code, *argv, stdin=TURN)
        assert "Traceback" not in done.stderr
        return done

    def row(self) -> dict[str, object]:
        found = json.loads(self.run("model", "list", "--json").stdout)
        row = next(r for r in found["models"] if r["name"] == str(self.file))
        assert row["used"] and row["size"] == self.file.stat().st_size
        assert found["problems"] == ([row["problem"]] if row["problem"] else [])
        return dict(row)

    def dry(self) -> tuple[dict[str, object], str]:
        done = self.run("capture", "--dry-run", "--jsonl", "-", "--json")
        (line,) = done.stdout.splitlines()
        return json.loads(line), done.stderr

    def said_everywhere(self, what: str) -> None:
        """By the three commands; by each once."""
        turn, warned = self.dry()
        assert turn["degraded"] is True and turn["stage"] == "linear"
        assert warned.count(what) == 1, warned
        assert what in str(self.row()["problem"])
        listed = self.run("model", "list")
        assert listed.stderr.count(what) == 1
        assert any(
            line.startswith(str(self.file)) and " fails " in line
            for line in listed.stdout.splitlines()
        )
        doctor = self.run("doctor").stdout
        assert doctor.count(what) == 1 and "mem.model: " in doctor, doctor
        now = self.run("capture", "--now", "--json")
        told = json.loads(now.stdout)
        assert told["degraded"] is True and what in told["degraded_reason"] and what in now.stderr


def test_a_truncated_model_is_named_once_it_was_asked(lab: Lab) -> None:
    place = Place(lab, there=True)
    gguf_tiny.write(place.file)
    os.truncate(place.file, place.file.stat().st_size // 2)
    assert place.row()["problem"] is None, "nobody has asked it yet"
    place.said_everywhere("gave no answer when it was asked last")


def test_a_model_without_llama_cpp_is_named(lab: Lab) -> None:
    place = Place(lab, there=False)
    place.file.write_bytes(b"GGUF\3\0\0\0")
    place.said_everywhere("is here, but not llama.cpp")


def test_a_file_that_is_no_model_is_named(lab: Lab) -> None:
    place = Place(lab, there=True)
    place.file.write_bytes(b"<html>")
    assert "is no GGUF file" in place.run("capture", "--dry-run", "--jsonl", "-").stderr
    doctor = place.run("doctor").stdout
    assert doctor.count("is no GGUF file") == 1
    found = json.loads(place.run("model", "list", "--json").stdout)
    (row,) = [r for r in found["models"] if r["problem"]]
    assert row["name"] == str(place.file) and row["path"] is None and row["used"]


def test_without_a_chosen_model_nothing_is_said(lab: Lab) -> None:
    place = Place(lab, there=False)
    lab.git(place.repo, "config", "mem.model", "none")
    turn, warned = place.dry()
    assert "degraded" not in turn and "warning" not in warned
    found = json.loads(place.run("model", "list", "--json").stdout)
    assert found["problems"] == [] and not any(r["problem"] for r in found["models"])
    told = json.loads(place.run("capture", "--now", "--json").stdout)
    assert (told["degraded"], told["degraded_reason"]) == (False, "")


def test_what_a_failed_process_said_is_kept_until_one_answers(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(lab, there=True)
    place.file.write_bytes(b"GGUF\3\0\0\0")
    monkeypatch.setattr(llamaproc, "available", lambda: True)

    def ask(code: str) -> str:
        monkeypatch.setattr(llamaproc, "command", lambda *_: [sys.executable, "-c", code])
        with worker_tasks.Model(store, lab.env) as model:
            assert model.problem == "" and model.ask is not None
            model.ask("user", LONG)
            return model.problem

    def kept() -> str:
        setting = store.settings["model"]
        return chosen.choice(registry.LANGUAGE, setting, lab.env, store.repo.mem_dir).problem

    monkeypatch.chdir(place.repo)
    store = open_store(lab.env, warn=lambda line: None)
    try:
        assert "status 3" in ask("raise SystemExit(3)") and "status 3" in kept()
        assert (pathlib.Path(store.repo.mem_dir) / chosen.FAILED).stat().st_mode & 0o777 == 0o600
        assert ask(ANSWERS) == "" and kept() == ""
        assert not os.path.exists(os.path.join(store.repo.mem_dir, chosen.FAILED))
        assert "no room" in ask('print(\'{"error": "no\\\\n room"}\')') and "no room" in kept()
        place.file.write_bytes(b"GGUF\3\0\0\0 another")
        assert kept() == "", "another file is not judged by the failure of the last"
        (pathlib.Path(store.repo.mem_dir) / chosen.FAILED).write_text("[1")
        assert kept() == ""
    finally:
        store.close()


def test_a_model_that_is_not_asked_leaves_the_last_failure(lab: Lab) -> None:
    place = Place(lab, there=True)
    place.file.write_bytes(b"GGUF\3\0\0\0")
    assert place.dry()[0]["degraded"] is True
    before = place.row()["problem"]
    assert before and "asked last" in str(before)
    assert place.run("capture", "--now").returncode == 0
    assert place.row()["problem"] == before
