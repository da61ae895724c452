"""What a hook does about each event: one function an event, chosen by `HANDLERS`.

Promises. Context goes only where an agent takes it (`protocol.injects`), and
what was shown is not shown again in a session. Files a tool changed and tools
that failed are noted by path and name, unless one of these names looks like a
secret (`core/redact`): then the call is not noted. No text of a prompt, a command, an
answer or a memory is kept, unless `mem.capture` is `all`: then what was said
and what a tool changed waits in the spool for the worker (`capture/sources`).
Stop prints nothing: whatever it says would start another turn; of an answer the
ids of memories in it are noted, where the session was shown them. SessionEnd
leaves everything to the worker.
"""

from __future__ import annotations

import os

from . import protocol, session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from .call import Call
    from .context_render import Block

_FORGOTTEN = (
    "compact",
    "clear",
)  # after these the model has nothing before it of what it was shown
_ANSWERS = ("last_assistant_message", "last-assistant-message", "prompt_response")
_LEAN = 2000  # tokens that fit where an agent takes less than others


def _start(call: Call) -> None:
    source = protocol.source(call.payload)
    if source in _FORGOTTEN:
        call.note("context", [source])
    call.note("start", ["startup" if _secret([source]) else source])
    announced = _announced(call) if source != "compact" else None
    _inject(call, "compact" if source == "compact" else "start")
    if announced and call.here and (call.say("") or not call.message):
        announced.told(call.here.mem_dir)
    if call.here:
        from ..hooks import spool

        spool.rescue(
            call.here.common_dir
        )  # what a client left that was killed: no text waits longer than its day
    if call.here and call.agent == "claude":
        from . import automemory_start

        # After the answer: the client gives these notes to its model itself; what is new in them is
        # to be found by the next prompt.
        line = automemory_start.step(call.here, call.environ, call.until)
        if line:
            call.ask(line)


def _announced(call: Call) -> ModuleType | None:
    """What capture did since the last session goes along with the answer; the module that is told
    once it went.
    """
    if not call.here or call.agent != "claude":
        return None
    from ..hooks import announce

    call.message = announce.message(call.here.mem_dir)
    return announce if call.message else None


def _subagent(call: Call) -> None:
    _inject(call, "subagent")


def _inject(call: Call, purpose: str) -> None:
    """Hands over the context block."""
    here = call.here
    if here is None or not call.asked:
        return
    from . import context, hook_cache
    from .context_render import Block

    lines = session.read(here.mem_dir, call.session)

    def build(cache: hook_cache.Cache, budget: int | None = None) -> Block:
        look = (
            (lambda anchors: hook_cache.stands(here, cache, anchors, call.half))
            if purpose == "start"
            else None
        )
        return context.build(
            cache, here, budget=budget, purpose=purpose, session_lines=lines, look=look
        )

    def fitting(cache: hook_cache.Cache) -> Block:
        found = build(cache)
        return found if _fits(call, found) else build(cache, _LEAN)

    block, fresh = hook_cache.with_memories(here, call.environ, fitting, call.half)
    if block is None:
        call.failed("the memories could not be read")
        if not here.refs:
            return
        block = Block(
            degraded="the memories could not be read in time; git mem recall QUESTION searches them"
        )
        block.source = context.SOURCES[purpose]
    elif not fresh:
        block.degrade(
            block.degraded
            or "not all memories could be looked at in time; git mem recall searches all"
        )
    call.say(block.render("xml"), block.ids, purpose)
    if fresh and not block.current:
        call.behind()


def _fits(call: Call, block: Block) -> bool:
    from .context_item import units
    from .context_render import MAX_UNITS

    return call.room >= MAX_UNITS or units(block.render("xml")) <= call.room


def _prompt(call: Call) -> None:
    wanted = call.here and call.asked and call.here.settings.flag("promptContext")
    if not wanted and not _captures(call):
        return
    prompt = protocol.text(call.payload, "prompt", "user_prompt")
    if not prompt:
        call.failed("no prompt in the input")
        return
    if call.here and _captures(call):
        from ..hooks import spool

        spool.rescue(call.here.common_dir)  # of agents that never say that they stop
        _hear(call, "user", prompt)
    if not wanted:
        return
    from . import inject

    inject.for_prompt(call, prompt)


def _before_tool(call: Call) -> None:
    if not call.here or not call.asked or not call.here.settings.flag("readContext"):
        return
    name = protocol.tool(call.payload)
    if protocol.reads(name) or protocol.edits(name):
        paths = _paths(call)
        if paths:
            from . import inject

            inject.for_files(call, paths)


def _after_tool(call: Call) -> None:
    name = protocol.tool(call.payload)
    if not name:
        call.failed("no tool in the input")
    elif protocol.failed(call.payload):
        _note_failed(call, name)
    elif protocol.edits(name):
        paths = _paths(call)
        if paths and not _secret(_names(call, paths)):
            call.note("touched", paths)
            _did(call, name, paths)


def _failed_tool(call: Call) -> None:
    name = protocol.tool(call.payload)
    if not name:
        call.failed("no tool in the input")
    elif call.payload.get("is_interrupt") is not True:  # the user stopped it
        _note_failed(call, name)


def _note_failed(call: Call, name: str) -> None:
    paths = _paths(call)
    if not _secret(_names(call, paths)):
        call.note("failed", [name, *paths])


