"""Benchmarks: decoding and encoding speed on this machine, one benchmark per file; recorded results are in `bench/results`."""
