"""A container whose log failed is opened again; one that another owner claimed is not.

What is injected: the log fails, the claim fails for a while, or another owner claims. What must
hold: nothing is repeated, calls in between say so, old handles work again, and fenced is final.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

import siltstone
from siltstone.container.container import Container
from siltstone.container.models.health import HealthReason
from siltstone.core.constants import container_of
from siltstone.core.environment import Environment
from siltstone.core.errors import (
    ClosedError,
    FencedError,
    LogError,
    LogLostError,
    OutcomeUnknownError,
    SiltstoneError,
    StoreInUseError,
)
from siltstone.core.fenced_log import LogOwner
from siltstone.store.async_store import AsyncStore
from siltstone.store.handles.container_slot import ContainerSlot, Handle
from siltstone.store.reopener import Reopening
from siltstone.store.store_assembly import Assembly
from tests.support import inside


class FakeOwner:
    """A container that closes itself on request."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.failure: SiltstoneError | None = None
        self.stopped = asyncio.Event()
        self.closings = 0

    def fail(self, failure: SiltstoneError) -> None:
        self.failure = failure
        self.stopped.set()

    async def wait_stopped(self) -> None:
        await self.stopped.wait()

    async def close(self, flush: str | None = None) -> None:
        self.closings += 1


class FakeOpener:
    """Fails as often as requested, then opens."""

    owner = "this store"

    def __init__(
        self, failures: list[SiltstoneError], newest: int = 1, claimant: str = "another"
    ) -> None:
        self.claimant = claimant
        self.failures = failures
        self.newest = newest
        self.opened: list[FakeOwner] = []

    async def holder(self, index: int) -> LogOwner:
        return LogOwner(epoch=self.newest, alive=False, description=self.claimant)

    async def open_owner(self, index: int, *, takeover: bool) -> Container:
        assert not takeover
        if self.failures:
            raise self.failures.pop(0)
        self.newest += 1
        self.opened.append(FakeOwner(self.newest))
        return cast("Container", self.opened[-1])


