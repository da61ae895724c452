"""The worker's part of capture: events, conversations that ended and new commits go to the keeper.

Promise: where `mem.capture` says no, nothing is read and what waits is dropped; each of the three
bears a repeat; a text that cannot be kept takes no other along; the language model is started at
the first text that needs it and ends with the run, which gives it `SECONDS` in all, loading and
failures among them; without one everything goes on."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

from ..git import memfile
from ..hooks import announce
from ..models import chosen, llamaproc, registry, usable
from ..store import Store
from . import (
    calibrate,
    capture_exclusions,
    classify,
    commitlog,
    pipeline,
    sources,
    transcript,
)
from .pipeline import Outcome

ALL, COMMITS = "all", "commits"
_SESSIONS = 20  # conversations that one run reads, the last ones
SECONDS = 240.0  # that one run of the worker may spend with a language model
_ALONE = 30.0  # seconds for texts that failed together and are tried one by one
_running: list[Model] = []  # the model of the run at hand


@contextmanager
def run(store: Store) -> Iterator[None]:
    """One language model for all that is kept within: its time and its failures count together."""
    with Model(store, os.environ, time.monotonic() + SECONDS) as model:
        _running.append(model)
        _tell_hooks(store, model.ask is not None)
        try:
            yield
        finally:
            _running.pop()


def from_events(store: Store, events: list[dict[str, Any]]) -> list[Outcome]:
    """What was said and done in sessions."""
    return _keep(store, sources.candidates(events)) if store.settings["capture"] == ALL else []


def from_sessions(store: Store, events: list[dict[str, Any]]) -> list[Outcome]:
    """What a client wrote down of sessions that ended: what no hook told of is in there.

    Not of one that a purged memory came from.
    """
    if store.settings["capture"] != ALL:
        return []
    ended = {}
    for event in events:
        path, *about = (
            v if isinstance(v := event.get(k), str) else ""
            for k in ("transcript", "session", "agent", "head", "branch")
        )
        if path.endswith(".jsonl") and os.path.isabs(path):
            ended[path] = about
    shut = capture_exclusions.Closed(store.repo.common_dir)
    ended = {
        path: about
        for path, about in ended.items()
        if not shut.has(capture_exclusions.origin(sources.source_of(about[0], "", "")))
    }
    return [
        outcome
        for path, about in list(ended.items())[-_SESSIONS:]
        for outcome in _keep(store, transcript.candidates(path, *about), again=True)
    ]


def from_hooks(store: Store, events: list[dict[str, Any]]) -> list[Outcome]:
    """Commits that git's hooks named: HEAD may have left them since, for another branch."""
    named = list(dict.fromkeys(id for e in events if isinstance(id := e.get("head"), str) and id))[
        -commitlog.AT_ONCE :
    ]
    if store.settings["capture"] not in (ALL, COMMITS):
        return []
    there = _there(store, named)
    return (
        _keep(
            store,
            _said(store, commitlog.read(store.repo.git, there, [], commitlog.AT_ONCE, walk=False)),
        )
        if there
        else []
    )


def from_commits(store: Store) -> list[Outcome]:
    """Commits of any worktree that nobody has looked at: after `git commit`, a pull or a rebase,
    whoever woke the worker. Only HEAD itself where nobody ever looked.
    """
    if store.settings["capture"] not in (ALL, COMMITS):
        return []
    heads = store.repo.heads()
    seen = commitlog.seen(store.repo.mem_dir)
    if not heads or set(heads) <= set(seen):
        return []
    known = _there(store, seen)
    found = commitlog.read(
        store.repo.git, heads if known else heads[:1], known, commitlog.AT_ONCE if known else 1
    )
    outcomes = _keep(store, _said(store, found))
    commitlog.keep_seen(store.repo.mem_dir, heads)
    return outcomes


