"""git's own hooks: put beside those of others, found again, taken away.

Promise: hooks that exist are kept and run, with their arguments, standard input
and exit status; ours never decides. Nothing is written into a working tree or
a directory that other repositories share. Whatever breaks (a moved repository,
a deleted file, git mem uninstalled) ends our hooks, never theirs.

Two ways, chosen by what is there:

* *Lines*: git looks in `<common>/hooks`, and what is there are shell scripts or
  nothing. Three marked lines are put at the begin of each hook.
* *Forwarding*, for everything else (`core.hooksPath` of husky or of all
  repositories, a tracked directory, hooks in Python, links): git is sent to
  `<common>/git-mem-hooks` by an `include.path` entry, and from there every hook
  is handed on. Git ignores an include that is not there, so without our
  directory it looks where it did before.

The scripts themselves are in hooks/; docs/decisions/0012-git-hooks.md says why.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import sys

from . import changes
from .errors import MemError
from .layout import Repo
from .store import Store

EVENTS = ("post-commit", "post-merge", "post-checkout", "post-rewrite")
PRE_PUSH = "pre-push"
_STDIN = ("post-rewrite", PRE_PUSH)
# Every hook git has, so that none of others is lost. A hook of the second list does something by being there, so it is forwarded only while it is.
_FORWARDED = ("applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg", "commit-msg", "post-commit", "pre-rebase",
              "post-checkout", "post-merge", "pre-push", "post-rewrite", "pre-auto-gc", "sendemail-validate", "pre-receive", "update", "post-receive", "post-update")
_IF_THERE = ("reference-transaction", "push-to-checkout", "proc-receive", "post-index-change", "p4-changelist", "p4-prepare-changelist", "p4-post-changelist", "p4-pre-submit")

_DIR = "git-mem-hooks"
_BEGIN = b"# >>> git mem >>> `git mem uninstall git` takes these lines away\n"
_END = b"# <<< git mem <<<\n"
_MINE = b"#!/bin/sh\n# git mem made this file\n"  # all that such a hook has beside our lines
# In a subshell: not even a script that is broken can end the hook. stdin.sh has to, for a good reason.
_EVENT = b'if [ -r "${0%/*}/../git-mem-hooks/event.sh" ]; then (. "${0%/*}/../git-mem-hooks/event.sh") || :; fi\n'
_FEED = b'if [ -r "${0%/*}/../git-mem-hooks/stdin.sh" ]; then . "${0%/*}/../git-mem-hooks/stdin.sh"; fi\n'
_STANDS_IN = b"# git mem: stands in for the hook of the same name in another directory.\n"
_MADE = "made"  # says that the directory hooks/ is ours
_AGAIN = "run `git mem install git`"
_OURS = re.compile(re.escape(_BEGIN) + rb"(?:.*\n)*?" + re.escape(_END))
_SHELL = re.compile(rb"#![ \t]*(?:/\S*/(?:sh|bash|dash|ash|ksh|mksh)|/\S*/env[ \t]+(?:sh|bash|dash|ash|ksh|mksh))(?:[ \t]+-[a-z]+)*[ \t]*\n")


class Survey:
    """What is installed. `problems`: (what, hint) of everything that keeps it from working."""

    __slots__ = ("directory", "on", "problems")

    def __init__(self, on: list[str], directory: str, problems: list[tuple[str, str]]) -> None:
        self.on = on
        self.directory = directory
        self.problems = problems


def install(store: Store, pre_push: bool = False) -> list[str]:
    """Puts the hooks there; one line for each thing done, none where all was there. `pre_push`: that one too; once there it stays."""
    try:
        return _install(store, pre_push)
    except OSError as e:
        raise MemError(f"cannot write hooks: '{e.filename}': {e.strerror}", hint="the hooks of others are as they were") from e


def _install(store: Store, pre_push: bool) -> list[str]:
    repo = store.repo
    names = [*EVENTS, PRE_PUSH] if pre_push or PRE_PUSH in survey(store).on else list(EVENTS)
    os.makedirs(repo.mem_dir, mode=0o700, exist_ok=True)
    ours, hooks = _own(repo), os.path.join(repo.common_dir, "hooks")
    os.makedirs(ours, exist_ok=True)
    former = _former(repo)
    renewed = _write(os.path.join(ours, "event.sh"), _script(store, "event.sh", names))
    if _lines_fit(repo, former, names):
        done = _stop_forwarding(repo)
        _write(os.path.join(ours, "stdin.sh"), _script(store, "stdin.sh", names))
        if not os.path.isdir(hooks):
            os.makedirs(hooks)
            _write(os.path.join(ours, _MADE), b"git-mem-hooks\n")
        done += [f"{name}: three lines in '{os.path.join(hooks, name)}'" for name in names if _add_lines(hooks, name)]
    else:
        done = _take_lines(repo)
        added = [name for name in _to_forward(repo, former) if _write(os.path.join(ours, name), _script(store, "forward.sh", names), 0o777)]
        _write(os.path.join(ours, "config"), f"# git mem: see forward.sh\n[core]\n\thooksPath = {_quoted(ours)}\n".encode())
        entry = ("include.path", os.path.join(ours, "config"))
        if changes.lacks(repo, *entry):
            changes.undo(repo, {"git"}, [])  # of a repository that was moved since
            changes.add(repo, "git", [entry])
            done.append(f"include.path = {entry[1]}  (sends git there, and from there to the hooks in '{former}')")
        elif added:
            renewed = True
        _point(ours, former)  # last: it is to be newer than the configuration
    return done or ([f"hooks in '{ours}' renewed"] if renewed else [])


def uninstall(store: Store) -> list[str]:
    """Takes everything of `install` away; one line for each thing done. What others wrote stays."""
    repo = store.repo
    done = [*_take_lines(repo), *_stop_forwarding(repo)]
    ours = _own(repo)
    if os.path.isdir(ours):
        for name in ("event.sh", "stdin.sh", _MADE):
            _unlink(os.path.join(ours, name))
        if os.listdir(ours):
            done.append(f"kept '{ours}': other tools have written there")
        else:
            os.rmdir(ours)
    return done


def tend(store: Store) -> None:
    """For the worker: where hooks are forwarded, says anew to where, and takes in hooks that have come since."""
    repo = store.repo
    ours = _own(repo)
    if os.path.exists(os.path.join(ours, "former")):
        former = _former(repo)
        for name in _to_forward(repo, former):
            if not os.path.lexists(os.path.join(ours, name)):
                _write(os.path.join(ours, name), _script(store, "forward.sh", _events_of(ours)), 0o777)
        _point(ours, former)


def survey(store: Store) -> Survey:
    """What of ours git runs now, and what is wrong with it."""
    repo = store.repo
    ours, hooks = _own(repo), os.path.join(repo.common_dir, "hooks")
    former = _former(repo)
    looked = _at(repo, former)
    forwarded = _values(repo)[-1:] == [ours]
    problems: list[tuple[str, str]] = []
    on: list[str] = []
    placed = False  # anything of ours, whether git runs it or not
    for name in (*EVENTS, PRE_PUSH):
        ways = 0
        if _is_forwarder(os.path.join(ours, name)) and name in _events_of(ours):
            placed = True
            ways += forwarded
        for directory in {os.path.realpath(hooks), os.path.realpath(looked)}:
            for path in _chain(directory, name):
                if _BEGIN in changes.read(path):
                    placed = True
                    ways += directory == os.path.realpath(looked) and os.access(path, os.X_OK)
        if ways:
            on.append(name)
        if ways > 1:
            problems.append((f"hook {name} is installed twice", _AGAIN))
    missing = [name for name in EVENTS if name not in on]
    if placed and missing:
        problems.append((f"git does not run our hooks {', '.join(missing)}: another tool replaced them, or git looks in '{former}'", _AGAIN))
    if placed:
        problems += _stale(store, ours)
    late = [name for name in _to_forward(repo, former) if not os.path.exists(os.path.join(ours, name))] if forwarded else []
    if late:
        problems.append((f"hooks in '{former}' that came later are not run: {', '.join(late)}", _AGAIN))
    return Survey(on, ours if forwarded else hooks, problems)


def _stale(store: Store, ours: str) -> list[tuple[str, str]]:
    """What is wrong with the script that all hooks use."""
    text = changes.read(os.path.join(ours, "event.sh"))
    if not text:
        return [("hooks are installed, but their script is gone", _AGAIN)]
    python, package = _program(text)
    if not os.access(python, os.X_OK) or not os.path.exists(os.path.join(package, "__main__.py")):
        if shutil.which("git-mem"):
            return [(f"the git mem that installed the hooks is gone from '{package}'; they start the one on PATH", _AGAIN)]
        return [(f"hooks do nothing: git mem is neither in '{package}' nor on PATH", _AGAIN)]
    if os.path.realpath(package) != os.path.realpath(_package()):
        return [(f"double installation: the hooks start the git mem in '{package}', this one is in '{_package()}'", _AGAIN + " with the one that is to stay")]
    if text != _script(store, "event.sh", []):
        return [("the hooks were written by another version of git mem, or for another mem.ref", _AGAIN)]
    return []


# --- lines in hooks ---------------------------------------------------------


def _lines_fit(repo: Repo, former: str, names: list[str]) -> bool:
    """Whether git looks in the repository's own directory and every hook there can take our lines."""
    hooks = os.path.join(repo.common_dir, "hooks")
    own = os.path.join(os.path.realpath(repo.common_dir), "hooks")
    # A linked directory leads elsewhere, perhaps into the working tree.
    return os.path.realpath(former) == os.path.realpath(hooks) == own and all(_takes_lines(os.path.join(hooks, name)) for name in names)


