"""A year of flights: loaded by a process that is killed half-way, read back, queried with Spark."""
