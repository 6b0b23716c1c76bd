"""What users do with a pipeline beside running it: look, check, repair, replay, expire, translate."""
