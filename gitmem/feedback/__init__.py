"""What became of memories that were told: which were used, passed over, contradicted."""
