"""Frozen records that callers see, and the settings."""
