"""Benchmarks: every figure is a ratio to a peer that does the same work in the same run."""
