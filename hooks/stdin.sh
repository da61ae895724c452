# shellcheck shell=sh
# git mem: for a hook of others that reads its standard input. Sourced at its begin.
#
# The input is read whole, given to us, and given to the hook itself, which is
# started once more for it, with its arguments; its exit status decides. The
# second time nothing happens here. A pipe, since a here-document may need a
# temporary file, and a full disk must not fail a push.

if [ "${GIT_MEM_STDIN-}" = "$0" ]; then
    unset GIT_MEM_STDIN
else
    git_mem_text=$(cat)
    git_mem_feed() { [ -z "$git_mem_text" ] || printf '%s\n' "$git_mem_text" 2>/dev/null; }
    # shellcheck source=hooks/event.sh
    git_mem_feed | (. "${0%/*}/../git-mem-hooks/event.sh") || :
    git_mem_feed | GIT_MEM_STDIN=$0 "$0" "$@"
    exit
fi
