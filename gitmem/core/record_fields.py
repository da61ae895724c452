"""The fields of a memory's text and origin: one table.

Checks (`record_content`), drafts, edits, merging (`unite`), search, export and display are made
from it. A new field is a row here, and an option of a command where people set it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TEXT, LINE, WORD, CHOICE, NUMBER = "text", "line", "word", "choice", "number"
SET, LIST, PATHS, IDS = "set", "list", "paths", "ids"
ENTRIES = (SET, LIST, PATHS, IDS)  # kinds that are lists


class Field:
    """One field, unlike the defaults where its row says so.

    A change of `searched` or `label` raises `cache.SCHEMA`.
    """

    content = True  # part of what the memory says: edits carry it on, versions are united by it
    draft = True  # a writer may give it
    inherited = False  # a memory that takes the place of another has it from there
    exported = True
    searched = False  # recall looks for words in it
    label = ""  # the name under which filters find a memory by its value, or by one entry of it
    natural = True  # somebody's prose: what cannot be decoded is refused, not replaced
    choices: tuple[str, ...] = ()  # the words that a CHOICE may have

    def __init__(self, name: str, kind: str, limit: int = 0, **unlike: Any) -> None:
        self.name = name
        self.kind = kind
        self.limit = limit  # characters of a text or of one entry
        vars(self).update(unlike)


PROVENANCE = ("VERIFIED", "CITED", "ASSUMED", "CACHED")
MAX_TITLE = 300
MAX_WORD = 200
_LONG_LINE = 5 * MAX_WORD
_ENTRY = 4 * MAX_TITLE

# Title, subtitle and body flow into each other, in this order, where secrets are looked for.
FIELDS = (
    Field("title", LINE, MAX_TITLE),
    Field("subtitle", LINE, MAX_TITLE, searched=True),
    Field("body", TEXT),
    Field("type", WORD, MAX_WORD, inherited=True),
    Field("tags", SET, MAX_WORD, inherited=True, searched=True, label="tag"),
    Field("paths", PATHS, inherited=True, natural=False),
    Field("facts", LIST, _ENTRY, searched=True),
    Field("concepts", LIST, _ENTRY, searched=True),
    Field("source", LINE, _LONG_LINE),
    Field("phase", LINE, _LONG_LINE, inherited=True, searched=True, label="phase"),
    Field("provenance", CHOICE, natural=False, choices=PROVENANCE),
    Field("confidence", NUMBER, natural=False),
    Field("supersedes", IDS, draft=False, exported=False, natural=False),
    Field("author", LINE, _LONG_LINE, content=False, natural=False),
    Field("agent", LINE, _LONG_LINE, content=False, natural=False),
    Field("session", LINE, _LONG_LINE, content=False, natural=False),
    Field("branch", LINE, _LONG_LINE, content=False, exported=False, natural=False),
    Field("reason", LINE, MAX_TITLE, content=False, draft=False, exported=False),
)
BY_NAME = {field.name: field for field in FIELDS}
CONTENT = tuple([field.name for field in FIELDS if field.content])
DRAFT = frozenset([field.name for field in FIELDS if field.draft])
FLOW = ("title", "subtitle", "body")


def names(*kinds: str) -> tuple[str, ...]:
    """The fields of these kinds, in the order of the table."""
    return tuple([field.name for field in FIELDS if field.kind in kinds])
