"""One memory as an agent is told it, in a block of context or beside a prompt.

Promise: the text of a memory is neutralised and quoted: it closes no tag, steers no terminal and
hides nothing. What a reader must know beside the text (state, staleness, contradictions) is
written the same everywhere. Standard library only, without slow imports: every prompt waits for it.
"""

from __future__ import annotations

from ..core import record, sanitize
from ..core.digest import sha256
from ..engine import anchor_state_store, contradictions, memory_rows, path_state_store, reinstated
from ..engine.memory_rows import PRIVATE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from ..engine.anchor_state_store import AnchorState
    from ..engine.cache import Cache

    Ages = Mapping[int, Mapping[int, path_state_store.PathState]]

BYTES = 3.2  # of UTF-8 a token: 3.1 to 3.6 in real blocks, by Anthropic's published tokenizer
SHORT, LONG = 300, 1_200  # characters of a text where space is scarce, and where it is left
ID = 8  # hex digits of an id; any unique prefix finds a memory
NAME = 60  # characters of a branch, type or project
_PATH = 60  # characters of a path, and of all that are named with a memory

_ENDS = ".:;,!?…。：！？"  # what a paragraph may end with

# An unknown state for these reasons says nothing about a single memory.
_NOT_LOOKED = ("", anchor_state_store.WAITING, anchor_state_store.UNBORN)
BLOCKERS, DECISIONS, RELEVANT = "active_blockers", "recent_decisions", "relevant_memories"
SECTIONS = (BLOCKERS, DECISIONS, RELEVANT)


class Item:
    """One memory. `text` is its whole body; `most` says how many characters are shown.

    No dataclass: importing those costs every prompt 12 ms.
    """

    title = ""
    at = ""  # as stored: what is shown
    mark = ""  # what a session notes beside the id (`mark`)
    author = branch = commit = into = ""
    state = anchor_state_store.UNKNOWN
    reason = ""  # of an unknown state, or that an unmerged commit was abandoned
    paths: Sequence[str] = ()
    private = False
    why: Sequence[str] = ()  # it was chosen
    section = RELEVANT
    replaced = ""  # the unmerged branch or commit on which it was superseded
    versions = 0  # how many alternatives it has, this one included; 0 for none
    against: Sequence[str] = ()  # ids of memories that contradict it (`contradictions`)
    found = ""  # how a search found it; "" in a block
    provenance = ""
    confidence: object = None
    row = -1
    most = SHORT

    def __init__(self, id: str, type: str, text: str, **known: Any) -> None:
        self.id = id
        self.type = type
        self.text = text
        self.similar: list[str] = []  # ids of memories that say the same
        aged = known.pop("aged", None)
        self.__dict__.update(known)
        self.when = self.at  # the time that counts (`record.when`)
        self.aged = path_state_store.of(aged, len(self.paths))  # of each path
        self._written: tuple[int, str, str] = (0, "", "")  # the XML of a length and a section

    @property
    def whole(self) -> str:
        """Title and body in one line, the title only if the body does not begin with what it says;
        of a long body as much as could be shown.
        """
        body = self.text[: 4 * LONG]
        begin = _letters(body[: 2 * len(self.title) + NAME])
        return _joined(body if _letters(self.title) in begin else f"{self.title}\n\n{body}")

    @property
    def cut(self) -> bool:
        return len(self.whole) > self.most

    @property
    def waiting(self) -> bool:
        """Whether nobody has looked yet where it stands, or what became of its paths."""
        return anchor_state_store.WAITING in [self.reason, *(s.reason for s in self.aged)]

    def shown(self) -> str:
        return shortened(self.whole, self.most)

    def remarks(self) -> list[tuple[str, str]]:
        """(name, value) of what a reader must know beside the text."""
        unmerged = self.state == anchor_state_store.UNMERGED
        # A block says once, for all of them, that nobody has looked yet.
        skipped = ("",) if self.found else _NOT_LOOKED
        unknown = self.state == anchor_state_store.UNKNOWN and self.reason not in skipped
        abandoned = unmerged and self.reason == anchor_state_store.ABANDONED
        typed = self.section in (BLOCKERS, DECISIONS)  # the section says so
        remarks = {
            "type": "" if typed or self.type == record.DEFAULT_TYPE else shortened(self.type, NAME),
            "date": self.at[:10],
            "state": self.state if unmerged or unknown else "",
            "branch": shortened(self.branch, NAME) if unmerged else "",
            "reason": self.reason if abandoned else "",
            "superseded_on": shortened(self.replaced, NAME),
            "versions": str(self.versions or ""),
            "contradicted_by": " ".join([id[:ID] for id in self.against[:3]]),
            "provenance": shortened(self.provenance, NAME),
            "scope": "private" if self.private else "",
            "stale": ending(path_state_store.remark(self.aged), _PATH + 12),
            "files": _named(self.paths),
            "found": self.found,
        }
        return [(name, value) for name, value in remarks.items() if value]

    @property
    def staleness(self) -> str:
        """What became of its paths in one word; "none" where it names none."""
        if not self.paths:
            return "none"
        if worst := path_state_store.worst(self.aged):
            return worst
        unknown = all(s.state == path_state_store.UNKNOWN for s in self.aged)
        return path_state_store.UNKNOWN if unknown else path_state_store.SAME

    def xml(self) -> str:
        most, section, text = self._written
        if most != self.most or section != self.section:
            text = self.element(sanitize.content(self.shown()))
            self._written = (self.most, self.section, text)
        return text

    def element(self, quoted: str) -> str:
        """The element of this memory around a text that was quoted before."""
        names = [("id", self.id[:ID]), *self.remarks()]
        attributes = "".join([f' {name}="{sanitize.quoted(value)}"' for name, value in names])
        return f"<memory{attributes}>{quoted}</memory>\n"

    def md(self) -> str:
        plain = ("type", "date", "scope")
        remarks = [v if name in plain else f"{name} {v}" for name, v in self.remarks()]
        about = bare(", ".join(remarks))
        return f"- [{bare(self.id[:ID])}] ({about}) {bare(self.shown())}\n"

    def json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "type": self.type,
            "title": self.title,
            "body": self.text,
            "created_at": self.at or None,
            "author": self.author or None,
            "scope": "private" if self.private else "team",
            "anchor": {
                "commit": self.commit or None,
                "branch": self.branch or None,
                "state": self.state,
                **({"squashed_into": self.into} if self.into else {}),
                **({"reason": self.reason} if self.reason else {}),
            },
            "paths": [
                {"path": path, "state": s.state, **({"now": s.now} if s.now else {})}
                for path, s in zip(self.paths, self.aged, strict=True)
            ],
            "staleness": self.staleness,
            "why": list(self.why),
            "similar": self.similar,
            **({"contradicts": list(self.against)} if self.against else {}),
        }


