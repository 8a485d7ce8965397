"""Random runs of a few callers next to a model, which is a list of what was said to be committed.

Needs the package ``hypothesis``, which comes with the extra ``testing``.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import count

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from siltstone.core.consensus import Committed, Consensus
from siltstone.core.errors import OutcomeUnknownError
from siltstone.testing.consensus_checks.late_creates import HeldCreates
from siltstone.testing.consensus_checks.subject import (
    Caller,
    ConsensusService,
    QuickEnvironment,
    StoredConsensusService,
    Story,
    added,
)

STEPS = 40
CALLERS = 3

callers = st.integers(0, CALLERS - 1)


class ConsensusMachine(RuleBasedStateMachine):
    """Callers that know more or less of one collection; the model knows what each line's fate is.

    What is compared: a line that was committed is there once, in the order of the commits; one that
    was not is never there; one of unknown fate may be there, and then stays. Every state that any
    caller gets is the beginning of every later one (``Caller.take`` and ``_look``).
    """

    def __init__(self, service: ConsensusService, collection_id: bytes) -> None:
        super().__init__()
        self.environment = QuickEnvironment()
        self.held: list[HeldCreates] = []
        self.fresh = service.open(self.environment)
        self.collection_id = collection_id
        self.callers = [Caller(self._consensus(service), collection_id) for _ in range(CALLERS)]
        for caller in self.callers:
            caller.begin("first")
        self.committed = ["first"]
        self.unknown: set[str] = set()
        self.lines = count()
        self.seen = Story()

    @rule(caller=callers)
    def add(self, caller: int) -> None:
        """A line is added if its caller is told so."""
        line = f"line {next(self.lines)}"
        result = self.callers[caller].attempt(added(line))
        if isinstance(result, Committed):
            self.committed.append(line)
        else:
            assert line not in self.callers[caller].story.lines
        self._look()

    @rule(caller=callers)
    def add_unheard(self, caller: int) -> None:
        """A line is on its way, and its caller gives it up."""
        if not self.held:
            return
        line = f"line {next(self.lines)}"
        self.held[caller].is_holding = True
        with suppress(OutcomeUnknownError):
            result = self.callers[caller].attempt(added(line))
            raise AssertionError(f"a create that is held back came to {result}")
        self.held[caller].is_holding = False
        self.unknown.add(line)

    @rule(caller=callers)
    def link_unheard(self, caller: int) -> None:
        """A link is on its way, and its caller gives it up."""
        if not self.held:
            return
        self.held[caller].is_holding = True
        with suppress(OutcomeUnknownError):
            self.callers[caller].link()
        self.held[caller].is_holding = False

    @rule(caller=callers)
    def land(self, caller: int) -> None:
        """What is on its way arrives."""
        if self.held:
            self.held[caller].land()
            self._look()

    @rule(caller=callers)
    def refresh(self, caller: int) -> None:
        """A caller that refreshes knows all."""
        self.callers[caller].refresh()
        self._look()
        assert self.callers[caller].story == self.seen

    @rule(caller=callers)
    def poll(self, caller: int) -> None:
        """A caller that polls may learn something."""
        progress = self.callers[caller].consensus.poll(self.callers[caller].tip)
        if progress is not None:
            self.callers[caller].take(progress)

    @rule(caller=callers)
    def link(self, caller: int) -> None:
        """A rollup."""
        self.callers[caller].link()
        self._look()

    @rule(caller=callers)
    def truncate(self, caller: int) -> None:
        """A truncation, by a caller that may know little."""
        self.callers[caller].truncate()
        self._look()

    @rule(caller=callers)
    def truncate_in_part(self, caller: int) -> None:
        """A truncation whose caller dies before it says so in the state."""
        known = self.callers[caller]
        known.consensus.truncate(known.tip, known.tip.settled, known.story.rollups)
        self._look()

    @rule(caller=callers)
    def sweep(self, caller: int) -> None:
        """A sweep, by a caller that may know little."""
        self.callers[caller].sweep()
        self._look()

    @rule(caller=callers)
    def replay(self, caller: int) -> None:
        """The state at the caller's tip, from the oldest rollup that it knows of."""
        known = self.callers[caller]
        replayed = known.consensus.replay(known.tip, known.story.rollups[0])
        if replayed is not None:
            fresh = Caller(known.consensus, self.collection_id)
            fresh.take(replayed)
            assert fresh.story == known.story

    @rule(caller=callers)
    def begin(self, caller: int) -> None:
        """The collection exists, so nothing is begun."""
        self.callers[caller].begin("another first")
        self._look()

    def teardown(self) -> None:
        """All lands, and all callers come to one state."""
        for caller in range(CALLERS):
            self.land(caller)
        for caller in range(CALLERS):
            self.refresh(caller)
        self.callers[0].truncate()
        self.callers[0].sweep()
        self._look()
        self.environment.close()

    def _consensus(self, service: ConsensusService) -> Consensus:
        if not isinstance(service, StoredConsensusService):
            return service.open(self.environment)
        self.held.append(HeldCreates(service.storage()))
        return service.over(self.held[-1], self.environment)

    def _look(self) -> None:
        """Open afresh, and compare."""
        fresh = Caller(self.fresh, self.collection_id)
        fresh.open()
        lines = fresh.story.lines
        assert lines[: len(self.seen.lines)] == self.seen.lines
        assert fresh.story.seqno >= self.seen.seqno
        assert [line for line in lines if line not in self.unknown] == self.committed
        assert len(set(lines)) == len(lines)
        self.seen = fresh.story


def run_machine(service: ConsensusService, runs: int) -> None:
    """Compare ``runs`` random runs with the model, each on a collection of its own.

    The same runs every time, so that what fails fails again.
    """
    ids = count(1)

    class _Run(ConsensusMachine):
        def __init__(self) -> None:
            super().__init__(service, next(ids).to_bytes(16, "big"))

    run_state_machine_as_test(
        _Run,
        settings=settings(
            max_examples=runs,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            derandomize=True,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        ),
    )
