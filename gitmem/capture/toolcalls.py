"""What a tool did to a file, in a few lines: tool, file, change, result.

Promise: pure, bounded (CHARS of each side of a change), and the file's name is the tool's own
input, never a model's guess. A tool that changed nothing is "".

Standard library only and without its slow parts: an agent waits for it after every tool it uses.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

CHARS = 400  # of what was there, and of what is there now
_OLD = ("old_string", "old_str", "oldText", "old_source")
_NEW = ("new_string", "new_str", "newText", "new_source", "content", "file_text", "contents")
_EDITS = ("edits", "changes")
_PATCHES = ("input", "patch", "command")
_RESULTS = ("message", "textResultForLlm", "llmContent")


def describe(given: Mapping[str, Any], answer: object, name: str, paths: list[str]) -> str:
    """One use of a tool, for a model; "" where no file of this repository was changed."""
    if not paths or not name:
        return ""
    edits = next((v for k in _EDITS if isinstance(v := given.get(k), list)), [])
    changed = [_change(edit) for edit in edits or [given] if isinstance(edit, dict)]
    parts = [part for part in (_patched(given), *changed) if part]
    change = [f"Change: {'; '.join(parts[:3])}"] if parts else []
    lines = [f"Tool: {name}", f"File: {', '.join(paths[:3])}", *change]
    return "\n".join([*lines, f"Result: {_result(answer)}"])


def _patched(given: Mapping[str, Any]) -> str:
    """What a patch takes and gives, where the tool was given one (`apply_patch`)."""
    for name in _PATCHES:
        patch = given.get(name)
        if isinstance(patch, str) and patch.lstrip().startswith("*** Begin Patch"):
            lines = patch[: CHARS * 20].splitlines()
            old, new = (" ".join([x[1:] for x in lines if x[:1] == sign]) for sign in "-+")
            return _change({"old_string": old, "new_string": new})
    return ""


def _change(given: Mapping[str, Any]) -> str:
    old, new = _first(given, _OLD), _first(given, _NEW)
    if old:
        return f"`{old}` → `{new}`" if new else f"`{old}` removed"
    return f"`{new}`" if new else ""


def _first(given: Mapping[str, Any], names: tuple[str, ...]) -> str:
    for name in names:
        value = given.get(name)
        if isinstance(value, str) and value.strip():
            # Cut before anything reads it: a file may have megabytes. What `<private>` opens stays
            # cut without its end.
            text = " ".join(value[: CHARS * 2].split())
            return text if len(text) <= CHARS else text[:CHARS] + " …"
    return ""


def _result(answer: object) -> str:
    """What the tool says of itself, where that is short; the caller knows that it did not fail."""
    if isinstance(answer, dict):
        answer = _first(answer, _RESULTS)
    short = isinstance(answer, str) and 0 < len(answer) <= CHARS // 2
    return " ".join(str(answer).split()) if short else "applied"
