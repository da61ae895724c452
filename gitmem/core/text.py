"""Cuts text into the terms of the lexical index, and queries the same way.

The FTS5 table only stores what `terms()` gave it (tokenizer `ascii`, terms joined by spaces), so a
term's document frequency is exact, a query is cut by the code that cut the documents, and a new
SQLite cannot change what is found.

Promise: any string is accepted and nothing raises. A term holds letters and digits (plus `·` inside
a version number, and vowel signs of scripts that have them); so in FTS5 it is exactly one token and
never syntax. Work and output are bounded. The same text gives the same terms in every process.

Every prompt waits for the import: ASCII text needs no `re` and no `unicodedata`, whose patterns
alone took 6 ms to compile; others load them.
"""

from itertools import chain

from gitmem.core.stem import stem

MAX_TEXT = 1_000_000  # characters of one document that are read
MAX_WORD = 64  # characters of one term; what follows is cut off
MAX_PARTS = 32  # pieces taken from one path-like word
MAX_QUERY = 4_000  # characters of one query that are read
MAX_QUERY_TERMS = 64  # distinct terms of one query, in order of appearance
# Every recall prunes alike, so `--hot` answers as the rest. FTS5 takes 0.9 µs a posting. Mean
# nDCG@10 on eval/dev: 0.511 unpruned; 0.512 with this at 10,000 memories, 0.507 at 50,000, 0.501 at
# 100,000, where the 90th percentile falls from 35 to 20 ms. The eight rarest alone: 0.505 at any
# size, and 47 ms at 100,000.
MAX_RARE = 24
MAX_POSTINGS = 20_000
MIN_RARE = 5
_CACHE_WORDS = 100_000  # about 25 MB when full, then it starts anew

# On eval/dev, dropped in documents and queries: mean nDCG@10 0.510; in queries only 0.504; kept
# 0.500. Prepositions of place and time (`before`, `under`) are not in the list: keeping them gave
# +0.001.
STOP_WORDS = frozenset(
    """
    a about again all also am an and any are as at be because been being both but by can cannot
    could d did do does doing don each eg few for from had has have having he her here hers herself
    him himself his how i ie if in into is it its itself just ll m me more most my myself no nor not
    now o of off on once only or other our ours ourselves out own please re s same she should so
    some such t than that the their theirs them themselves then there these they this those through
    to too us ve very was we were what when where which while who whom why will with would y you
    your yours yourself yourselves
    """.split()
)

# Separators become spaces; - . / _ join the parts of a name, + and # may end one.
# A string, not a dict: str.translate pays 0.3 µs for every distinct character that a dict lacks.
_SEPARATORS = "".join([c if c.isalnum() or c in "-./_+#" else " " for c in map(chr, range(128))])
_JOINTS = _SEPARATORS.translate(dict.fromkeys(map(ord, "-/+#"), " "))
_JOINING = "-./_+#"
# An address keeps its @: its parts, "gmail.com", are no names.
_IN_NAMES = _SEPARATORS[:64] + "@" + _SEPARATORS[65:]
_SQUEEZE = dict.fromkeys(map(ord, _JOINING))
# Typography that editors put into English text must not send it down the slow road.
_TYPOGRAPHY = dict.fromkeys(
    map(
        ord,
        "\u00a0\u00ab\u00b7\u00bb\u2013\u2014\u2018\u2019\u201c\u201d\u2022\u2026\u2190\u2192\u2713",
    ),
    " ",
)
_HEX = "0123456789abcdef"
_PUNCTUATION = "?!.,:;\"'()[]"


def terms(text: str) -> list[str]:
    """Terms of a document or a query, in order, repeats kept.

    Stop words are dropped, unless the text has nothing else: "who are we" as a
    whole memory stays findable by just these words. No letter or digit: [].
    """
    if len(text) > MAX_TEXT:
        text = text[:MAX_TEXT]
    # The full stop of a sentence goes at once: with it every last word would be a word of its own
    # in the cache.
    words = (
        text.translate(_SEPARATORS).replace(". ", " ").split() if text.isascii() else text.split()
    )
    out = list(chain.from_iterable(map(_WORDS.__getitem__, words)))
    if not out and words:
        words = text.lower().translate(_TYPOGRAPHY).translate(_SEPARATORS).split()
        out = [word for word in words if word in STOP_WORDS]
    return out


