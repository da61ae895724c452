"""What is worth keeping of turns and commits: events in, few good memories out."""
