"""Which configured fetches write over refs of ours, or delete them.

Promise: the answer of git's own rules for refspecs: a `+` forces, pruning
deletes what the remote lacks, a refspec that begins with `^` takes refs of the
remote out. Nothing is changed.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .gitcmd import Git


def threats(git: Git, refs: list[str]) -> list[tuple[str, str, str, list[str]]]:
    """[(remote, refspec, "overwrites", "deletes" or both, the refs of ours it reaches)]."""
    specs: dict[str, list[str]] = {}
    prune: dict[str, bool] = {}
    rows = git.run(
        "config", "-z", "--get-regexp", r"^(remote\..*\.(fetch|prune)|fetch\.prune)$", ok=(0, 1)
    ).decode("utf-8", "surrogateescape")
    for row in rows.split("\0"):
        key, newline, value = row.partition("\n")
        name, _, last = key.partition(".")[2].rpartition(".")
        if last == "fetch":
            specs.setdefault(name, []).append(value)
        elif key:
            prune[name] = not newline or value.lower() in ("true", "yes", "on", "1")
    out = []
    for name, given in specs.items():
        kept = [spec[1:] for spec in given if spec.startswith("^")]
        for spec in given:
            source, colon, target = spec.removeprefix("+").partition(":")
            reached = [
                ref
                for ref in refs
                if colon
                and (there := _mapped(target, ref, source))
                and not any(_mapped(k, there, k) for k in kept)
            ]
            verbs = [
                verb
                for verb, does in (
                    ("overwrites", spec.startswith("+")),
                    ("deletes", prune.get(name, prune.get("", False))),
                )
                if does
            ]
            if reached and verbs:
                out.append((name, spec, " and ".join(verbs), reached))
    return out


def _mapped(pattern: str, ref: str, to: str) -> str:
    """What a ref that a pattern (with at most one `*`) covers is called by another one; "" where it
    does not cover it.
    """
    head, star, tail = pattern.partition("*")
    if not star:
        return to if ref == pattern else ""
    if len(ref) < len(head) + len(tail) or not (ref.startswith(head) and ref.endswith(tail)):
        return ""
    return to.replace("*", ref[len(head) : len(ref) - len(tail)], 1)
