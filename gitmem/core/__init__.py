"""Pure functions: records, folding, ranking, text, secrets. No file, no process."""
