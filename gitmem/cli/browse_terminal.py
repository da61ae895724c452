"""The screen of `git mem browse`: a list that a search narrows as it is typed, one memory whole.

What it draws is what `list` and `show` print, colours too, so the text of a memory is as harmless
here: of what steers a terminal only the colours that `render` wrote are left, and they are taken
out again.
"""

import curses
import os
import re
import signal
import sys
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from typing import Any

from .. import render
from ..core.errors import MemError
from ..core.plural import many
from ..core.progress import Unseen
from ..engine.filters import Filter
from ..memory import listing, recall
from ..render.terminal import cells, cut
from ..store import Store
from .pager import Held

_PAUSE = 80  # milliseconds without a key after which a search begins
_HITS = 50
_FAR = 10**9
_COLOUR = re.compile("\x1b\\[(\\d*)m")
_NAMES: dict[str | int, str] = {
    curses.KEY_UP: "up", curses.KEY_DOWN: "down", curses.KEY_PPAGE: "page up",
    curses.KEY_NPAGE: "page down", curses.KEY_HOME: "home", curses.KEY_END: "end",
    curses.KEY_ENTER: "enter", curses.KEY_BACKSPACE: "erase", curses.KEY_RESIZE: "resize",
    "\n": "enter", "\r": "enter", "\x7f": "erase", "\b": "erase", "\x15": "clear",
    "\x1b": "escape", "\x0e": "down", "\x10": "up",
}  # fmt: skip
_LETTERS = {"j": "down", "k": "up", " ": "page down", "b": "page up", "g": "home", "G": "end"}
_HELP = {
    "list": "/ search   j k move   Enter show   q quit",
    "search": "type to search   ↑ ↓ move   Enter show   Esc to what was found",
    "found": "/ search   j k move   Enter show   Esc all   q quit",
    "text": "j k Space b scroll   q back",
}


def show(store: Store, wanted: Filter, at: str) -> None:
    """Returns when the user ends it. Raises MemError where the terminal cannot place text."""
    with suppress(curses.error):  # an unknown TERM
        curses.setupterm()
        if curses.tigetstr("cup"):
            every = listing.list_memories(store, wanted, all_branches=True, at=at).items
            store.progress = Unseen
            curses.set_escdelay(25)
            for name in ("COLUMNS", "LINES"):  # curses would follow no change of size
                os.environ.pop(name, None)
            signal.signal(signal.SIGQUIT, signal.default_int_handler)  # Ctrl-\, as Ctrl-C
            with suppress(KeyboardInterrupt):
                curses.wrapper(lambda window: Browser(window, store, wanted, at, every).run())
            return
    raise MemError("this terminal cannot place text on its screen", hint="see TERM")


