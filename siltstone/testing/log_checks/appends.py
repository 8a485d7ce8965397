"""Checks of a tier-1 log: appending, reading back, the end of a handle."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress

import pytest

from siltstone.core.constants import FRAME_BYTES_MAX, KIB, Buffer
from siltstone.core.errors import (
    ClosedError,
    FencedError,
    LogError,
)
from siltstone.core.records.frame import (
    HEADER_BYTES,
    KIND_BATCH,
    KIND_END,
    OVERHEAD_BYTES,
)
from siltstone.testing.log_checks.subject import (
    JOIN_TIMEOUT_S,
    LINEAGE,
    LogCase,
    put,
)


class AppendChecks(LogCase):
    """Appending and reading back."""

    def test_indexes_are_dense_from_zero(self) -> None:
        log = self.create()
        assert put(log, b"a", b"b", b"c") == [0, 1, 2]
        assert log.end() == 3

    def test_frames_are_read_back_by_another_handle(self) -> None:
        put(self.create(), b"a", b"bb", b"")
        assert self.bodies() == [b"a", b"bb", b""]

    def test_frames_are_read_back_by_the_owner(self) -> None:
        log = self.create()
        put(log, b"a", b"b", b"c")
        assert [frame.body for frame in log.read(1)] == [b"b", b"c"]

    def test_nothing_is_read_from_the_end(self) -> None:
        log = self.create()
        put(log, b"a")
        assert list(log.read(1)) == []
        assert list(self.reader().read(1)) == []

    def test_frames_appended_after_a_read_began_are_not_part_of_it(self) -> None:
        log = self.create()
        put(log, b"a", b"b")
        frames = log.read(0)
        put(log, b"c")
        assert [frame.body for frame in frames] == [b"a", b"b"]

    def test_every_frame_names_the_one_before_it(self) -> None:
        log = self.create()
        put(log, b"a", b"b")
        self.crash(log)
        put(self.claim(), b"c")
        frames = self.frames()
        assert frames[0].previous_crc == 0
        assert [frame.previous_crc for frame in frames[1:]] == [frame.crc for frame in frames[:-1]]

    def test_lineage_epoch_and_count_are_kept(self) -> None:
        log = self.create()
        log.append([b"abc"], count=7)
        (frame,) = self.frames()
        assert (frame.lineage, frame.epoch, frame.count) == (LINEAGE, log.epoch, 7)

    def test_a_body_may_come_in_many_buffers_of_any_kind(self) -> None:
        parts: list[Buffer] = [
            b"a",
            bytearray(b"b"),
            memoryview(b"xcx")[1:2],
            b"",
            memoryview(b"d"),
        ]
        log = self.create()
        log.append(parts, count=5)
        log.append([bytes([n % 256]) for n in range(5000)], count=5000)
        assert self.bodies() == [b"abcd", bytes(n % 256 for n in range(5000))]

    def test_a_body_may_be_empty(self) -> None:
        self.create().append([], count=0)
        assert self.bodies() == [b""]

    def test_buffers_are_not_kept(self) -> None:
        buffer = bytearray(b"before")
        log = self.create()
        log.append([buffer], count=1)
        buffer[:] = b"after!"
        buffer.extend(b"a kept view would forbid this")
        assert self.bodies() == [b"before"]

    def test_the_largest_frame_fits(self) -> None:
        log = self.create()
        body = bytes(range(256)) * (log.frame_bytes_max // 256 + 1)
        body = body[: log.frame_bytes_max - OVERHEAD_BYTES]
        put(log, b"small", body, b"after")
        assert self.bodies() == [b"small", body, b"after"]

    def test_a_frame_over_the_limit_is_refused_and_nothing_is_written(self) -> None:
        log = self.create()
        assert log.frame_bytes_max <= FRAME_BYTES_MAX
        with pytest.raises(ValueError, match="exceeds"):
            put(log, bytes(log.frame_bytes_max - OVERHEAD_BYTES + 1))
        assert put(log, b"next") == [0]
        assert self.bodies() == [b"next"]

    def test_what_is_no_buffer_is_refused_and_nothing_is_written(self) -> None:
        log = self.create()
        wrong: Sequence[Buffer] = ["text"]  # type: ignore[list-item]
        with pytest.raises((TypeError, ValueError)):
            log.append(wrong, count=1)
        assert put(log, b"next") == [0]

    def test_many_frames_keep_their_order(self) -> None:
        log = self.create()
        bodies = [b"%d" % n * (n % 50) for n in range(300)]
        put(log, *bodies)
        assert self.bodies() == bodies
        assert self.bodies(250) == bodies[250:]

    def test_frames_of_the_reserve_are_frames_like_any(self) -> None:
        log = self.create()
        log.append([b"a"], count=1, reserve=True)
        put(log, b"b")
        assert self.bodies() == [b"a", b"b"]

    def test_bodies_that_look_like_frames_are_only_bytes(self) -> None:
        log = self.create()
        put(log, b"SLTF" * 50, b"x" * (HEADER_BYTES - 4) + b"SLTF")
        self.crash(log)
        self.claim()
        assert self.bodies() == [b"SLTF" * 50, b"x" * (HEADER_BYTES - 4) + b"SLTF"]


class EndChecks(LogCase):
    """Closing, poison and concurrency."""

    def test_a_clean_close_appends_an_end_frame(self) -> None:
        log = self.create()
        put(log, b"a")
        log.close()
        frames = self.frames()
        assert [frame.kind for frame in frames] == [KIND_BATCH, KIND_END]
        assert (frames[1].index, frames[1].count, frames[1].body) == (1, 0, b"")

    def test_a_crash_leaves_no_end_frame(self) -> None:
        log = self.create()
        put(log, b"a")
        self.crash(log)
        assert [frame.kind for frame in self.frames()] == [KIND_BATCH]

    def test_an_owner_that_was_fenced_closes_without_a_frame(self) -> None:
        old = self.create()
        put(old, b"a")
        new = self.claim(takeover=True)
        old.close()
        assert put(new, b"b") == [1]
        assert [frame.kind for frame in self.frames()] == [KIND_BATCH, KIND_BATCH]

    def test_the_next_owner_continues_behind_the_end_frame(self) -> None:
        log = self.create()
        put(log, b"a")
        log.close()
        after = self.claim()
        assert after.dropped_tail() == 0
        assert put(after, b"b") == [2]

    def test_close_is_idempotent_and_final(self) -> None:
        log = self.create()
        put(log, b"a")
        log.close()
        log.close()
        for call in (log.end, log.first, lambda: put(log, b"b"), lambda: log.read(0)):
            with pytest.raises(ClosedError):
                call()
        assert self.bodies() == [b"a"]

    def test_closing_an_unclaimed_handle_writes_nothing(self) -> None:
        self.handle().close()
        assert self.reader().end() == 0
        assert self.handle().newest_epoch() == 0

    def test_a_fenced_handle_is_poisoned_for_ever(self) -> None:
        old = self.create()
        self.crash(self.claim(takeover=True))
        with pytest.raises(FencedError):
            put(old, b"void")
        for call in (old.end, old.first, lambda: put(old, b"b"), lambda: old.truncate(0)):
            with pytest.raises(LogError):
                call()
        assert old.newest_epoch() > old.epoch, "a poisoned handle says that it is fenced"

    def test_appends_of_many_threads_are_whole_and_dense(self) -> None:
        log = self.create()
        indexes: list[int] = []

        def work(letter: bytes) -> None:
            indexes.extend(put(log, *[letter * 100] * 20))

        threads = [threading.Thread(target=work, args=(bytes([65 + n]),)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(JOIN_TIMEOUT_S)
        assert sorted(indexes) == list(range(80))
        bodies = self.bodies()
        assert sorted(bodies) == sorted(bytes([65 + n]) * 100 for n in range(4) for _ in range(20))

    def test_a_claim_among_appends_keeps_what_was_acknowledged_and_nothing_else(self) -> None:
        old = self.create()
        acknowledged: list[int] = []
        begun = threading.Event()

        def work() -> None:
            with suppress(FencedError):
                while True:
                    acknowledged.append(old.append([b"%d" % len(acknowledged)], count=1))
                    begun.set()

        thread = threading.Thread(target=work)
        thread.start()
        assert begun.wait(JOIN_TIMEOUT_S)
        new = self.claim(takeover=True)
        end = new.end()
        thread.join(JOIN_TIMEOUT_S)
        assert not thread.is_alive()
        # The frame in flight is before the claim, and was read by it, or void.
        assert len(acknowledged) <= end <= len(acknowledged) + 1
        put(new, b"new")
        assert self.bodies() == [*(b"%d" % n for n in range(end)), b"new"]

    def test_large_frames_go_through_claims(self) -> None:
        log = self.create()
        bodies = [bytes([n]) * min(3000 * KIB, log.frame_bytes_max - KIB) for n in range(3)]
        for body in bodies:
            put(log, body)
            self.crash(log)
            log = self.claim()
        assert self.bodies() == bodies
