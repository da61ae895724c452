"""What commit messages say that is worth keeping: trailers, reasons, reverts, repairs. Needs no
agent.

A trailer `Decision:`, `Learned:`, `Gotcha:` and its like is a memory that its
author marked; a revert with a reason is a dead end; a commit that `Fixes:`
another is a bug with its cause; any other message in prose that is no upkeep is
a candidate. Of a `fixup!` only the trailers count; a merge, a release, a machine's
message are nothing. A conventional prefix ("fix:") names the type.

Promise: git is asked in two calls, however many commits (a third where a partial clone lacks
directories); what was looked at is bounded by the caller; paths are those the commit changed; a
candidate's source is `commit:<id>`, so looking again makes nothing twice, and an amended commit's
text is known by what it says."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator

from ..core.errors import GitFailed
from ..git import memfile
from ..git.gitcmd import NO_FETCH, Git
from . import markers, strip
from .sources import COMMIT, Candidate

AT_ONCE = 200  # commits that one look takes in, the newest
FAILED = "commits.failed"  # beside it: how often what a commit says could not be kept
TRIES = 10  # failures after which a commit is passed over
_MOST_FAILED = 1_000  # commits that are counted
SEEN = "commits.seen"  # in the cache directory: the HEAD up to which commits were looked at
_PATHS = 10  # files of one commit: more say that it is about none of them
_LONGEST = 8_000  # characters of a message without its trailers
_MOST = 200_000  # ... of one that is read at all

# Words of trailers that only commits have, beside `markers.TRAILERS`.
_ONLY_HERE = {"rejected": "dead-end", "remember": "learning"}
_TRAILER = re.compile(rf"^({'|'.join(_ONLY_HERE)})[ \t]*:[ \t]*(\S.*)$", re.IGNORECASE)
_ANY_TRAILER = re.compile(
    r"^[A-Z][A-Za-z]*(?:-[A-Za-z]+)*: \S|^\(cherry picked from commit [0-9a-f]{7,64}\)$"
)
# What programs write under a message that they had a part in.
# Within a line: what goes on to the next one would be tried at each, 54 s for 40 KB of fences.
_GENERATOR = re.compile(
    r"^[^\w\n]*(?:(?:generated|created|made|written|authored|assisted|powered) (?:with|by|using)"
    r"|co-?authored-by:|amp-thread|claude-session:).*\b(?:claude|anthropic|copilot|cursor|codex"
    r"|openai|gemini|chatgpt|gpt|aider|devin|windsurf|jules|amp|ai|llm|bot)\b.*$",
    re.IGNORECASE | re.MULTILINE,
)
_WRAPPED = 50  # characters after which a line may have been broken
_SQUASHED = ("fixup! ", "squash! ", "amend! ")
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
_BOT = re.compile(
    r"\[bot\]|dependabot|renovate|github-actions|noreply@(?:github|google)\.com|mergify|semantic-release",
    re.IGNORECASE,
)
_ROUTINE = re.compile(
    r"^(?:[a-z]+(?:\([^)]*\))?!?:"
    r" )?(?:(?:bump|release|version|prepare|publish)\b(?:.*\bv?\d+(?:\.\d+)+\S*|.*\bfrom v?\d+"
    r" to\b.*|\W*$| version\W*$)|v?\d+\.\d+\S*\W*$|update (?:the"
    r" )?(?:changelog|dependenc(?:y|ies)|deps|lock ?files?)\W*$|"
    r"merge (?:branch|pull request|remote-tracking|tag|commit)\b|merge\W*$|wip\b|initial"
    r" commit\W*$|(?:fix )?typos?\b|lint(?:ing|er)?\W*$|(?:re)?format(?:ting|ted)?(?: (?:the"
    r" )?code)?\W*$)|^(?:chore|build)\(deps[^)]*\)",
    re.IGNORECASE,
)
_CONVENTIONAL = re.compile(r"^([a-z]+)(?:\([^)]*\))?!?: ", re.IGNORECASE)
# What its author calls a commit -> the type of seed 001, as sure as the author.
TYPES = {
    "feat": "feature",
    "feature": "feature",
    "fix": "bugfix",
    "bugfix": "bugfix",
    "hotfix": "bugfix",
    "refactor": "refactor",
    "perf": "change",
    "docs": "change",
    "doc": "change",
    "chore": "change",
    "style": "change",
    "test": "change",
    "tests": "change",
    "ci": "change",
    "build": "change",
    "deps": "change",
}
_UPKEEP = frozenset(name for name, type in TYPES.items() if type == "change" and name != "perf")
# A round of a review, a step on the way: what it says is about that, not about the code.
_ROUND = re.compile(
    r"\b(?:address(?:es|ed)?|review(?:er)?s?|R\d|feedback|nits?|PR"
    r" #\d+|wip|partial|follow-?ups?)\b",
    re.IGNORECASE,
)
_LISTED = re.compile(r"\s*(?:[-*+•]|\d+[.)])\s")
_MOST_LISTED = 0.2  # share of a body's lines: more are a list of what was done


class Commit:
    """One commit as git tells it; `paths`: the files it changed."""

    __slots__ = ("at", "author", "id", "message", "paths")

    def __init__(self, id: str, at: str, author: str, message: str, paths: list[str]) -> None:
        self.id = id
        self.at = at
        self.author = author
        self.message = message
        self.paths = paths


def seen(mem_dir: str) -> list[str]:
    """The commits up to which commits were looked at, one for each worktree; none where nobody
    knows.
    """
    try:
        found = memfile.read(os.path.join(mem_dir, SEEN), 20_000).decode("ascii").split()
    except (OSError, ValueError):
        return []
    return [id for id in found if len(id) in (40, 64) and all(c in "0123456789abcdef" for c in id)]


def keep_seen(mem_dir: str, heads: list[str]) -> None:
    """Notes that everything up to these commits was looked at."""
    _write(os.path.join(mem_dir, SEEN), heads)


def _write(path: str, lines: list[str]) -> None:
    memfile.write(path, ("\n".join(lines) + "\n").encode("ascii"))


def failed(mem_dir: str) -> dict[str, int]:
    """{commit: how often what it says could not be kept}."""
    try:
        content = memfile.read(os.path.join(mem_dir, FAILED), 200_000).decode("ascii")
        rows = [line.split() for line in content.split("\n")]
    except (OSError, ValueError):
        return {}
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}


def given_up(mem_dir: str) -> list[str]:
    """The commits that are passed over, since keeping what they say failed TRIES times."""
    return [id for id, count in failed(mem_dir).items() if count >= TRIES]


def note_failed(mem_dir: str, commits: Iterable[str]) -> None:
    """Counts one more failure for each: else every worker would try again for ever, and everything
    after it.
    """
    before = failed(mem_dir)
    counts = {**before, **{id: before.get(id, 0) + 1 for id in commits}}
    _write(
        os.path.join(mem_dir, FAILED),
        [f"{id} {count}" for id, count in list(counts.items())[-_MOST_FAILED:]],
    )


def read(
    git: Git, revisions: list[str], known: list[str], most: int, walk: bool = True
) -> list[Commit]:
    """The newest `most` commits of these revisions that are not in the history of `known`, oldest
    first; no merges. `walk` false: only those named. Raises GitFailed for what is no revision.

    Without the paths where a partial clone would fetch directories for them.
    """
    mark = os.urandom(
        8
    ).hex()  # a message may hold any byte but NUL, so what parts them is nothing it can foresee
    words = [
        "log",
        "--no-merges",
        f"--max-count={most}",
        "--no-show-signature",
        "--no-color",
        "--no-ext-diff",
        "--no-notes",
        "-z",
        *([] if walk else ["--no-walk"]),
        f"--format={mark}%H%x00%cI%x00%aN <%aE>%x00%B{mark}",
    ]
    which = ["--end-of-options", *revisions, *(f"^{k}" for k in known), "--"]
    try:
        raw = git.run(*words, "--name-only", "--no-renames", *which, env=NO_FETCH)
    except GitFailed:
        if not git.partial:
            raise
        raw = git.run(*words, *which, env=NO_FETCH)
    parts = raw.decode("utf-8", "replace").split(mark)
    found = [
        c
        for about, files in zip(parts[1::2], parts[2::2], strict=False)
        if (c := _commit(about, files))
    ]
    found.reverse()
    return found


def _commit(about: str, files: str) -> Commit | None:
    words = about.split("\0")
    if len(words) != 4:
        return None
    return Commit(
        words[0],
        words[1],
        words[2],
        words[3],
        [name.strip("\n") for name in files.split("\0") if name.strip("\n")],
    )


def candidates(commits: Iterable[Commit]) -> list[Candidate]:
    """What these commits say, in their order."""
    return [c for commit in commits for c in _of(commit)]


def _of(commit: Commit) -> Iterator[Candidate]:
    message = commit.message.replace("\r\n", "\n").strip()
    subject = message.partition("\n")[0]
    if _BOT.search(commit.author) or len(message) > _MOST:
        return
    cleaned = _GENERATOR.sub("", strip.cleaned(message)).strip()
    if not cleaned:
        return
    paths = commit.paths if len(commit.paths) <= _PATHS else []
    marked, rest = split(cleaned)
    about = {"paths": paths, "commit": commit.id, "at": commit.at, "author": commit.author}
    for number, (kind, text) in enumerate(marked):
        yield Candidate(
            COMMIT,
            text,
            source=f"commit:{commit.id}#{number}",
            type=kind,
            explicit=True,
            **about,  # type: ignore[arg-type]
        )
    if subject.startswith(_SQUASHED) or len(rest) > _LONGEST:
        return
    reverted, fixed = _REVERTING.match(subject) and _REVERTS.search(rest), _FIXES.search(cleaned)
    body = rest.partition("\n")[2].strip()
    if reverted:
        reason = " ".join(_REVERT_LINE.sub("", body).split())
        if (
            len(_REFERENCE.sub(" ", reason).split()) >= _REASON
        ):  # one without a reason says nothing that git does not
            yield Candidate(
                COMMIT,
                f"{rest.partition(chr(10))[0]}\n\n{reason}",
                source=f"commit:{commit.id}",
                type="dead-end",
                **about,  # type: ignore[arg-type]
            )
    elif (
        not _ROUTINE.match(subject)
        and (fixed or reasoned(subject, _REVERT_LINE.sub("", body)))
        and not marked
    ):
        yield Candidate(
            COMMIT,
            rest,
            source=f"commit:{commit.id}",
            type="bugfix" if fixed else named(subject),
            **about,  # type: ignore[arg-type]
        )


def named(subject: str) -> str:
    """The type that a conventional prefix gives ("feat: …"), "" without one."""
    found = _CONVENTIONAL.match(subject)
    return TYPES.get(found[1].lower(), "") if found else ""


def reasoned(subject: str, body: str) -> bool:
    """Whether a message may say why: prose, on no upkeep and no round of a review.

    What is left out was worth keeping in 1 of 5 (docs/evaluation.md).
    """
    prefix = _CONVENTIONAL.match(subject)
    if (prefix and prefix[1].lower() in _UPKEEP) or _ROUND.search(subject):
        return False
    lines = [line for line in body.split("\n") if line.strip()]
    return bool(lines) and sum(bool(_LISTED.match(line)) for line in lines) <= _MOST_LISTED * len(
        lines
    )


def split(message: str) -> tuple[list[tuple[str, str]], str]:
    """([(type, text) of each trailer that marks a memory], the message without trailers).

    A trailer goes on in lines that begin with a space, or after a line that was broken for its
    length.
    """
    marked: list[tuple[str, list[str]]] = []
    rest: list[str] = []
    going = False
    before = ""
    for number, line in enumerate(message.split("\n")):
        found = (
            _marked(line) if number and not before.endswith(":") else None
        )  # a subject may begin like one; what a colon leads to is an example
        if found:
            marked.append((found[0], [found[1]]))
            going = True
        elif (
            going
            and line.strip()
            and (
                line[:1] in (" ", "\t")
                or (len(marked[-1][1][-1]) >= _WRAPPED and not _ANY_TRAILER.match(line))
            )
        ):
            marked[-1][1].append(line.strip())
        else:
            going = False
            rest.append(line)
        before = line.strip() or before
    while len(rest) > 1 and (
        not rest[-1].strip() or (_ANY_TRAILER.match(rest[-1]) and not markers.trailer(rest[-1]))
    ):
        rest.pop()
    return [(kind, "\n".join(lines)) for kind, lines in marked], "\n".join(rest).strip()


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
    return (
        (_ONLY_HERE[own[1].lower()], own[2].strip())
        if own and markers.claims(own[2], rule=own[1].lower() == "rejected")
        else None
    )
