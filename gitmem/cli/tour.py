"""`git mem tour`: the life of a memory, shown in a repository that is made for it and removed.

Owns the steps, which the README's pictures show, too (`tools/worked_examples.py`).
Promise: nothing of the user's is read or written. The home of a step's command, its configuration
and its repository are in one temporary directory, which is gone when the tour ends or is ended.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ..core.errors import MemError
from ..hooks import spool
from ..render import terminal
from . import options
from .common import interactive, line


class Step(NamedTuple):
    """`why`: one sentence. `command`: as typed; {0} is the id of the first memory."""

    why: str
    command: str


STEPS = (
    Step("Once per clone: entries in git's configuration, no file in the tree.", "git mem init"),
    Step(
        "Keep a decision, and name the files that it is about.",
        'git mem remember "Use PostgreSQL, not MongoDB: orders and invoices share a transaction"'
        " --type decision --path db/",
    ),
    Step(
        "Keep a gotcha.",
        'git mem remember "The staging server loses its clock after a reboot: start chronyd first"'
        " --type gotcha --tag staging",
    ),
    Step(
        "Ask in your own words.",
        'git mem recall "which database do we use and why"',
    ),
    Step(
        "Ask in words that the memory does not have: it is found by meaning.",
        'git mem recall "wrong time on the test machine"',
    ),
    Step(
        "Where nothing fits, the answer says so.",
        'git mem recall "favourite pizza topping"',
    ),
    Step(
        "Somebody changes a file of the decision.",
        'echo "ALTER TABLE orders ADD total INTEGER;" >>db/orders.sql\n'
        'git commit -qam "Orders have a total"',
    ),
    Step(
        "The memory is stale now: it is found, and says that its files changed.",
        'git mem recall "which database do we use and why"',
    ),
    Step(
        "Connect an agent (in this tour, only to the temporary home).",
        "git mem install claude --no-allow",
    ),
    Step(
        "What the agent is told when a session starts.",
        "git mem context --agent-view",
    ),
    Step(
        "With a prompt comes the memory that answers it, or nothing (shown without its JSON).",
        """echo '{"prompt": "staging has a wrong clock"}' | git mem hook UserPromptSubmit""",
    ),
    Step("Forget what does not hold; the notes keep who did it.", "git mem forget {0}"),
    Step("And take that back.", "git mem restore {0}"),
)

_FOREIGN = "GIT_ CLAUDE CODEX_ GEMINI_ CURSOR_ COPILOT_ XDG_ LC_ PYTHON".split()


def environment(root: str) -> dict[str, str]:
    """What a command sees whose home is `root`; git-mem on its PATH is this one."""
    program = os.path.join(root, "bin", "git-mem")
    os.mkdir(os.path.dirname(program))
    with open(program, "w", encoding="utf-8") as f:
        f.write(f"#!/bin/sh\nexec '{sys.executable}' -m gitmem \"$@\"\n")
    os.chmod(program, 0o755)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(tuple(_FOREIGN))}
    return {
        **kept,
        "HOME": root,
        "PATH": f"{root}/bin{os.pathsep}{kept.get('PATH', os.defpath)}",
        "PYTHONPATH": os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "Ada",
        "GIT_AUTHOR_EMAIL": "ada@example.org",
        "GIT_COMMITTER_NAME": "Ada",
        "GIT_COMMITTER_EMAIL": "ada@example.org",
        "GIT_MEM_PATIENCE": "100",  # nothing is left out of an answer, however slow the machine is
        "LANG": "C.UTF-8",
        "TZ": "UTC",
    }


def take(root: str, env: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Takes the steps in a new repository `shop` in `root`, each when it is asked for; yields why,
    the command as typed, and what it printed. Raises MemError where a command fails.
    """

    def run(command: str) -> str:
        done = subprocess.run(
            ["sh", "-ec", command],
            cwd=shop,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
        )
        if done.returncode not in (0, 1):  # 1: nothing was found
            hint = done.stdout.strip() or "it printed nothing"
            raise MemError(f"'{command}' ended with {done.returncode}", hint=hint)
        return done.stdout.rstrip("\n")

    shop = os.path.join(root, "shop")
    os.makedirs(os.path.join(shop, "db"))
    run("git init -q -b main && echo 'CREATE TABLE orders(id INTEGER);' >db/orders.sql")
    run("git add -A && git commit -q -m 'Orders table'")
    common_dir = os.path.join(shop, ".git")
    os.mkdir(os.path.join(common_dir, "mem"), 0o700)
    spool.claim(os.path.join(common_dir, "mem"), os.getpid())  # no worker outlives the directory
    ids: list[str] = []
    for why, command in STEPS:
        typed = command.format(*ids) if "{0}" in command else command
        said = run(typed)
        if said.startswith("remembered "):
            ids.append(said.split()[1])
            run("git mem index --all")  # as a worker does a second later
        if "git mem hook" in typed and said:
            said = json.loads(said)["hookSpecificOutput"]["additionalContext"].rstrip("\n")
        yield why, typed, said


@options.command("tour", json=False)
def tour_command(
    no_wait: bool = options.flag("--no-wait", "Do not wait for Enter."),
) -> int:
    """Show how git mem works, in a repository that is made for it and removed.

    On a terminal each step waits for Enter (q ends).
    """
    waits = interactive() and not no_wait
    with tempfile.TemporaryDirectory(prefix="git-mem-tour-", ignore_cleanup_errors=True) as root:
        root = os.path.realpath(root)
        env = environment(root)
        if width := terminal.width():
            env |= {"GIT_PAGER_IN_USE": "true", "COLUMNS": str(width)}  # colours, as for a pager
        for n, (why, command, said) in enumerate(take(root, env), 1):
            terminal.show((f"# {n}/{len(STEPS)} {why}", "cyan"))
            for typed in command.split("\n"):
                terminal.show(("$ ", "green"), (typed, "bold"))
            sys.stdout.write(f"{said}\n\n" if said else "\n")
            sys.stdout.flush()
            if waits and n < len(STEPS):
                answer = line("Enter: the next step, q: end ")
                if not answer or answer.strip().lower() == "q":
                    return 0
                sys.stdout.write("\n")
    terminal.show(("In your own repository, begin with `git mem init`.", "dim"))
    return 0
