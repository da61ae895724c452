"""How near memories lie to a question by the encoder's vectors, hubs put back.

Some texts lie near every question (hubs: Radovanović et al., JMLR 2010), and among thousands of
memories they take the first places. So nearness is the cosine less HUB of what a memory has with its own
neighbours in the store: the correction of CSLS (Conneau et al., ICLR 2018).

Only numpy's core is loaded, since a prompt waits (`numpy_core` says which names may be used). Exact: all vectors
are compared, a part at a time.
"""

from __future__ import annotations

from ..embedding import numpy_core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from typing import Any

np = numpy_core.load()

# With the encoder before it was tuned, reworded questions among 3,000 others, found in the first three by vectors
# alone: 0.23 without, 0.28 with 0.25, 0.30 with 0.4 and 0.5; commits by subject 0.535, 0.535, 0.537, 0.527 nDCG@10.
# Of the tuned one, fused with words, 0.48 to 0.5 is best. A sample of 300 in the place of 1,000: 0.27.
HUB = 0.5
NEIGHBOURS = 10
SAMPLE = 1000
COMPANY = 0.45  # what most memories have with their neighbours: of 3,000 commits nine of ten have 0.34 to 0.58
FEW = 100  # vectors from which a store has neighbours to speak of
_PART = 8192  # vectors at a time: float32 of 100,000 would be 150 MB


def nearest(rows: Sequence[int], data: bytes | bytearray, question: bytes, allowed: Collection[int] | None,
            always: Iterable[int], most: int, count: int = 0) -> tuple[dict[int, float], dict[int, float]]:
    """({row: nearness}, {row: cosine}) of the `most` nearest rows and of those `always` asked for, best first.

    `rows` ascend; `data`: their vectors, end to end, of the question's dimensions. `allowed`: the rows that take
    part, None for all. Neighbours are looked for among SAMPLE vectors of the store, chosen by their bytes, so that
    a rebuilt cache chooses the same; in a store of few, where every neighbour is far, nothing is taken off.
    `count`: of the memories, where fewer than FEW have a vector yet; COMPANY stands for their neighbours.
    """
    if not rows or not any(question):
        return {}, {}
    raw = np.frombuffer(data, np.dtype("i1")).reshape(len(rows), len(question))
    asked = _units(np.frombuffer(question, np.dtype("i1")).reshape(1, -1))[0]
    cosines = np.concatenate([_units(raw[at : at + _PART]) @ asked for at in range(0, len(rows), _PART)])
    order = (-cosines).argsort(kind="stable").tolist()
    wanted = frozenset(always)
    if allowed is not None:
        order = [at for at in order if rows[at] in allowed]
    chosen = sorted({*order[: 2 * most], *(at for at in order[2 * most :] if rows[at] in wanted)})
    if not chosen:
        return {}, {}
    scores = cosines[chosen]
    found = dict(zip([rows[at] for at in chosen], scores.tolist(), strict=True))
    if len(rows) >= FEW:
        scores = scores - HUB * _company(raw, chosen)
    elif count >= FEW:
        scores = scores - HUB * COMPANY
    near = zip(found, scores.tolist(), strict=True)
    return dict(sorted(near, key=lambda pair: (-pair[1], pair[0]))), found


def _company(raw: Any, chosen: list[int]) -> Any:
    """The mean cosine of each chosen vector with its NEIGHBOURS of the sample."""
    keys = raw[:, :8].copy().view(np.dtype(">u8")).reshape(-1)
    sample = keys.argsort(kind="stable")[:SAMPLE].tolist()
    near = _units(raw[chosen]) @ _units(raw[sample]).T
    column = {at: number for number, at in enumerate(sample)}
    for number, at in enumerate(chosen):
        if at in column:
            near[number, column[at]] = -1.0  # it is no neighbour of its own
    near.partition(len(sample) - NEIGHBOURS, axis=1)
    return np.add.reduce(near[:, -NEIGHBOURS:], 1) / NEIGHBOURS


def _units(raw: Any) -> Any:
    """Rows of signed bytes as float32 of length 1; of zeros as zeros."""
    units = raw.astype(np.dtype("f4"))
    lengths = np.sqrt(np.add.reduce(units * units, 1))
    lengths[lengths == 0] = 1.0
    units /= lengths.reshape(-1, 1)
    return units
