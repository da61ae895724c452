"""What a client wrote down of a conversation: its people's words and its model's, whatever else is
in the file.

`transcripts/claude-*.jsonl` were written by the releases in their names (subagents' lines added,
long values cut, paths replaced), `codex.jsonl` follows the documentation, `odd.jsonl` has what
tools, clients and crashes leave."""

from __future__ import annotations

import json
import os
import pathlib

import pytest

from gitmem.capture import transcript
from gitmem.capture.sources import source_of

HERE = pathlib.Path(__file__).parent / "transcripts"


def said(path: pathlib.Path) -> list[tuple[str, str]]:
    return [(c.role, c.text) for c in transcript.candidates(str(path))]


@pytest.mark.parametrize("version", ["2.1.197", "2.1.330"])
def test_a_conversation_is_its_prompts_and_answers(version: str) -> None:
    found = said(HERE / f"claude-{version}.jsonl")
    assert found[:5] == [
        ("user", "hello there"),
        ("assistant", "hi"),
        ("user", "write the file"),
        ("assistant", "Done: the retry lives in b.txt."),
        ("user", "task 4712"),
    ]


@pytest.mark.parametrize("version", ["2.1.197", "2.1.330"])
def test_what_a_subagent_was_told_and_said_is_nobodys_words(version: str) -> None:
    lines = (HERE / f"claude-{version}.jsonl").read_text()
    assert "look around 4711" in lines and '"isSidechain": true' in lines
    assert not any(
        "4711" in text or "task-notification" in text
        for _, text in said(HERE / f"claude-{version}.jsonl")
    )


def test_codex_writes_another_shape() -> None:
    assert said(HERE / "codex.jsonl") == [
        ("user", "Decision: use SQLite"),
        ("assistant", "SQLite it is."),
    ]


def test_meta_lines_results_injections_and_torn_lines_are_skipped() -> None:
    assert said(HERE / "odd.jsonl") == [
        ("user", "Decision: keep the cache"),
        ("assistant", "First part.\n\nSecond part."),
        ("user", "what a prompt says"),
        ("user", "with a picture"),
        ("user", "last words"),
    ]


def test_a_private_part_is_in_no_candidate() -> None:
    assert not any("4711" in text for _, text in said(HERE / "odd.jsonl"))


def test_a_turn_has_the_name_that_the_hook_gives_it() -> None:
    (first, *_) = transcript.candidates(str(HERE / "odd.jsonl"), ("s1", "claude", "ab" * 20, ""))
    assert (first.source, first.session, first.agent, first.commit) == (
        source_of("s1", "user", "Decision: keep the cache"),
        "s1",
        "claude",
        "ab" * 20,
    )


def test_no_file_a_link_a_directory_and_a_pipe_give_nothing(tmp_path: pathlib.Path) -> None:
    (tmp_path / "link.jsonl").symlink_to(HERE / "odd.jsonl")
    os.mkfifo(tmp_path / "pipe.jsonl")
    for name in ("none.jsonl", "link.jsonl", "pipe.jsonl", ".", "nul\0.jsonl"):
        assert transcript.candidates(os.path.join(tmp_path, name)) == []


def test_of_a_long_file_the_end_is_read(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcript, "MOST", 2000)
    path = tmp_path / "long.jsonl"
    path.write_text(
        "".join(
            f'{{"type":"user","message":{{"role":"user","content":"turn {i:04}"}}}}\n'
            for i in range(200)
        )
    )
    found = said(path)
    assert 10 < len(found) < 40 and found[-1] == ("user", "turn 0199")


def test_deep_and_binary_lines_are_skipped(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "deep.jsonl"
    path.write_bytes(
        b"[" * 100_000
        + b"\n\xff\xfe\x00\n"
        + b'{"type":"user","message":{"role":"user","content":"after it"}}\n'
    )
    assert said(path) == [("user", "after it")]


def test_a_turn_whose_directory_is_none_is_left_out_where_that_counts(
    tmp_path: pathlib.Path,
) -> None:
    path = tmp_path / "odd.jsonl"
    places = [str(tmp_path), str(tmp_path / "gone"), "/", "a", "", "/\0", "/\ud800"]
    message = {"role": "user", "content": "words"}
    lines = [json.dumps({"type": "user", "cwd": at, "message": message}) for at in places]
    path.write_text("\n".join(lines))
    assert len(transcript.candidates(str(path), trees=[str(tmp_path)])) == 2
    assert len(transcript.candidates(str(path))) == len(places)
