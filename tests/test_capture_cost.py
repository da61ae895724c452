"""What capture costs a hook, in things that do not depend on the machine: processes, files,
modules.
"""

from __future__ import annotations

import os
import pathlib

import pytest
from conftest import Lab
from test_hook_cost import SLOW_MODULES, ask, repo

__all__ = ["repo"]


@pytest.mark.parametrize("event", ["UserPromptSubmit", "PostToolUse", "Stop"])
def test_a_hook_that_leaves_text_starts_no_process_and_loads_nothing_slow(
    lab: Lab, repo: pathlib.Path, event: str
) -> None:
    lab.git(repo, "config", "mem.capture", "all")
    os.utime(repo / ".git" / "config", ns=(10**18, 10**18))
    (repo / ".git" / "mem" / "worker.pid").write_text(str(os.getpid()))
    ask(lab, repo, "Stop", "warm")
    _, lines = ask(lab, repo, event)
    assert [line for line in lines if line.startswith("process")] == []
    loaded = {name for line in lines if line.startswith("modules ") for name in line.split()[1:]}
    assert {name.partition(".")[0] for name in loaded} & (
        SLOW_MODULES | {"json", "re", "datetime", "sqlite3"}
    ) == set()
    assert {name for name in loaded if name.startswith("gitmem.capture.")} <= {
        "gitmem.capture.sources",
        "gitmem.capture.strip",
        "gitmem.capture.toolcalls",
    }
