"""How long the page of `git mem ui` takes to load in Chromium, beside F.

    python perf/page.py                # 10,000 memories
    python perf/page.py 1000 100000

The page is a file with the generated memories of tests/test_ui_browser.py. Times are the browser's
own, from the begin of the navigation: until the list stands and keys are taken, and until the frame
with it is drawn. The browser is running already; F (a cold `python3 -c "import sqlite3"`) is taken
before each load. Nothing here is a test: a busy machine must not turn a test red.
"""

from __future__ import annotations

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))

import browser
import test_ui_browser

LOADS = 9
READY = "performance.getEntriesByType('navigation')[0].domContentLoadedEventStart"
DRAWN = "window.drawn"
WATCH = """addEventListener("DOMContentLoaded", () =>
    requestAnimationFrame(() => setTimeout(() => { window.drawn = performance.now(); })));"""


def floor() -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import sqlite3"], check=True)
    return 1e3 * (time.perf_counter() - start)


def row(what: str, times: list[float], f: float) -> None:
    middle = statistics.median(times)
    print(
        f"  {what}: {middle:.0f} ms = {middle / f:.0f} F"
        f" (least {min(times):.0f}, most {max(times):.0f})"
    )


def measure(size: int, root: pathlib.Path) -> None:
    file = root / f"{size}.html"
    url = test_ui_browser.written(file, [test_ui_browser.memory(n) for n in range(size)])
    floors, ready, drawn = [], [], []
    with browser.tab(root / f"home-{size}") as tab:
        tab.size(1280, 800)
        tab.call("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
        for _ in range(LOADS):
            floors.append(floor())
            tab.call("Page.navigate", url="about:blank")  # else the page before would say ready
            tab.open(url)
            tab.wait(DRAWN)
            ready.append(tab.run(READY))
            drawn.append(tab.run(DRAWN))
    f = statistics.median(floors)
    print(
        f"{size:,} memories, {file.stat().st_size / 1e6:.1f} MB, {LOADS} loads,"
        f" F = {f:.0f} ms, load {os.getloadavg()[0]:.1f}"
    )
    row("ready", ready, f)
    row("drawn", drawn, f)


def main() -> None:
    if not browser.CHROMIUM:
        raise SystemExit("no chromium here")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as root:
        for size in map(int, sys.argv[1:] or ["10000"]):
            measure(size, pathlib.Path(root))


if __name__ == "__main__":
    main()
