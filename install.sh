#!/bin/sh
# Installs git mem from this checkout for the user who runs it, or removes it.
#
#   sh install.sh              makes an environment for it and links git-mem and its manual page;
#                              again: brings both up to date
#   sh install.sh --uninstall  removes the environment and the links
#
# PREFIX names another place than ~/.local; without it XDG_DATA_HOME another one for the environment.
# PYTHON names the interpreter.
set -eu
prefix=${PREFIX:-$HOME/.local}
if [ -n "${PREFIX:-}" ]; then data=$PREFIX/share; else data=${XDG_DATA_HOME:-$prefix/share}; fi
place=$data/git-mem # fetched models are here, too
env=$place/venv
command=$prefix/bin/git-mem
manual=$prefix/share/man/man1/git-mem.1

refuse() { # WHAT HINT
  printf 'error: %s\nhint: %s\n' "$1" "$2" >&2
  exit 1
}
ours() { # LINK: whether it leads there
  case $(readlink "$1" 2>/dev/null || true) in "$place"/*) ;; *) return 1 ;; esac
}

case ${1-} in
'') ;;
--uninstall)
  gone=
  for link in "$command" "$manual"; do
    if ours "$link"; then rm -f "$link" && gone="$gone $link"; fi
  done
  if [ -e "$env/pyvenv.cfg" ]; then rm -rf "$env" && gone="$gone $env"; fi
  rmdir "$place" 2>/dev/null || true
  echo "removed:${gone:- nothing, git mem was not installed in $prefix}"
  echo "Memories stay in their repositories; hooks of agents and of git are silent without git mem."
  exit 0
  ;;
*)
  echo "usage: sh install.sh [--uninstall]" >&2
  exit 2
  ;;
esac

cd "$(dirname "$0")"
python=${PYTHON:-python3}
unset PYTHONPATH PYTHONHOME 2>/dev/null || true
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  refuse "git mem needs Python 3.11 or newer, not '$python'" "PYTHON=python3.12 sh install.sh names another one"
if [ -e "$env" ] && [ ! -e "$env/pyvenv.cfg" ]; then
  refuse "'$env' is there and is no environment of Python" "move it away, or name another place with PREFIX"
fi
for link in "$command" "$manual"; do
  if [ -e "$link" ] && ! ours "$link"; then
    refuse "'$link' is of another installation" "remove that one first, or name another place with PREFIX"
  fi
done

echo "installing into $env (half a minute) ..."
"$python" -m venv "$env" ||
  refuse "cannot make '$env'" "Debian and Ubuntu have venv in the package python3-venv"
PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 "$env/bin/python" -m pip install --quiet . ||
  refuse "pip cannot install git mem" "it needs the network once, for numpy, typer and hatchling"
case $(head -n 1 "$env/bin/git-mem") in
'#!'*\ *) # Linux starts nothing through a first line whose path has a space
  {
    printf "#!/bin/sh\n'''exec' \"%s\" \"\$0\" \"\$@\"\n'''\n" "$env/bin/python"
    cat "$env/bin/git-mem"
  } >"$env/git-mem.new"
  cat "$env/git-mem.new" >"$env/bin/git-mem" && rm "$env/git-mem.new"
  ;;
esac
mkdir -p "$prefix/bin" "$prefix/share/man/man1"
ln -sf "$env/bin/git-mem" "$command"
ln -sf "$env/share/man/man1/git-mem.1" "$manual"

echo "$("$command" --version) is installed: $command"
case :$PATH: in
*:"$prefix/bin":*) ;;
*) echo "hint: new shells find it with this line in ~/.profile: export PATH=\"$prefix/bin:\$PATH\"" ;;
esac
echo "next: git mem tour"
