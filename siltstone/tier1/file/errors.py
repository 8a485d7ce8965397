"""How errors of the operating system become errors of the log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from errno import EDQUOT, EINVAL, ENOSPC, EOPNOTSUPP

from siltstone.core.errors import LogError
from siltstone.core.open_files import LACK, log_lack, way_out

FULL = frozenset({ENOSPC, EDQUOT})
"""What a file system says when there is no room; preallocation and new names may meet it."""

NO_DIRECT = frozenset({EINVAL, EOPNOTSUPP})
"""What a file system answers that has no O_DIRECT, or wants another alignment."""


@contextmanager
def translated(operation: str, path: str, *, changes: bool = False) -> Iterator[None]:
    """Turn ``OSError`` into ``LogError``: it is unknown what reached the disk.

    A lack of descriptors is told as such, unless a part of what ``changes`` something may be done.
    """
    try:
        yield
    except OSError as error:
        if error.errno in LACK and not changes:
            raise log_lack(operation, path) from error
        raise log_error(operation, path, error) from error


def log_error(operation: str, path: str, error: OSError) -> LogError:
    """Return the ``LogError`` for one failed call."""
    reason = repr(error.strerror or str(error))
    told = f"file log failed; {way_out()}" if error.errno in LACK else "file log failed"
    return LogError(told, operation=operation, path=path, reason=reason)
