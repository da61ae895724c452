"""Settings: `git config mem.*`, `GIT_MEM_*`, and team policy in a committed `.gitmem.toml`.

Promise: one table describes every setting (name, kind, default, meaning); help, documents and
validation come from it. Precedence: environment, git config, policy file, default. `config_read`
reads the files.
"""

from __future__ import annotations

from ..core.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# name: (kind, default, policy, meaning); kinds: bool, int, tokens (int or auto), share (0 to 1),
# text, or a tuple of words
SETTINGS: dict[str, tuple[str | tuple[str, ...], str, bool, str]] = {
    "enabled": ("bool", "true", False, "false switches git mem off in this repository"),
    "ref": (
        "text",
        "mem",
        False,
        "notes namespace: memories live in refs/notes/<ref>/team and refs/notes/<ref>/private",
    ),
    "scope": (
        ("team", "private"),
        "team",
        True,
        "where `remember` stores when neither --team nor --private is given",
    ),
    "limit": ("int", "8", True, "how many hits `recall` shows when -n is not given"),
    "autoSync": (
        "bool",
        "false",
        False,
        (
            "true shares memories with a remote whenever you push to it; needs `git mem install git"
            " --pre-push`"
        ),
    ),
    "maxBody": ("int", "65536", True, "largest text of one memory, in bytes (at most 524288)"),
    "remote": (
        "text",
        "",
        False,
        (
            "the remote that `sync`, `push` and `pull` use; empty: where git pushes the branch to,"
            " `origin`, or the only one"
        ),
    ),
    "contextBudget": (
        "tokens",
        "auto",
        True,
        (
            "tokens of what a session is told at its start (some 2800 fit); auto: 500 to 3000, by"
            " the number of memories and the work on the branch"
        ),
    ),
    "sign": (
        ("auto", "true", "false"),
        "auto",
        False,
        "sign every record with git's own signing key; auto: where `commit.gpgSign` is true",
    ),
    "trust": (
        ("all", "signed", "allowed-signers"),
        "all",
        False,
        (
            "what may be handed to an agent unasked: all, only what has a valid signature, or only"
            " what somebody signed whom git's keys name"
        ),
    ),
    "promptContext": (
        "bool",
        "false",
        False,
        (
            "true gives an agent, with each prompt, the memories that answer it; `git mem install"
            " claude` sets it"
        ),
    ),
    "readContext": (
        "bool",
        "false",
        False,
        "true gives an agent, before it reads or edits a file, what is known about that file",
    ),
    "autoMemory": (
        "bool",
        "true",
        False,
        (
            "false: what Claude Code notes by itself is not read when a session starts; `git mem"
            " import claude` still does"
        ),
    ),
    "suggestions": (
        "int",
        "5",
        True,
        (
            "how many of one session's suggestions `review` puts before you; the rest waits in its"
            " queue"
        ),
    ),
    "capture": (
        ("false", "commits", "all"),
        "false",
        False,
        (
            "what git mem keeps by itself, in private notes: commits (messages that state a"
            " decision, a lesson, a cause), all (also what is said in agents' sessions), or nothing"
        ),
    ),
    "consolidate": (
        "bool",
        "true",
        False,
        (
            "false: where capture is on, the end of a session does not look for memories that"
            " repeat or contradict each other; `git mem consolidate` still does"
        ),
    ),
    "model": (
        "text",
        "",
        False,
        (
            "the language model that capture asks: a name of `git mem model list`, a path, or none;"
            " empty: the default one, if it was fetched"
        ),
    ),
    "embedModel": (
        "text",
        "",
        False,
        (
            "the model that makes better vectors for `recall`: a name or a path; empty: the"
            " packaged table and encoder"
        ),
    ),
    "encoder": (
        "bool",
        "true",
        False,
        (
            "false: the packaged encoder makes no vectors of memories, is asked no question and"
            " reads no captured turn; words and the packaged table answer alone"
        ),
    ),
    "captureAuto": ("share", "0.95", False, "captured by itself from this confidence on, 0 to 1"),
    "captureSuggest": (
        "share",
        "0.5",
        False,
        "offered to `git mem review` from this confidence on, 0 to 1",
    ),
    "secrets": (
        ("refuse", "allow"),
        "refuse",
        False,
        "refuse texts that look like credentials, on every write",
    ),
}
BACKUPS = "refs/git-mem/backup/"  # second names of the tips of our notes refs
# Used in the place of an invalid value: a mistyped policy must not hand out more than the intended
# one.
_SAFE = {"trust": "allowed-signers"}


class Config:
    """The settings of one repository, and the user's identity for records."""

    def __init__(
        self,
        values: dict[str, str],
        name: str,
        email: str,
        origins: dict[str, str],
        git: dict[str, str] | None = None,
    ) -> None:
        self._values = values
        self.name = name
        self.email = email
        self.origins = origins
        self.git = git or {}  # git's own settings that we look at, names in lower case

    def __getitem__(self, key: str) -> str:
        return self._values[key]

    def flag(self, key: str) -> bool:
        return self._values[key] == "true"

    @property
    def encodes(self) -> bool:
        """Whether the worker makes the encoder's vectors: it is on, and no model replaces it."""
        return self.flag("encoder") and self["embedModel"].lower() in ("", "none")

    def number(self, key: str) -> int:
        return int(self._values[key])

    def share(self, key: str) -> float:
        return float(self._values[key])

    @property
    def author(self) -> str:
        return f"{self.name} <{self.email}>"

    @property
    def committer(self) -> str:
        """Whose key signs where `user.signingKey` names none."""
        return (
            f"{self.git.get('committer.name') or self.name}"
            f" <{self.git.get('committer.email') or self.email}>"
        )

    @property
    def signing(self) -> bool:
        """Whether records are signed."""
        return self["sign"] == "true" or (
            self["sign"] == "auto" and is_true(self.git.get("commit.gpgsign", ""))
        )

    @property
    def team_ref(self) -> str:
        return f"refs/notes/{self['ref']}/team"

    @property
    def private_ref(self) -> str:
        return f"refs/notes/{self['ref']}/private"

    def ref(self, scope: str) -> str:
        return self.team_ref if scope == "team" else self.private_ref


