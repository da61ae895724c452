"""What may stand at the cursor of `git mem ...`: the door that the shells' scripts ask.

    git-mem complete -- WORD...     the words after `git mem`, the last one as far as it is typed

prints a line for each word that may stand there: the word, a tab, what it is. The line `:files`
asks the shell for names of files. The scripts are in `data/completion/`, the commands with their
options in `table.tsv` beside them, which tools/generate_docs.py makes of the program.

Promise: nothing is made, locked or changed, in the repository or elsewhere; so memories that the
cache does not have yet are not offered. Whatever is wrong gives no words and no message. Loads no
library: a person waits for each press of the key.
"""

from __future__ import annotations

import os
import sys

from ..core import record
from ..core.sanitize import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    Word = tuple[str, str]  # the word, what it is

TABLE = os.path.join(os.path.dirname(os.path.dirname(__file__)), "data", "completion", "table.tsv")
HIDDEN = "-"  # of a command in the table: it works, and is not offered
FILES = ":files"
_MOST = 100  # memories or tags; typing goes on from there
_HEX = "0123456789abcdef"


def main(argv: list[str]) -> int:
    """Prints the words; `argv`: what follows `complete`."""
    try:
        for word, about in words(argv[1:] or [""]):
            print(f"{word}\t{shown(about)}".rstrip())
    except Exception:
        pass  # the prompt of a shell is no place for a message
    return 0


class Command:
    """A section of the table. `options`: {name: kind of its value, "" for a flag}; `listed`: those
    that are offered; `operands`: kinds, and whether the last one may be repeated.
    """

    def __init__(self, about: str, hidden: bool) -> None:
        self.about, self.hidden = about, hidden
        self.options: dict[str, str] = {}
        self.listed: list[Word] = []
        self.operands: list[str] = []
        self.repeated = False


def load() -> dict[str, Command]:
    """{`recall`, `model fetch`, ...: the command}; "" is `git mem` itself."""
    command = Command("", True)
    found = {"": command}
    with open(TABLE, encoding="utf-8") as f:
        for line in f:
            name, kind, about = line.rstrip("\n").removeprefix("\t").split("\t")
            if not line.startswith("\t"):
                command = found[name] = Command(about, kind == HIDDEN)
            elif name.startswith("-"):
                names = name.split(" ")
                command.options.update(dict.fromkeys(names, kind))
                first = next((n for n in names if n[:2] == "--"), name)
                no = [n for n in names if n[:5] == "--no-" and n != first]
                command.listed += [(n, about) for n in (first, *no)]
            else:
                command.operands.append(kind)
                command.repeated = name.endswith("...")
    return found


def words(typed: list[str]) -> Iterator[Word]:
    """What may stand in place of the last word, which it begins with."""
    *before, last = typed
    table = load()
    name, operands, pending, closed = _read(before, table)
    command = table[name]
    option, equals, part = last.partition("=")
    if pending:
        yield from _begin(last, _values(pending, last, table))
    elif equals and option in command.options and not closed:
        for value, about in _begin(part, _values(command.options[option], part, table)):
            yield (f"{option}={value}" if value != FILES else value), about
    elif last[:1] == "-" and not closed:
        yield from _begin(last, command.listed)
    else:
        if not operands:
            yield from _begin(last, _parts(name, table))
        if command.repeated:
            operands = min(operands, len(command.operands) - 1)
        for kinds in command.operands[operands : operands + 1]:
            if kinds == "<where>":  # of `import`
                kinds = "<rev>" if "git-log" in before else "<file>"
            yield from _begin(last, _values(kinds, last, table))


def _read(before: list[str], table: Mapping[str, Command]) -> tuple[str, int, str, bool]:
    """What the words before the cursor say: (the command, how many operands it has, the kind of
    the value that an option waits for, whether no option can follow).
    """
    name, operands, pending, closed = "", 0, "", False
    for word in before:
        if pending:
            pending = ""
        elif closed:
            operands += 1
        elif word == "--":
            closed = True
        elif word[:1] == "-" and len(word) > 1:
            pending = "" if "=" in word else table[name].options.get(word, "")
        elif not operands and (inner := f"{name} {word}".strip()) in table:
            name = inner
        else:
            operands += 1
    return name, operands, pending, closed