class Browser:
    """`query` narrows `every` memory to `items`; `opened` is the one shown whole, if any."""

    def __init__(
        self, window: Any, store: Store, wanted: Filter, at: str, every: list[dict[str, Any]]
    ) -> None:
        self.window, self.store, self.wanted, self.at = window, store, wanted, at
        self.every = self.items = every
        self.query, self.typing, self.stale = "", False, False
        self.chosen = self.top = self.scroll = 0
        self.opened: tuple[dict[str, Any], list[dict[str, Any]]] | None = None
        self.lines: list[str] = []
        self.remark = self._count()
        self.styles = {"": curses.A_NORMAL, "1": curses.A_BOLD, "2": curses.A_DIM}
        with suppress(curses.error):  # of a terminal without colours
            curses.use_default_colors()
            for colour in range(1, 7):
                curses.init_pair(colour, colour, -1)
                self.styles[str(30 + colour)] = curses.color_pair(colour)

    def run(self) -> None:
        while True:
            self.draw()
            self.window.timeout(_PAUSE if self.stale else -1)
            try:
                key = self.window.get_wch()
            except curses.error:  # no key in time, a signal, or the terminal is gone
                if not sys.stdin.isatty():
                    return
                if self.stale:
                    self.search()
                continue
            if not self.press(key):
                return

    @property
    def room(self) -> int:
        return max(int(self.window.getmaxyx()[0]) - 2, 1)

    # --- keys ------------------------------------------------------------------

    def press(self, key: str | int) -> bool:
        """Does what a key says; False to end."""
        name = _NAMES.get(key, "")
        if not self.typing:
            name = name or _LETTERS.get(str(key), str(key))
        page = max(self.room - 1, 1)
        steps = {"up": -1, "down": 1, "page up": -page, "page down": page}
        steps |= {"home": -_FAR, "end": _FAR}
        if name in steps:
            if self.stale:
                self.search()
            self._move(steps[name])
        elif self.typing:
            self._type(name, key)
        elif name == "enter":
            self._open()
        elif name == "/":
            self.opened, self.typing = None, True
        elif name in ("q", "escape"):
            if not self.opened and name == "q":
                return False
            if not self.opened:
                self._ask("")
            self.opened = None
        return True

    def _type(self, name: str, key: str | int) -> None:
        if name == "enter":
            self.typing = False
            if self.stale:
                self.search()
            self._open()
        elif name == "escape":
            self.typing = False
        elif name == "erase":
            self._ask(self.query[:-1])
        elif name == "clear":
            self._ask("")
        elif isinstance(key, str) and key.isprintable():
            self._ask(self.query + key)

    def _ask(self, query: str) -> None:
        self.stale = self.stale or query != self.query
        self.query = query

    def _move(self, step: int) -> None:
        if self.opened:
            self.scroll = max(min(self.scroll + step, len(self.lines) - self.room), 0)
        else:
            self.chosen = max(min(self.chosen + step, len(self.items) - 1), 0)

    def _open(self) -> None:
        if self.opened or not self.items:
            return
        try:
            self.opened = listing.show_any(self.store, self.items[self.chosen]["id"])
            self.scroll = 0
        except MemError as e:  # forgotten since the list was made
            self.remark = e.message

    def search(self) -> None:
        """The hits of recall, then what has the letters typed: the last word may be half."""
        self.stale, self.chosen, self.top = False, 0, 0
        words = self.query.lower().split()
        if not words:
            self.items, self.remark = self.every, self._count()
            return
        answer = recall.recall(self.store, self.query, self.wanted, limit=_HITS, at=self.at)
        hits = answer["hits"] if answer["verdict"] != "MISS" else []
        ids = {hit["id"] for hit in hits}
        also = [
            item
            for item in self.every
            if item["id"] not in ids
            and all(word in f"{item['title']} {item['body']}".lower() for word in words)
        ]
        self.items = hits + also
        self.remark = render.verdict({**answer, "hits": hits})
        if also:
            self.remark += f"; {len(also)} with these letters"

    def _count(self) -> str:
        return many(len(self.every), "memory")

    # --- the screen ------------------------------------------------------------

    def draw(self) -> None:
        self.window.erase()
        if self.opened:
            self.lines = (
                _printed(render.memory, *self.opened)
                if self.opened[1]
                else _printed(render.whole_commit, self.opened[0])
            )
            self._move(0)  # the terminal may have grown
            for row, line in enumerate(self.lines[self.scroll : self.scroll + self.room]):
                self._put(row, line)
            more = len(self.lines) - self.scroll - self.room
            below = f"{many(more, 'more line')} below   " if more > 0 else ""
            self._put(self.room + 1, f"{below}{_HELP['text']}", curses.A_DIM)
        else:
            self._list()
        with suppress(curses.error):
            curses.curs_set(int(self.typing))
            if self.typing:
                self.window.move(0, min(cells(self._field()), self.window.getmaxyx()[1] - 1))
        self.window.refresh()

    def _list(self) -> None:
        self.top = min(self.top, self.chosen)
        self.top = max(self.top, self.chosen - self.room + 1)
        asked = self.typing or self.query
        head = f"{self._field()}   " if asked else "\x1b[1mgit mem\x1b[m  "
        self._put(0, f"{head}\x1b[2m{self.remark}\x1b[m")
        shown = self.items[self.top : self.top + self.room]
        for row, item in enumerate(shown):
            chosen = self.top + row == self.chosen
            (line,) = _printed(render.listing, [item])
            self._put(row + 1, line, curses.A_REVERSE if chosen else 0)
        if asked and not self.items:
            self._put(1, "nothing has these words, or their meaning")
        keys = "search" if self.typing else "found" if self.query else "list"
        self._put(self.room + 1, _HELP[keys], curses.A_DIM)

    def _field(self) -> str:
        return f"/ {render.safe(self.query)}"

    def _put(self, row: int, line: str, style: int = 0) -> None:
        """A line with the colours of `render`, cut to the screen, and in a style of the whole."""
        height, width = self.window.getmaxyx()
        left, colour = width, 0
        if row >= height:
            return
        parts = _COLOUR.split(line)
        if style == curses.A_REVERSE:  # to the end of the line
            parts[-1] += " " * (width - cells("".join(parts[::2])))
        with suppress(curses.error):  # behind the last cell of the screen no cursor can stand
            self.window.move(row, 0)
            for nth, part in enumerate(parts):
                if nth % 2:
                    colour = self.styles.get(part, 0)
                    continue
                text = cut(part, left) if part.strip() else part[:left]
                left -= cells(text)
                encoding = self.window.encoding
                text = text.encode(encoding, "replace").decode(encoding)
                self.window.addstr(text, colour | style)


def _printed(function: Callable[..., None], *args: Any) -> list[str]:
    """The lines that a function of `render` prints to this terminal."""
    held = Held()
    with redirect_stdout(held):
        function(*args)
    return held.getvalue().removesuffix("\n").split("\n")
