"""Where memories stand, at HEAD and at any other revision: commits, rewrites, renamed files."""
