# fish completion of git mem, written by `git mem install completion`.
# It lies in conf.d: fish reads its own completions of git from one file, which this one adds to.

function __git_mem_words
    set -l typed (commandline -opc) (commandline -ct)
    set -l at 1
    set -l options
    if test "$typed[1]" = git
        set at (contains -i -- mem $typed); or return
        test $at -gt 2; and set options $typed[2..(math $at - 1)]
    end
    for line in (git $options mem complete -- $typed[(math $at + 1)..-1] 2>/dev/null)
        if test "$line" = :files
            __fish_complete_path (commandline -ct)
        else
            echo $line
        end
    end
end

complete -c git -f -n __fish_git_needs_command -a mem -d 'keep and find what was learned about a project'
complete -c git -f -k -n '__fish_git_using_command mem' -a '(__git_mem_words)'
complete -c git-mem -f -k -a '(__git_mem_words)'
