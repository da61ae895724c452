#!/bin/sh
# git mem: a hook of Claude Code, as the plugin starts it: agent.sh EVENT.
#
# Promise: where git mem is not installed it prints nothing and ends with status 0.
# The plugin brings no program: the one that the user installed is started, from
# PATH or ~/.local/bin. It runs with -E where its interpreter is known, else with
# an empty PYTHONPATH: Python would run a sitecustomize.py of the working tree
# before any line of ours.

program=$(command -v git-mem) || program=$HOME/.local/bin/git-mem
[ -x "$program" ] && [ -n "${1-}" ] || exit 0
read -r line <"$program" || line=
case $line in
"#!/"*" "*) ;;
"#!/"*python*)
    python=${line#??}
    if [ -x "$python" ]; then
        "$python" -EP "$program" hook "$1" --agent claude
        exit 0
    fi
    ;;
esac
PYTHONPATH='' "$program" hook "$1" --agent claude
exit 0
