#!/bin/sh
# Installs git mem into an environment of its own and passes the tests.
#
# Lint, types and generated files are checked first; the tests then run against
# the installed wheel, not against the checkout, in an environment without any
# development dependency that the package does not declare.
# GIT_MEM_TEST_ENV names where the environments are kept between runs.
set -eu
cd "$(dirname "$0")/.."
root=$(pwd)
envs=${GIT_MEM_TEST_ENV:-$root/.cache/test}
python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: git mem needs Python 3.11 or newer, '$python' is older" >&2; exit 2; }
unset PYTHONPATH PYTHONHOME GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE 2>/dev/null || true
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1

# An environment is kept as long as its interpreter and the declared dependencies are the same.
stamp=$( { "$python" -VV; cat pyproject.toml "$0"; } | cksum | tr ' ' '-')
fresh() { # DIR: an empty environment, unless it has the present stamp
  if [ "$(cat "$1/.stamp" 2>/dev/null)" != "$stamp" ]; then
    rm -rf "$1"
    "$python" -m venv "$1"
    return 0
  fi
  return 1
}

tools=$envs/tools
if fresh "$tools"; then
  echo "== installing the development tools"
  "$tools/bin/pip" install --quiet '.[dev]'
  "$tools/bin/pip" uninstall --quiet --yes git-mem
  echo "$stamp" >"$tools/.stamp"
fi
echo "== building the wheel"
rm -rf "$envs/dist"
"$tools/bin/python" -m build --wheel --outdir "$envs/dist" . >"$envs/build.log" 2>&1 || { cat "$envs/build.log"; exit 1; }

run=$envs/run
if fresh "$run"; then
  echo "== installing the wheel and what the tests themselves use"
  "$run/bin/pip" install --quiet pytest pytest-xdist hypothesis networkx pygit2 gguf
  "$run/bin/pip" install --quiet "$envs"/dist/*.whl
  ln -sf "$tools/bin/shellcheck" "$run/bin/shellcheck" # one of the tests runs it, too
  echo "$stamp" >"$run/.stamp"
fi
"$run/bin/pip" install --quiet --force-reinstall --no-deps "$envs"/dist/*.whl

echo "== lint"
"$tools/bin/ruff" check .
"$tools/bin/ruff" format --check .
"$tools/bin/shellcheck" -x -P . hooks/*.sh
echo "== types"
"$tools/bin/mypy" --strict --python-executable "$run/bin/python" gitmem
cache=${GIT_MEM_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/git-mem-test}
PYTHON=$python sh tools/fetch_clients.sh
sh tools/fetch_git.sh
PYTHON=$run/bin/python sh tools/fetch_llama.sh
"$run/bin/python" -c 'import llama_cpp' 2>/dev/null || "$run/bin/pip" install --quiet "$cache"/llama_cpp_python-*.whl 2>/dev/null || true
PYTHON=$run/bin/python sh tools/fetch_models.sh

# From another directory, so that `import gitmem` can only find the wheel.
cd "$envs"
PATH="$run/bin:$PATH"
export PATH
rm -rf "$envs"/pytest*
MAIN=pytest NEWER=pytest-newer # where each run notes what failed
run_tests() { # WHERE ARGS: the tests, with the newer git for NEWER
  noted=$1
  shift
  if [ "$noted" = "$NEWER" ]; then
    # Its repositories have their refs in a reftable, and SHA-256. Its own `fsck` dies on what a simulated power cut leaves.
    set -- PATH="$newer:$PATH" GIT_DEFAULT_REF_FORMAT=reftable GIT_DEFAULT_HASH=sha256 "$run/bin/python" -P -m pytest \
      "$root"/tests/test_reftable.py "$root"/tests/test_notes.py "$root"/tests/test_sync.py "$root"/tests/test_crash.py \
      -k "not power_cut and not probe and not disk" "$@"
  else
    set -- "$run/bin/python" -P -m pytest "$root/tests" "$@"
  fi
  env "$@" -q -o cache_dir="$envs/$noted" --rootdir "$root" -c "$root/pyproject.toml"
}
failed() { # WHERE: the tests that failed there
  "$run/bin/python" -c 'import json, pathlib, sys; p = pathlib.Path(sys.argv[1], "v/cache/lastfailed"); print(*json.loads(p.read_text()) if p.exists() else [], sep="\n")' "$envs/$1" | sed '/^$/d'
}
ran() { # WHERE STATUS: ends all if that run broke off, or failed without a failed test (tests/verdict.py)
  [ "$2" = 0 ] || { [ "$2" = 1 ] && [ -n "$(failed "$1")" ]; } || exit "$2"
}
jobs=${GIT_MEM_TEST_JOBS:-auto}

for newer in "$cache"/git-*/usr/bin; do :; done
if [ -x "$newer/git" ] && [ $# = 0 ]; then
  echo "== tests of refs with $("$newer/git" version), reftable and SHA-256"
  status=0
  run_tests "$NEWER" -n "$jobs" --dist worksteal || status=$?
  ran "$NEWER" "$status"
fi
echo "== tests on the installed wheel"
status=0
run_tests "$MAIN" -n "$jobs" --dist worksteal "$@" || status=$?
ran "$MAIN" "$status"

# Many tests watch real processes beside each other; on a machine that stands still for seconds one of them may see
# a limit pass. One or two that failed are run once more, alone, and named. Three are no accident.
once=$(failed "$MAIN"; failed "$NEWER")
[ -n "$once" ] || exit 0
count=$(echo "$once" | wc -l)
if [ "$count" -le 2 ]; then
  for noted in "$MAIN" "$NEWER"; do
    [ -z "$(failed "$noted")" ] || run_tests "$noted" --last-failed --last-failed-no-failures none -v || count=again
  done
fi
echo "== failed once ($count; three, or one that fails again, fail the run):"
echo "$once"
case $count in 1 | 2) exit 0 ;; *) exit 1 ;; esac
