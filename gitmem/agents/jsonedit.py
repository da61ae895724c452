"""Edits of a JSON file that somebody else wrote: only our own characters come and go.

Promise: comments, order, indentation, line ends and everything else of the text stay. An edit is
made of insertions, whose places are kept, so cutting them out gives back the text; `remove` is the
inverse of `append` also where others have changed the text since. Reads what the agents read: JSON,
and beside it comments and a comma after the last item. Text that is no JSON is refused.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, NamedTuple

_STRING = r'"(?:[^"\\]|\\.)*"'
_COMMENTED = re.compile(_STRING + r"|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/", re.DOTALL)
# The second kind, a comma after none, stays what it is: an error.
_LAST_COMMA = re.compile(_STRING + r"|[\[{,]\s*,|,(?=\s*[}\]])", re.DOTALL)
_SPACE = re.compile(r"(?:[ \t\r\n]|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)*")
_COMMENT = re.compile(r"[ \t]*(?://[^\r\n]*|/\*(?:[^*\r\n]|\*(?!/))*\*/)[ \t]*(?=\r?\n|$)")
_DECODER = json.JSONDecoder(strict=False)


class Broken(ValueError):
    """The text is no JSON, and in which line that shows."""

    def __init__(self, reason: str, text: str, at: int) -> None:
        line = text.count("\n", 0, min(at, len(text))) + 1
        super().__init__(f"{reason} in line {line}")


class Item(NamedTuple):
    key: str
    start: int
    node: Node


@dataclass
class Node:
    """A value in a text of plain JSON, and where it begins."""

    text: str
    start: int

    @property
    def kind(self) -> str:
        """`{`, `[`, or "" for anything else."""
        return self.text[self.start] if self.text[self.start] in "{[" else ""

    @cached_property
    def decoded(self) -> tuple[Any, int]:
        """(the value as Python has it, where it ends)."""
        value, end = _DECODER.raw_decode(self.text, self.start)
        return value, int(end)

    @property
    def end(self) -> int:
        return self.decoded[1]

    @cached_property
    def items(self) -> list[Item]:
        """Of an object or array."""
        found: list[Item] = []
        at = _skip(self.text, self.start + 1)
        while self.kind and at < self.end - 1:
            start, key = at, ""
            if self.kind == "{":
                key, at = scanstring(self.text, at + 1, False)
                at = _skip(self.text, _skip(self.text, at) + 1)
            node = Node(self.text, at)
            found.append(Item(key, start, node))
            at = _skip(self.text, node.end)
            if self.text[at] == ",":
                at = _skip(self.text, at + 1)
        return found

    def get(self, key: str) -> Node | None:
        """The value of a key; the last one where there are several, as all readers have it."""
        return next((item.node for item in reversed(self.items) if item.key == key), None)


def parse(text: str) -> Node | None:
    """The value of a text; None where there is none (an empty file). Raises Broken."""

    def blank(found: re.Match[str]) -> str:
        token = found[0]
        kept = token[0] == '"' or (token[0] in "[{," and len(token) > 1)
        return token if kept else re.sub(r"[^\n]", " ", token)

    # At the same places: comments, and commas after a last item, become blanks.
    bare = " " + text[1:] if text.startswith("\ufeff") else text
    plain = _LAST_COMMA.sub(blank, _COMMENTED.sub(blank, bare))
    if not plain.strip():
        return None
    try:
        _DECODER.decode(plain)
    except json.JSONDecodeError as e:
        raise Broken(e.msg.lower(), text, e.pos) from e
    except RecursionError as e:
        raise Broken("too many levels", text, 0) from e
    return Node(plain, _skip(plain, 0))


def cut(text: str, spans: list[list[int]]) -> str:
    """The text without these places."""
    for start, end in sorted(spans, reverse=True):
        text = text[:start] + text[end:]
    return text


class Doc:
    """A text that is edited. `spans`: the places that were inserted, of the present text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.spans: list[list[int]] = []
        self.root = parse(text)

    def at(self, *path: str | int) -> Node | None:
        """The node at a path of keys and numbers."""
        node = self.root
        for step in path:
            if node is None:
                return None
            if isinstance(step, str):
                node = node.get(step) if node.kind == "{" else None
            else:
                inside = node.kind == "[" and step < len(node.items)
                node = node.items[step].node if inside else None
        return node

    def value(self, *path: str | int) -> Any:
        """The value at a path; None where there is none."""
        node = self.at(*path)
        return None if node is None else node.decoded[0]

    def blank(self, *path: str) -> bool:
        """Whether an array or object stands at a path and has nothing in it, not even a comment."""
        node = self.at(*path)
        return bool(node and node.kind and not self.text[node.start + 1 : node.end - 1].strip())

    def append(self, path: tuple[str, ...], what: Any) -> None:
        """Adds to the array at a path, which is made. Raises Broken where another value is."""
        node, rest = self._walk(path)
        if rest:
            self._insert_below(node, rest, [what])
        elif node.kind == "[":
            self._insert(node, None, what)
        else:
            raise Broken(f"'{'.'.join(path)}' is no array", self.text, node.start)

    def put(self, path: tuple[str, ...], what: Any) -> None:
        """Sets a key that is not there; what is there stays."""
        node, rest = self._walk(path)
        if rest:
            self._insert_below(node, rest, what)

    def remove(self, *path: str | int) -> None:
        """Takes one item away, with the comma and the white space that came with it."""
        holder = self.at(*path[:-1])
        assert holder is not None
        key, items = path[-1], holder.items
        index = key if isinstance(key, int) else max(i for i, t in enumerate(items) if t.key == key)
        text, item = self.text, items[index]
        start = len(text[: item.start].rstrip(" \t\r\n"))
        comma = _skip(text, item.node.end)
        if text[comma] != "," and index:
            comma = _skip(text, items[index - 1].node.end)
        cuts = [[start, item.node.end]]
        if text[comma] == ",":
            cuts.append([comma, comma + 1])
        text = cut(text, cuts)
        end = holder.end - 1 - sum(b - a for a, b in cuts)
        if len(items) == 1 and not text[holder.start + 1 : end].strip():
            text = text[: holder.start + 1] + text[end:]
        self.text, self.spans, self.root = text, [], parse(text)

    def _walk(self, path: tuple[str, ...]) -> tuple[Node, list[str]]:
        """(the last node of a path that is there, the keys that lack)."""
        if self.root is None:
            line = self.text.rpartition("\n")[2].strip("\ufeff \t")  # perhaps a comment
            self._place(len(self.text), self._newline() * bool(line) + "{}" + self._newline())
        node = self.root
        assert node is not None
        for i, key in enumerate(path):
            if node.kind != "{":
                what = f"'{'.'.join(path[:i])}' is" if i else "the file holds"
                raise Broken(f"{what} no object", self.text, node.start)
            below = node.get(key)
            if below is None:
                return node, list(path[i:])
            node = below
        return node, []

    def _insert_below(self, holder: Node, keys: list[str], what: Any) -> None:
        for key in reversed(keys[1:]):
            what = {key: what}
        self._insert(holder, keys[0], what)

    def _insert(self, holder: Node, key: str | None, what: Any) -> None:
        text, items, newline = self.text, holder.items, self._newline()
        indent = newline + _indent(text, holder.start) + self._unit()
        if _lined(text, holder):
            indent = newline + _indent(text, items[-1].start)
        shown = json.dumps(what, indent=self._unit(), ensure_ascii=False).replace("\n", indent)
        piece = indent + (json.dumps(key) + ": " if key is not None else "") + shown
        if not items:
            inner = text[holder.start + 1 : holder.end - 1]
            end = len(inner.rstrip())
            if "\n" not in inner[end:]:
                piece += newline + _indent(text, holder.start)
            self._place(holder.start + 1 + end, piece)
            return
        end = items[-1].node.end
        comma = _skip(text, end)
        if text[comma] == ",":
            end = comma + 1
            piece += ","  # as the writer of the file has it
        else:
            self._place(end, ",")
            end += 1
        # A comment beside the last item stays beside it.
        beside = _COMMENT.match(self.text, end)
        self._place(beside.end() if beside else end, piece)

    def _place(self, at: int, what: str) -> None:
        inside = False
        for span in self.spans:
            if at <= span[0]:
                span[0] += len(what)
                span[1] += len(what)
            elif at < span[1]:
                span[1] += len(what)
                inside = True
        if not inside:
            self.spans.append([at, at + len(what)])
        self.text = self.text[:at] + what + self.text[at:]
        self.root = parse(self.text)

    def _newline(self) -> str:
        return "\r\n" if "\r\n" in self.text else "\n"

    def _unit(self) -> str:
        """What one level is indented by."""
        root = self.root
        if root is None or not _lined(self.text, root):
            return "  "
        first = _indent(self.text, root.items[0].start)
        return first.removeprefix(_indent(self.text, root.start)) or "  "


def _lined(text: str, holder: Node) -> bool:
    """Whether a holder has items, and they stand on lines of their own."""
    return bool(holder.items) and "\n" in text[holder.start : holder.items[0].start]


def _indent(text: str, at: int) -> str:
    """The white space at the begin of the line of a place."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _skip(text: str, at: int) -> int:
    """The next place that is neither white space nor comment."""
    found = _SPACE.match(text, at)
    return found.end() if found else at
