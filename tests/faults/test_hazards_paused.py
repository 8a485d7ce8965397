"""Three ways to lose data or to hang, with the older owner paused at every call it makes.

What may fail: the older owner is paused before or after any call to long-term storage, log or
index, as the case says, while a newer one takes over and works; then it continues. What must hold:
every byte that either acknowledged is there, for the newer owner and for one without a local index;
the older one destroys nothing, and each caller that waited for it hears how it ended; the
invariants.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from siltstone.container.container import Container
from siltstone.core.chunk_names import data_prefix
from siltstone.core.environment import Pool
from siltstone.core.errors import SiltstoneError, StoreInUseError
from siltstone.core.fenced_log import FencedLog
from siltstone.tier1.file.fenced_log import FileFencedLog
from tests.support.container.container_world import Owner, World, with_settings, world
from tests.support.faults.acknowledged import Acknowledged
from tests.support.faults.place import NoSync
from tests.support.faults.zombie import OldOwner, PausingEnvironment

T = TypeVar("T")

QUIET = with_settings(
    chunk_bytes=4_000,
    flush_bytes=1 << 30,
    flush_age_s=1e6,
    table_flush_age_s=1e6,
    checkpoint_age_s=1e6,
    garbage_delay_s=0.0,
    garbage_interval_s=1e6,
    optimiser_interval_s=1e6,
    pack_bytes=1,
)
"""Nothing happens by itself, so a call has the same number in every run."""

DAYS_S = 3 * 24 * 3600.0


async def looked_at(made: World, newer: Owner, told: Acknowledged) -> None:
    """What the newer owner has is the same for one that has no local index, and whole."""
    data = await told.check(newer)
    await newer.container.flush()
    await made.check(newer, strict=False)
    await made.crash(newer, keep_index=False)
    again = await made.open(index="newer")
    assert await told.check(again) == data
    await made.check(again, strict=False)
    await again.container.close()


def at_every_call(play: Callable[..., int], *, odd_after: bool) -> None:
    """Play a story once for each call of it; the owner stops after every other one.

    Two tests, or two runs of one, that differ in ``odd_after`` stop before and after each call.
    """
    for number in range(1, play(10**9, after=False) + 1):
        after = (number % 2 == 1) is odd_after
        try:
            play(number, after=after)
        except BaseException as error:
            error.add_note(f"stopped {'after' if after else 'before'} call {number}")
            raise


# --- H4: a call that is answered too late, and has its effect later still -------------------------


class Hanging(PausingEnvironment):
    """One call hangs until the owner may continue, past its deadline; all others proceed.

    Attributes:
        hung: the pool of that call.
    """

    hung = ""

    async def run_blocking(self, pool: Pool, call: Callable[[], T]) -> T:
        self.calls += 1
        is_it = self.calls == self._number
        self.hung = pool.name if is_it else self.hung
        if is_it and not self._after:
            await self._stop()
        result = await super(PausingEnvironment, self).run_blocking(pool, call)
        if is_it and self._after:
            await self._stop()
        return result

    def stop_now(self) -> None:
        """The owner continues while its call hangs."""


LATE = replace(QUIET, storage_deadline_s=5.0, storage_attempts=1)
DEADLINE_S = 5.0
CALLS_IN_A_ROW = 20
"""More calls to long-term storage, one after another, than a flush or a checkpoint makes."""


async def hung(made: World, number: int, *, after: bool, cancelled: bool) -> int:
    """Flush and continue while a call hangs; then be overtaken, and then it has its effect."""
    told = Acknowledged()
    first = await made.open()
    await first.container.create("a")
    await told.append(first.container, 900)
    await first.container.flush()
    await first.container.close()
    environment = Hanging(made, 0, after=after)
    older = await made.open(index="older", environment=environment)
    begun = environment.calls
    environment._number = begun + number
    took: list[float] = []

    async def life() -> None:
        clock = made.environment.clock
        for step in range(2):
            await told.append(older.container, 1_300)
            since = clock.now
            with suppress(SiltstoneError, TimeoutError):
                async with asyncio.timeout(1.0 if cancelled else None):
                    await older.container.flush()
            if step == 1:
                with suppress(SiltstoneError):
                    await older.container.checkpoint()
            took.append(clock.now - since)

    living = asyncio.create_task(_quietly(life()))
    # The log and the index have no deadline: then the owner waits for its call.
    await made.environment.sleep(200)
    calls = environment.calls - begun
    assert living.done() or not environment.hung.startswith("chunks-"), "it waits for the call"
    assert all(seconds <= CALLS_IN_A_ROW * DEADLINE_S for seconds in took)
    newer = await made.open(takeover=True, index="newer")
    await told.check(newer)
    await told.append(newer.container, 700)
    await newer.container.flush()
    made.environment.clock.now += DAYS_S
    async for _ in newer.container.garbage.sweep(delete=True, all_epochs=True):
        pass
    await newer.container.garbage.run()
    before = await told.check(newer)
    environment.resume.set()
    await made.environment.sleep(30)
    await living
    with pytest.raises(SiltstoneError):
        await older.container.append("a", b"late")
    await older.container.close()
    assert await told.check(newer) == before
    await told.append(newer.container, 500)
    await _swept(made, newer)
    await looked_at(made, newer, told)
    return calls


async def _quietly(work: Any) -> None:
    with suppress(SiltstoneError):
        await work


async def _swept(made: World, owner: Owner) -> None:
    """What arrived late is found and removed; nothing else is."""
    made.environment.clock.now += DAYS_S
    for _ in range(2):
        async for _finding in owner.container.garbage.sweep(delete=True, all_epochs=True):
            pass
        await owner.container.flush()
        await owner.container.garbage.run()
    named = {chunk.chunk for chunk in await owner.container.chunks("a")}
    assert set(made.names(data_prefix(0))) == named


@pytest.mark.parametrize("cancelled", [False, True])
def test_h4_a_call_takes_its_effect_after_the_owner_was_overtaken(cancelled: bool) -> None:
    def play(number: int, *, after: bool) -> int:
        with world(settings=LATE) as made:
            return int(made.run(hung(made, number, after=after, cancelled=cancelled)))

    at_every_call(play, odd_after=cancelled)


# --- H16: the bound of back-pressure is reached ---------------------------------------------------

BOUND_BYTES = 12_000
PRESSED = with_settings(
    chunk_bytes=8_000,
    flush_bytes=6_000,
    flush_age_s=2.0,
    unflushed_bytes_max=BOUND_BYTES,
    table_flush_bytes=2_000,
    unflushed_table_bytes_max=3_000,
    append_deadline_s=60.0,
    garbage_interval_s=1e6,
    checkpoint_age_s=1e6,
    optimiser_interval_s=1e6,
    storage_deadline_s=5_000.0,
    pack_bytes=1,
)


async def press(container: Container, told: Acknowledged) -> list[BaseException]:
    """Append more than the bound at once, and make room meanwhile; return how calls failed."""
    calls = [told.append(container, 3_000) for _ in range(3 * BOUND_BYTES // 3_000)]
    calls += [container.truncate("a", 0)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    return [result for result in results if isinstance(result, BaseException)]


async def pressed(made: World, number: int, *, after: bool) -> int:
    told = Acknowledged()
    first = await made.open()
    await first.container.create("a")
    await first.container.close()
    failed: list[BaseException] = []

    async def life(owner: Owner) -> None:
        failed.extend(await press(owner.container, told))

    environment = PausingEnvironment(made, number, after=after)
    older = OldOwner(made, environment, life)
    calls = await older.begin()
    newer = await made.open(takeover=True, index="newer")
    await told.check(newer)
    since = made.environment.clock.now
    assert await press(newer.container, told) == []
    assert made.environment.clock.now - since < PRESSED.append_deadline_s
    before = await told.check(newer)
    # A caller that waited for the older one hears of its end, for it ends without its deadline.
    await asyncio.wait_for(older.resume(), 50.0)
    assert all(isinstance(error, SiltstoneError) for error in failed), failed
    assert await told.check(newer) == before
    await looked_at(made, newer, told)
    return calls


@pytest.mark.parametrize("odd_after", [False, True])
def test_h16_at_the_bound_everything_continues_or_ends(odd_after: bool) -> None:
    def play(number: int, *, after: bool) -> int:
        with world(settings=PRESSED) as made:
            return int(made.run(pressed(made, number, after=after)))

    at_every_call(play, odd_after=odd_after)


# --- H18: politeness ------------------------------------------------------------------------------


@contextmanager
def logs(kind: str, folder: Path) -> Iterator[World]:
    """A world whose owners keep the log ``kind``."""
    if kind == "memory":
        with world(settings=QUIET) as made:
            yield made
        return
    opened: list[FileFencedLog] = []

    def new_log() -> FencedLog:
        log = FileFencedLog(str(folder), 0, file_bytes=64 * 1024, calls=NoSync())
        opened.append(log)
        return log

    with world(settings=QUIET, new_log=new_log) as made:
        yield made
    for log in opened:
        log.abandon()


def everything(made: World, folder: Path) -> object:
    """All that lies in the log and on long-term storage."""
    files = {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    frames = [(frame.epoch, frame.index, frame.crc) for frame in made.shared_log.frames]
    return files, frames, dict.fromkeys(made.names())


async def polite(made: World, folder: Path, number: int, *, after: bool) -> int:
    """A visitor asks politely while the older owner is paused; at last a newer one takes over."""
    told = Acknowledged()
    first = await made.open()
    await first.container.create("a")
    await told.append(first.container, 300)
    await first.container.close()
    ended: list[str] = []

    async def life(owner: Owner) -> None:
        await told.append(owner.container, 1_500)
        await owner.container.flush()
        assert owner.container.failure is None
        ended.append("undisturbed")

    environment = PausingEnvironment(made, number, after=after)
    older = OldOwner(made, environment, life)
    calls = await older.begin()
    held = made.new_log().holder().alive
    before = everything(made, folder)
    visitor: Owner | None = None
    try:
        visitor = await made.open(index="visitor")
    except StoreInUseError:
        assert held, "refused, and it has no owner"
        assert everything(made, folder) == before, "it was refused and left something"
    else:
        assert not held, "two owners, without a takeover"
        await told.append(visitor.container, 200)
    environment.resume.set()
    environment._number = 10**9
    await made.environment.sleep(30)
    assert (ended == ["undisturbed"]) is held
    if visitor is not None:
        assert older.owner is None, "it was opened next to a live owner"
        await told.append(visitor.container, 200)
    newer = await made.open(takeover=True, index="newer")
    await told.append(newer.container, 100)
    await older.resume()
    if visitor is not None:
        with pytest.raises(SiltstoneError):
            await visitor.container.append("a", b"late")
        await visitor.container.close()
    await looked_at(made, newer, told)
    return calls


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_h18_a_polite_claim_disturbs_no_owner(tmp_path: Path, kind: str) -> None:
    folders = iter(range(10**6))

    def play(number: int, *, after: bool) -> int:
        folder = tmp_path / f"{next(folders)}"
        with logs(kind, folder) as made:
            return int(made.run(polite(made, folder, number, after=after)))

    at_every_call(play, odd_after=kind == "file")
