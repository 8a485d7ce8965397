"""The operations on segments in chunks: for each a pure plan and a short run."""
