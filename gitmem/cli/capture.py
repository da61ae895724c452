"""`git mem capture`: judges turns of a file, or works off what hooks left for the worker.
Of a file nothing is stored.
"""

import os
from typing import Any

from .. import worker
from ..capture import calibrate, classify, pipeline, suggestions, worker_tasks
from ..core import redact
from ..core.errors import MemError, UsageError
from ..engine.cache import Cache
from ..hooks import spool, worker_log
from ..models import chosen, registry
from ..store import Store
from .common import json_lines, opened, refused, values, warn
from .options import Answer, command, flag, text


@command("capture")
def capture_command(
    now: bool = flag("--now", "Work off what hooks left and new commits; wait for the end."),
    dry_run: bool = flag("--dry-run", "With --jsonl: judge its turns; store nothing."),
    jsonl: str = text("--jsonl FILE", "Turns, an object a line: id, role, text (`-`: stdin)."),
    as_json: bool = flag("--json", "An object a line: id, keep, type, confidence, tier, stage."),
) -> Answer | int:
    """Judge what is worth remembering."""
    if now and (dry_run or jsonl):
        raise UsageError("--now and --dry-run exclude each other")
    if now:
        with opened() as store:
            return _now(store)
    if not (dry_run and jsonl):
        raise UsageError(
            "nothing to judge",
            hint="`git mem capture --dry-run --jsonl FILE` judges the turns of a file, `git mem"
            " capture --now` works off what hooks have left",
        )
    with opened() as store, worker_tasks.Model(store, os.environ) as model:
        return _judge(store, jsonl, model, as_json)


def _judge(store: Store, jsonl: str, asked: worker_tasks.Model, as_json: bool) -> int:
    auto, suggest = pipeline.thresholds(store)
    model = calibrate.model(store)
    bad = 0
    for number, value in json_lines(jsonl):
        if why := _wrong(value):
            bad += 1
            refused(f"line {number}: {why}")
            continue
        assert isinstance(value, dict)
        id, role, text = value.get("id", ""), value.get("role", "user"), value["text"]
        said = classify.judge(role, text, ask=asked.ask, auto=auto, suggest=suggest, model=model)
        if said.keep and redact.check({"body": text}):  # a secret is not kept
            said = said._replace(tier=classify.SKIP, stage="rules")
        facts = {"id": id, **values(said, "keep", "type", "tier")}
        facts.update(confidence=round(said.confidence, 4), stage=said.stage)
        line = f"{said.tier:7} {said.confidence:.2f} {said.type:10} {said.stage:6} {id}"
        degraded = {"degraded": True} if asked.problem else {}
        Answer({**facts, **degraded}, [line]).print(as_json)
    if asked.problem:
        warn(f"warning: {asked.problem}; rules alone judged")
    return 1 if bad else 0


def _now(store: Store) -> Answer:
    """Waits for a worker that is at it, then does its work here; says what came of both."""
    mem_dir = store.repo.mem_dir
    before = store.with_cache(_captured)[0]
    log = worker_log.lines(mem_dir)
    if os.path.isdir(mem_dir):
        worker.run(store.repo.common_dir, os.environ, linger=0.0, wait=worker.LIMIT)
    after = store.with_cache(_captured)[0]
    kept, suggested = (sorted(new - old) for new, old in zip(after, before, strict=True))
    failed = [line.split(" ", 1)[-1] for line in _added(log, worker_log.lines(mem_dir))]
    if not failed and spool.unfinished(mem_dir):
        raise MemError(
            "not all could be worked off: a worker is still at it, or nothing can be written",
            hint="`git mem capture --now` tries it again",
        )
    for line in failed:
        waits = "" if "given up" in line else " (what it was about waits for the next run)"
        refused(f"{line}{waits}")
    model = chosen.choice(registry.LANGUAGE, store.settings["model"], os.environ, mem_dir)
    if model.problem:
        warn(f"warning: {model.problem}; rules alone judge")
    facts = {
        "kept": kept,
        "suggested": suggested,
        "capture": store.settings["capture"],
        "failed": failed,
        "degraded": bool(model.problem),
        "degraded_reason": model.problem,
    }
    review = "; `git mem review` shows them" if suggested else ""
    lines = [f"{len(kept)} kept in private notes, {len(suggested)} suggested{review}"]
    if store.settings["capture"] == "false":
        lines.append("mem.capture is off; `git mem config capture commits` or `all` turns it on")
    return Answer(facts, lines, 1 if failed else 0)


def _added(before: list[str], log: list[str]) -> list[str]:
    """The lines that a log got meanwhile: the same failure may come twice in one second, and a log
    that grew too long begins anew.
    """
    return log[len(before) :] if log[: len(before)] == before else log


def _captured(cache: Cache) -> tuple[set[str], set[str]]:
    kept = cache.db.execute(
        "SELECT m.id FROM label l JOIN memory m ON m.row = l.row WHERE l.kind = 'tag' AND"
        " l.value = ?",
        (pipeline.TAG,),
    )
    return {id for (id,) in kept}, set(suggestions.stored(cache))


def _wrong(turn: dict[str, Any] | str) -> str:
    """What is wrong with a turn; "" where nothing is."""
    if isinstance(turn, str):
        return turn
    if not isinstance(turn.get("text"), str):
        return "'text' is not a text"
    sound = isinstance(turn.get("id", ""), str | int) and isinstance(turn.get("role", ""), str)
    return "" if sound else "'id' or 'role' is not a text"
