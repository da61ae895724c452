"""`sh install.sh`: what it makes, what it leaves alone, and that it takes everything away again.

Python and pip are a script here that makes the files they would make: no test needs the network.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tomllib

import pytest
from conftest import Lab
from install_world import files

SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "install.sh"
PYTHON = f"""#!/bin/sh
case "$1 $2" in
"-m venv") mkdir -p "$3/bin" && : >"$3/pyvenv.cfg" && cp "$0" "$3/bin/python" ;;
"-m pip")
  env=$(dirname "$(dirname "$0")") && mkdir -p "$env/share/man/man1"
  : >"$env/share/man/man1/git-mem.1"
  printf '#!%s\\nprint("git-mem 0")\\n' "$env/bin/python" >"$env/bin/git-mem"
  chmod +x "$env/bin/git-mem" ;;
*) exec '{sys.executable}' "$@" ;;
esac
"""


@pytest.fixture
def home(lab: Lab) -> pathlib.Path:
    python = lab.root / "python"
    python.write_text(PYTHON)
    python.chmod(0o755)
    path = lab.root / "a home"
    path.mkdir()
    lab.env.update(HOME=str(path), PYTHON=str(python))
    for name in ("XDG_DATA_HOME", "PREFIX"):
        lab.env.pop(name, None)
    return path


def script(lab: Lab, *argv: str, rc: int = 0, **env: str) -> str:
    done = lab.run(lab.root, "sh", str(SCRIPT), *argv, env=env)
    assert done.returncode == rc, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_it_links_the_command_and_the_manual_page_and_says_what_is_next(
    lab: Lab, home: pathlib.Path
) -> None:
    said = script(lab)
    command = home / ".local/bin/git-mem"
    assert f"git-mem 0 is installed: {command}" in said and "next: git mem tour" in said
    assert f'export PATH="{home}/.local/bin:$PATH"' in said
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == "git-mem 0\n"
    assert (home / ".local/share/man/man1/git-mem.1").resolve().exists()
    on_path = {"PATH": f"{home}/.local/bin:{os.environ['PATH']}"}
    assert "PATH" not in script(lab, **on_path)


def test_twice_is_as_once_and_uninstall_leaves_what_was_there(lab: Lab, home: pathlib.Path) -> None:
    model = ".local/share/git-mem/models/one.gguf"
    for name in (".local/bin/other", ".local/share/man/man1/other.1", model):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("of the user\n")
    before = files(home)
    script(lab)
    once = files(home)
    script(lab)
    assert files(home) == once
    assert "removed: " in script(lab, "--uninstall")
    assert files(home) == before
    assert "git mem was not installed" in script(lab, "--uninstall")


def test_prefix_and_xdg_data_home_name_other_places(lab: Lab, home: pathlib.Path) -> None:
    elsewhere, data = str(lab.root / "opt"), str(lab.root / "data")
    for env, place in (
        ({"PREFIX": elsewhere, "XDG_DATA_HOME": data}, f"{elsewhere}/share/git-mem/venv"),
        ({"XDG_DATA_HOME": data}, f"{data}/git-mem/venv"),
    ):
        script(lab, **env)
        assert os.path.exists(f"{place}/pyvenv.cfg")
        script(lab, "--uninstall", **env)
        assert not os.path.exists(place)


@pytest.mark.parametrize("name", [".local/bin/git-mem", ".local/share/git-mem/venv/notes.txt"])
def test_what_is_not_its_own_is_neither_replaced_nor_removed(
    lab: Lab, home: pathlib.Path, name: str
) -> None:
    (home / name).parent.mkdir(parents=True)
    (home / name).write_text("of the user\n")
    before = files(home)
    assert "hint: " in script(lab, rc=1)
    script(lab, "--uninstall")
    assert files(home) == before


def test_an_old_python_and_wrong_words_are_refused(lab: Lab, home: pathlib.Path) -> None:
    assert "needs Python 3.11" in script(lab, rc=1, PYTHON="false")
    assert "usage: sh install.sh [--uninstall]" in script(lab, "--help", rc=2)
    assert files(home) == {}


def test_the_source_archive_has_all_that_tests_and_packagers_read() -> None:
    """All of the repository's top but what is of git and of CI."""
    project = tomllib.loads((SCRIPT.parent / "pyproject.toml").read_text("utf-8"))
    archived = {
        name.lstrip("/")
        for name in project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    }
    argv = ["git", "-C", str(SCRIPT.parent), "ls-files"]
    listed = subprocess.run(argv, capture_output=True, text=True).stdout.splitlines()
    tops = {path.partition("/")[0] for path in listed}
    assert tops <= archived | {".ci", ".gitignore", "pyproject.toml"}
