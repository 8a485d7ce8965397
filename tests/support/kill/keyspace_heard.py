"""What the writers of a keyspace reported, and what is there of it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

from siltstone.objects.open_spaces import open_space
from siltstone.objects.records.keys import ObjectKey
from siltstone.store.opening import open_async_store
from tests.support.kill.keyspace_child import LIMITS, NAMES, removes, value_of
from tests.support.objects.space_check import SeenObject, look
from tests.support.objects.value_replay import replay

OPENS_WITHIN_S: Final = 60.0
WRITERS: Final = 6


class Heard:
    """What the writers reported: of each its newest number, and the SQN of that."""

    def __init__(self) -> None:
        self.numbers = [0] * WRITERS
        self.sqns: list[int | None] = [None] * WRITERS

    def take(self, reports: list[list[Any]]) -> None:
        for kind, *facts in reports:
            assert kind != "e", facts
            if kind == "a":
                writer, number, sqn = facts
                self.numbers[writer], self.sqns[writer] = number, sqn

    def compare(self, seen: dict[ObjectKey, SeenObject]) -> None:
        """Each writer's newest change is there, or the one after it; goes on from what is there."""
        objects_by_key = {key.key.decode(): each for key, each in seen.items()}
        for writer, number in enumerate(self.numbers):
            found = objects_by_key.get(f"writer {writer}")
            if found is None:
                assert removes(number) or removes(number + 1)
                self.numbers[writer] = number if removes(number) else number + 1
                continue
            there = int(found.value.split()[1])
            assert there in (number, number + 1)
            assert found.value == value_of(writer, there)
            assert [term for _, term in found.head.entries] == [str(there).encode()]
            assert there != number or self.sqns[writer] in (found.head.sqn, None)
            self.numbers[writer], self.sqns[writer] = there, found.head.sqn


async def seen_in(folder: Path, *, compacts: bool) -> dict[ObjectKey, SeenObject]:
    async with await open_async_store(folder, read_only=True) as store:
        if not compacts:
            return (await look(store, NAMES)).objects
        found = await replay(await open_space(store, NAMES, LIMITS))
    objects = {
        key: SeenObject(head, found.records[head.sqn][1]) for key, head in found.heads.items()
    }
    assert found.visible(time.time()) == {key: each.value for key, each in objects.items()}
    return objects
