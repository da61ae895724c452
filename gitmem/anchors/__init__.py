"""Where memories stand: commits, rewrites, squash merges."""
