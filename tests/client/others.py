"""The real command lines of Codex, Gemini and Copilot against a scripted model on loopback.

`tools/fetch_clients.sh` fetches them. Each has a HOME of its own; what goes elsewhere than to
loopback meets a proxy that is not there.
"""

from __future__ import annotations

import abc
import json
import os
import pathlib
import shutil
import subprocess
from typing import Any

from client.harness import CACHE, Client, Model


def _events(events: list[dict[str, Any]]) -> bytes:
    named = [f"event: {e['type']}\n" if "type" in e else "" for e in events]
    return "".join(
        f"{name}data: {json.dumps(e)}\n\n" for name, e in zip(named, events, strict=True)
    ).encode()


class Responses(Model):
    """OpenAI's Responses API. A tool of a server has a `namespace`."""

    paths = ("/responses",)

    def answer(self, body: dict[str, Any]) -> tuple[str, bytes]:
        number, reply = self.chosen(body)
        item: dict[str, Any] = {"type": "message", "id": f"msg_{number}", "role": "assistant"}
        if "tool" in reply:
            item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}"}
            item |= {"name": reply["tool"], "arguments": json.dumps(reply["input"])}
            item |= {"namespace": reply["namespace"]} if "namespace" in reply else {}
        else:
            item["content"] = [{"type": "output_text", "text": reply["text"]}]
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        response = {"id": f"resp_{number}", "usage": usage}
        return "text/event-stream", _events(
            [
                {"type": "response.created", "response": {"id": response["id"]}},
                {"type": "response.output_item.done", "output_index": 0, "item": item},
                {"type": "response.completed", "response": response},
            ]
        )


class Generate(Model):
    """Google's API of Gemini."""

    paths = (":streamGenerateContent", ":generateContent")

    def answer(self, body: dict[str, Any]) -> tuple[str, bytes]:
        _, reply = self.chosen(body)
        part = (
            {"functionCall": {"name": reply["tool"], "args": reply["input"]}}
            if "tool" in reply
            else {"text": reply["text"]}
        )
        content = {"role": "model", "parts": [part]}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        candidate = {"content": content, "finishReason": "STOP", "index": 0}
        return "text/event-stream", _events([{"candidates": [candidate], "usageMetadata": usage}])


class Other(abc.ABC):
    """One client with a HOME of its own. `missing`: why it cannot be run here, "" where it can."""

    name: str
    directory: pathlib.Path
    program: pathlib.Path
    missing = ""
    model: Model

    def __init__(self, root: pathlib.Path) -> None:
        self.home = root / "home"
        self.home.mkdir(parents=True)
        self.path = os.pathsep.join([str(Client.shim(root)), os.environ["PATH"]])
        self.env = {
            "PATH": self.path,
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "TZ": "UTC",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_MEM_PATIENCE": "20",
            "HTTP_PROXY": "http://127.0.0.1:9",
            "HTTPS_PROXY": "http://127.0.0.1:9",
            "NO_PROXY": "127.0.0.1,localhost",
        }

    @abc.abstractmethod
    def argv(self, prompt: str, trusted: bool) -> list[str]:
        """The command line of one session."""

    @abc.abstractmethod
    def settings(self) -> None:
        """Writes what its user has chosen before git mem is installed."""

    @abc.abstractmethod
    def recall(self, question: str) -> dict[str, Any]:
        """The reply that calls our tool."""

    def prompt(
        self,
        cwd: pathlib.Path,
        text: str,
        replies: list[dict[str, Any]] | None = None,
        trusted: bool = True,
    ) -> str:
        """One session; what it printed."""
        self.model.replies = list(replies or [])
        done = subprocess.run(
            self.argv(text, trusted),
            cwd=cwd,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout + done.stderr

    def seen(self, number: int = -1) -> str:
        return json.dumps(self.model.requests[number], ensure_ascii=False)


class Codex(Other):
    name = "codex"
    directory = CACHE / "codex-0.171.0"
    program = directory / "vendor" / "x86_64-unknown-linux-musl" / "bin" / "codex"

    def __init__(self, root: pathlib.Path) -> None:
        super().__init__(root)
        self.model = Responses()
        self.env["SCRIPTED_KEY"] = "x"

    def settings(self) -> None:
        (self.home / ".codex").mkdir()
        # Without the time for servers to start, their tools come with a later request.
        (self.home / ".codex" / "config.toml").write_text(
            'model = "gpt-5"\nmodel_provider = "scripted"\nmcp_optional_startup_grace_ms = 60000\n'
            f'[model_providers.scripted]\nname = "scripted"\nbase_url = "{self.model.url}/v1"\n'
            'wire_api = "responses"\nenv_key = "SCRIPTED_KEY"\n'
        )

    def argv(self, prompt: str, trusted: bool) -> list[str]:
        trust = ["--dangerously-bypass-hook-trust"] if trusted else []
        free = "--dangerously-bypass-approvals-and-sandbox"
        return [str(self.program), "exec", *trust, free, prompt]

    def recall(self, question: str) -> dict[str, Any]:
        return {"tool": "recall", "namespace": "mcp__git_mem", "input": {"query": question}}


class Gemini(Other):
    name = "gemini"
    directory = CACHE / "gemini-0.61.0"
    program = directory / "bundle" / "gemini.js"

    def __init__(self, root: pathlib.Path) -> None:
        super().__init__(root)
        self.model = Generate()
        self.env |= {"GEMINI_API_KEY": "x", "GOOGLE_GEMINI_BASE_URL": self.model.url}

    def settings(self) -> None:
        (self.home / ".gemini").mkdir()
        chosen = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
        (self.home / ".gemini" / "settings.json").write_text(json.dumps(chosen))

    def argv(self, prompt: str, trusted: bool) -> list[str]:
        trust = ["--skip-trust"] if trusted else []
        node = shutil.which("node") or "node"
        return [node, str(self.program), *trust, "--yolo", "-m", "gemini-2.5-flash", "-p", prompt]

    def recall(self, question: str) -> dict[str, Any]:
        # The client offers its model this beside every tool of ours, and sends it on.
        given = {"query": question, "wait_for_previous": False}
        return {"tool": "mcp_git-mem_recall", "input": given}


class Copilot(Other):
    name = "copilot"
    directory = CACHE / "copilot-1.0.102"
    program = directory / "copilot"

    def __init__(self, root: pathlib.Path) -> None:
        super().__init__(root)
        self.model = Model()
        self.env |= {
            "COPILOT_AUTO_UPDATE": "false",
            "COPILOT_OFFLINE": "true",
            "COPILOT_CACHE_HOME": str(self.directory / "unpacked"),  # 236 MB, once
            "COPILOT_PROVIDER_TYPE": "anthropic",
            "COPILOT_PROVIDER_BASE_URL": self.model.url,
            "COPILOT_PROVIDER_API_KEY": "x",
            "COPILOT_MODEL": "claude-sonnet-4",
        }

    def settings(self) -> None:
        pass

    def argv(self, prompt: str, trusted: bool) -> list[str]:
        trust = ["--trust-folder"] if trusted else []
        return [str(self.program), "-p", prompt, "--allow-all-tools", *trust]

    def recall(self, question: str) -> dict[str, Any]:
        return {"tool": "git-mem-recall", "input": {"query": question}}
