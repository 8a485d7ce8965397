"""What a collection is at one moment, what changes it, and what is due: all of it without I/O."""
