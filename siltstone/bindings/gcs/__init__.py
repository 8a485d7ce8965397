"""Chunk storage in a bucket of Google Cloud Storage."""

__all__: list[str] = []
