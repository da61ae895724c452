"""Files of agents' settings, and what stands in them."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

from conftest import Lab

from gitmem.agents import install_log, targets


def user_file(lab: Lab, agent: str = "claude") -> pathlib.Path:
    return pathlib.Path(targets.AGENTS[agent].file(lab.env, "", targets.USER))


def put(path: pathlib.Path, text: str) -> pathlib.Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


def files(root: pathlib.Path) -> dict[str, Any]:
    """All files of a home but git's objects, the cache of git mem and its lock."""
    return {
        str(p.relative_to(root)): (
            os.readlink(p) if p.is_symlink() else p.stat().st_mode,
            p.read_bytes() if p.is_file() else b"",
        )
        for p in sorted(root.rglob("*"))
        if "objects" not in p.parts and ".local" not in p.parts and ".git/mem" not in str(p)
    }


def commands(path: pathlib.Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for _, event, command in targets.entries(json.loads(path.read_text("utf-8-sig"))["hooks"]):
        found.setdefault(event, []).append(command)
    return found


def problems(lab: Lab, repo: pathlib.Path) -> str:
    return "\n".join(f["text"] for f in lab.json(repo, "doctor", rc=(0, 1)) if f["level"] != "ok")


def noted(lab: Lab) -> dict[str, Any]:
    """What is noted of files: {file: note}."""
    return install_log.Ledger(install_log.place(lab.env)).files
