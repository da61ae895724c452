"""Git itself: its processes, files and settings."""
