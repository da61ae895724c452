"""The page of `git mem ui`: one HTML file that fetches nothing, joined from `data/ui/`.

Promise: no text of a memory is markup. The memories stand as JSON in a script element that holds
no `<`, so nothing can close it, and the program puts them into the page as text. The policy allows
this one program and this one style sheet, by their hashes, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from typing import Any, NamedTuple

_SOURCE = os.path.join(os.path.dirname(os.path.dirname(__file__)), "data", "ui")
_PROGRAM = ("facts", "search", "views", "statistics", "review", "memory", "main")  # in this order


class Page(NamedTuple):
    """`policy`: the Content-Security-Policy that the page names itself and its server sends."""

    html: str
    policy: str


def joined(data: dict[str, Any]) -> Page:
    """The page for the value that `page_data.gather` returns."""
    parts = {"css": _read("page.css"), "js": "\n".join(_read(f"{name}.js") for name in _PROGRAM)}
    connect = "'self'" if data.get("served") else "'none'"
    policy = (
        f"default-src 'none'; script-src {_hash(parts['js'])}; style-src {_hash(parts['css'])};"
        f" img-src data:; connect-src {connect}; base-uri 'none'; form-action 'none'"
    )
    parts |= {"policy": policy, "data": as_json(data)}
    # In one pass: a memory may hold the name of a part.
    html = re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _read("page.html"))
    return Page(html, policy)


def as_json(value: Any) -> str:
    """JSON for a script element: all ASCII, without the character that begins markup."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _read(name: str) -> str:
    with open(os.path.join(_SOURCE, name), encoding="utf-8") as f:
        return f.read()


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
