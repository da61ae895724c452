"""`git mem check`: each kind of finding, what is chosen, and the formats for other programs."""

from __future__ import annotations

import pathlib
import re
from typing import Any
from urllib.parse import unquote

import pytest
from conftest import Lab
from places import commit
from signers import Ring

from gitmem import render
from gitmem.core import record
from gitmem.render import annotations
from gitmem.timeline.check import RULES

KEY = "AKIA" + "Z7QX3MWP5LVT2NRB"


def findings(lab: Lab, repo: pathlib.Path, *argv: str, rc: int = 1) -> list[tuple[str, str | None]]:
    found = lab.json(repo, "check", *argv, rc=(rc,))["findings"]
    return [(f["kind"], f["path"]) for f in found]


def annotate(lab: Lab, repo: pathlib.Path, line: str) -> None:
    lab.git(repo, "notes", "--ref=mem/team", "append", "-m", line)


@pytest.fixture
def repo(lab: Lab) -> pathlib.Path:
    path = lab.repo()
    commit(lab, path, "a.py", "one")
    lab.mem(path, "remember", "The parser must not recurse", "--path", "a.py")
    return path


def test_a_sound_repository_has_no_finding(lab: Lab, repo: pathlib.Path) -> None:
    assert findings(lab, repo, rc=0) == []
    assert lab.mem(repo, "check").strip() == "no memory is stale, of 1 with a path"
    assert lab.mem(repo, "check", "--format", "github") == ""
    assert lab.json(repo, "check", "--format", "sarif")["runs"][0]["results"] == []


def test_each_kind_is_found_told_and_can_be_chosen(lab: Lab, repo: pathlib.Path) -> None:
    annotate(lab, repo, '{"v":1,"op":"create","id":')
    annotate(lab, repo, f"a line of another tool with {KEY}")
    commit(lab, repo, "a.py", "two")
    every = [("stale", "a.py"), ("broken", None), ("secret", None)]
    assert findings(lab, repo) == every
    for kind, path in every:
        assert findings(lab, repo, "--only", kind) == [(kind, path)]
    assert findings(lab, repo, "--only", "broken", "--only", "secret") == every[1:]
    assert findings(lab, repo, "--only", "unsigned", rc=0) == []
    told = lab.mem(repo, "check", rc=(1,))
    for part in ("1 stale memory", "1 broken record", "1 secret", "git mem doctor"):
        assert part in told
    done = lab.run(repo, "git-mem", "check", "--only", "nonsense")
    assert done.returncode == 2 and "not stale, broken, secret" in done.stderr


def test_no_format_repeats_a_secret(lab: Lab, repo: pathlib.Path) -> None:
    lab.mem(repo, "remember", f"the key is {KEY}", "--path", "a.py", "--allow-secret")
    commit(lab, repo, "a.py", "two")
    assert ("secret", "a.py") in findings(lab, repo)
    for form in ("json", "sarif", "github"):
        only = ["--only", "secret"] if form == "json" else []  # the list `stale` has the texts
        assert KEY not in lab.mem(repo, "check", "--format", form, *only, rc=(1,))


def test_a_record_without_the_id_of_its_text_is_broken(lab: Lab, repo: pathlib.Path) -> None:
    annotate(lab, repo, '{"v":1,"op":"create","id":"%s","body":"by hand"}' % ("a" * 32))
    assert findings(lab, repo) == [("broken", None)]


def test_contradictions_that_consolidate_found_are_findings_until_somebody_decides(
    lab: Lab, repo: pathlib.Path
) -> None:
    lab.mem(repo, "remember", "The session cache lives ten minutes", "--type", "decision")
    lab.mem(repo, "remember", "The session cache lives sixty minutes", "--type", "decision")
    lab.mem(repo, "consolidate")
    (found,) = lab.json(repo, "check", rc=(1,))["findings"]
    assert found["kind"] == "contradiction" and found["against"] != found["id"]
    assert "ten minutes" in found["message"] and "sixty minutes" in found["message"]
    lab.mem(repo, "forget", found["id"])
    assert findings(lab, repo, rc=0) == []


def test_unsigned_memories_are_findings_where_the_policy_asks_for_signatures(
    lab: Lab, repo: pathlib.Path
) -> None:
    assert findings(lab, repo, rc=0) == []
    ring = Ring(lab)
    lab.git(repo, "config", "mem.trust", "signed")
    assert findings(lab, repo) == [("unsigned", "a.py")]
    assert "signature none, below mem.trust=signed" in lab.mem(repo, "check", rc=(1,))
    lab.git(repo, "config", "user.signingKey", str(ring.key("ada")))
    lab.git(repo, "config", "mem.sign", "true")
    lab.mem(repo, "sign", lab.json(repo, "list")[0]["id"])
    assert findings(lab, repo, rc=0) == []


# --- formats ------------------------------------------------------------------

