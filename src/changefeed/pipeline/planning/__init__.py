"""Plans the writes that bring the tables from one state to the next."""
