"""What a hook does about each event: one function an event, chosen by `HANDLERS`.

Promises. Context goes only where an agent takes it (`protocol.injects`), and no memory is shown
twice in a session. Files that a tool changed are noted by path, unless a name looks like a secret
(`core/redact`). No text of a prompt, a command, an answer or a memory is kept, unless `mem.capture`
is `all`: then prompts, answers and descriptions of tool calls wait in the spool for the worker
(`capture/sources`). Stop prints nothing, since any output would start another turn; the memories
shown in the session whose ids its answer names are noted. SessionEnd leaves everything to the
worker.
"""

from __future__ import annotations

import os
import time

from ..hooks import spool
from . import protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..engine.anchor_state_store import AnchorState
    from ..git.discover import Here
    from .call import Call
    from .context_render import Block

_EMPTIED = ("compact", "clear")  # sources of a start after which the model's context is empty
STEERED = 20  # memories named before a compaction
NOTES = 200  # of the client, that a session's start takes in itself
_LEAST, _EACH = 0.2, 0.002  # seconds that must be left for it: to begin with, and for each note
_HEX = frozenset("0123456789abcdef")
_UNREADABLE = "the memories could not be read"


def _session_start(call: Call) -> None:
    from ..hooks import announce
    from . import unfetched

    source = protocol.source(call.payload)
    if source in _EMPTIED:
        call.notes.add("context", [source])
    call.notes.add("start", ["startup" if _secret([source]) else source])
    purpose = "compact" if source == "compact" else "start"
    news = captured = ""
    block = _block(call, purpose)
    if call.agent in protocol.SHOWS and purpose == "start":
        captured = announce.message(call.here.mem_dir)
        unset = call.here.settings.origins["capture"] == "default"  # else somebody has decided it
        lines = [
            block.told if block else "",
            captured,
            unfetched.message(call.here) if source == "startup" else "",
            announce.capture_off(call.here.mem_dir) if unset else "",
        ]
        news = "; ".join(filter(None, lines))
    call.message = news and f"git mem: {news}"
    _give(call, block, purpose)
    if (call.say("") or not call.message) and captured:
        announce.told(call.here.mem_dir)
    spool.rescue(call.here.common_dir)  # text that a killed client left must not wait for days
    if call.agent == "claude":
        # After the answer: the client tells its model its notes itself, only the next prompt needs
        # them here.
        line = take_notes(call.here, call.environ, call.deadline.until)
        if line:
            call.ask(line)


def take_notes(here: Here, environ: Mapping[str, str], until: float) -> bytes | None:
    """Takes in the client's own notes that changed since they were last read.

    Where nothing changed this costs a few `stat` calls. Returns the event to spool where `until`
    (monotonic) leaves no time, or reading failed: then the worker reads them.
    """
    disabled = environ.get("CLAUDE_CODE_DISABLE_AUTO_MEMORY", "") not in ("", "0", "false")
    if disabled or not here.settings.flag("autoMemory"):
        return None
    from . import automemory

    sight = automemory.Sight(here.git_dir, here.common_dir, here.top, environ)
    if not sight.changed:
        return None
    if not sight.path or not sight.count:
        automemory.keep(here.mem_dir, sight)
        return None
    left = until - time.monotonic()
    quick = sight.count <= NOTES and left > _LEAST + sight.count * _EACH
    if quick and not here.settings.signing:  # nobody waits here for a key's passphrase
        try:
            from . import automemory_import

            automemory_import.at_start(here.top or here.common_dir, environ, sight)
            return None
        except Exception:  # the worker's attempt is logged
            pass
    from ..core import fastjson

    names = ("HOME", "CLAUDE_CONFIG_DIR", "CLAUDE_PROJECT_DIR")
    env = {name: environ[name] for name in names if environ.get(name)}
    at = {"git_dir": here.git_dir, "top": here.top, "head": here.head}
    facts = {"event": "auto-memory", **at, "env": env}
    return fastjson.encoder(ensure_ascii=True)(facts).encode()


