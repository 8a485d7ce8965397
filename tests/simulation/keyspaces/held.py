"""How clients hold snapshots of the keyspace, and look at them again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from siltstone.container.container import Container
from siltstone.core.errors import SnapshotExpiredError
from siltstone.objects.async_keyspace import AsyncKeyspace
from siltstone.objects.async_snapshot import AsyncKeyspaceSnapshot
from tests.simulation.facts import ViolationError
from tests.simulation.keyspaces.asking import Since
from tests.simulation.keyspaces.changing import FIELDS
from tests.simulation.keyspaces.facts import Key, SeenHead, seen_head
from tests.simulation.keyspaces.looks import TAGS, Looks
from tests.support import inside

SNAPSHOTS_MAX = 4
SNAPSHOT_S = (5.0, 900.0)


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


class Holding(Looks):
    """Verbs of snapshots."""

    held: list[Held]

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
