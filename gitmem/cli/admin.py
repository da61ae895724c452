"""Commands about the store itself: status, index, stats, doctor, config, export, import."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import typer

from .. import doctor, render, setup
from ..agents import audit
from ..anchors import reanchor
from ..capture import suggestions
from ..core.errors import MemError, UsageError
from ..engine import cache as cache_file
from ..engine import encoding, model_vectors
from ..engine.filters import Filter
from ..feedback import usage_stats
from ..git import config as settings
from ..hooks import githooks
from ..memory import listing, proposals, transfer
from ..models import llamavec
from ..store import Store
from . import app
from .common import chosen_vectors, opened, read_file, refused, write, write_json
from .options import Json


@app.command("status")
def status_command(*, as_json: Json) -> int:
    """Say what is stored, where, and whether the cache is up to date."""
    with opened(needs_enabled=False) as store:
        tips = {n.ref: n.tip() for _, n in store.sources}
        path = cache_file.path_of(store.repo.mem_dir)
        had_cache = os.path.exists(path)
        hooks = githooks.survey(store)
        numbers = (
            store.with_cache(lambda cache: listing.counts(store, cache))[0]
            if any(tips.values()) or had_cache
            else None
        )
        tips = {
            n.ref: n.tip() for _, n in store.sources
        }  # the cache may know more of a ref that is gone
        without = _without_better(store) if numbers else None
        waits, about = (
            (len(suggestions.waiting(store)), len(proposals.waiting(store))) if numbers else (0, 0)
        )
        facts = {
            "repository": store.repo.top or store.repo.git_dir,
            "enabled": store.settings.flag("enabled"),
            "memories": numbers["memories"] if numbers else 0,
            "team": numbers["team"] if numbers else 0,
            "private": numbers["private"] if numbers else 0,
            "superseded": numbers["superseded"] if numbers else 0,
            "forgotten": numbers["forgotten"] if numbers else 0,
            "without_vectors": numbers["without_vectors"] if numbers else 0,
            "without_better_vectors": without,
            "refs": {ref: tip for ref, tip in tips.items() if tip},
            "cache": path if os.path.exists(path) else None,
            "suggestions": waits,
            "proposals": about,
            "waiting": setup.waiting(store),
            "hooks": hooks.on,
            "missing_settings": [f"{k} = {v}" for k, v, _ in setup.missing(store)],
        }
        if as_json:
            write_json(facts)
            return 0
        render.pairs(
            [
                ("repository", facts["repository"]),
                (
                    "memories",
                    (
                        f"{facts['memories']} ({facts['team']} team, {facts['private']} private);"
                        f" {facts['superseded']} superseded, {facts['forgotten']} forgotten"
                    ),
                ),
                ("git hooks", ", ".join(hooks.on) or "off; `git mem install git` turns them on"),
                ("refs", ", ".join(f"{r} {t[:8]}" for r, t in tips.items() if t) or "none yet"),
                (
                    "cache",
                    (
                        f"{os.path.getsize(path) / 1e6:.1f} MB, up to date,"
                        f" {facts['without_vectors']} without a vector{_of_model(without)}"
                        if facts["cache"]
                        else "none yet; the first recall builds it"
                    ),
                ),
            ]
        )
        for scope, notes in store.sources:
            if facts[scope] and not tips[notes.ref]:
                write(
                    f"warning: '{notes.ref}' is gone, the cache still has {facts[scope]} of its"
                    " memories; `git mem doctor` says more"
                )
        if not facts["enabled"]:
            write(f"switched off by {store.settings.origins['enabled']}")
        if hooks.problems:
            write(f"{hooks.problems[0][0]}; {hooks.problems[0][1]}")
        counts = [(waits, "suggestion"), (about, "proposal")]
        wait = [f"{n} {what}{'s' * (n > 1)}" for n, what in counts if n]
        if wait:
            write(f"{' and '.join(wait)} wait{'s' * (waits + about == 1)} for you: git mem review")
        for name in setup.waiting(store):
            write(f"fetched but not united yet: {name}")
            write("  git mem sync   unites it with yours")
        if facts["missing_settings"]:
            write("not set up: memories do not follow rewrites yet; run `git mem init`")
        return 0


def _without_better(store: Store) -> int | None:
    """Memories without a vector of the encoder, or of the embedding model that was chosen instead;
    None where both are off. Starts no model: the newest space is its own.
    """
    from ..models import chosen, registry

    choice = chosen.choice(registry.EMBEDDING, store.settings["embedModel"], os.environ)
    if not choice.path:
        if not store.settings.flag("encoder"):
            return None
        return store.with_cache(encoding.missing)[0]
    start = llamavec.prefix(choice.path, choice.name, choice.sha256)
    return store.with_cache(lambda cache: model_vectors.missing_by_prefix(cache, start))[0]


def _of_model(missing: int | None) -> str:
    return "" if missing is None else f", {missing} without one of the encoder or chosen model"


@app.command("index")
def index_command(
    *,
    all: bool = typer.Option(
        False,
        "--all",
        help=(
            "Also make the encoder's vectors that are missing (or those of the model that `git mem"
            " model use NAME --embed` chose); goes on where it was broken off."
        ),
    ),
    rebuild: bool = typer.Option(
        False, "--rebuild", help="Build the cache anew from the whole history of the notes."
    ),
    as_json: Json,
) -> int:
    """Bring the cache up to date (every recall does it too)."""
    with opened() as store:
        start = time.perf_counter()
        if rebuild:
            store.discard()
        with render.progress("indexing", total=None) as advance:
            shown = 0

            def tell(done: int) -> None:
                nonlocal shown
                advance(done - shown)
                shown = done

            numbers, _ = store.with_cache(
                lambda cache: (
                    Filter().count(cache),
                    cache.meta("space"),
                    store.trust.catch_up(cache, None),
                ),
                progress=tell,
                deep=rebuild,
            )
        reanchor.finish(store)
        made = _better_vectors(store) if all else None
        seconds = time.perf_counter() - start
        if as_json:
            write_json(
                {
                    "memories": numbers[0],
                    "lines_read": shown,
                    "space": numbers[1],
                    "seconds": round(seconds, 3),
                    **(made or {}),
                }
            )
        else:
            write(f"{numbers[0]} memories indexed, vectors by {numbers[1]} ({seconds:.2f} s)")
            if made:
                write(
                    f"{made['made']} vectors made in the space {made['better']}, {made['missing']}"
                    " missing"
                )
            elif all:
                write("the encoder is off: `git config mem.encoder true` turns it on")
        return 0


def _better_vectors(store: Store) -> dict[str, Any] | None:
    """Makes what is missing of the encoder's vectors, or of the chosen model's; None where both are
    off.
    """
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
        with render.progress("embedding", total=left or None) as advance:
            made = store.with_cache(
                lambda cache: (
                    model_vectors.fill(cache, vectors, advance),
                    model_vectors.missing(cache, space),
                )
            )[0]
    return {"made": made[0], "missing": made[1], "better": space}


@app.command("stats")
def stats_command(*, as_json: Json) -> int:
    """Count memories by type, author, tag and month, what agents were shown of them, and what of
    that was used.
    """
    with opened() as store:
        numbers = store.with_cache(
            lambda cache: {**listing.counts(store, cache), **audit.counts(cache)}
        )[0]
        if as_json:
            write_json(numbers)
            return 0
        for name, value in numbers.items():
            if name == "feedback":
                render.pairs(usage_stats.lines(value))
            elif isinstance(value, dict):
                if value:
                    render.pairs(
                        [(name, ", ".join(f"{k or 'none'} {n}" for k, n in value.items()))]
                    )
            else:
                render.pairs([(name.replace("_", " "), value)])
        return 0


@app.command("doctor")
def doctor_command(
    *,
    repair: bool = typer.Option(
        False, "--repair", "--fix", help="Mend what needs no decision of yours; then look again."
    ),
    as_json: Json,
) -> int:
    """Look for everything that could be wrong.

    Changes nothing unless asked. Exit code 1 where something is.
    """
    with opened(needs_enabled=False) as store:
        found = doctor.examine(store)
        done = doctor.repair(found) if repair else []
        if done:
            found = doctor.examine(store)
        for line in done if not as_json else []:
            write(f"mended: {line}")
        if as_json:
            write_json(
                [
                    {
                        "level": f.level,
                        "text": f.text,
                        "hint": f.hint,
                        "repairable": f.repair is not None,
                    }
                    for f in found
                ]
            )
        else:
            for f in found:
                write(f"{f.level + ':':<6}{render.safe(f.text)}")
                if f.hint:
                    write(f"      {f.hint}")
        return 1 if any(f.level == doctor.BAD for f in found) else 0


@app.command("config")
def config_command(
    name: str = typer.Argument(None, help="A setting; without it, all are listed."),
    value: str = typer.Argument(None, help="The new value ('' removes it)."),
    *,
    as_json: Json,
) -> int:
    """Show or change settings (the same as `git config mem.NAME`)."""
    with opened(needs_enabled=False) as store:
        if name is None:
            rows = [
                {
                    "name": "mem." + n,
                    "value": store.settings[n],
                    "from": store.settings.origins[n],
                    "meaning": s[3],
                }
                for n, s in settings.SETTINGS.items()
            ]
            if as_json:
                write_json(rows)
            else:
                for row in rows:
                    write(f"{row['name']} = {row['value']}  ({row['from']}; {row['meaning']})")
            return 0
        short = next(
            (n for n in settings.SETTINGS if n.lower() == name.removeprefix("mem.").lower()), ""
        )
        if not short:
            raise UsageError(
                f"no setting '{name}'",
                hint=f"there are {', '.join('mem.' + n for n in settings.SETTINGS)}",
            )
        if value is None:
            (
                write_json({"name": "mem." + short, "value": store.settings[short]})
                if as_json
                else write(store.settings[short])
            )
            return 0
        if value == "":
            store.repo.git.run("config", "--local", "--unset-all", "mem." + short, ok=(0, 5))
        else:
            store.repo.git.run(
                "config",
                "--local",
                "mem." + short,
                settings.check(short, settings.SETTINGS[short][0], value),
            )
        return 0


@app.command("help", hidden=True)
def help_command() -> int:
    """The same as --help."""
    from . import load

    return load()(["--help"], prog_name="git mem", standalone_mode=False) or 0


@app.command("export")
def export_command(
    *,
    output: str = typer.Option(
        "-", "-o", "--output", metavar="FILE", help="Where to write (default: standard output)."
    ),
    format: str = typer.Option("jsonl", "--format", help="jsonl or md."),
    scope: str = typer.Option("team", "--scope", help="team, private, or all."),
) -> int:
    """Write memories as JSON Lines or Markdown; `git mem import` reads both."""
    if format not in ("jsonl", "md"):
        raise UsageError(f"--format is jsonl or md, not '{format}'")
    if scope not in ("team", "private", "all"):
        raise UsageError(f"--scope is team, private or all, not '{scope}'")
    with opened() as store:
        items, _ = listing.list_memories(
            store, Filter(scope="" if scope == "all" else scope), all_branches=True
        )
        several = sum("alternatives" in item for item in items)
        if several:
            have = "memory has" if several == 1 else "memories have"
            store.warn(
                f"warning: {several} {have} alternatives: the newest text of each is written"
            )
        items.reverse()  # oldest first, so that an import keeps the order
        lines = transfer.to_jsonl(items) if format == "jsonl" else transfer.to_markdown(items)
        if output == "-":
            (
                sys.stdout.writelines(render.safe(text, lines=True) for text in lines)
                if render.is_terminal()
                else sys.stdout.writelines(lines)
            )
            return 0
        try:
            with open(output, "w", encoding="utf-8", newline="\n") as f:
                f.writelines(lines)
        except OSError as e:
            raise MemError(f"cannot write '{output}': {e.strerror}") from e
        write(f"{len(items)} memories written to '{output}'")
        return 0


@app.command("import")
def import_command(
    file: str = typer.Argument(
        ...,
        help=(
            "A file that `git mem export` wrote (`-`: standard input); `claude`: what Claude Code"
            " noted on this project; `git-log`: what commit messages say; `adr`: decision records"
            " in the tree."
        ),
    ),
    where: str = typer.Argument(
        "",
        help=(
            "git-log: a range of commits (default: the newest 5000); adr: a directory (default:"
            " docs/adr and the like)."
        ),
    ),
    *,
    private: bool = typer.Option(
        False,
        "--private",
        help="Keep them in private notes (`claude` and `git-log`: always, unless --team).",
    ),
    team: bool = typer.Option(False, "--team", help="Store them in the shared notes."),
    directory: str = typer.Option(
        "", "--from", metavar="DIR", help="claude: read this directory of topic files."
    ),
    dry_run: bool = typer.Option(
        False, "--dry-run", "-n", help="claude, git-log, adr: say what would be stored."
    ),
    allow_secret: bool = typer.Option(
        False, "--allow-secret", help="Store texts although they look like they hold secrets."
    ),
    as_json: Json,
) -> int:
    """Read memories that `git mem export` wrote, Claude Code's auto memory, commit messages or
    decision records; what is known adds nothing.
    """
    if private and team:
        raise UsageError("--private and --team exclude each other")
    if directory and file != "claude":
        raise UsageError("--from goes with `git mem import claude`")
    if (dry_run and file not in ("claude", "git-log", "adr")) or (
        where and file not in ("git-log", "adr")
    ):
        raise UsageError(
            "--dry-run goes with claude, git-log and adr, a range with git-log, a directory"
            " with adr"
        )
    with opened() as store:
        if file == "claude":  # a file of that name is './claude'
            from .claude import import_claude

            return import_claude(
                store, directory, "team" if team else "private", allow_secret, dry_run, as_json
            )
        if file in ("git-log", "adr"):
            from .imports import import_adr, import_log

            if file == "git-log":
                return import_log(store, where, "team" if team else "private", dry_run, as_json)
            return import_adr(
                store,
                where,
                "private" if private else "team" if team else "",
                allow_secret,
                dry_run,
                as_json,
            )
        results, broken, moved = transfer.import_text(
            store, read_file(file), "private" if private else "team" if team else "", allow_secret
        )
        for line in broken:
            refused(line)
        counts = {
            status: sum(r.status == status for r in results)
            for status in ("stored", "duplicate", "refused")
        }
        for i, r in enumerate(results, 1):
            if r.status == "refused":
                refused(f"memory {i}: {r.reason}")
        if as_json:
            write_json({**counts, "broken": len(broken), "moved_to_head": moved})
        else:
            write(
                f"{counts['stored']} stored, {counts['duplicate']} known,"
                f" {counts['refused'] + len(broken)} refused"
            )
            if moved:
                write(f"{moved} name a commit that is not here; they were attached to HEAD")
        store.with_cache(lambda cache: cache.count())
        return 1 if broken or counts["refused"] else 0