def backup_of(ref: str) -> str:
    """The backup of a notes ref: a second ref that fetches with `--prune` do not touch."""
    return BACKUPS + ref.removeprefix("refs/notes/")


def build(
    found: dict[str, str],
    policy: dict[str, str],
    environ: Mapping[str, str],
    warn: Callable[[str], None] = lambda line: None,
    strict: bool = True,
) -> Config:
    """The settings, from git's configuration (`found`), the policy file and the environment.

    Raises UsageError for an invalid value; if not `strict` (so that doctor and config still
    work) it warns and uses the default, or the strictest policy. An invalid value in the committed
    policy file never raises: it would stop the whole team.
    """
    found = dict(found)
    values: dict[str, str] = {}
    origins: dict[str, str] = {}
    for name, (kind, default, _, _) in SETTINGS.items():  # an empty value counts as none
        variable = "GIT_MEM_" + name.upper()
        options: tuple[tuple[str, str | None], ...] = (
            (variable, environ.get(variable)),
            ("git config", found.get("mem." + name.lower())),
            (".gitmem.toml", policy.get(name)),
            ("default", default),
        )
        values[name], origins[name] = default, "default"
        for origin, text in options:
            if text:
                try:
                    values[name] = check(name, kind, text)
                except UsageError as e:
                    if strict and origin != ".gitmem.toml":
                        raise
                    if origin != ".gitmem.toml":  # doctor names those
                        warn(f"warning: {e.message}; using {_SAFE.get(name, 'the default')}")
                    if name not in _SAFE:
                        continue
                    values[name] = _SAFE[name]
                origins[name] = origin
                break
    if environ.get("GIT_MEM_DISABLE", "") not in ("", "0"):
        values["enabled"], origins["enabled"] = "false", "GIT_MEM_DISABLE"
    names = (environ.get("GIT_AUTHOR_NAME"), found.get("author.name"), found.get("user.name"))
    author = next(filter(None, names), None) or _login(environ)
    emails = (environ.get("GIT_AUTHOR_EMAIL"), found.get("author.email"), found.get("user.email"))
    email = next(filter(None, emails), None) or environ.get("EMAIL") or ""
    for name in ("GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GNUPGHOME"):
        if environ.get(name):
            found[name.lower().removeprefix("git_").replace("_", ".")] = _plain(environ[name])
    return Config(
        values,
        _plain(author),
        _plain(email),
        origins,
        {k: v for k, v in found.items() if not k.startswith("mem.")},
    )


def check(name: str, kind: str | tuple[str, ...], value: str) -> str:
    """The normal form of a value, or UsageError."""
    word = value.strip()
    if kind == "bool" or isinstance(kind, tuple):
        return _check_word(name, ("true", "false") if kind == "bool" else kind, word)
    if kind == "tokens" and word.lower() == "auto":
        return "auto"
    if kind in ("int", "tokens"):
        if not (word.isascii() and word.isdigit() and len(word) < 10 and int(word) > 0):
            raise UsageError(f"setting 'mem.{name}' is '{word}', not a positive number")
        return str(int(word))
    if kind == "share":
        digits = word.replace(".", "", 1)
        if not (digits.isascii() and digits.isdigit() and len(word) < 20 and float(word) <= 1):
            raise UsageError(f"setting 'mem.{name}' is '{word}', not a number from 0 to 1")
        return f"{float(word):g}"
    if name == "ref" and not all(map(_is_ref_part, word.split("/"))):
        raise UsageError(
            f"setting 'mem.ref' is '{word}', which is no ref name",
            hint="a plain word like `mem` is enough",
        )
    return word


def _check_word(name: str, words: str | tuple[str, ...], word: str) -> str:
    same = {"yes": "true", "on": "true", "1": "true", "no": "false", "off": "false", "0": "false"}
    low = word.lower()
    for found in (same.get(low, low), word):
        if found in words and (found in ("true", "false") or found == word):
            return found
    if name == "trust" and word == "allowed":
        return "allowed-signers"
    expected = "true or false" if words == ("true", "false") else f"one of {', '.join(words)}"
    raise UsageError(f"setting 'mem.{name}' is '{word}', not {expected}")


def _is_ref_part(part: str) -> bool:
    odd = any(c in part for c in " ~^:?*[\\@{") or ".." in part or not part.isprintable()
    return bool(part) and part[0] not in ".-" and not part.endswith((".lock", ".")) and not odd


def is_true(value: str) -> bool:
    """A boolean as git reads it."""
    word = value.strip().lower()
    return word in ("true", "yes", "on") or (word.lstrip("+-").isdecimal() and int(word) != 0)


def _login(environ: Mapping[str, str]) -> str:
    return environ.get("LOGNAME") or environ.get("USER") or "unknown"


def _plain(text: str) -> str:
    return (
        "".join(c for c in text if c not in "<>\n\r\0").strip().encode("utf-8", "replace").decode()
    )
