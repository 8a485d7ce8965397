"""Checks of a tier-1 log: claims, the fence, lineages."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

import pytest

from siltstone.core.errors import (
    FencedError,
    LogError,
    LogLostError,
    StoreInUseError,
)
from siltstone.testing.log_checks.subject import (
    LINEAGE,
    OTHER_LINEAGE,
    LogCase,
    put,
)


class ClaimChecks(LogCase):
    """Taking the log, and the fence."""

    def test_an_epoch_is_above_what_was_asked_and_what_was_there(self) -> None:
        log = self.create(above=41)
        assert log.epoch == log.newest_epoch()
        assert log.epoch > 41
        self.crash(log)
        assert self.claim().epoch > log.epoch

    def test_epochs_grow_with_every_claim(self) -> None:
        self.crash(self.create())
        epochs = []
        for _ in range(5):
            log = self.claim()
            epochs.append(log.epoch)
            self.crash(log)
        assert epochs == sorted(set(epochs))

    def test_a_handle_has_no_epoch_before_its_claim(self) -> None:
        assert self.handle().epoch == 0
        assert self.handle().newest_epoch() == 0

    def test_a_claim_reads_everything_acknowledged(self) -> None:
        log = self.create()
        put(log, b"a", b"b")
        self.crash(log)
        after = self.claim()
        assert (after.first(), after.end()) == (0, 2)
        assert [frame.body for frame in after.read(0)] == [b"a", b"b"]
        assert put(after, b"c") == [2]

    def test_many_reopenings_keep_every_frame(self) -> None:
        log = self.create()
        for n in range(8):
            put(log, b"%d" % n)
            if n % 2:
                log.close()
            else:
                self.crash(log)
            log = self.claim()
        assert self.bodies() == [b"%d" % n for n in range(8)]

    def test_reopenings_without_an_append_keep_every_frame(self) -> None:
        log = self.create()
        put(log, b"a", b"b")
        for _ in range(4):
            self.crash(log)
            log = self.claim()
        assert put(log, b"c") == [2]
        assert self.bodies() == [b"a", b"b", b"c"]

    def test_an_older_owner_is_fenced_and_its_frame_is_never_read(self) -> None:
        old = self.create()
        put(old, b"a")
        new = self.claim(takeover=True)
        with pytest.raises(FencedError):
            put(old, b"void")
        put(new, b"b")
        assert self.bodies() == [b"a", b"b"]

    def test_a_fenced_frame_stays_void_when_nobody_appended_before_the_next_claim(self) -> None:
        old = self.create()
        put(old, b"a")
        between = self.claim(takeover=True)
        with pytest.raises(FencedError):
            put(old, b"void")
        self.crash(between)
        last = self.claim(takeover=True)
        put(last, b"b")
        assert self.bodies() == [b"a", b"b"]

    def test_a_fenced_owner_does_not_truncate(self) -> None:
        old = self.create()
        end = self.fill(old)
        self.claim(takeover=True)
        with pytest.raises(LogError):
            old.truncate(end)
        assert self.reader().first() == 0

    def test_a_fenced_owner_knows_from_the_newest_epoch(self) -> None:
        old = self.create()
        assert old.newest_epoch() == old.epoch
        new = self.claim(takeover=True)
        assert old.newest_epoch() == new.epoch > old.epoch

    def test_two_takeovers_leave_the_last_owner(self) -> None:
        first = self.create()
        second = self.claim(takeover=True)
        third = self.claim(takeover=True)
        for log in (first, second):
            with pytest.raises(FencedError):
                put(log, b"void")
        assert put(third, b"a") == [0]
        assert self.bodies() == [b"a"]

    def test_a_polite_claim_is_refused_beside_a_live_holder(self) -> None:
        log = self.create()
        put(log, b"a")
        with pytest.raises(StoreInUseError) as caught:
            self.claim()
        assert caught.value.owner == "first"
        assert put(log, b"b") == [1]

    def test_a_polite_claim_is_refused_after_a_takeover(self) -> None:
        old = self.create()
        new = self.claim(takeover=True, owner="second")
        self.crash(old)
        with pytest.raises(StoreInUseError) as caught:
            self.claim()
        assert caught.value.owner == "second"
        put(new, b"a")

    def test_a_refused_claim_may_be_repeated(self) -> None:
        log = self.create()
        other = self.handle()
        with pytest.raises(StoreInUseError):
            other.claim(lineage=LINEAGE, new=False, above=0, takeover=False, owner="b")
        log.close()
        other.claim(lineage=LINEAGE, new=False, above=0, takeover=False, owner="b")
        put(other, b"a")

    def test_a_polite_claim_follows_a_close_and_a_crash(self) -> None:
        self.create().close()
        self.crash(self.claim())
        self.claim()

    def test_a_handle_claims_once(self) -> None:
        log = self.create()
        with pytest.raises(LogError):
            log.claim(lineage=LINEAGE, new=False, above=0, takeover=True, owner="again")
        assert put(log, b"a") == [0]

    def test_an_unclaimed_handle_appends_nothing(self) -> None:
        put(self.create(), b"a")
        with pytest.raises(LogError):
            put(self.handle(), b"b")
        assert self.bodies() == [b"a"]

    @pytest.mark.parametrize(
        "arguments", [{"lineage": b"short"}, {"above": -1}, {"owner": "x" * 201}]
    )
    def test_impossible_arguments_are_refused(self, arguments: dict[str, object]) -> None:
        asked = {"lineage": LINEAGE, "new": True, "above": 0, "takeover": False, "owner": "a"}
        with pytest.raises(ValueError, match="claim"):
            self.handle().claim(**{**asked, **arguments})  # type: ignore[arg-type]

    def test_the_holder_is_named(self) -> None:
        log = self.create()
        held = self.handle().holder()
        assert (held.epoch, held.alive, held.description) == (log.epoch, True, "first")
        self.crash(log)
        left = self.handle().holder()
        assert (left.epoch, left.alive, left.description) == (log.epoch, False, "first")

    def test_nobody_holds_a_log_without_history(self) -> None:
        held = self.handle().holder()
        assert (held.epoch, held.alive) == (0, False)


class LineageChecks(LogCase):
    """A lost or foreign log is never taken for a healthy one."""

    def _refused(self, lineage: bytes, *, new: bool) -> None:
        before = self.handle().newest_epoch()
        with pytest.raises(LogLostError):
            self.handle().claim(lineage=lineage, new=new, above=0, takeover=True, owner="x")
        assert self.handle().newest_epoch() == before

    def test_an_empty_log_is_lost_when_a_lineage_is_expected(self) -> None:
        self._refused(LINEAGE, new=False)
        assert self.create().end() == 0

    def test_another_lineage_is_lost(self) -> None:
        log = self.create()
        put(log, b"a")
        self._refused(OTHER_LINEAGE, new=False)
        assert put(log, b"b") == [1]

    def test_a_new_container_needs_a_log_without_frames(self) -> None:
        log = self.create()
        put(log, b"a")
        self._refused(LINEAGE, new=True)
        self._refused(OTHER_LINEAGE, new=True)
        assert put(log, b"b") == [1]

    def test_a_claim_alone_keeps_its_lineage(self) -> None:
        self.crash(self.create())
        self._refused(OTHER_LINEAGE, new=False)
        assert self.claim().end() == 0

    def test_a_claim_alone_leaves_the_log_new(self) -> None:
        self.crash(self.create())
        assert self.create().end() == 0

    def test_a_reader_tells_the_lineage(self) -> None:
        assert self.reader().lineage() is None
        log = self.create()
        assert self.reader().lineage() == LINEAGE
        put(log, b"a")
        assert self.reader().lineage() == LINEAGE
