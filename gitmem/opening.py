"""The store as commands and programs get it: opened, and closed with what was left to be done.

Every command waits for this import: what few need is loaded where they need it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

from .core.errors import MemError
from .hooks import spool
from .store import Store, open_store


@contextmanager
def opened(
    environ: Mapping[str, str],
    cwd: str | None,
    warn: Callable[[str], None],
    *,
    needs_enabled: bool = True,
) -> Iterator[Store]:
    """The store of the repository around `cwd`, closed at the end; a worker is asked for what was
    left to be done. Raises NotARepository; MemError where git mem is switched off.
    """
    store = open_store(environ, cwd, warn=warn, strict=needs_enabled)
    try:
        if needs_enabled and not store.settings.flag("enabled"):
            raise MemError(
                "git mem is switched off here",
                hint=f"by {store.settings.origins['enabled']}; `git mem status` still works",
            )
        if needs_enabled:
            spool.rescue(store.repo.common_dir)
        yield store
        if remark := store.unread():
            warn(f"warning: {remark}")
        if store.wrote and store.settings.encodes:
            spool.ask(store.repo.common_dir)  # the worker makes the encoder's vectors
    finally:
        store.close()


@contextmanager
def chosen_vectors(store: Store) -> Iterator[Any]:
    """The embedding model that the user chose, asked when it is needed; None where none is chosen
    or it cannot be used (then a line says why).
    """
    setting = store.settings["embedModel"]
    if not setting:
        yield None
        return
    from .models import chosen, llamavec, registry

    choice = chosen.choice(registry.EMBEDDING, setting, os.environ)
    if choice.problem:
        store.reduced = choice.problem
        store.warn(f"warning: {choice.problem}; using the packaged table")
    usable = choice.path and not choice.problem
    with llamavec.of(choice) if usable else nullcontext() as vectors:
        yield vectors
