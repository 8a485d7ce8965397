"""Sparing a worker of Spark what it does behind every task."""

from __future__ import annotations

import gc
from functools import cache


@cache
def settle() -> None:
    """Let what was loaded be, once in the life of a process.

    Behind each task the worker of pyspark looks for garbage in all that there is, and that takes
    longer than a small task.
    """
    gc.collect()
    gc.freeze()
