"""A text leaves the repository for good."""
