#!/bin/sh
# Builds wheel and sdist once and tries each as users install it, each in a place of its own.
#
#   sh tools/try_packages.sh [PYTHON...]   default: python3.11 python3.12 python3.13
#
# By pip from the wheel and from the sdist with each Python, by pipx and by uv from the wheel with
# the last one, there also with the extra `mcp`. None may see the checkout, this user's files or another
# package. A release runs this; the files it tried are left in dist/. Needs the network.
set -eu
cd "$(dirname "$0")/.."
root=$(pwd)
[ $# -gt 0 ] || set -- python3.11 python3.12 python3.13
for python; do
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
    { echo "error: '$python' does not start, or is older than 3.11" >&2; exit 2; }
done
unset PYTHONPATH PYTHONHOME VIRTUAL_ENV 2>/dev/null || true
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/trial.sh" <<'END'
set -eux # a script of its own: where a failure is caught, `set -e` does nothing
git config --global user.name Ada
git config --global user.email ada@example.org
git init -q
git commit -q --allow-empty -m "Begin"
git mem --version | grep -Fx "git-mem $version"
git mem tour
git mem init --offline
git mem remember "Use PostgreSQL, not MongoDB: invoices share a transaction" --type decision
git mem recall "which database do we use and why" | grep PostgreSQL
git mem doctor
git mem install claude
hook=$(sed -n 's/.*"command": "\(.*hook SessionStart.*\)".*/\1/p' "$HOME/.claude/settings.json")
echo '{"hook_event_name": "SessionStart", "session_id": "s", "source": "startup"}' |
  sh -c "$hook" | grep PostgreSQL
git mem uninstall claude
END

trial() { # NAME BIN: the `git-mem` in BIN does its work for a user who has nothing else
  shop=$work/$1/home/shop
  mkdir -p "$shop"
  (cd "$shop" && env -i HOME="$work/$1/home" PATH="$2:/usr/bin:/bin" version="$version" \
    sh "$work/trial.sh") >"$work/log" 2>&1 || { cat "$work/log"; echo "error: $1 does not work" >&2; exit 1; }
  echo "ok: $1"
}

echo "== building"
"$1" -m venv "$work/build"
"$work/build/bin/pip" install --quiet build pipx uv
rm -rf dist
"$work/build/bin/python" -m build . >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
wheel=$(echo "$root"/dist/git_mem-*.whl)
sdist=$(echo "$root"/dist/git_mem-*.tar.gz)
version=$(basename "$sdist" .tar.gz)
version=${version#git_mem-}

cd "$work" # nothing of the checkout can be imported from here
for python; do
  for file in "$wheel" "$sdist"; do
    name=$(basename "$python")-$(case $file in *.whl) echo wheel ;; *) echo sdist ;; esac)
    env=$work/$name/env
    "$python" -m venv "$env"
    "$env/bin/pip" install --quiet "$file"
    trial "$name" "$env/bin"
    [ -f "$env/share/man/man1/git-mem.1" ]
  done
done

"$env/bin/pip" install --quiet "git-mem[mcp] @ file://$wheel"
"$env/bin/pip" check >/dev/null
trial "$(basename "$python")-mcp" "$env/bin"
ask='{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "trial", "version": "1"}}}'
(cd "$shop" && echo "$ask" | "$env/bin/git-mem" mcp) | grep '"serverInfo"' >/dev/null
echo "ok: mcp answers"

export PIPX_HOME="$work/pipx" PIPX_BIN_DIR="$work/pipx/bin" PIPX_MAN_DIR="$work/pipx/man"
"$work/build/bin/pipx" install --quiet --python "$python" "$wheel" >/dev/null
trial pipx "$PIPX_BIN_DIR"
[ -f "$PIPX_MAN_DIR/man1/git-mem.1" ]
"$work/build/bin/pipx" uninstall git-mem >/dev/null
export UV_TOOL_DIR="$work/uv" UV_TOOL_BIN_DIR="$work/uv/bin"
"$work/build/bin/uv" tool install --quiet --python "$python" "$wheel"
trial uv "$UV_TOOL_BIN_DIR"
"$work/build/bin/uv" tool uninstall --quiet git-mem
echo "== tried, in dist/: $(basename "$wheel") $(basename "$sdist")"
