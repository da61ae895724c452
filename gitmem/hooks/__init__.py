"""Git's hooks, what they leave, and the worker that works it off."""
