"""Commands about memories and revisions: log, why, blame, diff, bisect."""

import shlex
from collections.abc import Iterator
from itertools import chain, groupby
from typing import Any

from .. import render
from ..core.plural import many
from ..git import commit_reader
from ..memory import commit_hits, listing
from ..render import diff_markdown
from ..store import Store
from ..timeline import bisect, branch_diff, file_lines, why
from .common import tell_elsewhere
from .options import (
    PATH,
    Answer,
    At,
    Id,
    argument,
    command,
    flag,
    number,
    one_of,
    only,
    texts,
    wants_json,
)

_SHOWN = 20  # memories on a terminal
_Item = dict[str, Any]
_Text = Iterator[str | list[_Item]]


@command("log", pager=True, paths_last=True)
def log_command(
    store: Store,
    revisions: list[str] = argument("[RANGE]...", "As for `git log`; paths after `--`.", None),
    path: list[str] = texts(PATH, "Only about this path, also by other names; repeatable."),
    limit: int = number("-n --limit", "How many at most."),
    only: str = only("The `memories` (default), or the `history`: searchable commits."),
) -> Answer:
    """List memories in the order of the commits they are about, or these commits."""
    paths = [p.rstrip("/") or "." for p in map(store.repo.path_in_tree, path)]
    about = " about this path" if path else ""
    if only == "history":
        commits = listing.log_commits(store, revisions or [], limit, paths)
        return Answer(commits, [commits or "no searchable commits in this range" + about])
    items = listing.log(store, revisions or [], limit, paths)
    nothing = "no memories in this range" + about
    if not items:
        tell_elsewhere(store)
    return Answer(items, _by_commit(store, items) if items else [nothing])


def _by_commit(store: Store, items: list[_Item]) -> _Text:
    def place(item: _Item) -> str:
        return str(item["anchor"].get("squashed_into") or item["anchor"]["commit"] or "")

    facts = commit_reader.facts(store.repo.git, filter(None, map(place, items)))
    for commit, of_it in groupby(items, place):
        render.commit(commit, facts.get(commit, {}))
        yield list(of_it)


@command("why")
def why_command(
    store: Store,
    as_json: bool,
    at: At,
    path: str = argument("PATH", "A file, a directory, or `FILE:LINE`, `FILE:FIRST-LAST`."),
    limit: int = number("-n --limit", "How many at most."),
    all_hits: bool = flag(
        "--all-hits", "Of a file also what is only about commits that wrote lines of it."
    ),
) -> Answer:
    """Show what is known about a path or its lines: by name (also former ones), by line; of lines
    also by the commits that wrote them. Below it, commits that say why. Exit code 1: no memory.
    """
    most = limit or (_SHOWN if render.is_terminal() and not as_json else None)
    found = why.why(store, path, at=at, limit=most, all_hits=all_hits)
    commits = commit_hits.explaining(store, found.history, at, found.items)
    for item in commits:
        item["why"] = [{"by": why.COMMIT, "commit": item["id"]}]
    text = chain(_explained(found, path, at, commits), _reasons(commits))
    if not found.items:
        tell_elsewhere(store)
    return Answer([*found.items, *commits], text, 0 if found.items else 1)


def _explained(found: why.Why, path: str, at: str, commits: list[_Item]) -> _Text:
    for item in found.items:
        render.hit(item, _because(item["why"]))
    if not found.items:
        nothing = "no memory is" if commits else "nothing is known"
        yield f"{nothing} about '{path}'" + (f" at {at}" if at else "")
    if found.more:
        yield f"… {found.more} more; -n raises the limit, --json prints all"
    if found.folded:
        count = "… " + ("and " if found.items else "") + many(found.folded, "memory")
        words = ["git", "mem", "why", path, *(["--at", at] if at else []), "--all-hits"]
        yield f"{count} about commits that wrote lines of it: {shlex.join(words)}"


def _reasons(found: list[_Item]) -> _Text:
    if found:
        yield "commits that say why:"
    for item in found:
        render.hit(item)


_NAMED = {
    why.FORMER: "about it under the name",
    why.ABOVE: "about its directory",
}


def _because(reasons: list[_Item]) -> str:
    out = []
    for reason in reasons:
        by = reason["by"]
        if by == why.LINE:
            out.append(f"about {_spans(reason['lines'])} of {reason['path']}")
        elif by == why.COMMIT:
            out.append(f"its commit {reason['commit'][:12]} wrote {_spans(reason['lines'])}")
        elif "now" in reason:
            out.append(f"about {reason['path']}, which is {reason['now']} now{_lost(reason)}")
        else:
            out.append(f"{_NAMED.get(by, 'about')} {reason['path']}{_lost(reason)}")
    return "; ".join(out[:3]) + ("; …" if len(out) > 3 else "")


def _lost(reason: _Item) -> str:
    if not reason.get("lines_unknown"):
        return ""
    if reason.get("reason"):
        return f" (not known where its lines are: {reason['reason']})"
    return " (its lines were changed or removed)"


def _spans(lines: list[list[int]]) -> str:
    parts = [str(first) if first == last else f"{first}-{last}" for first, last in lines]
    noun = "line" if parts[0].isdigit() and len(parts) == 1 else "lines"
    return f"{noun} {', '.join(parts[:4])}{', …' if len(parts) > 4 else ''}"


