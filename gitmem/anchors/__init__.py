"""Where memories stand, at HEAD and at any other revision: commits, rewrites, squash merges,
renamed files.
"""
