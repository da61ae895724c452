"""One question to one cache: candidates of both routes, fusion, verdict, priors.

Hooks, `recall` and `recall --batch` all ask `Search`. Beside the words stand the encoder's vectors,
where every memory has one. Until the background has made them, words and the packaged table answer
first, what they find is read by the encoder with the question, and the surer answer stands; a
prompt that words alone settle (`verdict.SETTLED`) waits for no vector then.

Promises. Filters come before candidates. The answer is the same on a kept and on a rebuilt cache:
ids settle ties. A prior reorders what was hit and never admits anything. An encoder that cannot be
used costs no answer: that of words and table stands. Nobody waits for the background. Plain Python
over SQLite; starts no process.
"""

from __future__ import annotations

from itertools import chain
from time import monotonic

from ..core import common_words, overlap, rank, text, verdict
from ..embedding import EncoderDamaged
from . import memory_rows, priors
from .cache import ENCODED, SPACE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Protocol

    from ..embedding.reader import Read
    from .cache import Cache
    from .filters import Filter

    # (question, until) -> (space, the question's vector); None where none came in time.
    Chosen = Callable[[str, float], tuple[str, bytes] | None]
    Ranked = tuple[list[rank.Hit], float]  # hits before priors, and how sure they are

    class Documents(Protocol):
        """What a question asks of what it is put to; each as `Cache` has it."""

        def count(self) -> int: ...

        def frequencies(self, words: Sequence[str]) -> dict[str, int]: ...

        def texts(self, rows: Iterable[int]) -> list[tuple[int, str, str, str]]: ...


CANDIDATES = 200  # of each route, before fusion
# BM25 of title, body, extra; title measured on eval/dev: 1 to 3 are close, 1.5 is best
WEIGHTS = (1.5, 1.0, 1.0)
# of the first hits get a vector of the encoder while the question waits, where the background has
# made none yet
READ = 5
AT_ONCE = 200  # characters of a memory that are read while a question waits: 10 ms
# times the asked number of hits that priors may reorder, and at least so many: the first three are
# the first three of eight
_SEEN, _LEAST = 3, 24


