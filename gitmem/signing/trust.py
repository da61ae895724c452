"""The policy `mem.trust`: which records may be handed out unasked, and their signatures' states.

The policy. `all`: every record. `signed`: records with a valid signature, by any key.
`allowed-signers`: records that git's own keys vouch for. A record below the policy is kept, shown
and marked; it is never injected.

Promise: a signature is checked once and its state kept in the cache, until the keys or their
settings change (the stamp). An unchecked signature counts as below the policy. Under `all` nothing
is checked. Standard library only; `signature` and `keys` are loaded for a check.
"""

from __future__ import annotations

import os

from ..core import record
from ..core.digest import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ..core.record import Record
    from ..engine.cache import Cache
    from ..engine.filters import Filter
    from ..git.config import Config
    from .signature import Verdict

# As `signature` has them, which is not for the hot path; unverified: there is a signature, and
# nobody has looked yet.
GOOD, UNTRUSTED, UNVERIFIED, NONE = "good", "untrusted", "unverified", "none"
_ACCEPTED: dict[str, tuple[str, ...]] = {"signed": (GOOD, UNTRUSTED), "allowed-signers": (GOOD,)}
_RULES = "1"  # of checking; another number has everything checked again

AT_ONCE = 20  # signatures a prompt waits for: 0.1 s
MANY = 500  # and a person: 3 s
_SETTINGS = (
    "gpg.program gpg.openpgp.program gpg.ssh.program gpg.x509.program gpg.mintrustlevel "
    "gpg.ssh.allowedsignersfile gpg.ssh.revocationfile gnupghome"
)
_FILES = "allowedsignersfile revocationfile"
_KEYRINGS = "pubring.kbx pubring.gpg trustdb.gpg trustlist.txt public-keys.d/pubring.db gpg.conf"
_SECRETLESS = (
    "v op id n at created signed_at signature salt commit base patch branch_patch after lines "
    "supersedes new"
)


