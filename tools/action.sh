#!/bin/sh
# The steps of the GitHub Action (action.yml): fetches the memories, checks them, writes SARIF, the
# summary and, where PULL names a pull request, a comment under it. Status: that of `git mem check`.
#
# Promise: inputs come in the environment and are never read as code; nothing of the checked-out
# tree is run. git-mem is the one on PATH, else the one beside this script, in an environment of its
# own below RUNNER_TEMP.
set -eu
sarif=${SARIF:-git-mem.sarif}

command -v git-mem >/dev/null || {
  PREFIX=${RUNNER_TEMP:?}/git-mem
  export PREFIX
  echo '::group::installing git mem'
  sh "$(dirname "$0")/../install.sh"
  echo '::endgroup::'
  PATH=$PREFIX/bin:$PATH
}
# The star: a name without one fails where the remote has no memories. Never forced.
git fetch --quiet --no-tags "${REMOTE:-origin}" 'refs/notes/mem/team*:refs/notes/mem/team*'

set -f # words of ONLY are kinds, not patterns
set --
for kind in ${ONLY:-}; do set -- "$@" --only "$kind"; done
if [ -n "${SINCE:-}" ]; then set -- "$@" --since "$SINCE"; fi

status=0
git-mem check --format github "$@" || status=$?
[ "$status" -le 1 ] || exit "$status"
git-mem check --format sarif "$@" >"$sarif" || [ $? -eq 1 ]
[ -s "$sarif" ] || rm -f "$sarif" # no answer, and stderr says why: uploading it would hide that
echo "sarif=$sarif" >>"${GITHUB_OUTPUT:-/dev/null}"

# One comment, brought up to date: a bot's that begins with our mark. No other one is touched, and
# a branch that has taught nothing gets none.
comment() { # FILE
  comments=repos/$GITHUB_REPOSITORY/issues/$PULL/comments
  found=$(gh api --paginate "$comments" \
    --jq '.[] | select(.user.type == "Bot" and (.body | startswith("<!-- git mem -->"))) | .id') || return
  id=$(printf '%s\n' "$found" | head -n 1)
  if [ -n "$id" ]; then
    gh api --silent --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$id" -F "body=@$1"
  elif grep -q '^####' "$1"; then
    gh api --silent "$comments" -F "body=@$1"
  fi
}

if [ -n "${SINCE:-}" ]; then
  said=$(mktemp)
  trap 'rm -f "$said"' EXIT
  echo '<!-- git mem -->' >"$said"
  git-mem diff --format md "$SINCE...HEAD" >>"$said"
  cat "$said" >>"${GITHUB_STEP_SUMMARY:-/dev/stdout}"
  if [ -n "${PULL:-}" ]; then
    comment "$said" || echo '::warning title=git mem::the comment was not written, see the log'
  fi
fi
exit "$status"
