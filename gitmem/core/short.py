"""Short names of memories, for records that name many: the first 12 of an id's 32 hex digits.

Promise: a short name never stands for the wrong one of two memories: where two that are here
share it, it stands for neither (48 bits: of 100,000 memories any two share one with a
probability of 2 in 100,000). Readers look it up in the memories that are here (`usage_store.full`).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

DIGITS = 12
_CODED = 8  # characters of base64 that hold them


def of(id: str) -> str:
    return id[:DIGITS]


def pack(ids: Iterable[str]) -> str:
    """The short names of ids as one text: 8 characters of base64 each."""
    from binascii import b2a_base64  # not for prompts, which never come here

    return b2a_base64(bytes.fromhex("".join(map(of, ids))), newline=False).decode()


def unpack(text: object) -> list[str]:
    from binascii import a2b_base64

    if not isinstance(text, str) or len(text) % _CODED:
        return []
    try:
        digits = a2b_base64(text, strict_mode=True).hex()
    except ValueError:
        return []
    if len(digits) % DIGITS:
        return []
    return [digits[at : at + DIGITS] for at in range(0, len(digits), DIGITS)]
