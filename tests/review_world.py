"""Suggestions, and hands to propose and to decide, for the tests of `git mem review`."""

from __future__ import annotations

import json
from typing import Any

from conftest import Repository

from gitmem.capture import suggestions


class Place(Repository):
    """Hands to propose and to look."""

    def propose(self, *texts: str, **fields: Any) -> list[Any]:
        store = self.store()
        try:
            drafts = [
                {
                    "body": text,
                    "type": "decision",
                    "confidence": 0.8,
                    "score": 0.8,
                    "stage": "linear",
                    "role": "user",
                    "session": "s1",
                    **fields,
                }
                for text in texts
            ]
            return suggestions.propose(store, drafts)
        finally:
            store.close()

    def one(self, text: str, **fields: Any) -> str:
        (result,) = self.propose(text, **fields)
        assert result.status == "stored", result.reason
        return str(result.id)

    def review(self, *argv: str, rc: tuple[int, ...] = (0,)) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.lab.json(self.repo, "review", *argv, rc=rc)
        return found

    def memories(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.lab.json(self.repo, "list", "--all")
        return found

    def private(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lab.lines(self.repo, "mem/private")]
