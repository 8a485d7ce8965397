"""What an ``errno`` means for a chunk, and whether the call may have had its effect."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from siltstone.core.errors import (
    ChunkAccessDeniedError,
    ChunkError,
    ChunkExistsError,
    ChunkNameError,
    ChunkNotFoundError,
    ChunkStorageFullError,
    ChunkUnavailableError,
    Outcome,
)
from siltstone.core.open_files import LACK, chunk_lack


class Effect(Enum):
    """How far a call had come when the operating system refused.

    ``NONE``: nothing that could change a chunk was tried. ``ONE_CALL``: the refused call itself
    would have changed it, so the errno decides. ``BEGUN``: an earlier call has changed it already.
    """

    NONE = "none"
    ONE_CALL = "one call"
    BEGUN = "begun"


FULL = frozenset({errno.ENOSPC, errno.EDQUOT})

CLASSES: dict[int, type[ChunkError]] = {
    errno.ENOENT: ChunkNotFoundError,
    errno.ENOTDIR: ChunkNotFoundError,
    errno.ELOOP: ChunkNotFoundError,
    errno.EISDIR: ChunkNotFoundError,
    errno.ENXIO: ChunkNotFoundError,
    errno.EEXIST: ChunkExistsError,
    errno.ENOSPC: ChunkStorageFullError,
    errno.EDQUOT: ChunkStorageFullError,
    errno.EACCES: ChunkAccessDeniedError,
    errno.EPERM: ChunkAccessDeniedError,
    errno.EROFS: ChunkAccessDeniedError,
    errno.ENAMETOOLONG: ChunkNameError,
    errno.EILSEQ: ChunkNameError,
}
"""``ENXIO`` is what a pipe or a socket answers. All others are ``ChunkUnavailableError``."""

REFUSED_AT_ONCE = frozenset(CLASSES) | LACK | {errno.ENOMEM}
"""Answers that a file system gives before it changes anything.

``EIO``, ``ESTALE``, ``ETIMEDOUT`` and all that is not listed may come after the change, from a
server whose reply was lost.
"""


def chunk_error(error: OSError, *, chunk: str, operation: str, effect: Effect) -> ChunkError:
    """Return the error of the contract that tells what ``error`` means."""
    number = error.errno or errno.EIO
    code = errno.errorcode.get(number, str(number))
    kind = CLASSES.get(number, ChunkUnavailableError)
    if effect is Effect.NONE or (effect is Effect.ONE_CALL and number in REFUSED_AT_ONCE):
        outcome = Outcome.NOT_APPLIED
    else:
        outcome = Outcome.UNKNOWN
        if not issubclass(kind, ChunkStorageFullError | ChunkAccessDeniedError):
            # "No such chunk" and "exists" are statements of fact that only a refused call can make.
            kind = ChunkUnavailableError
    if number in LACK:
        return chunk_lack(chunk=chunk, operation=operation, outcome=outcome, errno=code)
    reason = (error.strerror or "input/output error").lower()
    return kind(
        reason,
        chunk=chunk,
        operation=operation,
        outcome=outcome,
        errno=code,
    )


@contextmanager
def translated(chunk: str, operation: str, effect: Effect = Effect.NONE) -> Iterator[None]:
    """Turn an ``OSError`` of the block into a ``ChunkError``; other errors pass."""
    try:
        yield
    except OSError as error:
        raise chunk_error(error, chunk=chunk, operation=operation, effect=effect) from error
