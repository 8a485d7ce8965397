"""Segments in Spark: data source, readers and writers."""
