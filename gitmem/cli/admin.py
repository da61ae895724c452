"""Commands about the store itself: status, index, stats, doctor, config."""

import os
import time
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from .. import setup, sync
from ..agents import receipts
from ..anchors import anchor_state_update
from ..capture import suggestions
from ..core.errors import MemError, UsageError
from ..core.plural import many
from ..engine import cache as cache_file
from ..engine import encoding, model_vectors
from ..engine.cache import Cache
from ..engine.filters import Filter
from ..feedback import usage_stats
from ..git import config as settings
from ..git import remote
from ..hooks import githooks
from ..memory import commit_hits, listing, proposals
from ..models import chosen, llamavec, registry
from ..opening import chosen_vectors
from ..store import Store
from .common import values
from .options import Answer, argument, command, flag, text


@command("status", enabled=False)
def status_command(store: Store) -> Answer:
    """Say what is stored, where, and whether the cache is up to date."""
    path, hooks = cache_file.path_of(store.repo.mem_dir), githooks.survey(store)
    remotes = remote.settings(store.repo)
    missing = setup.missing(store, remotes)
    counted = os.path.exists(path) or any(notes.tip() for _, notes in store.sources)
    numbers: dict[str, Any] = {}
    if counted:
        numbers = store.with_cache(lambda cache: listing.totals(store, cache))[0]
    names = ("memories", "team", "private", "superseded", "forgotten", "without_vectors")
    # After the counting: the cache may know more of a ref that is gone.
    tips = {notes.ref: notes.tip() for _, notes in store.sources}
    facts = {
        "repository": store.repo.top or store.repo.git_dir,
        "enabled": store.settings.flag("enabled"),
        **{name: numbers.get(name, 0) for name in names},
        "without_better_vectors": _without_better(store) if counted else None,
        "refs": {ref: tip for ref, tip in tips.items() if tip},
        "cache": path if os.path.exists(path) else None,
        "suggestions": len(suggestions.waiting(store)) if counted else 0,
        "proposals": len(proposals.waiting(store)) if counted else 0,
        "history": commit_hits.counts(store),
        "not_shared": sync.unshared(store, remotes),
        "waiting": setup.waiting(store),
        "hooks": hooks.on,
        "missing_settings": [f"{key} = {value}" for key, value, _ in missing],
    }
    reasons = [why for _, _, why in missing]
    return Answer(facts, [*_pairs(facts), *_remarks(store, facts, hooks.problems, reasons)])


