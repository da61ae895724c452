"""`discover` by files says what git says, or asks git."""

from __future__ import annotations

import os
import pathlib
import sys
import time

import pytest
from conftest import Lab

from gitmem.git import config_cache, discover, repository


def facts(found: discover.Here | None) -> dict[str, object] | None:
    if found is None:
        return None
    return {
        **{name: value for name, value in vars(found).items() if name != "settings"},
        "ref": found.settings["ref"],
        "limit": found.settings["limit"],
        "author": found.settings.author,
        "git": found.settings.git,
        "home": found.home,
    }


def past(*paths: pathlib.Path) -> None:
    """Settings are kept only when their files have been quiet; a file that another one names also
    by the time that nobody can set.
    """
    for path in paths:
        if path.exists():
            os.utime(path, ns=(10**18, 10**18))
            if path.name != "config":
                time.sleep(2 * config_cache._TICK / 1e9)


def ready(repo: pathlib.Path, *more: pathlib.Path) -> None:
    """A repository whose settings can be kept."""
    past(repo / ".git" / "config", *more)
    (repo / ".git" / "mem").mkdir(exist_ok=True)


def both(cwd: pathlib.Path, **env: str) -> dict[str, object]:
    """What git says, after it was made sure that the files say the same."""
    environ = {**os.environ, **env}
    asked = discover.ask(str(cwd), environ)
    assert asked is not None
    assert facts(discover.look(str(cwd), environ)) == facts(asked)
    by_files = discover._open_by_files(str(cwd), environ)
    assert by_files is not None
    by_git = repository.open_repo(str(cwd))
    assert opened(by_files[0]) == opened(by_git)
    assert by_files[1] == config_cache.read(by_git, environ, keep=False)
    return facts(asked) or {}


def opened(repo: repository.Repo) -> object:
    return repo._replace(git=vars(repo.git))  # type: ignore[arg-type]


def memory(lab: Lab, repo: pathlib.Path, ref: str = "mem/team") -> str:
    lab.git(repo, "notes", f"--ref={ref}", "add", "-f", "-m", "{}")
    return lab.git(repo, "rev-parse", f"refs/notes/{ref}").strip()


def test_a_plain_repository_is_seen_as_git_sees_it(lab: Lab) -> None:
    repo = lab.repo()
    id = memory(lab, repo)
    ready(repo)
    (repo / "a" / "b").mkdir(parents=True)
    found = both(repo / "a" / "b")
    assert (
        found["refs"] == {"refs/notes/mem/team": id}
        and found["branch"] == "main"
        and found["top"] == str(repo)
        and found["initialised"] is True
    )


def test_a_repository_nobody_wanted_git_mem_in_is_not_initialised(lab: Lab) -> None:
    repo = lab.repo()
    asked = discover.ask(str(repo), os.environ)
    looked = discover.look(str(repo), os.environ)
    assert (
        asked
        and looked
        and not asked.initialised
        and not looked.initialised
        and looked.head == asked.head
    )
    assert not (repo / ".git" / "mem").exists()


def test_init_alone_makes_a_repository_initialised(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "init")
    past(repo / ".git" / "config")
    assert both(repo)["initialised"] is True


def test_a_setting_of_the_user_for_all_repositories_initialises_none(lab: Lab) -> None:
    repo = lab.repo()
    lab.git(repo, "config", "--global", "mem.limit", "3")
    ready(repo, lab.root / ".gitconfig")
    found = both(repo)
    assert found["initialised"] is False and found["limit"] == "3"


def test_packed_refs_count_and_a_loose_one_goes_before_them(lab: Lab) -> None:
    repo = lab.repo(commits=2)
    memory(lab, repo)
    lab.git(repo, "pack-refs", "--all")
    ready(repo)
    assert both(repo)["head"]
    lab.git(repo, "commit", "-q", "--allow-empty", "-m", "more")
    second = memory(lab, repo)
    assert both(repo)["refs"] == {"refs/notes/mem/team": second}


def test_a_ref_whose_name_ends_like_ours_is_another(lab: Lab) -> None:
    repo = lab.repo()
    lab.git(repo, "update-ref", "refs/heads/refs/notes/mem/team", "HEAD")
    lab.git(repo, "pack-refs", "--all")
    ready(repo)
    assert both(repo)["refs"] == {}


def test_a_linked_worktree_shares_memories_and_has_its_own_head(lab: Lab) -> None:
    repo = lab.repo()
    id = memory(lab, repo)
    lab.git(repo, "worktree", "add", "-q", "-b", "side", "../tree")
    lab.git(lab.root / "tree", "commit", "-q", "--allow-empty", "-m", "aside")
    ready(repo)
    found = both(lab.root / "tree")
    assert (
        found["branch"] == "side"
        and found["common_dir"] == str(repo / ".git")
        and found["refs"] == {"refs/notes/mem/team": id}
    )
    assert found["head"] != both(repo)["head"]


