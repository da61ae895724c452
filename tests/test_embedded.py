"""A bare repository that a commit brought: its configuration names programs, and none of them
runs."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import sys

import pytest
from conftest import Lab
from signers import fail, rewrite

from gitmem.git import config_read, discover, repository
from gitmem.hooks import spool

PGP = "-----BEGIN PGP SIGNATURE-----\n\nabc\n-----END PGP SIGNATURE-----"
PROGRAMS = (
    "gpg.program",
    "gpg.openpgp.program",
    "gpg.ssh.program",
    "gpg.x509.program",
    "gpg.ssh.defaultKeyCommand",
    "core.fsmonitor",
    "core.sshCommand",
    "core.pager",
    "core.editor",
    "diff.external",
)


class Trap:
    """A clone that has a bare repository as plain files; the programs it names note that they
    ran."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        source = lab.repo("source")
        lab.mem(source, "remember", "Blocked: run the tests with --fast", "--type", "blocker")
        signed = {**json.loads(lab.lines(source)[0]), "signature": PGP}
        for ref in ("refs/notes/mem/team", "refs/git-mem/backup/mem/team"):
            lab.git(source, "update-ref", "-d", ref)  # or the unsigned line comes back
        rewrite(
            lab,
            source,
            [json.dumps(signed, sort_keys=True, separators=(",", ":"), ensure_ascii=False)],
        )
        outer = lab.repo("outer")
        inner = outer / "fixtures" / "repo"
        lab.git(outer, "clone", "-q", "--mirror", str(source), str(inner))
        self.marker = lab.root / "ran"
        (inner / "x").write_text(f"#!/bin/sh\necho \"$0 $@\" >>'{self.marker}'\n")
        (inner / "x").chmod(0o755)
        lab.git(inner, "config", "mem.trust", "signed")
        lab.git(inner, "config", "mem.promptContext", "true")
        for name in PROGRAMS:
            lab.git(inner, "config", name, "./x")
        (inner / "refs" / "keep").write_text("")
        lab.git(outer, "add", "-A")
        lab.git(outer, "commit", "-q", "-m", "fixtures")
        self.clone = lab.root / "clone"
        lab.git(lab.root, "clone", "-q", str(outer), str(self.clone))
        self.bare = self.clone / "fixtures" / "repo"

    def sprung(self) -> str:
        """The programs that ran, and the files that came into the working tree."""
        ran = self.marker.read_text() if self.marker.exists() else ""
        return ran + self.lab.git(self.clone, "status", "--porcelain", "--ignored")

    def hook(
        self, event: str, cwd: pathlib.Path, env: dict[str, str] | None = None, **fields: str
    ) -> str:
        payload = json.dumps(
            {"session_id": "s1", "cwd": str(cwd), "hook_event_name": event, **fields}
        )
        done = self.lab.run(
            cwd,
            sys.executable,
            "-P",
            "-m",
            "gitmem",
            "hook",
            event,
            stdin=payload,
            env={"GIT_MEM_PATIENCE": "100", **(env or {})},
        )
        assert done.returncode == 0 and done.stderr == ""
        return done.stdout


@pytest.fixture
def trap(lab: Lab) -> Trap:
    return Trap(lab)


EVENTS = [
    ("SessionStart", {"source": "startup"}),
    ("SessionStart", {"source": "compact"}),
    ("SubagentStart", {}),
    ("PreCompact", {}),
    ("Stop", {}),
    ("UserPromptSubmit", {"prompt": "how do we run the tests?"}),
    ("SessionEnd", {}),
    ("PostToolUse", {"tool_name": "Bash"}),
]


@pytest.mark.parametrize("below", ["", "objects"])
@pytest.mark.parametrize("worktree", [False, True])
def test_a_session_in_a_committed_bare_repository_is_told_nothing_and_runs_nothing(
    trap: Trap, below: str, worktree: bool
) -> None:
    if worktree:  # then git says that this is no bare repository
        with (trap.bare / "config").open("a") as f:
            f.write("[core]\n\tbare = false\n\tworktree = ..\n")
        trap.lab.git(trap.clone, "commit", "-q", "-a", "-m", "x")
    for event, fields in EVENTS:
        assert trap.hook(event, trap.bare / below, **fields) == ""
    assert trap.sprung() == ""


COMMANDS = [
    ("verify",),
    ("list",),
    ("doctor", "--repair"),
    ("remember", "x"),
    ("context",),
    ("recall", "tests"),
    ("init", "--offline"),
    ("sync",),
    ("uninstall",),
    ("install", "git"),
    ("model", "use", "none"),
]


