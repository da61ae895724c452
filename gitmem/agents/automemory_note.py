"""One note of Claude Code's auto memory: a Markdown file, or a passage of `MEMORY.md`.
Pure, no file.

Owns the reading of the client's format (seen in 2.1.197 and 2.1.330): front matter with `name`,
`description`, `metadata.type`, a body with `**Why:**`, `**How to apply:**` and `[[links]]`, and an
index of `- [Title](file.md) — hook`.

Promise: any text is accepted. Front matter that is none is body; keys that nobody knows are left
out; text beside the lines of an index gives notes of its own. What is in `<private>` is cut.
`digest` names what was read, so that an edit is told from a file that was only touched.
"""

from __future__ import annotations

import re
from collections import Counter
from urllib.parse import unquote

from ..core import front_matter
from ..core.digest import sha256
from ..core.record import MAX_ITEMS, MAX_TITLE, clean

INDEX = "MEMORY.md"
LARGEST = 256 * 1024  # bytes of a file that is read; a memory holds less
KINDS = ("user", "feedback", "project", "reference")
TAG = "auto-memory"
# The client strips comments before it loads the index.
BEGIN = "<!-- git mem: begin; `git mem export claude` writes these lines anew -->"
END = "<!-- git mem: end -->"
PREFIX = "git-mem-"  # of files that we write
OURS, SEAL = "git-mem", "git-mem-seal"  # in their front matter: memory id, digest of their text

_MOST_PASSAGES = 200  # of an index
_LINK = re.compile(r"\[\[([^\[\]|#\n]{1,100})(?:[|#][^\[\]\n]*)?\]\]")
# Of a stripped line. Two neighbours that match the same would cost the square of its length.
_ENTRY = re.compile(
    r"[-*+]\s+\[((?:\\.|[^\[\]\\\n])+)\]\(<?([^()<>\n]+?\.md)>?\)\s*(?:[-–—:]+(.*))?"
)
_PRIVATE = re.compile(r"<private>.*?(?:</private>|\Z)", re.DOTALL | re.IGNORECASE)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_HEADING = re.compile(r"(#{1,6})\s+(.*)")

_KINDS_OF_PROJECT = {
    "blocker": r"\b(?:blocked|blocker|blocking|waiting (?:for|on)|cannot proceed)\b",
    "decision": r"\b(?:decided|decision|chose|chosen|agreed|instead of|rather than|rejected"
    r"|we (?:use|will use)|must|driven by|because of)\b",
    "progress": r"\b(?:in progress|ongoing|under ?way|working on"
    r"|wip|todo|remaining|milestone|deadline|freeze|until|by \d{4}-\d\d)\b",
}
_RULE = (
    r"\*\*How to apply|\b(?:always|never|must|should|do not"
    r"|don['’]t|avoid|prefer|use|stop|keep|no|only|before|after)\b"
)


class Topic:
    """What one file or passage says. `file` names it within the directory.

    `ours`: the id of the memory that we wrote it from, "" where it is somebody's own; `sealed`: and
    nobody has changed what it says since. `seal` names that; the client may lay the file out anew.
    """

    def __init__(self, file: str, title: str, body: str, front: dict[str, str]) -> None:
        self.file = file
        self.title = title
        self.body = body
        self.description = _cut(front.get("description", ""))
        # where the title does not say it already
        self.subtitle = "" if self.description == title else self.description
        kind = _either(front, "type").strip().lower()
        self.kind = kind if kind in KINDS else ""
        self.modified = _either(front, "modified")
        self.session = _line(_either(front, "originsessionid"))[:100]
        self.links = list(dict.fromkeys(_line(m) for m in _LINK.findall(body)))[:MAX_ITEMS]
        self.ours = front.get(f"metadata.{OURS}") or ""
        self.seal = digest_of(self.description, body)
        self.sealed = bool(self.ours) and front.get(f"metadata.{SEAL}") == self.seal
        self.digest = digest_of(self.title, self.subtitle, self.body, self.kind)

    @property
    def type(self) -> str:
        """The type of memory: the client's four say about whom a note is, ours what it is."""
        text = f"{self.title}\n{self.description}\n{self.body}"

        def says(words: str) -> bool:
            return bool(re.search(words, text, re.IGNORECASE))

        if self.kind == "feedback":  # a rule of how to work here, or what was learnt without one
            return "convention" if says(_RULE) else "learning"
        if self.kind == "project":
            said = (type for type, words in _KINDS_OF_PROJECT.items() if says(words))
            return next(said, "finding")
        return {"user": "preference", "reference": "research"}.get(self.kind, "")


