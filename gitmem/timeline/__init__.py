"""Questions to the history: why, what a branch teaches, which commit made a memory stale."""
