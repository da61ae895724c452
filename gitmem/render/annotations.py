"""Findings of `git mem check` as other programs read them: SARIF 2.1.0, GitHub's workflow commands.

Promise: a memory's text stays text: it ends no command and starts none. A finding without a path is
about the root of the repository. Lines and columns count from 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from .. import __version__
from ..core.sanitize import inert
from ..timeline.check import RULES

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_ROOT = "SRCROOT"


def sarif(findings: list[dict[str, Any]]) -> dict[str, Any]:
    """A log with one run; a rule a kind. `partialFingerprints` name a finding across runs."""
    kinds = list(RULES)
    rules = [
        {
            "id": kind,
            "name": rule.name.title().replace(" ", ""),
            "shortDescription": {"text": rule.name},
            "help": {"text": rule.help},
            "defaultConfiguration": {"level": rule.level},
        }
        for kind, rule in RULES.items()
    ]
    driver = {"name": "git-mem", "semanticVersion": __version__, "rules": rules}
    results = [
        {
            "ruleId": found["kind"],
            "ruleIndex": kinds.index(found["kind"]),
            "level": found["level"],
            "message": {"text": inert(found["message"], lines=False)},
            "locations": [{"physicalLocation": _location(found)}],
            "partialFingerprints": {"gitMemFinding/v1": _fingerprint(found)},
        }
        for found in findings
    ]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _location(found: dict[str, Any]) -> dict[str, Any]:
    name = quote((found["path"] or "./").encode("utf-8", "surrogateescape"))
    place = {"artifactLocation": {"uri": name, "uriBaseId": _ROOT}}
    return {**place, "region": {"startLine": found["line"] or 1}} if found["path"] else place


def _fingerprint(found: dict[str, Any]) -> str:
    return ":".join(filter(None, (found["kind"], found["id"], found.get("version"), found["path"])))


def github(findings: list[dict[str, Any]]) -> Iterator[str]:
    """`::warning file=…,line=…,title=…::message`: one line a finding, which a workflow's log shows
    beside the file.
    """
    for found in findings:
        place = {"file": found["path"], "line": found["line"], "title": f"git mem: {found['kind']}"}
        parts = [f"{name}={_property(str(value))}" for name, value in place.items() if value]
        yield f"::{found['level']} {','.join(parts)}::{_data(found['message'])}"


def _data(text: str) -> str:
    """As @actions/core escapes a message; hidden characters are marked before."""
    return inert(text, lines=False).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
