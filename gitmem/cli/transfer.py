"""Commands that take memories elsewhere and bring them in: export, import."""

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import typer

from .. import render
from ..agents import automemory, automemory_import, past_sessions
from ..capture import commitlog, pipeline, suggestions
from ..capture.candidates import Candidate
from ..core.errors import GitFailed, MemError, UsageError
from ..core.plural import many
from ..engine.filters import Filter
from ..git import commit_reader
from ..memory import adr, listing, remember, transfer
from ..store import Store
from .claude import export_claude, look
from .common import (
    opened,
    read_file,
    refused,
    scope_of,
    values,
    write,
    write_file,
)  # fmt: skip
from .options import AllowSecret, Answer, argument, command, flag, number, text


@command("export")
def export_command(
    what: str = argument(
        "[claude]", "claude: as files of Claude Code's auto memory, which it loads by itself.", ""
    ),
    output: str = text("-o --output FILE", "Where to write (default: standard output)."),
    format: str = text("--format", "jsonl (default) or md."),
    scope: str = text("--scope", "team (default), private, or all."),
    limit: int = typer.Option(
        0, min=0, max=150, metavar="N", help="claude: at most so many memories (default 50)."
    ),
    remove: bool = flag("--remove", "claude: take those files out again."),
    dry_run: bool = flag("--dry-run -n", "claude: write nothing, say what would be written."),
    quiet: bool = flag("-q --quiet", "claude: print nothing but errors."),
    as_json: bool = flag("--json", "claude: print JSON; else the same as --format jsonl."),
) -> Answer | int:
    """Write memories as JSON Lines or Markdown, for `git mem import`, or for Claude Code."""
    if what not in ("", "claude"):
        raise UsageError(f"git mem cannot export to '{what}'", hint="-o FILE writes a file")
    if what and (output or format or scope):
        raise UsageError("`git mem export claude` takes no --output, --format or --scope")
    if not what and (limit or remove or dry_run or quiet):
        raise UsageError("--limit, --remove, --dry-run and --quiet go with `git mem export claude`")
    if what:
        with opened() as store:
            return export_claude(store, limit, remove, dry_run, quiet)
    output, format, scope = output or "-", format or "jsonl", scope or "team"
    if as_json and format != "jsonl":
        raise UsageError("--json and --format md are two formats")
    if format not in ("jsonl", "md"):
        raise UsageError(f"--format is jsonl or md, not '{format}'")
    if scope not in ("team", "private", "all"):
        raise UsageError(f"--scope is team, private or all, not '{scope}'")
    with opened() as store:
        which = Filter(scope="" if scope == "all" else scope)
        items = listing.list_memories(store, which, all_branches=True).items
        several = sum("alternatives" in item for item in items)
        if several:
            have = f"{many(several, 'memory')} {'has' if several == 1 else 'have'}"
            store.warn(f"warning: {have} alternatives: the newest text of each is written")
        items.reverse()  # oldest first, so that an import keeps the order
        lines = transfer.to_jsonl(items) if format == "jsonl" else transfer.to_markdown(items)
        if output != "-":
            write_file(output, lines)
            write(f"{len(items)} memories written to '{output}'")
            return 0
        if render.is_terminal():
            lines = (render.safe(text, lines=True) for text in lines)
        sys.stdout.writelines(lines)
        return 0


@command("import")
def import_command(
    allow_secret: AllowSecret,
    file: str = argument(
        "",
        "A file of `git mem export` (`-`: standard input); `claude`: Claude Code's notes on this"
        " project; `sessions`: what you and agents said in this repository (Claude Code, Codex);"
        " `git-log`: what commit messages say; `adr`: decision records in the tree.",
    ),
    where: str = argument(
        "", "git-log: a range (default: newest 5000); adr: a directory (docs/adr and the like).", ""
    ),
    private: bool = flag("--private", "Into private notes (default for `claude` and `git-log`)."),
    team: bool = flag("--team", "Store them in the shared notes."),
    directory: str = text("--from DIR", "claude: read this directory of topic files."),
    limit: int = number(
        "--limit", f"sessions: how many at most, the newest (default {past_sessions.AT_ONCE})."
    ),
    dry_run: bool = flag("--dry-run -n", "claude, sessions, git-log, adr: only say what it finds."),
) -> Answer:
    """Read memories that `git mem export` wrote, Claude Code's auto memory, past sessions, commit
    messages or decision records; what is known adds nothing.
    """
    scope = scope_of(private, team)
    if directory and file != "claude":
        raise UsageError("--from goes with `git mem import claude`")
    sources = ("git-log", "adr")
    if (dry_run and file not in ("claude", "sessions", *sources)) or (
        where and file not in sources
    ):
        raise UsageError(
            "--dry-run goes with claude, sessions, git-log and adr, a range with git-log, a"
            " directory with adr"
        )
    if (limit and file != "sessions") or (team and file == "sessions"):
        raise UsageError(
            "--limit goes with `git mem import sessions`, which only suggests; `git mem share`"
            " gives a memory to the team"
        )
    captured = "team" if team else "private"  # nobody wrote it as a memory
    with opened() as store:
        if file == "claude":  # a file of that name is './claude'
            answer = _claude(store, directory, captured, allow_secret, dry_run)
        elif file == "sessions":
            answer = _sessions(store, limit or past_sessions.AT_ONCE, dry_run)
        elif file == "git-log":
            answer = _log(store, where, captured, dry_run)
        elif file == "adr":
            answer = _adr(store, where, scope, allow_secret, dry_run)
        else:
            answer = _file(store, file, scope, allow_secret)
        if not dry_run:
            store.with_cache(lambda cache: cache.count())
        return answer


