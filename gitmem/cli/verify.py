"""The command that says who vouches for memories: verify."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from ..core import record
from ..memory import verify
from ..store import Store
from .options import Answer, argument, command, flag

_WORDS = {
    "none": "without a signature",
    "untrusted": "by keys that nobody here vouches for",
    "unknown": "that cannot be checked",
}


@command("verify")
def verify_command(
    store: Store,
    ids: list[str] = argument("[ID]...", "Only these; without, all visible memories.", None),
    all: bool = flag("--all", "Every record: also replaced texts, forgets, shares and purges."),
) -> Answer:
    """Check signatures (of `mem.sign` and `sign`) with git's keys, ids with their texts, and look
    for credentials, also in lines that are no memories. Exit code 1 where a signature is bad or
    below `mem.trust`.
    """
    items = verify.verify(store, ids or [], everything=all)
    return Answer(items, _lines(items, bool(ids)), int(any(map(verify.failed, items))))


def _lines(items: list[dict[str, Any]], named: bool) -> Iterator[str]:
    for item in items:
        remarkable = item["state"] != "none" or item["secrets"] or item["hides_signed"]
        if named or remarkable or verify.failed(item):
            yield _line(item)
    counts = Counter(item["state"] for item in items if item["id"]).most_common()
    states = ", ".join(f"{n} {_WORDS.get(state, state)}" for state, n in counts)
    yield states or "no memories here yet"


def _line(item: dict[str, Any]) -> str:
    name = item["id"][:8] if item["op"] in record.MEMORY_OPS else f"line {item['version'][:8]}"
    if item["op"] is None:
        rule = item["secrets"][0]["rule"]
        what = f"{name} [{item['scope']}], which is no memory"
        return f"{what}, looks like it holds a secret ({rule})"
    by = item["signer"] or item["key"]
    remarks = [f"by {by}" if by else "", item["reason"]]
    if item["author_matches"] is False:
        remarks.append(f"it names {item['author']} as its author")
    if not item["id_holds"]:
        remarks.append("its id is not that of its text")
    if item["hides_signed"]:
        remarks.append("it hides or replaces a signed record")
    for secret in item["secrets"]:
        remarks.append(f"'{secret['field']}' looks like it holds a secret ({secret['rule']})")
    told = "; ".join(remark for remark in remarks if remark)
    return f"{name} {item['state']:<10} {item['title'] or item['op']}" + f" ({told})" * bool(told)
