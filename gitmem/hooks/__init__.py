"""Git's hooks, and the files by which hooks and the worker tell each other."""
