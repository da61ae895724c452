"""Settings: `git config mem.*`, `GIT_MEM_*`, and team policy in a committed `.gitmem.toml`.

Promise: one table describes every setting (name, kind, default, meaning); help, documents and
validation come from it. Precedence: environment, git config, policy file, default. `config_read`
reads the files.
"""

from __future__ import annotations

import os

from ..core.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# name | kind | default | whether `.gitmem.toml` may set it | meaning. Kinds: bool, int, tokens (int
# or auto), share (0 to 1), text, or the words that are allowed.
_TABLE = """
enabled | bool | true | - |
    false switches git mem off in this repository
ref | text | mem | - |
    notes namespace: refs/notes/<ref>/team and refs/notes/<ref>/private;
    after a change: `git mem index --rebuild`
scope | team/private | team | policy |
    where `remember` stores by default
limit | int | 8 | policy |
    how many hits `recall` shows without -n
history | recall/prompts/false | recall | policy |
    where commit messages answer: in `recall`, also in prompts that no memory answers, or nowhere
historyLimit | int | 50000 | policy |
    how many commits are searchable, the newest
autoSync | bool | false | - |
    true shares memories with a remote whenever you push to it; needs `git mem install git
    --pre-push`
maxBody | int | 65536 | policy |
    largest text of one memory, in bytes (at most 524288)
remote | text | "" | - |
    the remote that `sync`, `push` and `pull` use; empty: where git pushes the branch to,
    `origin`, or the only one
contextBudget | tokens | auto | policy |
    tokens of what a session is told at its start (some 2800 fit); auto: 500 to 3000, by the
    number of memories and the work on the branch
sign | auto/true/false | auto | - |
    sign every record with git's own signing key; auto: where `commit.gpgSign` is true
trust | all/signed/allowed-signers | all | - |
    what may be handed to an agent unasked: all, what has a valid signature, or what
    somebody signed whom git's keys name
promptContext | bool | false | - |
    true gives an agent, with each prompt, the memories that answer it; `git mem install
    claude` sets it
readContext | bool | false | - |
    true gives an agent, before it reads or edits a file, what is known about that file
autoMemory | bool | true | - |
    false: what Claude Code notes by itself is not read
suggestions | int | 5 | policy |
    how many of one session's suggestions `review` shows
capture | false/commits/all | false | - |
    what git mem keeps by itself, in private notes: of commits' messages, all (also of agents'
    sessions), or nothing
consolidate | bool | true | - |
    false: capture does not look for memories that repeat or contradict each other
model | text | "" | - |
    the language model that capture asks: a name of `git mem model list`, a path, or none;
    empty: the default one, if it was fetched
embedModel | text | "" | - |
    the embedding model that takes the place of the packaged encoder, in prompts where the
    session runs the MCP server: a name or a path; empty: none
encoder | bool | true | - |
    false: words and the packaged table answer, without the packaged encoder
captureAuto | share | 0.9 | - |
    captured by itself from this confidence on
captureSuggest | share | 0.5 | - |
    offered to `git mem review` from this confidence on
secrets | refuse/allow | refuse | - |
    refuse texts that look like credentials, on every write
"""


def _settings() -> dict[str, tuple[str | tuple[str, ...], str, bool, str]]:
    """{name: (kind, default, whether it is a policy, meaning)}."""
    out: dict[str, tuple[str | tuple[str, ...], str, bool, str]] = {}
    for row in _TABLE.strip().replace("\n    ", " ").split("\n"):
        name, kind, default, policy, meaning = row.split(" | ")
        words = tuple(kind.split("/"))
        out[name] = words if words[1:] else kind, default.strip('"'), policy == "policy", meaning
    return out


SETTINGS = _settings()
BACKUPS = "refs/git-mem/backup/"  # second names of the tips of our notes refs
# Used in the place of an invalid value: a mistyped policy must not hand out more.
_SAFE = {"trust": "allowed-signers"}


class Config:
    """The settings of one repository, and the user's identity for records."""

    def __init__(
        self,
        values: dict[str, str],
        name: str,
        email: str,
        origins: dict[str, str],
        git: dict[str, str],
    ) -> None:
        self._values = values
        self.name = name
        self.email = email
        self.origins = origins
        self.git = git  # git's own settings that we look at, names in lower case

    def __getitem__(self, key: str) -> str:
        return self._values[key]

    def flag(self, key: str) -> bool:
        return self._values[key] == "true"

    def number(self, key: str) -> int:
        return int(self._values[key])

    def share(self, key: str) -> float:
        return float(self._values[key])

    @property
    def encodes(self) -> bool:
        """Whether the worker makes vectors, of the encoder or of the model that replaces it."""
        return self.flag("encoder") or self.replaced

    @property
    def replaced(self) -> bool:
        """Whether a chosen model takes the place of the encoder."""
        return self["embedModel"].lower() not in ("", "none")

    @property
    def author(self) -> str:
        return f"{self.name} <{self.email}>"

    @property
    def committer(self) -> str:
        """Whose key signs where `user.signingKey` names none."""
        name = self.git.get("committer.name") or self.name
        return f"{name} <{self.git.get('committer.email') or self.email}>"

    @property
    def signing(self) -> bool:
        auto = self["sign"] == "auto" and is_true(self.git.get("commit.gpgsign", ""))
        return auto or self.flag("sign")

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