def _file(store: Store, file: str, scope: str, allow_secret: bool) -> Answer:
    drafts, broken, moved = transfer.drafts_of(store, read_file(file), scope)
    for line in broken:
        refused(line)
    total = len(drafts)
    results = [*remember.remember_many(store, drafts, total=total, allow_secret=allow_secret)]
    for i, result in enumerate(results, 1):
        if result.status == "refused":
            refused(f"memory {i}: {result.reason}")
    counts = _counts(results, "stored", "duplicate", "refused")
    failed = counts["refused"] + len(broken)
    lines = [f"{counts['stored']} stored, {counts['duplicate']} known, {failed} refused"]
    if moved:
        lines.append(f"{moved} name a commit that is not here; they were attached to HEAD")
    found = {**counts, "broken": len(broken), "moved_to_head": moved}
    return Answer(found, lines, 1 if failed else 0)


def _counts(items: Iterable[Any], *statuses: str) -> dict[str, int]:
    found = Counter(item.status for item in items)
    return {status: found[status] for status in statuses}


def _would(dry: bool) -> str:
    return "would be " if dry else ""


def _changes(items: list[Any], place: str, would: str) -> Iterator[str]:
    """A line for each item that changes something or is left out; refused ones are named at once.
    `place`: the attribute that says where an item comes from; `would`: of `_would`.
    """
    for item in items:
        where, id = getattr(item, place), f"{item.id[:8]} " if item.id else ""
        if item.status == "refused":
            refused(f"'{where}': {item.reason}", getattr(item, "hint", ""))
        elif item.status in ("stored", "edited"):
            why = f" ({item.reason})" if item.reason else ""
            yield f"{id}{would}{item.status} {where}: {item.title}{why}"
        elif item.status == "left out":
            yield f"left out {where}: {item.reason}"


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
    counts = _counts(report.items, "stored", "edited", "known", "ours", "refused")
    would = _would(dry)
    lines = [*_changes(report.items, "file", would)]
    lines.append(
        f"{counts['stored']} {would}stored, {counts['edited']} {would}edited,"
        f" {counts['known'] + counts['ours']} known, {counts['refused']} refused,"
        f" from '{report.directory}'"
    )
    lines += [f"MEMORY.md names '{name}', which is not there" for name in report.missing]
    topics = [values(i, "file", "status", "id", "title", "reason") for i in report.items]
    found = {"directory": report.directory, "dry_run": dry, **counts, "missing": report.missing}
    return Answer({**found, "topics": topics}, lines, 1 if counts["refused"] else 0)


