"""What the encoder's vectors cost a prompt: whole cold hook processes, and the vectors alone.

    python perf/vectors.py                          # hooks at 1,000, 10,000 and 100,000 memories
    python perf/vectors.py --alone 1000000          # reading and comparing alone

F, the hook without the encoder and the hook with it run in turn, a prompt each. Memories and
prompts are real texts (`data.py`), the memories' vectors are generated: making 100,000 takes an
hour, and their direction changes no cost.
Peak memory is that of the larger of a hook's two processes.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

import data
import notes_scale
import numpy as np
from bench import Bench

from gitmem.embedding.encoder_file import EncoderFile
from gitmem.engine import cache, hubness, model_vectors
from gitmem.store import open_store

# Each of a hook's processes notes its own peak: getrusage counts what a process was before exec.
PROBE = """
import os, sys
from gitmem.__main__ import main
leave = os._exit
def end(status):
    peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    with open(os.environ["PEAKS"], "a") as file:
        file.write(peak.split()[1] + "\\n")
    leave(status)
os._exit = end
main()
"""
ASK = """
import sys, time
from gitmem.engine import cache
found = cache.open_cache(sys.argv[1])
question = bytes.fromhex(sys.argv[2])
from gitmem.engine import nearness
start = time.perf_counter()
nearness.Vectors(found, *cache.ENCODED, None, ()).nearest(question, {})
taken = time.perf_counter() - start
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(taken, peak.split()[1])
"""
GIT_MEM = os.path.join(os.path.dirname(sys.executable), "git-mem")
OFF = {"GIT_MEM_ENCODER": "false"}
DIRECT = 100_000  # memories; of more the lines are written without `remember`, which looks at each
PATIENT = {"GIT_MEM_PATIENCE": "100"}  # a busy machine must not cut short what is measured


class Generated:
    """An embedder whose vectors stand around a few hundred middles, as those of texts do."""

    def __init__(self, seed: int = 1) -> None:
        file = EncoderFile()
        self.space, self.dims = file.space, file.dims
        self.rng = np.random.default_rng(seed)
        self.middles = self.rng.standard_normal((300, self.dims), np.float32)

    def embed(self, texts: list[str]) -> list[bytes]:
        near = self.middles[self.rng.integers(0, len(self.middles), len(texts))]
        made = near + 0.8 * self.rng.standard_normal(near.shape, np.float32)
        made *= 127 / np.abs(made).max(axis=1, keepdims=True)
        return [vector.tobytes() for vector in np.floor(made + 0.5).astype(np.int8)]


def store_of(bench: Bench, size: int) -> pathlib.Path:
    path = bench.repo(f"store-{size}", 1000 if size <= DIRECT else 0)
    git_mem = [sys.executable, "-m", "gitmem"]
    bench.env.update(OFF)  # no worker that makes vectors beside
    if size <= DIRECT:
        about = bench.commits(path)
        lines = "".join(json.dumps(m) + "\n" for m in data.memories(size, commits=about))
        bench.once([*git_mem, "remember", "--jsonl", "-"], path, lines)
    else:
        store = open_store(bench.env, str(path))
        notes_scale.write(store, path, size, random.Random(1))
        store.close()
    bench.once([*git_mem, "index"], path)
    del bench.env["GIT_MEM_ENCODER"]
    subprocess.run(["git", "config", "mem.promptContext", "true"], cwd=path, check=True)
    generate(path, bench.env)
    return path


def generate(path: pathlib.Path, env: dict[str, str]) -> None:
    """Gives every memory of a repository a generated vector."""
    store = open_store(env, str(path))
    store.with_cache(lambda found: model_vectors.fill(found, Generated()))
    store.with_cache(lambda found: hubness.refresh(found, cache.ENCODED[0]))
    store.close()


def hook(
    bench: Bench,
    path: pathlib.Path,
    prompt: str,
    session: str,
    extra: dict[str, str],
    code: tuple[str, ...] = (GIT_MEM,),
) -> float:
    """Seconds of one cold hook."""
    payload = json.dumps(
        {
            "session_id": session,
            "cwd": str(path),
            "prompt": prompt,
            "hook_event_name": "UserPromptSubmit",
        }
    )
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-P", *code, "hook", "UserPromptSubmit"],
        cwd=path,
        env={**bench.env, **PATIENT, **extra},
        input=payload,
        text=True,
        stdout=subprocess.PIPE,
        check=True,
    )
    return time.perf_counter() - start


def hooks(bench: Bench, size: int, prompts: list[str], path: pathlib.Path) -> str:
    floor, off, on = [], [], []
    peaks = bench.root / "peaks"
    for n, prompt in enumerate(prompts):
        floor.append(bench.once([sys.executable, "-c", "import sqlite3"], path))
        off.append(hook(bench, path, prompt, f"off{n}", OFF))
        # The next one begins to load the encoder at once, since this one asks it.
        hook(bench, path, prompt, f"peak{n}", {"PEAKS": str(peaks)}, ("-c", PROBE))
        on.append(hook(bench, path, prompt, f"on{n}", {}))
    peak = max(map(int, peaks.read_text().split())) / 1024
    peaks.unlink()
    f = statistics.median(floor)
    low, high = (statistics.quantiles(times, n=20, method="inclusive") for times in (off, on))
    return (
        f"| {size:,} | {low[9] / f:.1f} F | {low[18] / f:.1f} F | {high[9] / f:.1f} F |"
        f" {high[18] / f:.1f} F | {peak:.0f} MiB | {f * 1e3:.0f} ms |"
    )


def alone(size: int, root: pathlib.Path) -> tuple[str, float]:
    """(row of the table, median in ms) of a cache with vectors alone, a process for each question;
    its start is not counted.
    """
    model, place = Generated(), str(root / f"alone-{size}")
    made = cache.open_cache(place)
    assert made
    with made.writing(5) as held:
        assert held
        for first in range(0, size, model_vectors.CHUNK):
            vectors = model.embed([""] * min(model_vectors.CHUNK, size - first))
            model_vectors.put(made.db, model.space, dict(enumerate(vectors, first)))
        made.set_meta("count", str(size))
    made.close()
    floor, taken, peaks = [], [], []
    for question in model.embed([""] * 21):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import sqlite3"], check=True)
        floor.append(time.perf_counter() - start)
        argv = [sys.executable, "-P", "-c", ASK, place, question.hex()]
        said = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split()
        taken.append(float(said[0]))
        peaks.append(int(said[1]) / 1024)
    f = statistics.median(floor)
    middle, high = statistics.median(taken), statistics.quantiles(taken, n=10)[-1]
    row = (
        f"| {size:,} | {middle * 1e3:.0f} ms = {middle / f:.1f} F | {high / f:.1f} F |"
        f" {max(peaks):.0f} MiB | {f * 1e3:.0f} ms |"
    )
    return row, middle * 1e3


def plot(points: list[tuple[int, float]]) -> str:
    """An SVG of (memories, ms), both axes logarithmic: a decade is 110 pixels wide, 73 high."""

    def x(size: float) -> float:
        return 60 + 110 * (math.log10(size) - 3)

    def y(ms: float) -> float:
        return 260 - 73 * math.log10(ms)

    marks = [
        f'<text x="{x(size):.0f}" y="280" text-anchor="middle">{size:,}</text>'
        for size in (1_000, 10_000, 100_000, 1_000_000)
    ] + [
        f'<path d="M60 {y(ms):.0f}H400" stroke="#ccc"/><text x="54" y="{y(ms) + 4:.0f}"'
        f' text-anchor="end">{ms} ms</text>'
        for ms in (1, 10, 100, 1000)
    ]
    line = " ".join(f"{x(size):.1f},{y(ms):.1f}" for size, ms in points)
    dots = [f'<circle cx="{x(size):.1f}" cy="{y(ms):.1f}" r="3"/>' for size, ms in points]
    return "\n".join(
        [
            '<svg xmlns="http://www.w3.org/2000/svg" width="440" height="300" font-size="12"'
            ' font-family="sans-serif"><rect width="440" height="300" fill="#fff"/>',
            '<text x="60" y="20">reading and comparing the encoder\'s vectors, by memories</text>',
            *marks,
            f'<polyline points="{line}" fill="none" stroke="#06c" stroke-width="2"/>',
            *dots,
            "</svg>\n",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", nargs="*", type=int, default=[1_000, 10_000, 100_000])
    parser.add_argument("--alone", nargs="*", type=int, default=[])
    parser.add_argument("--prompts", type=int, default=60)
    parser.add_argument("--plot", type=pathlib.Path, help="an SVG of what --alone measures")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        root = pathlib.Path(directory)
        bench = Bench({}, root)
        if not given.alone:
            print(
                "| memories | off: median | 95th percentile | median | 95th percentile"
                " | peak memory | F |\n|---|---|---|---|---|---|---|"
            )
            prompts = data.questions(given.prompts)
            for size in given.sizes:
                print(hooks(bench, size, prompts, store_of(bench, size)), flush=True)
        points = []
        for size in given.alone:
            row, middle = alone(size, root)
            points.append((size, middle))
            print(row, flush=True)
        if given.plot:
            given.plot.write_text(plot(points), encoding="utf-8")


if __name__ == "__main__":
    main()
