"""What commit messages say that is worth keeping: trailers, reasons, reverts, repairs.

A trailer `Decision:`, `Learned:`, `Gotcha:` and its like is a memory that its author marked; a
revert with a reason is a dead end; a commit that `Fixes:` another is a bug with its cause; any
other message in prose that is no upkeep is a candidate. Of a `fixup!` only the trailers count; a
merge, a release, a machine's message are nothing. A conventional prefix ("fix:") names the type.

Promise: in the worker git is asked in two calls, however many commits (a third where a partial
clone lacks directories). A candidate's source is `commit:<id>`, so looking again makes nothing
twice.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress

from ..core import commit_message
from ..git import memfile
from ..git.commit_reader import Commit
from ..git.repository import Repo
from ..notes.notetree import is_hex
from . import markers, strip
from .candidates import Candidate
from .sources import COMMIT, MOST_PATHS

AT_ONCE = 200  # commits that one look takes in, the newest
SEEN = "commits.seen"  # in the cache directory: the HEADs up to which commits were looked at
FAILED = "commits.failed"  # beside it: commits whose words could not be kept, once a failure
TRIES = 10  # failures after which a commit is passed over
_MOST_FAILED = 4_000  # failures that are noted, the last
_LONGEST = 8_000  # characters of a message without its trailers
_MOST = 200_000  # ... of one that is read at all

# Words of trailers that only commits have, beside `word_lists.TRAILERS`.
_ONLY_HERE = {"rejected": "dead-end", "remember": "learning"}
_TRAILER = re.compile(rf"^({'|'.join(_ONLY_HERE)})[ \t]*:[ \t]*(\S.*)$", re.IGNORECASE)
# What programs write under a message that they had a part in.
# Within a line: what goes on to the next one would be tried at each, 54 s for 40 KB of fences.
_GENERATOR = re.compile(
    r"^[^\w\n]*(?:(?:generated|created|made|written|authored|assisted|powered) (?:with|by|using)"
    r"|co-?authored-by:|amp-thread|claude-session:).*\b(?:claude|anthropic|copilot|cursor|codex"
    r"|openai|gemini|chatgpt|gpt|aider|devin|windsurf|jules|amp|ai|llm|bot)\b.*$",
    re.IGNORECASE | re.MULTILINE,
)
_WRAPPED = 50  # characters after which a line may have been broken
_REVERTS = re.compile(r"^This reverts commit ([0-9a-f]{7,64})\b", re.MULTILINE)
_REVERT_LINE = re.compile(
    r"This reverts commit [0-9a-f]{7,64}(?:, reversing\s+changes made to [0-9a-f]{7,64})?\.?"
)
_REVERTING = re.compile(
    r"(?:[\w/-]+(?:\([^)]*\))?!?: )?revert(?:ed|s|ing)?\b(?! [\"'“]?revert)", re.IGNORECASE
)
_REFERENCE = re.compile(r"https?://\S+|\(?#\d+\)?|\b[0-9a-f]{7,64}\b")
_REASON = 10  # words, without links and numbers, from which a revert says why
_FIXES = re.compile(r"^Fixes: ([0-9a-f]{7,64})\b.*$", re.MULTILINE)
# A round of a review, a step on the way: what it says is about that, not about the code.
_ROUND = re.compile(
    r"\b(?:address(?:es|ed)?|review(?:er)?s?|R\d|feedback|nits?|PR"
    r" #\d+|wip|partial|follow-?ups?)\b",
    re.IGNORECASE,
)
_LISTED = re.compile(r"\s*(?:[-*+•]|\d+[.)])\s")
_MOST_LISTED = 0.2  # share of a body's lines: more are a list of what was done


# --- what was looked at -----------------------------------------------------


def seen(mem_dir: str) -> list[str]:
    """The commits up to which commits were looked at, one for each worktree."""
    return _ids(os.path.join(mem_dir, SEEN))


def keep_seen(mem_dir: str, heads: list[str]) -> None:
    """Notes that everything up to these commits was looked at."""
    _write(os.path.join(mem_dir, SEEN), heads)


def begin(repo: Repo) -> None:
    """Capture was switched on: from now on commits are new."""
    with suppress(OSError):  # then only the one at which the worker first looks is
        os.makedirs(repo.mem_dir, mode=0o700, exist_ok=True)
        keep_seen(repo.mem_dir, repo.heads())


def given_up(mem_dir: str) -> list[str]:
    """The commits that are passed over, since keeping what they say failed TRIES times."""
    counts = Counter(_ids(os.path.join(mem_dir, FAILED)))
    return [id for id, count in counts.items() if count >= TRIES]


def note_failed(mem_dir: str, commits: Iterable[str]) -> None:
    """Counts one more failure for each: else every worker would try again for ever."""
    path = os.path.join(mem_dir, FAILED)
    _write(path, [*_ids(path), *commits][-_MOST_FAILED:])


def _ids(path: str) -> list[str]:
    try:
        found = memfile.read(path, 300_000).decode("ascii").split()
    except (OSError, ValueError):
        return []
    return [id for id in found if len(id) in (40, 64) and is_hex(id)]


def _write(path: str, ids: list[str]) -> None:
    memfile.write(path, ("\n".join(ids) + "\n").encode("ascii"))


# --- what a commit says -----------------------------------------------------


def candidates(commits: Iterable[Commit]) -> list[Candidate]:
    """What these commits say, in their order."""
    return [c for commit in commits for c in _of(commit)]


def _of(commit: Commit) -> Iterator[Candidate]:
    message = commit.message.replace("\r\n", "\n").strip()
    subject = message.partition("\n")[0]
    if commit_message.BOT.search(commit.author) or len(message) > _MOST:
        return
    cleaned = _GENERATOR.sub("", strip.cleaned(message)).strip()
    if not cleaned:
        return
    marked, rest = split(cleaned)
    about = Candidate(
        COMMIT,
        rest,
        commit.paths if len(commit.paths) <= MOST_PATHS else [],
        commit=commit.id,
        at=commit.at,
        author=commit.author,
        source=f"commit:{commit.id}",
    )
    for number, (kind, text) in enumerate(marked):
        source = f"{about.source}#{number}"
        yield about._replace(text=text, source=source, type=kind, explicit=True)
    if subject.startswith(commit_message.SQUASHED) or len(rest) > _LONGEST:
        return
    first, _, body = rest.partition("\n")
    fixed = _FIXES.search(cleaned)
    if _REVERTING.match(subject) and _REVERTS.search(rest):
        reason = " ".join(_REVERT_LINE.sub("", body).split())
        # One without a reason says nothing that git does not.
        if len(_REFERENCE.sub(" ", reason).split()) >= _REASON:
            yield about._replace(text=f"{first}\n\n{reason}", type="dead-end")
    elif marked or commit_message.ROUTINE.match(subject):
        return
    elif fixed or _reasoned(subject, _REVERT_LINE.sub("", body)):
        yield about._replace(type="bugfix" if fixed else commit_message.type_of(subject))


def _reasoned(subject: str, body: str) -> bool:
    """Whether a message may say why: prose, on no upkeep and no round of a review.

    What is left out was worth keeping in 1 of 5 (docs/evaluation.md).
    """
    lines = [line for line in body.split("\n") if line.strip()]
    if (
        not lines
        or commit_message.prefix(subject) in commit_message.UPKEEP
        or _ROUND.search(subject)
    ):
        return False
    return sum(bool(_LISTED.match(line)) for line in lines) <= _MOST_LISTED * len(lines)


def split(message: str) -> tuple[list[tuple[str, str]], str]:
    """([(type, text) of each trailer that marks a memory], the message without trailers).

    A trailer goes on in lines that begin with a space, or after a line that was broken for its
    length.
    """
    marked: list[tuple[str, list[str]]] = []
    rest: list[str] = []
    going = False
    before = above = ""  # the last line with words, the line above
    for number, line in enumerate(message.split("\n")):
        # A subject may begin like a trailer; what a colon leads to is an example.
        led = before.endswith(":") or (line[:1].islower() and _broken(above))
        found = _marked(line) if number and not led else None
        if found:
            marked.append((found[0], [found[1]]))
            going = True
        elif (
            going
            and line.strip()
            and (
                line[0] in " \t"
                or (len(above) >= _WRAPPED and not commit_message.ANY_TRAILER.match(line))
            )
        ):
            marked[-1][1].append(line.strip())
        else:
            going = False
            rest.append(line)
        above = line.strip()
        before = above or before
    while len(rest) > 1 and (
        not rest[-1].strip()
        or (commit_message.ANY_TRAILER.match(rest[-1]) and not markers.trailer(rest[-1]))
    ):
        rest.pop()
    return [(kind, "\n".join(lines)) for kind, lines in marked], "\n".join(rest).strip()


def _broken(line: str) -> bool:
    """Whether a sentence of this line goes on in the next one."""
    return len(line) >= _WRAPPED and not line.endswith((".", "!", "?", ")"))


def _marked(line: str) -> tuple[str, str] | None:
    """(type, text) of a trailer that its author meant to be kept; "Memory: 120 MB" and "Decision:
    TBD" are none.
    """
    if line[:1] in (" ", "\t", "#"):
        return None
    found = markers.trailer(line)
    if found is not None:
        return found[:2] if found[2] else None
    own = _TRAILER.match(line)
    if not own or not markers.claims(own[2], rule=own[1].lower() == "rejected"):
        return None
    return _ONLY_HERE[own[1].lower()], own[2].strip()
