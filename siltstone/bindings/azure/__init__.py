"""Chunk storage in a container of Azure Blob Storage."""

__all__: list[str] = []
