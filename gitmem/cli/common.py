"""What every command needs: the opened store, words for the user, exit codes.

Only the doors (this package) read argv, the environment and stdin, or print.
"""

import datetime
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from .. import opening
from ..core import record
from ..core.errors import MemError, UsageError
from ..core.sanitize import json_text
from ..render import progress, safe, say, use_colours
from ..store import Store


def warn(line: str) -> None:
    say(line, sys.stderr)


@contextmanager
def opened(*, needs_enabled: bool = True) -> Iterator[Store]:
    """The store around the current directory, closed at the end."""
    with opening.opened(os.environ, None, warn, needs_enabled=needs_enabled) as store:
        if sys.stderr.isatty():
            store.progress = progress
        use_colours(store.settings.git.get("color.ui", ""))
        try:
            yield store
        except KeyboardInterrupt:
            if store.wrote or store.expected:
                of = f" of {store.expected:,}" if store.expected else ""
                again = "run it again: what is there is not taken twice"
                print(file=sys.stderr)  # behind the ^C
                warn(f"stored {store.wrote:,}{of}; {again}")
            elif store.resumes:
                print(file=sys.stderr)
                warn("stopped; run it again: it makes what is missing")
            raise
        finally:
            if store.behind:  # `index` takes 30 s for 100,000 memories, and no reader waits longer
                why = "another process may be writing it"
                behind = f"the memory cache is behind the notes ({why})"
                warn(f"warning: {behind}, so memories may be missing")


def needs_mcp() -> None:
    """Raises MemError where the MCP server cannot be started."""
    from importlib.util import find_spec

    if find_spec("mcp") is None:
        hint = f"`{sys.executable} -m pip install 'mcp>=2,<3'` adds it"
        raise MemError("the MCP server needs the package 'mcp'", hint=hint)


def tell_elsewhere(store: Store) -> None:
    """Says what brings the team's memories into a clone that has none."""
    if not store.team.tip():
        from .. import setup  # what answers from memories does not wait for it

        if said := setup.elsewhere(store):
            warn(f"hint: {said}")


def write(text: str = "") -> None:
    """One line of output; no byte of it can steer the terminal."""
    say(text, sys.stdout)