def _said(store: Store, found: list[commitlog.Commit]) -> list[sources.Candidate]:
    """What commits say, less those that were given up."""
    given_up = set(commitlog.given_up(store.repo.mem_dir))
    return commitlog.candidates([c for c in found if c.id not in given_up])


def _there(store: Store, commits: list[str]) -> list[str]:
    return [
        id
        for id, found in zip(
            commits,
            store.repo.git.ids([f"{id}^{{commit}}" for id in commits]) if commits else [],
            strict=True,
        )
        if found
    ]


def _tell_hooks(store: Store, ready: bool) -> None:
    """Whether there is a language model: without one no hook leaves what a tool did to a file."""
    path = os.path.join(store.repo.mem_dir, sources.READY)
    if ready and store.settings["capture"] == ALL:
        os.close(memfile.opened(path, os.O_WRONLY | os.O_CREAT))
    elif os.path.lexists(path):
        os.unlink(path)


def _keep(store: Store, candidates: list[sources.Candidate], again: bool = False) -> list[Outcome]:
    if not candidates:
        return []
    with run(store) if not _running else nullcontext():
        model = _running[-1]
        # A conversation that is read at its end was judged turn by turn before: a model is not
        # asked for all of it again.
        outcomes, wrong, failed = _each(store, candidates, None if again else model.ask)
    announce.add(
        store.repo.mem_dir,
        [o.id for o in outcomes if o.status == pipeline.KEPT],
        [o.id for o in outcomes if o.status == pipeline.SUGGESTED],
    )
    if wrong:
        commitlog.note_failed(
            store.repo.mem_dir, {c.commit for c in failed if c.role == sources.COMMIT}
        )
        raise wrong
    return outcomes


def _each(
    store: Store, candidates: list[sources.Candidate], ask: classify.Ask | None
) -> tuple[list[Outcome], Exception | None, list[sources.Candidate]]:
    """What became of the candidates, why nothing did of some, and of which that is known; one by
    one where they fail together.
    """
    model = calibrate.model(store)
    try:
        return (
            pipeline.keep(store, candidates, ask=ask, model=model),
            None,
            [],
        )  # no titles: a small model words none better than the first line
    except Exception as e:
        if len(candidates) == 1:
            return [], e, candidates
    outcomes: list[Outcome] = []
    wrong: Exception | None = None
    failed = []
    end = time.monotonic() + _ALONE
    for candidate in candidates:
        if wrong and time.monotonic() > end:
            break
        try:
            outcomes += pipeline.keep(store, [candidate], ask=ask, model=model)
        except Exception as e:
            wrong = e
            failed.append(candidate)
    return outcomes, wrong, failed


class Model:
    """The language model in use, if there is one; `ask` is None without.

    Its process starts at the first question. `until`: monotonic time after which nothing is asked
    any more.
    """

    def __init__(
        self, store: Store, environ: Mapping[str, str], until: float = float("inf")
    ) -> None:
        self.ask: classify.Ask | None = None
        self._asker: llamaproc.Asker | None = None
        self._answered = False
        self._mem_dir = store.repo.mem_dir
        found, problem, _ = usable.state(registry.LANGUAGE, store.settings["model"], environ, "")
        self._choice, self._problem = found, problem
        if found.path and not problem:
            self._asker = llamaproc.Asker(found.path, chosen.cache_directory(environ), until=until)
            self.ask = self._opinion

    def _opinion(self, role: str, text: str) -> classify.Opinion | None:
        found = self._asker.opinion(role, text) if self._asker else None
        self._answered = self._answered or found is not None
        return classify.Opinion(*found) if found else None

    @property
    def problem(self) -> str:
        """Why the model that is wanted judged nothing so far, "" where no question failed."""
        why = self._asker.reason if self._asker and not self._answered else ""
        return usable.failure(self._choice.name, why) if why else self._problem

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        if self._asker:
            self._asker.close()
            if self._answered or self._asker.reason:
                why = "" if self._answered else self._asker.reason
                usable.note(self._mem_dir, self._choice.path, why)
