"""Values of columns, both directions: with a schema, without one, and the numbers and times inside of them."""