def write_as_file(texts: Iterable[str]) -> None:
    """Standard output in UTF-8, as a file is, whatever the locale: other programs read it."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    sys.stdout.writelines(texts)


def write_json(value: Any) -> None:
    """One line of JSON, exact, with controls and hidden characters as escapes; readable where the
    output is UTF-8, else all ASCII.
    """
    import json

    ascii_only = sys.stdout.encoding.lower().replace("-", "") != "utf8"
    sys.stdout.write(json_text(json.dumps(value, ensure_ascii=ascii_only, allow_nan=False)) + "\n")


def refused(message: str, hint: str = "") -> None:
    sys.stdout.flush()
    warn(f"error: {message}")
    if hint:
        warn(f"hint: {hint}")


def read_file(name: str) -> str:
    """All of a file as text, `-`: of stdin. Raises MemError where it is none, or cannot be read."""
    shown = "standard input" if name == "-" else f"'{name}'"
    try:
        with nullcontext(sys.stdin.buffer) if name == "-" else open(name, "rb") as f:
            data = f.read()
    except OSError as e:
        raise MemError(f"cannot read {shown}: {e.strerror}") from e
    if why := record.no_text(data):
        raise MemError(f"{shown} {why}", hint="nothing was stored; save it as UTF-8")
    return data.decode("utf-8-sig")


JsonLine = tuple[int, dict[str, Any] | str]  # its number, its object or what is wrong with it


def json_lines(name: str) -> Iterator[JsonLine]:
    """The lines of a file (`-`: of stdin) that are not blank, read one by one."""
    import json

    try:
        stream = sys.stdin.buffer if name == "-" else open(name, "rb")  # noqa: SIM115
    except OSError as e:
        raise MemError(f"cannot read '{name}': {e.strerror}") from e
    with stream:
        for number, raw in enumerate(stream, 1):
            if not raw.strip():
                continue
            if why := record.no_text(raw):
                yield number, why
                continue
            try:
                value = json.loads(raw.decode("utf-8-sig" if number == 1 else "utf-8"))
            except (ValueError, RecursionError) as e:
                yield number, f"is no JSON ({getattr(e, 'msg', 'too deep')})"
            else:
                yield number, value if isinstance(value, dict) else "is no JSON object"


def count_lines(name: str) -> int | None:
    """How many lines `json_lines` reads; None for what can be read only once."""
    try:
        if not os.path.isfile(name):
            return None
        with open(name, "rb") as f:
            return sum(not line.isspace() for line in f)
    except OSError:
        return None


def write_file(name: str, parts: Iterable[str]) -> None:
    try:
        with open(name, "w", encoding="utf-8", newline="\n") as f:
            f.writelines(parts)
    except OSError as e:
        raise MemError(f"cannot write '{name}': {e.strerror}") from e


# Words after which a path stands, and commands whose own words are paths: a file may have any name.
_PATH_OPTIONS = "--path --paths --jsonl --batch --map --output -o --report --from --plot".split()
_PATH_COMMANDS = ("why", "blame", "import", "model", "log", "bench")
_FLAGS = ("--json", "--all", "--dry-run", "--")  # a word behind one of them is no value of it


def check_arguments(argv: list[str]) -> None:
    """Raises UsageError for a word that is no UTF-8, unless it is a path."""
    for before, word in zip(["", *argv], argv, strict=False):
        option = word.partition("=")[0] if word.startswith("-") else before
        operand = argv[0] in _PATH_COMMANDS and (option in _FLAGS or not option.startswith("-"))
        path = operand or option in _PATH_OPTIONS
        if not path and (why := record.no_text(os.fsencode(word))):
            raise UsageError(f"the argument '{word}' {why}")


def interactive() -> bool:
    """Whether a person is there to ask."""
    return bool(sys.stdin and sys.stdin.isatty() and sys.stdout.isatty())


def values(item: object, *names: str) -> dict[str, Any]:
    """Attributes by name, for JSON; an empty id is null."""
    found = {name: getattr(item, name) for name in names}
    return {**found, "id": found["id"] or None} if "id" in found else found


def line(question: str) -> str:
    """One line typed by the user, "" at the end of the input."""
    sys.stdout.write(safe(question))
    sys.stdout.flush()
    return sys.stdin.readline()


def asked(name: str, default: str = "") -> str:
    """A value typed by the user, by default what is shown. Raises EOFError at the end of input."""
    typed = line(f"{name} [{default}]: " if default else f"{name}: ")
    if not typed:
        raise EOFError
    return typed.strip() or default


def confirmed(question: str) -> bool:
    return line(f"{question} [y/N] ").strip().lower() in ("y", "yes")


def scope_of(private: bool, team: bool) -> str:
    """What --private and --team choose; "" for the setting."""
    if private and team:
        raise UsageError("--private and --team exclude each other")
    return "private" if private else "team" if team else ""


def text_from(store: Store, text: str | None, messages: list[str], stdin: bool) -> str | None:
    """The text from TEXT, -m (each a paragraph), --stdin, or the editor on a terminal."""
    if (text is not None) + bool(messages) + stdin > 1:
        raise UsageError("give the text once: as TEXT, with -m, or with --stdin")
    if text == "-":  # elsewhere that is standard input
        raise UsageError("the text is '-'", hint="--stdin reads it from standard input")
    if text is not None:
        return text
    if messages:
        return "\n\n".join(messages)
    if stdin:
        return read_file("-")
    return from_editor(store, "") if interactive() else None


def from_editor(store: Store, initial: str) -> str:
    """What the user saves in the editor git would start, up to the scissors line."""
    import subprocess
    import tempfile

    editor = store.repo.program("GIT_EDITOR") or "vi"
    # As `git commit --cleanup=scissors`: lines of the text may begin with `#`.
    scissors = "# ------------------------ >8 ------------------------\n"
    hint = (
        "# Write what is worth remembering above; the first line is its title. An empty text\n"
        "# stores nothing. Type, tags and files are options of the command: -h shows them.\n"
    )
    with tempfile.TemporaryDirectory(prefix="git-mem-") as directory:
        name = os.path.join(directory, "memory.md")
        write_file(name, [initial.rstrip("\n"), "\n", scissors, hint])
        argv = ["sh", "-c", editor + ' "$@"', editor, name]  # as git starts it
        if subprocess.run(argv, check=False).returncode:
            raise MemError(f"the editor '{editor}' failed", hint="nothing was stored")
        return read_file(name).partition(scissors)[0].strip("\n")


# The words that git reads in a date; it passes over others, and takes a day that no calendar has
# for some other moment.
_UNITS = "second minute hour day week month year"
_DAYS = (
    "january february march april may june july august september october november december"
    " monday tuesday wednesday thursday friday saturday sunday"
).split()
_OTHERS = (
    "ago last now today yesterday never noon midnight tea am pm at on of and the"
    " zero one two three four five six seven eight nine ten t z utc gmt"
)
_WORDS = {*_UNITS.split(), *(f"{unit}s" for unit in _UNITS.split()), *_OTHERS.split()}
_WORDS.update(_DAYS, [day[:3] for day in _DAYS])


def when(store: Store, text: str, option: str) -> str:
    """A time as `git log --since` takes it, in stored form; "" for ""."""
    if not text:
        return ""
    hint = "write it like 2026-08-22 or '2 weeks ago'"
    unreadable = UsageError(f"cannot read '{option} {text}'", hint=hint)
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        seconds = store.repo.git.text("rev-parse", f"--since={text}").rpartition("=")[2]
        # git takes words that it cannot read for the present moment.
        now = seconds.isdigit() and int(seconds) >= time.time() - 2
        said_so = re.search(r"\b(now|today|0 \w+|(one|1) second)\b", text.lower())
        if not seconds.isdigit() or (now and not said_so) or not _sensible(text.lower()):
            raise unreadable from None
        moment = datetime.datetime.fromtimestamp(int(seconds), datetime.UTC)
    try:  # as records have it; a moment without a zone is one of this machine's
        return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError) as e:  # outside the years 1 to 9999
        raise unreadable from e


def _sensible(text: str) -> bool:
    """Whether git reads all of a date, and what it names by numbers is in the calendar."""
    if not _WORDS.issuperset(re.findall(r"[a-z]+", text)):
        return False
    for a, b, c in re.findall(r"(\d+)[-/.](\d+)[-/.](\d+)", text):
        orders = [(a, b, c)] if len(a) == 4 else [(c, a, b), (c, b, a)]
        if not any(_in_calendar(*map(int, order)) for order in orders):
            return False
    times = re.findall(r"(\d+):(\d+)(?::(\d+))?", text)
    return all(int(h) < 24 and int(m) < 60 and int(s or 0) <= 60 for h, m, s in times)


def _in_calendar(year: int, month: int, day: int) -> bool:
    try:
        return bool(datetime.date(year, month, day))
    except (ValueError, OverflowError):
        return False
