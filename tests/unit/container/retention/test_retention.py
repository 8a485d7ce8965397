"""Retention rules against a model: nothing too young is cut, and what is due is cut soon."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

import pytest

from siltstone.container.models.segments import RetentionCut
from siltstone.container.retention import retention as retention_module
from siltstone.core.constants import KIB, MIB
from siltstone.core.errors import CapabilityError, FencedError, ReadOnlyError
from siltstone.core.records.retention_row import RetentionRow, RetentionScope
from siltstone.metadata import retention_rules
from tests.support.container.container_world import (
    Owner,
    World,
    close_quietly,
    with_settings,
    world,
)

pytestmark = pytest.mark.virtual_time

SETTINGS = with_settings(chunk_bytes=4 * MIB, flush_bytes=2 * MIB, flush_age_s=20.0)
NAMES = ("a/1", "a/b/1", "a/b/2", "c")
RULES = (
    (RetentionScope.PREFIX, ""),
    (RetentionScope.PREFIX, "a/"),
    (RetentionScope.PREFIX, "a/b"),
    (RetentionScope.SEGMENT, "a/b/1"),
    (RetentionScope.SEGMENT, "c"),
)
LIMITS = ((None, None), (3 * MIB, None), (0, None), (None, 200_000), (5 * MIB, 100_000))
LARGEST = 3 * MIB // 2


def filled(offset: int, length: int) -> bytes:
    """Bytes that differ by offset, so that misplaced ones are noticed; made quickly."""
    return (offset.to_bytes(8) * (length // 8 + 1))[:length]


@dataclass
class Kept:
    """A segment: when its parts were appended, and the highest cut that a rule ever allowed."""

    parts: list[tuple[int, int]] = field(default_factory=list)
    length: int = 0
    allowed: int = 0
    sealed: bool = False

    def limit(self, row: RetentionRow | None, now_ms: int) -> int:
        """The offset of the first byte that ``row`` keeps."""
        found = 0
        if row is not None and row.bytes_max is not None:
            found = self.length - row.bytes_max
        if row is not None and row.age_max_ms is not None:
            young = (o for o, made_ms in self.parts if made_ms >= now_ms - row.age_max_ms)
            found = max(found, next(young, self.length))
        return max(0, found)


@dataclass
class Play:
    place: World
    owner: Owner
    chance: random.Random
    rules: dict[tuple[RetentionScope, str], RetentionRow] = field(default_factory=dict)
    kept: dict[str, Kept] = field(default_factory=lambda: {name: Kept() for name in NAMES})

    def now_ms(self) -> int:
        return int(self.place.environment.time() * 1000)

    def rule_of(self, name: str) -> RetentionRow | None:
        own = self.rules.get((RetentionScope.SEGMENT, name))
        fitting = [
            row
            for (scope, prefix), row in self.rules.items()
            if scope is RetentionScope.PREFIX and name.startswith(prefix)
        ]
        return own or max(fitting, key=lambda row: len(row.name), default=None)

    def allow(self) -> None:
        for name, kept in self.kept.items():
            kept.allowed = max(kept.allowed, kept.limit(self.rule_of(name), self.now_ms()))

    async def step(self) -> None:
        container, chance = self.owner.container, self.chance
        verbs = ["append"] * 6 + ["wait"] * 3 + ["rule", "rule", "unrule", "crash", "takeover"]
        match chance.choice([*verbs, "flush", "seal"]):
            case "append":
                name = chance.choice(NAMES)
                kept = self.kept[name]
                if not kept.sealed:
                    size = chance.choice([1, 100 * KIB, 700 * KIB, LARGEST])
                    await container.append(name, filled(kept.length, size))
                    kept.parts.append((kept.length, self.now_ms()))
                    kept.length += size
            case "wait":
                await asyncio.sleep(chance.choice([1.0, 15.0, 90.0]))
            case "rule":
                scope, name = chance.choice(RULES)
                most, age = chance.choice(LIMITS)
                row = RetentionRow(scope=scope, name=name, bytes_max=most, age_max_ms=age)
                await container.retention.set(row)
                self.rules[scope, name] = row
            case "unrule":
                scope, name = chance.choice(RULES)
                known = self.rules.pop((scope, name), None)
                assert await container.retention.remove(scope, name) == (known is not None)
            case "crash":
                await self.place.crash(self.owner, keep_index=chance.random() < 0.5)
                self.owner = await self.place.open(takeover=True)
            case "takeover":
                old = self.owner
                self.owner = await self.place.open(takeover=True, index=f"i{chance.random()}")
                await close_quietly(old)
            case "flush":
                await container.flush()
            case "seal":
                name = chance.choice(NAMES)
                self.kept[name].sealed = chance.random() < 0.2
                if self.kept[name].sealed:
                    await container.seal(name)

    async def check(self) -> None:
        self.allow()
        for name, kept in self.kept.items():
            info = await self.owner.container.info(name)
            assert info.length == kept.length
            assert info.start_offset <= kept.allowed, f"{name} was cut too far"
            borders = {offset for offset, _ in kept.parts} | {0, kept.length}
            assert info.start_offset in borders
            row, rule = self.rule_of(name), info.retention
            assert (row is None) == (rule is None)
            if row is not None and rule is not None:
                assert (rule.name, rule.bytes_max) == (row.name, row.bytes_max)

    async def settle(self) -> None:
        """Flush all and run a round: what is due is gone, except for one step of the index."""
        await self.owner.container.flush()
        _ = [cut async for cut in self.owner.container.retention.round()]
        await self.check()
        for name, kept in self.kept.items():
            info = await self.owner.container.info(name)
            due = kept.limit(self.rule_of(name), self.now_ms())
            assert due - info.start_offset < MIB + LARGEST
            if due == kept.length:
                assert info.start_offset == due
            size = info.length - info.start_offset
            whole = b"".join(
                filled(offset, end - offset)
                for (offset, _), end in zip(
                    kept.parts, [o for o, _ in kept.parts[1:]] + [kept.length], strict=False
                )
            )
            read = await self.owner.container.read(name, info.start_offset, size)
            assert read == whole[info.start_offset :]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
async def test_rules_cut_what_they_say_and_nothing_else(seed: int) -> None:
    async with world(seed, settings=SETTINGS) as place:
        owner = await place.open()
        for name in NAMES:
            await owner.container.create(name)
        play = Play(place, owner, random.Random(seed))
        for count in range(45):
            play.allow()
            await play.step()
            await play.check()
            if count % 15 == 14:
                await play.settle()
        await place.check(play.owner, strict=False)
        await play.owner.container.close()


def _rule(
    name: str = "", *, bytes_max: int | None = None, age_max_ms: int | None = None
) -> RetentionRow:
    return RetentionRow(
        scope=RetentionScope.PREFIX, name=name, bytes_max=bytes_max, age_max_ms=age_max_ms
    )


@pytest.mark.slow
async def test_the_background_cuts_and_chunks_are_freed() -> None:
    async with world(settings=SETTINGS) as place:
        owner = await place.open()
        container = owner.container
        await container.create("log")
        await container.retention.set(_rule(age_max_ms=600_000))
        for _ in range(30):
            await container.append("log", bytes(MIB))
            await asyncio.sleep(60.0)
        info = await container.info("log")
        assert 9 * MIB <= info.length - info.start_offset <= 12 * MIB
        await asyncio.sleep(60.0)
        assert len(place.names("data/")) <= 5
        await asyncio.sleep(900.0)
        info = await container.info("log")
        assert info.start_offset == info.length == 30 * MIB
        await container.close()


async def test_what_is_not_flushed_stays() -> None:
    async with world(settings=SETTINGS) as place:
        owner = await place.open(settings=with_settings(flush_age_s=3600.0))
        container = owner.container
        await container.create("log")
        await container.append("log", bytes(2 * KIB))
        await container.flush()
        await container.append("log", bytes(2 * KIB))
        await container.retention.set(_rule(bytes_max=0))
        await asyncio.sleep(180.0)
        info = await container.info("log")
        assert (info.start_offset, info.length) == (2 * KIB, 4 * KIB)
        await container.close()


async def _until_cut(owner: Owner, name: str) -> None:
    for _ in range(300):
        if (await owner.container.info(name)).start_offset:
            return
        await asyncio.sleep(1.0)
    pytest.fail(f"{name} is never cut")


@pytest.mark.slow
async def test_a_round_continues_where_a_dead_owner_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retention_module, "ROWS_PER_SLICE", 3)
    monkeypatch.setattr(retention_module, "PAGE_PAUSE_S", 5.0)
    async with world(settings=SETTINGS) as place:
        owner = await place.open()
        names = [f"s{number}" for number in range(8)]
        for name in names:
            await owner.container.create(name)
            await owner.container.append(name, b"old")
        await owner.container.flush()
        await owner.container.retention.set(_rule("s", bytes_max=0))
        await _until_cut(owner, "s2")
        await place.crash(owner)
        # If the round began again, these would come first.
        owner = await place.open(takeover=True)
        for name in names[:3]:
            await owner.container.append(name, b"new")
        await owner.container.flush()
        await _until_cut(owner, "s5")
        starts = [(await owner.container.info(name)).start_offset for name in names]
        assert starts == [3, 3, 3, 3, 3, 3, 0, 0]
        await asyncio.sleep(120.0)
        starts = [(await owner.container.info(name)).start_offset for name in names]
        assert starts == [6, 6, 6, 3, 3, 3, 3, 3]
        # The row of its progress is no garbage, and is removed when the round ends.
        assert not owner.rows.tasks(0)
        await owner.container.close()


async def test_a_fenced_owner_cuts_nothing() -> None:
    async with world(settings=SETTINGS) as place:
        old = await place.open()
        await old.container.create("log")
        await old.container.append("log", bytes(MIB))
        await old.container.flush()
        await old.container.retention.set(_rule(bytes_max=0))
        new = await place.open(takeover=True, index="other")
        assert await new.container.retention.remove(RetentionScope.PREFIX, "")
        with pytest.raises(FencedError):
            _ = [cut async for cut in old.container.retention.round()]
        assert (await new.container.info("log")).start_offset == 0
        await close_quietly(old)
        await new.container.close()


async def test_a_segment_that_is_made_again_is_not_cut_by_the_old_one() -> None:
    """A page is planned segment by segment, so the plan never covers a segment that is gone."""
    async with world(settings=SETTINGS) as place:
        owner = await place.open()
        container = owner.container
        for name in ("a", "b"):
            await container.create(name)
            await container.append(name, bytes(MIB))
        await container.flush()
        await container.retention.set(_rule(age_max_ms=1_000))
        await asyncio.sleep(2.0)
        cuts = container.retention.round()

        async def consume() -> list[RetentionCut]:
            return [cut async for cut in cuts]

        round_task = asyncio.ensure_future(consume())
        await asyncio.sleep(0)
        await container.delete("b")
        await container.create("b")
        await container.append("b", bytes(MIB))
        await container.flush()
        await round_task
        assert (await container.info("b")).start_offset == 0
        await container.close()


async def test_readers_see_rules_and_plans_and_change_nothing() -> None:
    async with world(settings=SETTINGS) as place:
        owner = await place.open()
        await owner.container.create("log")
        await owner.container.append("log", bytes(4 * MIB))
        await owner.container.flush()
        await owner.container.retention.set(_rule("lo", bytes_max=MIB))
        reader = await place.open_reader()
        (rule,) = await reader.retention.rules()
        assert (rule.name, rule.prefix, rule.bytes_max) == ("lo", True, MIB)
        assert [cut async for cut in reader.retention.plan()] == []
        await owner.container.append("log", bytes(2 * MIB))
        await owner.container.flush()
        await asyncio.sleep(1.0)
        (cut,) = [cut async for cut in reader.retention.plan()]
        assert (cut.segment, cut.start_offset, cut.cut_offset) == ("log", 0, 4 * MIB)
        with pytest.raises(ReadOnlyError):
            await reader.retention.set(_rule())
        with pytest.raises(ReadOnlyError):
            await reader.retention.remove(RetentionScope.PREFIX, "lo")
        with pytest.raises(ReadOnlyError):
            reader.retention.round()
        assert (await owner.container.info("log")).start_offset == 0
        await reader.close()
        await owner.container.close()


async def test_rules_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention_module, "RULES_MAX", 2)
    monkeypatch.setattr(retention_rules, "PAGE", 1)
    async with world(settings=SETTINGS) as place:
        owner = await place.open()
        await owner.container.retention.set(_rule("a", bytes_max=1))
        await owner.container.retention.set(_rule("b", bytes_max=1))
        with pytest.raises(CapabilityError):
            await owner.container.retention.set(_rule("c", bytes_max=1))
        await owner.container.retention.set(_rule("b", bytes_max=2))
        assert len(await owner.container.retention.rules()) == 2
        # Two concurrent calls may both find room; neither rule is overlooked afterwards.
        assert await owner.container.retention.remove(RetentionScope.PREFIX, "a")
        sets = [owner.container.retention.set(_rule(name, bytes_max=1)) for name in "cd"]
        await asyncio.gather(*sets)
        assert [rule.name for rule in await owner.container.retention.rules()] == ["b", "c", "d"]
        await owner.container.close()