def _sessions(store: Store, most: int, dry: bool) -> Answer:
    """Suggests what was said in past sessions; nothing becomes a memory."""
    found = past_sessions.find(store, os.environ)
    if not found.new and not any(found.left.values()):
        places = " and ".join(f"'{place}'" for place in found.places)
        raise MemError("no sessions of this repository", hint=f"looked in {places}")
    report = past_sessions.take(store, found, most=most, dry=dry)
    for why in report.failed:
        refused(why)
    counts = _counts((o for _, _, o in report.outcomes), "suggested", "known", "refused", "skipped")
    lines, suggested, would = [], [], _would(dry)
    for session, c, o in report.outcomes:
        if o.status == "suggested":
            lines.append(_judged(c, o, f"{session.agent} {c.at[:10]}", would))
            origin = {"agent": session.agent, **values(c, "session", "role")}
            suggested.append({**origin, **_verdict(c, o), "created_at": c.at or None})
    beyond = sum(o.reason == pipeline.BEYOND for _, _, o in report.outcomes)
    lines.append(
        f"{counts['suggested']} {would}suggested, {counts['known']} known, {counts['refused']}"
        f" refused (they look like secrets), of {many(report.turns, 'turn')} in"
        f" {many(len(report.sessions), 'session')}"
    )
    if beyond:
        lines[-1] += f"; {beyond} less sure ones were left out"
    for noun, left in (("session", found.left), ("turn", report.left)):
        if any(left.values()):
            told = ", ".join(f"{n} {why}" for why, n in left.items() if n)
            lines.append(f"{noun}s left out: {told}")
    if counts["suggested"] and not dry:
        lines.append("nothing is a memory yet: `git mem review` decides about suggestions")
    facts = {"dry_run": dry, "sessions": len(report.sessions), "turns": report.turns, **counts}
    left_out = {
        "sessions": {why: n for why, n in found.left.items() if n},
        "turns": {why: n for why, n in report.left.items() if n},
        "less_sure": beyond,
    }
    answer = {**facts, "left_out": left_out, "suggestions": suggested}
    return Answer(answer, lines, 1 if report.failed else 0)


def _judged(c: Candidate, o: pipeline.Outcome, origin: str, would: str) -> str:
    """One line about a text that capture would keep or suggest."""
    id = f"{o.id[:8]} " if o.id else ""
    return f"{id}{would}{o.status} {origin} {o.type}: {c.text.partition(chr(10))[0][:100]}"


def _verdict(c: Candidate, o: pipeline.Outcome) -> dict[str, Any]:
    """The same for --json; a refused text is not repeated."""
    return {
        **values(o, "id"),
        "type": o.type or None,
        "confidence": round(o.confidence, 4),
        "body": c.text if o.status != "refused" else None,
        "supersedes": o.old or None,
    }


def _log(store: Store, given: str, scope: str, dry: bool) -> Answer:
    """Keeps what commit messages say for certain; proposes the surest of the rest."""
    hint = "write it like v1.0..HEAD"
    if given.startswith("-"):
        raise UsageError(f"'{given}' is no range of commits", hint=hint)
    commits = []
    if given or store.repo.head():
        most = 1_000_000 if ".." in given else 5_000
        try:
            commits = commit_reader.read(store.repo.git, [given or "HEAD"], [], most)
        except GitFailed as e:
            raise UsageError(f"git knows no commits '{given}'", hint=hint) from e
    candidates = commitlog.candidates(commits)
    most = store.settings.number("suggestions") * suggestions.HELD
    outcomes = pipeline.keep(store, candidates, scope=scope, most=most, dry=dry)
    counts = _counts(outcomes, "kept", "suggested", "known", "refused", "skipped")
    lines, kept, would = [], [], _would(dry)
    for c, o in zip(candidates, outcomes, strict=True):
        if o.status not in ("kept", "suggested", "refused"):
            continue
        if o.status == "refused":
            refused(f"commit {c.commit[:8]}: {o.reason}")
        else:
            lines.append(_judged(c, o, c.commit[:8], would))
        about = {**values(c, "commit", "paths"), **values(o, "status", "reason")}
        kept.append({**about, **_verdict(c, o), "stage": o.stage or None})
    summary = (
        f"{counts['kept']} {would}kept, {counts['suggested']} {would}suggested,"
        f" {counts['known']} known, {counts['refused']} refused, of {len(commits)} commits"
    )
    if beyond := sum(o.reason == pipeline.BEYOND for o in outcomes):
        summary += f"; {beyond} less sure ones were left out"
    if counts["suggested"] and not dry:
        summary += "; `git mem review` decides about suggestions"
    found = {"dry_run": dry, "commits": len(commits), **counts, "memories": kept}
    return Answer(found, [*lines, summary])


def _adr(store: Store, given: str, scope: str, allow_secret: bool, dry: bool) -> Answer:
    place = os.path.abspath(given) if given else ""
    items = adr.take(store, place, scope=scope, allow_secret=allow_secret, dry=dry)
    counts = _counts(items, "stored", "edited", "known", "left out", "refused")
    would = _would(dry)
    lines = [*_changes(items, "path", would)]
    lines.append(
        f"{counts['stored']} {would}stored, {counts['edited']} {would}edited,"
        f" {counts['known']} known, {counts['left out']} left out, {counts['refused']} refused"
    )
    files = [values(i, "path", "status", "id", "title", "reason") for i in items]
    found = {"dry_run": dry, **{name.replace(" ", "_"): n for name, n in counts.items()}}
    return Answer({**found, "files": files}, lines, 1 if counts["refused"] else 0)