def test_a_worktree_with_a_configuration_of_its_own(lab: Lab) -> None:
    repo = lab.repo()
    lab.git(repo, "config", "extensions.worktreeConfig", "true")
    lab.git(repo, "worktree", "add", "-q", "-b", "side", "../tree")
    lab.git(lab.root / "tree", "config", "--worktree", "mem.limit", "5")
    ready(repo, repo / ".git" / "worktrees" / "tree" / "config.worktree")
    assert both(lab.root / "tree")["limit"] == "5" and both(repo)["limit"] == "8"


def test_a_worktree_of_a_bare_repository(lab: Lab) -> None:
    repo = lab.repo()
    lab.git(lab.root, "clone", "-q", "--bare", str(repo), "hub.git")
    lab.git(lab.root / "hub.git", "worktree", "add", "-q", "../tree", "main")
    (lab.root / "hub.git" / "mem").mkdir()
    past(lab.root / "hub.git" / "config")
    assert both(lab.root / "tree")["bare"] is False


def test_a_submodule_is_a_repository_of_its_own(lab: Lab) -> None:
    inner, outer = lab.repo("inner"), lab.repo("outer")
    lab.git(
        outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "sub"
    )
    memory(lab, outer / "sub")
    module = outer / ".git" / "modules" / "sub"
    (module / "mem").mkdir()
    past(module / "config")
    assert both(outer / "sub")["common_dir"] == str(module)


def test_a_repository_whose_git_directory_lies_elsewhere(lab: Lab) -> None:
    lab.git(
        lab.root, "init", "-q", "-b", "main", f"--separate-git-dir={lab.root / 'store'}", "work"
    )
    lab.git(lab.root / "work", "commit", "-q", "--allow-empty", "-m", "one")
    (lab.root / "store" / "mem").mkdir()
    past(lab.root / "store" / "config")
    assert both(lab.root / "work")["git_dir"] == str(lab.root / "store")


def test_a_repository_reached_through_a_symbolic_link(lab: Lab) -> None:
    repo = lab.repo()
    ready(repo)
    (lab.root / "link").symlink_to(repo)
    assert both(lab.root / "link")["top"] == str(repo)


def test_a_detached_head_has_no_branch(lab: Lab) -> None:
    repo = lab.repo(commits=2)
    lab.git(repo, "checkout", "-q", "--detach", "HEAD~1")
    ready(repo)
    found = both(repo)
    assert found["branch"] == "" and found["head"] == lab.git(repo, "rev-parse", "HEAD").strip()


def test_no_commit_yet_is_no_head(lab: Lab) -> None:
    repo = lab.repo(commits=0)
    ready(repo)
    assert both(repo)["head"] == ""


def test_a_branch_that_stands_for_another_is_followed(lab: Lab) -> None:
    repo = lab.repo()
    lab.git(repo, "symbolic-ref", "refs/heads/alias", "refs/heads/main")
    lab.git(repo, "symbolic-ref", "HEAD", "refs/heads/alias")
    ready(repo)
    assert both(repo)["head"] == lab.git(repo, "rev-parse", "HEAD").strip()


def test_sha256_ids_are_taken_whole(lab: Lab) -> None:
    repo = lab.repo("repo", 1, "--object-format=sha256")
    memory(lab, repo)
    ready(repo)
    assert both(repo)["hex_len"] == 64


def test_another_namespace_of_memories(lab: Lab) -> None:
    repo = lab.repo()
    memory(lab, repo, "elsewhere/team")
    lab.git(repo, "config", "mem.ref", "elsewhere")
    ready(repo)
    assert list(both(repo)["refs"]) == ["refs/notes/elsewhere/team"]  # type: ignore[call-overload]
    assert both(repo, GIT_MEM_REF="third")["refs"] == {}


def test_a_changed_setting_counts_at_once_wherever_it_stands(lab: Lab) -> None:
    repo = lab.repo()
    included, conditional = lab.root / "included", lab.root / "conditional"
    lab.git(repo, "config", "include.path", str(included))
    lab.git(repo, "config", "includeIf.onbranch:side.path", str(conditional))
    conditional.write_text("[mem]\n\tlimit = 9\n")
    ready(repo, conditional)
    assert both(repo)["limit"] == "8"
    included.write_text("[mem]\n\tlimit = 4\n")  # was not there when git was asked
    with pytest.raises(discover.Unsure):
        discover.look(str(repo), os.environ)
    past(included)
    assert both(repo)["limit"] == "4"
    lab.git(repo, "checkout", "-q", "-b", "side")
    assert discover.find(str(repo), os.environ).settings["limit"] == "9"  # type: ignore[union-attr]
    (repo / ".gitmem.toml").write_text("limit = 3\nref = 'other'\n")
    lab.git(repo, "checkout", "-q", "main")
    lab.git(repo, "config", "--unset", "include.path")
    assert discover.find(str(repo), os.environ).settings["limit"] == "3"  # type: ignore[union-attr]


