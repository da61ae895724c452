"""Memories as people read them: hits of recall, lists, one memory whole."""

from collections.abc import Iterable, Mapping
from typing import Any

from ..core import record
from ..core.plural import many
from ..core.record_fields import ENTRIES, FIELDS
from .terminal import (
    NARROW,
    Span,
    block,
    cells,
    cut,
    flowing,
    folded,
    hanging,
    pairs,
    safe,
    show,
    width,
)  # fmt: skip

_LINES, _ROWS = 6, 3  # of a hit's text, in a pipe and on a terminal

_SIGNED = {
    "untrusted": "signed by a key that nobody here vouches for",
    "unknown": "its signature cannot be checked",
    "expired": "signed with an expired key",
    "revoked": "signed with a revoked key",
    "bad": "bad signature",
    "none": "unsigned",
    "unverified": "its signature was not checked yet",
}

_IDS = ("supersedes", "superseded_by", "contradicts")


def hits(
    answer: dict[str, Any], explain: bool = False, narrowed: bool = False, nearest: bool = False
) -> None:
    """The answer of recall. `narrowed`: whether only some of the memories were asked about.
    `nearest`: also hits of which none fits.
    """
    unfit = answer["verdict"] == "MISS" and not nearest
    if unfit or not answer["hits"]:
        more = "; --all-hits shows the nearest, none of which fits" if answer["hits"] else ""
        _last(nothing({**answer, "hits": []}, narrowed) + more)
        return
    for item in answer["hits"]:
        hit(item, f"{item['score']:.2f} {item['retrieval']}: {_score(item)}" if explain else "")
    _last(verdict(answer))


def _last(text: str) -> None:
    for line in hanging(safe(text), width()):
        show((line, "dim"))


def hit(item: dict[str, Any], note: str = "") -> None:
    """One line as in a list, with what tells where it comes from, and below it the text that this
    line has no room for; then `note`.
    """
    title, rest = record.headline(item["title"], item["body"])
    title, tail = safe(title), _tail([_remarks(item), *_origin(item)])
    limit, most = _LINES, width()
    rest = safe(rest, lines=True)
    lines = (flowing(rest) if most else rest).splitlines()
    lines = [line for line in lines if line.strip()]
    notes = [safe(note)] if note else []
    if most:
        limit, room = _ROWS, _room(item, most)
        if cells(title + tail) > room:
            notes, tail = [cut(tail.strip(), most - 4), *notes], ""
        first = "".join(folded(title, room)[:1])
        lines = folded("\n".join([title[len(first) :].strip(), *lines]).strip(), most - 4)
        title = first
    show(*_head(item, most), (title, "bold"), (tail, "dim"))
    if len(lines) == limit + 1:  # the line that says so would take its place
        limit += 1
    for line in lines[:limit]:
        show(("    " + line, ""))
    if len(lines) > limit:
        notes = [
            f"… {many(len(lines) - limit, 'more line')}: git mem show {item['id'][:8]}",
            *notes,
        ]
    for told in map(safe, notes):  # they name paths and ids
        for line in folded(told, most - 4) if most else [told]:
            show(("    " + line, "dim"))


def _head(item: dict[str, Any], most: int | None) -> list[Span]:
    """What stands before the title; a narrow terminal has no room for more than the id."""
    if most and most < NARROW:
        return [(safe(item["id"][:8]), "yellow"), (" ", "")]
    date = str(item["created_at"] or "")[:10]
    return [
        (safe(item["id"][:8]), "yellow"),
        (f" {safe(date)} ", "dim"),
        (safe(item["type"] or item["kind"]), "green"),
        (": ", ""),
    ]


def _room(item: dict[str, Any], most: int) -> int:
    """The cells that are left behind the head of a line."""
    return max(most - sum(cells(text) for text, _ in _head(item, most)), 8)