def _names(call: Call, paths: list[str]) -> list[str]:
    """Names of this call's tool and files: as noted, and as given where the note changes them.

    A name is normalised and cut before it is noted, which can hide a secret from its rule. An
    absolute path counts from the top of the tree: the directory above is not noted.
    """
    tool = protocol.text(call.payload, "tool_name", "toolName")
    given = [file for file in protocol.files(call.payload) if not file.endswith(tuple(paths))]
    return [tool, *paths, *given]


_RUN = 16  # characters; the shortest documented token has 20
_MARKS = ("hf_", "rzp_", "hooks.")  # of tokens that may be lower case, or in short pieces


def _secret(names: list[str]) -> bool:
    """Whether a name looks like a secret. Ordinary names are told without loading `redact`."""
    doubtful = [name for name in names if _doubtful(name)]
    if not doubtful:
        return False
    from ..core import redact

    return redact.holds(*doubtful)


def _doubtful(name: str) -> bool:
    """Whether `redact` has to say.

    So for a run of letters, digits, `-` and `_` that is long and mixed as a token is, and for
    any character beside these, `/` and `.`: a space, `=`, `:`, `@`.
    """
    run, mixed, before = 0, False, ""
    for c in name:
        if c in "/.":
            run, mixed = 0, False
        elif not (c.isascii() and (c.isalnum() or c in "-_")):
            return True
        else:
            run += 1
            mixed = mixed or c.isdigit() or (c.isupper() and before.isupper())
            if run >= _RUN and mixed:
                return True
        before = c
    return len(name) >= _RUN and any(mark in name for mark in _MARKS)


def _paths(call: Call) -> list[str]:
    """The files of a tool's input that are in the working tree, as git names them."""
    top = call.here.top if call.here else ""
    return [
        path
        for given in protocol.files(call.payload)
        for path in [protocol.inside(top, call.cwd, given)]
        if path
    ]


def _compact(call: Call) -> None:
    here = call.here
    if here is None or not call.asked:
        return
    from . import context, hook_cache

    lines = session.read(here.mem_dir, call.session)
    text, _ = hook_cache.with_memories(
        here,
        call.environ,
        lambda cache: context.steer(cache, here, session_lines=lines),
        call.half,
        lean=True,
    )
    if text is None:
        call.failed("the memories could not be read")
    else:
        call.say(text)


def _end(call: Call) -> None:
    """The worker makes the receipt, and reads the conversation where that is wanted; the event only
    wakes it.
    """
    if call.session:
        reason = protocol.text(call.payload, "reason")
        call.note("end", ["other" if not reason or _secret([reason]) else reason[:40]])
        line = b'{"event":"session-end"}'
        if _captures(call) and call.here:
            from ..capture import sources

            line = sources.ended(
                protocol.text(call.payload, "transcript_path"),
                call.session,
                call.agent,
                call.here.head,
                call.here.branch,
            )
        call.ask(line)


def _rest(call: Call) -> None:
    """Nothing to say.

    What was said goes to the worker; one that was killed is started again where lines have waited
    for it.
    """
    from ..hooks import spool

    if not call.here:
        return
    answer = protocol.text(call.payload, *_ANSWERS)
    _cite(call, answer)
    if _captures(call):
        _hear(call, "assistant", answer)
        if spool.waiting(call.here.mem_dir):
            spool.wake(call.here.common_dir)
    spool.rescue(call.here.common_dir)


def _captures(call: Call) -> bool:
    """Whether what is said in this session may wait on the disk for the worker."""
    return call.here is not None and call.here.settings["capture"] == "all"


def _hear(call: Call, role: str, text: str) -> None:
    """Leaves what was said for the worker, which is not started: a prompt shares its processor with
    nobody.
    """
    from ..capture import sources

    if call.here and text:
        _leave(
            call,
            sources.heard(
                role, text, call.session or "", call.agent, call.here.head, call.here.branch
            ),
        )


def _did(call: Call, name: str, paths: list[str]) -> None:
    """Which files a tool changed; how, only where a language model is there to judge it."""
    if call.here and _captures(call):
        from ..capture import sources, toolcalls

        judged = os.path.exists(os.path.join(call.here.mem_dir, sources.READY))
        text = (
            toolcalls.describe(protocol.given(call.payload), call.payload, name, paths)
            if judged
            else ""
        )
        _leave(
            call,
            sources.done(
                text, paths, call.session or "", call.agent, call.here.head, call.here.branch
            ),
        )


def _leave(call: Call, line: bytes) -> None:
    from ..hooks import spool

    if call.here and line:
        try:
            spool.append(call.here.mem_dir, line)
        except (OSError, ValueError) as e:
            call.failed(f"cannot append: {type(e).__name__}")


def _cite(call: Call, answer: str) -> None:
    """Notes which of the memories that this session was shown an answer names; nothing of the
    answer itself.
    """
    if not call.here or not answer:
        return
    told = session.told(call.here.mem_dir, call.session)
    if told:
        from ..feedback import usage

        named = usage.cited(answer, told)
        if named:
            call.note("cited", named)


def _subagent_rest(call: Call) -> None:
    """A subagent's end is no end of ours, but it has an answer; compaction itself ends one that has
    none.
    """
    _cite(call, protocol.text(call.payload, *_ANSWERS))


HANDLERS: dict[str, Callable[[Call], None]] = {
    "SessionStart": _start,
    "UserPromptSubmit": _prompt,
    "PreToolUse": _before_tool,
    "PostToolUse": _after_tool,
    "PostToolUseFailure": _failed_tool,
    "Stop": _rest,
    "SubagentStart": _subagent,
    "SubagentStop": _subagent_rest,
    "PreCompact": _compact,
    "SessionEnd": _end,
}
