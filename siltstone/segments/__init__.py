"""Segments in chunks on long-term storage: for each change a pure plan and a short run."""