class Trust:
    """The policy of one repository. `home`: where relative names in git's settings start."""

    def __init__(self, settings: Config, home: str) -> None:
        self.policy = settings["trust"]
        self.settings = settings
        self.home = home
        self.most = MANY  # signatures to check before a reader answers
        self._stamp = ""

    @property
    def strict(self) -> bool:
        return self.policy != "all"

    def accepts(self, state: str) -> bool:
        """Whether the policy lets a record with such a signature be injected."""
        return state in _ACCEPTED.get(self.policy, (state,))

    def stamp(self) -> str:
        """Names the state of all keys and key settings that checking looks at."""
        if not self._stamp:
            git = self.settings.git
            ring = git.get("gnupghome") or "~/.gnupg"
            files = [git.get(f"gpg.ssh.{name}", "") for name in _FILES.split()]
            files += [os.path.join(ring, name) for name in _KEYRINGS.split()]
            facts = [_RULES, *(git.get(name, "") for name in _SETTINGS.split())]
            facts += [self._seen(name) for name in files]
            text = "\n".join(facts).encode("utf-8", "surrogateescape")
            self._stamp = sha256(text).hexdigest()[:32]
        return self._stamp

    def _seen(self, name: str) -> str:
        try:
            found = os.stat(os.path.join(self.home, os.path.expanduser(name))) if name else None
        except OSError:
            found = None
        return f"{found.st_ino} {found.st_size} {found.st_mtime_ns}" if found else ""

    def current(self, cache: Cache) -> bool:
        """Whether the states in the cache were found with the present keys."""
        return cache.meta("keys") == self.stamp()

    def injectable(self, cache: Cache, wanted: Filter) -> Filter:
        """`wanted`, narrowed to what may be injected unasked; the same object for everything."""
        if not self.strict or self._nothing_below(cache):
            return wanted
        return wanted.but(signatures=_ACCEPTED[self.policy] if self.current(cache) else ())

    def _nothing_below(self, cache: Cache) -> bool:
        """Whether all is known to be accepted: a filter would cost more than the search."""
        return (
            self.current(cache)
            and cache.meta("checked") == str(_last(cache))
            and all(map(self.accepts, cache.meta("states", UNVERIFIED).split()))
        )

    def public(
        self, cache: Cache, rows: Sequence[int], signed: Sequence[bool]
    ) -> list[dict[str, object] | None]:
        """What readers are told of each memory row; None without signature, where none is asked."""
        self.catch_up(cache, self.most)
        known = self.states(cache, [row for row, has in zip(rows, signed, strict=True) if has])
        out: list[dict[str, object] | None] = []
        for row, has in zip(rows, signed, strict=True):
            state, signer = known.get(row, (UNVERIFIED, "")) if has else (NONE, "")
            accepted = {"accepted": self.accepts(state)} if self.strict else {}
            said: dict[str, object] = {"state": state, "signer": signer or None, **accepted}
            out.append(said if has or self.strict else None)
        return out

    def states(self, cache: Cache, rows: Sequence[int]) -> dict[int, tuple[str, str]]:
        """{memory row: (state, signer)} of the rows whose signature has been checked."""
        if not rows or not self.current(cache):
            return {}
        found = cache.among(
            "SELECT m.row, s.state, s.signer FROM memory m JOIN signature s ON s.n = m.line"
            " WHERE m.row IN {}",
            rows,
        )
        return {row: (state, signer) for row, state, signer in found}

    def look(self, cache: Cache, rows: Sequence[int]) -> None:
        """Checks the signatures of these memory rows now, if nobody has."""
        known = self.states(cache, rows)
        sql = "SELECT l.n, l.raw FROM memory m JOIN line l ON l.n = m.line WHERE m.row = ?"
        lines = [cache.db.execute(sql, (row,)).fetchone() for row in rows if row not in known]
        self.keep(cache, self.check([(n, raw) for n, raw in lines if b'"signature"' in raw]))

    def catch_up(self, cache: Cache, most: int | None = MANY) -> bool:
        """Checks the texts that the cache has taken in since, at most `most` signatures, where the
        policy is strict; False where some still wait.
        """
        if not self.strict:
            return True
        known = cache.meta("checked") if self.current(cache) else ""
        last = _last(cache)
        if known == str(last):
            return True
        if most == 0 or not cache.writable:
            return False
        have = "AND n NOT IN (SELECT n FROM signature)" if self.current(cache) else ""
        sql = (
            "SELECT n, raw FROM line WHERE n > ? AND op IN ('create', 'edit') AND instr(raw, ?)"
            f" {have} ORDER BY n LIMIT ?"
        )
        limit = -1 if most is None else most + 1
        found = cache.db.execute(sql, (int(known or 0), b'"signature"', limit)).fetchall()
        end = last
        if len(found) == limit:
            found.pop()
            end = found[-1][0]
        return self.keep(cache, self.check(found), (known, str(end))) and end == last

    def check(
        self, lines: Iterable[tuple[int, bytes]], tell: Callable[[int], None] = lambda n: None
    ) -> list[tuple[int, Record, Verdict]]:
        """[(line, its record, verdict)], each checked now."""
        records = [(n, r) for n, raw in lines if (r := record.parse(raw))]
        if not records:
            return []
        from .keys import Keys
        from .signature import check_all

        found = check_all(Keys(self.settings, self.home), [r for _, r in records], tell)
        return [(n, r, verdict) for (n, r), verdict in zip(records, found, strict=True)]

    def keep(
        self,
        cache: Cache,
        found: list[tuple[int, Record, Verdict]],
        looked: tuple[str, str] | None = None,
    ) -> bool:
        """Stores verdicts, and up to which line all were looked at (before, now); False where
        others keep the cache or changed it meanwhile.
        """
        rows = [
            (v.state, v.signer, n, bytes.fromhex(r.version)) for n, r, v in found if v.state != NONE
        ]
        if not cache.writable or not (rows or looked):
            return False
        with cache.writing(0.5) as held:
            if not held:
                return False
            if not self.current(cache):
                cache.db.execute("DELETE FROM signature")
                cache.db.execute("DELETE FROM meta WHERE key = 'checked'")
                cache.set_meta("keys", self.stamp())
            elif looked and cache.meta("checked") != looked[0]:
                return False
            if looked:
                cache.set_meta("checked", looked[1])
            # A purge may have taken a line and given its number to another: the version says which
            # one was checked.
            cache.db.executemany(
                "INSERT OR REPLACE INTO signature SELECT n, ?, ? FROM line WHERE n = ? AND"
                " version = ?",
                rows,
            )
            states = cache.db.execute(
                "SELECT DISTINCT CASE WHEN m.row IN (SELECT row FROM united) THEN ?1 ELSE"
                " coalesce(s.state, ?1) END FROM memory m LEFT JOIN signature s ON s.n = m.line"
                " WHERE m.status = 0",
                (NONE,),
            )
            cache.set_meta("states", " ".join(sorted(state for (state,) in states)))
        return True


