"""Chunk storage in a bucket of Amazon S3, or of a service that speaks its protocol."""

__all__: list[str] = []
