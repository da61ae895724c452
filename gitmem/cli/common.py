"""What every command needs: the opened store, words for the user, exit codes.

Only the doors (this package) read argv, the environment and stdin, or print.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..core import record
from ..core.errors import MemError, UsageError
from ..core.sanitize import json_text
from ..hooks import spool
from ..render import safe
from ..store import Store, open_store

if TYPE_CHECKING:
    from ..memory.memories import Found


def warn(line: str) -> None:
    print(safe(line), file=sys.stderr)


@contextmanager
def opened(*, needs_enabled: bool = True) -> Iterator[Store]:
    """The store around the current directory, closed at the end."""
    store = open_store(os.environ, warn=warn, strict=needs_enabled)
    try:
        if needs_enabled and not store.settings.flag("enabled"):
            raise MemError(
                "git mem is switched off here",
                hint=f"by {store.settings.origins['enabled']}; `git mem status` still works",
            )
        if needs_enabled:
            spool.rescue(store.repo.common_dir)
        yield store
        if remark := store.unread():
            warn(f"warning: {remark}")
        if store.wrote and store.settings.encodes:
            spool.ask(store.repo.common_dir)  # the worker makes the encoder's vectors
    finally:
        store.close()


@contextmanager
def chosen_vectors(store: Store) -> Iterator[Any]:
    """The embedding model that the user chose, asked when it is needed; None where none is chosen
    or it cannot be used (then a line says why).
    """
    setting = store.settings["embedModel"]
    if not setting and not os.environ.get("GIT_MEM_EMBED_MODEL"):
        yield None
        return
    from ..models import chosen, llamavec, registry

    choice = chosen.choice(registry.EMBEDDING, setting, os.environ)
    if not choice.path:
        if choice.reason:
            store.reduced = choice.reason
            warn(f"warning: {choice.reason}; using the packaged table")
        yield None
        return
    try:
        vectors = llamavec.LlamaVectors(choice.path, choice.name, choice.sha256)
    except llamavec.NoVectors as e:
        store.reduced = e.message
        warn(f"warning: {e.message}; using the packaged table")
        yield None
        return
    with vectors:
        yield vectors


def write(text: str = "") -> None:
    """One line of output; no byte of it can steer the terminal."""
    sys.stdout.write(safe(text) + "\n")


def write_json(value: Any) -> None:
    """One line of JSON, exact, with controls and hidden characters as escapes; readable where the
    output is UTF-8, else all ASCII.
    """
    ascii_only = sys.stdout.encoding.lower().replace("-", "") != "utf8"
    sys.stdout.write(json_text(json.dumps(value, ensure_ascii=ascii_only, allow_nan=False)) + "\n")


def refused(message: str, hint: str = "") -> None:
    """An error that does not stop the rest."""
    print_error("error", message, hint)


def print_error(kind: str, message: str, hint: str = "") -> None:
    sys.stdout.flush()
    print(f"{kind}: {safe(message)}", file=sys.stderr)
    if hint:
        print(f"hint: {safe(hint)}", file=sys.stderr)


def read_stdin() -> str:
    """All of stdin as text. Raises MemError where it is none."""
    return "" if sys.stdin is None else _text(sys.stdin.buffer.read(), "standard input")


def read_file(name: str) -> str:
    """All of a file as text, `-`: of stdin. Raises MemError where it is none, or cannot be read."""
    if name == "-":
        return read_stdin()
    try:
        with open(name, "rb") as f:
            return _text(f.read(), f"'{name}'")
    except OSError as e:
        raise MemError(f"cannot read '{name}': {e.strerror}") from e


def _text(data: bytes, name: str) -> str:
    if why := record.no_text(data):
        raise MemError(f"{name} {why}", hint="nothing was stored; save it as UTF-8")
    return data.decode("utf-8")


# Words after which a path stands, and commands whose own words are paths: a file may have any name.
_PATH_OPTIONS = (
    "--path",
    "--paths",
    "--jsonl",
    "--batch",
    "--map",
    "--output",
    "-o",
    "--report",
    "--from",
    "--plot",
)
_PATH_COMMANDS = ("why", "blame", "import", "model", "log", "bench")
_FLAGS = ("--json", "--all", "--dry-run", "--")  # a word behind one of them is no value of it


def check_arguments(argv: list[str]) -> None:
    """Raises UsageError for a word that is no UTF-8, unless it is a path."""
    for before, word in zip(["", *argv], argv, strict=False):
        option = word.partition("=")[0] if word.startswith("-") else before
        operand = argv[0] in _PATH_COMMANDS and (option in _FLAGS or not option.startswith("-"))
        if (
            not operand
            and option not in _PATH_OPTIONS
            and (why := record.no_text(os.fsencode(word)))
        ):
            raise UsageError(f"the argument '{word}' {why}")


def many(n: int, noun: str) -> str:
    return f"{n} {noun}{'s' * (n != 1)}"


def interactive() -> bool:
    """Whether a person is there to ask."""
    return bool(sys.stdin and sys.stdin.isatty() and sys.stdout.isatty())


def values(item: object, *names: str) -> dict[str, Any]:
    """Attributes by name, for JSON; an empty id is null."""
    found = {name: getattr(item, name) for name in names}
    return {**found, "id": found["id"] or None} if "id" in found else found


def line(question: str) -> str:
    """One line typed by the user. Raises EOFError at the end of the input."""
    sys.stdout.write(safe(question))
    sys.stdout.flush()
    answer = sys.stdin.readline()
    if not answer:
        raise EOFError
    return answer


def scope_of(private: bool, team: bool) -> str:
    """What --private and --team choose; "" for the setting."""
    if private and team:
        raise UsageError("--private and --team exclude each other")
    return "private" if private else "team" if team else ""


def text_from(text: str | None, messages: list[str], stdin: bool, initial: str = "") -> str | None:
    """The text of a memory from TEXT, -m (each a paragraph), --stdin, or the editor on a terminal;
    None where nothing was given.
    """
    given = [text is not None, bool(messages), stdin]
    if sum(given) > 1:
        raise UsageError("give the text once: as TEXT, with -m, or with --stdin")
    if text is not None:
        return text
    if messages:
        return "\n\n".join(messages)
    if stdin:
        return read_stdin()
    return from_editor(initial) if interactive() else None


# As `git commit --cleanup=scissors`: lines of the text may begin with `#`.
SCISSORS = "# ------------------------ >8 ------------------------\n"


def from_editor(initial: str) -> str:
    """What the user saves in the editor git would start; everything from the scissors line on is
    dropped.
    """
    import shlex
    import subprocess
    import tempfile

    command = ["git", "var", "GIT_EDITOR"]
    editor = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    editor = editor or "vi"
    with tempfile.NamedTemporaryFile(
        "w", suffix=".md", prefix="git-mem-", delete=False, encoding="utf-8"
    ) as f:
        f.write(
            initial.rstrip("\n")
            + "\n"
            + SCISSORS
            + "# Write what is worth remembering above. An empty text stores nothing.\n"
        )
    try:
        done = subprocess.run(
            ["sh", "-c", editor + ' "$@"', shlex.split(editor)[0], f.name], check=False
        )
        if done.returncode:
            raise MemError(f"the editor '{editor}' failed", hint="nothing was stored")
        return read_file(f.name).partition(SCISSORS)[0].strip("\n")
    finally:
        os.unlink(f.name)


def when(store: Store, text: str, option: str) -> str:
    """A time as `git log --since` takes it, in stored form; "" for ""."""
    if not text:
        return ""
    import datetime

    unreadable = UsageError(
        f"cannot read '{option} {text}'", hint="write it like 2026-08-22 or '2 weeks ago'"
    )
    try:
        return _iso(datetime.datetime.fromisoformat(text))
    except OverflowError as e:
        raise unreadable from e
    except ValueError:
        pass
    answer = store.repo.git.text("rev-parse", f"--since={text}")
    seconds = answer.rpartition("=")[2]
    # git takes words that it cannot read for the present moment.
    now = seconds.isdigit() and int(seconds) >= time.time() - 2
    said_so = re.search(r"\b(now|today|0 \w+|(one|1) second)\b", text.lower())
    if not seconds.isdigit() or (now and not said_so):
        raise unreadable
    return _iso(datetime.datetime.fromtimestamp(int(seconds), datetime.UTC))


def _iso(moment: Any) -> str:
    import datetime

    if moment.tzinfo is None:
        moment = moment.astimezone()
    return str(moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))


def each(
    ids: list[str],
    change: Callable[[Store, str], Found],
    status: str,
    verb: str,
    as_json: bool,
    after: Callable[[Store], object] = lambda store: None,
) -> int:
    """Applies a change to each memory; one that is refused is named and does not stop the rest.

    `after` follows all of them.
    """
    failed = 0
    with opened() as store:
        for id in ids:
            try:
                found = change(store, id)
            except MemError as e:
                refused(e.message, e.hint)
                failed = 1
                continue
            if as_json:
                write_json({"id": found.memory.id, "status": status})
            else:
                write(f"{verb} {found.memory.id[:8]} {record.title_of(found.record.data)}")
        after(store)
    return failed
