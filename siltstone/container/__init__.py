"""The owner of a set of segments: appends, tail cache, storage writer, garbage, recovery."""
