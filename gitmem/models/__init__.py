"""Language models on this machine: which there are, how they come, and asking them in a process."""
