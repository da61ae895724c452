"""`git mem capture`: judge turns of a file; nothing is stored by a dry run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import typer

from ..capture import stages
from ..core.errors import UsageError
from . import app
from .common import opened, print_error, read_stdin, write, write_json


@app.command("capture")
def capture_command(
    dry_run: bool = typer.Option(False, "--dry-run", help="Judge and print; store nothing."),
    jsonl: str = typer.Option("", "--jsonl", metavar="FILE", help="Turns, one JSON object a line: id, role, text; `-` reads standard input.", show_default=False),
    as_json: bool = typer.Option(False, "--json", help="One JSON object a line: id, keep, type, confidence, tier, stage."),
) -> int:
    """Judge what is worth remembering."""
    if not (dry_run and jsonl):
        raise UsageError("nothing to judge", hint="`git mem capture --dry-run --jsonl FILE` judges the turns of a file")
    with opened() as store:
        auto, suggest = store.settings.share("captureAuto"), store.settings.share("captureSuggest")
    bad = 0
    for number, turn in _turns(jsonl):
        if isinstance(turn, str):
            bad += 1
            print_error("error", f"line {number}: {turn}")
            continue
        said = stages.judge(turn["role"], turn["text"], auto=auto, suggest=suggest)
        if as_json:
            write_json({"id": turn["id"], "keep": said.keep, "type": said.type, "confidence": round(said.confidence, 4), "tier": said.tier, "stage": said.stage})
        else:
            write(f"{said.tier:7} {said.confidence:.2f} {said.type:10} {said.stage:6} {turn['id']}")
    return 1 if bad else 0


def _turns(source: str) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """(number of the line, the turn or what is wrong with it); empty lines are none."""
    if source == "-":
        lines = read_stdin().split("\n")
    else:
        try:
            with open(source, encoding="utf-8", errors="replace") as f:
                lines = f.read().split("\n")
        except OSError as e:
            raise UsageError(f"cannot read '{source}': {e.strerror}") from None
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield number, _turn(line)


def _turn(line: str) -> dict[str, Any] | str:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return "not JSON"
    if not isinstance(value, dict):
        return "not an object"
    id, role, text = value.get("id", ""), value.get("role", "user"), value.get("text")
    if not isinstance(text, str):
        return "'text' is not a text"
    if not isinstance(id, str | int) or not isinstance(role, str):
        return "'id' or 'role' is not a text"
    return {"id": id, "role": role, "text": text}
