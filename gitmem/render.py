"""Memories for human eyes. Owns rich, which is loaded only when a terminal is there.

Promise: pipes get plain text, NO_COLOR is respected, and no stored byte can
drive the terminal: control characters, escapes and hidden Unicode are shown
as visible marks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .core import sanitize
from .core.record_fields import FIELDS, LIST

# What somebody else wrote, as a terminal may show it.
safe = sanitize.shown


def _console() -> Any:
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


def is_terminal() -> bool:
    return sys.stdout.isatty()


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, only on a terminal; yields a function that takes how many more are done."""
    if not sys.stderr.isatty():
        yield lambda n: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    count = MofNCompleteColumn() if total else TextColumn("{task.completed}")
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        count,
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        auto_refresh=False,
    ) as bar:
        # No refreshing thread: the second process of an import is a fork.
        task = bar.add_task(what, total=total)

        def advance(n: int) -> None:
            bar.advance(task, n)
            bar.refresh()

        yield advance


def _where(hit: dict[str, Any]) -> str:  # noqa: C901
    """Remarks a reader needs: branch, staleness, scope."""
    notes = []
    anchor = hit["anchor"]
    if anchor["state"] == "unmerged":
        notes.append(f"unmerged branch {anchor['branch']}" if anchor.get("branch") else "unmerged")
    elif anchor["state"] == "squashed":
        notes.append(f"merged as {anchor['squashed_into'][:12]}")
    elif anchor["state"] == "unknown" and anchor["commit"]:
        notes.append(f"unknown whether merged: {anchor['reason']}")
    for state in ("changed", "renamed", "gone"):
        names = [p["path"] for p in hit["paths"] if p["state"] == state]
        if names:
            notes.append(f"{state} since: {', '.join(names[:3])}")
    if hit["scope"] == "private":
        notes.append("private")
    if hit.get("contradicts"):
        notes.append(f"contradicted by {', '.join(i[:8] for i in hit['contradicts'][:3])}")
    if hit.get("alternatives"):
        notes.append(
            f"edited in two places: {1 + len(hit['alternatives'])} versions, `git mem show` has all"
        )
    if hit.get("status", "active") != "active":
        notes.append(hit["status"])
    if hit.get("superseded_on"):
        on = hit["superseded_on"]
        notes.append(
            f"superseded on the unmerged branch {on['branch']}"
            if on["branch"]
            else f"superseded on another branch, at {on['commit'][:12]}"
        )
    if hit.get("since"):  # as of a revision: what became of it later
        notes.append(
            f"{hit['since']} since"
            + "".join(f" by {id[:8]}" for id in hit.get("superseded_by", [])[:1])
        )
    signature = hit.get("signature") or {}
    if signature.get("state") != "unverified" or "accepted" in signature:
        notes.append(_SIGNED.get(signature.get("state", ""), ""))
    return "; ".join(n for n in notes if n)


_SIGNED = {
    "untrusted": "signed by a key that nobody here vouches for",
    "unknown": "its signature cannot be checked",
    "expired": "signed with an expired key",
    "revoked": "signed with a revoked key",
    "bad": "bad signature",
    "none": "unsigned",
    "unverified": "its signature was not checked yet",
}


def _signed_by(hit: dict[str, Any]) -> str:
    signature = hit.get("signature") or {}
    return f"signed by {signature['signer']}" if signature.get("state") == "good" else ""


def _path(path: dict[str, Any]) -> str:
    """A path, with the lines of it that a memory is about."""
    lines = path.get("lines_now") or path.get("lines")
    return f"{path['path']}:{lines}" if lines else str(path["path"])


def _meta(hit: dict[str, Any]) -> str:
    parts = [
        hit["type"],
        str(hit["created_at"] or "")[:10],
        str(hit["author"] or "").split(" <")[0],
    ]
    if hit["tags"]:
        parts.append(" ".join("#" + t for t in hit["tags"]))
    if hit["paths"]:
        parts.append(" ".join(map(_path, hit["paths"][:4])))
    parts += [str(hit["provenance"] or ""), _signed_by(hit)]
    return " · ".join(safe(p) for p in parts if p)