def _takes_lines(path: str) -> bool:
    try:
        info = os.lstat(path)
    except FileNotFoundError:
        return True
    # Not executable: git does not run it, and must not begin to. Linked: the other name may be a tracked file.
    if not stat.S_ISREG(info.st_mode) or info.st_nlink > 1 or not info.st_mode & stat.S_IXUSR:
        return False
    content = changes.read(path)
    return bool(_SHELL.match(content)) and b"\0" not in content


def _lines(name: str, alone: bool) -> bytes:
    """Our lines for one hook. What follows in a hook of others wants its standard input too."""
    return _BEGIN + (_FEED if name in _STDIN and not alone else _EVENT) + _END


def _add_lines(hooks: str, name: str) -> bool:
    """Puts our lines after the first line; False where they are there, once."""
    found = [(path, content) for path in _chain(hooks, name) if _BEGIN in (content := changes.read(path))]
    if len(found) == 1 and any(_lines(name, alone) in found[0][1] for alone in (True, False)):
        return False
    for path, content in found:
        _without(path, content)
    path = os.path.join(hooks, name)
    if not os.path.exists(path):
        return _write(path, _MINE + _lines(name, True), 0o777)
    first, newline, rest = changes.read(path).partition(b"\n")
    return _write(path, first + newline + _lines(name, False) + rest)


