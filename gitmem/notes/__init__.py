"""The notes: every line ever written, read and appended."""
