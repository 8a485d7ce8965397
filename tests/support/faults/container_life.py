"""The life of a container of which any call may fail, next to a model of what it holds."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from siltstone.container.container import Container
from siltstone.container.models.segments import Append, LengthIs, Put, Remove
from siltstone.container.models.settings import ContainerSettings
from siltstone.core.errors import (
    ChunkError,
    ClosedError,
    LogError,
    OutcomeUnknownError,
    SegmentNotFoundError,
    SiltstoneError,
    StorageFullError,
)
from siltstone.testing.faults.faulty_chunk_storage import (
    Fate,
    FaultyChunkStorage,
    Plan,
    StorageCall,
)
from siltstone.testing.faults.faulty_fenced_log import FaultPlan
from tests.support.container.container_world import (
    Owner,
    World,
    close_quietly,
    pattern,
    with_settings,
    world,
)
from tests.support.model.container_model import Model, ModelSegment, compare

SETTINGS = with_settings(
    chunk_bytes=4_000, flush_bytes=6_000, garbage_delay_s=1.0, append_deadline_s=5.0
)


ATTEMPTS_MAX = 8


@dataclass
class Life:
    """The application: what it did so far, and how it continues after a failure."""

    world: World
    log_plan: FaultPlan
    owner: Owner | None = None
    model: Model = field(default_factory=Model)
    made: int = 0

    async def opened(self) -> Container:
        if self.owner is not None and self.owner.container.closed:
            await close_quietly(self.owner)
            self.owner = None
        if self.owner is None:
            self.owner = await self.world.open(plan=self.log_plan)
        return self.owner.container

    async def do(self, step: Callable[[Container], Awaitable[object]]) -> None:
        """Make a step, again and again; each looks first whether it took place already."""
        failure: SiltstoneError | None = None
        for _ in range(ATTEMPTS_MAX):
            try:
                await step(await self.opened())
            except (ChunkError, LogError, ClosedError, OutcomeUnknownError) as error:
                failure = error
                if isinstance(error, StorageFullError):
                    await self.world.environment.sleep(2)
            else:
                return
        raise AssertionError("the step never succeeds") from failure

    def data(self, length: int) -> bytes:
        self.made += 1
        return pattern(self.made, length)

    async def create(self, name: str) -> None:
        await self.do(lambda c: c.create(name, exist_ok=True))
        self.model.segments[name] = ModelSegment()

    async def append(self, name: str, length: int) -> None:
        segment, data = self.model.segments[name], self.data(length)
        offset = len(segment.data)

        async def step(container: Container) -> None:
            if (await container.info(name)).length == offset:
                assert await container.append(name, data, offset) == offset

        await self.do(step)
        segment.data += data

    async def append_once(self, name: str, sequence: int, length: int) -> None:
        """By an exactly-once writer, which may repeat without a look."""
        segment, data = self.model.segments[name], self.data(length)

        async def step(container: Container) -> None:
            writer = await container.register_writer(name, "w")
            found = await container.append_as(name, writer.number, sequence, data)
            assert found == len(segment.data)

        await self.do(step)
        segment.data += data

    async def truncate(self, name: str, offset: int) -> None:
        await self.do(lambda c: c.truncate(name, offset))
        self.model.segments[name].start = offset

    async def seal(self, name: str) -> None:
        await self.do(lambda c: c.seal(name))
        self.model.segments[name].sealed = True

    async def concat(self, target: str, source: str) -> None:
        segments = self.model.segments
        offset = len(segments[target].data)

        async def step(container: Container) -> None:
            assert await container.concat(target, source) == offset

        await self.do(step)
        segments[target].data += segments.pop(source).readable

    async def delete(self, name: str) -> None:
        async def step(container: Container) -> None:
            try:
                await container.delete(name)
            except SegmentNotFoundError:
                assert failed, "deleted before it was deleted"
            finally:
                failed.append(name)

        failed: list[str] = []
        await self.do(step)
        del self.model.segments[name]

    async def commit(self, name: str, length: int, key: bytes) -> None:
        segment, data = self.model.segments[name], self.data(length)
        offset = len(segment.data)

        async def step(container: Container) -> None:
            if (await container.info(name)).length == offset:
                result = await container.commit(
                    [Append(name, data), Put("table", key, data[:9]), Remove("table", b"old")],
                    [LengthIs(name, offset)],
                )
                assert result.offsets == (offset,)
            else:
                value = await container.table_get("table", key)
                assert value is not None, "half a commit took place"
                assert value.value == data[:9], "half a commit took place"

        await self.do(step)
        segment.data += data
        self.model.table[key] = data[:9]

    async def close(self) -> None:
        if self.owner is not None:
            await close_quietly(self.owner)
            self.owner = None

    async def account(self) -> None:
        """Nothing that this owner put on storage is forgotten, whatever it heard of it."""

        async def step(container: Container) -> None:
            await container.flush()
            assert self.owner is not None
            # A commit in doubt leaves its chunks to the sweep of closed epochs: it may be there.
            await self.world.check(self.owner)

        await self.do(step)

    async def wait(self, seconds: float) -> None:
        await self.world.environment.sleep(seconds)


async def live(life: Life) -> None:
    """The script: every verb of a container, and every duty of its background."""
    await life.create("a")
    await life.create("b")
    await life.do(lambda c: c.create_table("table", exist_ok=True))
    await life.append("a", 3_000)
    await life.append_once("a", 0, 900)
    await life.commit("b", 500, b"one")
    await life.do(lambda c: c.flush())
    await life.append_once("a", 5, 1_500)
    await life.append("a", 5_000)
    await life.append("b", 300)
    await life.do(lambda c: c.flush("a"))
    await life.truncate("a", 4_200)
    await life.do(lambda c: c.checkpoint())
    await life.create("large")
    await life.append("large", 5_500)
    await life.truncate("large", 100)
    await life.seal("large")
    await life.concat("a", "large")
    await life.create("small")
    await life.append("small", 200)
    await life.seal("small")
    await life.concat("b", "small")
    await life.append_once("a", 6, 700)
    await life.commit("a", 400, b"two")
    await life.do(lambda c: c.checkpoint())
    await life.wait(7)
    await life.do(lambda c: c.collect())
    await life.truncate("a", 9_000)
    await life.create("gone")
    await life.append("gone", 4_500)
    await life.do(lambda c: c.flush())
    await life.delete("gone")
    await life.create("gone")
    await life.append("gone", 50)
    await life.seal("b")
    await life.account()
    await life.close()
    await life.append_once("a", 7, 1_100)
    await life.do(lambda c: c.flush())
    await life.wait(20)
    await life.do(lambda c: c.collect())
    await life.do(lambda c: c.checkpoint())


async def look_back(life: Life) -> None:
    """Everything is there: now, for a reader, and for an owner without a local index."""
    container = await life.opened()
    assert life.owner is not None
    await compare(life.model, container, "table")
    await life.account()
    reader = await life.world.open_reader()
    await compare(life.model, reader, "table")
    await reader.close()
    await life.close()
    shutil.rmtree(life.world.folder / "index")
    life.owner = await life.world.open()
    await compare(life.model, life.owner.container, "table")
    await life.owner.container.flush()
    await life.wait(20)
    await life.owner.container.collect()
    await life.world.check(life.owner)
    await life.close()


def play(
    storage_plan: Plan | None = None,
    log_plan: FaultPlan | None = None,
    script: Callable[[Life], Awaitable[None]] = live,
    settings: ContainerSettings = SETTINGS,
) -> World:
    """Live a whole life, with these faults over all its owners."""
    with pytest.MonkeyPatch.context() as patched, world(settings=settings) as made:
        # 250 bytes are a small concat here.
        patched.setattr("siltstone.container.changes.concat.SMALL_BYTES", 250)
        plan = log_plan or FaultPlan()

        def hook(storage: FaultyChunkStorage) -> None:
            if storage_plan is not None:
                storage.plan = storage_plan

        made.storage_hook = hook
        life = Life(made, plan)

        async def whole() -> None:
            await script(life)
            made.storage_hook = lambda storage: None
            if life.owner is not None:
                life.owner.storage.plan = lambda call: Fate.DONE
            plan.faults.clear()
            await look_back(life)

        made.run(whole())
        return made


class Counting:
    """A storage plan that counts calls over all owners, and gives one of them a fate."""

    def __init__(self, number: int = 0, fate: Fate = Fate.DONE) -> None:
        self.count = 0
        self.number = number
        self.fate = fate
        self.hit = ""

    def __call__(self, call: StorageCall) -> Fate:
        self.count += 1
        if self.count != self.number:
            return Fate.DONE
        self.hit = f"{call.operation} {call.name}"
        return self.fate


LOG_FAULTS: dict[str, tuple[bool, Exception]] = {
    "applied, not reported": (True, LogError("injected: lost reply")),
    "lost": (False, LogError("injected: lost call")),
    "full": (False, StorageFullError("injected: full")),
}
