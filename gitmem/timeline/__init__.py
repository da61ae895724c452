"""Questions to the history: about these lines, what a branch teaches, which commit made a memory
stale.
"""
