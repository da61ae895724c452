"""Which configured fetches write over or delete refs of ours, by git's own rules.
A `+` forces, pruning deletes what the remote lacks, a `^` takes refs of the remote out.
"""

from __future__ import annotations

from .config import is_true
from .gitcmd import Git


def threats(git: Git, refs: list[str]) -> list[tuple[str, str, str, list[str]]]:
    """[(remote, refspec, "overwrites", "deletes" or both, the refs of ours it reaches)]."""
    specs: dict[str, list[str]] = {}
    prune: dict[str, bool] = {}
    keys = r"^(remote\..*\.(fetch|prune)|fetch\.prune)$"
    rows = git.run("config", "-z", "--get-regexp", keys, ok=(0, 1))
    for row in rows.decode("utf-8", "surrogateescape").split("\0"):
        key, newline, value = row.partition("\n")
        name, _, last = key.partition(".")[2].rpartition(".")
        if last == "fetch":
            specs.setdefault(name, []).append(value)
        elif key:
            prune[name] = not newline or is_true(value)
    out = []
    for name, given in specs.items():
        kept = [spec[1:] for spec in given if spec.startswith("^")]
        for spec in given:
            source, colon, target = spec.removeprefix("+").partition(":")
            there = {ref: _mapped(target, ref, source) for ref in refs if colon}
            reached = [
                ref for ref, of in there.items() if of and not any(_mapped(k, of, k) for k in kept)
            ]
            verbs = ["overwrites"] if spec.startswith("+") else []
            verbs += ["deletes"] if prune.get(name, prune.get("", False)) else []
            if reached and verbs:
                out.append((name, spec, " and ".join(verbs), reached))
    return out


def _mapped(pattern: str, ref: str, to: str) -> str:
    """What a ref is called by the pattern `to`; "" where `pattern` (at most one `*`) lacks it."""
    head, star, tail = pattern.partition("*")
    if not star:
        return to if ref == pattern else ""
    if len(ref) < len(head) + len(tail) or not (ref.startswith(head) and ref.endswith(tail)):
        return ""
    return to.replace("*", ref[len(head) : len(ref) - len(tail)], 1)
