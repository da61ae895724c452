"""A memory's confidence as use changes it. Pure.

A memory starts with the confidence its writer stated, or with that of its provenance. It rises in
sessions that used it (its id was named in an answer, a file it names was changed after it was told,
a person accepted it), falls slowly in sessions that were told it and did not use it, and at once
where it was contradicted. Being told is never credit. Neglect is counted in sessions, not in days:
a memory that nobody was told has not been tried.

Promises. The result depends on the set of records alone, so every clone that has the same private
notes has the same numbers. A session counts once, however much happened in it. Values stay
between 0 and 1; more use never lowers one, more neglect and more contradiction never raise one.
"""

from __future__ import annotations

from . import short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    Row = tuple[str, str, str, int]  # name of a memory, session, how, number

OPS = ("receipt", "feedback", "verdict")  # of the records that say something about use
SHOWN = ("start", "prompt", "subagent", "compact", "tool")  # how a session was told a memory
CITED, TOUCHED, ACCEPTED, REJECTED, AGAINST = "cited", "touched", "accepted", "rejected", "against"

# Where a memory starts whose writer stated no confidence; and without a provenance.
START = {"VERIFIED": 0.9, "CITED": 0.8, "CACHED": 0.6, "ASSUMED": 0.5}
UNSAID = 0.5
WEIGHT = 1.0  # sessions of use that the start is worth
MEANT = ("prompt", "tool")
# What a session that was told a memory in vain adds to that weight: an answer to a prompt or a file
# was meant, the block at a session's start goes to everybody, whatever they came for.
NEGLECT = {"prompt": 0.05, "tool": 0.05, "start": 0.0125, "subagent": 0.0125, "compact": 0.0}
GAIN = 0.5  # how far credit may move a score in that block
DOUBT = 0.2  # how much of a score full doubt of its writer takes away
DROP = 0.25  # what one contradiction leaves of a confidence
# Of the order of answers: powers of 1 + sessions of use and of 1 + sessions in vain, and how far
# all of it may move a score. Chosen by tools/eval_feedback.py --fit, on worlds and histories that
# are in no other figure of docs/evaluation.md.
RISE, FALL, MOST = 0.33, 0.25, 2.0
_MOST = 10_000  # a count in a record of others
_HEX = frozenset("0123456789abcdef")


class Evidence:
    """What was counted about one memory, in sessions: `used` and `ignored` may be parts of one,
    `vain` is how many were told it in vain, `against` how many contradict it.
    """

    def __init__(
        self, used: float = 0.0, ignored: float = 0.0, against: int = 0, vain: int = 0
    ) -> None:
        self.used, self.ignored = used, ignored
        self.against, self.vain = against, vain

    def __bool__(self) -> bool:
        return bool(self.used or self.ignored or self.against)


def confidence(start: float, found: Evidence) -> float:
    """The confidence that lives: `start` where nothing was counted; 0 to 1."""
    begun = min(1.0, max(0.0, start))
    if found.used or found.ignored:
        begun = (WEIGHT * begun + found.used) / (WEIGHT * (1 + found.ignored) + found.used)
    return begun * DROP ** min(found.against, 50)


def start(stated: object, provenance: object) -> float:
    if (said := _stated(stated)) is not None:
        return said
    return START.get(provenance, UNSAID) if isinstance(provenance, str) else UNSAID


def doubted(stated: object) -> float:
    """What a score is multiplied with for what its writer thought of it."""
    said = _stated(stated)
    return 1.0 if said is None else 1 - DOUBT * (1 - said)


def _stated(value: object) -> float | None:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1:
        return float(value)
    return None


def value(found: Evidence) -> float:
    """What use alone says, whoever wrote it: 0.5 where nothing was counted."""
    return confidence(0.5, found)


def factor(value: float) -> float:
    """The factor of a score in the block at a session's start: 1 - GAIN to 1 + GAIN."""
    return 1 + GAIN * (2 * min(1.0, max(0.0, value)) - 1)


def lift(used: float, vain: float, against: int = 0) -> float:
    """The factor of an answer's score: 1 / MOST to MOST; `vain` is from `in_vain`."""
    lifted: float = (1 + used) ** RISE * (1 + vain) ** -FALL * DROP ** min(against, 50)
    return min(MOST, max(1 / MOST, lifted))


def in_vain(near: Mapping[int, float], told: Mapping[int, Mapping[str, bool]]) -> dict[int, float]:
    """{found: how many sessions were told it in vain, each as far as it was about this question}.

    `near`: what was found now, with its score; `told`: {found: {session that was told it: whether
    it used it}}. A session was about this question as far as it was told the rest of what is found:
    0 to 1, by score. So what was no use for something else loses nothing here."""
    about: dict[str, float] = {}
    for found, sessions in told.items():
        for session in sessions:
            about[session] = about.get(session, 0.0) + near[found]
    whole = sum(near.values())
    out: dict[int, float] = {}
    for found, sessions in told.items():
        rest = whole - near[found]
        # Sorted: the last digits of a sum of parts depend on its order.
        vain = [session for session, used in sessions.items() if not used]
        parts = sorted(about[session] - near[found] for session in vain)
        out[found] = max(0.0, sum(parts) / rest) if rest > 0 else 0.0
    return out


