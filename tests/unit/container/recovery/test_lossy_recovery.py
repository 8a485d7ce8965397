"""Recovery with loss: what is kept and reported, what old owners can still do, and crashes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from siltstone.container.models.recovery_report import RecoveryReport, RecoveryState
from siltstone.container.models.segments import Put
from siltstone.container.recovery.lossy_recovery import recover_container
from siltstone.container.recovery.new_lineage import FAR, TABLES_FAR
from siltstone.core.errors import (
    ChunkUnavailableError,
    FencedError,
    LogLostError,
    LostDataError,
    Outcome,
    SiltstoneError,
    StoreInUseError,
)
from siltstone.core.records.keys import CounterKind
from siltstone.core.records.recovery import decode_recovery
from siltstone.core.text import uuid_text
from siltstone.testing.faults.faulty_chunk_storage import FaultyChunkStorage
from siltstone.testing.faults.faulty_fenced_log import FaultPlan, FaultyFencedLog
from siltstone.tier1.memory.shared_log import SharedLog
from tests.support import inside
from tests.support.container.container_world import (
    Owner,
    World,
    copied,
    pattern,
    with_settings,
    world,
)

QUIET = with_settings(
    flush_age_s=1e6, table_flush_age_s=1e6, checkpoint_age_s=1e6, garbage_interval_s=1e6
)


@pytest.fixture
def made() -> Iterator[World]:
    with world(settings=QUIET) as built:
        yield built


async def recovered(made: World, *, accept_loss: bool = True, **more: Any) -> RecoveryReport:
    return await recover_container(
        container=0,
        new_log=more.pop("new_log", made.new_log),
        storage=more.pop("storage", None) or made.new_storage(),
        environment=made.environment,
        settings=made.settings,
        owner="a person",
        accept_loss=accept_loss,
        **more,
    )


async def filled(made: World) -> Owner:
    """An owner with flushed bytes, and with bytes that only tier 1 has."""
    owner = await made.open()
    container = owner.container
    for name in ("a", "b", "sealed", "cut"):
        await container.create(name)
    await container.create_table("t")
    await container.commit([Put("t", b"k", b"flushed")])
    for name in ("a", "sealed", "cut"):
        await container.append(name, pattern(1, 500))
    await container.flush()
    await container.append("a", pattern(2, 300))
    await container.append("sealed", pattern(3, 40))
    return owner


def lose(made: World) -> SharedLog:
    """Tier 1 is gone; processes that have it open still have it."""
    old, made.shared_log = made.shared_log, SharedLog()
    return old


async def content(owner: Owner, name: str) -> bytes:
    return await owner.container.read(name, 0, 100_000)


def test_a_lost_log(made: World) -> None:
    async def run() -> None:
        owner = await filled(made)
        version = owner.rows.version
        await owner.container.seal("sealed")
        await owner.container.truncate("cut", 400)
        await inside.parts(owner.container).table_log_flusher.flush()
        await owner.container.create("never flushed")
        await made.crash(owner, keep_index=False)
        lose(made)
        with pytest.raises(LogLostError):
            await made.open()
        before = made.names()
        report = await recovered(made, accept_loss=False)
        assert made.names() == before
        assert made.shared_log.epoch == 0
        assert (report.state, report.done) == (RecoveryState.LOST, False)
        lengths = {s.name: (s.start_offset, s.length, s.missing, s.sealed) for s in report.segments}
        assert lengths == {
            "a": (0, 500, 0, False),
            "b": (0, 0, 0, False),
            "cut": (400, 500, 0, False),
            "sealed": (0, 500, 40, True),
        }
        done = await recovered(made)
        assert done.segments == report.segments
        assert done.done
        assert done.lineage != done.new_lineage
        again = await made.open()
        assert again.container.stats().warnings == ()
        assert await content(again, "a") == pattern(1, 500)
        info = await again.container.info("sealed")
        assert (info.length, info.sealed) == (500, True)
        value = await again.container.table_get("t", b"k")
        assert value is not None
        assert value.value == b"flushed"
        assert again.rows.version >= version + FAR
        for kind in CounterKind:
            far = TABLES_FAR if kind is CounterKind.TABLE_ID else FAR
            assert again.rows.counter(kind) > far
        assert await again.container.append("a", b"on") == 500
        await again.container.flush()
        await again.container.concat("a", "sealed")
        assert await content(again, "a") == pattern(1, 500) + b"on" + pattern(1, 500)
        await again.container.checkpoint()
        await made.check(again, strict=False)
        await again.container.close()
        name = next(name for name in made.names() if name.endswith("/recovery"))
        record = decode_recovery(made.bucket.chunks[name.encode()].content, where=name)
        assert uuid_text(record.lineage) == done.new_lineage
        assert record.table_version - record.cut_version >= FAR

    made.run(run())


def test_tables_are_made_after_recoveries(made: World) -> None:
    """Their ids have four bytes in each row."""

    async def run() -> None:
        owner = await filled(made)
        for number in range(3):
            await owner.container.flush()
            await made.crash(owner, keep_index=False)
            lose(made)
            assert (await recovered(made)).done
            owner = await made.open()
            table = f"after {number}"
            await owner.container.create_table(table)
            await owner.container.commit([Put(table, b"k", b"v")])
            value = await owner.container.table_get(table, b"k")
            assert value is not None
            assert value.value == b"v"
        await owner.container.close()

    made.run(run())


def test_a_healthy_log_is_left_alone(made: World) -> None:
    async def run() -> None:
        assert (await recovered(made)).state is RecoveryState.NEW
        owner = await filled(made)
        await owner.container.close()
        before = made.names(), made.shared_log.end
        report = await recovered(made)
        assert (report.state, report.done) == (RecoveryState.HEALTHY, False)
        assert (made.names(), made.shared_log.end) == before

    made.run(run())


@pytest.mark.slow
def test_truncated_beyond_what_was_flushed(made: World) -> None:
    async def run() -> None:
        owner = await filled(made)
        await owner.container.truncate("a", 700)
        await inside.parts(owner.container).table_log_flusher.flush()
        await made.crash(owner, keep_index=False)
        lose(made)
        report = await recovered(made)
        assert [(s.start_offset, s.length) for s in report.segments if s.name == "a"] == [
            (700, 700)
        ]
        again = await made.open()
        assert await again.container.append("a", b"on") == 700
        await again.container.flush()
        await made.check(again, strict=False)
        await again.container.close()

    made.run(run())


def test_frames_of_an_older_log_that_connect_are_kept(made: World) -> None:
    async def run() -> None:
        owner = await filled(made)
        await owner.container.create("late")
        await owner.container.append("late", b"in a frame")
        writer = await owner.container.register_writer("b", "w")
        await owner.container.append_as("b", writer.number, 5, b"once")
        copy = copied(made.shared_log)
        await owner.container.append("a", b"after the copy")
        await owner.container.flush()
        await made.crash(owner, keep_index=False)
        lose(made)
        made.shared_log = copy
        # Long-term storage is put back as well, so that the copy is ahead of it.
        with pytest.raises(LogLostError):
            await made.open()
        report = await recovered(made)
        assert report.set_aside == "world/0-aside-1"
        assert made.shared_log.aside
        again = await made.open()
        assert await content(again, "a") == pattern(1, 500) + pattern(2, 300) + b"after the copy"
        assert await content(again, "late") == b"in a frame"
        await again.container.close()

    made.run(run())


def test_an_older_copy_ahead_of_the_table_log(made: World) -> None:
    """Bytes that were acknowledged before the copy and never flushed come back."""

    async def run() -> None:
        owner = await filled(made)
        writer = await owner.container.register_writer("b", "w")
        await owner.container.append_as("b", writer.number, 5, b"once")
        await owner.container.commit([Put("t", b"k", b"in tier 1")])
        await owner.container.append("a", b"!")
        copy = copied(made.shared_log)
        kept = len(copy.frames)
        await owner.container.append("a", b"gone")
        # A checkpoint states the newest index and leaves the segments where they are.
        await owner.container.checkpoint()
        await made.crash(owner, keep_index=False)
        made.shared_log = copy
        with pytest.raises(LogLostError):
            await made.open()
        report = await recovered(made)
        assert (report.frames_left, report.left_because) == (0, "")
        assert report.frames_replayed >= kept
        assert {s.name: s.replayed for s in report.segments if s.replayed} == {
            "a": 301,
            "b": 4,
            "sealed": 40,
        }
        again = await made.open()
        assert await content(again, "a") == pattern(1, 500) + pattern(2, 300) + b"!"
        value = await again.container.table_get("t", b"k")
        assert value is not None
        assert value.value == b"in tier 1"
        # Exactly once still holds: a repeat of what came back is recognised.
        known = await again.container.register_writer("b", "w")
        assert (known.number, known.sequence) == (writer.number, 5)
        assert await again.container.append_as("b", known.number, 5, b"once") == 0
        await again.container.flush()
        await made.check(again, strict=False)
        await again.container.close()

    made.run(run())


def test_frames_after_a_gap_are_left_and_told(made: World) -> None:
    async def run() -> None:
        owner = await filled(made)
        await owner.container.create("x")
        log = made.shared_log
        lacking = log.frames[-1].index
        await owner.container.create("y")
        await owner.container.append("a", b"behind the gap")
        await made.crash(owner, keep_index=False)
        left = [frame for frame in log.frames if frame.index > lacking]
        log.frames[:] = left
        report = await recovered(made)
        assert report.frames_replayed == 0
        assert report.frames_left == len(left)
        assert "its table update begins at" in report.left_because
        again = await made.open()
        assert await content(again, "a") == pattern(1, 500)
        await again.container.close()

    made.run(run())


def test_bytes_after_a_gap_take_the_rest_of_the_log_with_them(made: World) -> None:
    async def run() -> None:
        owner = await made.open()
        await owner.container.create("a")
        await owner.container.flush()
        await owner.container.append("a", b"lacking")
        log = made.shared_log
        lacking = log.frames[-1].index
        await owner.container.append("a", b"behind the gap")
        await owner.container.create("after the gap")
        await made.crash(owner, keep_index=False)
        log.frames[:] = [frame for frame in log.frames if frame.index > lacking]
        report = await recovered(made)
        assert report.frames_replayed == 0
        assert "gap" in report.left_because
        assert [segment.name for segment in report.segments] == ["a"]

    made.run(run())


def test_a_log_of_another_lineage_gives_nothing(made: World) -> None:
    with world(seed=9, settings=QUIET) as other:
        owner = other.run(filled(other))
        other.run(owner.container.close())
        foreign = other.shared_log

    async def run() -> None:
        owner = await filled(made)
        await made.crash(owner, keep_index=False)
        made.shared_log = foreign
        frames = list(foreign.frames)
        before = made.names(), foreign.end, foreign.epoch
        told = r"another lineage: .* found=\S+ expected=\S+ journal="
        with pytest.raises(LogLostError, match=told):
            await made.open()
        assert (made.names(), foreign.end, foreign.epoch) == before
        report = await recovered(made)
        assert (report.frames_replayed, report.set_aside) == (0, "world/0-aside-1")
        assert foreign.aside == [frames]

    made.run(run())


def test_opening_an_older_copy_again_and_again_never_works(made: World) -> None:
    """Each claim may leave a frame; these frames are not the acknowledged ones."""

    async def run() -> None:
        owner = await filled(made)
        copy = copied(made.shared_log)
        await owner.container.append("a", b"gone")
        await owner.container.checkpoint()
        await made.crash(owner, keep_index=False)
        made.shared_log = copy
        needed = max(frame.index for frame in copy.frames) + 8
        while copy.end <= needed:
            # A frame of another claim, such as one of an older version.
            log = made.new_log()
            log.claim(lineage=copy.lineage or b"", new=False, above=0, takeover=True, owner="x")
            log.close()
            for opened in (made.open, made.open_reader):
                with pytest.raises(LogLostError):
                    await opened()
        assert (await recovered(made)).state is RecoveryState.LOST

    made.run(run())


# --- old owners -----------------------------------------------------------------------------------


def test_an_owner_of_the_same_log_acknowledges_nothing_more(made: World) -> None:
    async def run() -> None:
        owner = await filled(made)
        log = made.shared_log
        lacking = log.frames[0].index
        del log.frames[0]  # The older part of the log is lost while the owner lives.
        assert log.frames[0].index > lacking
        with pytest.raises(StoreInUseError):
            await recovered(made)
        state = (await recovered(made, accept_loss=False)).state
        if state is RecoveryState.HEALTHY:
            pytest.skip("the lost frame was not needed")
        await recovered(made, takeover=True)
        await refused_everything(made, owner)

    made.run(run())


@pytest.mark.parametrize("act", ["flush", "checkpoint", "collect"])
def test_an_owner_with_a_log_of_its_own_destroys_and_commits_nothing(act: str) -> None:
    """Its log is out of reach: it learns from long-term storage before each act."""
    with world(settings=QUIET) as fresh:
        fresh.run(zombie_acts(fresh, act))


async def zombie_acts(made: World, act: str) -> None:
    owner = await filled(made)
    await owner.container.delete("cut")
    await owner.container.collect()
    await inside.parts(owner.container).table_log_flusher.flush()
    await made.environment.sleep(60)
    lose(made)
    report = await recovered(made)
    names = set(made.names())
    with pytest.raises(FencedError):
        await getattr(owner.container, act)()
    assert names <= set(made.names()), "nothing was deleted"
    with pytest.raises(FencedError):
        await owner.container.append("a", b"never")
    again = await made.open(index="another")
    assert await content(again, "a") == pattern(1, 500)
    assert again.container.stats().lineage == report.new_lineage
    await made.check(again, strict=False)
    await again.container.close()
    await owner.container.close()


async def refused_everything(made: World, owner: Owner) -> None:
    names = made.names()
    with pytest.raises(FencedError):
        await owner.container.append("a", b"never")
    for act in (owner.container.flush, owner.container.checkpoint, owner.container.collect):
        with pytest.raises(FencedError):
            await act()
    assert made.names() == names


# --- crashes --------------------------------------------------------------------------------------


class Stop:
    """Lets the process die before or after its ``number``-th call."""

    def __init__(self, number: int, *, after: bool) -> None:
        self.left = number
        self.after = after
        self.dead = False

    def count(self) -> bool:
        """Whether this is the call."""
        if self.dead:
            return True
        self.left -= 1
        self.dead = self.left == 0
        return self.dead


def gone(operation: str, name: str) -> ChunkUnavailableError:
    return ChunkUnavailableError(
        "the process is dead", chunk=name, operation=operation, outcome=Outcome.UNKNOWN
    )


@pytest.mark.slow
def test_a_chunk_of_which_tier_1_keeps_a_part(made: World) -> None:
    """The part is put back into a new chunk, the rest is named; the layout stays whole."""

    async def run() -> None:
        owner = await made.open()
        await owner.container.create("a")
        await owner.container.append("a", pattern(1, 500))
        for _ in range(3):
            await owner.container.flush()
            await owner.container.checkpoint()
        await owner.container.create("held")
        await owner.container.append("held", b"not flushed, so the log keeps what follows")
        await owner.container.append("a", pattern(2, 300))
        await owner.container.flush("a")
        await made.crash(owner, keep_index=False)
        (chunk,) = made.names("data/")
        made.bucket.remove(chunk.encode())
        dry = await recovered(made, accept_loss=False)
        done = await recovered(made)
        for report in (dry, done):
            segment = report.segments[0]
            assert segment.name == "a"
            assert [(part.offset, part.length) for part in segment.lost] == [(0, 500)]
            assert [(part.offset, part.length) for part in segment.kept] == [(500, 300)]
        assert dry.needs_recovery
        assert not (await recovered(made, accept_loss=False)).needs_recovery
        again = await made.open()
        assert await again.container.read("a", 500, 1_000) == pattern(2, 300)
        with pytest.raises(LostDataError):
            await again.container.read("a", 499, 1)
        await again.container.append("a", b"on")
        await again.container.flush()
        assert await again.container.read("a", 500, 1_000) == pattern(2, 300) + b"on"
        damage = [f async for f in again.container.check() if f.severity == "damage"]
        assert {finding.where for finding in damage} == {chunk}
        await again.container.close()

    made.run(run())


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
def test_a_crash_at_each_call_of_a_recovery(after: bool) -> None:
    """Whichever call was the last one, the next recovery ends as the first one would have."""
    number = 0
    while True:
        number += 1
        with world(settings=QUIET) as made:
            if not made.run(crashed_at(made, Stop(number, after=after))):
                break
    assert number > 12


async def crashed_at(made: World, stop: Stop) -> bool:
    """Run a recovery that dies, then one that does not; return whether the first one died."""
    owner = await filled(made)
    await owner.container.create("kept")
    await owner.container.append("kept", pattern(4, 200))
    await owner.container.flush("kept")  # the log keeps it, since unflushed bytes come before it
    copy = copied(made.shared_log)
    await owner.container.append("a", b"gone")
    await owner.container.checkpoint()
    await made.crash(owner, keep_index=False)
    made.shared_log = copy
    (chunk,) = made.names("data/c0/e00000000000000000001/kept/")
    made.bucket.remove(chunk.encode())
    storage = FaultyChunkStorage(made.new_storage())
    plan = FaultPlan()

    def storage_before(operation: str, name: str) -> None:
        if stop.dead or (not stop.after and stop.count()):
            raise gone(operation, name)

    def storage_after(operation: str, name: str) -> None:
        if stop.dead or (stop.after and stop.count()):
            raise gone(operation, name)

    def log_before(method: str, number: int) -> None:
        if stop.dead or (not stop.after and stop.count()):
            raise LogLostError("the process is dead")

    def log_after(method: str, number: int) -> None:
        if stop.dead or (stop.after and stop.count()):
            raise LogLostError("the process is dead")

    storage.before, storage.after = storage_before, storage_after
    plan.before, plan.after = log_before, log_after
    died = False
    try:
        await recovered(
            made, storage=storage, new_log=lambda: FaultyFencedLog(made.new_log(), plan)
        )
    except SiltstoneError:
        died = True
    made.shared_log.holder = None
    report = await recovered(made)
    assert died or report.state is RecoveryState.HEALTHY
    again = await made.open()
    assert await content(again, "a") == pattern(1, 500) + pattern(2, 300)
    assert await content(again, "sealed") == pattern(1, 500) + pattern(3, 40)
    assert await content(again, "kept") == pattern(4, 200)
    await made.check(again, strict=False)
    await again.container.close()
    return died


def test_a_reader_refuses_to_follow_a_log_of_another_lineage(made: World) -> None:
    async def run() -> None:
        owner = await filled(made)
        reader = await made.open_reader()
        assert (await reader.info("a")).length == 800
        await made.crash(owner, keep_index=False)
        old = lose(made)
        await recovered(made)
        owner = await made.open()
        for _ in range(100):
            await owner.container.append("a", pattern(4, 10))
        vars(old).update(vars(made.shared_log))
        with pytest.raises(LogLostError, match="open the store again"):
            await reader.refresh()
        await reader.close()
        await owner.container.close()

    made.run(run())
