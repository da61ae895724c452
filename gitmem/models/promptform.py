"""What the language model is told and how it may answer. Pure text.

Owns the task's words, the tool `create_memory` as a schema, the labels, and the
grammar of an answer. The model never writes freely: it continues a tool call
whose beginning is given, its type is read from the probabilities of the labels,
and only a title is generated, under a grammar that admits nothing but a short
line and the end of the call. So no answer can fail to parse.

SKIP is a label like the others: "nothing to keep" is a decision, not silence.
Raise `VERSION` with every change of a word here: what was cached or calibrated
for another prompt is then of no use.
"""

from __future__ import annotations

import json
from typing import Any

VERSION = 1
SKIP = "skip"
TYPES = ("decision", "preference", "learning", "bugfix", "blocker", "progress")
LABELS = (*TYPES, SKIP)

# What says nothing: a model's answer to these is its leaning, not its opinion, and is divided out
# (type right of 158 turns: 0.54 without, 0.55 with).
NEUTRAL = ("", "N/A", "...", "[text]")

# characters of a turn that the model sees: the first two thirds and the end of a longer one; 200
# tokens take a second on two cores
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
        (
            "Found it: the worker crashed because a stale lock file was left behind. It is removed"
            " on start now, and the restart test passes."
        ),
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
        (
            "The API returns amounts in cents, not in euros, so every price on the page was a"
            " hundred times too high."
        ),
        "learning",
    ),
    ("user", "yes, go on", SKIP),
)

TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "create_memory",
        "description": "Record what the turn holds, or that it holds nothing to keep (skip).",
        "parameters": {
            "type": "object",
            "properties": {
                "type": {
                    "type": "string",
                    "enum": list(LABELS),
                    "description": "what kind of memory it is, or skip",
                },
                "title": {
                    "type": "string",
                    "description": "what was said, in at most ten words of the turn",
                },
            },
            "required": ["type", "title"],
        },
    },
}

BEFORE = '<tool_call>\n{"name": "create_memory", "arguments": {"type": "'
BETWEEN = '", "title": "'
AFTER = '"}}\n</tool_call>'
LONGEST_TITLE = 80


def messages() -> list[dict[str, Any]]:
    """The conversation up to the turn in question: the same for all, so its state is computed
    once."""
    out: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM}]
    for role, text, label in EXAMPLES:
        out.append({"role": "user", "content": turn(role, text)})
        out.append({"role": "assistant", "content": call(label, "" if label == SKIP else text)})
    return out


def turn(role: str, text: str) -> str:
    """One turn as the model sees it."""
    return f"[{role if role in ('user', 'assistant', 'commit', 'tool') else 'user'}]\n{shortened(text)}"  # noqa: E501


def shortened(text: str, most: int = MOST) -> str:
    """The beginning and the end of a long text."""
    if len(text) <= most:
        return text
    head = most * 2 // 3
    return f"{text[:head]}\n[...]\n{text[-(most - head) :]}"


def types(said: dict[str, float], leaning: dict[str, float]) -> dict[str, float]:
    """{type: share}, sums to 1: what the model says of a turn against what it says of nothing, if
    the turn is worth keeping.
    """
    parts = {t: said[t] / max(leaning[t], 1e-6) for t in TYPES}
    total = sum(parts.values())
    return {t: part / total if total else 1 / len(TYPES) for t, part in parts.items()}


def call(label: str, text: str) -> str:
    """The tool call of an example."""
    title = " ".join(text.split())[:LONGEST_TITLE].replace("\\", "").replace('"', "'")
    return f"{BEFORE}{label}{BETWEEN}{title}{AFTER}"


def grammar() -> str:
    """GBNF of what may follow `BETWEEN`: a title in one line without quotes, and the end of the
    call.
    """
    return (
        f"root ::= char{{8,{LONGEST_TITLE}}} {json.dumps(AFTER)}\nchar ::="
        ' [^"\\\\\\x00-\\x1f\\x7f]\n'
    )


def plain() -> str:
    """The prompt for a model whose file has no chat template."""
    return "\n\n".join(f"{m['role']}: {m['content']}" for m in messages())
