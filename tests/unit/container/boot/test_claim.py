"""The claim and the steps of a boot, over a log whose answers the test sets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar, cast

import pytest

from siltstone.bindings.memory.bucket import Bucket
from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.container.boot.claim import Claimed
from siltstone.container.boot.replay import replay
from siltstone.container.models.settings import ContainerSettings
from siltstone.container.owner_boot import claim
from siltstone.container.state.boot_state import BootState
from siltstone.container.state.log_scan import scan_log
from siltstone.container.state.replica import NO_THRESHOLDS
from siltstone.core.chunk_names import claim_file, system_prefix
from siltstone.core.errors import (
    FencedError,
    LogLostError,
    LogTruncatedError,
)
from siltstone.core.fenced_log import FencedLog
from siltstone.core.records.frame import KIND_BATCH, KIND_END, Frame
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.testing.virtual_time import VirtualEnvironment
from tests.support import inside
from tests.support.container.container_world import pattern, world

T = TypeVar("T")

LINEAGE, OTHER = bytes(range(16)), bytes([9] * 16)


def frame(index: int, *, kind: int = KIND_END, lineage: bytes = LINEAGE) -> Frame:
    return Frame(
        kind=kind,
        lineage=lineage,
        epoch=1,
        index=index,
        previous_crc=0,
        count=0,
        body=b"",
        crc=0,
    )


class ScriptedLog:
    """Returns what it holds, and records the calls."""

    def __init__(self, *frames: Frame, lineage: bytes | None = None, epoch: int = 0) -> None:
        self.frames = list(frames)
        self.known = lineage
        self.newest = epoch
        self.claims: list[dict[str, Any]] = []
        self.at_claim: Callable[[], None] = lambda: None
        self.truncated = 0
        self.closed = 0
        self.opened = 0

    def claim(self, **facts: Any) -> int:
        self.claims.append(facts)
        self.newest = epoch = 1 + max(cast(int, facts["above"]), self.newest)
        self.at_claim()
        return epoch

    def newest_epoch(self) -> int:
        return self.newest

    def open_read(self) -> ScriptedLog:
        self.opened += 1
        return self

    def close(self) -> None:
        self.closed += 1

    def epoch(self) -> int:
        return self.newest

    def lineage(self) -> bytes | None:
        return self.known

    def first(self) -> int:
        return self.frames[0].index if self.frames else 0

    def end(self) -> int:
        return self.frames[-1].index + 1 if self.frames else 0

    def dropped_tail(self) -> int:
        return 77

    def read(self, from_index: int) -> Iterator[Frame]:
        assert from_index == self.first()
        if self.truncated:
            self.truncated -= 1
            raise LogTruncatedError(index=from_index, first=from_index + 1)
        return iter(list(self.frames))


class Boot:
    """A claim over a bucket."""

    def __init__(self, bucket: Bucket | None = None) -> None:
        self.environment = VirtualEnvironment(5)
        self.storage = MemoryChunkStorage(bucket or Bucket(), clock=self.environment.time)
        self.opened = False

    def run(self, work: Callable[[AsyncChunkStorage], Awaitable[T]]) -> T:
        bridge = AsyncChunkStorage(self.storage, self.environment, threads=2)

        async def worked() -> T:
            return await work(bridge)

        with self.environment.runner() as runner:
            return runner.run(worked())

    def claim(self, log: ScriptedLog, *, takeover: bool = False) -> Claimed:
        return self.run(
            lambda storage: claim(
                cast(FencedLog, log), storage, self.environment, 0, owner="me", takeover=takeover
            )
        )

    def forget_the_journal(self) -> None:
        for stat in list(self.storage.list(system_prefix(0))):
            self.storage.delete(stat.name)


@pytest.fixture(scope="module")
def life() -> tuple[Bucket, bytes, list[Frame], int]:
    """Storage, lineage, frames and newest epoch of a container whose owner died."""
    with world() as made:

        async def whole() -> bytes:
            first = await made.open()
            await first.container.create("a")
            await first.container.append("a", pattern(1, 100))
            await first.container.flush()
            lineage = inside.parts(first.container).journal.lineage
            await made.crash(first)
            return lineage

        lineage = made.run(whole())
        kept = list(made.shared_log.frames)
        # Frames that the log has truncated are here again: only their index matters.
        frames = [
            *(frame(index, kind=KIND_BATCH, lineage=lineage) for index in range(kept[0].index)),
            *kept,
        ]
        return made.bucket, lineage, frames, made.shared_log.epoch


def copied(bucket: Bucket) -> Bucket:
    """Storage with the same objects."""
    copy = Bucket()
    bring(bucket, MemoryChunkStorage(copy))
    return copy


def bring(bucket: Bucket, target: MemoryChunkStorage) -> None:
    """Copy all objects."""
    source = MemoryChunkStorage(bucket)
    for stat in source.list(""):
        data = bytearray(stat.length)
        source.read_into(stat.name, 0, data)
        target.create(stat.name, [data])


Life = tuple[Bucket, bytes, list[Frame], int]


def log_of(life: Life) -> ScriptedLog:
    _, lineage, frames, epoch = life
    return ScriptedLog(*frames, lineage=lineage, epoch=epoch)


# --- a new container ------------------------------------------------------------------------------


def test_the_first_claim_of_all_is_of_a_new_lineage() -> None:
    log = ScriptedLog()
    claimed = Boot().claim(log)
    (facts,) = log.claims
    lineage = facts.pop("lineage")
    assert facts == {"new": True, "above": 0, "takeover": False, "owner": "me"}
    assert len(lineage) == 16
    assert claimed == Claimed(
        epoch=1,
        boot_state=BootState(lineage=lineage, journal_state=None),
        log_first=0,
        log_end=0,
        dropped_tail=77,
    )
    assert log.closed == log.opened > 0


def test_a_first_boot_that_failed_is_repeated_under_its_lineage() -> None:
    log = ScriptedLog(frame(0), frame(1), lineage=LINEAGE, epoch=2)
    claimed = Boot().claim(log)
    (facts,) = log.claims
    assert (facts["lineage"], facts["new"]) == (LINEAGE, False)
    assert (claimed.epoch, claimed.log_first, claimed.log_end) == (3, 0, 2)
    assert log.closed == log.opened > 0


@pytest.mark.parametrize(
    "frames",
    [
        (frame(0), frame(1, kind=KIND_BATCH)),
        (frame(0, kind=KIND_BATCH), frame(1)),
        (frame(3), frame(4)),
    ],
)
def test_a_log_with_a_history_is_no_first_boot(frames: tuple[Frame, ...]) -> None:
    log = ScriptedLog(*frames, lineage=LINEAGE, epoch=2)
    with pytest.raises(LogLostError, match="the journal is gone, or the log belongs to another"):
        Boot().claim(log)
    assert log.claims == []
    assert log.closed == log.opened > 0


def test_a_log_that_is_truncated_meanwhile_is_no_first_boot() -> None:
    log = ScriptedLog(frame(0), lineage=LINEAGE, epoch=2)
    log.truncated = 9
    with pytest.raises(LogLostError, match="the journal is gone"):
        Boot().claim(log)
    assert log.claims == []
    assert log.closed == log.opened > 0


def test_a_first_boot_of_another_one_meanwhile_is_seen(life: Life) -> None:
    log, boot = log_of(life), Boot()
    read = log.read

    def opened_by_another(from_index: int) -> Iterator[Frame]:
        if not boot.opened:
            bring(life[0], boot.storage)
            boot.opened = True
        return read(from_index)

    log.read = opened_by_another  # type: ignore[method-assign]
    assert boot.claim(log).boot_state.lineage == life[1]
    assert log.claims[0]["new"] is False


def test_the_new_epoch_is_above_every_file_of_the_container() -> None:
    boot = Boot()
    boot.storage.create(claim_file(0, 7), [b"x"])
    boot.storage.create(claim_file(1, 70), [b"x"])
    log = ScriptedLog()
    assert boot.claim(log).epoch == 8
    assert [facts["above"] for facts in log.claims] == [7]


# --- a container that had an owner ----------------------------------------------------------------


@pytest.mark.parametrize("takeover", [False, True])
def test_a_claim_continues_with_lineage_and_journal(life: Life, takeover: bool) -> None:
    bucket, lineage, frames, epoch = life
    log = log_of(life)
    claimed = Boot(copied(bucket)).claim(log, takeover=takeover)
    assert log.claims == [
        {
            "lineage": lineage,
            "new": False,
            "above": epoch,
            "takeover": takeover,
            "owner": "me",
        }
    ]
    assert (claimed.epoch, claimed.dropped_tail) == (epoch + 1, 77)
    assert (claimed.log_first, claimed.log_end) == (frames[0].index, frames[-1].index + 1)
    assert claimed.boot_state.lineage == lineage
    assert claimed.boot_state.journal_state is not None
    assert claimed.boot_state.journal_state.epoch == epoch
    assert claimed.boot_state.table_end > 0
    assert log.closed == log.opened > 0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda log: setattr(log, "known", OTHER), "of another lineage"),
        (lambda log: setattr(log, "known", None), "the log is empty"),
        (lambda log: setattr(log, "newest", 0), "not claimed by the owner"),
        (lambda log: log.frames.clear(), "the log ends before an index"),
        (
            lambda log: log.frames.__setitem__(
                slice(None), [replace(log.frames[-1], index=log.frames[-1].index + 1)]
            ),
            "begins after what is needed",
        ),
    ],
)
def test_a_log_that_is_surely_lost_is_refused_before_it_is_claimed(
    life: Life, change: Callable[[ScriptedLog], None], reason: str
) -> None:
    log = log_of(life)
    change(log)
    with pytest.raises(LogLostError, match=reason):
        Boot(copied(life[0])).claim(log)
    assert log.claims == []
    assert log.closed == log.opened > 0


def acknowledged(life: Life) -> int:
    """The newest index that the journal states."""
    journal_state = Boot(copied(life[0])).claim(log_of(life)).boot_state.journal_state
    assert journal_state is not None
    return journal_state.newest_index


def test_before_the_claim_one_frame_may_be_missing_and_not_two(life: Life) -> None:
    """The newest frame is shown once its durability no longer depends on its writer."""
    newest = acknowledged(life)
    log, whole = log_of(life), list(life[2])
    log.frames = [each for each in whole if each.index < newest]
    log.at_claim = lambda: log.frames.append(whole[newest - whole[0].index])
    assert Boot(copied(life[0])).claim(log).log_end == newest + 1
    log = log_of(life)
    log.frames = [each for each in whole if each.index < newest - 1]
    with pytest.raises(LogLostError, match="ends before an index"):
        Boot(copied(life[0])).claim(log)
    assert log.claims == []


def test_a_log_that_turns_out_older_with_the_claim_is_refused(life: Life) -> None:
    newest = acknowledged(life)
    log = log_of(life)

    def voided() -> None:
        log.frames = [each for each in log.frames if each.index < newest]

    log.at_claim = voided
    with pytest.raises(LogLostError, match="ends before an index"):
        Boot(copied(life[0])).claim(log)
    assert len(log.claims) == 1


def test_the_journal_is_read_again_after_the_claim(life: Life) -> None:
    boot, log = Boot(copied(life[0])), log_of(life)
    log.at_claim = boot.forget_the_journal
    with pytest.raises(LogLostError, match="the journal is gone"):
        boot.claim(log)


def test_a_journal_that_a_newer_owner_deleted_is_no_loss(life: Life) -> None:
    boot, log = Boot(copied(life[0])), log_of(life)

    def overtaken() -> None:
        boot.forget_the_journal()
        log.newest += 1

    log.at_claim = overtaken
    with pytest.raises(FencedError, match="a newer epoch owns the log"):
        boot.claim(log)


def test_another_first_owner_meanwhile_is_noticed(life: Life) -> None:
    boot, log = Boot(), ScriptedLog(epoch=life[3])

    def overtaken() -> None:
        source = MemoryChunkStorage(life[0])
        for stat in source.list(""):
            data = bytearray(stat.length)
            source.read_into(stat.name, 0, data)
            boot.storage.create(stat.name, [data])

    log.at_claim = overtaken
    with pytest.raises(LogLostError, match="another first owner"):
        boot.claim(log)


def test_a_lost_log_is_called_so_even_when_it_is_truncated_meanwhile(life: Life) -> None:
    log = log_of(life)
    log.newest, log.truncated = 0, 1
    with pytest.raises(LogLostError, match="not claimed by the owner"):
        Boot(copied(life[0])).claim(log)
    assert log.truncated == 0


@pytest.mark.parametrize("newest", [2, 3])
def test_frames_of_a_newer_owner_end_a_boot_and_those_of_its_own_do_not(
    life: Life, newest: int
) -> None:
    """Its own pass on to the next check, which finds them in the place of acknowledged ones."""
    boot, log = Boot(copied(life[0])), log_of(life)
    claimed = boot.claim(log)
    assert claimed.epoch == 2
    log.frames = [*log.frames[:3], *(replace(each, epoch=newest) for each in log.frames[3:])]

    async def replayed(storage: AsyncChunkStorage) -> None:
        await replay(
            claimed,
            cast(FencedLog, log),
            storage,
            boot.environment,
            ContainerSettings(),
            cast(Any, None),
            NO_THRESHOLDS,
        )

    told = "another frame at an index" if newest == 2 else "a newer epoch owns the log epoch=3$"
    with pytest.raises(LogLostError if newest == 2 else FencedError, match=told):
        boot.run(replayed)


# --- reading the log ------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [0, 1, 5])
def test_frames_are_read_again_when_they_were_truncated_meanwhile(times: int) -> None:
    log = ScriptedLog(frame(3), frame(4))
    log.truncated = times
    boot = Boot()
    boot_state = BootState(lineage=LINEAGE, journal_state=None)
    found = boot.run(lambda _: scan_log(cast(FencedLog, log), boot_state, boot.environment))
    assert (found.first, found.newest) == (3, 4)


def test_a_log_that_is_truncated_under_every_read_is_given_up() -> None:
    log = ScriptedLog(frame(3))
    log.truncated = 6
    boot = Boot()
    boot_state = BootState(lineage=LINEAGE, journal_state=None)
    with pytest.raises(LogTruncatedError):
        boot.run(lambda _: scan_log(cast(FencedLog, log), boot_state, boot.environment))
    assert log.truncated == 0