def variable_of(name: str) -> str:
    """The environment variable that goes before a setting."""
    return "GIT_MEM_" + ("EMBED_MODEL" if name == "embedModel" else name.upper())


def build(
    found: dict[str, str],
    policy: dict[str, str],
    environ: Mapping[str, str],
    warn: Callable[[str], None] = lambda line: None,
    strict: bool = True,
) -> Config:
    """The settings, from git's configuration (`found`), the policy file and the environment.

    Raises UsageError for an invalid value; if not `strict` it warns and uses the default, or the
    strictest policy. An invalid value in the committed policy file never raises.
    """
    values: dict[str, str] = {}
    origins: dict[str, str] = {}
    for name, (kind, default, _, _) in SETTINGS.items():
        variable = variable_of(name)
        values[name], origins[name] = default, "default"
        for origin, text in (
            (variable, environ.get(variable)),
            ("git config", found.get("mem." + name.lower())),
            (".gitmem.toml", policy.get(name)),
        ):
            if not text:  # an empty value counts as none
                continue
            try:
                values[name] = check(name, kind, text)
            except UsageError as e:
                if origin != ".gitmem.toml":  # doctor names those
                    if strict:
                        raise
                    warn(f"warning: {e.message}; using {_SAFE.get(name, 'the default')}")
                if name not in _SAFE:
                    continue
                values[name] = _SAFE[name]
            origins[name] = origin
            break
    if environ.get("GIT_MEM_DISABLE", "") not in ("", "0"):
        values["enabled"], origins["enabled"] = "false", "GIT_MEM_DISABLE"

    def who(what: str, *others: str) -> str:
        first = environ.get(f"GIT_AUTHOR_{what.upper()}")
        given = (first, found.get(f"author.{what}"), found.get(f"user.{what}"))
        return _plain(next(filter(None, (*given, *map(environ.get, others))), ""))

    git = {key: value for key, value in found.items() if not key.startswith("mem.")}
    for name in ("GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GNUPGHOME"):
        if environ.get(name):
            git[name.lower().removeprefix("git_").replace("_", ".")] = _plain(environ[name])
    name = who("name", "LOGNAME", "USER")
    return Config(values, name or "unknown", who("email", "EMAIL"), origins, git)


def check(name: str, kind: str | tuple[str, ...], value: str) -> str:
    """The normal form of a value, or UsageError."""
    word = value.strip()
    if kind == "bool":
        kind = ("true", "false")
    if isinstance(kind, tuple):
        known = _SAME.get(word.lower(), word)
        if known in kind:
            return known
        expected = "true or false" if kind == ("true", "false") else f"one of {', '.join(kind)}"
        raise UsageError(f"setting 'mem.{name}' is '{word}', not {expected}")
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
        hint = "a plain word like `mem` is enough"
        raise UsageError(f"setting 'mem.ref' is '{word}', which is no ref name", hint)
    return word


_SAME = {
    **dict.fromkeys(("true", "yes", "on", "1"), "true"),
    **dict.fromkeys(("false", "no", "off", "0"), "false"),
    "allowed": "allowed-signers",
}


def _is_ref_part(part: str) -> bool:
    odd = any(c in part for c in " ~^:?*[\\@{") or ".." in part or not part.isprintable()
    return bool(part) and part[0] not in ".-" and not part.endswith((".lock", ".")) and not odd


def is_true(value: str) -> bool:
    """A boolean as git reads it."""
    word = value.strip().lower()
    return word in ("true", "yes", "on") or (word.lstrip("+-").isdecimal() and int(word) != 0)


def global_file(environ: Mapping[str, str]) -> str:
    """The file that `git config --global` writes, "" for none."""
    named, home = environ.get("GIT_CONFIG_GLOBAL", ""), environ.get("HOME", "")
    if named or not home:
        return named if os.path.isfile(named) or not os.path.exists(named) else ""
    own = os.path.join(home, ".gitconfig")
    xdg = environ.get("XDG_CONFIG_HOME", "") or os.path.join(home, ".config")
    xdg = os.path.join(xdg, "git", "config")
    return xdg if os.path.exists(xdg) and not os.path.exists(own) else own


def _plain(text: str) -> str:
    kept = "".join(c for c in text if c not in "<>\n\r\0")
    return kept.strip().encode("utf-8", "replace").decode()
