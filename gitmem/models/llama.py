"""The one home of llama.cpp: asks a GGUF model about a turn, and makes vectors with one.

Runs in a process of its own (`llamaproc` starts it and kills it): native code may crash, hang or
eat memory, and importing it takes 100 ms. `main` is that process: one JSON object a line in, one
out.

Promises. The type is read from the probabilities of the labels, never from free text. What the user
wrote is tokenised without special tokens, so no text can end its own turn. The state of the
prompt's common beginning is kept on disk, so that an event costs little more than its own tokens;
the file holds nothing but our prompt and has its checksum in its name. A template that came with a
model runs in Jinja's sandbox.
"""

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
from contextlib import suppress
from typing import Any

from . import promptform

CONTEXT = 3072
_SPARE = 64  # tokens of the context that stay free
_MARK = "\x02turn\x02"
EMBED_TOKENS = 512
QUERY = (
    "Instruct: Given a question about a software project, find the notes that answer it\nQuery: "
)
# Vectors of many models lie in a narrow cone: 0.7 is the cosine of texts that have little in common
# (Ethayarajh, EMNLP 2019). What these have in common is taken away (Mu and Viswanath, ICLR 2018),
# else sign codes tell little.
COMMON = (
    "Retry an upload that failed, three times at most",
    "The build needs a newer compiler on Windows",
    "Fix a crash when the configuration file is empty",
    "Why do we keep the cache outside of the repository?",
    "Die Sitzung läuft nach einer Stunde ab",
    "Le port par défaut est réservé sur macOS",
    "Usa una transacción para el pedido y la factura",
    "Тесты запускаются параллельно в двух процессах",
    "请在发布之前更新版本号",
    "ログはローカル時間ではなくUTCで保存する",
)
_OURS = re.compile(r"([0-9a-f]{24})\.([0-9a-f]{8}\.kv|neutral|new[0-9]+)")


class Language:
    """A language model, ready to be asked. `states`: a directory, "" for none."""

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
        self.labels = {label: tuple(self._plain_tokens(label)) for label in promptform.LABELS}
        self.room = int(self.llm.n_ctx()) - len(self.prefix) - len(self.suffix) - _SPARE
        if self.room < 64:
            raise ValueError(f"the prompt takes {len(self.prefix)} tokens of this model, too many")
        self.state = self._state_file(path, states) if states else ""
        self.from_disk = bool(self.state) and self._load()
        if not self.from_disk:
            self.llm.reset()
            self.llm.eval(self.prefix)
            if self.state:
                with suppress(OSError):
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
                with suppress(Exception):
                    formatter = Jinja2ChatFormatter(template, *names)
                    whole = formatter(messages=conversation, tools=tools, enable_thinking=False)
                    before, mark, after = whole.prompt.partition(_MARK)
                    if mark and _MARK not in after:
                        return before, after, False
        return promptform.plain() + "\n\nuser: ", "\n\nassistant: ", True

    def _plain_tokens(self, text: str) -> list[int]:
        return list(self.llm.tokenize(text.encode(), add_bos=False, special=False))

    def _tokens(self, role: str, text: str) -> list[int]:
        tokens = self._plain_tokens(promptform.turn(role, _sound(text)))
        if len(tokens) > self.room:  # scripts with a token a character
            head = self.room * 2 // 3
            tokens = tokens[:head] + tokens[len(tokens) - (self.room - head) :]
        return tokens

    # Its state

    def _state_file(self, path: str, states: str) -> str:
        found = os.stat(path)
        model = (os.path.abspath(path), found.st_size, found.st_mtime_ns)
        told = (promptform.VERSION, self.lib.__version__, model, CONTEXT, self.prefix)
        return os.path.join(states, hashlib.sha256(repr(told).encode()).hexdigest()[:24])

    def _load(self) -> bool:
        """Whether the state was read; a damaged file is removed."""
        count = len(self.prefix)
        for file in _ours(os.path.dirname(self.state)):
            if not (file.startswith(self.state) and file.endswith(".kv")):
                continue
            if file.split(".")[-2] == _checksum(file):
                tokens, read = (ctypes.c_int32 * count)(), ctypes.c_size_t()
                done = self.lib.llama_state_seq_load_file(
                    self.llm._ctx.ctx, file.encode(), 0, tokens, count, ctypes.byref(read)
                )
                if done and list(tokens[: read.value]) == list(self.prefix):
                    self.llm.n_tokens = count
                    self.llm.input_ids[:count] = self.prefix
                    return True
            _unlink(file)
        return False

    def _save(self) -> None:
        directory = os.path.dirname(self.state)
        os.makedirs(directory, mode=0o700, exist_ok=True)
        self._remove_others(directory)
        new = f"{self.state}.new{os.getpid()}"
        tokens = (ctypes.c_int32 * len(self.prefix))(*self.prefix)
        try:
            if self.lib.llama_state_seq_save_file(
                self.llm._ctx.ctx, new.encode(), 0, tokens, len(self.prefix)
            ):
                os.replace(new, f"{self.state}.{_checksum(new)}.kv")
        finally:
            _unlink(new)

    def _remove_others(self, directory: str) -> None:
        """Removes our files of other models and prompts, and what a killed writer left."""
        for file in _ours(directory):
            if not file.startswith(self.state) or ".new" in os.path.basename(file):
                _unlink(file)

    # Answers

    def probabilities(self, role: str, text: str) -> dict[str, float]:
        """{label: probability}, sums to 1, if the model may only choose among the labels."""
        self._read(self._tokens(role, text))
        out: dict[str, float] = {}
        self._descend(dict(self.labels), 0, 1.0, out)
        return out

    def leaning(self) -> dict[str, float]:
        """The mean answer to turns that say nothing, kept beside the prompt's state."""
        try:
            with open(self.state + ".neutral", encoding="utf-8") as f:
                found = {str(label): float(share) for label, share in json.load(f).items()}
            if set(found) == set(self.labels) and all(0 <= share <= 1 for share in found.values()):
                return found
        except (OSError, ValueError, TypeError, AttributeError):
            pass
        roles = ("user", "assistant")
        told = [self.probabilities(r, text) for r in roles for text in promptform.NEUTRAL]
        mean = {label: sum(t[label] for t in told) / len(told) for label in self.labels}
        if self.state:
            with suppress(OSError), open(self.state + ".neutral", "w", encoding="utf-8") as f:
                json.dump(mean, f)
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
        powers = [math.exp(x - max(scores)) for x in scores]
        here = self.llm.n_tokens
        for (token, names), power in zip(begin.items(), powers, strict=True):
            part = share * power / sum(powers)
            if len(names) == 1:
                out[names[0]] = part
            else:
                self.llm.n_tokens = here
                self.llm.eval([token])
                self._descend({n: labels[n] for n in names}, depth + 1, part, out)
                self.llm.n_tokens = here


