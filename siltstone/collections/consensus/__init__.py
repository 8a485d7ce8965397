"""The order of the changes of each collection: over objects, and in memory for tests."""
