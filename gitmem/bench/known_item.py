"""The evaluation on the user's own memories: known-item questions, silence, vectors.

A known-item question is the title of a memory, or its first sentence, without half of its content
words, the rarest. The memory it was made from is the one right answer, so nobody has to judge
(Azzopardi et al., SIGIR 2007). Silence is how few everyday prompts, which no memory answers, are
told anything. Promise: nothing is written but the cache.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any, NamedTuple

from ..agents import inject, prompt_question
from ..core import record, text
from ..core.plural import many
from ..engine import encoding, memory_rows, reinstated
from ..engine.cache import Cache
from ..engine.filters import Filter
from ..memory import listing, recall
from ..models.llamavec import LlamaVectors
from ..store import Store
from . import everyday, scores

SAMPLE = 200
FEWEST = 5  # content words of a line that a question is made of
FIRST = 3
_LONGEST = 400  # characters of a line that are looked at


class Asked(NamedTuple):
    """`rank`: the place at which the memory was found, 0 where it was not among the first ten."""

    id: str
    question: str
    rank: int


def line_of(data: Mapping[str, Any]) -> str:
    """The title of a record, else the first sentence of its text."""
    title = memory_rows.word(data.get("title")) or ""
    if title.strip():
        return " ".join(title.split())
    paragraphs = record.clean(str(data.get("body", ""))).split("\n\n")
    paragraph = next((p for p in paragraphs if p.strip()), "")
    words = " ".join(paragraph[:_LONGEST].split())
    ends = [at for sign in ".?!" if (at := words.find(sign + " ")) >= 0]
    return words[: min(ends) + 1] if ends else words


def masked(line: str, frequencies: Callable[[list[str]], Mapping[str, int]]) -> str:
    """The line without half of its content words, the rarest; "" where it has fewer than FEWEST.

    Words of the same terms count once ("retry", "retries"); ties go to the one that stands first.
    """
    terms = {word: tuple(text.query_terms(word)) for word in text.content(line).split()}
    distinct = list(dict.fromkeys(found for found in terms.values() if found))
    if len(distinct) < FEWEST:
        return ""
    df = frequencies([term for found in distinct for term in found])
    rarest = sorted(distinct, key=lambda found: min(df.get(term, 0) for term in found))
    taken = set(rarest[: len(distinct) // 2])
    return " ".join(word for word in line.split() if terms.get(word) not in taken)


def measure(
    store: Store,
    sample: int | None,
    seed: int,
    vectors: LlamaVectors | None,
    tell: Callable[[str], None],
) -> dict[str, Any]:
    """All figures; those that nothing can be said about are None."""
    start = time.perf_counter()
    memories, _ = store.with_cache(Filter().count)
    encoded, _ = store.with_cache(lambda cache: _encoded(store, cache))
    questions, _ = store.with_cache(lambda cache: _questions(store, cache, sample or SAMPLE, seed))
    tell(f"asking {many(len(questions), 'question')} made of {many(memories, 'memory')}")
    pairs = list(questions.items())
    answers = recall.batch(store, pairs, Filter(), limit=scores.DEPTH, vectors=vectors)
    asked = []
    for id, hits in answers:
        rank = next((place for place, hit in enumerate(hits, 1) if hit["id"] == id), 0)
        asked.append(Asked(id, questions[id], rank))
    prompts = everyday.PROMPTS
    tell(f"asking {len(prompts)} everyday prompts, as the prompt hook would")
    told, _ = store.with_cache(lambda cache: told_of(store, cache, prompts))
    n = len(asked)
    return {
        "memories": memories,
        "with_encoder_vector": encoded,
        "known_items": {
            "questions": n,
            "first": scores.share(sum(a.rank == 1 for a in asked), n) if n else None,
            "first_three": scores.share(sum(0 < a.rank <= FIRST for a in asked), n) if n else None,
            "mrr@10": scores.mean([1 / a.rank if a.rank else 0.0 for a in asked]) if n else None,
            "asked": [a._asdict() for a in asked],
        },
        "everyday": {
            "prompts": len(prompts),
            "told": scores.share(len(told), len(prompts)),
            "told_prompts": told,
        },
        "seconds": round(time.perf_counter() - start, 2),
    }


def _encoded(store: Store, cache: Cache) -> int | None:
    """How many memories have the encoder's vector; None where it is off."""
    if not store.settings.flag("encoder"):
        return None
    return min(Filter().count(cache), max(0, cache.count() - encoding.missing(cache)))


def _questions(store: Store, cache: Cache, most: int, seed: int) -> dict[str, str]:
    """{id: question} of at most so many memories that one can be made of, chosen by `seed`."""
    wanted = reinstated.seen_from(cache, Filter(), store.repo.head())
    rows = listing.rows_of(cache, wanted)
    Random(seed).shuffle(rows)
    out: dict[str, str] = {}
    for row in rows:
        if len(out) == most:
            break
        ((data, _, _),) = memory_rows.load(cache, [row])
        question = masked(line_of(data), cache.frequencies)
        if question:
            out[str(data["id"])] = question
    return out


def told_of(store: Store, cache: Cache, prompts: Iterable[str]) -> list[str]:
    """Those of the prompts that the prompt hook would tell something in a new session."""
    searcher = recall.Searcher(store, cache, hot=True)
    wanted = reinstated.seen_from(cache, store.trust.injectable(cache, Filter()), searcher.head)
    limit = store.settings.number("limit")
    out = []
    for prompt in prompts:
        question = prompt_question.of(prompt)
        if question and inject.sure_hits(searcher, question, wanted, limit):
            out.append(prompt)
    return out
