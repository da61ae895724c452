"""`git mem doctor`: what is wrong or off, each with a safe next step.

Promise: it reads everything it judges (every note line, the whole cache), and changes nothing but
that a notes ref which is gone is put back, as by every reader. `repair` does what can be done
without a decision of the user's: nothing is guessed, no line is ever dropped."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable

from . import __version__, setup, worker
from .agents import audit, failures, installed, targets
from .anchors import reanchor
from .capture import commitlog
from .core import record
from .core.errors import GitFailed, MemError, UsageError
from .core.fold import Tombstones
from .engine import cache, cache_check, cache_lock, index, unread
from .engine.filters import Filter
from .erasure import purge, tombstones
from .git import config, config_read, memfile, reflock
from .hooks import githooks
from .models import usable
from .notes import notetree, ref_repair
from .signing import trust
from .store import Store

OK, OFF, WARN, BAD = "ok", "off", "warn", "bad"
_LISTED = 10  # of one kind that are named


class Finding:
    """`repair`: mends it and says in a line what it did; None where that is not ours to decide."""

    __slots__ = ("hint", "level", "repair", "text")

    def __init__(
        self, level: str, text: str, hint: str = "", repair: Callable[[], str] | None = None
    ) -> None:
        self.level = level
        self.text = text
        self.hint = hint
        self.repair = repair


_REPAIRS = "`git mem doctor --repair` does it"


def repair(found: list[Finding]) -> list[str]:
    """Mends what can be mended; one line for each thing done or failed.

    A repair that fails stops no other.
    """
    done = []
    for what in dict.fromkeys(f.repair for f in found if f.repair):
        try:
            done.append(what())
        except MemError as e:
            done.append(f"not mended: {e.message}")
    return done


def examine(store: Store) -> list[Finding]:
    """Every finding, good ones included."""
    out: list[Finding] = []
    version = store.repo.git.text("version").removeprefix("git version ")
    out.append(
        Finding(OK, f"git mem {__version__}, git {version}, SQLite {sqlite3.sqlite_version}")
    )
    if not store.settings.flag("enabled"):
        out.append(Finding(OFF, f"git mem is switched off by {store.settings.origins['enabled']}"))
    if not store.repo.own:
        out.append(
            Finding(
                OFF,
                "no program is run that this repository's configuration names: "
                "it is another user's, or bare and not named by GIT_DIR",
                "your global git configuration can name one",
            )
        )
    blocked = setup.blocked(store)
    if blocked:
        out.append(
            Finding(
                BAD,
                f"'{blocked}' stands where memories are to be stored",
                "choose another namespace, for example `git config mem.ref memory`",
            )
        )

    def set_up() -> str:
        return "; ".join(setup.init(store)) or "nothing was missing any more"

    for key, value, why in setup.missing(store):
        out.append(Finding(WARN, f"{key} lacks '{value}': {why}", "run `git mem init`", set_up))
    out += _files(store)
    out += [Finding(WARN, what, hint) for what, hint in setup.threats(store)]
    out += _programs()
    out += _hooks(store)
    out += _agents(store)
    wrong = usable.remarks(store.settings, os.environ, store.repo.mem_dir)
    out += [Finding(WARN, text, hint) for text, hint in wrong]
    out += [
        Finding(OK if good else WARN, text, hint)
        for good, text, hint in trust.remarks(store.settings, store.home)
    ]
    out += [Finding(*remark) for remark in audit.remarks(store)]
    out += _locks(store)
    unreadable: list[Finding] = []
    for scope, notes in store.sources:
        try:
            former, known = index.known(store.repo.mem_dir, scope, notes.ref)
            tip = notes.tip(former)
            out += _mended(store, scope)
            gone = (
                f"{scope}: '{notes.ref}' is gone, and its commits are not here; the cache still has"
                f" {known} of its memories"
            )
            none = (
                Finding(BAD, gone, "`git mem export` prints them, before the cache is lost, too")
                if known
                else Finding(OK, f"{scope}: no memories yet")
            )
            out += _notes(store, scope, tip) if tip else [none]
        except GitFailed as e:
            unreadable.append(_unreadable(store, scope, e))
    out += unreadable or _derived(store)
    try:
        store.table.verify()
        out.append(Finding(OK, f"embedding table {store.table.space}"))
    except Exception as e:
        out.append(Finding(BAD, str(e), "install git mem again"))
    return out + _encoder(store) + _policy(store.repo.top)


def _encoder(store: Store) -> list[Finding]:
    """Whether questions and memories can be read by the packaged encoder."""
    if not store.settings.flag("encoder"):
        return []
    try:
        from .embedding.encoder import Encoder

        encoder = Encoder()
        encoder.file.verify()
    except Exception as e:
        return [Finding(BAD, f"the encoder cannot be used: {e}", "install git mem again")]
    return [Finding(OK, f"encoder {encoder.space}")]


def _derived(store: Store) -> list[Finding]:
    """What stands on notes that can be read."""
    out = _purged(store)
    of_cache = _cache(store)
    out += of_cache
    if os.path.exists(cache.path_of(store.repo.mem_dir)) and not any(
        f.level == BAD for f in of_cache
    ):
        out += _anchors(store)
    return out


def _files(store: Store) -> list[Finding]:
    """What others may read or have planted in the directory of the cache."""
    common_dir = store.repo.common_dir
    if not (found := list(memfile.odd(common_dir))):
        return []

    def close() -> str:
        memfile.mend(common_dir)
        return f"'{store.repo.mem_dir}' is ours alone"

    path, why = found[0]
    rest = f", and {len(found) - 1} more like it" if len(found) > 1 else ""
    if store.repo.mem_dir == memfile.NOWHERE or why == memfile.CLOSED:
        hint = "work in a clone of your own" if why == memfile.CLOSED else "move it away"
        return [Finding(WARN, f"'{path}' {why}: answers come without a cache", hint)]
    if store.repo.git.text("config", "--type=bool", "core.fileMode", ok=(0, 1)) == "false":
        return []  # a file system without modes
    return [Finding(WARN, f"'{path}' {why}{rest}", f"the next worker mends it; {_REPAIRS}", close)]


def _programs() -> list[Finding]:
    """Several git mem on PATH: which one a hook or an agent gets depends on who starts it."""
    found: dict[str, str] = {}
    for directory in os.get_exec_path():
        path = os.path.join(directory, "git-mem")
        if os.access(path, os.X_OK) and os.path.isfile(path):
            found.setdefault(os.path.realpath(path), path)
    if len(found) < 2:
        return []
    return [
        Finding(
            WARN,
            f"{len(found)} git mem are on PATH: {', '.join(found.values())}",
            "keep one; the first is the one that git starts",
        )
    ]


def _hooks(store: Store) -> list[Finding]:
    found = githooks.survey(store)

    def install() -> str:
        return "; ".join(githooks.install(store)) or "the hooks were as they should be"

    out = [
        Finding(WARN, what, hint, install if "git mem install git" in hint else None)
        for what, hint in found.problems
    ]
    if found.on:
        out.append(Finding(OK, f"git hooks: {', '.join(found.on)}"))
    elif not found.problems:
        out.append(
            Finding(
                OFF,
                "git hooks are off: each search looks for what is new itself",
                "`git mem install git` turns them on",
            )
        )
    if githooks.PRE_PUSH not in found.on:
        out.append(
            Finding(
                OFF,
                "no warning before a push that would publish private memories",
                "`git mem install git --pre-push` turns it on",
            )
        )
    silent, last = failures.count(store.repo.mem_dir)
    if silent:
        out.append(
            Finding(
                WARN,
                f"{silent} call{'s' * (silent != 1)} of agents' hooks failed, the last: {last}",
                "the agent was told nothing; the log is"
                f" '{os.path.join(store.repo.mem_dir, failures.LOG)}'; delete it when it is read",
            )
        )
    failed = worker.failures(store.repo.mem_dir)
    if failed:
        out.append(
            Finding(
                WARN,
                f"the worker has written {len(failed)} line{'s' * (len(failed) != 1)} to its log,"
                f" the last: {failed[-1]}",
                f"the log is '{os.path.join(store.repo.mem_dir, worker.LOG)}'; delete it when it is"
                " read",
            )
        )
    passed = commitlog.given_up(store.repo.mem_dir)
    if passed:
        out.append(
            Finding(
                WARN,
                f"capture passes over {_many(len(passed), 'commit')}, the first is"
                f" {passed[0][:12]}: keeping what it says failed {commitlog.TRIES} times",
                "the worker's log says why; `git mem remember --commit ID TEXT` keeps it by hand",
            )
        )
    return out


def _agents(store: Store) -> list[Finding]:
    """Which agents get memories by themselves, and what stands in their way."""
    found = installed.state(os.environ, store.repo)
    out = [
        Finding(WARN, what, hint)
        for what, hint in installed.problems(os.environ, store.repo, found)
    ]
    for one in [one for one in found if not one.problem]:
        title = (
            targets.AGENTS[one.target].title
            if one.target in targets.AGENTS
            else targets.SECTIONS[one.target]
        )
        out.append(Finding(OK, f"{title}: {installed.words(one)}"))
    if not any(one.target in targets.AGENTS for one in found):
        out.append(
            Finding(
                OFF,
                "no agent gets memories by itself",
                f"`git mem install claude` turns it on; also {', '.join([*targets.AGENTS][1:])}",
            )
        )
    elif not store.settings.flag("promptContext"):
        out.append(
            Finding(
                OFF,
                "prompts get no memories, a session's start alone does",
                "`git mem config promptContext true` turns it on",
            )
        )
    if any(one.target == "claude" for one in found) and not store.settings.flag("readContext"):
        out.append(
            Finding(
                OFF,
                "a file that is read or edited brings no memories",
                "`git mem config readContext true` turns it on, for Claude Code",
            )
        )
    if store.settings["capture"] == "false":
        out.append(
            Finding(
                OFF,
                "nothing is kept by itself",
                "`git mem config capture commits` keeps what commit messages decide and explain,"
                " `all` also what is said in sessions, in private notes",
            )
        )
    return out


def _purged(store: Store) -> list[Finding]:
    """What a call that was killed, a fetch or stock git may have left of purged text."""

    def finish() -> str:
        done = purge.scrub(store, sure=True)
        if done and done.held:
            raise MemError(f"purged text is still here: {', '.join(done.held)} leads to it")
        return f"deleted {len(done.deleted) if done else 0} objects that held purged text"

    if tombstones.settled(store, Tombstones(tombstones.purges(store)), note=False):
        return []
    return [
        Finding(
            WARN,
            "text that was purged may still be in objects here",
            "`git mem sync` looks, and takes it out",
            finish,
        )
    ]


def _locks(store: Store) -> list[Finding]:
    """Locks that stop every write to the refs of memories."""
    refs = [notes.ref for _, notes in store.sources]

    def remove() -> str:
        for ref in refs:
            reflock.recover(store.repo.git, ref)
        left = reflock.standing(store.repo.common_dir, refs)
        if left:
            raise MemError(f"'{left[0]}' may be the lock of another program")
        return "removed the lock that a dead writer left"

    return [
        Finding(BAD, f"'{path}' stops every write", reflock.LEFT, remove)
        for path in reflock.standing(store.repo.common_dir, refs)
    ]


def _mended(store: Store, scope: str) -> list[Finding]:
    history = store.notes(scope).history
    at, history.mended = history.mended[:12], ""
    hint = (
        "something deleted it (`git fetch --prune`?), or a power cut emptied it; what came after"
        f" {at} and can be read comes back with the next write; {_REPAIRS}"
    )
    return (
        [
            Finding(
                WARN,
                f"{scope}: '{history.ref}' was gone or could not be read; it is at {at} again",
                hint,
                _mend(store, scope),
            )
        ]
        if at
        else []
    )


def _unreadable(store: Store, scope: str, e: GitFailed) -> Finding:
    return Finding(BAD, f"{scope}: {e.message}", e.hint, _mend(store, scope))


def _mend(store: Store, scope: str) -> Callable[[], str]:
    def mend() -> str:
        notes = store.notes(scope)
        before = notes.git.text("rev-parse", "-q", "--verify", notes.ref, ok=(0, 1, 128))
        ref_repair.mend(notes.git, notes.ref, asked=True)
        notes.git.close()  # it has read the ref as it was
        notes.settle("git mem: mend", store.identity)
        tip = notes.tip()
        gone = ref_repair.missing(notes.git, tip) if tip else []
        if gone:
            raise MemError(
                f"{scope}: {_many(len(gone), 'object')} of '{notes.ref}' cannot be read, the first"
                f" is {gone[0][:12]}; nothing was written"
            )
        return f"{scope}: " + (
            f"the ref is whole again, at {tip[:12] or 'nothing'}"
            if tip != before
            else "the ref is whole; nothing was written"
        )

    return mend


def _notes(store: Store, scope: str, tip: str) -> list[Finding]:  # noqa: C901
    """Every line of a ref, read through git."""
    notes = store.notes(scope)
    count = dict.fromkeys(("records", "foreign", "broken", "newer", "forged"), 0)
    broken: list[str] = []
    seen: set[bytes] = set()
    for key, line in notes.lines(tip, deep=True):
        if line in seen:
            continue
        seen.add(line)
        parsed = record.parse(line)
        kind = (
            "records"
            if parsed
            else (
                "newer" if record.newer(line) else "broken" if line.startswith(b'{"') else "foreign"
            )
        )
        count[kind] += 1
        count["forged"] += bool(
            parsed and parsed.op == "create" and not record.id_holds(parsed.data)
        )
        if kind == "broken":
            broken.append(f"{key[:12]} (line {record.version_of(line)[:8]})")
    gone = list(dict.fromkeys(notes.missing))
    keys = sum(1 for _ in notetree.all_notes(store.repo.git, tip, store.repo.hex_len))
    out = [Finding(OK, f"{scope}: {_many(count['records'], 'record')} in {_many(keys, 'note')}")]

    out += [
        Finding(
            WARN,
            f"{scope}: the note of {key} has {unread.megabytes(size)}, more than"
            f" {unread.megabytes(store.repo.git.largest)}: it is not read",
            "its lines are kept, and shown to nobody; `git notes"
            f" --ref={store.settings['ref']}/{scope} list {key[:12]}` names its object",
        )
        for key, size in notes.unread.items()
        if size
    ]
    if gone:
        out.append(
            Finding(
                BAD,
                f"{scope}: {_many(len(gone), 'note')} of the ref cannot be read, the first is"
                f" {gone[0][:12]}",
                "`git fsck` names what is missing; where a disk is away, that comes first",
                _mend(store, scope),
            )
        )

    def tidy() -> str:
        before = notes.tip()
        written = notes.tidy("git mem: tidy notes", store.identity)
        return (
            f"{scope}: each note has one path, {_many(written.lines, 'line')} put back"
            if notes.tip() != before
            else f"{scope}: nothing was left to mend; nothing was written"
        )

    doubled = len(notes.doubled(tip))
    if doubled:
        out.append(
            Finding(
                WARN,
                f"{scope}: {_many(doubled, 'commit')} annotated twice, under two paths of the tree"
                " (mixed fan-out)",
                f"nothing is lost: git mem reads both; {_REPAIRS}",
                tidy,
            )
        )
    if broken:
        out.append(
            Finding(
                WARN,
                f"{scope}: {_many(len(broken), 'line')} that began as a record and cannot be read,"
                f" at {', '.join(broken[:_LISTED])}",
                f"they are kept; `git notes --ref={store.settings['ref']}/{scope} show COMMIT`"
                " prints them",
            )
        )
    if count["newer"]:
        out.append(
            Finding(
                WARN,
                f"{scope}: {_many(count['newer'], 'record')} of a newer format kept, not shown",
                "update git mem",
            )
        )
    if count["forged"]:
        out.append(
            Finding(
                WARN,
                f"{scope}: {_many(count['forged'], 'record')} without the id of the text (a note"
                " edited by hand?)",
                "`git mem edit` makes a proper new version",
            )
        )
    if count["foreign"]:
        out.append(
            Finding(OK, f"{scope}: {_many(count['foreign'], 'line')} of others kept, not shown")
        )
    lost = notes.lost_lines(deep=True)
    if lost:
        out.append(
            Finding(
                WARN,
                f"{scope}: {_many(lost, 'line')} taken out of the notes by another tool; recall"
                " still finds them",
                f"the next write puts them back; {_REPAIRS}",
                tidy,
            )
        )
    secrets = trust.secrets(seen)
    if secrets:
        listed = ", ".join(
            f"{id[:8] or 'line ' + version[:8]} ({rule})"
            for version, id, _, rule in secrets[:_LISTED]
        )
        out.append(
            Finding(
                WARN,
                f"{scope}: {_many(len(secrets), 'text')} that may hold a secret: {listed}",
                "`git mem show` shows a memory; `git mem purge` takes a memory or a line out for"
                " good",
            )
        )
    return out


def _many(n: int, what: str) -> str:
    return f"{n} {what}{'s' * (n != 1)}"


def _cache(store: Store) -> list[Finding]:
    path = cache.path_of(store.repo.mem_dir)
    if not os.path.exists(path):
        return [Finding(OK, "no cache yet; the first recall builds it")]
    opened = None
    try:
        opened = cache.open_cache(store.repo.mem_dir, create=False)
        if opened is None:
            return [Finding(OK, "no cache yet; the first recall builds it")]
        wrong = cache_check.check_all(opened, store.table)
        waiting = len(index.pending(opened, store.sources)) if not wrong else 0
        count = Filter().count(opened) if not wrong else 0
        size = cache_lock.size(path) / 1e6
    except (cache_check.Busy, cache.Moved):
        return [Finding(OK, "the cache is being written at this moment, so it was not compared")]
    except (cache.Damaged, sqlite3.DatabaseError) as e:
        wrong, waiting, count, size = str(e), 0, 0, 0.0
    finally:
        if opened is not None:
            opened.close()
    if wrong:

        def rebuild() -> str:
            store.discard()
            count, _ = store.with_cache(lambda opened: opened.count())
            return f"the cache was built anew: {_many(count, 'text')}"

        return [
            Finding(
                BAD,
                f"the cache is damaged: {wrong}",
                "run `git mem index --rebuild`; nothing is lost",
                rebuild,
            )
        ]
    out = [Finding(OK, f"cache: {count} memories, {size:.1f} MB")]
    if waiting:
        out.append(Finding(OK, "the notes moved since; the next recall catches up"))
    return out


def _anchors(store: Store) -> list[Finding]:
    """Commits with memories that nothing holds any more, and what other clones are not told of
    yet."""
    found = reanchor.lost(store)
    out = []
    if found:
        memories = sum(item.memories for item in found)
        listed = [
            f"{item.commit[:12]}{'' if item.here else ' (not here)'}: {item.memories}"
            + "".join(f", same change as {c[:12]}" for c in item.same[:3])
            for item in found[:_LISTED]
        ]
        more = f"; and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
        out.append(
            Finding(
                WARN,
                f"{memories} {'memory is' if memories == 1 else 'memories are'} about {len(found)}"
                f" commit{'s' * (len(found) != 1)} that no branch holds: {'; '.join(listed)}{more}",
                "`git mem list --all` shows them; `git mem reanchor OLD NEW` says which commit took"
                " the place of one",
            )
        )
    waiting = sum(
        len(reanchor.missing(store, scope)) for scope, notes in store.sources if notes.tip()
    )

    def publish() -> str:
        return f"{_many(reanchor.publish(store), 'mark')} written"

    if waiting:
        out.append(
            Finding(
                OK,
                f"{waiting} mark{'s' * (waiting != 1)} of commits {'are' if waiting != 1 else 'is'}"
                " not in the notes yet; `git mem sync` writes them",
                repair=publish,
            )
        )
    return out


def _policy(top: str) -> list[Finding]:
    try:
        table = config_read.policy_table(top)
    except MemError as e:
        return [
            Finding(
                WARN,
                f"{e.message}, so it counts as absent",
                "a policy file has at most 8 KB and 8 dots a line",
            )
        ]
    out = []
    for name, value in table.items():
        if name in config.SETTINGS and config.SETTINGS[name][2]:
            try:
                config_read.check_policy(name, value)
            except UsageError as e:
                out.append(Finding(WARN, f".gitmem.toml: {e.message}; ignored"))
    ignored = [k for k in table if k not in config.SETTINGS or not config.SETTINGS[k][2]]
    if ignored:
        out.append(
            Finding(
                WARN,
                f".gitmem.toml may not set {', '.join(sorted(ignored))}; ignored",
                "use `git config` for it",
            )
        )
    return out
