"""`git mem import sessions`: past sessions of Claude Code and Codex become suggestions.
They lie on this disk, and are found by the directory in which they ran.

Claude Code keeps `<config>/projects/<slug of the directory>/<session>.jsonl`, its subagents one
directory further down (older releases: beside it, as `agent-*.jsonl`). Codex keeps
`<home>/sessions/YYYY/MM/DD/rollout-*.jsonl` and `archived_sessions/`; the first line is
`session_meta`.

Promise: all that is found becomes a suggestion at most, about the commit of the time when it was
said. Files are read, never written, no link is
followed, and one that is damaged stops no other. A file that was read is read again only if it
grew.
"""

from __future__ import annotations

import datetime
import json
import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..capture import capture_exclusions, sources, transcript, worker_tasks
from ..capture.candidates import Candidate, strings
from ..capture.pipeline import Outcome
from ..core import record
from ..core.errors import Refused
from ..core.progress import counted
from ..git.repository import Repo
from ..store import Store
from . import automemory

AT_ONCE = 20  # sessions that one call reads, the newest
_LOOKED_AT = 3_000  # files whose first lines are read, the newest
_WALKED = 100_000  # commits of a branch, the newest
_FIRST_LINES, _LINE = 50, 1_000_000  # of one file, bytes of one line
_READ, _OLDER, _PURGED = "read before", "older", "of a purged memory"
_ELSEWHERE, _SUBAGENTS, _PACKED = "of other repositories", "of subagents", "compressed"
_UNREADABLE = "unreadable"


class Session(NamedTuple):
    agent: str
    path: str
    size: int
    changed: float  # seconds since 1970
    id: str = ""
    head: str = ""  # the commit that it began at, "" where nobody knows
    branch: str = ""


@dataclass
class Found:
    """`new`: the sessions of this repository that were not read, the newest first. `left`: how many
    files are left out, by reason. `places`: the directories that were looked at. `trees`: as
    `Repo.trees` gives them.
    """

    trees: list[str]
    new: list[Session] = field(default_factory=list)
    left: Counter[str] = field(default_factory=Counter)
    places: list[str] = field(default_factory=list)


@dataclass
class Report:
    """What came of the turns of `sessions`. `left`: turns that are left out, by reason."""

    sessions: list[Session] = field(default_factory=list)
    turns: int = 0
    outcomes: list[tuple[Session, Candidate, Outcome]] = field(default_factory=list)
    left: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)  # why texts could not be kept


def find(store: Store, environ: Mapping[str, str], most: int = _LOOKED_AT) -> Found:
    """Reads the first lines of the newest `most` files of each agent."""
    found = Found(store.repo.trees())
    known = transcript.read_before(store.repo.mem_dir)
    for files in (_claude(environ, found), _codex(environ, found)):
        files.sort(key=lambda session: -session.changed)
        found.left[_OLDER] += len(files[most:])
        with store.progress("looking for sessions", len(files[:most])) as advance:
            for session in counted(files[:most], advance):
                if known.get(session.path, -1) >= session.size:
                    found.left[_READ] += 1  # only what is this repository's was ever read
                elif isinstance(about := _about(session, found.trees), str):
                    found.left[about] += 1
                else:
                    found.new.append(about)
    found.new.sort(key=lambda session: -session.changed)
    return found


def take(
    store: Store,
    found: Found,
    *,
    most: int = AT_ONCE,
    dry: bool = False,
) -> Report:
    """Judges what was said in the newest `most` sessions, the older ones first; of each the surest
    `mem.suggestions` texts are suggested.
    """
    report = Report()
    found.left[_OLDER] += len(found.new[most:])
    excluded = capture_exclusions.Closed(store.repo.common_dir)
    share, commits = store.settings.number("suggestions"), _Commits(store.repo)
    chosen = found.new[:most]
    with store.progress("reading sessions", len(chosen)) as advance:
        for session in counted(reversed(chosen), advance):
            source = sources.source_of(session.id, "", "")
            if excluded.has(capture_exclusions.origin(source)):
                found.left[_PURGED] += 1
            else:
                head = store.repo.commit(session.head) or ""
                where = session.id, session.agent, head, session.branch
                texts = transcript.candidates(session.path, where, report.left, found.trees)
                if not head:
                    texts = [c._replace(commit=commits.at(c.branch, c.at)) for c in texts]
                outcomes, wrong, failed = worker_tasks.each(
                    store, texts, most=share, ask_first=True, dry=dry
                )
                report.sessions.append(session)
                report.turns += len(texts)
                rest = (text for text in texts if text not in failed)
                report.outcomes += [(session, c, o) for c, o in zip(rest, outcomes, strict=False)]
                if wrong:
                    report.failed.append(f"'{session.path}': {wrong}")
                elif not dry:
                    transcript.note_read(store.repo.mem_dir, {session.path: session.size})
    return report


