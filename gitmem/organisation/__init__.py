"""One index over the memories of many repositories, in PostgreSQL; the notes stay the truth."""
