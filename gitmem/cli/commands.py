"""The one table of commands: name, group, summary, and the module that a call loads.
`-h`, `help -a`, the manual page, docs/commands.md and completion are made from it.

Loads nothing.
"""

from typing import NamedTuple


class Command(NamedTuple):
    """`module`: of `cli/`, where the command is defined. `daily`: `git mem -h` shows it."""

    name: str
    module: str
    summary: str
    daily: bool = False


_DAILY = True
LOW_LEVEL = "low-level commands, started by hooks and scripts"
GROUPS = {
    "start": (
        Command("init", "setup", "Set git up for memories in this repository", _DAILY),
        Command("install", "setup", "Connect agents, git's hooks or the shell", _DAILY),
        Command("uninstall", "setup", "Take back what init and install set up"),
        Command("status", "admin", "Show what is stored, and where", _DAILY),
        Command("doctor", "admin", "Look for what is wrong, and mend it", _DAILY),
        Command("config", "admin", "Show or change settings"),
        Command("tour", "tour", "Show how it works, in a repository that is removed"),
        Command("help", "help", "Show the help of a command, or all commands (-a)"),
    ),
    "keep a memory": (
        Command("remember", "write", "Store a memory", _DAILY),
        Command("edit", "write", "Change its text, type, tags or paths", _DAILY),
        Command("supersede", "write", "Put a new memory in the place of an old one", _DAILY),
        Command("forget", "write", "Hide memories", _DAILY),
        Command("restore", "write", "Bring forgotten memories back"),
        Command("promote", "write", "Make a commit a memory"),
        Command("import", "imports", "Take in files, other tools' memories, sessions, commits"),
        Command("purge", "purge", "Take a text out for good: notes, history, objects"),
    ),
    "find": (
        Command("recall", "read", "Search by words and by meaning", _DAILY),
        Command("list", "read", "List memories, newest first", _DAILY),
        Command("show", "read", "Show memories whole, with their history", _DAILY),
        Command("why", "timeline", "Show what is known about a file or a line", _DAILY),
        Command("log", "timeline", "List memories along the commits", _DAILY),
        Command("blame", "timeline", "Show a file's lines with the memories about them"),
        Command("diff", "timeline", "Show what a branch teaches"),
        Command("browse", "browse", "Look through memories on the terminal, by keys"),
        Command("ui", "ui", "Show memories in a browser, or write them as one page"),
        Command("graph", "graph", "Show how memories are connected"),
        Command("stats", "admin", "Count memories, and what agents used of them"),
    ),
    "share": (
        Command("sync", "sync", "Exchange memories with the team's remote", _DAILY),
        Command("share", "write", "Copy private memories into the team's", _DAILY),
        Command("push", "sync", "Only give (the second half of sync)"),
        Command("pull", "sync", "Only take in (the first half of sync)"),
        Command("export", "transfer", "Write memories to a file, or for Claude Code"),
        Command("sign", "write", "Vouch for memories with your signing key"),
        Command("verify", "verify", "Check who vouches for them, and look for secrets"),
    ),
    "keep them true": (
        Command("check", "check", "For CI: fail where memories are stale or broken"),
        Command("bisect", "timeline", "Find the commit that made a memory stale"),
        Command("consolidate", "review", "Propose to unite memories that say the same"),
        Command("bench", "bench", "Measure how well memories are found"),
    ),
    "work with agents": (
        Command("context", "agents", "Show what an agent is told at a session's start"),
        Command("mcp", "mcp", "Serve memories over the Model Context Protocol"),
        Command("receipts", "agents", "Show what each session was given"),
        Command("capture", "capture", "Judge what is worth remembering of commits, sessions"),
        Command("review", "review", "Decide about what capture found"),
        Command("model", "model", "Fetch and choose optional models"),
    ),
    LOW_LEVEL: (
        Command("hook", "agents", "Answer an agent's hook"),
        Command("index", "admin", "Bring the cache up to date"),
        Command("reanchor", "reanchor", "Say which commit took the place of another"),
        Command("calibrate", "calibrate", "Fit capture's confidence to your answers"),
    ),
}
ALL_COMMANDS = "`git mem help -a` lists the commands"
ALIASES = {"search": "recall"}  # work, and are listed nowhere

# Words of other tools, which "did you mean" answers. Agents run what they read: none leads to
# `purge`.
_SYNONYMS = {
    "init": "setup",
    "doctor": "fix repair",
    "config": "set settings",
    "remember": "add keep new note save store",
    "edit": "change modify update",
    "supersede": "replace",
    "forget": "del delete drop erase hide remove rm",
    "restore": "recover revert undelete undo unforget",
    "recall": "ask find grep lookup query search",
    "list": "ls",
    "show": "cat get view",
    "log": "history",
    "share": "publish",
    "context": "prime",
}
SYNONYMS = {word: name for name, words in _SYNONYMS.items() for word in words.split()}

COMMANDS = {command.name: command for group in GROUPS.values() for command in group}


def module_of(word: str) -> str:
    """The module that defines a command, "" for none."""
    command = COMMANDS.get(ALIASES.get(word, word))
    return command.module if command else ""


def overview(everything: bool = False) -> list[str]:
    """The commands in their groups, as `git -h` and `git help -a` print theirs."""
    lines = []
    for title, group in GROUPS.items():
        rows = [f"   {c.name:<13}{c.summary}" for c in group if everything or c.daily]
        if rows:
            lines += ["", title, *rows]
    return lines
