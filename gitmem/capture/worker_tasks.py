"""The worker's part of capture: events, conversations that ended and new commits go to `pipeline`.

Promise: where `mem.capture` says no, nothing is read and what waits is dropped; each of the three
bears a repeat; a text that cannot be kept takes no other along; the language model starts at the
first text that needs it and has `SECONDS` in one run; without one everything goes on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

from ..git import commit_reader, memfile
from ..hooks import announce
from ..models import chosen, llamaproc, registry
from ..store import Store
from . import calibrate, capture_exclusions, classify, commitlog, pipeline, sources, transcript
from .candidates import Candidate, strings
from .candidates import from_events as texts_of
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
    return _keep(store, texts_of(events)) if store.settings["capture"] == ALL else []


def from_sessions(store: Store, events: list[dict[str, Any]]) -> list[Outcome]:
    """What clients wrote down of sessions that ended, but of those of a purged memory."""
    if store.settings["capture"] != ALL:
        return []
    ended = {}
    for event in events:
        names = ("transcript", "top", "session", "agent", "head", "branch")
        path, top, *about = strings(event, *names)
        if path.endswith(".jsonl") and os.path.isabs(path):
            ended[path] = top, about
    excluded = capture_exclusions.Closed(store.repo.common_dir)
    outcomes: list[Outcome] = []
    trees = store.repo.trees() if ended else []
    for path, (top, about) in [*ended.items()][-_SESSIONS:]:
        if not excluded.has(capture_exclusions.origin(sources.source_of(about[0], "", ""))):
            size = os.path.getsize(path) if os.path.isfile(path) else 0
            # Each turn was judged when it was said: a model is not asked again.
            # git does not name a submodule's tree
            tops = [*trees, os.path.realpath(top)] if top else trees
            outcomes += _keep(store, transcript.candidates(path, about, trees=tops), again=True)
            transcript.note_read(store.repo.mem_dir, {path: size})
    return outcomes


def from_hooks(store: Store, events: list[dict[str, Any]]) -> list[Outcome]:
    """Commits that git's hooks named: HEAD may have left them since, for another branch."""
    if store.settings["capture"] not in (ALL, COMMITS):
        return []
    heads = dict.fromkeys(e["head"] for e in events if isinstance(e.get("head"), str) and e["head"])
    there = _existing(store, [*heads][-commitlog.AT_ONCE :])
    if not there:
        return []
    return _keep_said(store, commit_reader.read(store.repo.git, there, [], len(there), walk=False))


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
    known = _existing(store, seen)
    new, most = (heads, commitlog.AT_ONCE) if known else (heads[:1], 1)
    outcomes = _keep_said(store, commit_reader.read(store.repo.git, new, known, most))
    commitlog.keep_seen(store.repo.mem_dir, heads)
    return outcomes


def _keep_said(store: Store, commits: list[commit_reader.Commit]) -> list[Outcome]:
    """What commits say, less those that were given up."""
    given_up = commitlog.given_up(store.repo.mem_dir)
    return _keep(store, commitlog.candidates([c for c in commits if c.id not in given_up]))


def _existing(store: Store, commits: list[str]) -> list[str]:
    names = [f"{id}^{{commit}}" for id in commits]
    ids = store.repo.git.ids(names)
    return [commit for commit, id in zip(commits, ids, strict=True) if id]


def _tell_hooks(store: Store, ready: bool) -> None:
    """Whether there is a language model: without one no hook leaves what a tool did to a file."""
    path = os.path.join(store.repo.mem_dir, sources.READY)
    if ready and store.settings["capture"] == ALL:
        os.close(memfile.opened(path, os.O_WRONLY | os.O_CREAT))
    elif os.path.lexists(path):
        os.unlink(path)


def _keep(store: Store, texts: list[Candidate], again: bool = False) -> list[Outcome]:
    if not texts:
        return []
    with run(store) if not _running else nullcontext():
        outcomes, wrong, failed = each(store, texts, ask=None if again else _running[-1].ask)
    stored, suggested = (
        [o.id for o in outcomes if o.status == status]
        for status in (pipeline.KEPT, pipeline.SUGGESTED)
    )
    announce.add(store.repo.mem_dir, stored, suggested)
    if wrong:
        failing = {c.commit for c in failed if c.role == sources.COMMIT}
        commitlog.note_failed(store.repo.mem_dir, failing)
        raise wrong
    return outcomes


def each(
    store: Store, texts: list[Candidate], **how: Any
) -> tuple[list[Outcome], Exception | None, list[Candidate]]:
    """(outcomes, why some failed, which did); one by one where the texts fail together. `how`: what
    `pipeline.keep` takes.
    """
    model = calibrate.model(store)
    outcomes: list[Outcome] = []
    wrong: Exception | None = None
    failed: list[Candidate] = []
    end = float("inf")
    batches = [texts]
    for batch in batches:
        if wrong and time.monotonic() > end:
            break
        try:
            outcomes += pipeline.keep(store, batch, model=model, **how)
        except Exception as e:
            if len(batch) > 1:
                end = time.monotonic() + _ALONE
                batches += [[text] for text in batch]
            else:
                wrong = e
                failed += batch
    return outcomes, wrong, failed


class Model:
    """The language model in use, if there is one; its process starts at the first question.

    `until`: monotonic time after which nothing is asked any more.
    """

    def __init__(
        self, store: Store, environ: Mapping[str, str], until: float = float("inf")
    ) -> None:
        self._mem_dir = store.repo.mem_dir
        self._choice = chosen.choice(registry.LANGUAGE, store.settings["model"], environ)
        self._asker: llamaproc.Asker | None = None
        if self._choice.path and not self._choice.problem:
            cache = chosen.cache_directory(environ)
            self._asker = llamaproc.Asker(self._choice.path, cache, until=until)

    @property
    def ask(self) -> classify.Ask | None:
        return self._asker.opinion if self._asker else None

    @property
    def problem(self) -> str:
        """Why the model that is wanted judged nothing so far, "" where no question failed."""
        if self._asker and self._asker.reason and not self._asker.answered:
            return chosen.failure(self._choice.name, self._asker.reason)
        return self._choice.problem

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        asker = self._asker
        if asker:
            asker.kill()
            if asker.answered:
                chosen.note_failure(self._mem_dir, self._choice.path, "")
            elif asker.reason:
                chosen.note_failure(self._mem_dir, self._choice.path, asker.reason)
