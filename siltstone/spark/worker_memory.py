"""Sparing a worker of Spark what it would do after every task."""

from __future__ import annotations

import gc
from functools import cache


@cache
def settle() -> None:
    """Keep what was loaded out of later garbage collections, once in the life of a process.

    After each task the worker of pyspark collects all garbage. With pyspark, pyarrow and this
    package loaded, that takes longer than a small task.
    """
    gc.collect()
    gc.freeze()
