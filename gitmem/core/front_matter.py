"""Front matter of Markdown: the part of YAML that note-taking tools write.

Scalars (plain, quoted, block, folded over lines), lists in both forms, mappings as `outer.inner`,
and any value that is JSON. No anchors, aliases or tags: nothing in a file can make it grow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from . import sanitize

_MOST = 400  # lines
_KEY = re.compile(
    r"""(?:"([^"\n]+)"|'([^'\n]+)'|([^\s"'#\[\]{}:-][^\s:]*(?: [^\s:]+)*))\s*:(?:\s|$)"""
)
_FLOW = re.compile(r"""\s*("(?:\\.|[^"\\])*"|'(?:''|[^'])*'|[^,]*)\s*(?:,|$)""")
_FLAT = re.compile(r"\{([^\[\]{}]*)\}")
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "e": "\x1b", "_": "\xa0", "N": "\x85"}


def split(text: str) -> tuple[dict[str, Any] | None, str]:
    """({key: text, list or value of JSON}, the text below); None for a file without front matter.

    Keys are as written, without quotes.
    """
    text = text.removeprefix("\ufeff")
    lines = text.split("\n", _MOST + 1)
    if lines[0].rstrip() == "---":
        for end, line in enumerate(lines[1 : _MOST + 1], 1):
            if line.rstrip() in ("---", "..."):
                return mapping(lines[1:end]), "\n".join(lines[end + 1 :])
    return None, text


def join(front: Mapping[str, Any]) -> str:
    """Front matter that `split` reads back; every value is JSON, which YAML can read, too."""
    values = {key: json.dumps(value, ensure_ascii=False) for key, value in front.items()}
    rows = "".join(f"{key}: {sanitize.json_text(value)}\n" for key, value in values.items())
    return f"---\n{rows}---\n"


def mapping(lines: Iterable[str]) -> dict[str, Any]:
    """The values of these lines of YAML; what is no `key: value` is left out."""
    found: dict[str, Any] = {}
    entries: list[tuple[str, str, list[str]]] = []
    for line in lines:
        line = line.rstrip()
        key = _KEY.match(line)
        if key:
            name = key[1] or key[2] or key[3]
            entries.append((name, line[key.end() :].strip(), []))
        elif entries and (not line or line[0] in " \t-]}"):
            entries[-1][2].append(line)
    for name, value, more in entries:
        read = _value(value, more)
        if isinstance(read, _Mapping):
            found.update((f"{name}.{inner}", one) for inner, one in read.items())
        else:
            found.setdefault(name, read)
    return found


class _Mapping(dict[str, Any]):
    """A mapping in block form, or in one line that is no JSON."""


def _value(first: str, more: list[str]) -> Any:
    if first[:1] in ("|", ">") and len(first) <= 3:
        return _block(more, first[0])
    if first.startswith("#"):
        first = ""
    if first:
        read = scalar(text := _folded([first, *more]))
        if isinstance(read, str) and (flow := _FLAT.fullmatch(text)):
            return _Mapping(mapping(pair.strip() for pair in flow[1].split(",")))
        return read
    inner = [line for line in more if line.strip() and not line.lstrip().startswith("#")]
    if not inner:
        return ""
    value = more[more.index(inner[0]) :]  # below it a quoted text may have a line like a comment
    if inner[0].lstrip()[:2] in ("-", "- "):
        return _items([line for line in value if line.strip()])
    indent = min(len(line) - len(line.lstrip()) for line in inner)
    found = mapping(line[indent:] for line in more)
    return _Mapping(found) if found else scalar(_folded(value))


def _items(lines: list[str]) -> list[Any]:
    items: list[list[str]] = []
    for line in (line.strip() for line in lines):
        if line == "-" or line.startswith("- "):
            items.append([line[1:]])
        else:
            items[-1].append(line)
    return [scalar(_folded(item)) for item in items]


def _block(lines: list[str], kind: str) -> str:
    inner = [line for line in lines if line.strip()]
    indent = min([len(line) - len(line.lstrip()) for line in inner], default=0)
    texts = [line[indent:] for line in lines]
    return ("\n".join(texts) if kind == "|" else _folded(texts)).strip("\n")


def _folded(lines: Iterable[str]) -> str:
    """One text of lines: a break is a space, an empty line a break."""
    out, glue = "", ""
    for line in (line.strip() for line in lines):
        if not line:
            glue = "\n" if glue in ("", " ") else glue + "\n"
            continue
        out += (glue if out else "") + line
        glue = " "
        if out.startswith('"') and out.endswith("\\") and not out.endswith("\\\\"):
            out, glue = out[:-1], ""
    return out


def scalar(text: str) -> Any:
    """A value on one line: a text without its quotes or comment, a list, or JSON."""
    text = text.strip()
    if text[:1] in ('"', "[", "{"):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            pass
    if len(text) > 1 and text[0] == "[" and text[-1] == "]":  # a list within is flat
        return [scalar(found[1].strip("[] ")) for found in _FLOW.finditer(text[1:-1]) if found[1]]
    if len(text) > 1 and text[0] == text[-1] == '"':
        return _ESCAPE.sub(_unescaped, text[1:-1])
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    text = text.partition(" #")[0].rstrip()
    return "" if text in ("~", "null") else text


def _unescaped(found: re.Match[str]) -> str:
    code = found[1]
    if len(code) == 1:
        return _ESCAPES.get(code, code)
    number = int(code[1:], 16)
    return chr(number) if number <= 0x10FFFF else found[0]
