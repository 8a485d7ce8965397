"""Checks of a consensus: what is forgotten, and what a caller that fell back is told."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

import pytest

from siltstone.core.consensus import Committed, Opened, Taken, Undecided
from siltstone.core.environment import Environment
from siltstone.testing.consensus_checks.subject import (
    ID,
    Caller,
    ConsensusService,
    ConsensusSubject,
    added,
    cut,
    cut_thrice,
    linked,
)


class TruncationChecks(ConsensusSubject):
    """Truncation, and callers that know what is gone."""

    def test_a_collection_that_was_truncated_is_opened(self, client: Caller, other: Caller) -> None:
        for number in range(5):
            client.add(f"line {number}")
        cut(client)
        other.open()
        assert other.story == client.story
        assert len(client.story.rollups) == 1
        client.add("after it")
        other.refresh()
        assert other.story == client.story

    def test_a_caller_that_fell_back_opens_again(self, client: Caller, other: Caller) -> None:
        cut(client)
        progress = other.consensus.refresh(other.tip)
        assert isinstance(progress, Opened)
        other.take(progress)
        assert other.story == client.story

    def test_a_caller_that_fell_back_commits_nothing_of_its_past(
        self, client: Caller, other: Caller
    ) -> None:
        cut_thrice(client)
        result = other.attempt(added("of the past"))
        assert isinstance(result, Taken | Undecided)
        assert "of the past" not in other.story.lines
        client.refresh()
        assert client.story == other.story
        other.add("of the present")
        client.refresh()
        assert client.story.lines[-1] == "of the present"

    def test_a_caller_whose_anchor_went_may_still_commit(
        self, client: Caller, other: Caller
    ) -> None:
        cut(client)
        other.refresh()
        client.add("one more")
        assert client.link()
        client.add("and one more")
        other.refresh()
        client.truncate()
        other.add("from there")
        client.refresh()
        assert client.story == other.story

    def test_a_poll_of_a_caller_that_fell_back_is_never_wrong(
        self, client: Caller, other: Caller
    ) -> None:
        cut(client)
        progress = other.consensus.poll(other.tip)
        if progress is not None:
            other.take(progress)
            assert other.story == client.story

    def test_truncation_may_be_repeated(self, client: Caller, other: Caller) -> None:
        for number in range(3):
            client.add(f"line {number}")
            assert client.link()
        client.add("last")
        floor, rollups = client.tip.settled, client.story.rollups
        tip = client.tip
        other.refresh()
        for consensus in (client.consensus, client.consensus, other.consensus):
            consensus.truncate(tip, floor, rollups)
        client.add("after it")
        other.open()
        assert other.story == client.story
        other.consensus.truncate(tip, floor, rollups)
        client.refresh()
        assert client.story == other.story

    def test_a_truncation_that_comes_late_deletes_nothing_that_counts(
        self, client: Caller, other: Caller
    ) -> None:
        client.add("second")
        assert client.link()
        client.add("third")
        tip, floor, rollups = client.tip, client.tip.settled, client.story.rollups
        cut_thrice(client)
        other.consensus.truncate(tip, floor, rollups)
        other.open()
        assert other.story == client.story

    def test_truncation_may_stop_at_an_older_rollup(self, client: Caller, other: Caller) -> None:
        for number in range(3):
            client.add(f"line {number}")
            assert client.link()
        client.add("last")
        gone, floor, *_ = rollups = client.story.rollups
        client.consensus.truncate(client.tip, floor, rollups)
        assert other.consensus.replay(client.tip, gone) is None
        for rollup in rollups[1:]:
            replayed = other.consensus.replay(client.tip, rollup)
            assert replayed is not None
            fresh = Caller(other.consensus)
            fresh.take(replayed)
            assert fresh.story == client.story

    def test_nothing_is_truncated_that_the_newest_entry_needs(
        self, client: Caller, other: Caller
    ) -> None:
        client.add("second")
        assert client.link()
        with pytest.raises(AssertionError):
            client.consensus.truncate(client.tip, client.tip.anchor, client.story.rollups)
        with pytest.raises(AssertionError):
            client.consensus.truncate(client.tip, client.tip.settled, client.story.rollups[1:])
        other.open()
        assert other.story == client.story

    def test_the_first_diff_of_a_truncated_collection_is_not_made_again(
        self, client: Caller, other: Caller, service: ConsensusService, environment: Environment
    ) -> None:
        for _ in range(2):
            cut(client)
        late = Caller(service.open(environment))
        late.begin("another first")
        assert late.story == client.story
        other.refresh()
        assert other.story == client.story


class SweepChecks(ConsensusSubject):
    """What counts for nothing is deleted, and nothing else."""

    def test_rollups_that_were_not_linked_are_deleted(self, client: Caller, other: Caller) -> None:
        for number in range(3):
            client.consensus.put_rollup(ID, number, client.story.to_bytes())
        client.add("second")
        client.add("third")
        newest = client.consensus.put_rollup(ID, 3, client.story.to_bytes())
        assert client.link()
        assert client.sweep() == 4, "those of 0 to 2, and one of 3 that was not linked"
        assert client.sweep() == 0
        assert newest not in client.story.rollups
        other.open()
        assert other.story == client.story

    def test_a_rollup_that_may_still_be_linked_stays(self, client: Caller, other: Caller) -> None:
        client.add("second")
        rollup = client.consensus.put_rollup(ID, 2, client.story.to_bytes())
        other.refresh()
        assert other.sweep() == 0
        assert isinstance(client.attempt(linked(rollup), link=rollup), Committed)

    def test_a_sweep_by_a_caller_that_fell_back_deletes_nothing_that_counts(
        self, client: Caller, other: Caller
    ) -> None:
        for number in range(3):
            client.add(f"line {number}")
            assert client.link()
        client.add("last")
        other.sweep()
        other.open()
        assert other.story == client.story
        for rollup in client.story.rollups:
            assert other.consensus.replay(client.tip, rollup) is not None
