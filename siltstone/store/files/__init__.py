"""Segments that are published as files."""
