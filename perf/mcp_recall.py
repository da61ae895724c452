"""How long `recall` through `git mem mcp` takes: the whole call, as a client waits for it.

    python perf/mcp_recall.py                     # 10,000 memories, 60 different real questions

F is a cold `python3 -c "import sqlite3"`, taken in turn. Every memory has a generated vector, near
no question (`vectors.py`); the encoder reads each question.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import data
import vectors
from bench import Bench


class Client:
    """Speaks the Model Context Protocol with a server of its own."""

    def __init__(self, path: pathlib.Path, env: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "gitmem", "mcp"],
            cwd=path,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._count = 0
        about = {"name": "perf", "version": "1"}
        self.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=about)
        self._send({"method": "notifications/initialized"})

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._process.stdin.flush()

    def ask(self, method: str, **params: Any) -> Any:
        self._count += 1
        self._send({"id": self._count, "method": method, "params": params})
        assert self._process.stdout
        while True:
            answer = json.loads(self._process.stdout.readline())
            if answer.get("id") == self._count:
                return answer["result"]

    def close(self) -> None:
        self._process.communicate()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--questions", type=int, default=60)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        bench = Bench({}, pathlib.Path(name))
        path = vectors.store_of(bench, given.memories)
        client = Client(path, bench.env)
        first, *questions = data.questions(given.questions + 1)
        client.ask("tools/call", name="recall", arguments={"query": first})
        taken, floors = [], []
        for question in questions:
            begun = time.perf_counter()
            subprocess.run([sys.executable, "-c", "import sqlite3"], check=True)
            floors.append(time.perf_counter() - begun)
            begun = time.perf_counter()
            client.ask("tools/call", name="recall", arguments={"query": question})
            taken.append(time.perf_counter() - begun)
        client.close()
    floor, middle = statistics.median(floors), statistics.median(taken)
    high = statistics.quantiles(taken, n=10)[-1]
    print(
        f"recall, {given.memories:,} memories: median {middle * 1e3:.0f} ms = {middle / floor:.1f}"
        f" F, 90th percentile {high * 1e3:.0f} ms = {high / floor:.1f} F, F ="
        f" {floor * 1e3:.0f} ms, load {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    main()