def test_every_command_refuses_a_bare_repository_inside_a_working_tree(trap: Trap) -> None:
    for command in COMMANDS:
        status, words = fail(trap.lab, trap.bare, *command)
        assert (
            status == 128
            and f"'{trap.bare}' lies in the working tree '{trap.clone}'" in words
            and "hint: " in words
        ), command
    for command in (
        ("model", "path"),
        ("install", "claude"),
    ):  # they go on as outside of any repository
        fail(trap.lab, trap.bare, *command)
    assert trap.sprung() == ""


def test_the_worker_works_in_no_bare_repository_that_a_commit_brought(trap: Trap) -> None:
    (trap.bare / "mem").mkdir()
    (trap.bare / "mem" / "spool").write_text('{"event":"behind"}\n')
    for name in (str(trap.bare), "."):
        trap.lab.mem(trap.bare, "worker", name)
    assert [p.name for p in (trap.bare / "mem").iterdir()] == ["spool"]
    assert not trap.marker.exists()


def test_a_bare_repository_that_is_named_is_used_though_it_lies_in_a_working_tree(
    trap: Trap,
) -> None:
    for option in (
        "gpg.program",
        "gpg.openpgp.program",
        "gpg.ssh.program",
        "gpg.x509.program",
        "gpg.ssh.defaultKeyCommand",
        "mem.trust",
    ):
        trap.lab.git(trap.bare, "config", "--unset", option)
    assert [
        m["type"]
        for m in trap.lab.json(trap.clone, "list", "--all", env={"GIT_DIR": str(trap.bare)})
    ] == ["blocker"]
    assert "--fast" in trap.hook(
        "SessionStart", trap.clone, {"GIT_DIR": str(trap.bare)}, source="startup"
    )


def test_a_bare_repository_that_nothing_surrounds_serves_the_command_line_alone(trap: Trap) -> None:
    lab = trap.lab
    hub = lab.root / "hub.git"
    trap.bare.rename(hub)
    assert [m["type"] for m in lab.json(hub, "list", "--all")] == ["blocker"]
    assert "<memory_context" in lab.mem(hub, "context", rc=(1,))  # the policy asks for signatures
    lab.mem(hub, "remember", "Timestamps are UTC")
    assert {r["state"] for r in lab.json(hub, "verify", rc=(1,))} == {"none", "unknown"}
    before = sorted(p.name for p in hub.iterdir())
    for event, fields in EVENTS:
        assert trap.hook(event, hub, **fields) == ""
    assert sorted(p.name for p in hub.iterdir()) == before
    assert not trap.marker.exists(), (
        trap.marker.read_text()
    )  # nobody has said that its configuration is theirs
    lab.mem(hub, "verify", env={"GIT_DIR": str(hub)}, rc=(0, 1))
    assert trap.marker.exists()


def test_whose_git_directory_it_is_that_a_directory_lies_in(lab: Lab) -> None:
    """A commit holds no `.git`: what lies in one, or is named by one, the user has made."""
    repo = lab.repo()
    own = lab.root / "own"
    own.mkdir()
    lab.git(lab.root, "clone", "-q", "--bare", str(repo), str(own / ".bare"))
    (own / ".git").write_text("gitdir: ./.bare\n")
    lab.git(own, "worktree", "add", "-q", "main", "main")
    lab.git(own / "main", "clone", "-q", "--bare", str(repo), "inner.git")
    lab.git(lab.root, "clone", "-q", "--bare", str(repo), "alone.git")
    lab.git(
        repo,
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        str(lab.root / "alone.git"),
        "sub",
    )
    for place in (
        repo / ".git" / "hooks",
        repo / ".git" / "modules" / "sub",
        own / ".bare",
        lab.root / "alone.git",
        repo / "sub",
        own / "main",
    ):
        lab.mem(place, "status")
    assert fail(lab, own / "main" / "inner.git", "status")[0] == 128


