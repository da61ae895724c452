"""A prompt that asks to keep something ("remember this: …") where capture does not store it.
Its agent is told so, since it can write itself. What counts as asking is what capture would store
unasked: a sure marker (`capture/markers`).

Standard library only; patterns are loaded for the few prompts that have one of the words.
"""

from __future__ import annotations

_LONGEST = 2_000  # characters: no marker is sure in a longer prompt
# In lower case; each marker has one of them. A trailer's word counts before a colon only.
_WORDS = (
    "remember|note of this|note to self|note for |note that|memo|forget that|future"
    "|now on|here on|point on|today on|forward|henceforth|a rule|general rule"
).split("|")


def likely(prompt: str) -> bool:
    """Whether `note` is worth its 40 ms: false for 23 of 24 real prompts."""
    if len(prompt) > _LONGEST:
        return False
    text = prompt.lower()
    if any(word in text for word in _WORDS):
        return True
    text = text.replace("：", ":")
    if ":" not in text:
        return False
    from ..capture import word_lists

    bare = "".join([c for c in text if c.isalpha() or c == ":"])
    labels = [word.replace(" ", "") for word in word_lists.TRAILERS]
    return any(f"{word}:" in bare or f"{word}s:" in bare for word in labels)


def note(prompt: str, capture: str) -> str:
    """What the agent is told, "" for a prompt that asks nothing. `capture`: the setting."""
    from ..capture import markers, strip

    found = markers.find(strip.cleaned(prompt))
    if not found or not found[1]:
        return ""
    return (
        '<memory_context source="git-mem"><note>This prompt asks to keep something, which git mem'
        f" does not do by itself here (mem.capture is {capture}). To keep it: git mem remember"
        f' --type {found[0]} "TEXT"</note></memory_context>\n'
    )
