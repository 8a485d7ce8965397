"""From tier 1 to long-term storage: segments, the table log, checkpoints."""
