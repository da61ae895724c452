"""Counted nouns for messages."""


def many(n: int, noun: str) -> str:
    """`1 memory`, `2,000 memories`."""
    if n != 1:
        noun = noun[:-1] + "ies" if noun.endswith("ry") else noun + "s"
    return f"{n:,} {noun}"
