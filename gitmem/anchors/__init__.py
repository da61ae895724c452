"""States of memories' commits and paths at a revision: rewrites, squash merges, renames."""
