"""Tiered storage: fast, fenced logs in front of plain chunks on cheap long-term storage."""