class Search:
    """One cache, many questions.

    `vector` makes the packaged table's vector of a text; hooks open it only for that. `stand` gives
    the states of anchors, `aged` what became of the paths of memories ({row:
    `path_state_store.worst`}); None where these count alike. `encoder` makes the question's vector
    until `until`, and begins to read memories that lack one until `reads_until` (both monotonic; 0:
    however long it takes). `unasked`: the question is a prompt, or `recall --hot` stands in for
    one. `chosen` gives the space of the model that the user chose, and the question's vector there,
    until `until`; where it does, and every memory has one, it takes the place of the encoder.
    """

    def __init__(
        self,
        cache: Cache,
        vector: Callable[[str], bytes],
        stand: priors.Standing | None = None,
        *,
        aged: Callable[[Sequence[int]], Mapping[int, str]] | None = None,
        encoder: Read | None = None,
        unasked: bool = False,
        until: float = 0.0,
        reads_until: float = 0.0,
        chosen: Chosen | None = None,
    ) -> None:
        self.cache, self._vector = cache, vector
        self._stand, self._aged, self._encoder, self._chosen = stand, aged, encoder, chosen
        self._unasked, self._until, self._reads_until = unasked, until, reads_until
        self.reduced = False  # whether the encoder was to be asked and could not be
        # whether memories lacked the vectors that the worker makes, and an answer could have used
        self.behind = False
        self.parts: dict[int, dict[str, float]] = {}  # the priors of the last answer's hits

    def ask(
        self, query: str, wanted: Filter, limit: int, least: float = 0.0
    ) -> tuple[list[rank.Hit], str, float]:
        """(hits best first, verdict, probability that the answer is among the first hits). With a
        lower probability than `least` what `Question.naming` finds, mostly nothing, and nobody
        works on the order of the others.
        """
        cache = self.cache
        question = Question(query, cache)
        sql, args = ("", []) if wanted.empty else wanted.sql()
        if sql:
            found = cache.db.execute(sql + " ORDER BY row", args)
            question.allowed = [row for (row,) in found]
        if rare := text.rare(question.terms, question.df, question.count):
            match = text.match_expression(rare)
            question.lexical = cache.lexical(match, WEIGHTS, CANDIDATES, sql, args)
        hits, sure = self._ranked(question)
        if sure < least:
            hits = question.naming(hits)
            if not hits:
                return [], "MISS", sure
        covered = question.covered(hits)
        most = max(limit * _SEEN, _LEAST)
        seen = self._in_order(hits, most)[:most]
        scores = {hit.row: hit.fused for hit in seen}
        aged = self._aged(list(scores)) if self._aged else {}
        self.parts = priors.parts(cache, scores, self._stand, aged)
        hits = rank.apply_priors(seen, priors.factors(self.parts))
        # Of the alternatives of one memory the one that answers best stands for it.
        first = memory_rows.firsts(cache, [hit.row for hit in hits])
        hits = [hit for hit in hits if hit.row in first][:limit]
        return hits, verdict.name(sure, covered) if hits else "MISS", sure

    def _ranked(self, question: Question) -> Ranked:
        """(hits before priors, how sure they are)."""
        enough = verdict.enough(question.terms)
        if self._chosen and (enough or not self._unasked):
            space, vector = self._chosen(question.query, self._until) or ("", b"")
            if any(vector) and self.cache.embedded(space) >= self.cache.count():
                return self._by_chosen(question, space, vector)
            self.behind = self.behind or any(vector)
        small = self._unasked and self.cache.how == "memory"  # nobody makes its vectors
        if not self._encoder or small or not enough:
            return self._by_table(question)
        complete = self.cache.embedded(ENCODED[0]) >= self.cache.count()
        if self._unasked and not complete:
            hits = self._reread(question, rank.fuse(question.lexical, (), {}, question.ceiling))
            sure = question.sure(hits, (), {}, verdict.WORDS)
            if sure >= verdict.SETTLED:
                self.behind = True
                return hits, sure
        from . import model_vectors

        answer, unread = None, []
        if not complete:
            answer = self._by_table(question)
            first = [hit.row for hit in answer[0][:READ]]
            unread = model_vectors.without(self.cache, ENCODED[0], first)
        found = self._by_encoder(question, unread)
        if found and answer:  # whose text was not read has no cosine with the question
            return max(found, answer, key=lambda one: one[1])
        return found or answer or self._by_table(question)

    def _by_encoder(self, question: Question, unread: list[int]) -> Ranked | None:
        """(hits before priors, how sure they are) by words and the encoder's vectors. None, and
        `reduced` says so, where it is missing or damaged, memory is short or the time was over;
        None, too, where it knows no word of the question.

        `unread`: rows without a vector that are read with the question.
        """
        from . import nearness

        assert self._encoder
        self.reduced = True
        texts = self._texts(unread) if unread else ()  # `document` loads for those only
        vectors = nearness.Vectors(self.cache, *ENCODED, question.allowed, question.rows)
        try:
            read = self._encoder(question.query, texts, self._until)
        except (EncoderDamaged, MemoryError):
            return None
        self.reduced = not read
        if not read or not any(read[0]):
            return None
        self.behind = self.behind or bool(unread)
        beside = dict(zip(unread, read[1:], strict=False))
        return self._by_vectors(question, *vectors.nearest(read[0], beside))

    def _by_chosen(self, question: Question, space: str, vector: bytes) -> Ranked:
        """The same by words and the vectors of the model that the user chose."""
        from . import nearness

        vectors = nearness.Vectors(
            self.cache, space, len(vector), question.allowed, question.rows, chosen=True
        )
        hits, sure = self._by_vectors(question, *vectors.nearest(vector, {}))
        if not vectors.comparable:
            _, sure = self._by_table(question)
        return hits, sure

    def _by_vectors(
        self, question: Question, near: dict[int, float], cosines: dict[int, float]
    ) -> Ranked:
        """By words and what `nearness.Vectors` found."""
        words, ceiling = question.lexical, question.ceiling
        nearest = list(near.items())[:CANDIDATES]
        of_words = {row: near[row] for row in question.rows if row in near}
        cover = question.cover_of(question.rows[: verdict.LOOKED_AT])
        hits = rank.fuse(words, nearest, of_words, ceiling, rank.ENCODER, cover)
        hits = self._reread(question, hits)
        values = [value for _, value in nearest]
        return hits, question.sure(hits, values, cosines, verdict.ENCODER)

    def _by_table(self, question: Question) -> Ranked:
        """The same by words and the packaged table."""
        # Content words count double: "how do we store times" is about times, not about how.
        query = question.query
        vector = self._vector(f"{text.ends(query)} {text.content(query)}")
        nearest, cosines = self._near(question, vector)
        hits = rank.fuse(question.lexical, (), cosines, question.ceiling)
        hits = self._reread(question, hits)
        return hits, question.sure(hits, nearest, cosines, verdict.TABLE)

    def _reread(self, question: Question, hits: list[rank.Hit]) -> list[rank.Hit]:
        """The hits, the first of them ranked again by their text."""
        first = [hit.row for hit in self._in_order(hits, rank.REREAD)[: rank.REREAD]]
        return self._in_order(rank.reread(hits, question.held(first)), rank.REREAD)

    def _near(self, question: Question, vector: bytes) -> tuple[list[float], dict[int, float]]:
        """(cosines of the rows nearest by the table, {row: cosine} of these and the lexical ones),
        the highest first.
        """
        if not any(vector):
            return [], {}
        from . import hamming, model_vectors, nearness  # not for a prompt that words settle

        stored = model_vectors.codes(self.cache, SPACE, len(vector))
        near = set(nearness.close(self.cache, stored, vector, CANDIDATES, question.allowed))
        rows = near.union(question.rows)
        vectors, squares = model_vectors.of(self.cache, SPACE, rows)
        scored = hamming.rescore(vectors, vector, sorted(vectors), squares)
        nearest = [cosine for cosine, row in scored if row in near]
        return nearest, {row: cosine for cosine, row in scored}

    def _in_order(self, hits: list[rank.Hit], most: int) -> list[rank.Hit]:
        """The same order, best first; among the first `most` hits of equal score stand by their
        ids: row numbers differ in a rebuilt cache.
        """
        end = min(most, len(hits))
        while 0 < end < len(hits) and hits[end].fused == hits[end - 1].fused:
            end += 1
        equal: dict[float, list[int]] = {}
        for hit in hits[:end]:
            equal.setdefault(hit.fused, []).append(hit.row)
        tied = [row for group in equal.values() if len(group) > 1 for row in group]
        if not tied:
            return hits
        place = {row: n for n, row in enumerate(self.cache.by_id(tied))}
        first = sorted(hits[:end], key=lambda hit: (-hit.fused, place.get(hit.row, 0)))
        return first + hits[end:]

    def _texts(self, rows: Iterable[int]) -> Iterator[str]:
        """What the encoder reads of memories, while there is time for it."""
        from .document import vector_text

        for row in rows:
            if self._reads_until and monotonic() >= self._reads_until:
                return
            ((data, _, _),) = memory_rows.load(self.cache, [row])
            yield vector_text(data)[:AT_ONCE]


