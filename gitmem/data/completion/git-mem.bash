# bash completion of git mem, written by `git mem install completion`.
# git's own completion finds this file and calls _git_mem for `git mem`.

__git_mem_words ()
{
	local current="${!#}" word about cut
	local -a words=() lines=()
	# bash completes from the last of these characters on
	cut="${current%"${current##*[=:]}"}"
	COMPREPLY=()
	while IFS=$'\t' read -r word about; do
		case "$word" in
		'') ;;
		:files) ;; # where nothing else fits, bash takes names of files
		*)
			words+=("${word#"$cut"}")
			word="${word#"$cut"}${about:+  ($about)}"
			lines+=("${word:0:$((${COLUMNS:-80} - 3))}") ;;
		esac
	done < <(git ${__git_C_args[@]+"${__git_C_args[@]}"} \
		${__git_dir:+--git-dir="$__git_dir"} mem complete -- "$@" 2>/dev/null)
	if ((${#words[@]} == 1)); then
		COMPREPLY=("${words[0]} ")
	elif ((${#words[@]})); then
		compopt -o nosort 2>/dev/null # bash 4.4; the newest memory is first
		case "${COMP_TYPE:-9}" in
		37|42) COMPREPLY=("${words[@]}") ;; # one after the other into the line
		*) COMPREPLY=("${lines[@]}") ;;
		esac
	fi
}

_git_mem ()
{
	local at="${__git_cmd_idx:-1}"
	__git_mem_words "${words[@]:at + 1:cword - at}"
}

__git_mem_alone ()
{
	local cur words cword prev __git_dir
	local -a __git_C_args=()
	if declare -F _get_comp_words_by_ref >/dev/null; then
		_get_comp_words_by_ref -n =: cur words cword prev
	else
		words=("${COMP_WORDS[@]}") cword=$COMP_CWORD
	fi
	__git_mem_words "${words[@]:1:cword}"
}
complete -o bashdefault -o default -o nospace -F __git_mem_alone git-mem
