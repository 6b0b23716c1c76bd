"""The bridge between the core's Arrow columns and Spark's: chunks, the sink's type map, conversion of columns."""
