"""Arrow batches for decoders and encoders: single rows and records, and operations on whole columns.

Any protocol uses these to convert between batches and single rows: records of a batch, rows in commit order, families of
shapes, templates for the kernel's writer, conversions of whole columns. Nothing here depends on a producer or a database.
"""
