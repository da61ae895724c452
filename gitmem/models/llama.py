"""The one home of llama.cpp: asks a GGUF model about a turn, and makes vectors with one.

Runs in a process of its own (`llamaproc` starts it and kills it): native code may
crash, hang or eat memory, and importing it takes 100 ms. `serve` is that
process: one JSON object a line in, one out.

Promises. An answer is never parsed from free text: the type is read from the
probabilities of the labels (exactly those that a grammar of the labels would
leave), a title is generated under `promptform.grammar`. What the user wrote is
tokenised without special tokens, so no text can end its own turn. The state of
the prompt's common beginning is kept on disk, so that an event costs little more
than its own tokens; the file holds nothing but our prompt, has its checksum in its
name, and is made anew for another model, prompt or llama.cpp. A template that
came with a model runs in Jinja's sandbox.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import math
import os
import re
import signal
import sys
import zlib
from collections.abc import Sequence
from typing import Any

from . import promptform

CONTEXT = 3072
_TITLE_TOKENS = 48
_MARK = "\x02turn\x02"
EMBED_TOKENS = 512
QUERY = (
    "Instruct: Given a question about a software project, find the notes that answer it\nQuery: "
)


class Language:
    """A language model, ready to be asked.

    `states`: directory for the prompt's state, "" for none.
    """

    def __init__(self, path: str, states: str = "", threads: int = 2) -> None:
        import llama_cpp

        self.lib = llama_cpp
        self.llm = llama_cpp.Llama(
            model_path=path,
            n_ctx=CONTEXT,
            n_batch=512,
            n_threads=threads,
            n_threads_batch=threads,
            verbose=False,
        )
        before, after, special = self._prompt()
        self.prefix = self.llm.tokenize(before.encode(), add_bos=special, special=True)
        self.suffix = self.llm.tokenize(
            (after + promptform.BEFORE).encode(), add_bos=False, special=True
        )
        self.labels = {
            label: tuple(self.llm.tokenize(label.encode(), add_bos=False, special=False))
            for label in promptform.LABELS
        }
        self.between = self.llm.tokenize(promptform.BETWEEN.encode(), add_bos=False, special=False)
        self.room = int(self.llm.n_ctx()) - len(self.prefix) - len(self.suffix) - _TITLE_TOKENS - 16
        if self.room < 64:
            raise ValueError(f"the prompt takes {len(self.prefix)} tokens of this model, too many")
        self.state = self._state_file(path, states) if states else ""
        self.from_disk = bool(self.state) and self._load()
        if not self.from_disk:
            self.llm.reset()
            self.llm.eval(self.prefix)
            if self.state:
                self._save()

    # The prompt

    def _prompt(self) -> tuple[str, str, bool]:
        """(what comes before a turn, what comes after it, whether the tokenizer must add the
        beginning of text).
        """
        template = self.llm.metadata.get("tokenizer.chat_template", "")
        conversation = [*promptform.messages(), {"role": "user", "content": _MARK}]
        if template:
            from llama_cpp.llama_chat_format import Jinja2ChatFormatter

            names = [
                self.llm._model.token_get_text(t) if t != -1 else ""
                for t in (self.llm.token_eos(), self.llm.token_bos())
            ]
            for tools in ([promptform.TOOL], None):  # a template may refuse tools, or any of this
                try:
                    whole = Jinja2ChatFormatter(template, names[0], names[1])(
                        messages=conversation, tools=tools, enable_thinking=False
                    ).prompt
                except Exception:
                    continue
                before, mark, after = whole.partition(_MARK)
                if mark and _MARK not in after:
                    return before, after, False
        return promptform.plain() + "\n\nuser: ", "\n\nassistant: ", True

    def _tokens(self, role: str, text: str) -> list[int]:
        text = text.encode("utf-8", "replace").decode().replace("\0", " ")
        tokens = self.llm.tokenize(
            promptform.turn(role, text).encode(), add_bos=False, special=False
        )
        if len(tokens) > self.room:  # scripts with a token a character
            head = self.room * 2 // 3
            tokens = tokens[:head] + tokens[len(tokens) - (self.room - head) :]
        return list(tokens)

    # Its state

    def _state_file(self, path: str, states: str) -> str:
        found = os.stat(path)
        with open(path, "rb") as f:
            head = f.read(1 << 16)
        told = (
            promptform.VERSION,
            self.lib.__version__,
            os.path.abspath(path),
            found.st_size,
            found.st_mtime_ns,
            CONTEXT,
            self.prefix,
        )
        return os.path.join(states, hashlib.sha256(repr(told).encode() + head).hexdigest()[:24])

    def _load(self) -> bool:
        directory, stem = os.path.split(self.state)
        try:
            names = [n for n in os.listdir(directory) if n.startswith(stem) and n.endswith(".kv")]
        except OSError:
            return False
        for name in names:
            file = os.path.join(directory, name)
            if name.split(".")[1:2] == [_sum(file)]:
                tokens = (ctypes.c_int32 * len(self.prefix))()
                count = ctypes.c_size_t()
                done = self.lib.llama_state_seq_load_file(
                    self.llm._ctx.ctx,
                    file.encode(),
                    0,
                    tokens,
                    len(self.prefix),
                    ctypes.byref(count),
                )
                if done and list(tokens[: count.value]) == list(self.prefix):
                    self.llm.n_tokens = len(self.prefix)
                    self.llm.input_ids[: len(self.prefix)] = self.prefix
                    return True
            _unlink(file)
        return False

    def _save(self) -> None:
        directory, stem = os.path.split(self.state)
        new = f"{self.state}.new{os.getpid()}"
        try:
            os.makedirs(directory, mode=0o700, exist_ok=True)
            for name in _stale(directory, stem):
                _unlink(os.path.join(directory, name))
            tokens = (ctypes.c_int32 * len(self.prefix))(*self.prefix)
            if self.lib.llama_state_seq_save_file(
                self.llm._ctx.ctx, new.encode(), 0, tokens, len(self.prefix)
            ):
                os.replace(new, f"{self.state}.{_sum(new)}.kv")
        except OSError:
            pass
        _unlink(new)

    # Answers

    def probabilities(self, role: str, text: str) -> dict[str, float]:
        """{label: probability}, sums to 1: what the model would choose if it may only choose among
        them.
        """
        self._read(self._tokens(role, text))
        out: dict[str, float] = {}
        self._descend(dict(self.labels), 0, 1.0, out)
        return out

    def leaning(self) -> dict[str, float]:
        """The mean answer to turns that say nothing; read once a model and kept beside the prompt's
        state.
        """
        try:
            with open(self.state + ".neutral", encoding="utf-8") as f:
                found = json.load(f)
            if set(found) == set(self.labels) and all(
                isinstance(v, float) and 0 <= v <= 1 for v in found.values()
            ):
                return {label: found[label] for label in self.labels}
        except (OSError, ValueError, TypeError):
            pass
        told = [
            self.probabilities(role, text)
            for role in ("user", "assistant")
            for text in promptform.NEUTRAL
        ]
        mean = {label: sum(t[label] for t in told) / len(told) for label in self.labels}
        if self.state:
            try:
                with open(self.state + ".neutral", "w", encoding="utf-8") as f:
                    json.dump(mean, f)
            except OSError:
                pass
        return mean

    def _read(self, turn: list[int]) -> None:
        self.llm.n_tokens = len(self.prefix)
        self.llm.eval([*turn, *self.suffix])

    def _descend(
        self, labels: dict[str, tuple[int, ...]], depth: int, share: float, out: dict[str, float]
    ) -> None:
        """Shares `share` among the labels by their next tokens; those that begin alike are told
        apart by what follows.
        """
        begin: dict[int, list[str]] = {}
        for label, tokens in labels.items():
            begin.setdefault(tokens[depth], []).append(label)
        logits = self.llm._ctx.get_logits_ith(-1)
        scores = [float(logits[token]) for token in begin]
        scores = [math.exp(x - max(scores)) for x in scores]
        here = self.llm.n_tokens
        for (token, names), part in zip(
            begin.items(), [x / sum(scores) for x in scores], strict=True
        ):
            if len(names) == 1:
                out[names[0]] = share * part
            else:
                self.llm.n_tokens = here
                self.llm.eval([token])
                self._descend({n: labels[n] for n in names}, depth + 1, share * part, out)
                self.llm.n_tokens = here

    def title(self, role: str, text: str, label: str) -> str:
        """A short line about the turn, in the model's words; "" where it finds none."""
        turn = [
            *self.prefix,
            *self._tokens(role, text),
            *self.suffix,
            *self.labels[label],
            *self.between,
        ]
        grammar = self.lib.LlamaGrammar.from_string(promptform.grammar(), verbose=False)
        out: list[int] = []
        for token in self.llm.generate(turn, temp=0.0, grammar=grammar):
            if token == self.llm.token_eos() or len(out) == _TITLE_TOKENS:
                break
            out.append(token)
            if self.llm.detokenize(out).endswith(b'"}}'):
                break
        return " ".join(
            self.llm.detokenize(out).decode("utf-8", "ignore").partition('"')[0].split()
        )


