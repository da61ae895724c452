"""Memories that repeat and contradict each other, for the tests of `git mem consolidate`."""

from __future__ import annotations

import json
import time
from typing import Any

from conftest import Repository

from gitmem.memory import remember

WIPED = "The staging database is wiped every Sunday"
MONDAY = "The staging database is wiped every Monday"
POSTGRES = "Use PostgreSQL, not MongoDB: orders and invoices share a transaction"
AGAIN = "We use PostgreSQL and not MongoDB because orders and invoices share a transaction"
REDIS = "Sessions are kept in Redis"
COOKIES = "Sessions are kept in signed cookies, not in Redis"


class Place(Repository):
    """Hands to store and to look."""

    def add(self, *texts: str, **fields: Any) -> list[str]:
        """Ids of new memories, one after the other in time."""
        store = self.store()
        try:
            results = []
            for n, text in enumerate(texts):
                results += remember.remember(
                    store,
                    [
                        {
                            "body": text,
                            "type": "decision",
                            "source": f"test:{time.monotonic_ns()}:{n}",
                            "created_at": f"2026-03-0{n + 1}",
                            **fields,
                        }
                    ],
                )
            assert all(r.status == "stored" for r in results)
            return [r.id for r in results]
        finally:
            store.close()

    def look(self, *argv: str, rc: tuple[int, ...] = (0,)) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.lab.json(self.repo, "consolidate", *argv, rc=rc)["found"]
        return found

    def review(self, *argv: str, rc: tuple[int, ...] = (0,)) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.lab.json(self.repo, "review", *argv, rc=rc)
        return found

    def bodies(self) -> set[str]:
        return {m["body"] for m in self.lab.json(self.repo, "list", "--all")}

    def show(self, id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.lab.json(self.repo, "show", id)
        return found

    def lines(self, scope: str = "private") -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lab.lines(self.repo, f"mem/{scope}")]
