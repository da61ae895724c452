"""Memories that a clone lacks, as far as its files tell: what the user hears when a session starts.

Promise: no network and, in a clone that nothing says so of, no process. A clone that was not set up
is spoken of only where files that its project committed say that the team uses git mem, and where
there is a remote to ask. Standard library only.
"""

from __future__ import annotations

import os

from ..git import memfile, ref_files, worktree_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..git.discover import Here

# A file of a project whose team uses git mem, and what stands in it then.
_SIGNS = (
    (".gitmem.toml", b""),
    ("AGENTS.md", b"<!-- BEGIN git-mem -->"),
    ("CLAUDE.md", b"<!-- BEGIN git-mem -->"),
    (".claude/settings.json", b"git-mem hook"),
)
_MOST = 200_000  # bytes of one that are looked at

NOT_UNITED = "memories of the team were fetched and not taken in yet: `git mem pull`"
_OFFERED = "offered"  # a file in `mem/`: `init` heard that the remote has memories
OFFERED = "the remote has memories of the team: `git mem pull`"
NEVER = "this clone has never fetched memories: `git mem init && git mem pull`"


def message(here: Here) -> str:
    """What to tell in a clone that was set up, "" for nothing."""
    team = here.settings.team_ref
    if team in here.refs:
        return ""
    if _tracked(here.common_dir, team):
        return NOT_UNITED
    return OFFERED if offered(here.mem_dir) else ""


def offered(mem_dir: str) -> bool:
    """Whether the remote had memories when `init` asked it."""
    return os.path.exists(os.path.join(mem_dir, _OFFERED))


def note_offered(mem_dir: str) -> None:
    memfile.write(os.path.join(mem_dir, _OFFERED), b"")


def _tracked(common_dir: str, team_ref: str) -> bool:
    """Whether a copy of some remote's memories is here."""
    inner = team_ref.removeprefix("refs/notes/")
    remotes = os.path.join(common_dir, "refs", "notes", "remotes")
    names = os.listdir(remotes) if os.path.isdir(remotes) else []
    if any(os.path.exists(os.path.join(remotes, name, inner)) for name in names):
        return True
    rows = ref_files.Packed(common_dir).content.split(b"\n")
    return any(
        b" refs/notes/remotes/" in row and row.endswith(b"/" + os.fsencode(inner)) for row in rows
    )


def of_stranger(here: Here, cwd: str, environ: Mapping[str, str]) -> str:
    """What to tell in a clone that was not set up and has no memories, "" for nothing."""
    if not any(_holds(here.top, name, text) for name, text in _SIGNS):
        return ""
    config = ref_files.text_of(os.path.join(here.common_dir, "config"), missing="")
    if '[remote "' not in config:
        return ""
    from ..git import discover

    asked = discover.ask(cwd, environ)  # files alone do not tell all settings here
    if asked is None or not asked.settings.flag("enabled"):
        return ""
    return f"git mem: {message(asked) or f'this project keeps memories, {NEVER}'}"


def _holds(top: str, name: str, text: bytes) -> bool:
    from ..core.errors import MemError

    try:
        found = worktree_file.read(top, name, _MOST, cut=True) if top else None
    except MemError:
        return False
    return found is not None and text in found
