"""Use cases about memories: write them, find them, show them, take them elsewhere."""
