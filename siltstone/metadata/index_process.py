"""Which process may open an index: one that was not forked from a process which had opened one.

The library has threads, one set for a process, that write and close its files. A child that was
forked after the first index was opened has none of them, and would wait for them without end.
"""

from __future__ import annotations

import os

from siltstone.core.errors import StoreError

_user: list[int] = []
"""The process that opened the first index."""


def check_process() -> None:
    """Refuse to continue where no index can be opened; makes no call.

    Raises:
        StoreError: this process was forked from one that had opened an index.
    """
    if _user and _user[0] != os.getpid():
        raise StoreError(
            "a store was opened before this process was forked, and none can be opened here: "
            "spawn the process instead",
            opened_by=_user[0],
        )


def use_process() -> None:
    """Note that this process opens an index. Raises as ``check_process``."""
    check_process()
    if not _user:
        _user.append(os.getpid())