@command("blame", pager=True)
def blame_command(
    store: Store,
    at: At,
    path: str = argument("PATH", "A file, or lines of it: `FILE:LINE`, `FILE:FIRST-LAST`."),
) -> Answer:
    """Show the lines of a file with the memories about them beside: by line, and by the commit that
    `git blame` names. Below them, commits that wrote lines and say why. Exit code 1: no memory.
    """
    lines, found, name = why.blame(store, path, at=at)
    commits = commit_hits.explaining(store, found.history, at, found.items)
    facts = {"path": name, "lines": [_row(line) for line in lines], "memories": found.items}
    text = chain(_blamed(lines, found.items, commits), _reasons(commits))
    return Answer({**facts, "commits": commits}, text, 0 if found.items else 1)


def _blamed(lines: list[file_lines.Line], items: list[_Item], commits: list[_Item]) -> _Text:
    width = min(17, max((len(_ids(line, 99)) for line in lines), default=0))
    digits = len(str(lines[-1].number)) if lines else 1
    for line in lines:
        wrote = "^" + line.commit[:7] if line.older else line.commit[:8] or "not yet"
        left = f"{_ids(line, 2):<{width}}  {wrote:<8} {line.number:>{digits}}"
        yield f"{left}  {line.text}".rstrip()
    nothing = "no memory is" if commits else "nothing is known"
    yield "" if items else f"{nothing} about these lines"
    for item in items:
        yield [item]
        yield f"    {_because(item['why'])}"


def _row(line: file_lines.Line) -> _Item:
    row = {"line": line.number, "commit": line.commit or None, "text": line.text}
    return {**row, "memories": line.ids, **({"older": True} if line.older else {})}


def _ids(line: file_lines.Line, most: int) -> str:
    """Ids of the memories about a line; one, and a plus, where there are more than `most`."""
    if len(line.ids) > most:
        return f"{line.ids[0][:8]} +{len(line.ids) - 1}"
    return " ".join(id[:8] for id in line.ids)


@command("diff", pager=True)
def diff_command(
    store: Store,
    as_json: bool,
    revisions: list[str] = argument(
        "RANGE", "A..B: what B has and A has not; A...B: since B left A; REV: REV..HEAD; A B: A..B."
    ),
    form: str = one_of("--format text|json|md", "`md`: a comment for a pull request."),
) -> int:
    """Show what a branch teaches: new memories, changed ones, contradictions with what is known,
    and memories whose files it changed.
    """
    as_json = wants_json(as_json, form)
    found = branch_diff.diff(store, revisions)
    text = diff_markdown.lines(found) if form == "md" else _changes(found)
    return Answer(found, text).print(as_json)


def _changes(found: _Item) -> _Text:
    """A heading and memories for each kind of change; some with a remark that names another one."""
    for kind, title in diff_markdown.KINDS.items():
        items = found[kind]
        if items:
            yield f"{title}: {len(items)}"
        if kind in ("teaches", "forgets", "stale"):
            yield items
            continue
        for pair in items:
            yield [pair.get("after") or pair["memory"]]
            if kind == "changes":
                yield f"    before {_short(pair['before'])}"
            elif pair["by"] == branch_diff.SUPERSEDES:
                yield f"    supersedes {_short(pair['against'])}"
            else:
                yield f"    may contradict {_short(pair['against'])} ({pair['by']})"
    if not any(found[kind] for kind in diff_markdown.KINDS):
        base, tip = found["base"]["name"], found["tip"]["name"]
        yield f"nothing about memories between {base} and {tip}"


def _short(memory: _Item) -> str:
    return f"{memory['id'][:8]} {memory['type']}: {memory['title']}"


@command("bisect")
def bisect_command(
    store: Store,
    id: Id,
    path: list[str] = texts(PATH, "Only this path of the memory; repeatable."),
) -> Answer:
    """Find the commit that made a memory stale: the first after which a path (or its lines) never
    again was what it was. Exit code 1: none is stale.
    """
    paths = [store.repo.path_in_tree(p) for p in path]
    found, title, stale, fine = bisect.bisect(store, id, paths)
    value = {"id": found, "title": title, "stale": stale, "others": fine}
    lines = [*_stale_lines(stale), *map(_fine_line, fine)]
    if stale:
        return Answer(value, lines)
    name = f"memory {found[:8]}"
    unknown = any(item["state"] == "unknown" for item in fine)
    said = f"nobody can tell whether {name} is stale" if unknown else f"{name} is not stale"
    return Answer(value, [*lines, f"{said}: {title}"], 1)


def _stale_lines(stale: list[_Item]) -> Iterator[str]:
    for item in stale:
        yield f"{item['path']}: {item['state']}" + (f", now {item['now']}" if item["now"] else "")
        yield f"    by {_commit(item)}"
        for row in item.get("brought", []):
            yield f"    which took it from {_commit(row)}"
        if "merged_by" in item:
            yield f"    merged by {_commit(item['merged_by'])}"


def _fine_line(item: _Item) -> str:
    now = f" to {item['now']}" if item.get("now") else ""
    reason = f" ({item['reason']})" if item.get("reason") else ""
    return f"{item['path']}: {item['state']}{now}{reason}"


def _commit(row: _Item) -> str:
    return f"{row['commit'][:12]} {row['date']} {row['author'].split(' <')[0]}: {row['subject']}"
