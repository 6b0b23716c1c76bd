"""The pipeline's definition: reading it, and reporting its problems."""