def _tail(remarks: Iterable[str], room: int | None = None, title: int = 0) -> str:
    """Remarks behind a title of so many cells: what it leaves of the room, at least a third."""
    told = safe("; ".join(remark for remark in remarks if remark))
    tail = f" ({told})" if told else ""
    return tail if room is None else cut(tail, max(room - title, room // 3))


def verdict(answer: Mapping[str, Any]) -> str:
    """The last line of an answer of recall."""
    searched = (answer.get("history") or {"searched": 0})["searched"]
    commits = [many(searched, "commit")] if searched else []
    memories = [many(answer["searched"], "memory")] if answer["searched"] or not commits else []
    count = len(answer["hits"]) or "nothing"
    text = f"{answer['verdict']}: {count} among {' and '.join(memories + commits)}"
    if answer["verdict"] == "WEAK":
        text += ", perhaps no answer"
    if answer["degraded"]:
        text += f" (degraded: {answer['degraded_reason']})"
    return text


def nothing(answer: Mapping[str, Any], narrowed: bool) -> str:
    """The same where nothing was found; `narrowed` as in `hits`."""
    searched = answer["searched"] or (answer.get("history") or {}).get("searched")
    if searched or answer["degraded"]:
        return verdict(answer)
    if narrowed:
        return "MISS: nothing passes this filter"
    return "MISS: no memories here yet; `git mem remember` stores the first"


def _score(hit: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} {value:.3f}" if isinstance(value, float) else f"{name} {value}"
        for name, value in hit["explain"].items()
        if value is not None
    )


def _origin(item: dict[str, Any]) -> list[str]:
    """Author, tags, paths, provenance and signature."""
    return [
        str(item["author"] or "").split(" <")[0],
        " ".join("#" + tag for tag in item["tags"]),
        " ".join(map(_path, item["paths"][:4])),
        str(item["provenance"] or ""),
        _signed_by(item),
    ]


def _path(path: dict[str, Any]) -> str:
    lines = path.get("lines_now") or path.get("lines")
    return f"{path['path']}:{lines}" if lines else str(path["path"])


def _signed_by(hit: dict[str, Any]) -> str:
    signature = hit.get("signature") or {}
    return f"signed by {signature['signer']}" if signature.get("state") == "good" else ""


def _signature(hit: dict[str, Any]) -> str:
    return _SIGNED.get((hit.get("signature") or {}).get("state", ""), "")


def _remarks(hit: dict[str, Any]) -> str:
    """What a reader has to know before believing it: branch, changed files, scope, disputes."""
    # what comes from an index of many repositories knows no clone that could say where it stands
    remarks = [hit.get("repository") or _anchor(hit["anchor"])]
    for state in ("changed", "renamed", "gone"):
        names = [path["path"] for path in hit["paths"] if path.get("state") == state]
        if names:
            remarks.append(f"{state} since: {', '.join(names[:3])}")
    if hit["scope"] == "private":
        remarks.append("private")
    if hit.get("contradicts"):
        remarks.append(f"contradicted by {', '.join(i[:8] for i in hit['contradicts'][:3])}")
    if hit.get("alternatives"):
        count = 1 + len(hit["alternatives"])
        remarks.append(f"edited in two places: {count} versions, `git mem show` has all")
    remarks += _superseded(hit)
    signature = hit.get("signature") or {}
    if signature.get("state") != "unverified" or "accepted" in signature:
        remarks.append(_signature(hit))
    return "; ".join(remark for remark in remarks if remark)


def _anchor(anchor: dict[str, Any]) -> str:
    """Where the commit stands that a memory is about, where it is not merged as it was."""
    if anchor["state"] == "unmerged":
        return f"unmerged branch {anchor['branch']}" if anchor.get("branch") else "unmerged"
    if anchor["state"] == "squashed":
        return f"merged as {anchor['squashed_into'][:12]}"
    if anchor["state"] == "unknown" and anchor["commit"]:
        return f"unknown whether merged: {anchor['reason']}"
    return ""


def _superseded(hit: dict[str, Any]) -> list[str]:
    remarks = [hit["status"]] if hit.get("status", "active") != "active" else []
    if forgotten := hit.get("forgotten"):
        by, reason = str(forgotten["author"] or "").split(" <")[0], forgotten["reason"]
        told = [f"forgotten by {by}" if by else "forgotten", str(forgotten["at"] or "")[:10]]
        said = ", ".join(filter(None, told))
        remarks = [f"{said}: {reason}" if reason else said]
    if elsewhere := hit.get("superseded_on"):
        branch, commit = elsewhere["branch"], elsewhere["commit"]
        where = f"the unmerged branch {branch}" if branch else f"another branch, at {commit[:12]}"
        remarks.append(f"superseded on {where}")
    if hit.get("since"):  # as of a revision: what became of it later
        by = "".join(f" by {id[:8]}" for id in hit.get("superseded_by", [])[:1])
        remarks.append(f"{hit['since']} since{by}")
    return remarks


def line(item: dict[str, Any]) -> str:
    """A memory or commit as a list in a pipe shows it."""
    head = "".join(text for text, _ in _head(item, None))
    return head + safe(item["title"]) + _tail([_remarks(item), *_origin(item)])


def listing(items: list[dict[str, Any]]) -> None:
    """One line a memory."""
    most = width()
    for item in items:
        title, remarks = safe(item["title"]), (_remarks(item), _signed_by(item))
        room = _room(item, most) if most else None
        tail = _tail(remarks, room, cells(title))
        if room is not None:
            title = cut(title, room - cells(tail))
        show(*_head(item, most), (title, ""), (tail, "dim"))


def commit(id: str, facts: dict[str, Any]) -> None:
    """The line above the memories of a commit; `facts`: its date and subject, where it is here."""
    date = f" {facts['date']} " if facts else ""
    room = (width() or 10**6) - cells(f"commit {id[:12]}{date}")
    subject = cut(safe(facts.get("subject", "")), max(room, 8))
    show((f"commit {id[:12]}", "yellow"), (date, "dim"), (subject, "bold"))


def whole_commit(item: dict[str, Any]) -> None:
    rows = [("commit", item["id"]), ("title", item["title"]), ("author", item["author"])]
    rows += [("date", item["created_at"]), ("state", item["anchor"]["state"])]
    pairs([*rows, ("paths", ", ".join(path["path"] for path in item["paths"]))])
    if item["body"]:
        show()
        block(item["body"])
    show((f"\ngit mem promote {item['id'][:8]} keeps it as a memory", "dim"))


def memory(item: dict[str, Any], history: list[dict[str, Any]]) -> None:
    title, rest = record.headline(item["title"], item["body"])
    rows = [
        ("memory", item["id"]),
        ("title", title if rest == item["body"] else ""),
        *((name, item[name]) for name in ("type", "status", "scope", "author")),
        ("date", item["created_at"]),
        ("commit", item["anchor"]["commit"]),
        ("branch", item["anchor"]["branch"]),
        ("state", _state(item["anchor"])),
        ("tags", " ".join(item["tags"])),
        ("paths", ", ".join(f"{_path(p)} ({p['state']})" for p in item["paths"])),
        ("source", item["source"]),
        ("signature", _signed_by(item) or _signature(item)),
        ("provenance", item["provenance"]),
        ("confidence", _confidence(item)),
        *((name.replace("_", " "), " ".join(item.get(name, []))) for name in _IDS),
    ]
    shown = {name for name, _ in rows} | {"body", "paths", "created_at"}
    for field in FIELDS:
        value = item.get(field.name)
        if field.name == "facts":
            rows += [("fact", fact) for fact in value or ()]
        elif value and field.name not in shown:
            rows.append((field.name, ", ".join(value) if field.kind in ENTRIES else value))
    pairs([(name, value) for name, value in rows if value not in (None, "")])
    show()
    block(item["body"])
    # Versions of edits in two places, until a later edit covers them all.
    for other in item.get("versions", []):
        if other["body"] != item["body"] or other["title"] != item["title"]:
            title, rest = record.headline(other["title"], other["body"])
            named = f": {safe(title)}" if rest == other["body"] else ""
            show((f"\nat the same time ({other['version'][:8]}){named}", ""))
            block(other["body"])
    if len(history) > 1:
        show()
        for h in history:
            at, author = h["at"] or "undated", str(h.get("author") or "")
            reason = f": {h['reason']}" if h.get("reason") else ""
            line = safe(f" {at} {h['op']} {author}{reason}")
            show((h["version"][:8], "yellow"), (line, "dim"))


def _state(anchor: dict[str, Any]) -> str:
    reason = anchor.get("reason", "")
    if anchor.get("squashed_into"):
        reason = f"into {anchor['squashed_into']}"
    return f"{anchor['state']} ({reason})" if reason else str(anchor["state"])


def _confidence(item: dict[str, Any]) -> str:
    """The present confidence, and where it comes from."""
    if item["confidence"] is None:
        return ""
    use, stated = item.get("use", {}), item["stated_confidence"]
    words = {"used": "used", "ignored": "in vain", "contradicted": "contradicted"}
    sessions = ", ".join(f"{use[name]:g} {words[name]}" for name in words if use.get(name))
    origins = [f"stated {stated:g}"] if stated not in (None, item["confidence"]) else []
    origins += [f"sessions: {sessions}"] if sessions else []
    return f"{item['confidence']:g}" + (f" ({'; '.join(origins)})" if origins else "")


def left_out(counts: list[str]) -> None:
    """What a list does not have, below it."""
    if counts:
        show((f"… left out: {', '.join(counts)}", "dim"))
