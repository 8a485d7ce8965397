"""An owner after an epoch that ended, and what a sweep tells it of that epoch."""

from __future__ import annotations

from siltstone.container.models.garbage import SweepFinding
from siltstone.core.chunk_names import data_chunk
from tests.support.container.container_world import Owner, World, pattern, with_settings

DAY_S = 86_400.0
SETTINGS = with_settings(
    flush_age_s=1e8,
    table_flush_age_s=1e8,
    checkpoint_age_s=1e8,
    garbage_delay_s=0.0,
    garbage_interval_s=1e8,
    space_interval_s=1e8,
    optimiser_interval_s=1e8,
    sweep_requests_hour=60,
)


async def second_owner(made: World) -> Owner:
    """An owner after an epoch with one chunk that counts, and chunk ids that are given."""
    owner = await made.open()
    await owner.container.create("a")
    await owner.container.append("a", pattern(1, 3_000))
    await owner.container.flush()
    await owner.container.close()
    return await made.open()


def lost(made: World, *ids: int, epoch: int = 1) -> list[str]:
    """Chunks that nothing names."""
    names = [data_chunk(0, epoch, "lost", number, number) for number in ids]
    for name in names:
        made.new_storage().create(name, [b"lost"])
    return names


async def swept(owner: Owner, *, delete: bool = True, all_epochs: bool = False) -> list[str]:
    return [f"{each.kind} {each.name}" for each in await told(owner, delete, all_epochs)]


async def told(owner: Owner, delete: bool = True, all_epochs: bool = False) -> list[SweepFinding]:
    found = owner.container.garbage.sweep(delete=delete, all_epochs=all_epochs)
    return [finding async for finding in found]
