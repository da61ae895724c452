"""What the language model is told and how it may answer. Pure text.

The model continues a tool call whose beginning is given, and its type is read from the
probabilities of the labels, so no answer can fail to parse. SKIP is a label like the others:
"nothing to keep" is a decision, not silence. Raise `VERSION` with every change of a word here: what
was calibrated for another prompt is then of no use.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

VERSION = 1
SKIP = "skip"
TYPES = ("decision", "preference", "learning", "bugfix", "blocker", "progress")
LABELS = (*TYPES, SKIP)

# Turns that say nothing: a model's answer to these is its leaning, not its opinion, and is divided
# out (type right of 158 turns: 0.54 without, 0.55 with).
NEUTRAL = ("", "N/A", "...", "[text]")
# Characters of a turn that the model sees; 200 tokens take a second on two cores.
MOST = 800

SYSTEM = """You watch a coding session and decide which turns hold something a teammate should still know in a month. You get one turn at a time and call create_memory for it.

type is one of:
- decision: a design or product choice, stated with its content
- preference: a lasting rule about how to work
- learning: a fact about the system or its tools that will matter later, or a corrected belief
- bugfix: the cause of a fault, and what fixed it
- blocker: something stops the work and is not solved
- progress: a milestone was reached
- skip: everything else: requests, questions, answers like yes or option A, raw output and errors, plans, and tool steps told one by one

Most turns are skip."""  # noqa: E501

EXAMPLES = (
    ("user", "can you add a loading spinner to the upload page?", SKIP),
    (
        "user",
        "let's go with Postgres instead of Mongo, orders and invoices have to share a transaction",
        "decision",
    ),
    ("assistant", "Now let me read the config file and check how the tests are started.", SKIP),
    (
        "assistant",
        "Found it: the worker crashed because a stale lock file was left behind. It is removed"
        " on start now, and the restart test passes.",
        "bugfix",
    ),
    ("user", "from now on never commit generated files", "preference"),
    (
        "user",
        "why does the build fail? TypeError: cannot read properties of undefined (reading 'map')",
        SKIP,
    ),
    (
        "assistant",
        "The API returns amounts in cents, not in euros, so every price on the page was a"
        " hundred times too high.",
        "learning",
    ),
    ("user", "yes, go on", SKIP),
)

_TYPE = {"type": "string", "enum": [*LABELS], "description": "what kind of memory it is, or skip"}
_TITLE = {"type": "string", "description": "what was said, in at most ten words of the turn"}
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "create_memory",
        "description": "Record what the turn holds, or that it holds nothing to keep (skip).",
        "parameters": {
            "type": "object",
            "properties": {"type": _TYPE, "title": _TITLE},
            "required": ["type", "title"],
        },
    },
}

BEFORE = '<tool_call>\n{"name": "create_memory", "arguments": {"type": "'
_LONGEST_TITLE = 80


class Opinion(NamedTuple):
    """P(worth keeping), which is 1 - P(skip), the likeliest type, and the share of each type."""

    keep: float
    type: str = ""
    types: Mapping[str, float] | None = None


def messages() -> list[dict[str, Any]]:
    """The conversation up to the turn: the same for all, so its state is computed once."""
    out: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM}]
    for role, text, label in EXAMPLES:
        out.append({"role": "user", "content": turn(role, text)})
        out.append({"role": "assistant", "content": call(label, "" if label == SKIP else text)})
    return out


def turn(role: str, text: str) -> str:
    known = role if role in ("user", "assistant", "commit", "tool") else "user"
    return f"[{known}]\n{shortened(text)}"


def shortened(text: str) -> str:
    """The first two thirds and the end of a long text."""
    if len(text) <= MOST:
        return text
    head = MOST * 2 // 3
    return f"{text[:head]}\n[...]\n{text[-(MOST - head) :]}"


def opinion(said: dict[str, float], leaning: dict[str, float]) -> Opinion:
    """The answer to a turn, against the answer to nothing."""
    shares = types(said, leaning)
    return Opinion(1.0 - said[SKIP], max(shares, key=shares.__getitem__), shares)


def types(said: dict[str, float], leaning: dict[str, float]) -> dict[str, float]:
    """{type: share}, sums to 1, if the turn is worth keeping."""
    parts = {t: said[t] / max(leaning[t], 1e-6) for t in TYPES}
    total = sum(parts.values())
    return {t: part / total if total else 1 / len(TYPES) for t, part in parts.items()}


def call(label: str, text: str) -> str:
    title = " ".join(text.split())[:_LONGEST_TITLE].replace("\\", "").replace('"', "'")
    return f'{BEFORE}{label}", "title": "{title}"}}}}\n</tool_call>'


def plain() -> str:
    """The prompt for a model whose file has no chat template."""
    return "\n\n".join(f"{m['role']}: {m['content']}" for m in messages())
