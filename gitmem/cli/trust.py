"""Commands about who said what: verify, sign."""

from __future__ import annotations

from collections import Counter
from typing import Any

import typer

from .. import render
from ..core import record
from ..memory import memories, verify
from . import app
from .common import each, opened, write, write_json
from .options import Ids, Json, flag

_WORDS = {
    "none": "without a signature",
    "untrusted": "by keys that nobody here vouches for",
    "unknown": "that cannot be checked",
}


@app.command("verify")
def verify_command(
    ids: list[str] = typer.Argument(
        None, metavar="[ID]...", help="Only these memories; without, all that are visible."
    ),
    *,
    all: bool = flag(
        "--all", help="Every record: also replaced texts, forgets, shares and purges."
    ),
    as_json: Json,
) -> int:
    """Check signatures with git's keys, ids with their texts, and look for credentials, also in
    lines that are no memories. Exit code 1 where a signature is bad or below `mem.trust`.
    """
    with opened() as store:
        with render.progress("verifying", total=None) as advance:
            items = verify.verify(store, ids or [], everything=all, tell=advance)
        if as_json:
            write_json(items)
        else:
            for item in items:
                remarkable = item["state"] != "none" or item["secrets"] or item["hides_signed"]
                if ids or remarkable or verify.failed(item):
                    write(_line(item))
            counts = Counter(item["state"] for item in items if item["id"]).most_common()
            states = [f"{n} {_WORDS.get(state, state)}" for state, n in counts]
            write(", ".join(states) or "no memories here yet")
        return 1 if any(map(verify.failed, items)) else 0


def _line(item: dict[str, Any]) -> str:
    name = item["id"][:8] if item["op"] in record.MEMORY_OPS else f"line {item['version'][:8]}"
    if item["op"] is None:
        return (
            f"{name} [{item['scope']}], which is no memory, looks like it holds a secret"
            f" ({item['secrets'][0]['rule']})"
        )
    by = item["signer"] or item["key"]
    remarks = [f"by {by}" if by else "", item["reason"]]
    if item["author_matches"] is False:
        remarks.append(f"it names {item['author']} as its author")
    if not item["id_holds"]:
        remarks.append("its id is not that of its text")
    if item["hides_signed"]:
        remarks.append("it hides or replaces a signed record")
    remarks += [
        f"'{s['field']}' looks like it holds a secret ({s['rule']})" for s in item["secrets"]
    ]
    told = "; ".join(remark for remark in remarks if remark)
    return f"{name} {item['state']:<10} {item['title'] or item['op']}" + f" ({told})" * bool(told)


@app.command("sign")
def sign_command(
    ids: Ids,
    *,
    as_json: Json,
) -> int:
    """Vouch for memories: a new version with the same text, signed with your key."""
    return each(ids, memories.sign, "signed", "signed", as_json)
