"""Sparing a worker of Spark what it does after every task, and at every piece of one."""

from __future__ import annotations

import gc
from functools import cache
from typing import Final

from siltstone.core.constants import MIB

KEPT_BYTES: Final = 16 * MIB
"""More than a task frees at a time."""


@cache
def settle() -> None:
    """Let what was loaded be, once in the life of a process.

    After each task the worker of pyspark looks for garbage in all that there is, and that takes
    longer than a small task.
    """
    gc.collect()
    gc.freeze()


@cache
def keep_memory() -> None:
    """Have the C library keep what is freed, once in the life of a process.

    It gives memory back to the system at once until larger blocks than those have been freed, see
    ``M_MMAP_THRESHOLD`` in mallopt(3). What numpy makes for each piece of events would be new each
    time, and cost a fault for each page. The block is never touched, so it costs nothing.
    """
    bytearray(KEPT_BYTES)