def _begin(part: str, found: Iterator[Word] | list[Word]) -> Iterator[Word]:
    """Those that begin so. A tag or branch of others that a shell would not take as it is: no."""
    for word, about in found:
        if word == FILES or (word.startswith(part) and _plain(word)):
            yield word, about


def _plain(word: str) -> bool:
    return all(char.isalnum() or char in "-_./:@+#" for char in word)


def _parts(name: str, table: Mapping[str, Command]) -> Iterator[Word]:
    """The commands of `git mem`, or those of `git mem model`, or the settings of `config`."""
    for inner, command in table.items():
        above, _, word = inner.rpartition(" ")
        if word and above == name and not command.hidden:
            yield word, command.about


def _values(kinds: str, part: str, table: Mapping[str, Command]) -> Iterator[Word]:
    """`kinds`: words, or one of _KINDS, separated by bars."""
    for kind in kinds.split("|"):
        if kind == "<command>":
            yield from _parts("", table)
        elif kind in _KINDS:
            yield from _KINDS[kind](part)
        elif kind[:1] != "<":
            yield kind, ""


def _ids(condition: str) -> Callable[[str], Iterator[Word]]:
    def found(part: str) -> Iterator[Word]:
        if part.strip(_HEX):
            return
        sql = (
            "SELECT m.id, coalesce(u.raw, l.raw) FROM memory m JOIN line l ON l.n = m.line"
            f" LEFT JOIN united u ON u.row = m.row WHERE m.nth = 0 AND {condition}"
            " AND m.id >= ? AND m.id < ? ORDER BY m.at DESC, m.id LIMIT ?"
        )
        rows = _rows(sql, part, part + "g", _MOST)
        begins = [id[:8] for id, _ in rows]
        for id, raw in rows:
            if memory := record.parse(raw):
                title, type = record.title_of(memory.data), memory.data.get("type") or ""
                # One word twice, and bash would put what both titles begin with on the line.
                whole = len(part) > 8 or begins.count(id[:8]) > 1
                yield (id if whole else id[:8]), f"{type}: {title}"

    return found


def _types(part: str) -> Iterator[Word]:
    used = [type for (type,) in _rows("SELECT DISTINCT type FROM memory WHERE status = 0")]
    for type in dict.fromkeys([*record.TYPES, *used]):
        yield type, ""


def _tags(part: str) -> Iterator[Word]:
    sql = (
        "SELECT value, count(*) FROM label WHERE kind = 'tag' AND value >= ? AND value < ?"
        " GROUP BY value ORDER BY count(*) DESC LIMIT ?"
    )
    for tag, count in _rows(sql, part, part + chr(sys.maxunicode), _MOST):
        yield tag, "1 memory" if count == 1 else f"{count} memories"


def _revisions(part: str) -> Iterator[Word]:
    """Names of commits; of a range the part after the dots."""
    start = part[: part.rfind("..") + 2] if ".." in part else ""
    names = _git("for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/tags")
    remotes = _git("for-each-ref", "--format=%(refname:short)", "refs/remotes")
    for name in ["HEAD", *names, *remotes]:
        yield start + name, ""


def _remotes(part: str) -> Iterator[Word]:
    return ((name, "") for name in _git("remote"))


def _files(part: str) -> Iterator[Word]:
    yield FILES, ""


_KINDS = {
    "<id>": _ids("m.status = 0"),
    "<private>": _ids("m.status = 0 AND m.scope = 2"),
    "<forgotten>": _ids("m.status > 0"),  # or superseded
    "<type>": _types,
    "<tag>": _tags,
    "<rev>": _revisions,
    "<remote>": _remotes,
    "<file>": _files,
}


def _rows(sql: str, *values: object) -> list[tuple[Any, ...]]:
    """Rows of the cache, none where there is none. `immutable`: SQLite makes no file beside it."""
    from ..engine import cache
    from ..git import discover, memfile

    try:
        found = discover.place(os.getcwd(), os.environ)
        mem_dir = memfile.directory(found[1]) if found else memfile.NOWHERE
    except discover.Unsure:
        from ..git import repository

        mem_dir = repository.open_repo().mem_dir
    path = cache.path_of(mem_dir)
    if not os.path.isfile(path):
        return []
    db = cache.connect(f"file:{cache.quoted(path)}?immutable=1")
    try:
        return db.execute(sql, values).fetchall()
    finally:
        db.close()


def _git(*argv: str) -> list[str]:
    from ..git.gitcmd import Git

    return Git().text(*argv).splitlines()
