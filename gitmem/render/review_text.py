"""Suggestions of capture and proposals about stored memories, as `review` shows them."""

import sys
from typing import Any

from ..core import record
from .terminal import block, hanging, rule, safe, show, width

_SPEAKERS = {"user": "you said", "assistant": "the agent said"}


def suggestion(item: dict[str, Any], place: str = "") -> None:
    """One suggestion to decide on, with the memories near it. `place`: which of how many it is."""
    rule(place)
    facts = [
        item["type"],
        f"{item['confidence']:.2f}" if item["confidence"] is not None else "",
        f"by {item['stage']}" if item["stage"] else "",
        _SPEAKERS.get(item["role"], item["role"]),
        f"session {item['session'][:8]}" if item["session"] else "",
        str(item["created_at"] or "")[:10],
    ]
    about = safe(" · ".join(fact for fact in facts if fact))
    _line(f"{safe(item['id'][:8])}  {about}", "yellow")
    title, rest = record.headline(item["title"], item["body"])
    if rest == item["body"]:
        _line(safe(title), "bold")
    _text(item)
    if item["source"]:
        block("from " + item["source"], "dim")
    for number, near in enumerate(item.get("near", ()), 1):
        how, style = ("would replace", "red") if near["replaces"] else ("near", "cyan")
        name = f"{safe(near['id'][:8])} [{near['scope']}] {safe(near['title'])}"
        _line(f"  {number}  {how} {name}", style)


def suggestions(items: list[dict[str, Any]], more: int = 0) -> None:
    for item in items:
        sure = f"{item['confidence']:.2f}" if item["confidence"] is not None else "?   "
        state = item["state"]
        if state == "waiting":
            state = "queued" if item["queued"] else ""
        line = f"{item['id'][:8]} {sure} {item['type']}: {item['title']}{_remark(state)}"
        sys.stdout.write(safe(line) + "\n")
    if more:
        sys.stdout.write(f"… {more} more queued; --all shows them\n")


def proposals(items: list[dict[str, Any]]) -> None:
    """One line a proposal, and one for each memory that it is about."""
    for item in items:
        state = "" if item["state"] == "waiting" else item["state"]
        line = f"{item['id'][:8]} {item['kind']}: {item['title']}{_remark(state)}"
        sys.stdout.write(safe(line) + "\n")
        for number, m, remark in _sides(item):
            facts = f" [{m['scope']}] {m['title']}" if "scope" in m else ""
            line = f"{number} {m['id'][:8]}{facts}{_remark(remark)}"
            sys.stdout.write(f"    {safe(line)}\n")


def proposal(item: dict[str, Any], place: str = "") -> None:
    """One proposal to decide on, with both texts."""
    rule(place)
    team = "; deciding may change the team's notes" if item["team"] else ""
    _line(f"{safe(item['id'][:8])}  {item['kind']}: {item['title']}{team}", "yellow")
    for number, memory, remark in _sides(item):
        if "scope" in memory:
            _line(_about(number, memory, remark), "cyan")
            _text(memory)


def _line(text: str, style: str = "") -> None:
    for line in hanging(text, width()):
        show((line, style))


def _text(item: dict[str, Any]) -> None:
    block(item["body"])
    if item["paths"]:
        block("files: " + ", ".join(item["paths"][:6]), "dim")


def _remark(text: str) -> str:
    return f" ({text})" if text else ""


def _sides(item: dict[str, Any]) -> list[tuple[str, dict[str, Any], str]]:
    """[(number, memory, remark)] of what a proposal is about."""
    waits = item["state"] == "waiting"
    stays, remark = (item["keep"], "would stay") if waits else (item["memory"], "stayed")
    return [
        (str(n), m, remark if m["id"] == stays else "") for n, m in enumerate(item["memories"], 1)
    ]


def _about(number: str, m: dict[str, Any], remark: str) -> str:
    facts = [
        f"{m['id'][:8]} [{m['scope']}]",
        m["type"],
        str(m["created_at"] or "")[:10],
        m["author"].partition(" <")[0],
        remark,
    ]
    return f"{number}  {safe(' · '.join(fact for fact in facts if fact))}"
