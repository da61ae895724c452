"""A headless Chromium for tests, asked over its debugging pipe (the standard library is enough)."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_OPTIONS = (
    "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run"
    " --disable-extensions --disable-background-networking --remote-debugging-pipe"
)


class Tab:
    """One page. `errors`: what it wrote to the console as an error, or threw."""

    def __init__(self, inlet: int, outlet: int) -> None:
        self._inlet, self._outlet, self._rest, self._last = inlet, outlet, b"", 0
        self.errors: list[str] = []
        self._session = ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._inlet, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message(60)
            if answer.get("id") == self._last:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self._event(answer)

    def _message(self, seconds: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            assert select.select([self._outlet], [], [], seconds)[0], "the browser says nothing"
            data = os.read(self._outlet, 1 << 20)
            assert data, "the browser ended"
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def _event(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        if event["method"] == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(params["exceptionDetails"])[:500])
        elif event["method"] == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])
        elif event["method"] == "Runtime.consoleAPICalled" and params["type"] == "error":
            self.errors.append(str(params["args"])[:500])

    def size(self, width: int, height: int, dark: bool = False) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, url: str) -> None:
        """Loads a page and waits until it says that it is ready."""
        self.call("Page.navigate", url=url)
        self.wait("document.documentElement?.dataset.ready === 'yes'")

    def run(self, expression: str) -> Any:
        given = {"expression": expression, "returnByValue": True, "awaitPromise": True}
        answer = self.call("Runtime.evaluate", **given)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, expression: str) -> None:
        until = time.monotonic() + 60
        while not self.run(f"Boolean({expression})"):
            assert time.monotonic() < until, expression
            time.sleep(0.02)

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def press(self, key: str) -> None:
        code, text = {"Enter": (13, "\r"), "Escape": (27, "")}.get(key) or (ord(key), key)
        more = {"text": text} if text else {}
        for kind in ("keyDown", "keyUp"):
            given = {"type": kind, "key": key, "windowsVirtualKeyCode": code}
            self.call("Input.dispatchKeyEvent", **given, **(more if kind == "keyDown" else {}))

    def picture(self, path: pathlib.Path) -> None:
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))


@contextmanager
def tab(home: pathlib.Path) -> Iterator[Tab]:
    """A page of a browser of its own; skips the test where there is no Chromium."""
    if not CHROMIUM:
        pytest.skip("no chromium here")
    to_child, inlet = os.pipe()
    outlet, from_child = os.pipe()

    def ends() -> None:
        os.dup2(to_child, 3)  # Chromium reads this descriptor and writes the next
        os.dup2(from_child, 4)
        os.set_inheritable(3, True)  # it may have been this one already

    argv = [CHROMIUM, *_OPTIONS.split(), f"--user-data-dir={home}"]
    silent = subprocess.DEVNULL
    browser = subprocess.Popen(argv, preexec_fn=ends, close_fds=False, stdout=silent, stderr=silent)
    os.close(to_child)
    os.close(from_child)
    try:
        yield Tab(inlet, outlet)
    finally:
        browser.kill()
        browser.wait(20)
        os.close(inlet)
        os.close(outlet)
