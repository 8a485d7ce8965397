"""Checks of a tier-1 log: truncation, and reading without a claim."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

import threading

import pytest

from siltstone.core.errors import (
    ClosedError,
    LogTruncatedError,
)
from siltstone.testing.log_checks.subject import (
    JOIN_TIMEOUT_S,
    LogCase,
    put,
)


class TruncateChecks(LogCase):
    """Forgetting the beginning."""

    def test_frames_from_the_index_on_stay_readable(self) -> None:
        log = self.create()
        end = self.fill(log)
        log.truncate(end - 2)
        assert log.first() <= end - 2
        assert [frame.index for frame in log.read(end - 2)] == [end - 2, end - 1]
        assert [frame.index for frame in self.reader().read(end - 2)] == [end - 2, end - 1]

    def test_any_frame_that_is_kept_can_be_asked_for_in_any_order(self) -> None:
        """Readers of containers fetch in this way the bytes that they left in the log."""
        log = self.create()
        end = self.fill(log)
        log.truncate(end // 2)
        reader = self.reader()
        first = reader.first()
        known = {frame.index: frame for frame in reader.read(first)}
        assert list(known) == list(range(first, end))
        indexes = list(known)
        for index in [*reversed(indexes), *indexes[::3], *indexes]:
            frames = reader.read(index)
            assert next(frames) == known[index]
            if index + 1 < end:
                assert next(frames) == known[index + 1]
        put(log, b"one more")
        assert next(reader.read(end)).body == b"one more"
        assert next(reader.read(first)) == known[first]

    def test_several_threads_read_a_log_at_the_same_time(self) -> None:
        log = self.create()
        end = self.fill(log)
        reader = self.reader()
        first = reader.first()
        expected = list(reader.read(first))
        wrong: list[int] = []

        def look(step: int) -> None:
            indexes = range(first, end, step)
            found = [next(reader.read(index)) for index in indexes]
            wrong.extend(index for index in indexes if found.pop(0) != expected[index - first])

        threads = [threading.Thread(target=look, args=(step,)) for step in (1, 2, 3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(JOIN_TIMEOUT_S)
        assert not wrong

    def test_room_is_freed(self) -> None:
        log = self.create()
        log.truncate(self.fill(log))
        assert log.first() > 0
        assert self.reader().first() == log.first()

    def test_what_is_below_the_first_index_is_said_to_be_truncated(self) -> None:
        log = self.create()
        log.truncate(self.fill(log))
        for reading in (log, self.reader()):
            with pytest.raises(LogTruncatedError) as caught:
                reading.read(log.first() - 1)
            assert caught.value.first == log.first()

    def test_first_and_end_survive(self) -> None:
        log = self.create()
        end = self.fill(log)
        log.truncate(end - 1)
        first = log.first()
        self.crash(log)
        after = self.claim()
        assert (after.first(), after.end()) == (first, end)
        assert put(after, b"next") == [end]

    def test_the_end_survives_when_everything_is_truncated(self) -> None:
        log = self.create()
        end = self.fill(log)
        log.truncate(end)
        for _ in range(3):
            # Each claim leaves what is older without a frame that counts.
            self.crash(log)
            log = self.claim()
            log.truncate(end)
        assert (log.end(), self.reader().end()) == (end, end)
        assert put(log, b"next") == [end]
        assert self.bodies(end) == [b"next"]

    def test_the_checksum_goes_on_when_everything_is_truncated(self) -> None:
        log = self.create()
        self.fill(log)
        last = self.frames()[-1]
        self.crash(log)
        log = self.claim()
        log.truncate(log.end())
        put(log, b"next")
        assert self.frames()[-1].previous_crc == last.crc

    def test_truncating_twice_and_below_the_first_index_changes_nothing(self) -> None:
        log = self.create()
        log.truncate(self.fill(log))
        first = log.first()
        log.truncate(first)
        log.truncate(0)
        assert log.first() == first

    def test_truncating_beyond_the_end_is_refused(self) -> None:
        log = self.create()
        put(log, b"a")
        with pytest.raises(ValueError, match="beyond"):
            log.truncate(2)
        assert put(log, b"b") == [1]

    def test_appends_go_on(self) -> None:
        log = self.create()
        for _ in range(3):
            log.truncate(self.fill(log))
        end = log.end()
        assert [frame.index for frame in log.read(log.first())] == list(range(log.first(), end))


class ReaderChecks(LogCase):
    """Reading without a claim."""

    def test_a_log_without_history_is_empty(self) -> None:
        reader = self.reader()
        assert (reader.epoch(), reader.first(), reader.end()) == (0, 0, 0)
        assert list(reader.read(0)) == []
        assert reader.dropped_tail() == 0

    def test_a_reader_fences_nobody(self) -> None:
        log = self.create()
        put(log, b"a")
        assert self.reader().end() == 1
        assert self.reader().epoch() == log.epoch
        assert put(log, b"b") == [1]

    def test_a_reader_follows(self) -> None:
        log = self.create()
        reader = self.reader()
        seen: list[bytes] = []
        for n in range(20):
            put(log, b"%d" % n)
            seen += [frame.body for frame in reader.read(len(seen))]
        assert seen == [b"%d" % n for n in range(20)]

    def test_a_reader_follows_across_claims(self) -> None:
        log = self.create()
        reader = self.reader()
        put(log, b"a")
        assert reader.end() == 1
        log = self.claim(takeover=True)
        put(log, b"b")
        assert [frame.body for frame in reader.read(0)] == [b"a", b"b"]
        assert reader.epoch() == log.epoch

    def test_what_a_reader_showed_does_not_vanish(self) -> None:
        log = self.create()
        put(log, b"a", b"b")
        shown = self.bodies()
        for _ in range(3):
            log = self.claim(takeover=True)
            assert self.bodies()[: len(shown)] == shown
        put(log, b"c")
        assert self.bodies() == [*shown, b"c"]

    def test_a_reader_reads_while_the_owner_appends(self) -> None:
        log = self.create()
        bodies = [b"%d" % n * 20 for n in range(200)]
        thread = threading.Thread(target=put, args=(log, *bodies))
        thread.start()
        reader = self.reader()
        seen: list[bytes] = []
        while thread.is_alive():
            seen += [frame.body for frame in reader.read(len(seen))]
            assert seen == bodies[: len(seen)]
        thread.join(JOIN_TIMEOUT_S)
        assert self.bodies() == bodies

    def test_a_closed_reader_reads_nothing(self) -> None:
        put(self.create(), b"a")
        reader = self.reader()
        reader.close()
        reader.close()
        with pytest.raises(ClosedError):
            reader.end()
        with pytest.raises(ClosedError):
            reader.read(0)
