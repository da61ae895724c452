"""The history whose moves of HEAD `where.py` measures, as a `git fast-import` stream."""

from __future__ import annotations

import random
from collections.abc import Iterator

FILES, OPEN, SQUASHED, RELEASE = 600, 60, 40, 300


_START = 1_500_000_000


def history(commits: int, seed: int = 1) -> Iterator[bytes]:  # noqa: C901
    """A `fast-import` stream; each commit has a mark, and mostly changes one line of one file."""
    rng = random.Random(seed)
    versions = dict.fromkeys(range(FILES), 0)
    names = {file: path_of(file) for file in range(FILES)}  # on the main line
    gone: set[int] = set()
    mark = 0

    def commit(ref: str, parents: list[str], words: str, *changes: bytes) -> bytes:
        nonlocal mark
        mark += 1
        head = (
            f"commit {ref}\nmark :{mark}\ncommitter Ada <ada@example.org> {_START + mark * 600}"
            f" +0000\ndata {len(words)}\n{words}\n"
        )
        head += f"from {parents[0]}\n" if parents else ""
        head += "".join(f"merge {p}\n" for p in parents[1:])
        return head.encode() + b"".join(changes) + b"\n"

    def written(name: str, text: str) -> bytes:
        blob = text.encode()
        return f"M 644 inline {name}\ndata {len(blob)}\n".encode() + blob + b"\n"

    def change(ref: str, parents: list[str], file: int = -1) -> bytes:
        file = rng.randrange(FILES) if file < 0 else file
        versions[file] += 1
        gone.discard(file)
        return commit(
            ref,
            parents,
            f"change {mark} of {names[file]}",
            written(names[file], content(file, versions[file], mark)),
        )

    def moved(ref: str, parents: list[str], deleted: bool) -> bytes:
        """A commit that renames a file with a small change, or deletes it; what comes after it
        begins another one.
        """
        file = rng.choice([f for f in names if f not in gone])
        old = names[file]
        names[file] = f"src/part{rng.randrange(20)}/f{file}-{mark}.txt"
        without = f"D {old}\n".encode()
        if deleted:
            gone.add(file)
            return commit(ref, parents, f"delete {old}", without)
        versions[file] += 1
        return commit(
            ref,
            parents,
            f"rename {old}",
            without,
            written(names[file], content(file, versions[file], mark)),
        )

    main = "refs/heads/main"
    yield commit(
        main, [], "begin", *(written(names[file], content(file, 0, 0)) for file in range(FILES))
    )
    points = (
        sorted(rng.sample(range(max(10, commits - 5_000), commits - 20), OPEN + SQUASHED))
        if commits > 6_000
        else []
    )
    squashed = set(points[1::2][:SQUASHED])
    fork = commits - commits // 5
    tip = ":1"
    while mark < commits:
        before = mark
        if fork and mark >= fork:
            fork = 0
            side = tip
            for _ in range(RELEASE):
                yield change("refs/heads/release", [side])
                side = f":{mark}"
        if mark % 10 == 5:  # a branch of two commits, merged
            own = rng.randrange(FILES)
            yield change("refs/heads/side", [tip], own)
            yield change("refs/heads/side", [f":{mark}"], own)
            side, text = f":{mark}", content(own, versions[own], mark - 1)
            yield change(main, [tip], (own + 1) % FILES)
            yield commit(main, [f":{mark}", side], "merge", written(names[own], text))
        elif mark % 300 == 1 or mark % 500 == 2:
            yield moved(main, [tip], mark % 500 == 2)
        else:
            yield change(main, [tip])
        tip = f":{mark}"
        for at in [p for p in points if before < p <= mark]:
            side = tip
            own = FILES + points.index(at)  # its own file, so that a squash of it is clean
            for n in range(rng.randrange(3, 9)):
                yield commit(
                    f"refs/heads/topic{at}",
                    [side],
                    f"topic {at} {n}",
                    written(path_of(own), content(own, n, n)),
                )
                side = f":{mark}"
                last = content(own, n, n)
            if at in squashed:
                yield commit(main, [tip], f"topic {at} (#1)", written(path_of(own), last))
                tip = f":{mark}"
    yield b"done\n"


def path_of(file: int) -> str:
    return f"src/part{file % 20}/f{file}.txt"


def content(file: int, version: int, mark: int) -> str:
    return "".join(
        f"line {n} of {file}"
        + (f" changed {version} at {mark}" if n == version % 30 else "")
        + "\n"
        for n in range(30)
    )