def hits(
    answer: dict[str, Any], explain: bool = False, narrowed: bool = False, nearest: bool = False
) -> None:
    """The answer of recall.

    `narrowed`: whether it was asked about some of the memories only. `nearest`: also hits of which
    none fits.
    """
    if answer["verdict"] == "MISS" and answer["hits"] and not nearest:
        line = (
            _nothing({**answer, "hits": []}, narrowed)
            + "; --all-hits shows the nearest, none of which fits"
        )
        if is_terminal():
            _console().print(line, style="dim", soft_wrap=True, highlight=False, markup=False)
        else:
            sys.stdout.write(line + "\n")
        return
    if not is_terminal():
        for hit in answer["hits"]:
            _hit_plain(hit, explain)
        if not answer["hits"]:
            sys.stdout.write(_nothing(answer, narrowed) + "\n")
    else:
        console = _console()
        from rich.text import Text

        for hit in answer["hits"]:
            head = Text()
            head.append(safe(hit["id"][:8]), style="yellow")
            head.append(f" {hit['score']:.2f} {hit['retrieval']:<6} ", style="dim")
            head.append(safe(hit["title"]), style="bold")
            console.print(head, soft_wrap=True)
            console.print(Text("    " + _meta(hit), style="dim"), soft_wrap=True)
            if _where(hit):
                console.print(Text("    " + safe(_where(hit)), style="red"), soft_wrap=True)
            body = _excerpt(hit)
            if body:
                console.print(Text(body), soft_wrap=True)
            if explain:
                console.print(Text("    " + _parts(hit), style="cyan"), soft_wrap=True)
        console.print(
            Text(
                _nothing(answer, narrowed) if not answer["hits"] else _verdict(answer), style="dim"
            )
        )
    if not is_terminal() and answer["hits"]:
        sys.stdout.write(_verdict(answer) + "\n")


def _verdict(answer: dict[str, Any]) -> str:
    text = f"{answer['verdict']}: {len(answer['hits'])} of {answer['searched']} memories"
    if answer["degraded"]:
        text += f" (degraded: {answer['degraded_reason']})"
    return text


def _nothing(answer: dict[str, Any], narrowed: bool) -> str:
    if not answer["searched"] and not answer["degraded"]:
        return (
            "MISS: no memories that were asked about"
            if narrowed
            else "MISS: no memories here yet; `git mem remember` stores the first"
        )
    return _verdict({**answer, "hits": []}).replace("0 of", "nothing among")


def _parts(hit: dict[str, Any]) -> str:
    return ", ".join(
        f"{k} {v:.3f}" if isinstance(v, float) else f"{k} {v}"
        for k, v in hit["explain"].items()
        if v is not None
    )


def excerpt(hit: dict[str, Any], most: int = 6) -> list[str]:
    """The begin of a memory's text below its title, for a terminal."""
    return [line for line in _excerpt(hit, most).split("\n") if line]


def _excerpt(hit: dict[str, Any], most: int = 6) -> str:
    lines = safe(hit["body"], lines=True).splitlines()
    if lines and " ".join(lines[0].split()) == hit["title"]:
        lines = lines[1:]
    lines = [line for line in lines if line.strip()]
    shown = ["    " + line for line in lines[:most]]
    if len(lines) > most:
        shown.append(f"    … {len(lines) - most} more lines: git mem show {hit['id'][:8]}")
    return "\n".join(shown)


def _hit_plain(hit: dict[str, Any], explain: bool) -> None:
    out = [
        f"{safe(hit['id'][:8])} {hit['score']:.2f} {hit['retrieval']} {safe(hit['title'])}",
        "    " + _meta(hit),
    ]
    if _where(hit):
        out.append("    " + safe(_where(hit)))
    body = _excerpt(hit)
    if body:
        out.append(body)
    if explain:
        out.append("    " + _parts(hit))
    sys.stdout.write("\n".join(out) + "\n")


