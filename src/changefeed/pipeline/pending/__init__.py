"""The pending store: decoded changes that are not applied yet."""