def count(rows: Iterable[tuple[str, str, int]], versions: Iterable[str] = ()) -> Evidence:
    """What the (session, how, number) rows of one memory add up to.

    `versions`: those of its texts that are shown now; a contradiction of other ones was answered
    by an edit."""
    use: dict[str, float] = {}
    told: dict[str, float] = {}
    verdicts: dict[str, set[str]] = {}
    against: set[str] = set()
    for session, how, number in rows:
        if how in NEGLECT:
            told[session] = max(told.get(session, 0.0), NEGLECT[how])
        elif how == CITED:
            use[session] = 1.0
        elif how == TOUCHED:
            # Memories that name the same file share one use: nobody knows which one helped.
            use[session] = max(use.get(session, 0.0), 1 / max(1, number))
        elif how in (ACCEPTED, REJECTED):
            verdicts.setdefault(session, set()).add(how)
        elif how == AGAINST:
            against.add(session)
    shown = set(versions)
    # Sorted: the last digits of a sum of parts depend on its order.
    accepted = sum(1 for said in verdicts.values() if ACCEPTED in said)
    used = accepted + sum(sorted(use.values()))
    vain = sorted(neglect for session, neglect in told.items() if session not in use)
    # An empty version speaks of the memory, whatever its text.
    contradicted = sum(1 for version in against if not version or version in shown)
    return Evidence(used, sum(vain), contradicted + len(verdicts) - accepted, len(vain))


def rows(data: Mapping[str, Any]) -> list[Row]:
    """What one record says of use: of a session by the memory's short name, of a person by its id;
    empty for any other record."""
    if data.get("op") == "verdict":
        return _verdict(data)
    if data.get("op") == "receipt":
        return _receipt(data)
    if data.get("op") != "feedback":
        return []
    session = data.get("session")
    out: list[Row] = []
    if _is_name(session):
        shown = data.get("shown")
        for route, ids in shown.items() if isinstance(shown, dict) else ():
            if route in SHOWN and isinstance(ids, list):
                out += [(short.of(id), str(session), route, 1) for id in ids if is_id(id)]
        for how in (CITED, TOUCHED):
            found = data.get(how)
            for id, number in found.items() if isinstance(found, dict) else ():
                if is_id(id) and type(number) is int and number > 0:
                    out.append((short.of(id), str(session), how, min(number, _MOST)))
    found = data.get("contradicted")
    for id, versions in found.items() if isinstance(found, dict) else ():
        if is_id(id) and isinstance(versions, list):
            named = [v for v in versions or [""] if v == "" or is_id(v)]
            out += [(id, version, AGAINST, 1) for version in named]
    return out


def _receipt(data: Mapping[str, Any]) -> list[Row]:
    """What a session was told and used; receipts with whole ids have a `feedback` instead."""
    session, shown = data.get("session"), data.get("shown")
    open_ = set(short.unpack(data.get("open")))
    out: list[Row] = []
    if _is_name(session):
        for route, text in shown.items() if isinstance(shown, dict) else ():
            if route in SHOWN:
                told = dict.fromkeys(short.unpack(text))
                out += [(id, str(session), route, 1) for id in told if id not in open_]
        for id, (named, _, share) in uses(data).items():
            counts = ((CITED, named), (TOUCHED, share))
            out += [(id, str(session), how, min(n, _MOST)) for how, n in counts if n > 0]
    return out


def uses(data: Mapping[str, Any]) -> dict[str, tuple[int, int, int]]:
    """{short name: (answers that named it, its files changed, memories that share that)}."""
    found = data.get("use")
    out: dict[str, tuple[int, int, int]] = {}
    for text, said in found.items() if isinstance(found, dict) else ():
        names = short.unpack(text)
        if len(names) == 1 and isinstance(said, list) and all(type(n) is int for n in said):
            named, files, share = [*said, 0, 0, 0][:3]
            out[names[0]] = (named, files, share)
    return out


def _verdict(data: Mapping[str, Any]) -> list[Row]:
    """A person took a suggestion for a memory, or turned it down.

    Of one suggestion the better word counts (`suggestions`).
    """
    id, memory, said = data.get("id"), data.get("memory"), data.get("verdict")
    if said in ("accepted", "merged") and is_id(memory):
        return [(str(memory), str(id)[:64], ACCEPTED, 1)]
    return [(str(id), str(id), REJECTED, 1)] if said == "rejected" and is_id(id) else []


def is_id(value: object) -> bool:
    """32 hex digits: the id of a memory, or a version."""
    return isinstance(value, str) and len(value) == 32 and not set(value) - _HEX


def _is_name(value: object) -> bool:
    """A session as receipts name it: a UUID or a digest."""
    return isinstance(value, str) and 32 <= len(value) <= 36 and not set(value) - _HEX - {"-"}