def _without(path: str, content: bytes) -> bool:
    """Takes our lines out of a hook; True where it held nothing else and is gone."""
    rest = _OURS.sub(b"", content)
    if rest == _MINE:
        os.unlink(path)
        return True
    changes.replace(path, rest)
    return False


def _take_lines(repo: Repo) -> list[str]:
    """Takes our lines out of every hook, whatever other tools have renamed it to; a file that held nothing else goes."""
    hooks = os.path.join(repo.common_dir, "hooks")
    done = []
    for name in sorted(os.listdir(hooks)) if os.path.isdir(hooks) else []:
        path = os.path.join(hooks, name)
        if os.path.islink(path) or not os.path.isfile(path):
            continue
        content = changes.read(path)
        if _OURS.search(content):
            done.append(f"removed '{path}'" if _without(path, content) else f"took our lines out of '{path}'")
    if os.path.exists(os.path.join(_own(repo), _MADE)) and os.path.isdir(hooks) and not os.listdir(hooks):
        os.rmdir(hooks)
    return done


def _chain(hooks: str, name: str) -> list[str]:
    """The files that run for a hook: git's own, and what pre-commit moved aside and runs too."""
    path = os.path.join(hooks, name)
    found = [path] if os.path.exists(path) else []
    if found and b"pre-commit.com" in changes.read(path) and os.path.exists(path + ".legacy"):
        found.append(path + ".legacy")
    return found


# --- forwarding -------------------------------------------------------------


def _own(repo: Repo) -> str:
    return os.path.join(os.path.realpath(repo.common_dir), _DIR)


