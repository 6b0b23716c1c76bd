"""Which writes bring the tables from one state to the next."""
