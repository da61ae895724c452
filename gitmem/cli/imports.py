"""The command that brings memories in: import."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from ..agents import automemory, automemory_import, past_sessions
from ..capture import commitlog, pipeline, suggestions
from ..capture.candidates import Candidate
from ..core.errors import GitFailed, MemError, UsageError
from ..core.plural import many
from ..git import commit_reader
from ..memory import adr, remember, transfer, write_gate
from ..migration import formats
from ..migration.drafts import Skipped
from ..store import Store
from .claude import look
from .common import opened, read_file, refused, scope_of, values
from .options import AllowSecret, Answer, argument, command, flag, number, text

_OWN = ("claude", "sessions", "git-log", "adr")


@command("import")
def import_command(
    allow_secret: AllowSecret,
    file: str = argument(
        "[FILE]",
        "A file of `git mem export` (`-`: standard input), or what another tool wrote (its name, or"
        " a path; see --from); `claude`: Claude Code's notes on this project; `sessions`: past"
        " sessions of Claude Code and Codex; `git-log`: commit messages; `adr`: decision records.",
        "",
    ),
    where: str = argument(
        "[WHERE]",
        "git-log: a range (default: newest 5000); adr: a directory (docs/adr and the like); another"
        " tool: a path.",
        "",
    ),
    private: bool = flag(
        "--private",
        "Into private notes (default for `claude`, `git-log`, "
        + ", ".join(name for name, format in formats.FORMATS.items() if format.private)
        + ").",
    ),
    team: bool = flag("--team", "Store them in the shared notes."),
    source: str = text(
        "--from FORMAT",
        f"What wrote FILE, where that is not plain: {', '.join(formats.FORMATS)}; with `claude`: a"
        " directory of topic files to read.",
    ),
    project: str = text("--project NAME", "claude-mem: the project's name there."),
    limit: int = number(
        "--limit", f"sessions: how many at most, the newest (default {past_sessions.AT_ONCE})."
    ),
    dry_run: bool = flag("--dry-run -n", "Only say what would be stored."),
) -> Answer:
    """Take in memories from files, other tools, past sessions and commits; what is known adds
    nothing.
    """
    scope = scope_of(private, team)
    file, where, format = _named(file, where, source)
    own = not format and file in _OWN  # a file of that name is './claude'
    format = format or ("" if own else formats.recognise(file))
    if project and format != "claude-mem":
        raise UsageError("--project goes with claude-mem")
    if (limit and file != "sessions") or (team and file == "sessions"):
        raise UsageError(
            "--limit goes with `git mem import sessions`, which only suggests; `git mem share`"
            " gives a memory to the team"
        )
    captured = "team" if team else "private"  # nobody wrote it as a memory
    with opened() as store:
        if not own:
            piped = read_file("-") if file == "-" else ""
            place = formats.Place(store, file, project, piped)
            answer = _read(place, format, scope, allow_secret, dry_run)
        elif file == "claude":
            answer = _claude(store, source, captured, allow_secret, dry_run)
        elif file == "sessions":
            answer = _sessions(store, limit or past_sessions.AT_ONCE, dry_run)
        elif file == "git-log":
            answer = _log(store, where, captured, dry_run)
        else:
            place_given = os.path.abspath(where) if where else ""
            how: Any = {"scope": scope, "allow_secret": allow_secret, "dry": dry_run}
            answer = _followed(adr.take(store, place_given, **how), "path", "files", dry_run)
        if not dry_run:
            store.with_cache(lambda cache: cache.count())
        return answer


def _named(file: str, where: str, source: str) -> tuple[str, str, str]:
    """(what is read, the range or directory of git-log or adr, the format that was named)."""
    if where and file not in ("git-log", "adr", *formats.FORMATS):
        raise UsageError("a range goes with git-log, a directory with adr or another tool's name")
    if not source and file in formats.FORMATS:  # a file of that name is './beads'
        return where, "", file
    if not source or file == "claude":
        if not file:
            raise UsageError("nothing to import is named", hint="`git mem help import` says what")
        return file, where, ""
    if source not in formats.FORMATS:
        known = ", ".join(formats.FORMATS)
        raise UsageError(f"--from is '{source}', no known format", hint=f"one of {known}")
    if file in _OWN or where:
        raise UsageError("--from goes with one file or directory")
    return file, "", source


def _read(place: formats.Place, name: str, scope: str, allow_secret: bool, dry: bool) -> Answer:
    """What `git mem export`, or another tool, has written."""
    found, what = (formats.FORMATS[name], f" of {name}") if name else (formats.OWN, "")
    drafts, skipped = [], []
    for entry in found.read(place):
        if isinstance(entry, Skipped):
            skipped.append(entry)
        else:
            entry.setdefault("scope", "private" if found.private else "")
            drafts.append(entry)
    if not drafts and not skipped:
        hint = f"looked in {found.place}"
        if place.path:  # else the format was named
            where = "standard input" if place.path == "-" else place.path
            hint = f"looked in {where}; `--from FORMAT` names what wrote it"
        raise MemError(f"nothing{what} to import", hint=hint)
    broken = [one for one in skipped if one.broken]
    left = [one for one in skipped if not one.broken]
    for one in broken:
        refused(f"'{one.where}': {one.why}" if one.where else one.why)
    unknown = transfer.settle(place.store, drafts, scope)
    how: Any = {"total": len(drafts), "allow_secret": allow_secret, "dry": dry}
    results = [*remember.remember_many(place.store, drafts, **how)]
    for i, (draft, r) in enumerate(zip(drafts, results, strict=True), 1):
        if r.status == "refused":
            source = draft.get("source")
            refused(f"'{source}': {r.reason}" if source else f"memory {i}: {r.reason}")
    moved = sum(results[i].status == "stored" for i in unknown)
    counts, would = _counts(results, "stored", "duplicate", "refused"), _would(dry)
    failed = counts["refused"] + len(broken)
    new = [r for r in results if r.status == "stored" and name]
    lines = [f"{r.id[:8]} {r.title}" if r.id else f"would be stored: {r.title}" for r in new]
    other = [r for r in results if r.reason == remember.OTHER_TEXT]
    changed = [f"{r.id[:8]} is known by its source, with another text: {r.title}" for r in other]
    told = [*_shortened(lines), *_left_out(left), *_shortened(changed)]
    summary = (
        f"{counts['stored']:,} {would}stored, {counts['duplicate']:,} known, {failed:,} refused"
    )
    told.append(summary + (f", {len(left)} left out" if left else ""))
    if cut := sum(r.status == "stored" and bool(r.reason) for r in results):
        told.append(f"{write_gate.LEFT_OUT} of {many(cut, 'memory')}")
    if moved:
        done = "would be attached" if dry else "attached"
        told.append(f"{many(moved, 'memory')} {done} to HEAD, without lines: no such commit here")
    facts = {
        **({"format": name} if name else {}),
        "broken": len(broken),
        "left_out": [values(one, "where", "why") for one in left],
        "moved_to_head": moved,
        "dry_run": dry,
        "other_text": [r.id for r in other],
    }
    return Answer({**counts, **facts}, told, 1 if failed else 0)


_SHOWN = 20  # lines of what was stored, names of what was left out for one reason


def _shortened(lines: list[str]) -> list[str]:
    if len(lines) <= _SHOWN:
        return lines
    return [*lines[: _SHOWN - 1], f"… and {len(lines) - _SHOWN + 1} more"]


def _left_out(left: list[Skipped]) -> Iterator[str]:
    """A line a reason."""
    for why in dict.fromkeys(one.why for one in left):
        names = [one.where for one in left if one.why == why]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        yield f"left out {', '.join(names[:3])}{more}: {why}"


def _counts(items: Iterable[Any], *statuses: str) -> dict[str, int]:
    found = Counter(item.status for item in items)
    return {status: found[status] for status in statuses}


def _would(dry: bool) -> str:
    return "would be " if dry else ""


def _followed(
    items: list[Any], place: str, listed: str, dry: bool, facts: dict[str, Any] | None = None
) -> Answer:
    """The answer about files that memories follow. `place`: the attribute that names the file;
    `listed`: the key of the list of files.
    """
    counts, would = _counts(items, "stored", "edited", "known", "left out", "refused"), _would(dry)
    known = counts["known"] + sum(item.status == "ours" for item in items)
    lines = []
    for item in items:
        where, id = getattr(item, place), f"{item.id[:8]} " if item.id else ""
        if item.status == "refused":
            refused(f"'{where}': {item.reason}", getattr(item, "hint", ""))
        elif item.status in ("stored", "edited"):
            why = f" ({item.reason})" if item.reason else ""
            lines.append(f"{id}{would}{item.status} {where}: {item.title}{why}")
        elif item.status == "left out":
            lines.append(f"left out {where}: {item.reason}")
    lines.append(
        f"{counts['stored']} {would}stored, {counts['edited']} {would}edited,"
        f" {known} known, {counts['left out']} left out, {counts['refused']} refused"
    )
    files = [values(item, place, "status", "id", "title", "reason") for item in items]
    found = {"dry_run": dry, **{name.replace(" ", "_"): n for name, n in counts.items()}}
    return Answer({**found, **(facts or {}), listed: files}, lines, 1 if counts["refused"] else 0)


def _claude(store: Store, directory: str, scope: str, allow_secret: bool, dry: bool) -> Answer:
    sight = None if directory else look(store)
    if sight and sight.refused:
        raise MemError(
            f"'.claude/settings.json' names the directory '{sight.refused}', which is outside the"
            " repository",
            hint="a committed file may not say what is read here; if you trust it, name the"
            " directory with --from",
        )
    path = sight.path if sight else os.path.abspath(directory)
    report = automemory_import.take(store, path, scope=scope, allow_secret=allow_secret, dry=dry)
    if sight and not dry:
        automemory.keep(store.repo.mem_dir, sight)
    ours = sum(item.status == "ours" for item in report.items)
    facts = {"directory": report.directory, "ours": ours, "missing": report.missing}
    answer = _followed(report.items, "file", "topics", dry, facts)
    missing = [f"MEMORY.md names '{name}', which is not there" for name in report.missing]
    return answer._replace(text=[*answer.text, *missing])


def _sessions(store: Store, most: int, dry: bool) -> Answer:
    """Suggests what was said in past sessions; nothing becomes a memory."""
    found = past_sessions.find(store, os.environ)
    if not found.new and not any(found.left.values()):
        places = " and ".join(f"'{place}'" for place in found.places)
        raise MemError("no sessions of this repository", hint=f"looked in {places}")
    report = past_sessions.take(store, found, most=most, dry=dry)
    for why in report.failed:
        refused(why)
    outcomes = [o for _, _, o in report.outcomes]
    counts = _counts(outcomes, "suggested", "known", "refused", "skipped")
    lines, suggested = [], []
    for session, c, o in report.outcomes:
        if o.status == "suggested":
            lines.append(_judged(c, o, f"{session.agent} {c.at[:10]}", dry))
            origin = {"agent": session.agent, **values(c, "session", "role")}
            suggested.append({**origin, **_verdict(c, o), "created_at": c.at or None})
    lines.append(
        f"{counts['suggested']} {_would(dry)}suggested, {counts['known']} known,"
        f" {counts['refused']} refused (they look like secrets), of {many(report.turns, 'turn')} in"
        f" {many(len(report.sessions), 'session')}{_beyond(outcomes)}"
    )
    left_out: dict[str, Any] = {}
    for noun, left in (("sessions", found.left), ("turns", report.left)):
        left_out[noun] = {why: n for why, n in left.items() if n}
        if left_out[noun]:
            told = ", ".join(f"{n} {why}" for why, n in left_out[noun].items())
            lines.append(f"{noun} left out: {told}")
    left_out["less_sure"] = sum(o.reason == pipeline.BEYOND for o in outcomes)
    if counts["suggested"] and not dry:
        lines.append("nothing is a memory yet: `git mem review` decides about suggestions")
    facts = {"dry_run": dry, "sessions": len(report.sessions), "turns": report.turns, **counts}
    answer = {**facts, "left_out": left_out, "suggestions": suggested}
    return Answer(answer, lines, 1 if report.failed else 0)


def _judged(c: Candidate, o: pipeline.Outcome, origin: str, dry: bool) -> str:
    """One line about a text that capture would keep or suggest."""
    id = f"{o.id[:8]} " if o.id else ""
    return f"{id}{_would(dry)}{o.status} {origin} {o.type}: {c.text.partition(chr(10))[0][:100]}"


def _verdict(c: Candidate, o: pipeline.Outcome) -> dict[str, Any]:
    """The same for --json; a refused text is not repeated."""
    return {
        **values(o, "id"),
        "type": o.type or None,
        "confidence": round(o.confidence, 4),
        "body": c.text if o.status != "refused" else None,
        "supersedes": o.old or None,
    }


def _beyond(outcomes: Iterable[pipeline.Outcome]) -> str:
    beyond = sum(o.reason == pipeline.BEYOND for o in outcomes)
    return f"; {beyond} less sure ones were left out" if beyond else ""


def _log(store: Store, given: str, scope: str, dry: bool) -> Answer:
    """Keeps what commit messages say for certain; proposes the surest of the rest."""
    hint = "write it like v1.0..HEAD"
    if given.startswith("-"):
        raise UsageError(f"'{given}' is no range of commits", hint=hint)
    commits = []
    if given or store.repo.head():
        most = 1_000_000 if ".." in given else 5_000
        try:
            commits = commit_reader.read_counted(
                store.repo.git, given or "HEAD", most, store.progress
            )
        except GitFailed as e:
            raise UsageError(f"git knows no commits '{given}'", hint=hint) from e
    candidates = commitlog.candidates(commits)
    most = store.settings.number("suggestions") * suggestions.HELD
    outcomes = pipeline.keep(store, candidates, scope=scope, most=most, dry=dry)
    counts = _counts(outcomes, "kept", "suggested", "known", "refused", "skipped")
    lines, kept = [], []
    for c, o in zip(candidates, outcomes, strict=True):
        if o.status == "refused":
            refused(f"commit {c.commit[:8]}: {o.reason}")
        elif o.status in ("kept", "suggested"):
            lines.append(_judged(c, o, c.commit[:8], dry))
        else:
            continue
        about = {**values(c, "commit", "paths"), **values(o, "status", "reason")}
        kept.append({**about, **_verdict(c, o), "stage": o.stage or None})
    would, decide = _would(dry), "; `git mem review` decides about suggestions"
    lines.append(
        f"{counts['kept']} {would}kept, {counts['suggested']} {would}suggested,"
        f" {counts['known']} known, {counts['refused']} refused, of {many(len(commits), 'commit')}"
        f"{_beyond(outcomes)}{decide * bool(counts['suggested'] and not dry)}"
    )
    found = {"dry_run": dry, "commits": len(commits), **counts, "memories": kept}
    return Answer(found, lines)
