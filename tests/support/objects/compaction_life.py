"""An application that changes, folds and compacts a keyspace, next to a dictionary of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

import pytest

from siltstone.objects.async_keyspace import AsyncKeyspace
from siltstone.objects.async_snapshot import AsyncKeyspaceSnapshot
from siltstone.objects.errors import CompactionBusyError
from siltstone.objects.open_space import OpenSpace
from siltstone.objects.rebuild_space import rebuild_space
from siltstone.objects.records.keys import MANIFEST, TASK, LargeStatus
from siltstone.objects.records.space_rows import ValueStatus
from siltstone.objects.value_compaction import CompactionReport
from siltstone.store.handles.import_writer import ImportTarget
from siltstone.store.settings.objects_section import ObjectsSection
from siltstone.testing.faults.faulty_fenced_log import FaultPlan
from tests.support import inside
from tests.support.container.container_world import World
from tests.support.objects.rebuilt import as_rebuilt, raw_rows
from tests.support.objects.space_world import NAMES, SMALL, TAGS, Opened, open_owner
from tests.support.objects.streams_to_put import left
from tests.support.objects.value_replay import Replayed, lying, replay

BUCKET = "b"
CHUNK_BYTES = 2_000
Key = tuple[str, str]
"""Tag and key."""


class Stored(NamedTuple):
    """An object of the dictionary."""

    value: bytes
    expires_s: int


Model = dict[Key, Stored]


def visible(model: Model, now_s: float) -> dict[Key, bytes]:
    """The values of a model that have not expired."""
    return {
        key: each.value
        for key, each in model.items()
        if not each.expires_s or now_s < each.expires_s
    }


def imports_into(world: World, patch: pytest.MonkeyPatch) -> None:
    """Let compactions write to the storage of a world, by calls that have a fate as well."""

    async def own_target(store: object) -> ImportTarget:
        storage = world.faulty(world.new_storage())
        world.storage_hook(storage)
        return ImportTarget(storage, CHUNK_BYTES, world.environment)

    async def at_once(close: Callable[[], None]) -> None:
        close()  # a thread would let the virtual time pass

    patch.setattr("siltstone.objects.open_space.own_target", own_target)
    patch.setattr("siltstone.objects.open_space.off_loop", at_once)


@dataclass
class CompactionLife:
    """The application: a process, and what it knows of its keyspace.

    Attributes:
        world: where it is.
        model: what the keyspace holds.
        held: open snapshots, each with what the model was.
        opened: the process; ``None`` when there is none.
        settings: what the keyspace does by itself; ``None`` for nothing.
    """

    world: World
    model: Model = field(default_factory=dict)
    held: list[tuple[AsyncKeyspaceSnapshot, Model]] = field(default_factory=list)
    opened: Opened | None = None
    keyspace: AsyncKeyspace | None = None
    settings: ObjectsSection | None = None

    @property
    def now_s(self) -> float:
        """Seconds since 1970."""
        return self.world.environment.time()

    @property
    def space(self) -> OpenSpace:
        """The open keyspace."""
        assert self.keyspace is not None
        return inside.open_space(self.keyspace)

    @property
    def process(self) -> Opened:
        """The living process."""
        assert self.opened is not None
        return self.opened

    async def begin(self, plan: FaultPlan | None = None) -> None:
        """Make the keyspace in a new process, whose log fails as planned."""
        self.opened = await open_owner(self.world, plan=plan)
        await self.opened.make()
        self.keyspace = await self.opened.keyspace(settings=self.settings)

    async def change(self, changes: list[tuple[Key, bytes | None, int | None]]) -> None:
        """Put values, or delete where there is none, all on their way at once but large values."""
        assert self.keyspace is not None
        begun_s = self.now_s
        futures: list[asyncio.Future[object]] = []
        for (tag, key), value, ttl_s in changes:
            if value is None:
                self.model.pop((tag, key), None)
                futures.append(asyncio.ensure_future(self.keyspace.delete(BUCKET, key, tag=tag)))
                continue
            ends_s = 0 if ttl_s is None else ceil(begun_s) + ttl_s
            self.model[tag, key] = Stored(value, ends_s)
            is_large = len(value) > SMALL.value
            if is_large:  # it would take effect after what comes next
                await asyncio.gather(*futures)
            put = self.keyspace.put(BUCKET, key, value, tag=tag, ttl_s=ttl_s)
            futures.append(asyncio.ensure_future(put))
            if is_large:
                await put
        await asyncio.gather(*futures)
        for (tag, key), stored in list(self.model.items()):
            head = await self.keyspace.head(BUCKET, key, tag=tag)
            if stored.expires_s > begun_s and head is not None:
                # In whole seconds, of which the first has begun.
                assert head.expires is not None
                assert stored.expires_s - head.expires in (0, 1)
                self.model[tag, key] = Stored(stored.value, head.expires)

    async def settled(self) -> None:
        """Let every full segment get its footer."""
        while any(
            row.status is ValueStatus.ROLLING
            for row in (await self.space.parts.manifest.now()).rows
        ):
            await self.world.environment.sleep(0.1)

    async def compact(self, run_max: int) -> CompactionReport:
        """Compact once what is full and flushed."""
        await self.settled()
        await self.process.store.flush()
        while True:
            try:
                return await self.space.compact(run_max)
            except CompactionBusyError:  # it compacts by itself at the moment
                await self.world.environment.sleep(0.1)

    async def end(self, *, dies: bool) -> None:
        """End the process, with its snapshots."""
        if dies:
            await self.process.die()
        else:
            await self.process.store.close()
        self.opened = self.keyspace = None
        self.held.clear()

    async def reopen(self, *, dies: bool) -> None:
        """Begin another process; nothing lies there that no row names."""
        await self.end(dies=dies)
        self.opened = await open_owner(self.world)
        self.keyspace = await self.opened.keyspace(settings=self.settings)
        await self.settled()
        seen = await self.check()
        await check_lying(self.space, seen)

    async def rebuild(self, *, lost: bool) -> None:
        """Rebuild the ledger, or make it again from nothing: rows are those of before."""
        await self.settled()
        store = self.process.store
        rows = await raw_rows(store, NAMES)
        self.held.clear()
        if lost:
            await store.table(NAMES.ledger, force=True).remove_range()
        report = await rebuild_space(store, NAMES, TAGS if lost else None, {})
        assert (report.doubtful, report.unnamed, report.unknown) == ((), 0, ())
        left = (MANIFEST, TASK) if lost else ()
        found, expected = (
            {key: row for key, row in as_rebuilt(each, self.now_s).items() if key[:1] not in left}
            for each in (await raw_rows(store, NAMES), rows)
        )
        assert found == expected
        self.keyspace = await self.process.keyspace()
        await self.settled()
        await self.check()

    async def check(self) -> Replayed:
        """Heads, values, and what a rebuild would find, are those of the model."""
        assert self.keyspace is not None
        now_s, expected = self.now_s, visible(self.model, self.now_s)
        seen = await replay(self.space)
        found = {
            (key.tag.decode(), key.key.decode()): seen.records[head.sqn][1]
            for key, head in seen.heads.items()
            if head.is_visible(now_s)
        }
        assert found == expected
        rebuilt = {
            (key.tag.decode(), key.key.decode()): value
            for key, value in seen.visible(now_s).items()
        }
        assert rebuilt == expected, "a rebuild would find something else"
        for (tag, key), value in expected.items():
            stored = await self.keyspace.get(BUCKET, key, tag=tag)
            assert stored is not None
            assert stored.value == value
        told = [each async for each in self.keyspace.check(deep=True)]
        assert [each for each in told if each.severity != "garbage"] == []
        return seen

    async def fold(self, number: int) -> None:
        """Go through an open snapshot in both orders: it is as the model was."""
        snapshot, model = self.held[number % len(self.held)]
        expected = visible(model, self.now_s)
        for tag in ("o", "x"):
            for order in ("key", "sqn"):
                values = {
                    (tag, each.head.key): each.value
                    async for each in snapshot.objects(BUCKET, tag=tag, order=order)
                }
                assert values == {key: each for key, each in expected.items() if key[0] == tag}
        for (tag, key), value in expected.items():
            stored = await snapshot.get(BUCKET, key, tag=tag)
            assert stored is not None
            assert stored.value == value


async def check_lying(space: OpenSpace, seen: Replayed) -> None:
    """No segment lies there but those that rows name, and the one of a roll that failed.

    Of large values those of objects are there, and no others.
    """
    assert (await left(space))[0] <= {LargeStatus.LIVE}
    extra = await lying(space) - {row.number for row in seen.rows} - seen.tasks
    assert extra <= {seen.next_number}
