"""Files that a repository keeps for its agents: agentlore's `.memory/`, CLAUDE.md, AGENTS.md.

An entry of agentlore is a heading, a comment of `key: value` lines and a text; older versions call
the comment `rmem`. A rule is a list item outside of code, comments and what another tool generated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..core.record_fields import MAX_TITLE
from .drafts import Entry, Skipped, digest, draft, headed, paragraphs, source, typed, when

LORE_FILES = ("decisions.md", "dead-ends.md", "conventions.md", "hazards.md")
# No `<!--` within: a text of thousands of beginnings is read once.
LORE = re.compile(r"<!--[ \t]*(?:agentlore|rmem)[ \t]*\n((?:(?!<!--).){0,8000}?)-->", re.DOTALL)
RULE_FILES = ("CLAUDE.md", "AGENTS.md", ".claude/CLAUDE.md", "GEMINI.md")

_OVER = ("superseded", "deprecated", "retracted")
_TOLD = ("evidence", "resolved_by", "owner", "enforcement")


def lore(text: str, file: str) -> Iterator[Entry]:
    for part in re.split(r"(?m)^##[ \t]+", text)[1:]:
        title, _, rest = part.partition("\n")
        comment = LORE.search(rest)
        if not comment:
            yield Skipped(f"{file}: {title[:60]}", "no comment says what it is", True)
            continue
        pairs = [line.partition(":") for line in comment[1].split("\n")]
        facts = {key.strip(): value.strip() for key, _, value in pairs if value.strip()}
        if facts.get("status") in _OVER:
            yield Skipped(f"{file}: {title[:60]}", f"it is {facts['status']}")
            continue
        body = (rest[: comment.start()] + rest[comment.end() :]).strip()
        told = [("", body)] + [
            (name.capitalize().replace("_", " "), facts.get(name)) for name in _TOLD
        ]
        type, tags = typed(facts.get("type"))
        name = facts.get("id") or digest(title, body)
        yield draft(
            **headed(title, paragraphs(told)),
            type=type,
            tags=tags,
            paths=_anchors(facts.get("anchors", "")),
            author=facts.get("author", "")[:200],
            created_at=when(facts.get("created")),
            commit=facts.get("verified_at", ""),
            provenance="CITED" if facts.get("evidence") else "",
            source=source("agentlore", name),
        )


def _anchors(text: str) -> list[str]:
    """Files and directories; of a pattern the directory in which all of its files are."""
    names = (re.split(r"[*?\[]", glob)[0] for glob in re.split(r"[,\s]+", text))
    whole = (name if "/" in name or name in text.split() else "" for name in names)
    return list(dict.fromkeys(n.rstrip("/") for n in whole if n.rstrip("/")))


_FENCE = re.compile(r"\s*(```|~~~)")
_HEADING = re.compile(r"(#{1,6})\s+(\S.*)")
_ITEM = re.compile(r"(\s*)(?:[-*+]|\d{1,3}[.)])\s+(.*)")
_BEGIN = re.compile(r"<!--\s*begin\b|<claude-mem-context>", re.IGNORECASE)
_END = re.compile(r"<!--\s*end\b|</claude-mem-context>", re.IGNORECASE)
_COMMENT = re.compile(r"<!--(?!\s*(?:begin|end)\b).*?(?:-->|\Z)", re.DOTALL | re.IGNORECASE)
_NO_RULE = re.compile(r"\[[ xX]\]\s|@\S+$|\[[^\]]*\]\([^)]*\)$|`[^`]*`$")


def rules(text: str, file: str) -> Iterator[Entry]:
    """The list items of a file, each with what is indented below it, under its headings."""
    headings: list[tuple[int, str]] = []
    for kind, level, told in _lines(_COMMENT.sub("", text.replace("\r\n", "\n"))):
        if kind == "heading":
            headings = [(high, name) for high, name in headings if high < level] + [(level, told)]
        elif kind == "generated":
            yield Skipped(f"{file}: {told[:60]}", "another tool generates it")
        elif _NO_RULE.match(told) or len(told.split()) < 3:
            yield Skipped(f"{file}: {told[:60]}", "a link, a task or a name is no rule")
        else:
            # A file's title says nothing of a rule.
            below = " > ".join(name for high, name in headings if high > 1)[:MAX_TITLE]
            name = source("rules", f"{file}@{digest(below, told)}")
            yield draft(body=told, subtitle=below, type="convention", source=name)


def _lines(text: str) -> Iterator[tuple[str, int, str]]:
    """("heading", its level, its words), ("item", 0, its text), ("generated", 0, a marker)."""
    item: list[str] = []
    indent, fence, generated = 0, "", False
    for line in [*text.split("\n"), "# end"]:
        found = _FENCE.match(line)
        if found and not generated:
            fence = "" if fence == found[1] else fence or found[1]
        began, listed = _BEGIN.search(line), _ITEM.match(line)
        inside = fence or found
        deep = len(line) - len(line.lstrip()) > indent
        if item and (not line.strip() or deep or (inside and deep)):
            item.append(line[indent + 2 :] if deep else "")
            continue
        if item:
            yield "item", 0, "\n".join(item).strip()
            item = []
        if generated or began:
            if began:
                yield "generated", 0, line.strip(" <!->")
            generated = not _END.search(line)
        elif inside:
            continue
        elif listed:
            item, indent = [listed[2]], len(listed[1])
        elif heading := _HEADING.match(line):
            yield "heading", len(heading[1]), heading[2].rstrip().rstrip("#").rstrip()
