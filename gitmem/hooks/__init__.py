"""Git's hooks, and the files between hooks and the worker."""