class Vectors:
    """An embedding model: one vector a text, not yet in bytes (`llamavec` does that)."""

    def __init__(self, path: str, threads: int = 2) -> None:
        import llama_cpp

        def opened(pooling: int) -> Any:
            return llama_cpp.Llama(
                model_path=path,
                embedding=True,
                n_ctx=EMBED_TOKENS,
                n_batch=EMBED_TOKENS,
                n_ubatch=EMBED_TOKENS,
                n_threads=threads,
                n_threads_batch=threads,
                pooling_type=pooling,
                verbose=False,
            )

        self.llm = opened(llama_cpp.LLAMA_POOLING_TYPE_UNSPECIFIED)
        if (
            self.llm._ctx.pooling_type() == llama_cpp.LLAMA_POOLING_TYPE_NONE
        ):  # a language model: the mean of its tokens
            self.llm.close()
            self.llm = opened(llama_cpp.LLAMA_POOLING_TYPE_MEAN)
        self.dims = int(self.llm.n_embd())
        self.pooling = int(self.llm._ctx.pooling_type())
        self.instructed = (
            self.pooling == llama_cpp.LLAMA_POOLING_TYPE_LAST
        )  # such models want to be told what a question is

    def embed(self, texts: Sequence[str], query: bool = False) -> list[list[float]]:
        """One vector a text; a text without a token gives zeros."""
        out: list[list[float]] = []
        for text in texts:
            text = text.encode("utf-8", "replace").decode().replace("\0", " ").strip()
            told = (QUERY if query and self.instructed else "") + text
            out.append([float(x) for x in self.llm.embed(told)] if text else [0.0] * self.dims)
        return out


