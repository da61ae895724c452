"""git's own hooks: installed beside hooks of others, surveyed, removed.

Promise: existing hooks are kept and run, with their arguments, standard input and exit status;
ours never decides. Nothing is written into a working tree or a directory that other repositories
share. Whatever breaks (a moved repository, a deleted file, git mem uninstalled) ends our hooks,
never theirs.

Two ways:

* *Lines*, where git looks in `<common>/hooks` and every hook there is a shell script: three marked
  lines at the begin of each hook.
* *Forwarding*, everywhere else (`core.hooksPath` of husky or of all repositories, hooks in Python,
  links): an `include.path` entry sends git to `<common>/git-mem-hooks`, where a script hands every
  hook on. git ignores an include that does not exist: without our directory it looks as before.

The scripts are in hooks/ of the repository; decision 15 has the reasons.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..core.errors import MemError
from ..git import config, config_journal, memfile
from ..git.repository import Repo
from ..store import Store
from . import hooklines

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # that of this git mem
EVENTS = ("post-commit", "post-merge", "post-checkout", "post-rewrite")
PRE_PUSH = "pre-push"
# Every hook git has, so that no hook of others is lost. The second list is forwarded only where a
# hook is there: the first two run in every commit and cost a millisecond (forward.sh watches for
# them), the others have an effect by being there.
_FORWARDED = (
    "applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit post-commit"
    " pre-rebase post-checkout post-merge pre-push post-rewrite pre-auto-gc sendemail-validate"
    " pre-receive update post-receive post-update"
)
_IF_THERE = (
    "prepare-commit-msg commit-msg reference-transaction push-to-checkout proc-receive"
    " post-index-change p4-changelist p4-prepare-changelist p4-post-changelist p4-pre-submit"
)

_DIR = "git-mem-hooks"
_STANDS_IN = b"# git mem: stands in for the hook of the same name in another directory.\n"
_MADE = "made"  # says that the directory hooks/ is ours
_AGAIN = "run `git mem install git`"


@dataclass
class Survey:
    """Our hooks that git runs (`on`), that exist (`placed`), and (text, hint) of `problems`."""

    directory: str
    on: list[str] = field(default_factory=list)
    placed: list[str] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)

    def problem(self, text: str, hint: str = _AGAIN) -> None:
        self.problems.append((text, hint))


def install(store: Store, pre_push: bool = False) -> list[str]:
    """Installs the hooks; a line for each change. `pre_push`: that hook too, then it stays."""
    try:
        return _install(store, pre_push)
    except OSError as e:
        raise MemError(
            f"cannot write hooks: '{e.filename}': {e.strerror}",
            hint="the hooks of others are as they were",
        ) from e


def _install(store: Store, pre_push: bool) -> list[str]:
    repo = store.repo
    names = [*EVENTS, PRE_PUSH] if pre_push or PRE_PUSH in survey(store).placed else list(EVENTS)
    memfile.make(repo.common_dir)
    ours, hooks = _own(repo), os.path.join(repo.common_dir, "hooks")
    os.makedirs(ours, exist_ok=True)
    former, _ = _former(repo)
    renewed = _place(store, "event.sh")
    if _lines_fit(repo, former, names):
        done = _stop_forwarding(repo)
        _place(store, "stdin.sh")
        if not os.path.isdir(hooks):
            os.makedirs(hooks)
            config_journal.write(os.path.join(ours, _MADE), b"git-mem-hooks\n")
        added = [name for name in names if hooklines.add(hooks, name)]
        done += [f"{name}: three lines in '{os.path.join(hooks, name)}'" for name in added]
    else:
        done = hooklines.take_out(hooks)
        forwarded = [_place(store, n, "forward.sh", names) for n in _to_forward(repo, former)]
        include = os.path.join(ours, "config")
        quoted = ours.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        content = f'# git mem: see forward.sh\n[core]\n\thooksPath = "{quoted}"\n'
        config_journal.write(include, content.encode())
        if config_journal.lacks(repo, "include.path", include):
            config_journal.undo(repo, {"git"}, [])  # of a repository that was moved since
            config_journal.add(repo, "git", [("include.path", include)])
            way = f"(sends git there, and from there to the hooks in '{former}')"
            done.append(f"include.path = {include}  {way}")
        else:
            renewed = renewed or any(forwarded)
        _point(ours, former)  # last: it is to be newer than the configuration
    return done or ([f"hooks in '{ours}' renewed"] if renewed else [])


def uninstall(store: Store) -> list[str]:
    """Reverts `install`; returns one line for each change. Files of others stay."""
    repo = store.repo
    ours, hooks = _own(repo), os.path.join(repo.common_dir, "hooks")
    done = [*hooklines.take_out(hooks), *_stop_forwarding(repo)]
    if os.path.exists(os.path.join(ours, _MADE)) and os.path.isdir(hooks) and not os.listdir(hooks):
        os.rmdir(hooks)
    if os.path.isdir(ours):
        for name in ("event.sh", "stdin.sh", _MADE):
            _unlink(os.path.join(ours, name))
        if os.listdir(ours):
            done.append(f"kept '{ours}': other tools have written there")
        else:
            os.rmdir(ours)
    return done


def tend(store: Store) -> None:
    """For the worker: where hooks are forwarded, renews the target and forwards new hooks too."""
    ours = _own(store.repo)
    if os.path.exists(os.path.join(ours, "former")):
        former, _ = _former(store.repo)
        for name in _to_forward(store.repo, former):
            if not os.path.lexists(os.path.join(ours, name)):
                _place(store, name, "forward.sh", _events_of(ours))
        _point(ours, former)


def survey(store: Store) -> Survey:
    """Which of our hooks git runs now, and their problems."""
    repo = store.repo
    ours, hooks = _own(repo), os.path.join(repo.common_dir, "hooks")
    former, forwarded = _former(repo)
    looked = os.path.realpath(_at(repo, former))
    found = Survey(ours if forwarded else hooks)
    for name in (*EVENTS, PRE_PUSH):
        forwarder = _is_forwarder(os.path.join(ours, name)) and name in _events_of(ours)
        directories = {os.path.realpath(hooks), looked}
        holders = [path for at in directories for path in hooklines.holders(at, name)]
        run = [p for p in holders if os.path.dirname(p) == looked and os.access(p, os.X_OK)]
        if forwarder or holders:
            found.placed.append(name)
        if run or (forwarder and forwarded):
            found.on.append(name)
        if len(run) + (forwarder and forwarded) > 1:
            found.problem(f"hook {name} is installed twice")
    missing = [name for name in EVENTS if name not in found.on]
    if found.placed and missing:
        why = f"another tool replaced them, or git looks in '{former}'"
        found.problem(f"git does not run our hooks {', '.join(missing)}: {why}")
    if found.placed:
        _check_script(store, ours, found)
    late = [n for n in _to_forward(repo, former) if not os.path.exists(os.path.join(ours, n))]
    if forwarded and late:
        found.problem(f"hooks in '{former}' that came later are not run: {', '.join(late)}")
    return found


def _check_script(store: Store, ours: str, found: Survey) -> None:
    """Adds the problem of the script that all hooks use."""
    text = config_journal.read(os.path.join(ours, "event.sh"))
    python, package = _program(text)
    there = os.access(python, os.X_OK) and os.path.exists(os.path.join(package, "__main__.py"))
    if not text:
        found.problem("hooks are installed, but their script is gone")
    elif not there and shutil.which("git-mem"):
        gone = f"the git mem that installed the hooks is gone from '{package}'"
        found.problem(f"{gone}; they start the one on PATH")
    elif not there:
        found.problem(f"hooks do nothing: git mem is neither in '{package}' nor on PATH")
    elif os.path.realpath(package) != os.path.realpath(PACKAGE):
        two = f"the hooks start the git mem in '{package}', this one is in '{PACKAGE}'"
        found.problem(f"double installation: {two}", f"{_AGAIN} with the one that is to stay")
    elif text != _script(store, "event.sh"):
        other = "another version of git mem, or for another mem.ref"
        found.problem(f"the hooks were written by {other}")


def _lines_fit(repo: Repo, former: str, names: list[str]) -> bool:
    """Whether every hook can take our lines where git looks; else hooks are forwarded."""
    hooks = os.path.join(os.path.realpath(repo.common_dir), "hooks")
    # A linked directory leads elsewhere, perhaps into the working tree.
    return os.path.realpath(_at(repo, former)) == os.path.realpath(hooks) == hooks and all(
        hooklines.fit(os.path.join(hooks, name)) for name in names
    )


def _own(repo: Repo) -> str:
    return os.path.join(os.path.realpath(repo.common_dir), _DIR)


def _former(repo: Repo) -> tuple[str, bool]:
    """(where git looks for hooks without us, whether it looks in our directory now).

    The place may be relative to the top of each working tree.
    """
    raw = repo.git.run("config", "-z", "--type=path", "--get-all", "core.hooksPath", ok=(0, 1))
    values, ours = os.fsdecode(raw).split("\0")[:-1], _own(repo)  # the last one is in force
    others = [value for value in values if value != ours]
    hooks = os.path.join(os.path.realpath(repo.common_dir), "hooks")
    return others[-1] if others else hooks, values[-1:] == [ours]


def _at(repo: Repo, former: str) -> str:
    """A hooks directory as git sees it from the top of this working tree."""
    beside = repo.git_dir if repo.bare else os.path.dirname(repo.common_dir)
    return os.path.join(repo.top or beside, former)


def _point(ours: str, former: str) -> None:
    """Notes where forwarded hooks are. Written each time: its age tells when that was known."""
    config_journal.replace(os.path.join(ours, "former"), os.fsencode(former) + b"\n", 0o666)


def _to_forward(repo: Repo, former: str) -> list[str]:
    at = _at(repo, former)
    there = [name for name in _IF_THERE.split() if os.access(os.path.join(at, name), os.X_OK)]
    return [*_FORWARDED.split(), *there]


def _stop_forwarding(repo: Repo) -> list[str]:
    ours = _own(repo)
    entry = ("include.path", os.path.join(ours, "config"))
    if not os.path.exists(entry[1]) and config_journal.lacks(repo, *entry):
        return []
    done = config_journal.undo(repo, {"git"}, [entry])
    # What sends git there goes first: hooks must not be looked for in an empty directory.
    for name in ["config", "former", *(os.listdir(ours) if os.path.isdir(ours) else [])]:
        path = os.path.join(ours, name)
        if name in ("config", "former") or _is_forwarder(path):
            _unlink(path)
    return done


def _is_forwarder(path: str) -> bool:
    return os.path.isfile(path) and _STANDS_IN in config_journal.read(path)


def _events_of(ours: str) -> list[str]:
    """The events for which forwarders tell us."""
    found = re.search(rb"(?m)^events='(.*)'$", config_journal.read(os.path.join(ours, EVENTS[0])))
    return found[1].decode().split() if found else []


def _source(name: str) -> str:
    """A script as it is in hooks/ of the repository; the wheel carries it as data."""
    path = os.path.join(PACKAGE, "data", "hooks", name)
    if not os.path.exists(path):
        path = os.path.join(os.path.dirname(PACKAGE), "hooks", name)
    with open(path, encoding="utf-8") as f:
        return f.read()


def _place(store: Store, name: str, source: str = "", events: Iterable[str] = ()) -> bool:
    """Writes a script into our directory; whether it changed. A hook has another `source`."""
    script = _script(store, source or name, events)
    path = os.path.join(_own(store.repo), name)
    return config_journal.write(path, script, 0o777 if source else 0o666)


def _script(store: Store, name: str, events: Iterable[str] = ()) -> bytes:
    """A script for this repository and this installation."""
    python, package = _program(config_journal.read(os.path.join(_own(store.repo), "event.sh")))
    same = os.path.realpath(package) == os.path.realpath(PACKAGE)
    if not same or not os.access(python, os.X_OK):
        python, package = sys.executable, PACKAGE
    private = store.settings.private_ref
    values = {
        "PYTHON": python,
        "PACKAGE": package,
        "REFS": f"refs/notes/{store.settings['ref']}/",
        "BACKUPS": config.BACKUPS,
        "PRIVATE": private,
        "BACKUP": config.backup_of(private),
        "EVENTS": " ".join(events),
    }
    text = _source(name)
    for key, value in values.items():
        text = text.replace(f"@{key}@", "'" + value.replace("'", "'\\''") + "'")
    return text.encode("utf-8", "surrogateescape")


def _program(text: bytes) -> tuple[str, str]:
    """(interpreter, package) that an installed event.sh names."""
    rows = re.findall(rb"(?m)^ *(python|package)=('.*')$", text)
    found = {key: "".join(shlex.split(os.fsdecode(value))[:1]) for key, value in rows}
    return found.get(b"python", ""), found.get(b"package", "")


def _unlink(path: str) -> None:
    if os.path.lexists(path):
        os.unlink(path)
