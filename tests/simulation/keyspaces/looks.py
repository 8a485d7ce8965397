"""How clients look at the keyspace as it is now: at heads, values, and all of them."""

from __future__ import annotations

from contextlib import aclosing
from typing import Literal

from siltstone.objects.async_folds import AsyncFolds
from siltstone.objects.async_keyspace import AsyncKeyspace
from tests.simulation.facts import ViolationError
from tests.simulation.keyspaces.asking import Since
from tests.simulation.keyspaces.changing import Changing
from tests.simulation.keyspaces.facts import Key, SeenHead, SpaceChange, seen_head

TAGS = ("o", "x")

Scope = tuple[str, str | None]
"""A tag, and a bucket or all."""


class Looks(Changing):
    """Verbs that look."""

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
        """Read a value by parts, slowly; a large one if there is one."""
        key, since = self._large_key(), Since(self)
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
                    await self.process.sleep(2 * self.chance.random())
            finally:
                await value.close()
            change.check_value(b"".join(parts))
            return True

        # The container may be opened again meanwhile, by this process or another one.
        await self.ask(call)

    def _large_key(self) -> Key:
        """The key of an object that is known to have a large value, if any has one."""
        space = self.world.space
        found = [key for key in space.keys if space.size_of(key) > self.world.limits.value]
        return self.chance.choice(found) if found else self._key()

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
