"""What checkpoints cost: constant for each update, however large the tables, and never zero.

Virtual time, services in memory. The sizes of index files are those that the index really writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from siltstone.container.flush.upload_budget import (
    BATCHES_MAX,
    BYTES_PER_BYTE,
    FREE_BYTES,
    UploadBudget,
)
from siltstone.container.models.segments import Operation, Put
from siltstone.core.constants import Buffer
from siltstone.testing.faults.faulty_chunk_storage import FaultyChunkStorage
from tests.support.container.container_world import World, with_settings, world

SETTINGS = with_settings(checkpoint_age_s=10.0, table_flush_age_s=5.0)
ROUNDS = 60


def test_small_uploads_are_free() -> None:
    budget = UploadBudget()
    budget.spend(0, FREE_BYTES)
    assert budget.allows(1, 1)
    budget.spend(0, 1)
    assert budget.allows(1, 1)


def test_large_uploads_are_paid_back_by_growth() -> None:
    budget = UploadBudget()
    budget.spend(0, FREE_BYTES + 1_000 * BYTES_PER_BYTE)
    assert not budget.allows(999, 1)
    assert budget.allows(1_000, 1)
    budget.spend(1_000, BYTES_PER_BYTE)
    assert budget.allows(1, 1)
    budget.spend(2**40, 2 * FREE_BYTES)
    assert not budget.allows(1, 1)


def test_a_boot_never_has_too_many_batches_before_it() -> None:
    budget = UploadBudget()
    budget.spend(0, 2**50)
    assert not budget.allows(1, BATCHES_MAX - 1)
    assert budget.allows(1, BATCHES_MAX)


class Uploads:
    """Index files that were created."""

    def __init__(self) -> None:
        self.count = 0
        self.size = 0

    def watch(self, storage: FaultyChunkStorage) -> None:
        create = storage.create

        def counted(name: str, buffers: Sequence[Buffer]) -> None:
            if "/index-" in name:
                self.count += 1
                self.size += sum(len(memoryview(part)) for part in buffers)
            create(name, buffers)

        storage.create = counted  # type: ignore[method-assign]


async def trickle(here: World, uploads: Uploads, rows: int) -> tuple[int, int, int]:
    """Few updates of a table of ``rows`` rows for long; bytes grown, bytes and files uploaded."""
    container = (await here.open()).container
    await container.create_table("t")
    chance = Random(rows)
    places = [b"%012d" % (number * 7_919 % 10**9) for number in range(rows)]
    for first in range(0, rows, 2_000):
        part: list[Operation] = [
            Put("t", key, chance.randbytes(100)) for key in places[first : first + 2_000]
        ]
        await container.commit(part)
    await container.checkpoint()
    before, size, count = await container.table_version(), uploads.size, uploads.count
    for number in range(ROUNDS):
        changes: list[Operation] = [
            Put("t", places[(number * 31 + step * 101) % rows], chance.randbytes(100))
            for step in range(5)
        ]
        await container.commit(changes)
        await here.environment.sleep(11.0)
    grown = await container.table_version() - before
    await container.close()
    return grown, uploads.size - size, uploads.count - count


@pytest.mark.slow
@pytest.mark.parametrize("rows", [2_000, 60_000])
def test_an_update_of_a_large_table_costs_what_one_of_a_small_does(rows: int) -> None:
    with world(settings=SETTINGS) as here:
        uploads = Uploads()
        here.storage_hook = uploads.watch
        grown, size, count = here.run(trickle(here, uploads, rows))
    if rows == 2_000:
        assert count > ROUNDS, "small indexes are uploaded by age"
    else:
        assert size <= BYTES_PER_BYTE * grown + FREE_BYTES
