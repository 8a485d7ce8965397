"""What an owner knows in memory: segments, their tails, tables, frames."""
