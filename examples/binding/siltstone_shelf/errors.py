"""Errors of SQLite as errors of the contract. One file, so that nothing is translated twice."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from siltstone.core.errors import ChunkStorageFullError, ChunkUnavailableError, Outcome

NOT_BEGUN = frozenset({"SQLITE_BUSY", "SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_NOTADB"})
"""These say that nothing was written."""


@contextmanager
def translated(name: str, operation: str, outcome: Outcome = Outcome.NOT_APPLIED) -> Iterator[None]:
    """Raise the contract's error for any error that the block raises.

    ``outcome`` is what is known about the effect if the error itself does not say it. When in
    doubt, ``UNKNOWN``: the caller then continues under another name, and loses nothing.
    """
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorname", type(error).__name__)
        known = Outcome.NOT_APPLIED if code in NOT_BEGUN else outcome
        kind = ChunkStorageFullError if code == "SQLITE_FULL" else ChunkUnavailableError
        raise kind(
            "the file did not do it", chunk=name, operation=operation, outcome=known, code=code
        ) from error
