"""Chunks as files in a folder: a local file system, NFS, or anything else that is mounted."""

__all__: list[str] = []
