"""The data model of changes: tables, types, values, batches, events, and their JSON text."""
