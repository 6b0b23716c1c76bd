"""A pipeline: what the user wrote, the flow of it, and what has been applied. The only place that knows the whole."""
