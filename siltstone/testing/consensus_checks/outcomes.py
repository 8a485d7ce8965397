"""Checks of a consensus on long-term storage: each call of each verb meets each fate."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from siltstone.core.consensus import Committed, Consensus
from siltstone.core.environment import Environment
from siltstone.core.errors import (
    ChunkUnavailableError,
    Outcome,
    OutcomeUnknownError,
    SiltstoneError,
)
from siltstone.testing.consensus_checks.subject import (
    Caller,
    ConsensusSubject,
    StoredConsensusService,
    added,
    cut,
    cut_thrice,
)
from siltstone.testing.faults.faulty_chunk_storage import (
    Fate,
    FaultyChunkStorage,
    all_done,
    fail_number,
)

BAD_FATES = [Fate.REFUSED, Fate.LOST_REPLY, Fate.LOST_CALL, Fate.TORN]
CALLS_MAX = 60
"""More than any one verb makes here."""

Verb = Callable[[Caller], object]

VERBS: dict[str, Verb] = {
    "add": lambda client: client.add("tried"),
    "begin": lambda client: client.begin("tried"),
    "open": Caller.open,
    "refresh": Caller.refresh,
    "link": Caller.link,
    "truncate": Caller.truncate,
    "sweep": Caller.sweep,
}
"""What a caller may be about when a call of it fails."""

MEANWHILE: dict[str, Verb] = {
    "nothing": lambda client: None,
    "a line": lambda client: client.add("meanwhile"),
    "a truncation": cut,
    "truncations": cut_thrice,
}
"""What another caller may have done since the caller last looked."""


class ConsensusOutcomeChecks(ConsensusSubject):
    """A call fails, and its caller is told the truth; others are not concerned."""

    @pytest.mark.parametrize("fate", BAD_FATES, ids=lambda fate: fate.name)
    @pytest.mark.parametrize("meanwhile", MEANWHILE)
    @pytest.mark.parametrize("verb", VERBS)
    def test_any_call_of_a_verb_may_fail(
        self,
        stored: StoredConsensusService,
        environment: Environment,
        verb: str,
        meanwhile: str,
        fate: Fate,
    ) -> None:
        for number in range(1, CALLS_MAX):
            faulty = FaultyChunkStorage(stored.storage())
            trial = Trial(stored.open(environment), stored.over(faulty, environment), number)
            trial.prepare(MEANWHILE[meanwhile])
            before, faulty.plan = len(faulty.calls), fail_number(number, fate)
            trial.run(VERBS[verb])
            calls, faulty.plan = len(faulty.calls) - before, all_done
            trial.judge()
            if calls < number:
                return
        raise AssertionError(f"more than {CALLS_MAX} calls")

    @pytest.mark.parametrize("meanwhile", list(MEANWHILE)[1:])
    @pytest.mark.parametrize("verb", VERBS)
    def test_another_caller_may_act_at_any_call_of_a_verb(
        self, stored: StoredConsensusService, environment: Environment, verb: str, meanwhile: str
    ) -> None:
        for number in range(1, CALLS_MAX):
            faulty = FaultyChunkStorage(stored.storage())
            trial = Trial(stored.open(environment), stored.over(faulty, environment), number)
            trial.prepare(MEANWHILE["nothing"])
            seen = [0]

            faulty.before = partial(_act, trial, MEANWHILE[meanwhile], seen)
            trial.run(VERBS[verb])
            calls, faulty.before = seen[0], _no_act
            assert trial.error is None, "nothing failed"
            trial.judge()
            if calls < number:
                return
        raise AssertionError(f"more than {CALLS_MAX} calls")

    @pytest.mark.parametrize("fate", BAD_FATES, ids=lambda fate: fate.name)
    def test_any_call_of_making_a_collection_may_fail(
        self, stored: StoredConsensusService, environment: Environment, fate: Fate
    ) -> None:
        for number in range(1, CALLS_MAX):
            faulty = FaultyChunkStorage(stored.storage(), fail_number(number, fate))
            trial = Trial(stored.open(environment), stored.over(faulty, environment), number)
            trial.run(VERBS["begin"])
            trial.another.begin("by another caller")
            lines = trial.another.story.lines
            assert lines in {("tried",), ("by another caller",)}
            if trial.error is None:
                assert lines == ("tried",)
            if len(faulty.calls) < number:
                return
        raise AssertionError(f"more than {CALLS_MAX} calls")

    def test_a_create_that_is_never_answered_has_an_unknown_outcome(
        self, stored: StoredConsensusService, environment: Environment, client: Caller
    ) -> None:
        faulty = FaultyChunkStorage(stored.storage())
        caller = Caller(stored.over(faulty, environment))
        caller.open()
        faulty.plan = lambda call: Fate.LOST_CALL if call.operation == "create" else Fate.DONE
        with pytest.raises(OutcomeUnknownError):
            caller.attempt(added("lost"))
        faulty.plan = lambda call: Fate.REFUSED if call.operation == "create" else Fate.DONE
        with pytest.raises(ChunkUnavailableError) as caught:
            caller.attempt(added("refused"))
        assert caught.value.outcome is Outcome.NOT_APPLIED
        client.refresh()
        assert client.story.lines == ("first",)

    @pytest.mark.parametrize("fate", BAD_FATES, ids=lambda fate: fate.name)
    def test_a_create_that_is_answered_the_second_time_is_committed_once(
        self,
        stored: StoredConsensusService,
        environment: Environment,
        client: Caller,
        fate: Fate,
    ) -> None:
        faulty = FaultyChunkStorage(stored.storage())
        caller = Caller(stored.over(faulty, environment))
        caller.open()
        faulty.plan = fail_number(1, fate, "create")
        assert isinstance(caller.attempt(added("second")), Committed)
        client.refresh()
        assert client.story.lines == ("first", "second")

    @pytest.mark.parametrize("fate", [Fate.REFUSED, Fate.LOST_CALL], ids=lambda fate: fate.name)
    def test_an_anchor_that_cannot_be_looked_at_leaves_the_outcome_unknown(
        self,
        stored: StoredConsensusService,
        environment: Environment,
        client: Caller,
        fate: Fate,
    ) -> None:
        faulty = FaultyChunkStorage(stored.storage())
        caller = Caller(stored.over(faulty, environment))
        caller.open()
        faulty.plan = lambda call: fate if call.operation == "stat" else Fate.DONE
        with pytest.raises(OutcomeUnknownError):
            caller.attempt(added("made"))
        client.refresh()
        assert client.story.lines == ("first", "made"), "it was committed, in truth"


def _act(trial: Trial, verb: Verb, seen: list[int], operation: str, name: str) -> None:
    """Let the other caller act, if it is the time."""
    seen[0] += 1
    if seen[0] == trial.number:
        trial.another.refresh()
        verb(trial.another)


def _no_act(operation: str, name: str) -> None:
    """Let no other caller act."""


class Trial:
    """One verb of one caller on a collection of its own, and whether what it says is true.

    Args:
        consensus: for the other caller; nothing of it fails.
        under_test: for the caller.
        number: makes the id of the collection.

    Attributes:
        number: the same.
        another: the other caller.
        caller: the one whose verb is looked at.
        error: what the verb raised; ``None`` if it returned.
    """

    def __init__(self, consensus: Consensus, under_test: Consensus, number: int) -> None:
        collection_id = number.to_bytes(16, "big")
        self.number = number
        self.another = Caller(consensus, collection_id)
        self.caller = Caller(under_test, collection_id)
        self.error: SiltstoneError | None = None
        self._verb: Verb | None = None

    def prepare(self, meanwhile: Verb) -> None:
        """Make the collection, and let the other caller act after the caller looked."""
        self.another.begin("first")
        self.another.add("second")
        assert self.another.link()
        self.another.add("third")
        self.caller.open()
        meanwhile(self.another)

    def run(self, verb: Verb) -> None:
        """Let the caller do it."""
        self._verb = verb
        try:
            verb(self.caller)
        except SiltstoneError as error:
            self.error = error

    def judge(self) -> None:
        """Compare what the caller was told with what a fresh one finds, now and later."""
        self._compare()
        self.caller.refresh()
        self.caller.add("after it")
        self.another.refresh()
        if self.another.link():
            self.another.add("last")
        self.another.truncate()
        self.another.sweep()
        self._compare()
        self.caller.refresh()
        assert self.caller.story == self._fresh().story

    def _compare(self) -> None:
        lines = self._fresh().story.lines
        assert lines[:3] == ("first", "second", "third")
        assert len(set(lines) - {"meanwhile"}) + lines.count("meanwhile") == len(lines)
        if self._verb is not VERBS["add"]:
            assert "tried" not in lines
        elif self.error is None:
            assert "tried" in lines
        elif self.error.outcome is Outcome.NOT_APPLIED:
            assert "tried" not in lines

    def _fresh(self) -> Caller:
        fresh = Caller(self.another.consensus, self.another.collection_id)
        fresh.open()
        return fresh
