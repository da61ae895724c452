"""`git mem <TAB>` in bash, zsh and fish."""
