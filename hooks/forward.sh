#!/bin/sh
# git mem: stands in for the hook of the same name in another directory.
#
# Git looks for hooks in one place. Where that place is not ours to write in (a
# directory of the working tree, one for all repositories, hooks that are no
# shell scripts), git is sent here, and from here on to where it would have
# looked. Written by `git mem install git`, which also renews it.

here=${0%/*}
name=${0##*/}
events=@EVENTS@

# shellcheck disable=SC3013 # -nt, -ef: in POSIX since 2024, and every sh in use has them
{
    # In a copy of the repository our absolute path still leads here; what runs are the copy's own hooks.
    default=
    ask_file=
    for dir in "${GIT_DIR:-.git}" "${GIT_DIR:-.git}/../.."; do
        [ "$dir/git-mem-hooks" -ef "$here" ] && default=$here/../hooks
    done
    # Where git looks without us. Asked again only after a configuration file has changed: a call of git costs more than all the rest.
    if [ -z "$default" ] || [ ! -r "$here/former" ] || [ "$here/../config" -nt "$here/former" ] ||
        [ "${GIT_CONFIG_GLOBAL:-${HOME-}/.gitconfig}" -nt "$here/former" ] ||
        [ "${XDG_CONFIG_HOME:-${HOME-}/.config}/git/config" -nt "$here/former" ]; then
        # A path may begin and end with blanks and hold line breaks: they travel as \001, and the slash keeps those at its end.
        former=$(git config -z --type=path --get-all core.hooksPath | tr '\012\000' '\001\012' | {
            last=${default:-$(git rev-parse --git-common-dir)/hooks} asked=
            while IFS= read -r value; do
                case $value in "$here") asked=1 ;; *) last=$value ;; esac
            done
            [ -z "$asked" ] || printf '%s/' "$last" | tr '\001' '\012'
        })
        if [ -z "$default" ]; then
            events=
        elif [ -n "$former" ]; then
            former=${former%/}
            printf '%s\n' "$former" >"$here/former.$$" && mv -f "$here/former.$$" "$here/former"
        else # git could not say
            ask_file=1
        fi
    else
        ask_file=1
    fi
    if [ -n "$ask_file" ]; then
        former=$default
        [ -r "$here/former" ] && {
            IFS= read -r former
            while IFS= read -r line; do
                former=$former'
'$line
            done
        } <"$here/former"
    fi
} 2>/dev/null

# Two hooks that run in every commit are forwarded only if they are there: a shell that finds nothing to do costs a millisecond.
# Another hook runs before them, or has run since they came.
for late in prepare-commit-msg commit-msg; do
    [ -x "$former/$late" ] && [ ! -e "$here/$late" ] && [ -n "$default" ] && cp -p "$0" "$here/$late" 2>/dev/null
done

hook=$former/$name
kept=
[ -x "$hook" ] && [ ! -d "$hook" ] && kept=1 # git does not run what is not executable

case " $events " in *" $name "*)
    if [ -r "$here/event.sh" ]; then
        case $kept$name in 1post-rewrite | 1pre-push) # both of us read the input
            text=$(cat)
            feed() { [ -z "$text" ] || printf '%s\n' "$text" 2>/dev/null; }
            # shellcheck source=hooks/event.sh
            feed | (. "$here/event.sh")
            feed | "$hook" "$@"
            exit
            ;;
        esac
        # shellcheck source=hooks/event.sh
        (. "$here/event.sh") || :
    fi
    ;;
esac

[ -n "$kept" ] || exit 0
exec "$hook" "$@"