class Question:
    """A question's terms, and what the texts of memories hold of them; each text is read once."""

    def __init__(self, query: str, documents: Documents) -> None:
        self.query = query
        self.terms = text.query_terms(query)
        self.pairs = overlap.pairs(text.terms(text.ends(query)))
        self.count = documents.count()
        self.df = documents.frequencies(self.terms) if self.terms else {}
        self.ceiling = rank.ceiling(self.terms, self.df, self.count)
        self.lexical: list[tuple[int, float]] = []  # (row, BM25) of what words found, best first
        self.allowed: list[int] | None = None  # the rows that take part, ascending; None: all
        self._documents = documents
        self._texts: dict[int, tuple[list[str], list[str]]] = {}

    @property
    def rows(self) -> list[int]:
        return [row for row, _ in self.lexical]

    def held(self, rows: Iterable[int]) -> dict[int, tuple[float, float]]:
        """{row: (cover, phrases)} of the title and body of memories."""
        return {
            row: (
                overlap.cover(self.terms, set(said), self.df, self.count),
                overlap.phrases(self.pairs, said),
            )
            for row, (said, _) in self._read(rows).items()
        }

    def cover_of(self, rows: Iterable[int]) -> float:
        """The best cover of some memories."""
        return max([cover for cover, _ in self.held(rows).values()], default=0.0)

    def sure(
        self,
        hits: Sequence[rank.Hit],
        near: Sequence[float],
        cosines: Mapping[int, float],
        coefficients: Sequence[float],
    ) -> float:
        """The probability that the answer is among the first hits; 0 where nothing was asked."""
        if not hits or not common_words.said(self.terms):
            return 0.0
        said = self._read([hit.row for hit in hits[: verdict.LOOKED_AT]]).values()
        held = [set(terms) for terms, _ in said]
        values = verdict.features(self.terms, self.df, self.count, hits, held, near, cosines)
        return verdict.probability(values, coefficients)

    def covered(self, hits: Sequence[rank.Hit]) -> bool:
        """Whether one of the first hits holds every term, in any of its fields, or is the only
        memory that has a name of the question.
        """
        if self.naming(hits):
            return True
        found = self._read([hit.row for hit in hits[: verdict.LOOKED_AT]]).values()
        wanted = self.terms
        if not common_words.said(wanted):  # "80 or 443?": the rarest that is known is enough
            known = [term for term in wanted if self.df.get(term)]
            wanted = [min(known, key=self.df.__getitem__)] if known else []
        return bool(wanted) and any({*said, *extra}.issuperset(wanted) for said, extra in found)

    def naming(self, hits: Sequence[rank.Hit]) -> list[rank.Hit]:
        """Those of the first hits that alone have a name of the question, one that few projects
        have. Far behind a name says little: in "revset_graph: place heads closer" it is a heading.
        """
        written = text.names(self.query)
        names = set(common_words.own({n: written[n] for n in written if self.df.get(n) == 1}))
        first = hits[: verdict.LOOKED_AT] if names else ()
        texts = self._read([hit.row for hit in first])
        return [hit for hit in first if not names.isdisjoint(chain(*texts[hit.row]))]

    def _read(self, rows: Iterable[int]) -> dict[int, tuple[list[str], list[str]]]:
        """{row: (terms of title and body, terms of the other fields)}, in the order of `rows`."""
        rows = list(rows)
        missing = [row for row in rows if row not in self._texts]
        for row, title, body, extra in self._documents.texts(missing) if missing else ():
            self._texts[row] = (f"{title} {body}".split(), extra.split())
        return {row: self._texts[row] for row in rows}
