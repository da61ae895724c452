"""Claude Code's auto memory as real directories, laid out as the client does."""

from __future__ import annotations

import pathlib
import time
from collections.abc import Mapping

from conftest import Lab

from gitmem.agents import events
from gitmem.git import discover as git_here

SECRET = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"


def memory(lab: Lab, repo: pathlib.Path, config: pathlib.Path | None = None) -> pathlib.Path:
    """The auto memory directory of a repository, made."""
    path = (
        (config or lab.root / ".claude")
        / "projects"
        / "".join(c if c.isascii() and c.isalnum() else "-" for c in str(repo))
        / "memory"
    )
    path.mkdir(parents=True, exist_ok=True)
    return path


def write(
    directory: pathlib.Path, name: str, body: str, kind: str = "project", description: str = ""
) -> pathlib.Path:
    path = directory / f"{name}.md"
    path.write_text(
        f"---\nname: {name.replace('_', '-')}\ndescription:"
        f" {description or name.replace('_', ' ')}\nmetadata:\n  type: {kind}\n---\n\n{body}\n"
    )
    return path


def write_role(directory: pathlib.Path) -> None:
    write(
        directory,
        "user_role",
        "The user is a data scientist: ten years of Go, first time with React.",
        "user",
        "Who the user is",
    )


def fill(directory: pathlib.Path) -> None:
    write(
        directory,
        "testing_real_db",
        "Integration tests must hit a real database.\n\n**Why:** mocked tests passed while the"
        " production migration failed, see [[release-freeze]].\n**How to apply:** every test under"
        " tests/db.",
        "feedback",
        "Integration tests hit a real database, not mocks",
    )
    write_role(directory)
    write(
        directory,
        "linear_ingest",
        "Pipeline bugs are tracked in the Linear project INGEST.",
        "reference",
        "Where bugs are tracked",
    )
    (directory / "MEMORY.md").write_text(
        "- [Integration tests](testing_real_db.md) — hit a real database\n- [Role of the"
        " user](user_role.md) — data scientist\n- [Bug tracker](linear_ingest.md) — Linear\n-"
        " [Gone](gone.md) — was deleted\n"
    )


def start(
    lab: Lab, repo: pathlib.Path, seconds: float = 60.0, env: Mapping[str, str] | None = None
) -> bytes | None:
    """A session start's step, as the hook runs it."""
    environ = {**lab.env, **(env or {})}
    found = git_here.find(str(repo), environ)
    assert found
    return events.take_notes(found, environ, time.monotonic() + seconds)
