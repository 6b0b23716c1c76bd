"""Decoders and encoders by a protocol's name, for everything above: `decoding.decoder` and `encoding.encoder`.

Here belongs what stands between a protocol's reference and its users: the Rust kernel, rows put back in order, and the net
that makes a dead letter of a record at which a decoder raises.
"""
