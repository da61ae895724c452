"""Memories as people read them: hits of recall, lists, one memory whole."""

import sys
from typing import Any

from ..core.record_fields import ENTRIES, FIELDS
from .terminal import grid, is_terminal, pairs, safe, show

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
        show((_nothing({**answer, "hits": []}, narrowed) + more, "dim"), fold=not more)
        return
    for hit in answer["hits"]:
        _hit(hit, explain)
    show((_verdict(answer), "dim"), fold=True)


def _hit(hit: dict[str, Any], explain: bool) -> None:
    retrieval = f"{hit['retrieval']:<6}" if is_terminal() else hit["retrieval"]
    show(
        (safe(hit["id"][:8]), "yellow"),
        (f" {hit['score']:.2f} {retrieval} ", "dim"),
        (safe(hit["title"]), "bold"),
    )
    show(("    " + _meta(hit), "dim"))
    if remarks := _remarks(hit):
        show(("    " + safe(remarks), "red"))
    for line in excerpt(hit):
        show((line, ""))
    if explain:
        show(("    " + _score(hit), "cyan"))


def _verdict(answer: dict[str, Any]) -> str:
    text = f"{answer['verdict']}: {len(answer['hits'])} of {answer['searched']} memories"
    if answer["degraded"]:
        text += f" (degraded: {answer['degraded_reason']})"
    return text


def _nothing(answer: dict[str, Any], narrowed: bool) -> str:
    if answer["searched"] or answer["degraded"]:
        return _verdict(answer).replace("0 of", "nothing among")
    if narrowed:
        return "MISS: no memories that were asked about"
    return "MISS: no memories here yet; `git mem remember` stores the first"


def _score(hit: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} {value:.3f}" if isinstance(value, float) else f"{name} {value}"
        for name, value in hit["explain"].items()
        if value is not None
    )


def _meta(hit: dict[str, Any]) -> str:
    """Type, date, author, tags, paths, provenance and signature on one line."""
    parts = [
        hit["type"],
        str(hit["created_at"] or "")[:10],
        str(hit["author"] or "").split(" <")[0],
        " ".join("#" + tag for tag in hit["tags"]),
        " ".join(map(_path, hit["paths"][:4])),
        str(hit["provenance"] or ""),
        _signed_by(hit),
    ]
    return " · ".join(safe(part) for part in parts if part)


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
    remarks = [_anchor(hit["anchor"])]
    for state in ("changed", "renamed", "gone"):
        names = [path["path"] for path in hit["paths"] if path["state"] == state]
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
    if elsewhere := hit.get("superseded_on"):
        branch, commit = elsewhere["branch"], elsewhere["commit"]
        where = f"the unmerged branch {branch}" if branch else f"another branch, at {commit[:12]}"
        remarks.append(f"superseded on {where}")
    if hit.get("since"):  # as of a revision: what became of it later
        by = "".join(f" by {id[:8]}" for id in hit.get("superseded_by", [])[:1])
        remarks.append(f"{hit['since']} since{by}")
    return remarks


def excerpt(hit: dict[str, Any], limit: int = 6) -> list[str]:
    """The first lines of a memory's text below its title, indented."""
    lines = safe(hit["body"], lines=True).splitlines()
    if lines and " ".join(lines[0].split()) == hit["title"]:
        lines = lines[1:]
    lines = [line for line in lines if line.strip()]
    shown = ["    " + line for line in lines[:limit]]
    if len(lines) > limit:
        shown.append(f"    … {len(lines) - limit} more lines: git mem show {hit['id'][:8]}")
    return shown


def listing(items: list[dict[str, Any]]) -> None:
    """One line a memory."""
    rows = []
    for m in items:
        remarks = "; ".join(part for part in (_remarks(m), _signed_by(m)) if part)
        date = str(m["created_at"] or "")[:10]
        rows.append([safe(cell) for cell in (m["id"][:8], date, m["type"], m["title"], remarks)])
    if rows and is_terminal():
        heads = [("id", "yellow"), ("date", "dim"), ("type", "green"), ("memory", ""), ("", "red")]
        grid(heads, rows, folded=("memory", ""))
    else:
        for id, date, kind, title, remarks in rows:
            sys.stdout.write(f"{id} {date} {kind}: {title}{f' ({remarks})' if remarks else ''}\n")


def memory(item: dict[str, Any], history: list[dict[str, Any]]) -> None:
    rows = [
        ("memory", item["id"]),
        *((name, item[name]) for name in ("title", "type", "status", "scope", "author")),
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
    _indented(item["body"])
    # Versions of edits in two places, until a later edit covers them all.
    for other in item.get("versions", []):
        if other["body"] != item["body"] or other["title"] != item["title"]:
            title = safe(other["title"])
            sys.stdout.write(f"\nat the same time ({other['version'][:8]}): {title}\n")
            _indented(other["body"])
    if len(history) > 1:
        sys.stdout.write("\n")
        for h in history:
            at, author = h["at"] or "undated", str(h.get("author") or "")
            reason = f": {h['reason']}" if h.get("reason") else ""
            sys.stdout.write(safe(f"{h['version'][:8]} {at} {h['op']} {author}{reason}") + "\n")


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


def _indented(body: str) -> None:
    lines = ["    " + line for line in safe(body, lines=True).splitlines()]
    sys.stdout.write("\n" + "\n".join(lines) + "\n")


def left_out(counts: list[str]) -> None:
    """What a list does not have, below it."""
    if counts:
        show((f"… left out: {', '.join(counts)}", "dim"))
