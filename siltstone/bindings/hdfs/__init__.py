"""Chunk storage in a folder of HDFS."""

__all__: list[str] = []
