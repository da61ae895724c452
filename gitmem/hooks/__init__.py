"""Git's hooks, and the spool in which all hooks leave events for the worker."""
