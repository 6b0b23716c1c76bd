"""Decoders and encoders by a protocol's name, for all other packages: `decoding.decoder` and `encoding.encoder`.

This package combines a protocol's reference with the Rust kernel, restores the order of rows, and makes a dead letter of
a record for which a decoder raises.
"""
