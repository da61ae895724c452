"""Reads committed chat logs of coding agents into single turns, scrubbed, for training the capture
classifier.

It owns the way from a clone to a row
{"id","role","text","repo","licence","commit","label","strength"}: which logs, how a turn is cut
out, what is scrubbed, what counts as a duplicate. The labels are made by readers and kept apart in
`data/capture_labels.jsonl`, by id; the texts stay with their authors' repositories and are rebuilt
from clones, so that nothing of theirs is copied into this one. `data/capture_sources.tsv` names
them all.

Promises: the same clones and labels give the same bytes, on any machine; each row comes from a
commit of `SOURCES`, whose licence was read in that commit; an id depends on the repository, the
role and the unscrubbed text alone, so a better scrubber or another order of files loses no label.
Standard library and git only.

    python tools/build_capture_data.py --out turns.jsonl OWNER/NAME=CLONE ...

writes what is labelled; with `--all` every turn, those without a label as null.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from gitmem.core import redact

DATA = Path(__file__).resolve().parent / "data"
LABELS = DATA / "capture_labels.jsonl"
# where a text ends; what stands after it seldom changes what the turn is about
LONGEST = 2000
# an assistant's word shorter than this is "Done."
SHORTEST_ANSWER = 40
# a fenced block of so many lines is a file, not an example
LISTING = 14
# a text of so many letters, its opening (with the role), and how many may open alike
TEMPLATE, OPENING, ALIKE = 60, 24, 4


class Source(NamedTuple):
    """One repository: the commit read, the licence found in it, and words that are somebody's
    name."""

    repo: str
    commit: str
    licence: str
    names: tuple[str, ...] = ()


def _sources() -> tuple[Source, ...]:
    """The rows of `data/capture_sources.tsv`. Later ones stand behind, so that a text said in two
    repositories stays where it was.
    """
    lines = (DATA / "capture_sources.tsv").read_text(encoding="utf-8").splitlines()[1:]
    rows = (line.split("\t") for line in lines)
    return tuple(
        Source(repo, commit, licence, tuple(names.split(", ")) if names else ())
        for repo, commit, licence, _, _, names in rows
    )


SOURCES = _sources()

_SPECSTORY = re.compile(r"(^|/)\.specstory/history/[^/]+\.md$")
# logs that somebody made up for a test
_MADE_UP = re.compile(r"(^|/)(fixtures|testdata)/")
_AIDER = re.compile(r"(^|/)\.?aider\.chat\.history[^/]*$")

_HEADER = re.compile(r"^_\*\*(User|Agent|Assistant)([^*\n]*)\*\*_[ \t]*$", re.MULTILINE)
# what a tool did or a model thought: a message ends where one of these begins
_MACHINE = re.compile(
    r"<(tool-use|details|think|reasoning|function_results)\b.*?</\1>|^_\*\*\*\*_[ \t]*$",
    re.DOTALL | re.MULTILINE,
)
# a line that only announces the next tool call
_ANNOUNCED = re.compile(r"\A(?:[^\n]{0,600}:[ \t]*\n\n+)+(?=\S)")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_FENCE = re.compile(r"^```.*?^```[ \t]*$", re.DOTALL | re.MULTILINE)
# what a client put into a user's turn by itself
_INJECTED = re.compile(
    r"<(system-reminder|ide_\w+|local-command-\w+|command-\w+|task-notification|bash-\w+|context|attached_files|"
    r"manually_attached_skills|user-prompt-submit-hook)\b.*?</\1>|^\[Image[^\]\n]*\]$|\[Request"
    r" interrupted[^\]]*\]",
    re.DOTALL | re.MULTILINE,
)
_NOT_TYPED = (
    "This session is being continued from",
    "Caveat: The messages below",
    "Base directory for this skill",
    "Stop hook feedback",
    "Unknown slash command",
    "Full transcript available at",
    "<",
)

_SCRUB = (
    (re.compile(r"[\w.+-]+@[\w-]+(\.[\w-]+)+"), "someone@example.org"),
    (
        re.compile(r"(?i)(/Users/|/home/|/c/Users/|[a-z]:[\\/]+Users[\\/]+)[^\s/\\\"'`:;,)]+"),
        "/home/user",
    ),
    (re.compile(r"(?<![\w/.@])@[A-Za-z][\w-]{2,38}(?![\w/.(-])"), "@someone"),
    (re.compile(r"(?<![\w.])(?!127\.|0\.0\.0\.0)(\d{1,3}\.){3}\d{1,3}(?![\w.])"), "192.0.2.1"),
    (re.compile(r"(?i)(?<![\w:])([0-9a-f]{1,4}:){5,7}[0-9a-f]{1,4}(?![\w:])"), "2001:db8::1"),
    (re.compile(r"(?<!\w)\+\d[\d ()-]{8,16}\d(?!\w)"), "+00 000 0000"),
    (re.compile(r"(?<!\d)\d{8,10}:AA[\w-]{30,}"), "TOKEN"),
)


class Turn(NamedTuple):
    id: str
    role: str
    text: str
    source: Source

    def row(self, label: str | None, strength: int | None) -> dict[str, Any]:
        return {
            "id": self.id,
            "role": self.role,
            "text": self.text,
            "repo": self.source.repo,
            "licence": self.source.licence,
            "commit": self.source.commit,
            "label": label,
            "strength": strength,
        }


def specstory(log: str) -> Iterator[tuple[str, str]]:
    """(role, raw text) of one SpecStory file: what a person typed, and the last message before they
    typed again.
    """
    marks = list(_HEADER.finditer(log))
    answer = ""
    command = False
    for mark, follows in zip(marks, [*marks[1:], None], strict=False):
        who, more = mark.groups()
        if "sidechain" in more:
            continue
        body = _COMMENT.sub("", log[mark.end() : follows.start() if follows else len(log)])
        if who != "User":
            answer = last_message(body) or answer
            command = False
            continue
        if answer:
            yield "assistant", answer
            answer = ""
        # the text after a slash command is the command's own, not the user's
        expansion, command = command, "<command-name>" in body or "<command-message>" in body
        text = plain(_INJECTED.sub("", body))
        if text and not expansion and not text.startswith(_NOT_TYPED):
            yield "user", text
    if answer:
        yield "assistant", answer


def last_message(body: str) -> str:
    """What an assistant said after its last tool call; of narration in one piece, the end."""
    for part in reversed(_MACHINE.sub("\0", listings(body)).split("\0")):
        if text := _ANNOUNCED.sub("", plain(part)):
            return text
    return ""


def listings(body: str) -> str:
    """`body` with a mark for each fenced block that is empty or long: older logs show so what a
    tool read or wrote.
    """
    kept: list[str] = []
    opened = -1
    for line in body.splitlines():
        kept.append(line)
        if not line.startswith("```"):
            continue
        if opened < 0:
            opened = len(kept) - 1
        elif line.rstrip() == "```":
            if len(kept) - opened not in range(3, LISTING):
                kept[opened:] = ["\0"]
            opened = -1
    return "\n".join(kept[:opened] if opened >= 0 else kept)


def aider(log: str) -> Iterator[tuple[str, str]]:
    """(role, raw text) of an aider history: `####` begins a line that was typed, `>` one that the
    tool printed.
    """
    typed: list[str] = []
    said: list[str] = []
    for line in [*log.splitlines(), ""]:
        # aider ends what was typed with two blanks; a heading of the model's own has none
        if line.startswith("#### ") and line.endswith("  "):
            if said and (text := plain(_FENCE.sub("", "\n".join(said)))):
                yield "assistant", text
            said = []
            typed.append(line[5:])
            continue
        if typed:
            text = re.sub(r"^/(ask|code|architect)\s+", "", plain("\n".join(typed)))
            if text and text[0] not in "/!":
                yield "user", text
            typed = []
        if line.startswith("# aider chat started"):
            said = []
        elif not line.startswith(">"):
            said.append(line)
    if text := plain(_FENCE.sub("", "\n".join(said))):
        yield "assistant", text


def plain(text: str) -> str:
    """Without the rules between messages, runs of blank lines and blanks at the ends."""
    lines = [line.rstrip() for line in text.splitlines()]
    while lines and lines[-1] in ("", "---"):
        lines.pop()
    while lines and lines[0] in ("", "---"):
        lines.pop(0)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def scrub(text: str, names: frozenset[str]) -> str:
    """`text` without secrets, addresses, handles, home directories, numbers to call, and the given
    names.
    """
    text = redact.mask(text, redact.find(text))
    for pattern, instead in _SCRUB:
        text = pattern.sub(instead, text)
    for name in sorted(names, key=lambda name: (-len(name), name)):
        text = re.sub(rf"(?i)(?<![A-Za-z]){re.escape(name)}(?![A-Za-z])", "Owner", text)
    return text


def owners(clone: str, source: Source, paths: list[str]) -> frozenset[str]:
    """The names of those who committed the logs, whole and in words, and of the repository's
    owner."""
    found = set(source.names)
    told = git(clone, "log", "--format=%an%n%cn", source.commit, "--", *paths[:200])
    for name in {line.strip() for line in told.splitlines()} | {source.repo.split("/")[0]}:
        if "[bot]" in name or name == "GitHub" or len(name) < 3:
            continue
        found.add(name)
        found.update(word for word in name.split() if len(word) > 3)
    return frozenset(found)


def git(clone: str, *words: str) -> str:
    ran = subprocess.run(
        ["git", "--git-dir", clone, "-c", "core.quotepath=off", *words],
        capture_output=True,
        check=True,
    )
    return ran.stdout.decode("utf-8", "replace")


def turns(clone: str, source: Source) -> Iterator[Turn]:
    """Every turn of one repository's logs, in the order of their paths."""
    clone = clone if (Path(clone) / "HEAD").exists() else str(Path(clone) / ".git")
    listed = git(clone, "ls-tree", "-r", "--name-only", source.commit).splitlines()
    paths = sorted(
        path
        for path in listed
        if (_SPECSTORY.search(path) or _AIDER.search(path)) and not _MADE_UP.search(path)
    )
    names = owners(clone, source, paths)
    for path in paths:
        try:
            log = git(clone, "show", f"{source.commit}:{path}").replace("\r\n", "\n")
        except subprocess.CalledProcessError:
            print(f"{source.repo}: {path} is not in this clone", file=sys.stderr)
            continue
        for role, raw in (specstory if _SPECSTORY.search(path) else aider)(log):
            if role == "assistant" and len(raw) < SHORTEST_ANSWER:
                continue
            name = hashlib.sha256("\0".join((source.repo, role, raw)).encode()).hexdigest()[:12]
            yield Turn(name, role, scrub(raw[: 2 * LONGEST], names)[:LONGEST].rstrip(), source)


