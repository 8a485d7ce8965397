"""Checks of a consensus: the first diff, commits, and what others see of them."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

from dataclasses import replace

import pytest

from siltstone.core.consensus import Committed, Taken
from siltstone.core.environment import Environment
from siltstone.core.records.collection_entry import Diff
from siltstone.testing.consensus_checks.subject import (
    ID,
    Caller,
    ConsensusService,
    ConsensusSubject,
    Story,
    added,
    followed,
    linked,
)

LARGE_BYTES = 1 << 20
"""What may be inline in a state."""


class BeginChecks(ConsensusSubject):
    """The first diff."""

    def test_nothing_is_there_before_the_first_diff(
        self, service: ConsensusService, environment: Environment
    ) -> None:
        consensus = service.open(environment)
        assert consensus.open(ID) is None
        assert list(consensus.keys()) == []
        consensus.put_rollup(ID, 0, b"a state that nothing names")
        assert consensus.open(ID) is None
        assert list(consensus.keys()) == []

    def test_the_first_diff_is_seen_by_others(self, client: Caller, other: Caller) -> None:
        assert other.story == client.story
        assert other.story.lines == ("first",)
        assert other.tip.seqno == 1

    def test_a_collection_is_begun_once(self, client: Caller, other: Caller) -> None:
        other.begin("another first")
        assert other.story.lines == ("first",)
        assert other.story.rollups == client.story.rollups

    def test_a_collection_that_grew_is_not_begun_again(self, client: Caller, other: Caller) -> None:
        client.add("second")
        other.begin("another first")
        assert other.story.lines == ("first", "second")

    def test_keys_are_in_the_order_of_their_bytes(
        self, service: ConsensusService, environment: Environment
    ) -> None:
        consensus = service.open(environment)
        keys = [bytes(16), bytes(15) + b"\x01", ID, b"\xc0" * 16, b"\xff" * 16]
        for key in (keys[3], keys[0], keys[4], keys[2], keys[1]):
            Caller(consensus, key).begin(f"first of {key.hex()}")
        assert list(consensus.keys()) == keys

    def test_collections_know_nothing_of_one_another(
        self, service: ConsensusService, environment: Environment, client: Caller
    ) -> None:
        neighbor = Caller(service.open(environment), ID[:-1] + b"\x10")
        neighbor.begin("of a neighbor")
        client.add("second")
        neighbor.refresh()
        assert neighbor.story.lines == ("of a neighbor",)


class CommitChecks(ConsensusSubject):
    """Adding diffs, and following them."""

    def test_a_commit_is_seen_by_others(self, client: Caller, other: Caller) -> None:
        client.add("second")
        other.refresh()
        assert other.story == client.story
        assert other.story.lines == ("first", "second")

    def test_the_diff_comes_back_with_a_token_of_the_consensus(self, client: Caller) -> None:
        tip = client.tip
        diff = Diff(seqno=2, token=0, written_ms=2, actor="me", changes=(added("x"), added("y")))
        results = [client.consensus.commit(tip, diff), client.consensus.commit(tip, diff)]
        assert isinstance(results[0], Committed)
        assert isinstance(results[1], Taken), "the same diff again is another one"
        (found,) = followed(results[0].progress).diffs
        assert replace(found, token=0) == diff
        assert found.token != 0

    def test_a_seqno_is_given_once(self, client: Caller, other: Caller) -> None:
        client.add("second")
        result = other.attempt(added("another second"))
        assert isinstance(result, Taken)
        assert other.story.lines == ("first", "second")
        other.add("third")
        client.refresh()
        assert client.story.lines == ("first", "second", "third")

    def test_a_refresh_without_news_says_so(self, client: Caller, other: Caller) -> None:
        progress = followed(other.consensus.refresh(other.tip))
        assert (progress.tip, progress.diffs) == (other.tip, ())

    def test_a_poll_sees_news(self, client: Caller, other: Caller) -> None:
        assert other.consensus.poll(other.tip) is None
        client.add("second")
        progress = other.consensus.poll(other.tip)
        assert progress is not None
        other.take(progress)
        assert other.story == client.story

    @pytest.mark.parametrize("count", [1, 3, 4, 5, 6, 20])
    def test_a_refresh_takes_all_that_is_new(
        self, client: Caller, other: Caller, count: int
    ) -> None:
        for number in range(count):
            client.add(f"line {number}")
        other.refresh()
        assert other.story == client.story

    def test_diffs_that_no_entry_repeats_all_of_come_in_order(
        self, client: Caller, other: Caller, service: ConsensusService, environment: Environment
    ) -> None:
        for number in range(12):
            client.add(f"{number} " + "x" * 20_000)
        third = Caller(service.open(environment))
        third.open()
        other.refresh()
        assert third.story == other.story == client.story

    def test_a_large_diff_is_kept(self, client: Caller, other: Caller) -> None:
        client.add("x" * LARGE_BYTES)
        client.add("small")
        other.refresh()
        assert other.story == client.story

    def test_a_diff_may_change_nothing(self, client: Caller, other: Caller) -> None:
        assert isinstance(client.attempt(), Committed)
        other.refresh()
        assert (other.tip.seqno, other.story.lines) == (2, ("first",))

    @pytest.mark.parametrize(("seqno", "written_ms"), [(1, 2), (3, 2), (2, 1), (2, 0)])
    def test_a_diff_that_does_not_follow_its_tip_is_refused(
        self, client: Caller, other: Caller, seqno: int, written_ms: int
    ) -> None:
        diff = Diff(seqno=seqno, token=0, written_ms=written_ms, actor="me", changes=())
        with pytest.raises(AssertionError):
            client.consensus.commit(client.tip, diff)
        assert followed(other.consensus.refresh(other.tip)).diffs == ()


class LinkChecks(ConsensusSubject):
    """Rollups that are linked."""

    def test_a_collection_is_opened_from_its_newest_rollup(
        self, client: Caller, other: Caller
    ) -> None:
        for number in range(5):
            client.add(f"line {number}")
        assert client.link()
        client.add("after it")
        opened = other.consensus.open(ID)
        assert opened is not None
        assert opened.rollup == opened.tip.anchor == opened.tip.settled == client.tip.anchor
        assert [diff.seqno for diff in opened.diffs] == [7, 8]
        other.take(opened)
        assert other.story == client.story

    def test_an_entry_is_not_proved_by_the_rollup_that_it_links(
        self, client: Caller, other: Caller
    ) -> None:
        client.add("second")
        first = client.tip.anchor
        assert client.link()
        opened = other.consensus.open(ID)
        assert opened is not None
        assert (opened.tip.settled, opened.tip.anchor) == (first, client.tip.anchor)
        assert opened.rollup == first

    def test_a_rollup_that_was_not_linked_is_not_used(self, client: Caller, other: Caller) -> None:
        client.add("second")
        client.consensus.put_rollup(ID, 2, Story(seqno=2, written_ms=2).to_bytes())
        other.open()
        assert other.story == client.story

    def test_a_rollup_of_which_the_link_was_lost_is_not_used(
        self, client: Caller, other: Caller
    ) -> None:
        client.add("second")
        other.add("third")
        assert not client.link()
        client.refresh()
        assert client.story == other.story

    def test_every_rollup_that_is_named_can_be_replayed(
        self, client: Caller, other: Caller
    ) -> None:
        for number in range(4):
            client.add(f"line {number}")
            assert client.link()
        assert len(client.story.rollups) == 5
        for rollup in client.story.rollups:
            replayed = other.consensus.replay(client.tip, rollup)
            assert replayed is not None
            assert replayed.rollup == rollup
            assert len(replayed.diffs) == client.tip.seqno - rollup.seqno
            fresh = Caller(other.consensus)
            fresh.take(replayed)
            assert fresh.story == client.story

    def test_a_rollup_that_is_not_newer_is_refused(self, client: Caller) -> None:
        client.add("second")
        assert client.link()
        old = client.tip.anchor
        diff = Diff(seqno=4, token=0, written_ms=4, actor="me", changes=(linked(old),))
        with pytest.raises(AssertionError):
            client.consensus.commit(client.tip, diff, old)