class _Commits:
    """At which commit something was said: the newest by then of its branch, if that is still here,
    else of HEAD. One walk for each branch.
    """

    def __init__(self, repo: Repo) -> None:
        self._repo = repo
        self._walks: dict[str, list[tuple[int, str]]] = {}  # (time, commit), the oldest first

    def at(self, branch: str, when: str) -> str:
        """The commit, "" where none is so old or the time is none."""
        try:
            said = int(datetime.datetime.fromisoformat(record.timestamp(when)).timestamp())
        except Refused:
            return ""
        for name in (f"refs/heads/{branch}", "HEAD"):
            walk = self._walk(name)
            if older := bisect_right(walk, said, key=lambda commit: commit[0]):
                return walk[older - 1][1]
        return ""

    def _walk(self, name: str) -> list[tuple[int, str]]:
        if name not in self._walks:
            tip, rows = self._repo.commit(name), []
            if tip:
                words = ("rev-list", "--timestamp", f"--max-count={_WALKED}", tip)
                rows = self._repo.git.text(*words).splitlines()
            self._walks[name] = sorted((int(at), id) for at, id in map(str.split, rows))
        return self._walks[name]


# Where they are


def _claude(environ: Mapping[str, str], found: Found) -> list[Session]:
    top = os.path.join(automemory.config_dir(environ), "projects")
    # Of a long path the slug is cut; a session may have begun below the root.
    starts = tuple(automemory.slug(root)[:200] for root in found.trees)
    found.places.append(top)
    names = [entry for entry in _entries(top) if entry.name.startswith(starts)]
    files = [file for entry in names for file in _entries(entry.path)]
    named = [file for file in files if file.name.endswith(".jsonl")]
    own = [file for file in named if not file.name.startswith("agent-")]
    found.left[_SUBAGENTS] += len(named) - len(own)
    for file in own:
        below = os.path.join(file.path.removesuffix(".jsonl"), "subagents")
        found.left[_SUBAGENTS] += sum(e.name.endswith(".jsonl") for e in _entries(below))
    return [s for file in own if (s := _session("claude", file))]


def _codex(environ: Mapping[str, str], found: Found) -> list[Session]:
    home = environ.get("CODEX_HOME", "") or os.path.join(environ.get("HOME", ""), ".codex")
    days = [os.path.join(home, "sessions")]
    found.places += days
    for _ in ("year", "month", "day"):
        days = [entry.path for day in days for entry in _entries(day) if entry.is_dir()]
    files = [file for day in days for file in _entries(day)]
    files += _entries(os.path.join(home, "archived_sessions"))
    files = [file for file in files if file.name.startswith("rollout-")]
    found.left[_PACKED] += sum(file.name.endswith(".jsonl.zst") for file in files)
    return [s for f in files if f.name.endswith(".jsonl") and (s := _session("codex", f))]


def _entries(directory: str) -> list[os.DirEntry[str]]:
    """What lies in a directory; nothing where it is none, or would depend on where we stand."""
    try:
        return list(os.scandir(directory)) if os.path.isabs(directory) else []
    except (OSError, ValueError):
        return []


def _session(agent: str, file: os.DirEntry[str]) -> Session | None:
    try:
        facts = file.stat(follow_symlinks=False)
        regular = file.is_file(follow_symlinks=False)
    except OSError:
        return None
    return Session(agent, file.path, facts.st_size, facts.st_mtime) if regular else None


# Whose they are


def _about(session: Session, trees: list[str]) -> Session | str:
    """The session with what its first lines say, or why it is left out."""
    first = _first(session.path)
    if first is None:
        return _UNREADABLE
    meta = first.get("payload") if first.get("type") == "session_meta" else first
    if not isinstance(meta, dict):
        return _UNREADABLE
    cwd, id, branch = strings(meta, "cwd", "id", "gitBranch")
    if not transcript.below(cwd, trees):
        return _ELSEWHERE
    source = meta.get("source")
    if meta.get("isSidechain") is True or (isinstance(source, dict) and "subagent" in source):
        return _SUBAGENTS
    if session.agent == "claude":
        name = os.path.basename(session.path).removesuffix(".jsonl")
        return session._replace(id=name, branch=branch)
    git = meta.get("git")
    head, branch = strings(git if isinstance(git, dict) else {}, "commit_hash", "branch")
    return session._replace(id=id, head=head, branch=branch)


def _first(path: str) -> dict[str, Any] | None:
    """The object among the first lines that says where the session ran."""
    try:
        with open(path, "rb", opener=transcript.opened) as f:
            for _ in range(_FIRST_LINES):
                line = f.readline(_LINE)
                if b'"cwd"' not in line:
                    continue
                try:
                    data = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                inner = data.get("payload", data) if isinstance(data, dict) else None
                if isinstance(inner, dict) and isinstance(inner.get("cwd"), str):
                    return dict(data)
    except (OSError, ValueError):
        pass
    return None