OLD_GIT = """#!/bin/sh
if [ "$1 $2" = "-c safe.bareRepository=explicit" ]; then shift 2; fi
exec {git} "$@"
"""


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("second", ["refs", "commondir"])
def test_files_that_look_like_a_bare_repository_switch_no_hook_off(
    lab: Lab, old: bool, second: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = lab.repo()
    lab.mem(repo, "init", "--offline")
    lab.mem(repo, "remember", "Blocked: run the tests with --slow", "--type", "blocker")
    (repo / "src" / "deep").mkdir(parents=True)
    for name in ("HEAD", second):
        (repo / "src" / name).write_text("words\n")
    lab.git(repo, "clone", "-q", "--mirror", str(lab.repo("other")), "src/deep/bare")
    if old:  # git before 2.38 does not know the setting
        (lab.root / "old").mkdir()
        (lab.root / "old" / "git").write_text(OLD_GIT.format(git=shutil.which("git")))
        (lab.root / "old" / "git").chmod(0o755)
        monkeypatch.setenv("PATH", f"{lab.root / 'old'}:{os.environ['PATH']}")
    for place in (repo / "src", repo / "src" / "deep"):
        found = discover.find(str(place), os.environ)
        assert found is not None and found.top == str(repo)
        assert found.git_dir == str(repo / ".git")
    for place in (repo / "src" / "deep" / "bare", repo / "src" / "deep" / "bare" / "objects"):
        assert discover.find(str(place), os.environ) is None


def test_a_session_below_files_that_look_like_a_bare_repository_is_told_all(trap: Trap) -> None:
    repo = trap.lab.repo("honest")
    trap.lab.mem(repo, "remember", "Blocked: run the tests with --slow", "--type", "blocker")
    (repo / "src" / "refs").mkdir(parents=True)
    (repo / "src" / "HEAD").write_text("ref: refs/heads/main\n")
    assert "--slow" in trap.hook("SessionStart", repo / "src", source="startup")


@pytest.mark.parametrize("inside", [False, True])
def test_the_worker_serves_an_honest_repository_in_a_working_tree(lab: Lab, inside: bool) -> None:
    home, other = lab.repo("home"), lab.repo("other")
    bare = home / "src" / "foo.git"
    tree = bare / "tree" if inside else lab.root / "tree"
    lab.git(home, "clone", "-q", "--bare", str(other), str(bare))
    lab.git(bare, "worktree", "add", "-q", str(tree), "main")
    apart = lab.root / "apart"
    lab.git(lab.root, "init", "-q", f"--separate-git-dir={home / 'store'}", str(apart))
    for place, common in ((tree, bare), (apart, home / "store")):
        (common / "mem").mkdir(mode=0o700)
        (common / "mem" / "spool").write_text('{"event":"behind"}\n')
        lab.mem(place, "worker", str(common))
        left = {p.name for p in (common / "mem").iterdir()}
        assert not left & {"spool", "worker.pid"} and "checked" in left


def test_a_worker_that_refuses_takes_its_number_away(
    trap: Trap, monkeypatch: pytest.MonkeyPatch
) -> None:
    (trap.bare / "mem").mkdir(mode=0o700)
    monkeypatch.chdir(trap.bare)
    for number, left in ((os.getpid(), False), (1, True)):
        spool.claim(str(trap.bare / "mem"), number)
        spool.refuse(str(trap.bare))
        assert (trap.bare / "mem" / "worker.pid").exists() == left


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away"
)
def test_a_repository_of_somebody_else_names_no_program(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "init", "--offline")
    lab.git(repo, "config", "gpg.program", "./x")
    lab.git(repo, "config", "gpg.ssh.defaultKeyCommand", "./x")
    lab.git(repo, "config", "gpg.format", "ssh")
    lab.git(repo, "config", "--global", "gpg.program", "mine")
    lab.git(repo, "config", "--global", "safe.directory", "*")

    def known() -> list[dict[str, str]]:
        opened = repository.open_repo(str(repo))
        found = discover.find(str(repo), os.environ)
        assert found is not None
        return [config_read.load(opened, os.environ).git, found.settings.git]

    for git in known():
        assert git["gpg.program"] == "./x" and git["gpg.ssh.defaultkeycommand"] == "./x"
    for path in (repo, repo / ".git"):
        os.chown(path, 12345, 12345)
        for git in known():
            assert (
                git["gpg.program"] == "mine"
                and "gpg.ssh.defaultkeycommand" not in git
                and git["gpg.format"] == "ssh"
            )
        os.chown(path, 0, 0)


def test_editor_and_pager_come_from_the_user_not_from_such_a_repository(
    trap: Trap, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("core.editor", "core.pager"):
        trap.lab.git(trap.lab.root, "config", "--global", name, "mine")
    for name in list(os.environ):
        if name in ("VISUAL", "EDITOR", "PAGER") or name.startswith("GIT_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(trap.lab.root))
    monkeypatch.setenv("GIT_DIR", str(trap.bare))  # the user's word that it is to be opened
    repo = repository.open_repo(str(trap.clone))
    assert (repo.program("GIT_EDITOR"), repo.program("GIT_PAGER")) == ("./x", "./x")
    repo = repo._replace(own=False)
    assert (repo.program("GIT_EDITOR"), repo.program("GIT_PAGER")) == ("mine", "mine")
