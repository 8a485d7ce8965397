"""Errors of files, which say which file it was."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from siltstone.core.errors import StoreError


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Let every ``OSError`` of the body name ``path``, unless it names a file already."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), path) from error


def changed(path: str) -> StoreError:
    """The error of a file that is no longer what was planned."""
    return StoreError("the file was changed during the import", file=path)