def ends(query: str, most: int = MAX_QUERY) -> str:
    """The first and last `most` / 2 characters: a question stands beside a pasted log."""
    if len(query) <= most:
        return query
    return query[: most // 2] + " " + query[-most // 2 :]


def query_terms(query: str) -> list[str]:
    """The distinct terms of a query: the first and the last ones, at most MAX_QUERY_TERMS."""
    distinct = list(dict.fromkeys(terms(ends(query))))
    if len(distinct) > MAX_QUERY_TERMS:
        distinct = distinct[: MAX_QUERY_TERMS // 2] + distinct[-MAX_QUERY_TERMS // 2 :]
    return distinct


def names(query: str) -> dict[str, str]:
    """{term: as written} of words that are written as names of code and tickets are, each whole:
    `readTimeout`, `upload_chunk`, `db/orders.sql`, `--max-retries`, #1234, ABC-12, 4f0d2c1. "e.g.",
    "and/or", "non-ASCII", "sha256", "kB", a bare number and what products and errors have,
    "OpenAI", are none.
    """
    found = {}
    # Other scripts end a name: "config.yaml—then", or no blanks beside it.
    for word in ends(query).encode("ascii", "replace").decode().translate(_IN_NAMES).split():
        bare = word.strip(_JOINING + "@")
        parts = "".join([c if c.isalnum() else " " for c in bare.lower()]).split()
        if len(bare) > MAX_WORD or all(len(part) == 1 or part in STOP_WORDS for part in parts):
            continue
        if "@" not in bare and _named(word, bare):
            found.update(dict.fromkeys(terms(bare)[-1:], bare))  # the whole stands behind its parts
    return found


def _named(word: str, bare: str) -> bool:
    if bare.isdigit():
        return "#" in word
    if "-" in bare and ("--" in word or (bare[0].isupper() and bare[-1].isdigit())):
        return True
    if len(bare) >= 7 and all(c in _HEX for c in bare):
        return any(c.isdigit() for c in bare)
    if "." in bare or "_" in bare or bare.count("/") > 1:
        return True
    humped = bare.isalnum() and bare[0].islower() and any(c.isupper() for c in bare)
    return humped and (len(bare) > 6 or bare[:2].islower())  # not "iPhone", "gRPC", "kB"


def content(query: str) -> str:
    """The query without its stop words, as written; "" if nothing else is in it.

    For the static table: the vector of `query + " " + content(query)` counts
    content words double ("how do we store times" is about storing times).
    """
    return " ".join(
        [word for word in ends(query).split() if word.strip(_PUNCTUATION).lower() not in STOP_WORDS]
    )


def match_expression(wanted: list[str]) -> str:
    """FTS5 query for documents with any of the terms; "" for none, which FTS5 rejects."""
    return " OR ".join(['"' + term.replace('"', '""') + '"' for term in wanted])


def rare(wanted: list[str], df: dict[str, int], n: int, k: int = MAX_RARE) -> list[str]:
    """The terms worth looking up among n documents, rarest first; `df` says in how many a term is.

    At most `k`, and no more once MAX_POSTINGS would be passed, but at least MIN_RARE. From 50
    documents on, a term of every second one is left out if others remain: FTS5 gives it no weight,
    and it costs most. Repeats and unknown terms are dropped; of equal terms the first comes first.
    """
    known = sorted(
        [term for term in dict.fromkeys(wanted) if df.get(term, 0) > 0], key=df.__getitem__
    )
    if n >= 50:
        known = [term for term in known if 2 * df[term] <= n] or known
    out: list[str] = []
    postings = 0
    for term in known[:k]:
        postings += df[term]
        if postings > MAX_POSTINGS and len(out) >= MIN_RARE:
            break
        out.append(term)
    return out


class _Words(dict[str, tuple[str, ...]]):
    """word as written -> its terms. Most have been seen before: 0.05 µs instead of 8."""

    def __missing__(self, word: str) -> tuple[str, ...]:
        found = tuple(_ascii_terms(word) if word.isascii() else _other_terms(word))
        if len(word) <= MAX_WORD:
            if len(self) >= _CACHE_WORDS:
                self.clear()
            self[word] = found
        return found


_WORDS = _Words()


def _ascii_terms(word: str) -> list[str]:
    """Terms of one ASCII word: its parts and, if it has several, the whole."""
    if word.isalpha() and (word.islower() or word[1:].islower() or word.isupper()):
        low = word.lower()
        return [] if low in STOP_WORDS else [stem(low[:MAX_WORD])]
    spaced = word.translate(_SEPARATORS)
    if " " in spaced:
        return [term for part in spaced.split() for term in _WORDS[part]]
    name = word[: MAX_WORD * 8].strip(_JOINING)
    if len(name) == 1 and word.endswith((name + "++", name + "#")):
        return [name.lower() + ("plusplus" if word[-1] == "+" else "sharp")]
    out: list[str] = []
    pieces = 0
    for segment in name.translate(_JOINTS).split()[:MAX_PARTS]:
        numbers = segment.lstrip("vV").split(".")
        if len(numbers) > 1 and "".join(numbers).isdigit():
            out += ["·".join(numbers[:n])[:MAX_WORD] for n in range(2, min(len(numbers), 5) + 1)]
        else:
            for piece in segment.split(".")[:MAX_PARTS]:
                out += _name_terms(piece)
                pieces += 1
    if pieces > 1 and len(name) <= MAX_WORD:
        out.append(stem(name.translate(_SQUEEZE).lower()))
    return out


def _name_terms(name: str) -> list[str]:
    """`readTimeout_ms` -> read, timeout, ms, readtimeoutms; E1234 -> 1234, e1234."""
    whole = name.replace("_", "").casefold()[:MAX_WORD]
    if len(whole) >= 7 and not whole.strip(_HEX) and not whole.isalpha() and not whole.isdigit():
        return [whole, stem(whole[:7])] if len(whole) > 7 else [whole]
    parts = [part for side in name.split("_") for part in _humps(side)][:MAX_PARTS]
    if len(parts) < 2:
        return [] if whole in STOP_WORDS or not whole else [stem(whole)]
    out = [stem(part[:MAX_WORD]) for part in parts if len(part) > 1 and part not in STOP_WORDS]
    return [*out, stem(whole)]


def _humps(name: str) -> list[str]:
    """HTTPServer2 -> http, server, 2."""
    out: list[str] = []
    start = 0
    for i in range(1, len(name)):
        here, before = name[i], name[i - 1]
        hump = here.isupper() and (before.islower() or name[i + 1 : i + 2].islower())
        if hump or here.isdigit() != before.isdigit():
            out.append(name[start:i].casefold())
            start = i
    if name:
        out.append(name[start:].casefold())
    return out


# Accents and points that one writer sets and the next leaves out, and marks nobody sees.
_MARKS = (
    "[\xad\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u064b-\u065f\u0670\u1ab0-\u1aff\u1dc0-\u1dff"
    "\u200b-\u200f\u20d0-\u20ff\u2060\ufe00-\ufe0f\ufe20-\ufe2f\ufeff]+"
)
# `\w` lacks the vowel signs of Indic and South-East Asian scripts: without them every word falls
# apart.
_SIGNS = (
    "\u0900-\u0963\u0966-\u0df3\u0e31-\u0e4e\u0eb1-\u0ecd\u0f71-\u0f84\u102b-\u103e\u17b4-\u17d3"
)
# Scripts written without spaces: overlapping pairs of characters (Hangul too, for its endings).
_PAIRED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3041-\u30ff\u3130-\u318f"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)


def _other_terms(chunk: str) -> list[str]:
    """Terms of what stands between two spaces and is not ASCII."""
    plain = chunk.translate(_TYPOGRAPHY)
    if plain.isascii():
        return [term for part in plain.split() for term in _WORDS[part]]
    import re  # only now: see the module's docstring
    from unicodedata import normalize

    folded = normalize("NFC", re.sub(_MARKS, "", normalize("NFKD", chunk)))[:MAX_TEXT]
    out: list[str] = []
    for part in re.findall(rf"[{_PAIRED}]+|(?:(?![{_PAIRED}])[\w{_SIGNS}+#./-])+", folded):
        if part.isascii():
            out += _WORDS[part]
        elif re.match(f"[{_PAIRED}]", part):
            letters = re.sub(rf"[^\w{_SIGNS}]+", "", part)
            out += [letters[i : i + 2] for i in range(len(letters) - 1)] or [*letters]
        else:
            for name in re.findall(rf"[\w{_SIGNS}]+", part):
                out += _name_terms(name[: MAX_WORD * 8])
    return out