def _block(call: Call, purpose: str) -> Block | None:
    """The context block; None where the agent takes none, or there is nothing to read."""
    if not call.injects:
        return None
    from . import context, hook_cache
    from .context_render import Block

    here, half = call.here, call.deadline.half
    notes = call.notes.read()

    def build(cache: hook_cache.Cache) -> Block:
        def look(anchors: Sequence[str]) -> Mapping[str, AnchorState]:
            return hook_cache.stands(here, cache, anchors, half)

        return context.build(
            cache,
            here,
            purpose=purpose,
            session_lines=notes,
            look=look if purpose == "start" else None,
            room=protocol.room(call.agent),
        )

    block, fresh = hook_cache.with_memories(here, build, half)
    if block is None:
        call.failed(_UNREADABLE)
        if not here.refs:
            return None
        reason = f"{_UNREADABLE} in time; git mem recall QUESTION searches them"
        block = Block(source=context.SOURCES[purpose], degraded=reason)
    elif not fresh:
        reason = "not all memories could be looked at in time; git mem recall searches all"
        block.degrade(block.degraded or reason)
        block.current = True  # the worker was asked for all of it
    return block


def _give(call: Call, block: Block | None, purpose: str) -> None:
    if block:
        from . import context_item

        if call.away:
            block.keep = ""
        call.say(block.render("xml"), context_item.noted(block.items), purpose)
        if not block.current:
            call.ask()


def _subagent_start(call: Call) -> None:
    block = _block(call, "subagent")
    if block and (block.total or block.degraded):  # its session was told how to write
        _give(call, block, "subagent")


def _user_prompt_submit(call: Call) -> None:
    if not call.injects and not _captures(call):
        return
    prompt = protocol.prompt(call.payload)
    if not prompt:  # of a picture alone Claude Code gives ""
        if not any(isinstance(call.payload.get(name), str) for name in protocol.PROMPTS):
            call.failed("no prompt in the input")
        return
    if _captures(call):
        spool.rescue(call.here.common_dir)  # of agents that never tell that they stop
        _spool_said(call, "user", prompt)
    elif not call.away:  # else `git mem remember` would write there
        from . import keep_request

        if keep_request.likely(prompt):
            call.note = keep_request.note(prompt, call.here.settings["capture"])
    if call.injects and call.here.settings.flag("promptContext"):
        from . import prompt_question

        encoder = prompt_question.reads(call)
        if question := call.question or prompt_question.of(prompt):
            from . import inject

            inject.for_prompt(call, question, encoder)
    call.say("")


def _pre_tool_use(call: Call) -> None:
    if not call.injects or not call.here.settings.flag("readContext"):
        return
    name = protocol.tool(call.payload)
    if protocol.reads(name) or protocol.edits(name):
        paths = _paths(call)
        if paths:
            from . import inject

            inject.for_files(call, paths)


def _post_tool_use(call: Call) -> None:
    name = protocol.tool(call.payload)
    if not name:
        call.failed("no tool in the input")
        return
    paths = _paths(call)
    touched = paths and protocol.edits(name) and not protocol.failed(call.payload)
    if not touched or _secret(_names(call, paths)):
        return
    call.notes.add("touched", paths)
    if _captures(call):
        _spool_edit(call, name, paths)


def _names(call: Call, paths: list[str]) -> list[str]:
    """Names of this call's tool and files: as noted, and as given where the note changes them, for
    that can hide a secret from its rule. Of an absolute path the directory above the tree is left
    out.
    """
    tool = protocol.text(call.payload, "tool_name", "toolName")
    given = [file for file in protocol.files(call.payload) if not file.endswith(tuple(paths))]
    return [tool, *paths, *given]


_RUN = 16  # characters; the shortest documented token has 20
_MARKS = ("hf_", "rzp_", "hooks.")  # of tokens that may be lower case, or in short pieces


def _secret(names: list[str]) -> bool:
    """Whether a name looks like a secret. Ordinary names are told without loading `redact`."""
    if doubtful := [name for name in names if _doubtful(name)]:
        from ..core import redact

        return redact.holds(*doubtful)
    return False


def _doubtful(name: str) -> bool:
    """Whether `redact` has to say: of a run of letters, digits, `-` and `_` that is long and mixed
    as a token is, and of any character beside these, `/` and `.`.
    """
    for run in name.replace("/", ".").split("."):
        if not all(c.isascii() and (c.isalnum() or c in "-_") for c in run):
            return True
        if len(run) >= _RUN:
            upper = "".join(["A" if c.isupper() else "." for c in run])
            if "AA" in upper or any(c.isdigit() for c in run):
                return True
    return len(name) >= _RUN and any(mark in name for mark in _MARKS)


