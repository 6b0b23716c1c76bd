"""The pending store: decoded changes that wait, and the reading of them."""