class Vectors:
    """An embedding model: one vector a text, not yet in bytes (`llamavec` does that)."""

    def __init__(self, path: str, threads: int = 2) -> None:
        import llama_cpp

        def opened(pooling: int, tokens: int = EMBED_TOKENS) -> Any:
            return llama_cpp.Llama(
                model_path=path,
                embedding=True,
                n_ctx=tokens,
                n_batch=tokens,
                n_ubatch=tokens,
                n_threads=threads,
                n_threads_batch=threads,
                pooling_type=pooling,
                verbose=False,
            )

        self.llm = opened(pooling := llama_cpp.LLAMA_POOLING_TYPE_UNSPECIFIED)
        # llama.cpp aborts on a token beyond the model's last position.
        tokens = min(EMBED_TOKENS, int(self.llm._model.n_ctx_train()) or EMBED_TOKENS)
        if self.llm._ctx.pooling_type() == llama_cpp.LLAMA_POOLING_TYPE_NONE:
            pooling = llama_cpp.LLAMA_POOLING_TYPE_MEAN  # a language model: the mean of its tokens
        if pooling == llama_cpp.LLAMA_POOLING_TYPE_MEAN or tokens < EMBED_TOKENS:
            self.llm.close()
            self.llm = opened(pooling, tokens)
        self.dims = int(self.llm.n_embd())
        self.pooling = int(self.llm._ctx.pooling_type())
        # Models that pool the last token want to be told what a question is.
        self.instructed = self.pooling == llama_cpp.LLAMA_POOLING_TYPE_LAST
        self._common: dict[str, list[float]] = {}  # by what stands before a text

    def embed(self, texts: Sequence[str], query: bool = False) -> list[list[float]]:
        """One vector a text, less what all texts have in common; a text without a token gives
        zeros.
        """
        before = QUERY if query and self.instructed else ""
        if before not in self._common:
            some = [self._unit(before + text) for text in COMMON]
            self._common[before] = [sum(column) / len(some) for column in zip(*some, strict=True)]
        common = self._common[before]
        return [
            [x - y for x, y in zip(self._unit(before + text), common, strict=True)]
            if (text := _sound(given).strip())
            else [0.0] * self.dims
            for given in texts
        ]

    def _unit(self, text: str) -> list[float]:
        """A text's vector, of length 1."""
        vector = [float(x) for x in self.llm.embed(text)]
        length = math.hypot(*vector) or 1.0
        return [x / length for x in vector]


def _sound(text: str) -> str:
    return text.encode("utf-8", "replace").decode().replace("\0", " ")


def _ours(directory: str) -> list[str]:
    names = os.listdir(directory) if os.path.isdir(directory) else []
    return [os.path.join(directory, name) for name in names if _OURS.fullmatch(name)]


def _checksum(path: str) -> str:
    with open(path, "rb") as f:
        return f"{zlib.crc32(f.read()):08x}"


def _unlink(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


# --- the process ------------------------------------------------------------------


def main() -> None:
    """Answers requests from descriptor 0 on descriptor 1 until it is closed.

    Its own bounds, beside those of `llamaproc`, so that it ends also where that one was killed:
    `memory` bytes of address space, `seconds` for one request, and, on Linux, the life of its
    parent.
    """
    kind, path, states = sys.argv[1:4]
    threads, seconds, memory = map(int, sys.argv[4:7])
    parent = os.getppid()
    out = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)  # llama.cpp may print
    os.dup2(null, 2)
    _bound(memory)
    _die_with(parent)
    model: Language | Vectors | None = None
    with os.fdopen(0, "rb") as requests:
        for line in requests:
            signal.alarm(seconds)
            try:
                if model is None:
                    language = kind == "language"
                    model = Language(path, states, threads) if language else Vectors(path, threads)
                answer = _answer(model, json.loads(line))
            except Exception as e:
                answer = {"error": f"{type(e).__name__}: {e}"[:400]}
            out.write(json.dumps(answer).encode() + b"\n")
            out.flush()
            if model is None:
                os._exit(1)
            signal.alarm(0)
    os._exit(0)  # without the destructors of native code


def _bound(memory: int) -> None:
    with suppress(OSError):
        os.nice(10)
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as f:
            f.write("1000")  # where memory runs out, this goes first
    with suppress(ImportError, OSError, ValueError):
        import resource

        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))  # the worker's is for the worker
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _die_with(parent: int) -> None:
    """The kernel ends us when the process that started us ends; elsewhere than on Linux a busy one
    goes on until its alarm.
    """
    if sys.platform == "linux":
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
    if op == "leaning":
        return {"labels": model.leaning()}
    return {"labels": model.probabilities(request["role"], request["text"])}
