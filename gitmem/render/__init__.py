"""Memories for human eyes.

Promise: pipes get plain text, NO_COLOR is respected, and no stored byte can
drive the terminal: control characters, escapes and hidden Unicode are shown
as visible marks.
"""

from .memory_text import (
    commit,
    hit,
    hits,
    left_out,
    line,
    listing,
    memory,
    nothing,
    verdict,
    whole_commit,
)
from .progress_line import progress
from .review_text import proposal, proposals, suggestion, suggestions
from .terminal import is_terminal, keys, pairs, safe, say, use_colours

__all__ = [
    "commit", "hit", "hits", "is_terminal", "keys", "left_out", "line", "listing", "memory",
    "nothing", "pairs", "progress", "proposal", "proposals", "safe", "say", "suggestion",
    "suggestions", "use_colours", "verdict", "whole_commit",
]  # fmt: skip
