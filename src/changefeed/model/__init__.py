"""What a change is: tables, types, values, batches, events, and their text."""