def test_settings_of_a_place_count_there_only(lab: Lab) -> None:
    near, far = lab.repo("near"), lab.repo("far")
    (lab.root / "near.inc").write_text("[mem]\n\tlimit = 4\n")
    lab.git(
        near, "config", "--global", f"includeIf.gitdir:{near}/.path", str(lab.root / "near.inc")
    )
    for repo in (near, far):
        ready(repo, lab.root / ".gitconfig", lab.root / "near.inc")
    assert both(near)["limit"] == "4" and both(far)["limit"] == "8"


def test_an_included_file_that_was_renamed_into_its_place_just_now_is_asked_for_again(
    lab: Lab,
) -> None:
    """Its time may be years ago, as after `mv` or `rsync`."""
    repo = lab.repo()
    lab.git(repo, "config", "include.path", str(lab.root / "more"))
    ready(repo)
    (lab.root / "more").write_text("[mem]\n\tlimit = 4\n")
    os.utime(lab.root / "more", ns=(10**18, 10**18))
    discover.ask(str(repo), os.environ)
    with pytest.raises(discover.Unsure):
        discover.look(str(repo), os.environ)


@pytest.mark.parametrize("name", ["GIT_DIR", "GIT_WORK_TREE", "GIT_OBJECT_DIRECTORY"])
def test_a_variable_that_is_set_and_empty_is_left_to_git(lab: Lab, name: str) -> None:
    repo = lab.repo()
    ready(repo)
    both(repo)
    with pytest.raises(discover.Unsure):
        discover.look(str(repo), {**os.environ, name: ""})


def test_another_configuration_of_the_user_has_settings_of_its_own(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = lab.repo()
    (lab.root / "other").write_text("[mem]\n\tlimit = 6\n[user]\n\tname = Grace\n")
    ready(repo, lab.root / "other")
    assert both(repo)["limit"] == "8"
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(lab.root / "other"))
    assert both(repo)["limit"] == "6"
    monkeypatch.setenv("GIT_MEM_LIMIT", "2")
    assert both(repo)["limit"] == "2"
    monkeypatch.setenv("GIT_MEM_LIMIT", "nonsense")  # a hook goes on with what else is said
    assert both(repo)["limit"] == "6"


def test_a_moved_repository_is_looked_at_anew(lab: Lab) -> None:
    repo = lab.repo()
    lab.git(repo, "worktree", "add", "-q", "-b", "side", "../tree")
    ready(repo)
    both(repo)
    repo.rename(lab.root / "elsewhere")
    with pytest.raises(discover.Unsure):
        discover.look(str(lab.root / "elsewhere"), os.environ)
    assert both(lab.root / "elsewhere")["top"] == str(lab.root / "elsewhere")
    with pytest.raises(discover.Unsure):  # its worktree points to where it was
        discover.look(str(lab.root / "tree"), os.environ)


def test_settings_that_changed_while_git_read_them_are_not_kept(lab: Lab) -> None:
    repo = lab.repo()
    ready(repo)
    os.utime(repo / ".git" / "config")  # within one tick of the clock nobody can tell
    discover.ask(str(repo), os.environ)
    assert not [p for p in (repo / ".git" / "mem").iterdir() if p.name.startswith("settings-")]


def test_damaged_kept_settings_are_asked_for_again(lab: Lab) -> None:
    repo = lab.repo()
    ready(repo)
    both(repo)
    (file,) = (repo / ".git" / "mem").glob("settings-*.json")
    assert file.stat().st_mode & 0o777 == 0o600
    for content in (b"", b"{", b"[]", b'{"form":1}', file.read_bytes()[:-9], b"\xff" * 50):
        file.write_bytes(content)
        with pytest.raises(discover.Unsure):
            discover.look(str(repo), os.environ)
        both(repo)