def of(
    cache: Cache,
    rows: Sequence[int],
    loaded: Sequence[tuple[dict[str, Any], int, int]],
    stands: Mapping[str, AnchorState],
    aged: Ages,
) -> list[Item]:
    """The memories of rows, as `memory_rows.load` gave them, with states of commits and paths."""
    ids = [str(data["id"]) for data, _, _ in loaded]
    back = reinstated.told(cache, rows)
    against = contradictions.of(cache, ids)
    beside = memory_rows.beside(cache, ids)
    unknown = anchor_state_store.AnchorState(anchor_state_store.UNKNOWN, "")
    word = memory_rows.word
    out = []
    for row, id, (data, scope, _) in zip(rows, ids, loaded, strict=True):
        stand = stands.get(memory_rows.commit_of(data)) or unknown
        item = Item(
            record.clean(data["id"]),
            word(data.get("type")) or record.DEFAULT_TYPE,
            record.clean(data["body"]),
            **{name: word(data.get(name)) or "" for name in ("title", "author", "branch")},
            mark=mark(data),
            at=memory_rows.made_at(data),
            commit=stand.commit,
            state=stand.state,
            reason=stand.reason,
            into=stand.into,
            paths=memory_rows.paths(data),
            private=scope == PRIVATE,
            aged=aged.get(row),
            row=row,
            confidence=data.get("confidence"),
            against=against.get(id, ()),
            versions=len(beside.get(id, ())),
        )
        if row in back:
            item.replaced = back[row][1] or back[row][2][:ID]
        out.append(item)
    return out


def mark(data: Mapping[str, Any]) -> str:
    """Names a memory with what it says: an edited one has another. Salted where its record is."""
    said = f"{data.get('salt')}\n{data.get('title')}\n{data['body']}"
    return f"{data['id']}={sha256(said.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def noted(items: Iterable[Item]) -> list[str]:
    """What a session notes of memories that it was told: each id and mark."""
    return [word for item in items for word in (item.id, item.mark)]


# Texts


def bare(text: str) -> str:
    """For Markdown: in one line, and no tag of HTML or of ours."""
    return sanitize.inert(text, lines=False).replace("<", "&lt;")


def _letters(text: str) -> str:
    return "".join([c for c in text.casefold() if c.isalnum()])


def _joined(text: str) -> str:
    """A text in one line. A paragraph ends like a sentence, a heading of Markdown with a colon."""
    out, ends = "", False
    for line in text.splitlines():
        words = " ".join(line.split())
        if words.startswith("##") and (heading := words.strip("#").strip()):
            words = heading + ":" * (heading[-1] not in _ENDS)
            ends = True
        if words and out:
            out += ". " if ends and out.rstrip("*_")[-1:] not in _ENDS else " "
        out += words
        ends = not words
    return out


def shortened(text: str, most: int) -> str:
    """At most `most` characters of a text, cut between words, with a mark for the missing rest."""
    if len(text) <= most:
        return text
    cut = text[: most - 1]
    space = cut.rfind(" ")
    return (cut[:space] if space > most * 2 // 3 else cut).rstrip(" ,;:-") + "…"


def _named(paths: Sequence[str]) -> str:
    """The first path, the next ones as far as they fit beside it, and how many more there are."""
    named = ending(paths[0], _PATH) if paths else ""
    for n, path in enumerate(paths[1:], 1):
        if len(named) + len(path) >= _PATH:
            return f"{named} +{len(paths) - n}"
        named += f" {path}"
    return named


def ending(path: str, most: int) -> str:
    """A path, cut at its beginning: the end tells more."""
    return path if len(path) <= most else "…" + path[-most + 1 :]


def units(text: str) -> int:
    """UTF-16 code units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def size(text: str) -> int:
    """UTF-8 bytes."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
