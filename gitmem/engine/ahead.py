"""Documents of many records, prepared by a second process while this one does other work."""

from __future__ import annotations

import marshal
import os

from .document import prepare

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from typing import IO, Any

    from .document import Prepared
    from .embed import StaticTable

_PAYS = 1000  # documents from which a second process is worth its start
_MOST = 10_000  # that wait for it: bounds memory


class Ahead:
    """A context, which ends the second process; without `begin` there is none. Where it cannot be
    started or fails, everything is prepared here.

    A record goes from `_waiting` (handed over by `add`) to `_begun` (sent to the second process,
    but for the first `_here`, which this one prepares) to `_done`, until `documents` fetches it. Of
    an import of 3,000 the first 1,000 are sent at once; the next 2,000 are added while the second
    process works on these, and wait. `collect` receives the 1,000, sends half of the others and
    prepares the other half meanwhile.
    """

    def __init__(self, table: StaticTable) -> None:
        self._table = table
        self._process: subprocess.Popen[bytes] | None = None
        self._failed = False  # then there is no second one
        self._begun: list[tuple[str, dict[str, object]]] = []
        self._here = 0  # of those begun this process prepares the first so many
        self._waiting: list[tuple[str, dict[str, object]]] = []  # begun when the others are done
        self._done: dict[str, Prepared] = {}

    def add(self, records: list[tuple[str, dict[str, object]]]) -> None:
        """Hands over (version, data) of records for which nobody waits yet: the second process gets
        them when it is free.
        """
        if not self.pays(_PAYS):
            return  # there will be no second one
        self._waiting += records
        count = len(self._waiting)
        if self.pays(count) and (count >= _MOST or not self._busy()):
            self.begin(self._taken())

    def begin(self, records: list[tuple[str, dict[str, object]]], share: float = 1.0) -> None:
        """Starts on (version, data) of records. The second process does the last `share` of them,
        this one the rest when it collects.
        """
        self.collect()
        if not self._process and self.pays(len(records)):
            self._start()
        records = [one for one in records if one[0] not in self._done]
        if records and self._process and self._process.stdin:
            self._begun, self._here = records, len(records) - int(len(records) * share)
            try:
                _send(self._process.stdin, [data for _, data in self._begun[self._here :]])
            except (OSError, ValueError):  # it has ended
                self._fail()

    def _start(self) -> None:
        import subprocess
        import sys

        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        argv = [sys.executable, "-EP", "-c", _CODE, root, self._table.path]
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        try:
            self._process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=null)
        except (OSError, TypeError):  # no process or no file is left; embedded, without executable
            self._failed = True

    def collect(self) -> None:
        """Waits for what was begun or added. Of what still waits both processes do half."""
        self._receive()
        if self._waiting:
            self.begin(self._taken(), 0.5)
            self._receive()

    def _taken(self) -> list[tuple[str, dict[str, object]]]:
        waiting, self._waiting = self._waiting, []
        return waiting

    def _busy(self) -> bool:
        """Whether the second process has not answered yet."""
        if not self._begun or not self._process or not self._process.stdout:
            return False
        import select

        poll = select.poll()
        poll.register(self._process.stdout, select.POLLIN)
        return not poll.poll(0)

    def _receive(self) -> None:
        begun, self._begun = self._begun, []
        if begun and self._process and self._process.stdout:
            made = prepare(self._table, [data for _, data in begun[: self._here]])
            try:
                made += _received(self._process.stdout)
            except Exception:  # it has ended, or something else printed to its output
                self._fail()
            self._done.update(zip([version for version, _ in begun], made, strict=False))

    def documents(self, records: list[tuple[str, dict[str, object]]]) -> list[Prepared]:
        """Those of (version, data) of records: what was collected, once, the others made now."""
        done = [self._done.pop(version, None) for version, _ in records]
        left = [data for (_, data), one in zip(records, done, strict=True) if one is None]
        made = iter(prepare(self._table, left))
        return [one or next(made) for one in done]

    def pays(self, count: int) -> bool:
        """Whether so many records are worth beginning."""
        two = count >= _PAYS and (os.cpu_count() or 1) > 1
        return self._process is not None or (two and not self._failed)

    def _fail(self) -> None:
        self._failed = True
        self.close()

    def close(self) -> None:
        """Gives up what was begun and not collected."""
        if self._process:
            self._process.kill()
            self._process.communicate()
        self._process, self._begun, self._waiting = None, [], []

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


# This git mem and no other, then the standard library before whatever lies beside the package.
_CODE = (
    "import sys; sys.path.insert(0, sys.argv[1]); import gitmem; sys.path.append(sys.path.pop(0));"
    " from gitmem.engine.ahead import serve; serve()"
)


def serve() -> None:
    """The second process: prepares one list after the other until its input ends."""
    import gc
    import sys

    from .embed import StaticTable

    gc.disable()  # as in `__main__`
    table = StaticTable(sys.argv[2])
    try:
        while True:
            _send(sys.stdout.buffer, prepare(table, _received(sys.stdin.buffer)))
    except (OSError, EOFError):
        pass


def _send(pipe: IO[bytes], items: list[Any]) -> None:
    data = marshal.dumps(items)
    pipe.write(len(data).to_bytes(8, "little") + data)
    pipe.flush()


def _received(pipe: IO[bytes]) -> list[Any]:
    """What the other side has sent. Raises EOFError where it has ended."""
    found: list[Any] = marshal.loads(pipe.read(int.from_bytes(pipe.read(8), "little")))
    return found
