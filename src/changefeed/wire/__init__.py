"""Pieces of the wire that two or more protocols share."""
