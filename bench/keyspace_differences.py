"""How long it takes to find few differences of two large keyspaces, and what goes between them."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import siltstone
from bench.figure import MIB, SECONDS, Figure, bounded
from bench.workshop import Loop, Workshop, async_store, seconds_of
from siltstone import objects

KEYS = (1_000_000, 20_000)
DIFFERENT = 10
AT_ONCE = 5_000
SECONDS_AIM = 10.0
MIB_AIM = 2.0
"""Goals of the time, and of what goes from one side to the other."""


def differences_of_keyspaces(workshop: Workshop) -> list[Figure]:
    """Compare two keyspaces of two stores in one process, of which ten objects differ.

    They have heads only, since values are not looked at.
    """
    total = workshop.pick(*KEYS)
    seconds, exchanged = [], []
    with workshop.place() as place, ExitStack() as stack:
        keyspaces = []
        for name, changed in (("left", set[int]()), ("right", set(range(5, total, total // 10)))):
            folder = workshop.store(place / name)
            _fill(folder, total, changed)
            store = stack.enter_context(siltstone.open(folder))
            keyspaces.append(objects.open(store, "bench"))
        left, right = keyspaces
        for _ in range(workshop.rounds):
            found = left.differences(right)
            counts: list[int] = []
            seconds.append(seconds_of(lambda: counts.append(sum(1 for _ in found))))  # noqa: B023
            assert counts == [DIFFERENT], "not all of them were found"
            exchanged.append(found.exchanged_bytes / 2**20)
    what = f"{DIFFERENT} differences of {total:,} keys"
    return [
        bounded(what, SECONDS, seconds, SECONDS_AIM),
        bounded(f"{what}, exchanged", MIB, exchanged, MIB_AIM),
    ]


def _fill(folder: Path, total: int, changed: set[int]) -> None:
    with Loop() as loop, async_store(loop, folder) as store:
        loop(_filled(store, total, changed))


async def _filled(store: siltstone.AsyncStore, total: int, changed: set[int]) -> None:
    made = await objects.create_async(store, "bench", head_only="with_lookup")
    for first in range(0, total, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, total))
        await made.mput([_entry(number, changed) for number in numbers])
    await store.flush()


def _entry(number: int, changed: set[int]) -> tuple[str, str, str, str, bytes]:
    value = bytes(60) if number in changed else b"x" * 60
    return "add", "bucket", f"key-{number:09}", "", value
