"""The command that shows memories in a browser."""

import os
import stat
from contextlib import suppress
from typing import Any

from ..core.errors import MemError
from ..core.plural import many
from ..store import Store
from ..ui import page, page_data, page_server
from . import decide
from .common import warn, write_as_file
from .options import Answer, command, flag, one_of, text
from .review import find_item


@command("ui")
def ui_command(
    store: Store,
    as_json: bool,
    output: str = text("-o --output FILE", "Write the page to FILE; serve nothing.", filled=True),
    scope: str = one_of("--scope team|private", "Only memories of these notes."),
    no_browser: bool = flag("--no-browser", "Open no browser; the address is printed."),
) -> Answer | int:
    """Show memories in a browser: search, timeline by commit, details, counts, review.

    This machine serves the page until Ctrl-C, under an address that nobody can guess. With --output
    it is a file for you alone: it holds private memories unless --scope is `team`.
    """
    if output:
        made = page_data.gather(store, scope)
        html = page.joined(made).html
        if output == "-":  # standard output, as everywhere
            write_as_file([html])
            return 0
        _write_private(output, html)
        count = len(made.get("memories", ()))
        said = f"wrote {many(count, 'memory')}: {output}"
        return Answer({"file": output, "memories": count}, [said])
    return _serve(store, scope, no_browser, as_json)


def _write_private(name: str, html: str) -> None:
    try:
        opened = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(opened, "w", encoding="utf-8") as f:
            if stat.S_ISREG(os.fstat(opened).st_mode):  # it may have been there, and be no file
                os.fchmod(opened, 0o600)
            f.write(html)
    except OSError as e:
        raise MemError(f"cannot write '{name}': {e.strerror}") from e


def _serve(store: Store, scope: str, no_browser: bool, as_json: bool) -> int:
    held: dict[tuple[str, ...], page.Page] = {}
    os.chdir(store.home)  # git refuses to run where a change of branches removed the directory

    def current() -> page.Page:
        """The page, made anew where memories or HEAD have moved."""
        tips = [notes.tip() or "" for _, notes in store.sources]
        now = (store.repo.head(), store.repo.branch(), *tips)
        if now not in held:
            made = page.joined(page_data.gather(store, scope, served=True))
            held.clear()
            held[now] = made
        return held[now]

    def decided(id: str, verb: str, keep: str, team: bool) -> dict[str, Any]:
        job = decide.accept if verb == "accept" else decide.reject
        try:
            given = decide.Decision(keep=keep, team=team)
            answer = job(store, find_item(store, id), given)
        except MemError as e:
            return {"status": "refused", "reason": ": ".join(filter(None, (e.message, e.hint)))}
        return {**answer.value, "said": " ".join(map(str, answer.text))}

    with page_server.Server(current, decided) as server:
        Answer({"url": server.url}, [server.url]).print(as_json)
        warn("serving until Ctrl-C; the page is for this machine alone")
        current()
        if not no_browser:
            import threading
            import webbrowser

            # Some browsers hold whoever opens them until they are closed, as $BROWSER may.
            threading.Thread(target=webbrowser.open, args=[server.url], daemon=True).start()
        with suppress(KeyboardInterrupt):
            server.serve()
    return 0
