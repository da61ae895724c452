"""The command that goes through what capture suggests. On a terminal it asks, one suggestion at a time; else it lists, or does what its options say."""

from __future__ import annotations

import os
import sys
from typing import Any

import typer

from .. import render
from ..capture import review, suggestions
from ..capture.review import Outcome
from ..capture.suggestions import WAITING, Suggestion
from ..core.errors import MemError, UsageError
from ..memory import memories
from ..store import Store
from . import app
from .common import from_editor, opened, refused, write, write_json

_KEYS = [("a", "accept"), ("t", "accept for the team"), ("e", "edit"), ("r", "reject"), ("m", "merge"), ("s", "skip"), ("q", "quit")]


@app.command("review")
def review_command(
    listing: bool = typer.Option(False, "--list", help="List what waits, also on a terminal."),
    accept: list[str] = typer.Option([], "--accept", metavar="ID", help="Make a memory of this suggestion; may be repeated."),
    reject: list[str] = typer.Option([], "--reject", metavar="ID", help="Not worth keeping: its text is not proposed again; may be repeated."),
    edit: str = typer.Option("", "--edit", metavar="ID", help="Accept it with another text (-m, or the editor), --title or --type."),
    merge: tuple[str, str] = typer.Option(("", ""), "--merge", metavar="ID INTO", help="Add it to the memory INTO, or give INTO the text of -m."),
    message: list[str] = typer.Option([], "-m", "--message", help="The text for --edit or --merge; several become paragraphs."),
    title: str = typer.Option("", "--title", help="Title of the memory that --edit makes."),
    type: str = typer.Option("", "--type", help="Type of the memory that --edit makes."),
    team: bool = typer.Option(False, "--team", help="Store what is accepted in the shared notes; let --merge change a memory of the team."),
    everything: bool = typer.Option(False, "--all", help="Also what waits in the queue, beyond each session's share (`mem.suggestions`)."),
    decided: bool = typer.Option(False, "--decided", help="List also what was decided already."),
    allow_secret: bool = typer.Option(False, "--allow-secret", help="Store it although it looks like it holds a secret."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> int:
    """Decide about what capture found and was not sure of. Exit code 1 where nothing waits, or something was refused.

    What is accepted becomes a private memory, unless --team is given. Decisions are what `git mem calibrate` learns from.
    """
    wanted = bool(accept or reject or edit or merge[0])
    if (message or title or type) and not (edit or merge[0]):
        raise UsageError("-m, --title and --type say what --edit or --merge stores", hint="name the suggestion: --edit ID -m TEXT")
    if edit and merge[0]:
        raise UsageError("--edit and --merge both take the text of -m", hint="do one after the other")
    asks = not (wanted or listing or decided or as_json) and bool(sys.stdin and sys.stdin.isatty() and sys.stdout.isatty())
    with opened() as store:
        if not wanted:
            return _ask(store, everything) if asks else _list(store, everything, decided, as_json)
        scope = "team" if team else "private"
        text = "\n\n".join(message)
        jobs: list[tuple[str, Any]] = [(id, lambda s: review.accept(store, s, scope=scope, allow_secret=allow_secret)) for id in accept]
        if edit:
            jobs.append((edit, lambda s: review.accept(store, s, _changes(s, text, title, type), scope=scope, allow_secret=allow_secret)))
        if merge[0]:
            jobs.append((merge[0], lambda s: review.merge(store, s, merge[1], text, team=team, allow_secret=allow_secret)))
        jobs += [(id, lambda s: review.reject(store, [s])[0]) for id in reject]
        return _do(store, jobs, as_json)


def _changes(suggestion: Suggestion, text: str, title: str, type: str) -> dict[str, Any]:
    given = {"body": text, "title": title, "type": type}
    if not any(given.values()):
        if not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()):
            raise UsageError("--edit changes nothing", hint="give the text with -m, --title or --type")
        given["body"] = from_editor(suggestion.body)
        if not given["body"].strip():
            raise MemError("the text is empty, so nothing was stored")
    return {k: v for k, v in given.items() if v}


def _do(store: Store, jobs: list[tuple[str, Any]], as_json: bool) -> int:
    """Does one job after the other; one that is refused stops none."""
    status = 0
    answers = []
    for id, job in jobs:
        try:
            done: Outcome = job(review.find(store, id))
        except UsageError:
            raise
        except MemError as e:
            status = 1
            answers.append({"id": id, "status": "refused", "memory": None, "scope": None, "title": None, "reason": e.message})
            refused(e.message, e.hint)
            continue
        answers.append({"id": done.suggestion.id, "status": done.status, "memory": done.suggestion.memory or None, "scope": done.scope or None, "title": done.title, "reason": ""})
        if not as_json:
            _say(done)
    if as_json:
        write_json(answers)
    return status


def _say(done: Outcome) -> None:
    memory = done.suggestion.memory[:8]
    if done.status == suggestions.REJECTED:
        write(f"rejected {done.suggestion.id[:8]}: it is not proposed again")
    elif done.status == suggestions.MERGED:
        write(f"merged into {memory} [{done.scope}] {done.title}")
    elif done.known:
        write(f"known as {memory}")
    else:
        instead = f", in the place of {done.replaced[0][:8]}" if done.replaced else ""
        write(f"remembered {memory} [{done.scope}] {done.title}{instead}")


def _list(store: Store, everything: bool, decided: bool, as_json: bool) -> int:
    found = suggestions.waiting(store)
    shown = [s for s in found if everything or decided or not s.queued]
    if decided:
        shown += sorted((s for s in store.with_cache(suggestions.stored)[0].values() if s.state != WAITING), key=lambda s: s.text("at"), reverse=True)
    if as_json:
        write_json([review.public(s, review.near(store, s) if s.state == WAITING else []) for s in shown])
    else:
        render.suggestions([review.public(s) for s in shown], 0 if everything or decided else len(found) - len(shown))
        if not found and not decided:
            write("nothing waits for a decision")
    return 0 if shown else 1


# --- on a terminal ----------------------------------------------------------


def _ask(store: Store, everything: bool) -> int:
    """One suggestion after the other. Whatever was decided stays so, also if the rest is broken off."""
    found = suggestions.waiting(store)
    todo = [s for s in found if everything or not s.queued]
    if not found:
        write("nothing waits for a decision")
        return 1
    counts = {suggestions.ACCEPTED: 0, suggestions.MERGED: 0, suggestions.REJECTED: 0}
    try:
        for i, suggestion in enumerate(todo, 1):
            if not _one(store, suggestion, f"{i} of {len(todo)}"):
                break
            if suggestion.state in counts:
                counts[suggestion.state] += 1
    except (KeyboardInterrupt, EOFError):
        write()
    left = sum(s.state == WAITING for s in found)
    write(", ".join(f"{n} {word}" for word, n in counts.items() if n) + (", " if any(counts.values()) else "") + (f"{left} still wait{'s' * (left == 1)}" if left else "nothing waits any more"))
    return 0


def _one(store: Store, suggestion: Suggestion, place: str) -> bool:
    """Asks until one suggestion is decided or skipped; False to end."""
    like = review.near(store, suggestion)
    render.suggestion(review.public(suggestion, like), place)
    while True:
        render.keys(_KEYS)
        key = _key()
        write(key)
        try:
            if key in ("q", "\x04"):
                return False
            if key in ("s", " "):
                return True
            if key in ("a", "t"):
                _say(review.accept(store, suggestion, scope="team" if key == "t" else "private"))
                return True
            if key == "r":
                _say(review.reject(store, [suggestion])[0])
                return True
            if key == "e":
                _say(review.accept(store, suggestion, _changes(suggestion, "", "", "")))
                return True
            if key == "m" and _merge(store, suggestion, [str(h["id"]) for h in like]):
                return True
        except MemError as e:
            refused(e.message, e.hint)


def _merge(store: Store, suggestion: Suggestion, near: list[str]) -> bool:
    answer = _line(f"into which memory ({'a number above, or ' if near else ''}an id; empty: none)? ").strip()
    if not answer:
        return False
    into = memories.find(store, near[int(answer) - 1] if answer.isdecimal() and 0 < int(answer) <= len(near) else answer)
    team = into.scope == "team"
    if team and _line("it is the team's: change it for everybody? [y/N] ").strip().lower() not in ("y", "yes"):
        return False
    text = from_editor(review.merged(str(into.record.data["body"]), suggestion.body))
    if not text.strip():
        write("the text is empty, so nothing was merged")
        return False
    _say(review.merge(store, suggestion, into.memory.id, text, team=team))
    return True


def _line(question: str) -> str:
    typer.echo(question, nl=False)
    answer = sys.stdin.readline()
    if not answer:
        raise EOFError
    return answer


def _key() -> str:
    """One key, without waiting for the end of a line; what was typed ahead is dropped: nobody decides on what they have not seen."""
    try:
        import termios
        import tty
    except ImportError:  # Windows
        return _line("").strip()[:1].lower()
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    try:
        tty.setcbreak(fd, termios.TCSAFLUSH)
        data = os.read(fd, 64)
    finally:
        termios.tcsetattr(fd, termios.TCSAFLUSH, before)
    if not data:
        raise EOFError
    return data.decode("utf-8", "replace").lower() if len(data) == 1 else ""
