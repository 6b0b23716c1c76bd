"""Arrow batches as decoders and encoders handle them: rows and records one by one, and whole columns where that is exact.

Here belongs what any protocol needs to go between batches and single rows: records of a batch, rows in commit order, families
of shapes, templates by which the kernel writes rows, conversions of whole columns. It knows neither a producer nor a database.
"""