def distinct(found: Iterator[Turn], seen: set[str]) -> Iterator[Turn]:
    """Without a text said before, by anyone; letter case, blanks and punctuation make no
    difference.

    Of long texts that open alike in one repository (a prompt typed for each of forty components)
    the first few stay."""
    openings: Counter[str] = Counter()
    for turn in found:
        words = re.sub(r"\W+", "", turn.text[:400].casefold())
        key = turn.role + words
        if key in seen or not words:
            continue
        seen.add(key)
        if len(words) >= TEMPLATE:
            openings[key[:OPENING]] += 1
            if openings[key[:OPENING]] > ALIKE:
                continue
        yield turn


def labels(path: Path) -> dict[str, tuple[str, int]]:
    """The readers' judgements by id."""
    if not path.exists():
        return {}
    rows = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line)
    return {row["id"]: (row["label"], row["strength"]) for row in rows}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "clones", nargs="+", metavar="OWNER/NAME=CLONE", help="a local clone of a known source"
    )
    parser.add_argument("--out", required=True, type=Path, help="where the rows go, one a line")
    parser.add_argument(
        "--labels", type=Path, default=LABELS, help="the judgements (default: %(default)s)"
    )
    parser.add_argument("--all", action="store_true", help="unlabelled turns too")
    given = parser.parse_args()
    known = {source.repo: source for source in SOURCES}
    where = dict(clone.partition("=")[::2] for clone in given.clones)
    if strange := sorted(set(where) - set(known)):
        parser.error(f"not among the sources: {', '.join(strange)}")
    judged = labels(given.labels)
    seen: set[str] = set()
    counts: Counter[tuple[str, str]] = Counter()
    with given.out.open("w", encoding="utf-8") as out:
        for repo in (source.repo for source in SOURCES if source.repo in where):
            for turn in distinct(turns(where[repo], known[repo]), seen):
                label, strength = judged.get(turn.id, (None, None))
                if label is None and not given.all:
                    continue
                out.write(json.dumps(turn.row(label, strength), ensure_ascii=False) + "\n")
                counts[repo, turn.role] += 1
    for (repo, role), count in sorted(counts.items()):
        print(f"{repo}\t{role}\t{count}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