def listing(items: list[dict[str, Any]], more: int = 0) -> None:
    """One line a memory."""
    if is_terminal():
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, show_header=bool(items))
        for name, style in (
            ("id", "yellow"),
            ("date", "dim"),
            ("type", "green"),
            ("memory", ""),
            ("", "red"),
        ):
            table.add_column(
                name,
                style=style,
                no_wrap=name in ("id", "date", "type"),
                overflow="ellipsis" if name == "memory" else "fold",
            )
        for m in items:
            table.add_row(
                safe(m["id"][:8]),
                safe(str(m["created_at"] or "")[:10]),
                Text(safe(m["type"])),
                Text(safe(m["title"])),
                Text(safe(_remark(m))),
            )
        if items:
            _console().print(table)
    else:
        for m in items:
            remark = _remark(m)
            sys.stdout.write(
                f"{safe(m['id'][:8])} {safe(str(m['created_at'] or '')[:10])} {safe(m['type'])}:"
                f" {safe(m['title'])}" + (f" ({safe(remark)})" if remark else "") + "\n"
            )
    if more:
        sys.stdout.write(f"… {more} more; -n raises the limit, --json prints all\n")


def _state(anchor: dict[str, Any]) -> str:
    more = (
        f"into {anchor['squashed_into']}"
        if anchor.get("squashed_into")
        else anchor.get("reason", "")
    )
    return f"{anchor['state']} ({more})" if more else str(anchor["state"])


def _remark(m: dict[str, Any]) -> str:
    return "; ".join(part for part in (_where(m), _signed_by(m)) if part)


def _sure(item: dict[str, Any]) -> str:
    """The confidence that lives, and where it comes from."""
    if item["confidence"] is None:
        return ""
    use = item.get("use", {})
    why = [
        f"{use[name]:g} {words}"
        for name, words in (
            ("used", "used"),
            ("ignored", "in vain"),
            ("contradicted", "contradicted"),
        )
        if use.get(name)
    ]
    stated = (
        f"stated {item['stated_confidence']:g}"
        if item["stated_confidence"] not in (None, item["confidence"])
        else ""
    )
    about = "; ".join(
        part for part in (stated, f"sessions: {', '.join(why)}" if why else "") if part
    )
    return f"{item['confidence']:g}" + (f" ({about})" if about else "")


def memory(item: dict[str, Any], history: list[dict[str, Any]]) -> None:
    """Everything about one memory."""
    lines = [
        ("memory", item["id"]),
        ("title", item["title"]),
        ("type", item["type"]),
        ("status", item["status"]),
        ("scope", item["scope"]),
        ("author", item["author"]),
        ("date", item["created_at"]),
        ("commit", item["anchor"]["commit"]),
        ("branch", item["anchor"]["branch"]),
        ("state", _state(item["anchor"])),
        ("tags", " ".join(item["tags"])),
        ("paths", ", ".join(f"{_path(p)} ({p['state']})" for p in item["paths"])),
        ("source", item["source"]),
        (
            "signature",
            _signed_by(item) or _SIGNED.get((item.get("signature") or {}).get("state", "")),
        ),
        ("provenance", item["provenance"]),
        ("confidence", _sure(item)),
        ("supersedes", " ".join(item.get("supersedes", []))),
        ("superseded by", " ".join(item.get("superseded_by", []))),
        ("contradicts", " ".join(item.get("contradicts", []))),
    ]
    shown = {name for name, _ in lines} | {"body", "paths", "created_at"}
    for field in FIELDS:
        value = item.get(field.name)
        if field.name in shown or not value:
            continue
        if field.kind == LIST:
            lines += [(field.name.removesuffix("s"), entry) for entry in value]
        else:
            lines.append((field.name, value))
    for name, value in lines:
        if value not in (None, ""):
            _labelled(name, safe(str(value)))
    _indented(item["body"])
    # Edited in two places at the same time: the others stand below, until a later edit covers them
    # all.
    for other in item.get("versions", []):
        if other["body"] != item["body"] or other["title"] != item["title"]:
            sys.stdout.write(
                f"\nat the same time ({other['version'][:8]}): {safe(other['title'])}\n"
            )
            _indented(other["body"])
    if len(history) > 1:
        sys.stdout.write("\n")
        for h in history:
            sys.stdout.write(
                f"{h['version'][:8]} {safe(h['at'] or 'undated')} {safe(h['op'])}"
                f" {safe(str(h.get('author') or ''))}"
                + (f": {safe(h['reason'])}" if h.get("reason") else "")
                + "\n"
            )


