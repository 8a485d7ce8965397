"""Deleting chunks that nothing names any more."""