class FakeEnvironment:
    """Time that passes at once; a turn of the loop for each sleep."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def random(self) -> float:
        return 0.5

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)


def watch(
    opener: FakeOpener, failure: SiltstoneError, until: Callable[[Handle], bool]
) -> tuple[FakeOwner, Handle, FakeEnvironment]:
    """Let an owner fail, and run the watcher until ``until`` holds for its handle."""

    async def run() -> tuple[FakeOwner, Handle, FakeEnvironment]:
        owner, world = FakeOwner(1), FakeEnvironment()
        slot = ContainerSlot(0, cast("Container", owner), 1)
        handle = Handle(slot)
        task = asyncio.ensure_future(Reopening([slot], opener, cast("Environment", world)).run())
        await asyncio.sleep(0)
        owner.fail(failure)
        for _ in range(200):
            await asyncio.sleep(0)
            if until(handle):
                break
        else:
            raise AssertionError("nothing happened")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return owner, handle, world

    return asyncio.run(run())


def raises(kind: type[SiltstoneError]) -> Callable[[Handle], bool]:
    def until(handle: Handle) -> bool:
        try:
            _ = handle._container.closed
        except SiltstoneError as error:
            return type(error) is kind and "being opened again" not in str(error)
        return False

    return until


def test_a_failed_container_is_opened_again() -> None:
    failures: list[SiltstoneError] = [
        LogError("x"),
        StoreInUseError("x", owner="me"),
        LogError("x"),
    ]
    opener = FakeOpener(failures)
    owner, handle, world = watch(
        opener,
        LogError("the log failed"),
        lambda handle: handle._container in cast("list[Container]", opener.opened),
    )
    assert owner.closings == 1
    assert handle._container is cast("Container", opener.opened[0])
    waits = [seconds for seconds in world.slept if seconds != 0.25]
    assert waits == pytest.approx([0.1, 0.2, 0.4])


def refusals(enough: Callable[[list[ClosedError]], bool]) -> list[ClosedError]:
    """The errors of refused calls while no open succeeds, until ``enough`` holds."""
    seen: list[ClosedError] = []

    def until(handle: Handle) -> bool:
        try:
            _ = handle._container.closed
        except ClosedError as error:
            seen.append(error)
        return enough(seen)

    failures: list[SiltstoneError] = [LogError(f"attempt {number}") for number in range(100)]
    watch(FakeOpener(failures), LogError("the log failed"), until)
    return seen


def test_calls_in_between_are_refused_with_the_cause() -> None:
    seen = refusals(lambda seen: len(seen) > 1)
    assert seen[0] is not seen[1]
    assert "being opened again" in str(seen[0])
    assert "the log failed" in str(seen[0].__cause__)


def test_calls_in_between_are_told_what_the_newest_attempt_met() -> None:
    seen = refusals(lambda seen: any("attempt 2" in str(error) for error in seen))
    assert str(seen[-1]).startswith(
        "the container is being opened again after a failure: the log failed; not open yet: attempt"
    )


def test_fenced_is_final() -> None:
    opener = FakeOpener([])
    watch(opener, FencedError("newer epoch"), raises(FencedError))
    assert opener.opened == []


def test_a_newer_epoch_is_fenced_though_the_log_is_free() -> None:
    opener = FakeOpener([], newest=2)
    watch(opener, LogError("x"), raises(FencedError))
    assert opener.opened == []


def test_an_own_claim_that_failed_to_boot_fences_no_owner() -> None:
    opener = FakeOpener([], newest=2, claimant="this store")
    watch(opener, LogError("x"), lambda handle: bool(opener.opened))
    assert len(opener.opened) == 1


def test_a_lost_log_is_final() -> None:
    opener = FakeOpener([LogLostError("emptied")])
    watch(opener, LogError("x"), raises(ClosedError))
    assert opener.opened == []


async def test_a_store_continues_after_its_log_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    siltstone.init(tmp_path)
    async with await siltstone.open_async(tmp_path) as store:
        segment = await store.create("a")
        await segment.append(b"one")
        log = inside.parts(inside.slots(store)[0].container).log
        monkeypatch.setattr(log, "append", _fail)
        with pytest.raises(OutcomeUnknownError):
            await segment.append(b"two")
        async with asyncio.timeout(120):
            while True:
                try:
                    offset = await segment.append(b"three")
                    break
                except ClosedError:
                    await asyncio.sleep(0.05)
        assert (await segment.read(0, 100)).endswith(b"three")
        assert offset in (3, 6)


async def test_health_and_stats_tell_of_a_closed_container_and_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    siltstone.init(tmp_path, containers=2)
    name = next(f"s{n}" for n in range(100) if container_of(f"s{n}", 2) == 1)
    async with await siltstone.open_async(tmp_path) as store:
        segment = await store.create(name)
        with monkeypatch.context() as broken:
            broken.setattr(Assembly, "open_owner", _stay_closed)
            broken.setattr(inside.parts(inside.slots(store)[1].container).log, "append", _fail)
            with pytest.raises(OutcomeUnknownError):
                await segment.append(b"x")
            other, closed = await store.health()
            assert (other.container, other.state, other.error) == (0, "ok", None)
            assert (closed.container, closed.state) == (1, "unavailable")
            assert closed.reasons == (HealthReason.CLOSED,)
            assert "injected" in str(closed.error)
            other_stats, closed_stats = store.stats()
            assert (other_stats.container, other_stats.error) == (0, None)
            assert (closed_stats.container, closed_stats.log_end) == (1, 0)
            assert "injected" in str(closed_stats.error)
            await _until_health(store, lambda error: "being opened again" in str(error))
        await _until_health(store, lambda error: error is None)
        assert [one.state for one in await store.health()] == ["ok", "ok"]
        assert [one.error for one in store.stats()] == [None, None]
    with pytest.raises(ClosedError, match="the store was closed"):
        store.stats()
    with pytest.raises(ClosedError, match="the store was closed"):
        await store.health()


async def test_a_closed_container_keeps_no_other_from_its_collection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    siltstone.init(tmp_path, containers=2)
    settings = tmp_path / "siltstone.yaml"
    settings.write_text(settings.read_text() + "\ngarbage:\n  delay: 0s\n")
    closed, other = (
        next(f"s{n}" for n in range(100) if container_of(f"s{n}", 2) == index) for index in (0, 1)
    )

    def chunks() -> list[Path]:
        return list((tmp_path / "chunks" / "data").rglob("*.chunk"))

    async with await siltstone.open_async(tmp_path) as store:
        broken, gone = await store.create(closed), await store.create(other)
        await gone.append(b"x")
        await store.flush()
        assert chunks()
        monkeypatch.setattr(Assembly, "open_owner", _stay_closed)
        # The background work collects nothing meanwhile.
        async with inside.parts(inside.slots(store)[1].container).collector.lock:
            await gone.delete()
            await store.flush()
            monkeypatch.setattr(inside.parts(inside.slots(store)[0].container).log, "append", _fail)
            with pytest.raises(OutcomeUnknownError):
                await broken.append(b"x")
            assert chunks()
        for act in (store.collect, store.replay_garbage):
            with pytest.raises(SiltstoneError, match="injected"):
                await act()
        assert not chunks()


def test_health_tells_of_a_container_with_another_owner(tmp_path: Path) -> None:
    siltstone.init(tmp_path)
    with siltstone.open(tmp_path) as older:
        segment = older.create("a")
        with siltstone.open(tmp_path, takeover=True):
            with pytest.raises(FencedError):
                segment.append(b"older")
            (found,) = older.health()
            assert (found.state, found.reasons) == ("unavailable", (HealthReason.CLOSED,))
            assert found.error
            assert [bool(one.error) for one in older.stats()] == [True]


def test_the_older_of_two_owners_is_fenced(tmp_path: Path) -> None:
    siltstone.init(tmp_path)
    with siltstone.open(tmp_path) as older:
        segment = older.create("a")
        with siltstone.open(tmp_path, takeover=True) as newer:
            newer.segment("a").append(b"newer")
            with pytest.raises(FencedError):
                segment.append(b"older")
            with pytest.raises((FencedError, ClosedError)):
                segment.append(b"older")
            assert newer.segment("a").read(0, 10) == b"newer"


async def _until_health(store: AsyncStore, holds: Callable[[str | None], bool]) -> None:
    """Wait until ``holds`` is true for the error of container 1."""
    async with asyncio.timeout(120):
        while True:
            if holds((await store.health())[1].error):
                return
            await asyncio.sleep(0.05)


async def _stay_closed(*arguments: object, **options: object) -> Container:
    raise LogError("not yet")


def _fail(*arguments: object, **options: object) -> int:
    raise LogError("injected")
