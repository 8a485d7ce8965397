"""Comparing what metadata says with what lies on long-term storage."""
