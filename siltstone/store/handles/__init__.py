"""The handles of asynchronous callers."""
