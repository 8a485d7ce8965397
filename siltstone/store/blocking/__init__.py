"""The handles of blocking callers."""
