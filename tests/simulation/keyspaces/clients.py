"""What clients of a keyspace do: they change it, look at it, and take care of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Literal

from siltstone.container.container import Container
from siltstone.core.errors import SnapshotExpiredError, StoreInUseError
from siltstone.objects.async_folds import AsyncFolds
from siltstone.objects.async_keyspace import AsyncKeyspace
from siltstone.objects.async_snapshot import AsyncKeyspaceSnapshot
from siltstone.objects.errors import CompactionBusyError
from tests.simulation.facts import ViolationError
from tests.simulation.keyspaces.asking import Since
from tests.simulation.keyspaces.changing import FIELDS, Changing
from tests.simulation.keyspaces.facts import Key, SeenHead, SpaceChange, seen_head
from tests.simulation.keyspaces.world import PLACE, MadeBackup
from tests.support import inside

TAGS = ("o", "x")
SNAPSHOTS_MAX = 4
SNAPSHOT_S = (5.0, 900.0)

Scope = tuple[str, str | None]
"""A tag, and a bucket or all."""


@dataclass(eq=False)
class Held:
    """An open snapshot.

    Attributes:
        snapshot: the handle.
        heads: what it showed at first.
        container: of the owner that took it; it ends with that.
        until: when it ends, seconds of the loop.
    """

    snapshot: AsyncKeyspaceSnapshot
    heads: dict[Key, SeenHead]
    container: Container
    until: float


class SpaceClients(Changing):
    """The clients of one open store."""

    held: list[Held]

    async def run(self, clients: int) -> None:
        """Be busy until told to leave, or until the store is of no use."""
        self.held = []
        async with asyncio.TaskGroup() as group:
            for _ in range(clients):
                group.create_task(self._client())

    async def _client(self) -> None:
        space: AsyncKeyspace | None = None
        while not self.is_done:
            await self.process.sleep(0.6 * self.chance.random())
            if space is None or self.chance.random() < 0.02:
                space = await self.keyspace()
            if space is not None:
                verb, _ = self.chance.choices(VERBS, WEIGHTS)[0]
                await verb(self, space)

    # --- looks ------------------------------------------------------------------------------------

    async def head(self, space: AsyncKeyspace) -> None:
        """Look at a head."""
        key, since = self._key(), Since(self)
        check = self.chance.random() < 0.3
        tag, bucket, name = key

        async def call() -> bool:
            found = await space.head(bucket, name, tag=tag, check=check)
            self._judge(key, None if found is None else seen_head(found), since)
            return True

        await self.ask(call)

    async def get(self, space: AsyncKeyspace) -> None:
        """Read an object."""
        key, since = self._key(), Since(self)
        tag, bucket, name = key

        async def call() -> bool:
            found = await space.get(bucket, name, tag=tag)
            change = self._judge(key, None if found is None else seen_head(found.head), since)
            if found is not None and change is not None:
                change.check_value(found.value)
            return True

        await self.ask(call)

    async def open_value(self, space: AsyncKeyspace) -> None:
        """Read a value by parts, slowly."""
        key, since = self._key(), Since(self)
        tag, bucket, name = key

        async def call() -> bool:
            value = await space.open_value(bucket, name, tag=tag)
            change = self._judge(key, None if value is None else seen_head(value.head), since)
            if value is None or change is None:
                return True
            try:
                parts, step = [], self.chance.choice((300, 5_000))
                for start in range(0, value.size, step):
                    parts.append(await value.read(start, step))
                    await self.process.sleep(self.chance.random())
            finally:
                await value.close()
            change.check_value(b"".join(parts))
            return True

        # The container may be opened again meanwhile, by this process or another one.
        await self.ask(call)

    def _judge(self, key: Key, head: SeenHead | None, since: Since) -> SpaceChange | None:
        if self.process.dead:
            return None
        if head is None:
            self.world.space.absent(key, since.of(key))
            return None
        if head.key != key:
            raise ViolationError(f"asked for {key}, got {head}")
        return self.world.space.seen(head, since.of(key), since.now_s)

    def _scope(self) -> Scope:
        return self.chance.choice(TAGS), self.chance.choice(("b", "c", None))

    def _keys(self, scope: Scope) -> list[Key]:
        tag, bucket = scope
        every = self.world.space.keys
        return [key for key in every if key[0] == tag and bucket in (None, key[1])]

    async def fold(self, space: AsyncKeyspace) -> None:
        """Go through the heads or the objects as they are now."""
        scope, since = self._scope(), Since(self)
        fold = self.chance.choice((self._heads, self._objects))

        async def call() -> bool:
            found = await fold(space, scope)
            if not self.process.dead:
                self.world.space.seen_all(found, self._keys(scope), since.least, since.now_s)
            return True

        await self.ask(call)

    async def _heads(self, space: AsyncFolds, scope: Scope) -> dict[Key, SeenHead]:
        tag, bucket = scope
        found = [seen_head(head) async for head in space.heads(bucket, tag=tag)]
        if [head.key for head in found] != sorted({head.key for head in found}):
            raise ViolationError(f"a fold in disorder: {found}")
        return {head.key: head for head in found}

    async def _objects(self, space: AsyncFolds, scope: Scope) -> dict[Key, SeenHead]:
        tag, bucket = scope
        order: Literal["key", "sqn"] = self.chance.choice(("key", "sqn"))
        found: list[SeenHead] = []
        slow = self.chance.random() < 0.3
        async with aclosing(space.objects(bucket, tag=tag, order=order)) as objects:  # type: ignore[type-var]
            async for each in objects:
                found.append(seen_head(each.head))
                number = int(each.head.metadata)
                self.world.space.changes[number].check_value(each.value)
                if slow:
                    await self.process.sleep(self.chance.random())
        ranks = [head.sqn if order == "sqn" else head.key for head in found]
        if ranks != sorted(set(ranks)):
            raise ViolationError(f"objects in disorder: {ranks}")
        return {head.key: head for head in found}

    # --- snapshots --------------------------------------------------------------------------------

    async def snapshot(self, space: AsyncKeyspace) -> None:
        """Take a snapshot, which stays open."""
        if len(self.held) >= SNAPSHOTS_MAX:
            oldest = self.held.pop(0)
            oldest.until = 0.0  # another client may be reading it
            await oldest.snapshot.close()
        since, ttl_s = Since(self), self.chance.choice(SNAPSHOT_S)
        until = asyncio.get_running_loop().time() + ttl_s
        container = self._slot.container
        taken = await self.ask(lambda: space.snapshot(ttl_s))
        if taken is None:
            return
        end = len(self.world.space.changes)
        held = Held(taken, {}, container, until)

        async def call() -> bool:
            for tag in TAGS:
                held.heads |= await self._heads(taken, (tag, None))
            return True

        if not await self._ask_of(held, call):
            return
        if late := [head for head in held.heads.values() if head.number >= end]:
            raise ViolationError(f"a snapshot has what came after it: {late}")
        self.world.space.seen_all(held.heads, self.world.space.keys, since.least, since.now_s)
        self.held.append(held)

    async def _ask_of(self, held: Held, call: Callable[[], Awaitable[bool]]) -> bool | None:
        try:
            return await self.ask(call, hears=(SnapshotExpiredError,))
        except SnapshotExpiredError as error:
            is_over = asyncio.get_running_loop().time() >= held.until
            # It may be closed by now, and not be replaced yet.
            lives = inside.parts(held.container).pipeline.failure is None
            if not is_over and lives and self._slot.container is held.container:
                raise ViolationError(f"a snapshot ended: {error!r}") from error
            return None

    async def look_back(self, space: AsyncKeyspace) -> None:
        """Go through an open snapshot, which is as it was."""
        if not self.held:
            await self.snapshot(space)
            return
        held, since = self.chance.choice(self.held), Since(self)
        look = self.chance.choice((self._same_heads, self._same_index, self._same_value))

        async def call() -> bool:
            await look(held, since)
            return True

        if not await self._ask_of(held, call) and held in self.held:
            self.held.remove(held)

    async def _same_heads(self, held: Held, since: Since) -> None:
        scope = self._scope()
        fold = self.chance.choice((self._heads, self._objects))
        found = await fold(held.snapshot, scope)
        tag, bucket = scope
        wanted = {
            key: head
            for key, head in held.heads.items()
            if key[0] == tag and bucket in (None, key[1])
        }
        self._compare(found, wanted, since)

    def _compare(
        self, found: dict[Key, SeenHead], wanted: dict[Key, SeenHead], since: Since
    ) -> None:
        latest_s = self.world.latest_s()
        for key, head in wanted.items():
            if found.get(key, head) != head:
                raise ViolationError(f"a snapshot changed: {head} became {found[key]}")
            if key not in found and not (head.expires_s and head.expires_s <= latest_s):
                raise ViolationError(f"a snapshot lost {head}")
        for key, head in found.items():
            if key not in wanted and not (head.expires_s and self.world.has_jumped()):
                raise ViolationError(f"a snapshot got {head}")
            if head.expires_s and head.expires_s <= since.now_s:
                raise ViolationError(f"{head} is shown at {since.now_s}")

    async def _same_index(self, held: Held, since: Since) -> None:
        tag, bucket = self.chance.choice(TAGS), self.chance.choice("bc")
        field = self.chance.choice(FIELDS)
        found: dict[Key, SeenHead] = {}
        terms: list[tuple[str, str]] = []
        if self.chance.random() < 0.6:
            terms = [each async for each in held.snapshot.index(bucket, field, tag=tag)]
            for _, name in terms:
                key = (tag, bucket, name)
                if key in held.heads:
                    found[key] = held.heads[key]
        else:
            async for term, each in held.snapshot.indexed(bucket, field, tag=tag):
                head = seen_head(each.head)
                self.world.space.changes[head.number].check_value(each.value)
                terms.append((term, head.key[2]))
                found[head.key] = head
        mine = {
            key: head
            for key, head in held.heads.items()
            if key[:2] == (tag, bucket) and any(name == field for name, _ in head.entries)
        }
        self._compare(found, mine, since)
        wanted = sorted(
            (term, head.key[2])
            for head in found.values()
            for name, term in head.entries
            if name == field
        )
        if terms != wanted and not self.world.has_jumped():
            raise ViolationError(f"an index has {terms}, its heads have {wanted}")

    async def _same_value(self, held: Held, since: Since) -> None:
        key = self._key()
        tag, bucket, name = key
        found = await held.snapshot.get(bucket, name, tag=tag)
        shown = {} if found is None else {key: seen_head(found.head)}
        wanted = {key: held.heads[key]} if key in held.heads else {}
        self._compare(shown, wanted, since)
        if found is not None:
            number = int(found.head.metadata)
            self.world.space.changes[number].check_value(found.value)

    # --- care -------------------------------------------------------------------------------------

    async def compact(self, space: AsyncKeyspace) -> None:
        """Compact values."""
        try:
            report = await self.ask(space.compact, hears=(CompactionBusyError,))
        except CompactionBusyError:
            return
        if report is not None:
            self.note(f"compacted {report.run} to {report.made}")
            if report.unreadable or report.dropped:
                raise ViolationError(f"a compaction finds damage: {report}")

    async def reap(self, space: AsyncKeyspace) -> None:
        """Remove what has expired."""
        await self.ask(space.reap)

    async def flush(self, space: AsyncKeyspace) -> None:
        """Bring all to long-term storage."""
        newest, current = self.world.space.newest, self.is_current

        async def call() -> bool:
            await self.store.flush()
            return True

        if await self.ask(call) and current and self.is_current:
            self.world.space.flushed = max(self.world.space.flushed, newest)

    async def backup(self, space: AsyncKeyspace) -> None:
        """Take a backup."""
        newest, lineage = self.world.space.newest, self.world.space.lineage
        current = self.is_current
        takeover = self.chance.random() < 0.5
        try:
            made = await self.ask(
                lambda: space.backup(PLACE, takeover=takeover), hears=(StoreInUseError,)
            )
        except StoreInUseError:
            return
        if made is None:
            return
        self.note(f"backup {made.generation} up to {made.sqn}")
        if current and self.is_current and made.sqn < newest:
            raise ViolationError(f"a backup up to {made.sqn}; {newest} was there before")
        self.world.backups.append(MadeBackup(made.generation, made.sqn, lineage))

    async def check(self, space: AsyncKeyspace) -> None:
        """Compare all parts of the keyspace."""
        deep = self.chance.random() < 0.7

        async def call() -> bool:
            found = [each async for each in space.check(deep=deep)]
            damage = [each for each in found if each.severity == "damage"]
            if damage and self.is_current:
                raise ViolationError(f"a check finds damage: {damage}")
            return True

        await self.ask(call, hears=())

    async def care(self, space: AsyncKeyspace) -> None:
        """Do now what the store does by itself."""
        choice = self.chance.randrange(3)
        if choice == 0:
            await self.ask(lambda: self._slot.container.checkpoint())
        elif choice == 1:
            await self.ask(self.store.collect)
        else:

            async def sweep() -> int:
                return len([each async for each in self.store.sweep(delete=True)])

            await self.ask(sweep)


VERBS: tuple[tuple[Callable[[SpaceClients, AsyncKeyspace], Awaitable[object]], int], ...] = (
    (SpaceClients.put, 30),
    (SpaceClients.burst, 8),
    (SpaceClients.delete, 8),
    (SpaceClients.head, 6),
    (SpaceClients.get, 12),
    (SpaceClients.open_value, 3),
    (SpaceClients.fold, 6),
    (SpaceClients.snapshot, 2),
    (SpaceClients.look_back, 8),
    (SpaceClients.compact, 5),
    (SpaceClients.reap, 2),
    (SpaceClients.flush, 3),
    (SpaceClients.backup, 2),
    (SpaceClients.check, 1),
    (SpaceClients.care, 2),
)

WEIGHTS = [weight for _, weight in VERBS]