def _sum(path: str) -> str:
    total = 0
    with open(path, "rb") as f:
        while chunk := f.read(1 << 20):
            total = zlib.crc32(chunk, total)
    return f"{total:08x}"


_OURS = re.compile(r"([0-9a-f]{24})\.([0-9a-f]{8}\.kv|neutral|new[0-9]+)")


def _stale(directory: str, stem: str, keep: int = 2) -> list[str]:
    """Our files of other models and prompts, but for the newest few, and what a killed writer left.

    Never a file that is not ours.
    """
    ages: dict[str, float] = {}
    ours = [
        (m.group(1), m.group(2), m.group(0))
        for m in map(_OURS.fullmatch, os.listdir(directory))
        if m
    ]
    for other, end, name in ours:
        if end.endswith(".kv"):
            try:
                ages[other] = os.stat(os.path.join(directory, name)).st_mtime
            except OSError:
                pass
    kept = {stem, *sorted((s for s in ages if s != stem), key=ages.__getitem__)[-keep:]}
    return [
        name
        for other, end, name in ours
        if other not in kept or (end.startswith("new") and end != f"new{os.getpid()}")
    ]


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


# --- the process ------------------------------------------------------------------


def serve(kind: str, path: str, states: str, threads: int, seconds: int, memory: int) -> None:
    """Answers requests from descriptor 0 on descriptor 1 until it is closed.

    Its own bounds, beside those of `llamaproc`, so that it ends also where that one was killed:
    `memory` bytes of address space, `seconds` for one request, and, on Linux, the life of its
    parent."""
    parent = os.getppid()
    out = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)  # llama.cpp may print
    os.dup2(null, 2)
    try:
        os.nice(10)
        with open(
            "/proc/self/oom_score_adj", "w", encoding="ascii"
        ) as f:  # where memory runs out, this goes first
            f.write("1000")
    except OSError:
        pass
    try:
        import resource

        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))  # the worker's is for the worker
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, OSError, ValueError):
        pass
    _die_with(parent)
    model: Language | Vectors | None = None
    with os.fdopen(0, "rb") as requests:
        for line in requests:
            signal.alarm(seconds)
            try:
                request = json.loads(line)
                if model is None:
                    model = (
                        Language(path, states, threads)
                        if kind == "language"
                        else Vectors(path, threads)
                    )
                answer = _answer(model, request)
            except Exception as e:
                answer = {"error": f"{type(e).__name__}: {e}"[:400]}
                if model is None:
                    out.write(json.dumps(answer).encode() + b"\n")
                    out.flush()
                    os._exit(1)
            out.write(json.dumps(answer).encode() + b"\n")
            out.flush()
            signal.alarm(0)
    os._exit(0)  # without the destructors of native code


def _die_with(parent: int) -> None:
    """The kernel ends us when the process that started us ends; elsewhere than on Linux a busy one
    goes on until its alarm.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:
            os._exit(1)


def _answer(model: Language | Vectors, request: dict[str, Any]) -> dict[str, Any]:
    op = request["op"]
    if isinstance(model, Vectors):
        if op == "about":
            return {"dims": model.dims, "pooling": model.pooling}
        return {"vectors": model.embed(request["texts"], bool(request.get("query")))}
    if op == "about":
        return {"prefix": len(model.prefix), "from_disk": model.from_disk}
    if op == "title":
        return {"title": model.title(request["role"], request["text"], request["label"])}
    if op == "leaning":
        return {"labels": model.leaning()}
    return {"labels": model.probabilities(request["role"], request["text"])}


def main() -> None:
    """The door of that process: arguments as `serve` takes them."""
    kind, path, states, threads, seconds, memory = sys.argv[1:7]
    serve(kind, path, states, int(threads), int(seconds), int(memory))
