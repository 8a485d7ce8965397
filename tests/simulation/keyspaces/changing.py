"""What clients change: objects of every size, with terms, conditions and an end."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from typing import Any

from siltstone.core.errors import ConditionFailedError
from siltstone.objects.async_keyspace import AsyncKeyspace
from tests.simulation.facts import ViolationError
from tests.simulation.keyspaces.asking import Asking, Since
from tests.simulation.keyspaces.facts import Entry, Key, SpaceChange, Spec
from tests.support.objects.streams_to_put import stuttering

SIZES = (0, 9, 200, 200, 700, 850)
LARGE_SIZES = (1_600, 4_000, 9_000)
LARGE = 0.15
TTLS_S = (1, 4, 15, 3_600)
KEYS = 5
FIELDS = ("f", "g")
TERMS = 4
WRONG = 1_000_000


class Changing(Asking):
    """Verbs that change."""

    async def put(self, space: AsyncKeyspace) -> None:
        """Put an object."""
        chance = self.chance
        is_large = chance.random() < LARGE
        value = chance.randbytes(chance.choice(LARGE_SIZES if is_large else SIZES))
        index: frozenset[Entry] | None = None
        specs: tuple[Spec, ...] = ()
        if chance.random() < 0.7:
            index = frozenset(self._entry() for _ in range(chance.randrange(4)))
        else:
            specs = tuple(self._spec() for _ in range(chance.randrange(4)))
        change = self._asked(self._key(), value, index, specs)
        stream = chance.random() < (0.5 if is_large else 0.05)
        await self._put(space, change, value, stream=stream)

    def _entry(self) -> Entry:
        return self.chance.choice(FIELDS), str(self.chance.randrange(TERMS))

    def _spec(self) -> Spec:
        return self.chance.choice(("add", "add", "remove")), *self._entry()

    def _key(self) -> Key:
        chance = self.chance
        return chance.choice("oox"), chance.choice("bbc"), f"k{chance.randrange(KEYS)}"

    def _asked(
        self,
        key: Key,
        value: bytes | None,
        index: frozenset[Entry] | None = frozenset(),
        specs: tuple[Spec, ...] = (),
    ) -> SpaceChange:
        number = len(self.world.space.changes)
        has_end = value is not None and self.chance.random() < 0.15
        change = SpaceChange(
            what=f"{'delete' if value is None else 'put'} {number} of {'/'.join(key)}",
            epoch=self.epoch,
            number=number,
            key=key,
            process=self.process.name,
            digest=None if value is None else sha256(value).hexdigest(),
            size=len(value or b""),
            index=index,
            specs=specs,
            ttl_s=self.chance.choice(TTLS_S) if has_end else None,
            asked_s=self.process.time(),
        )
        self.world.space.asked(change)
        return change

    def _condition(self, key: Key) -> dict[str, Any]:
        """What the object is expected to be, mostly whatever it is."""
        draw = self.chance.random()
        if draw < 0.6:
            return {}
        known = self.world.space.sqn_of(key)
        if draw < 0.85:
            return {"expected": known}
        return {"expected": None if draw < 0.95 else WRONG}

    async def _put(
        self, space: AsyncKeyspace, change: SpaceChange, value: bytes, *, stream: bool
    ) -> None:
        tag, bucket, key = change.key
        arguments: dict[str, Any] = {
            "tag": tag,
            "metadata": str(change.number).encode(),
            "ttl_s": change.ttl_s,
            **self._condition(change.key),
        }
        if change.index is None:
            arguments["specs"] = change.specs
        else:
            index: dict[str, list[str]] = {}
            for field, term in sorted(change.index):
                index.setdefault(field, []).append(term)
            arguments["index"] = index
        since = Since(self)
        is_small = len(value) <= self.world.limits.value
        self.note(f"asks {change.what}: {len(value)} {arguments}")

        async def call() -> Any:
            if stream:
                return await space.put_from(bucket, key, stuttering(value, 700), **arguments)
            return await space.put(bucket, key, value, **arguments)

        told = await self._told(call, change, arguments, since)
        if told is not None:
            self.note(f"{change.what}: {told.sqn} replaced {told.replaced}")
            self._check_expected(change, arguments, told.replaced)
            self.world.space.acknowledged_change(
                change, told.sqn, told.replaced, ordered=is_small and not stream
            )
            if told.pause:
                await self.process.sleep(0.1)

    async def _told(
        self, call: Any, change: SpaceChange, arguments: dict[str, Any], since: Since
    ) -> Any:
        """The result; ``None`` if there was an error, which the ledger was told."""
        try:
            return await self.ask(call, change, hears=(ConditionFailedError,))
        except ConditionFailedError as error:
            self.note(f"{change.what}: {error.current}")
            if "expected" not in arguments:
                raise ViolationError(f"{change.what} had no condition: {error!r}") from error
            expected, current = arguments["expected"], error.current
            assert current is None or isinstance(current, int)
            self.world.space.refused(change, expected, current, since.of(change.key))
            return None

    def _check_expected(
        self, change: SpaceChange, arguments: dict[str, Any], replaced: int | None
    ) -> None:
        if "expected" in arguments and arguments["expected"] != replaced:
            raise ViolationError(f"{change.what}: {arguments}, and replaced {replaced}")

    async def delete(self, space: AsyncKeyspace) -> None:
        """Delete an object."""
        change = self._asked(self._key(), None)
        tag, bucket, key = change.key
        arguments = self._condition(change.key)
        since = Since(self)
        self.note(f"asks {change.what}: {arguments}")

        async def call() -> tuple[int | None]:
            return (await space.delete(bucket, key, tag=tag, **arguments),)

        told = await self._told(call, change, arguments, since)
        if told is None:
            return
        self.note(f"{change.what}: {told[0]}")
        if told[0] is None:
            self._check_expected(change, arguments, None)
            self.world.space.absent_for_delete(change, since.of(change.key))
        else:
            self.world.space.deleted(change, told[0], arguments.get("expected"))

    async def burst(self, space: AsyncKeyspace) -> None:
        """Many at a time, so that batches hold more than one."""
        verbs = [self.chance.choice((self.put, self.put, self.delete)) for _ in range(6)]
        await asyncio.gather(*(verb(space) for verb in verbs))
