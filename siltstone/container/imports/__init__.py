"""Bytes that were written elsewhere, and objects in place, that become segments."""
