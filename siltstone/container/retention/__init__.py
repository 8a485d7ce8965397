"""Truncating the oldest bytes of segments by their rules."""
