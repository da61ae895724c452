"""git mem: memory for coding agents, kept in git notes."""

__version__ = "0.1.0"