HOSTILE = "100% of it\r\n::error file=x::pwned, \x1b[31m\u202e::set-output name=a::b"


def finding(**more: Any) -> dict[str, Any]:
    base = {"kind": "stale", "level": "warning", "message": "m", "path": None, "line": None}
    return {**base, "id": None, **more}


@pytest.mark.quick
def test_a_workflow_command_is_one_line_and_its_values_end_where_they_should() -> None:
    name = "a,b:c%\n::error::x.py"
    (line,) = annotations.github([finding(message=HOSTILE, path=name, line=7)])
    assert render.safe(line) == line and "\n" not in line and "\r" not in line
    command, properties, message = re.fullmatch(r"::(\w+) (.*?)::(.*)", line).groups()  # type: ignore[union-attr]
    assert command == "warning" and "100%25 of it" in message
    values = dict(part.split("=", 1) for part in properties.split(","))
    assert values == {"file": "a%2Cb%3Ac%25 %3A%3Aerror%3A%3Ax.py", "line": "7",
                      "title": "git mem%3A stale"}  # fmt: skip


@pytest.mark.parametrize("lines", ["9" * 5000, "9" * 30 + "-3", "\u00b2", "-", "0"])
def test_a_line_that_cannot_be_is_none_in_any_format(
    lab: Lab, repo: pathlib.Path, lines: str
) -> None:
    head = lab.git(repo, "rev-parse", "HEAD").strip()
    place = [{"path": "a.py", "blob": "0" * 40, "lines": lines}]
    fields = {"body": "One is enough", "type": "decision", "paths": place}
    annotate(lab, repo, record.dump(record.create(fields, commit=head)).decode())
    (found,) = lab.json(repo, "check", rc=(1,))["findings"]
    assert found["path"] == "a.py" and not found["line"]
    assert problems(annotations.sarif([found])) == []


LEVELS = {"none", "note", "warning", "error"}


def problems(log: dict[str, Any]) -> list[str]:
    """What of SARIF 2.1.0's schema, as far as we write it, a log breaks."""
    out = [] if log["version"] == "2.1.0" and log["$schema"].endswith(".json") else ["version"]
    for run in log["runs"]:
        driver = run["tool"]["driver"]
        rules = [rule["id"] for rule in driver["rules"]]
        out += [] if driver["name"] and len(set(rules)) == len(rules) else ["rules"]
        for rule in driver["rules"]:
            levels = {rule["defaultConfiguration"]["level"]}
            if not (levels <= LEVELS and rule["shortDescription"]["text"] and rule["help"]["text"]):
                out.append(f"rule {rule['id']}")
        for result in run["results"]:
            if rules[result["ruleIndex"]] != result["ruleId"] or result["level"] not in LEVELS:
                out.append("ruleIndex")
            if not result["message"]["text"]:
                out.append("message")
            for location in result["locations"]:
                physical = location["physicalLocation"]
                uri = physical["artifactLocation"]["uri"]
                if not re.fullmatch(r"(?:[\w.~/!$&'()*+,;=@-]|%[0-9A-F]{2})+", uri, re.ASCII):
                    out.append(f"uri {uri}")
                if physical.get("region", {"startLine": 1})["startLine"] not in range(1, 2**31):
                    out.append("startLine")
            if not all(isinstance(v, str) for v in result["partialFingerprints"].values()):
                out.append("partialFingerprints")
    return out


@pytest.mark.quick
def test_the_log_keeps_the_rules_of_sarif_and_the_probe_can_fail() -> None:
    odd = "a b/é:%.py"
    found = [finding(kind=kind, path=path, line=3, message=HOSTILE, level=rule.level)
             for kind, rule in RULES.items() for path in (None, odd, "bad\udcff")]  # fmt: skip
    log = annotations.sarif(found)
    assert problems(log) == []
    results = log["runs"][0]["results"]
    places = [r["locations"][0]["physicalLocation"] for r in results[:2]]
    assert places[0] == {"artifactLocation": {"uri": "./", "uriBaseId": "SRCROOT"}}
    assert unquote(places[1]["artifactLocation"]["uri"]) == odd
    assert places[1]["region"] == {"startLine": 3}
    results[0]["level"], results[1]["ruleIndex"] = "fatal", 1
    places[1]["artifactLocation"]["uri"] = "a b"
    assert problems(log) == ["ruleIndex", "ruleIndex", "uri a b"]


def test_the_formats_are_printed_by_the_command(lab: Lab, repo: pathlib.Path) -> None:
    commit(lab, repo, "a.py", "two")
    printed = lab.mem(repo, "check", "--format", "github", rc=(1,))
    assert printed.startswith("::warning file=a.py,title=git mem%3A stale::memory ")
    log = lab.json(repo, "check", "--format", "sarif", rc=(1,))
    assert problems(log) == [] and log["runs"][0]["results"][0]["ruleId"] == "stale"
    assert lab.run(repo, "git-mem", "check", "--format", "xml").returncode == 2