def _paths(call: Call) -> list[str]:
    """The files of a tool's input that are in the working tree, as git names them."""
    files = protocol.files(call.payload)
    return [p for p in [protocol.inside(call.here.top, call.cwd, file) for file in files] if p]


def _pre_compact(call: Call) -> None:
    call.say(steer(call.notes.read()["shown"]))


def steer(shown: Sequence[str]) -> str:
    """What a summary should keep, as plain text; names the last of the memories shown, by id."""
    keep = (
        "Keep in the summary: decisions with their reasons, blockers, attempts that failed and why,"
        " conventions the user stated, files changed, what is open.\n"
    )
    # The id of a foreign record may be any text; only what names a memory is said.
    ids = [id[:8] for id in shown if id and not set(id) - _HEX]
    if not ids:
        return keep
    more = f" and {len(ids) - STEERED} more" if len(ids) > STEERED else ""
    return (
        f"{keep}Memories of git mem shown in this session: {' '.join(ids[-STEERED:])}{more}. Their"
        " texts need not be copied: name the id of each one that mattered; git mem show ID has"
        " the text.\n"
    )


def _session_end(call: Call) -> None:
    """Wakes the worker: it writes the receipt, and reads the conversation where capture is on."""
    if not call.notes.session:
        return
    reason = protocol.text(call.payload, "reason")
    call.notes.add("end", ["other" if not reason or _secret([reason]) else reason[:40]])
    line = b'{"event":"session-end"}'
    if call.here.settings["capture"] == "all":
        from ..capture import sources

        path = protocol.text(call.payload, "transcript_path")
        line = sources.ended(path, *_origin(call), top=call.here.top)
    call.ask(line)


def _stop(call: Call) -> None:
    """Leaves the answer to the worker, and starts one where an earlier one was killed."""
    _note_cited(call)
    if _captures(call):
        _spool_said(call, "assistant", protocol.text(call.payload, *protocol.REPLIES))
        if spool.waiting(call.here.mem_dir):
            spool.wake(call.here.common_dir)
    spool.rescue(call.here.common_dir)


def _note_cited(call: Call) -> None:
    """Notes which of the memories shown in this session the answer names; none of its text."""
    answer = protocol.text(call.payload, *protocol.REPLIES)
    told = call.notes.read()["shown"] if answer else []
    if told:
        from ..feedback import usage

        if cited := usage.cited(answer, told):
            call.notes.add("cited", cited)


def _captures(call: Call) -> bool:
    """Whether texts of this call may wait on the disk for the worker."""
    return call.here.settings["capture"] == "all" and not call.away


def _spool_said(call: Call, role: str, text: str) -> None:
    """Leaves a prompt or an answer to the worker, and does not start it: a prompt is waited for."""
    if text:
        from ..capture import sources

        _append(call, sources.heard(role, text, *_origin(call)))


def _spool_edit(call: Call, name: str, paths: list[str]) -> None:
    """Leaves to the worker which files a tool changed; how, only if a language model judges it."""
    from ..capture import sources, toolcalls

    text = ""
    if os.path.exists(os.path.join(call.here.mem_dir, sources.READY)):
        given, answer = protocol.given(call.payload), protocol.answer(call.payload)
        text = toolcalls.describe(given, answer, name, paths)
    _append(call, sources.done(text, paths, *_origin(call)))


def _origin(call: Call) -> tuple[str, str, str, str]:
    """Session, agent, HEAD and branch, as `capture/sources` writes them."""
    return call.notes.session, call.agent, call.here.head, call.here.branch


def _append(call: Call, line: bytes) -> None:
    if line:
        try:
            spool.append(call.here.mem_dir, line)
        except (OSError, ValueError) as e:
            call.failed(f"cannot append: {type(e).__name__}")


HANDLERS: dict[str, Callable[[Call], None]] = {
    "SessionStart": _session_start,
    "UserPromptSubmit": _user_prompt_submit,
    "PreToolUse": _pre_tool_use,
    "PostToolUse": _post_tool_use,
    "Stop": _stop,
    "SubagentStart": _subagent_start,
    "SubagentStop": _note_cited,
    "PreCompact": _pre_compact,
    "SessionEnd": _session_end,
    protocol.IGNORED: lambda call: None,
}