def remarks(settings: Config, home: str) -> list[tuple[bool, str, str]]:
    """(whether that is well, a text, a hint) about signing and the policy, if one is on."""
    out: list[tuple[bool, str, str]] = []
    git, policy = settings.git, settings["trust"]
    if settings.signing:
        kind, key = git.get("gpg.format", "openpgp"), git.get("user.signingkey")
        if kind == "ssh" and not key and not git.get("gpg.ssh.defaultkeycommand"):
            text = "memories are to be signed, and no SSH key is named"
            out.append((False, text, "`git config user.signingkey` names one"))
        else:
            text = f"memories are signed ({kind}, {key or settings.committer})"
            out.append((True, text, ""))
    if policy == "all":
        return out
    out.append((True, f"mem.trust is {policy}: other memories are shown, not injected", ""))
    if not settings.signing:
        text = f"mem.trust is {policy} and signing is off: your own new memories will not be"
        out.append((False, f"{text} injected", "`git config mem.sign true` signs them"))
    allowed = git.get("gpg.ssh.allowedsignersfile", "")
    path = os.path.join(home, os.path.expanduser(allowed))
    inside = os.path.realpath(path).startswith(os.path.join(os.path.realpath(home), ""))
    if policy == "allowed-signers" and allowed and not os.path.isfile(path):
        text = f"no file '{path}', which gpg.ssh.allowedSignersFile names: no SSH key is trusted"
        out.append((False, text, "`git help config` describes it"))
    elif allowed and inside and "/.git/" not in path:
        text = f"the allowed signers file '{path}' is in the working tree: who can push to a"
        out.append((False, f"{text} branch can add a key", "keep it outside of the repository"))
    return out


def _last(cache: Cache) -> int:
    return int(cache.db.execute("SELECT coalesce(max(n), 0) FROM line").fetchone()[0])


def secrets(lines: Iterable[bytes]) -> list[tuple[str, str, str, str]]:
    """[(version, memory id, field, rule)] of lines whose text looks like a credential.

    The id is "" for lines that no memory's id finds: `git mem purge` takes their version.
    """
    from ..core import redact

    without_text = frozenset(_SECRETLESS.split())
    out = []
    for line in lines:
        parsed = record.parse(line)
        if parsed is None:
            found = [("", finding) for finding in redact.find(line.decode("utf-8", "replace"))[:1]]
        else:
            found = redact.check({k: v for k, v in parsed.data.items() if k not in without_text})
        version = parsed.version if parsed else record.version_of(line.strip())
        id = parsed.id if parsed and parsed.op in record.MEMORY_OPS else ""
        out += [(version, id, field, finding.rule) for field, finding in found]
    return out
