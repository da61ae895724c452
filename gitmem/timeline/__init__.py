"""Memories against revisions: as of then, about these lines, what a branch teaches, what made them stale."""
