"""What a process holds: to see that opening and closing again and again leaves nothing."""

from __future__ import annotations

import gc
import os
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

WARM_UP = 20
"""The first ones load modules and files that stay."""


def held() -> Counter[str]:
    """The descriptors and the threads of this process, by kind and name."""
    gc.collect()
    return held_uncollected()


def held_uncollected() -> Counter[str]:
    """The same without collecting garbage: what is freed without waiting for the collector."""
    descriptors = []
    for path in Path("/proc/self/fd").iterdir():
        try:
            descriptors.append(os.readlink(path).partition(":")[0])
        except FileNotFoundError:  # that of the listing
            continue
    return Counter([*descriptors, *(thread.name for thread in threading.enumerate())])


def held_below(folder: Path) -> int:
    """How many descriptors of this process are of ``folder`` or of what is there."""
    return sum(
        count for name, count in held_uncollected().items() if Path(name).is_relative_to(folder)
    )


def check_cycles(cycle: Callable[[int], object], count: int) -> None:
    """Call ``cycle`` with each number below ``count``: it must leave nothing that it took.

    What ends meanwhile was another test's.
    """
    for number in range(WARM_UP):
        cycle(number)
    before = held()
    for number in range(count):
        cycle(number)
    assert not held() - before
