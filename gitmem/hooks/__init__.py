"""Git's hooks, and the files by which hooks and the worker tell each other: the spool, and what is
to be announced.
"""