def _either(front: dict[str, str], key: str) -> str:
    return front.get(f"metadata.{key}") or front.get(key) or ""


def digest_of(*parts: str) -> str:
    """Names what a topic says (title, subtitle, body, kind), however its file is laid out."""
    return sha256("\0".join(map(_line, parts)).encode("utf-8", "replace")).hexdigest()[:16]


def read(file: str, text: str, entry: tuple[str, str] = ("", "")) -> Topic:
    """The topic in a file; `entry`: its title and hook in the index."""
    front, body = _split(clean(text))
    body = _PRIVATE.sub("", body).strip("\n")
    front["description"] = _line(_PRIVATE.sub("", front.get("description", ""))) or entry[1]
    if front.get("name", "").startswith(PREFIX):  # an edited file of ours: its name is no title
        front["name"] = front["description"]
    titles = (
        entry[0],
        _heading(body.partition("\n")[0]),
        _line(front.get("title", "")),
        _spoken(front.get("name", "")),
        front["description"],
    )
    title = next(filter(None, titles), "") or _spoken(file[:-3])
    return Topic(file, _cut(title), body if body.strip() else front["description"], front)


def read_index(text: str) -> tuple[dict[str, tuple[str, str]], list[Topic]]:
    """({file: (title, hook)}, the text beside these lines, a topic for each heading)."""
    _, text = _split(without_ours(clean(text).removeprefix("\ufeff")))
    text = _PRIVATE.sub("", _COMMENT.sub("", text))
    entries: dict[str, tuple[str, str]] = {}
    passages: list[tuple[str, list[str]]] = [("", [])]
    for line in text.split("\n"):
        entry = _ENTRY.fullmatch(line.strip())
        if entry and "://" not in entry[2]:
            name = unquote(entry[2]).removeprefix("./")
            entries.setdefault(name, (_cut(entry[1].replace("\\", "")), _cut(entry[3] or "")))
            continue
        if _HEADING.fullmatch(line):
            passages.append((_heading(line), []))
        else:
            passages[-1][1].append(line)
    topics: list[Topic] = []
    seen: Counter[str] = Counter()
    for title, lines in passages:
        body = "\n".join(lines).strip("\n")
        if body.strip() and len(topics) < _MOST_PASSAGES:
            name = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:80]
            seen[name] += 1
            name = f"{INDEX}#{name}" + (f"-{seen[name]}" if seen[name] > 1 else "")
            topics.append(Topic(name, _cut(title), body, {}))
    return entries, topics


def without_ours(text: str) -> str:
    """An index without our markers and our lines between them; what others put there stays."""
    kept, inside = [], False
    for line in text.splitlines(keepends=True):
        bare = line.strip()
        if bare.startswith(BEGIN[:19]) or (inside and bare == END):
            inside = bare != END
        elif not (inside and f"]({PREFIX}" in line):
            kept.append(line)
    return "".join(kept)


def _split(text: str) -> tuple[dict[str, str], str]:
    """(front matter, body); keys in lower case. Without a closed front matter, all is body."""
    front, body = front_matter.split(text)
    found = dict(front or {})
    for key, value in (front or {}).items():
        if isinstance(value, dict):  # JSON
            found |= {f"{key}.{inner}": one for inner, one in value.items()}
        elif isinstance(value, list):  # as YAML reads a description that is a [[link]]
            found[key] = ", ".join(map(str, value))
    return {key.lower(): one for key, one in found.items() if isinstance(one, str)}, body


def _heading(line: str) -> str:
    """The words of a heading, "" for another line."""
    found = _HEADING.fullmatch(line)
    return found[2].rstrip().rstrip("#").rstrip() if found else ""


def _line(text: str) -> str:
    return " ".join(text.split())


def _cut(title: str) -> str:
    title = _line(title)
    return title if len(title) <= MAX_TITLE else title[: MAX_TITLE - 1] + "…"


def _spoken(name: str) -> str:
    """A file's or a note's name as words."""
    words = re.sub(r"[-_]+", " ", name).strip()
    return words[:1].upper() + words[1:]
