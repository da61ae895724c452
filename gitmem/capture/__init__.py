"""What is worth keeping of what was said and done: events in, few good memories out."""
