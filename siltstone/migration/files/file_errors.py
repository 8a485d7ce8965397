"""Errors of open files, which do not say by themselves which file it was."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Let every ``OSError`` of the body name ``path``, unless it names a file already."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), path) from error
