"""Memories as one page for a browser: what stands in it, how it is joined, how it is served."""
