"""Memories of other tools, read where those tools keep them."""