@pytest.mark.parametrize(
    "name", ["GIT_DIR", "GIT_WORK_TREE", "GIT_CONFIG_COUNT", "GIT_CEILING_DIRECTORIES"]
)
def test_variables_that_bend_git_are_left_to_git(
    lab: Lab, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo, other = lab.repo(), lab.repo("other")
    ready(repo)
    both(repo)
    value = {"GIT_CONFIG_COUNT": "0", "GIT_CEILING_DIRECTORIES": str(lab.root)}.get(
        name, str(other / ".git" if name == "GIT_DIR" else other)
    )
    monkeypatch.setenv(name, value)
    if name == "GIT_WORK_TREE":
        monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    with pytest.raises(discover.Unsure):
        discover.look(str(repo), os.environ)
    found = discover.find(str(repo), os.environ)
    assert found is not None and found.git_dir == str(
        (other if name in ("GIT_DIR", "GIT_WORK_TREE") else repo) / ".git"
    )


def test_a_repository_that_git_refuses_is_none(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = lab.repo()
    ready(repo)
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert discover.find(str(repo), os.environ) is None


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away"
)
def test_a_repository_of_another_owner_is_left_to_git(lab: Lab) -> None:
    repo = lab.repo()
    ready(repo)
    both(repo)
    os.chown(repo, 12345, 12345)
    with pytest.raises(discover.Unsure):
        discover.look(str(repo), os.environ)
    assert discover.find(str(repo), os.environ) is None
    lab.git(repo, "config", "--global", "safe.directory", str(repo))
    assert discover.find(str(repo), os.environ) is not None


def test_outside_of_any_repository_is_none(lab: Lab) -> None:
    (lab.root / "bare" / "deep").mkdir(parents=True)
    assert discover.find(str(lab.root / "bare" / "deep"), os.environ) is None


def test_a_bare_repository_or_a_git_directory_counts_only_where_it_is_named(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = lab.repo()
    lab.git(lab.root, "clone", "-q", "--bare", str(repo), "hub.git")
    for place in (lab.root / "hub.git", lab.root / "hub.git" / "refs", repo / ".git"):
        with pytest.raises(discover.Unsure):
            discover.look(str(place), os.environ)
        assert discover.find(str(place), os.environ) is None
    monkeypatch.setenv("GIT_DIR", str(lab.root / "hub.git"))
    found = discover.find(str(lab.root), os.environ)
    assert found is not None and found.bare and found.top == ""


def test_a_working_tree_that_is_named_elsewhere_is_left_to_git(lab: Lab) -> None:
    repo = lab.repo()
    (lab.root / "far").mkdir()
    lab.git(repo, "config", "core.worktree", str(lab.root / "far"))
    ready(repo)
    discover.ask(str(repo), os.environ)
    with pytest.raises(discover.Unsure):
        discover.look(str(repo), os.environ)


@pytest.mark.parametrize("content", ["gitdir: nowhere\n", "nonsense", ""])
def test_a_broken_git_file_is_left_to_git(lab: Lab, content: str) -> None:
    (lab.repo() / "inner").mkdir()
    (lab.root / "repo" / "inner" / ".git").write_text(content)
    with pytest.raises(discover.Unsure):
        discover.look(str(lab.root / "repo" / "inner"), os.environ)
    assert discover.find(str(lab.root / "repo" / "inner"), os.environ) is None


def test_an_empty_git_directory_is_passed_by(lab: Lab) -> None:
    repo = lab.repo()
    ready(repo)
    (repo / "inner" / ".git").mkdir(parents=True)
    assert both(repo / "inner")["top"] == str(repo)


def test_an_unknown_extension_is_left_to_git(lab: Lab) -> None:
    repo = lab.repo()
    lab.git(repo, "config", "extensions.somethingNew", "true")
    ready(repo)
    assert discover.find(str(repo), os.environ) is not None
    with pytest.raises(discover.Unsure):
        discover.look(str(repo), os.environ)


def test_looking_starts_no_process_and_loads_little(lab: Lab) -> None:
    repo = lab.repo()
    ready(repo)
    both(repo)
    code = (
        "import sys\nseen = []\nsys.addaudithook(lambda event, args: seen.append(event) if"
        " event.startswith(('subprocess', 'os.posix_spawn', 'os.fork', 'os.exec')) else"
        " None)\nimport os\nfrom gitmem.git import discover\nassert discover.look(os.getcwd(),"
        " os.environ)"
        " is not None\nassert not seen, seen\nprint(*sorted({'re', 'json', 'subprocess',"
        " 'collections', 'functools', 'contextlib', 'typing', 'datetime', 'enum', 'sqlite3'} &"
        " set(sys.modules)))"
    )
    done = lab.run(repo, sys.executable, "-c", code)
    assert done.returncode == 0 and done.stdout.strip() == "", done.stderr + done.stdout


def test_only_some_kept_settings_stay(lab: Lab) -> None:
    repo = lab.repo()
    ready(repo)
    for n in range(config_cache._KEPT + 5):
        discover.ask(str(repo), {**os.environ, "XDG_CONFIG_HOME": f"{lab.root}/{n}"})
    assert len(list((repo / ".git" / "mem").glob("settings-*"))) == config_cache._KEPT
