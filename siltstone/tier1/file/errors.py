"""How errors of the operating system become errors of the log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from errno import EDQUOT, EINVAL, ENOSPC, EOPNOTSUPP

from siltstone.core.errors import LogError

FULL = frozenset({ENOSPC, EDQUOT})
"""What a file system says when there is no room; preallocation and new names may meet it."""

NO_DIRECT = frozenset({EINVAL, EOPNOTSUPP})
"""What a file system answers that has no O_DIRECT, or wants another alignment."""


@contextmanager
def translated(operation: str, path: str) -> Iterator[None]:
    """Turn ``OSError`` into ``LogError``: nobody knows what reached the disk."""
    try:
        yield
    except OSError as error:
        raise log_error(operation, path, error) from error


def log_error(operation: str, path: str, error: OSError) -> LogError:
    """Return the ``LogError`` for one failed call."""
    return LogError(
        "file log failed", operation=operation, path=path, reason=repr(error.strerror or str(error))
    )
