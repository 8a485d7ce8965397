"""The errors of the contract, as the memory service raises them: it always knows the outcome."""

from __future__ import annotations

from siltstone.core.errors import (
    ChunkAccessDeniedError,
    ChunkExistsError,
    ChunkNotFoundError,
    ChunkStorageFullError,
)


def not_found(name: str, operation: str) -> ChunkNotFoundError:
    """The chunk does not exist."""
    return ChunkNotFoundError("no such chunk", chunk=name, operation=operation)


def exists(name: str, operation: str) -> ChunkExistsError:
    """The name is taken."""
    return ChunkExistsError("chunk exists", chunk=name, operation=operation)


def sealed(name: str) -> ChunkAccessDeniedError:
    """The chunk takes no more bytes."""
    return ChunkAccessDeniedError("chunk is sealed", chunk=name, operation="write")


def full(name: str, operation: str) -> ChunkStorageFullError:
    """There is no room; nothing was written."""
    return ChunkStorageFullError("memory service is full", chunk=name, operation=operation)