def _indented(body: str) -> None:
    sys.stdout.write(
        "\n" + "\n".join("    " + line for line in safe(body, lines=True).splitlines()) + "\n"
    )


def _labelled(name: str, value: str) -> None:
    if is_terminal():
        from rich.text import Text

        _console().print(Text.assemble((f"{name + ':':<17}", "dim"), value), soft_wrap=True)
    else:
        sys.stdout.write(f"{name + ':':<17}{value}\n")


def pairs(rows: list[tuple[str, Any]]) -> None:
    """Name and value, one pair a line."""
    for name, value in rows:
        _labelled(name, safe(str(value)))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Rows below a head: the first column to the left, figures to the right."""
    if is_terminal():
        from rich.table import Table
        from rich.text import Text

        shown = Table(box=None, pad_edge=False)
        for n, name in enumerate(head):
            shown.add_column(name, justify="right" if n else "left", no_wrap=True)
        for row in rows:
            shown.add_row(*[Text(safe(cell)) for cell in row])
        _console().print(shown)
        return
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        cells[0] = cells[0].strip().ljust(widths[0])
        sys.stdout.write(safe("  ".join(cells)).rstrip() + "\n")


def suggestion(item: dict[str, Any], place: str = "") -> None:
    """One suggestion for a person to decide on, as `review.public` gives it, with the memories near
    it.
    """
    facts = [
        item["type"],
        f"{item['confidence']:.2f}" if item["confidence"] is not None else "",
        f"by {item['stage']}" if item["stage"] else "",
        {"user": "you said", "assistant": "the agent said"}.get(item["role"], item["role"]),
        f"session {item['session'][:8]}" if item["session"] else "",
        str(item["created_at"] or "")[:10],
    ]
    about = safe(" · ".join(f for f in facts if f))
    rows = [
        ("yellow", f"{safe(item['id'][:8])}  {about}"),
        *[("bold", safe(item["title"]))]
        * (not " ".join(item["body"].split()).startswith(item["title"].removesuffix("…"))),
    ]
    rows += [("", "    " + line) for line in safe(item["body"], lines=True).splitlines()]
    rows += [("dim", "    files: " + safe(", ".join(item["paths"][:6])))] * bool(item["paths"]) + [
        ("dim", "    from " + safe(item["source"]))
    ] * bool(item["source"])
    for i, h in enumerate(item.get("near", ()), 1):
        rows.append(
            (
                "red" if h["replaces"] else "cyan",
                (
                    f"  {i}  {'would replace' if h['replaces'] else 'near'} {safe(h['id'][:8])}"
                    f" [{h['scope']}] {safe(h['title'])}"
                ),
            )
        )
    if not is_terminal():
        sys.stdout.write("\n".join(text for _, text in rows) + "\n")
        return
    console = _console()
    from rich.rule import Rule
    from rich.text import Text

    console.print(Rule(Text(place), style="dim", align="left"))
    for style, text in rows:
        console.print(Text(text, style=style), soft_wrap=False)


def keys(choices: list[tuple[str, str]]) -> None:
    """The keys that a question takes, on one line without its end."""
    from rich.text import Text

    _console().print(
        Text("  ").join(
            [Text.assemble((key, "bold"), " ", (what, "dim")) for key, what in choices]
        ),
        end=" ",
        soft_wrap=True,
    )
    sys.stdout.flush()


def suggestions(items: list[dict[str, Any]], more: int = 0) -> None:
    """One line a suggestion."""
    for item in items:
        sure = f"{item['confidence']:.2f}" if item["confidence"] is not None else "?   "
        remark = item["state"] if item["state"] != "waiting" else "queued" if item["queued"] else ""
        sys.stdout.write(
            f"{safe(item['id'][:8])} {sure} {safe(item['type'])}: {safe(item['title'])}"
            + (f" ({remark})" if remark else "")
            + "\n"
        )
    if more:
        sys.stdout.write(f"… {more} more queued; --all shows them\n")


def _sides(item: dict[str, Any]) -> list[tuple[str, dict[str, Any], str]]:
    """(number, memory or version, what is said of it) of a proposal."""
    members = item["memories"]
    if item["kind"] == "versions" and "versions" in members[0]:
        return [(str(n), {**members[0], **v}, "") for n, v in enumerate(members[0]["versions"], 1)]
    return [
        (str(n), m, "would stay" if m["id"] == item["keep"] and len(members) == 2 else "")
        for n, m in enumerate(members, 1)
    ]


def _about(side: tuple[str, dict[str, Any], str]) -> str:
    number, m, remark = side
    facts = [
        f"{m['id'][:8]} [{m['scope']}]",
        m["type"],
        str(m["created_at"] or "")[:10],
        m["author"].partition(" <")[0],
        m["status"] if m["status"] != "active" else "",
        remark,
    ]
    return f"{number}  {safe(' · '.join(f for f in facts if f))}"


def proposals(items: list[dict[str, Any]]) -> None:
    """What is proposed about stored memories, a line for each memory concerned."""
    for item in items:
        state = f" ({item['state']})" if item["state"] != "waiting" else ""
        sys.stdout.write(f"{safe(item['id'][:8])} {item['kind']}: {item['title']}{state}\n")
        for number, m, remark in _sides(item):
            facts = f" [{m['scope']}] {safe(m['title'])}" if "scope" in m else ""
            sys.stdout.write(
                f"    {number} {safe(m['id'][:8])}{facts}"
                + (f" ({remark})" if remark else "")
                + "\n"
            )


def proposal(item: dict[str, Any], place: str = "") -> None:
    """One proposal for a person to decide on: on a terminal both texts side by side."""
    sides = [s for s in _sides(item) if "scope" in s[1]]
    head = f"{safe(item['id'][:8])}  {item['kind']}: {item['title']}" + (
        "; deciding may change the team's notes" if item["team"] else ""
    )
    if not is_terminal():
        sys.stdout.write(head + "\n")
        for side in sides:
            sys.stdout.write(
                _about(side)
                + "\n"
                + "".join(
                    f"    {line}\n" for line in safe(side[1]["body"], lines=True).splitlines()
                )
            )
            if side[1]["paths"]:
                sys.stdout.write("    files: " + safe(", ".join(side[1]["paths"][:6])) + "\n")
        return
    from rich.rule import Rule
    from rich.table import Table
    from rich.text import Text

    console = _console()
    console.print(Rule(Text(place), style="dim", align="left"))
    console.print(Text(head, style="yellow"))
    table = Table(box=None, pad_edge=False, expand=True)
    for side in sides:
        table.add_column(Text(_about(side), style="cyan"), ratio=1, overflow="fold")
    table.add_row(*[Text(safe(m["body"], lines=True)) for _, m, _ in sides])
    table.add_row(
        *[
            Text("files: " + safe(", ".join(m["paths"][:6])) if m["paths"] else "", style="dim")
            for _, m, _ in sides
        ]
    )
    console.print(table)
