"""Reads and writes the values of columns, with and without schema; and numbers and times inside them."""
