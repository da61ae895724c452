"""SHA-1 (for git object ids) and SHA-256 without OpenSSL: `hashlib` costs 3 ms to import, which
every prompt would pay.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hashlib import sha1, sha256
else:
    try:
        from _sha1 import sha1
    except ImportError:
        from hashlib import sha1
    try:
        from _sha2 import sha256  # Python >= 3.12
    except ImportError:
        try:
            from _sha256 import sha256  # Python 3.11
        except ImportError:
            from hashlib import sha256

__all__ = ["sha1", "sha256"]
