"""The command for CI: check."""

from collections.abc import Iterator
from typing import Any

from ..anchors import anchor_state, path_state
from ..core.plural import many
from ..engine import anchor_state_store
from ..render import annotations
from ..store import Store
from ..timeline import check
from .common import refused, tell_elsewhere
from .options import Answer, command, one_of, text, wants_json

_ONLY = "--only " + "|".join(check.RULES)
_LISTED = 20  # findings of a kind, beside the stale memories
_Item = dict[str, Any]
_Text = Iterator[str | list[_Item]]


@command("check")
def check_command(
    store: Store,
    as_json: bool,
    since: str = text("--since REV", "Only what became stale since this revision.", filled=True),
    only: list[str] = one_of(_ONLY, "Only this kind; repeatable.", several=True),
    form: str = one_of(
        "--format text|json|sarif|github", "`github`: annotations that a workflow prints."
    ),
) -> int:
    """For CI: exit code 1 if memories are stale, or nobody can tell (a shallow clone), contradict
    each other, or are not signed as `mem.trust` asks, or if records are broken or hold a secret.
    """
    as_json = form == "sarif" or wants_json(as_json, form)
    found = check.check(store, since, only)
    findings = found["findings"]
    value, lines = found, _checked(found, since, only)
    if form == "sarif":
        value = annotations.sarif(findings)
    elif form == "github":
        lines = annotations.github(findings)
    if found["complete"]:
        tell_elsewhere(store)
    return Answer(value, lines, int(bool(findings))).print(as_json)


def _checked(found: _Item, since: str, only: list[str]) -> _Text:
    if "stale" in found:
        yield from _staleness(found, since)
    if not found["complete"]:
        refused(
            "cannot check all memories: notes could not be read, and what they hold is not known",
            "`git mem doctor` looks at the notes; in a partial clone the remote has them",
        )
    for kind in [k for k in check.RULES if k != check.STALE and (not only or k in only)]:
        said = [f["message"] for f in found["findings"] if f["kind"] == kind]
        if said:
            yield f"{many(len(said), check.RULES[kind].name)}:"
            yield from (f"    {message}" for message in said[:_LISTED])
            yield from [f"    … {len(said) - _LISTED} more"] if len(said) > _LISTED else ()
            yield check.RULES[kind].help


def _staleness(found: _Item, since: str) -> _Text:
    stale, unknown = found["stale"], found["unknown"]
    if stale:
        became = f"{many(len(stale), 'memory')} became stale since {since}:"
        yield became if since else f"{many(len(stale), 'stale memory')}:"
        yield stale
        yield check.RULES[check.STALE].help
    if unknown:
        shallow = " in a shallow clone" if found["shallow"] else ""
        yield f"{many(len(unknown), 'memory')} of which nobody can tell{shallow}:"
        yield unknown
        refused(f"cannot check {many(len(unknown), 'memory')}", _way_out(unknown, found["shallow"]))
    if found["not_compared"]:
        yield (
            f"{len(found['not_compared'])} not compared, {path_state.NO_NAME};"
            " `git mem edit ID --path` names something else, for example the directory:"
        )
        yield found["not_compared"]
    if found["complete"] and not stale and not unknown:
        result = f"no memory became stale since {since}" if since else "no memory is stale"
        yield f"{result}, of {found['checked']} with a path"


def _way_out(unknown: list[_Item], shallow: bool) -> str:
    """What makes it possible to tell."""
    reasons = [item["anchor"].get("reason") for item in unknown]
    reasons += [path.get("reason") for item in unknown for path in item["paths"]]
    if shallow:
        return "fetch the whole history: `git fetch --unshallow`, or `fetch-depth: 0` in a workflow"
    if anchor_state.PARTIAL in reasons:
        return (
            "this is a partial clone: one without `--filter` (in a workflow: without `filter`)"
            " has what it takes"
        )
    if anchor_state_store.WAITING in reasons:
        return "`git mem index` goes on where an answer stopped"
    return "`git mem list --json` has the reasons; `git mem edit ID --path` names another path"
