"""JSON without the `json` package, which costs every prompt 6 ms: it loads `re` and `enum`.

Promise: `loads` gives and refuses what `json.loads` does (ValueError,
RecursionError), byte for byte the same values; `encoder` writes what
`json.JSONEncoder` writes. The work is done by the C half of the package; where
Python has none, or bytes are no plain UTF-8, the package itself does it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

try:
    import _json
except ImportError:
    _json = None  # type: ignore[assignment]

_SPACE = " \t\n\r"


class _Context:
    """What the C scanner asks its decoder for."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


_scan = getattr(_json, "make_scanner", lambda context: None)(_Context())


def loads(text: str | bytes) -> Any:
    """The value of one JSON document."""
    if _scan is None or (
        type(text) is not str
        and (b"\0" in text or text.startswith((b"\xef\xbb\xbf", b"\xfe\xff", b"\xff\xfe")))  # type: ignore[arg-type]
    ):
        return _whole(text)
    if type(text) is not str:
        text = text.decode("utf-8", "surrogatepass")  # type: ignore[union-attr]
    start = 0
    if text[:1] in _SPACE:
        start = len(text) - len(text.lstrip(_SPACE))
    try:
        value, end = _scan(text, start)
    except StopIteration:
        raise ValueError("no JSON value") from None
    except SystemError:  # the C half wants to raise an exception of the package, not loaded here
        return _whole(text)
    if end != len(text) and text[end:].strip(_SPACE):
        raise ValueError("more than one JSON value")
    return value


def whole(text: str) -> str:
    """A text as UTF-8 can hold it: surrogate pairs become one character, lone halves U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def encoder(*, ensure_ascii: bool = False, sort_keys: bool = False) -> Callable[[Any], str]:
    """A function that writes one value, as `json.JSONEncoder(...).encode` does; it takes no cycles
    (RecursionError).
    """
    make: Any = getattr(_json, "c_make_encoder", None) or getattr(_json, "make_encoder", None)
    try:
        quote = _json.encode_basestring_ascii if ensure_ascii else _json.encode_basestring
        iterate = make(None, _refuse, quote, None, ":", ",", sort_keys, False, False)
    except (AttributeError, TypeError):
        import json

        return json.JSONEncoder(
            ensure_ascii=ensure_ascii,
            sort_keys=sort_keys,
            separators=(",", ":"),
            allow_nan=False,
            check_circular=False,
        ).encode
    join = "".join

    def encode(value: Any) -> str:
        return str(quote(value)) if type(value) is str else join(iterate(value, 0))

    return encode


def _refuse(value: object) -> object:
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _whole(text: str | bytes) -> Any:
    import json

    return json.loads(text)


dumps = encoder()  # readable, compact, keys in their order
