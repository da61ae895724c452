# shellcheck shell=sh
# git mem: tells the worker what git has just done. A hook sources this file, in a subshell.
#
# Promise: it prints nothing (only a push that would publish private memories
# gets one warning) and ends before the worker has begun. A commit needs only
# what the shell has built in, so it costs the shell and one fork.
#
# The hook's own name says where the repository is, so linked worktrees and moved
# repositories work. Written by `git mem install git`, which also renews it.

exec 3>&2 >/dev/null 2>&1
set +e +u +x
case ${GIT_MEM_DISABLE-} in '' | 0) ;; *) exit ;; esac
[ -z "${GIT_MEM_SYNCING-}" ] || exit # git mem itself is pushing

# The worker runs in the interpreter that installed the hooks; where that is gone, by its name; else nothing is to be done.
python=@PYTHON@
package=@PACKAGE@
if [ ! -x "$python" ] || [ ! -r "$package/__main__.py" ]; then
    command -v git-mem || exit
    python=
fi

event=${0##*/}
event=${event%%.*} # other tools run us as post-commit.legacy
case $event in
post-rewrite | pre-push) ;;
post-checkout) [ "${3-}" = 1 ] || exit ;; # 0: files, not a branch
esac

common=${0%/*}/..
case $common in /*) ;; *) common=$PWD/$common ;; esac
mem=$common/mem
if [ ! -d "$mem" ]; then
    [ -n "$(git for-each-ref --count=1 @REFS@ @BACKUPS@)" ] || exit
    mkdir -m 700 "$mem" || exit
fi
# Not through a link, and no waiting for a named pipe: somebody may have put it there.
[ ! -h "$mem" ] || exit
for file in "$mem/spool" "$mem/worker.pid"; do
    if [ -h "$file" ] || { [ -e "$file" ] && [ ! -f "$file" ]; }; then rm -f "$file" || exit; fi
done

umask 077
{
    case $event in
    post-rewrite)
        while read -r old new _; do
            case $old$new in *[!0-9a-f]*) continue ;; esac
            printf '\n{"event":"post-rewrite","old":"%s","new":"%s"}\n' "$old" "$new"
        done
        ;;
    pre-push)
        grep -F -e @PRIVATE@ -e @BACKUP@ | while read -r from id to _; do # the shell alone reads byte by byte
            case $id in *[!0]*) ;; *) continue ;; esac # a deletion publishes nothing
            case " $from $to" in
            *" "@PRIVATE@* | *" "@BACKUP@*)
                printf 'warning: this push publishes private memories (%s)\n' "$to" >&3
                break
                ;;
            esac
        done
        case ${1-} in *[!0-9A-Za-z._-]*) remote= ;; *) remote=${1-} ;; esac # a URL may hold a password
        printf '\n{"event":"pre-push","remote":"%s"}\n' "$remote"
        ;;
    *)
        dir=${GIT_DIR:-.git}
        case $dir in /*) ;; *) dir=$PWD/$dir ;; esac
        # After a commit its branch is a loose ref, which the shell can read. With reftable it is not: then no id is noted.
        read -r head <"$dir/HEAD"
        case $head in "ref: "*)
            name=${head#ref: }
            read -r head <"$common/$name" || head=
            ;;
        esac
        case $head in *[!0-9a-f]*) head= ;; esac
        case $dir in *[\"\\]* | *[[:cntrl:]]*) dir= ;; esac
        printf '\n{"event":"%s","head":"%s","dir":"%s"}\n' "$event" "$head" "$dir"
        ;;
    esac
} >>"$mem/spool" || exit

# First the line, then this look: a worker takes its number away before it looks at the spool for the last time.
read -r pid <"$mem/worker.pid" && kill -0 "$pid" && exit
if [ -n "$python" ]; then
    "$python" -EP -m gitmem worker "$common" </dev/null >/dev/null 2>&1 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- &
else
    git-mem worker "$common" </dev/null >/dev/null 2>&1 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- &
fi
echo "$!" >"$mem/worker.pid"