def _values(repo: Repo) -> list[str]:
    """Every core.hooksPath that counts here, the last one in force."""
    raw = repo.git.run("config", "-z", "--type=path", "--get-all", "core.hooksPath", ok=(0, 1))
    return os.fsdecode(raw).split("\0")[:-1]


def _former(repo: Repo) -> str:
    """Where git looks for hooks without us; may be relative to the top of each working tree."""
    others = [value for value in _values(repo) if value != _own(repo)]
    return others[-1] if others else os.path.join(os.path.realpath(repo.common_dir), "hooks")


def _at(repo: Repo, former: str) -> str:
    """A hooks directory as git sees it from the top of this working tree."""
    return os.path.join(repo.top or (repo.git_dir if repo.bare else os.path.dirname(repo.common_dir)), former)


def _point(ours: str, former: str) -> None:
    """Says where forwarded hooks are. Written anew each time: its age tells when that was known."""
    changes.replace(os.path.join(ours, "former"), os.fsencode(former) + b"\n", 0o666 & ~_umask())


def _to_forward(repo: Repo, former: str) -> list[str]:
    return [*_FORWARDED, *(name for name in _IF_THERE if os.access(os.path.join(_at(repo, former), name), os.X_OK))]


def _stop_forwarding(repo: Repo) -> list[str]:
    ours = _own(repo)
    if not os.path.exists(os.path.join(ours, "config")) and changes.lacks(repo, "include.path", os.path.join(ours, "config")):
        return []
    done = changes.undo(repo, {"git"}, [("include.path", os.path.join(ours, "config"))])
    for name in os.listdir(ours) if os.path.isdir(ours) else []:
        path = os.path.join(ours, name)
        if name in ("config", "former") or _is_forwarder(path):
            os.unlink(path)
    return done


def _is_forwarder(path: str) -> bool:
    return os.path.isfile(path) and _STANDS_IN in changes.read(path)


def _events_of(ours: str) -> list[str]:
    """The events for which forwarders tell us."""
    found = re.search(rb"(?m)^events='(.*)'$", changes.read(os.path.join(ours, EVENTS[0])))
    return found[1].decode().split() if found else []


# --- scripts ----------------------------------------------------------------


def _package() -> str:
    return os.path.dirname(os.path.abspath(__file__))


def _source(name: str) -> str:
    """A script as it is in hooks/ of the repository; the wheel carries it as data."""
    for directory in (os.path.join(_package(), "data", "hooks"), os.path.join(os.path.dirname(_package()), "hooks")):
        path = os.path.join(directory, name)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                return f.read()
    raise FileNotFoundError(name)


def _script(store: Store, name: str, events: list[str]) -> bytes:
    """A script for this repository and this installation."""
    python, package = _program(changes.read(os.path.join(_own(store.repo), "event.sh")))
    if not (os.access(python, os.X_OK) and os.path.realpath(package) == os.path.realpath(_package())):
        python, package = sys.executable, _package()  # else another name of the same installation: nothing changes
    values = {"PYTHON": python, "PACKAGE": package, "REFS": f"refs/notes/{store.settings['ref']}/", "PRIVATE": store.settings.private_ref, "EVENTS": " ".join(events)}
    text = re.sub(r"@([A-Z]+)@", lambda m: "'" + values[m[1]].replace("'", "'\\''") + "'", _source(name))
    return text.encode("utf-8", "surrogateescape")


def _program(text: bytes) -> tuple[str, str]:
    """(interpreter, package) that an installed event.sh names."""
    found = {key: "".join(shlex.split(value)[:1]) for key, value in re.findall(r"(?m)^ *(python|package)=('.*')$", text.decode("utf-8", "surrogateescape"))}
    return found.get("python", ""), found.get("package", "")


def _write(path: str, content: bytes, mode: int = 0o666) -> bool:
    """Writes a file unless it is there already; `mode` is that of a new one, less the umask."""
    if changes.read(path) == content:
        return False
    changes.replace(path, content, mode & ~_umask())
    return True


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _unlink(path: str) -> None:
    if os.path.lexists(path):
        os.unlink(path)


def _quoted(path: str) -> str:
    """A value as git's configuration files take it."""
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