def _pairs(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "repository", facts["repository"]
    yield (
        "memories",
        "{memories:,} ({team:,} team, {private:,} private);"
        " {superseded:,} superseded, {forgotten:,} forgotten".format(**facts),
    )
    if facts["history"]["of"]:
        told = "{commits:,} of {of:,} commits are searchable".format(**facts["history"])
        fewer = facts["history"]["commits"] < facts["history"]["of"]
        yield "history", told + "; merges and messages that tell nothing are not" * fewer
    if facts["not_shared"]:
        yield "not shared", f"{many(facts['not_shared'], 'record')}; `git mem sync` sends them"
    yield "git hooks", ", ".join(facts["hooks"]) or "off; `git mem install git` turns them on"
    refs = ", ".join(f"{ref} {tip[:8]}" for ref, tip in facts["refs"].items())
    yield "refs", refs or "none yet"
    cache = "none yet; the first recall builds it"
    if facts["cache"]:
        missing = facts["without_better_vectors"]
        lacking = [(facts["without_vectors"], "a vector"), (missing, "a better vector")]
        size = os.path.getsize(facts["cache"]) / 1e6
        cache = f"{size:.1f} MB, up to date"
        cache += "".join(f", {many(n, 'memory')} without {what}" for n, what in lacking if n)
    yield "cache", cache


def _remarks(
    store: Store, facts: dict[str, Any], problems: list[tuple[str, str]], missing: list[str]
) -> Iterator[str]:
    """`missing`: why settings are needed that are not there."""
    for scope, notes in store.sources:
        if facts[scope] and notes.ref not in facts["refs"]:
            yield (
                f"warning: '{notes.ref}' is gone, the cache still has {facts[scope]} of its"
                " memories; `git mem doctor` says more"
            )
    if not facts["enabled"]:
        yield f"switched off by {store.settings.origins['enabled']}"
    if problems:
        yield "; ".join(problems[0])
    counts = [(facts["suggestions"], "suggestion"), (facts["proposals"], "proposal")]
    total = sum(n for n, _ in counts)
    if total:
        named = " and ".join(many(n, noun) for n, noun in counts if n)
        yield f"{named} wait{'s' * (total == 1)} for you: git mem review"
    lacking = setup.elsewhere(store)
    if lacking and not facts["waiting"]:
        yield lacking
    for name in facts["waiting"]:
        yield f"fetched but not united yet: {name}"
        yield "  git mem sync   unites it with yours"
    for why in missing[:1]:
        yield f"not set up yet: {why}; run `git mem init`"


def _without_better(store: Store) -> int | None:
    """Memories without a better vector; None where none is wanted. Starts no model."""
    choice = chosen.choice(registry.EMBEDDING, store.settings["embedModel"], os.environ)
    if choice.path:
        return store.with_cache(
            lambda cache: model_vectors.missing(cache, llamavec.made(cache, choice))
        )[0]
    return store.with_cache(encoding.missing)[0] if store.settings.flag("encoder") else None


@command("index", elsewhere="to")
def index_command(
    store: Store | None,
    places: list[str] = argument("[DIR...]", "Repositories for --to; without, this one.", None),
    all: bool = flag(
        "--all",
        (
            "Also make the missing vectors of the encoder or of a chosen model; goes on where it "
            "was broken off."
        ),
    ),
    rebuild: bool = flag("--rebuild", "Build the cache anew from the whole history of the notes."),
    to: str = text("--to URL", "Write the team's memories into an organisation's PostgreSQL."),
    name: str = text("--name", "With --to: what the repository is called there (its remote)."),
    dry_run: bool = flag("-n --dry-run", "With --to: only say what would be written."),
) -> Answer:
    """Bring the cache up to date (every recall does it too), or an organisation's index."""
    if store is None:
        from . import organisation

        organisation.refuse({"--all": all, "--rebuild": rebuild})
        return organisation.index(to, places or [], name, dry_run)
    if places or name or dry_run:
        raise UsageError("directories, --name and --dry-run go with --to URL")
    store.resumes = True
    start = time.perf_counter()
    if rebuild:
        store.discard()
        cache_file.discard(store.repo.mem_dir, name=cache_file.HISTORY)

    def count(cache: Cache) -> int:
        memories = Filter().count(cache)
        store.trust.catch_up(cache, None)
        return memories

    memories, _ = store.with_cache(count, deep=rebuild)
    space = store.table.space
    complete = anchor_state_update.update(store, patience=10.0)  # a worker may be at it
    history = commit_hits.take_in(store)
    made = _better_vectors(store) if all else None
    seconds = time.perf_counter() - start
    facts = {"memories": memories, "space": space, "history": history}
    facts.update(seconds=round(seconds, 3), **(made or {}))
    lines = [f"{many(memories, 'memory')} indexed, vectors by {space} ({seconds:.2f} s)"]
    if not complete:
        lines.append("another process still looks where memories stand")
    if history["of"]:
        lines.append("{commits:,} of {of:,} commits are searchable".format(**history))
    if made:
        new = f"{made['made']} vectors made in the space {made['better']}"
        lines.append(f"{new}, {made['missing']} missing")
    elif all:
        lines.append("the encoder is off: `git config mem.encoder true` turns it on")
    return Answer(facts, lines)


def _better_vectors(store: Store) -> dict[str, Any] | None:
    """Makes missing vectors of the encoder or the chosen model; None where both are off."""
    with chosen_vectors(store) as chosen:
        if not chosen and not store.settings.flag("encoder"):
            return None
        vectors = chosen or encoding.embedder()
        if vectors is None:
            raise MemError(
                "the encoder cannot be used; no vectors were made",
                hint="`git mem doctor` says why; words and the packaged table go on",
            )
        space = vectors.space
        left = store.with_cache(lambda cache: model_vectors.missing(cache, space))[0]
        with store.progress("embedding", left) as advance:
            made = store.with_cache(lambda cache: encoding.fill(cache, None, advance, chosen))[0]
        left = store.with_cache(lambda cache: model_vectors.missing(cache, space))[0]
    return {"made": made, "missing": left, "better": space}


@command("stats")
def stats_command(store: Store) -> Answer:
    """Count memories by type, author, tag and month, what agents were shown of them, and what of
    that was used.
    """
    numbers = store.with_cache(
        lambda cache: {**listing.counts(store, cache), **receipts.counts(cache)}
    )[0]
    pairs: list[tuple[str, Any]] = []
    for name, value in numbers.items():
        if name == "feedback":
            pairs += usage_stats.lines(value)
        elif not isinstance(value, dict):
            pairs.append((name.replace("_", " "), value))
        elif value:
            pairs.append((name, ", ".join(f"{key or 'none'} {n}" for key, n in value.items())))
    return Answer(numbers, pairs)


@command("doctor", enabled=False)
def doctor_command(
    store: Store,
    repair: bool = flag("--repair --fix", "Mend what needs no decision of yours; then look again."),
) -> Answer:
    """Look for what is wrong; exit code 1 where something is `bad`.

    Changes nothing unless asked.
    """
    from .. import doctor  # most of the program: `status` and `config` do not wait for it

    findings = doctor.examine(store)
    done = doctor.repair(findings) if repair else []
    if done:
        findings = doctor.examine(store)
    found = [{**values(f, "level", "text", "hint"), "repairable": bool(f.repair)} for f in findings]
    lines = [f"mended: {line}" for line in done]
    for f in findings:
        lines.append(f"{f.level + ':':<6}{f.text}")
        if f.hint:
            lines.append(f"      {f.hint}")
    return Answer(found, lines, int(any(f.level == doctor.BAD for f in findings)))


@command("config", enabled=False)
def config_command(
    store: Store,
    name: str = argument("NAME", "A setting; without it, all are listed.", None),
    value: str = argument("VALUE", "The new value ('' removes it).", None),
) -> Answer:
    """Show or change settings (the same as `git config mem.NAME`)."""
    if name is None:
        rows = [
            {
                "name": "mem." + name,
                "value": store.settings[name],
                "from": store.settings.origins[name],
                "meaning": setting[3],
            }
            for name, setting in settings.SETTINGS.items()
        ]
        lines = [f"{r['name']} = {r['value']}  ({r['from']}; {r['meaning']})" for r in rows]
        return Answer(rows, lines)
    wanted = name.removeprefix("mem.").lower()
    short = next((n for n in settings.SETTINGS if n.lower() == wanted), "")
    if not short:
        names = {n.lower(): f"mem.{n}" for n in settings.SETTINGS}
        nearest = [f"; did you mean {names[n]}?" for n in get_close_matches(wanted, names, 1)]
        raise UsageError(
            f"no setting '{name}'" + "".join(nearest), hint=f"there are {', '.join(names.values())}"
        )
    key = "mem." + short
    if value is None:
        return Answer({"name": key, "value": store.settings[short]}, [store.settings[short]])
    if value == "":
        store.repo.git.run("config", "--local", "--unset-all", key, ok=(0, 5))
    else:
        value = settings.check(short, settings.SETTINGS[short][0], value)
        store.repo.git.run("config", "--local", key, value)
        if short == "capture" and store.settings["capture"] == "false":
            from ..capture import commitlog  # 20 ms, which `status` would wait for

            commitlog.begin(store.repo)
    return Answer({"name": key, "value": value})
