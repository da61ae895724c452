"""What became of memories that were told: who used them, and what follows for their confidence."""
