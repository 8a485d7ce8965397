"""The owner of a set of segments: appends, tail cache, segment flusher, garbage, recovery."""
