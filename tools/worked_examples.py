"""Runs git mem in a temporary repository: the steps of `git mem tour` for the README
(`pictures`), and the worked example of docs/format.md. Fixed dates, a fixed identity, and
what is random is masked in a stable way, so two runs of one version give the same bytes.
`generate_docs` puts them into the documents.
"""

from __future__ import annotations

import functools
import hashlib
import json
import pathlib
import re
import subprocess
import tempfile

from gitmem.cli import tour

DAY, TIME = "2026-01-02", "T03:04:05Z"


class Lab:
    """A temporary home with repositories of fixed dates; `sh` runs a line as a user would type
    it."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        dates = {f"GIT_{who}_DATE": DAY + TIME for who in ("AUTHOR", "COMMITTER")}
        self.env = {**tour.environment(str(root)), **dates, "NO_COLOR": "1", "COLUMNS": "120"}

    def sh(self, cwd: pathlib.Path, line: str, ok: tuple[int, ...] = (0,)) -> str:
        done = subprocess.run(
            ["sh", "-c", line],
            cwd=cwd,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        if done.returncode not in ok:
            raise SystemExit(f"error: '{line}' ended with {done.returncode}: {done.stderr}")
        return done.stdout + done.stderr

    def repo(self, name: str, files: dict[str, str], message: str) -> pathlib.Path:
        path = self.root / name
        self.sh(self.root, f"git init -q -b main {name}")
        self.commit(path, files, message)
        return path

    def commit(self, path: pathlib.Path, files: dict[str, str], message: str) -> None:
        for file, content in files.items():
            (path / file).parent.mkdir(parents=True, exist_ok=True)
            (path / file).write_text(content)
        self.sh(path, f"git add -A && git commit -q -m '{message}'")


WIDTH = 80


@functools.cache
def steps() -> tuple[tuple[str, str, str], ...]:
    """(why, the command as typed, what a coloured terminal of 80 columns shows) of the tour; ids,
    times and the home are masked.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as tmp:
        lab = Lab(pathlib.Path(tmp).resolve())
        lab.env |= {"NO_COLOR": "", "TERM": "xterm", "GIT_PAGER_IN_USE": "true"}
        lab.env["COLUMNS"] = str(WIDTH)
        ids: dict[str, str] = {}

        def masked(text: str) -> str:
            text = re.sub(r"\b20\d\d-\d\d-\d\d(T[\d:]+Z)?", lambda m: DAY + TIME * bool(m[1]), text)
            return re.sub(
                r"(?<![0-9a-f])[0-9a-f]{8}(?![0-9a-f])",
                lambda m: ids.setdefault(
                    m[0], hashlib.sha256(b"demo %d" % len(ids)).hexdigest()[:8]
                ),
                text.replace(str(lab.root), "~"),
            )

        taken = tour.take(str(lab.root), lab.env)
        return tuple((why, masked(command), masked(said)) for why, command, said in taken)


EXAMPLE = {
    "title": "PostgreSQL, not MongoDB",
    "body": "Orders and invoices share a transaction.\nMongoDB was tried in March and dropped.",
    "type": "decision",
    "tags": ["database"],
    "paths": ["db/orders.sql"],
    "provenance": "VERIFIED",
    "created_at": "2026-01-02T03:04:05Z",
}
SALT, NONCES, LATER = (
    "a1b2c3d4e5f60718",
    ("0123456789abcdef", "123456789abcdef0", "23456789abcdef01"),
    ("2026-01-03T03:04:05Z", "2026-01-04T03:04:05Z"),
)


def example_lines() -> list[bytes]:
    """A create, an edit and a forget as git mem writes them, with salt, tie-breakers and later
    times masked and the names that follow from them made anew.
    """
    from gitmem.core import record

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as tmp:
        lab = Lab(pathlib.Path(tmp).resolve())
        repo = lab.repo("shop", {"README": "A shop.\n"}, "Begin")
        lab.sh(repo, "git checkout -q -b orders")
        lab.commit(repo, {"db/orders.sql": "CREATE TABLE orders(id INTEGER);\n"}, "Orders table")
        (repo / "in.jsonl").write_text(json.dumps(EXAMPLE) + "\n")
        lab.sh(repo, "git mem remember --jsonl in.jsonl")
        id = json.loads(lab.sh(repo, "git mem list --json --all"))[0]["id"]
        lab.sh(repo, f"git mem edit {id} --tag database --tag orders")
        lab.sh(repo, f"git mem forget {id} --reason 'the shop is closed'")
        written = [
            json.loads(line)
            for line in lab.sh(repo, "git notes --ref=mem/team show HEAD").splitlines()
            if line.strip()
        ]
    written.sort(key=lambda d: ("create", "edit", "forget").index(d["op"]))
    renamed: dict[str, str] = {}
    out: list[bytes] = []
    for place, data in enumerate(written):
        before = record.version_of(record.dump(data))
        if "salt" in data:
            data["salt"] = SALT
            renamed[data["id"]] = record.memory_id(
                data.get("title", ""), data["body"], data.get("source", ""), SALT
            )
        data["n"] = NONCES[place]
        data["id"] = renamed[data["id"]]
        if place:
            data["at"] = LATER[place - 1]
            data["after"] = sorted(renamed[v] for v in data["after"])
        out.append(record.dump(data))
        renamed[before] = record.version_of(out[-1])
    return out


def example() -> str:
    """The worked example: the lines, and the commands that give their names."""
    from gitmem.core import record
    from gitmem.notes import notetree

    lines = example_lines()
    first = json.loads(lines[0])
    key, _ = notetree.continuation(first["commit"], 1, len(first["commit"]))
    title, body, salt = first["title"], first["body"], first["salt"]
    # printf reads the escape of the newline; nothing else in these texts means anything to sh.
    raw = body.replace("\n", "\\n")
    line = lines[0].decode()
    shown = [
        f"{name} ({len(text)} bytes, version"
        f" `{record.version_of(text)}`):\n\n```json\n{text.decode()}\n```"
        for name, text in zip(("The memory", "An edit", "A forget"), lines, strict=True)
    ]
    shown.append(
        "The id of the memory, and the version of its first line:\n\n```console\n$ printf 'git mem"
        f" 1\\n%s\\n%s\\n%s\\n%b' '{title}' '' '{salt}' '{raw}' | sha256sum | cut"
        f" -c1-32\n{first['id']}\n$ printf '%s' '{line}' | sha256sum | cut"
        f" -c1-32\n{record.version_of(lines[0])}\n```"
    )
    shown.append(
        "The key of the first continuation of this commit's note:\n\n```console\n$ printf 'git mem"
        f" continuation\\n%s %d\\n' {first['commit']} 1 | git hash-object --stdin\n{key}\n```"
    )
    return "\n\n".join(shown)
