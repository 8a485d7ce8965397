"""What the checks of a consensus are made on: a service, clients of it, and a state to keep in it.

The state that is kept is a story: the lines that were added, in order. So each state tells all that
ever happened, and two states of one collection are right only if one is the beginning of the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from threading import Lock
from typing import ClassVar, Final, Protocol, runtime_checkable

import pytest

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.consensus import (
    Committed,
    Consensus,
    Followed,
    Opened,
    Progress,
    Taken,
    Tip,
    Undecided,
)
from siltstone.core.environment import Environment, SystemEnvironment
from siltstone.core.records.collection_entry import Change, Diff, Rollup
from siltstone.testing.deviations import Deviation, expect_deviation

ID: Final = bytes(range(16))
ADD, LINK, FORGET = range(1, 4)
"""Kinds of changes: a line; a rollup; the seqno of the oldest rollup that is still named."""

TRIES_MAX: Final = 500
"""Far more races than the checks have callers and lines."""


class ConsensusService(Protocol):
    """A place with no collection in it, made again for each check."""

    def open(self, environment: Environment) -> Consensus:
        """Return another client of the same place."""
        ...


@runtime_checkable
class StoredConsensusService(ConsensusService, Protocol):
    """A place on long-term storage, each call to which a check may let fail."""

    def storage(self) -> ChunkStorage:
        """Return a client of the storage."""
        ...

    def over(self, storage: ChunkStorage, environment: Environment) -> Consensus:
        """Return a client that makes its calls to the place through ``storage``."""
        ...


class QuickEnvironment(SystemEnvironment):
    """Waits without waiting: its clock jumps by the time."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = Lock()
        self._waited_s = 0.0

    def monotonic(self) -> float:
        """Seconds of the monotonic clock, and of all pauses."""
        return super().monotonic() + self._waited_s

    def pause(self, seconds: float) -> None:
        """Let the time pass."""
        with self._lock:
            self._waited_s += seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A state.

    Attributes:
        seqno: of the newest diff.
        written_ms: its time.
        lines: what was ever added.
        rollups: that the state names, the oldest first.
    """

    seqno: int = 0
    written_ms: int = 0
    lines: tuple[str, ...] = ()
    rollups: tuple[Rollup, ...] = ()

    def after(self, diff: Diff) -> Story:
        """The state to which ``diff`` leads."""
        assert diff.seqno == self.seqno + 1, "seqnos are dense"
        assert diff.written_ms > self.written_ms, "times rise"
        story = replace(self, seqno=diff.seqno, written_ms=diff.written_ms)
        for change in diff.changes:
            story = story._changed(change)
        return story

    def to_bytes(self) -> bytes:
        """The state as it is kept in a rollup."""
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def of(state: bytes) -> Story:
        """The state that a rollup holds."""
        parts = json.loads(state)
        rollups = tuple(Rollup(**rollup) for rollup in parts.pop("rollups"))
        return Story(lines=tuple(parts.pop("lines")), rollups=rollups, **parts)

    def _changed(self, change: Change) -> Story:
        if change.kind == ADD:
            return replace(self, lines=(*self.lines, change.body.decode()))
        if change.kind == LINK:
            return replace(self, rollups=(*self.rollups, Rollup(**json.loads(change.body))))
        rollups = tuple(rollup for rollup in self.rollups if rollup.seqno >= int(change.body))
        return replace(self, rollups=rollups)


class Caller:
    """One caller: a consensus, and a state with the tip that belongs to it. Not thread-safe.

    Attributes:
        name: what its lines begin with.
        tip: how far it knows the collection.
        story: the state at ``tip``.
    """

    def __init__(
        self, consensus: Consensus, collection_id: bytes = ID, *, name: str = "caller"
    ) -> None:
        self.consensus = consensus
        self.collection_id = collection_id
        self.name = name
        self.tip: Tip
        self.story = Story()

    def begin(self, line: str) -> None:
        """Make the collection, or open the one that another caller made."""
        rollup = self.consensus.put_rollup(self.collection_id, 0, Story().to_bytes())
        changes = (linked(rollup), added(line))
        diff = Diff(seqno=1, token=0, written_ms=1, actor="check", changes=changes)
        self.take(self.consensus.begin(self.collection_id, rollup, diff))

    def open(self) -> None:
        """Open the collection."""
        opened = self.consensus.open(self.collection_id)
        assert opened is not None, "the collection was begun"
        self.take(opened)

    def refresh(self) -> None:
        """Take everything that is new."""
        self.take(self.consensus.refresh(self.tip))

    def take(self, progress: Progress) -> None:
        """Go to a newer state, which must continue the present one."""
        if isinstance(progress, Opened):
            story = Story.of(progress.state)
            assert story.seqno == progress.rollup.seqno, "a rollup holds the state of its seqno"
        else:
            story = self.story
        for diff in progress.diffs:
            story = story.after(diff)
        assert story.lines[: len(self.story.lines)] == self.story.lines, "history never changes"
        assert progress.tip.seqno == story.seqno >= self.story.seqno, "nothing goes back"
        assert progress.tip.written_ms == story.written_ms
        assert progress.tip.anchor == story.rollups[-1], "the anchor is the newest rollup"
        self.tip, self.story = progress.tip, story

    def attempt(
        self, *changes: Change, link: Rollup | None = None
    ) -> Committed | Taken | Undecided:
        """Commit once, and take the progress whatever came of it."""
        diff = Diff(
            seqno=self.tip.seqno + 1,
            token=0,
            written_ms=self.tip.written_ms + 1,
            actor="check",
            changes=changes,
        )
        result = self.consensus.commit(self.tip, diff, link)
        self.take(result.progress)
        return result

    def add(self, line: str) -> None:
        """Add a line, which no other call adds, once."""
        for _ in range(TRIES_MAX):
            result = self.attempt(added(line))
            if isinstance(result, Committed):
                assert line in self.story.lines, "what is committed is in the state"
                return
            if isinstance(result, Taken):
                assert line not in self.story.lines, "what is not committed is not in the state"
            elif line in self.story.lines:
                return
        raise AssertionError(f"{TRIES_MAX} other callers were always first")

    def link(self) -> bool:
        """Make a rollup of the present state and link it; return whether it is."""
        if self.tip.seqno == self.tip.anchor.seqno:
            return False
        rollup = self.consensus.put_rollup(
            self.collection_id, self.tip.seqno, self.story.to_bytes()
        )
        self.attempt(linked(rollup), link=rollup)
        return rollup in self.story.rollups

    def truncate(self) -> None:
        """Forget as much as may be forgotten, and then the rollups that are gone."""
        floor = self.tip.settled
        self.consensus.truncate(self.tip, floor, self.story.rollups)
        if self.story.rollups[0] != floor:
            self.attempt(forgot(floor))

    def sweep(self) -> int:
        """Delete what counts for nothing."""
        return self.consensus.sweep(self.tip, self.story.rollups)


class ConsensusSubject:
    """The fixtures that all checks share.

    Attributes:
        deviations: checks that are known not to hold for the service, and why.
        callers: how many threads want the same thing at a time.
        lines: how many lines each of them adds.
        model_runs: how many random runs are compared with a list, of up to 40 calls each.
    """

    deviations: ClassVar[Sequence[Deviation]] = ()
    callers: ClassVar[int] = 6
    lines: ClassVar[int] = 10
    model_runs: ClassVar[int] = 30

    @pytest.fixture(autouse=True)
    def _deviation(self, request: pytest.FixtureRequest) -> None:
        """Expect a check to fail that is known to; one that holds again is an error."""
        expect_deviation(request, self.deviations)

    @pytest.fixture
    def service(self) -> ConsensusService:
        """Make the service. A subclass overrides this."""
        raise NotImplementedError("a subclass of the contract gives the fixture 'service'")

    @pytest.fixture
    def environment(self) -> Iterator[Environment]:
        """Where waits take no time."""
        environment = QuickEnvironment()
        yield environment
        environment.close()

    @pytest.fixture
    def stored(self, service: ConsensusService) -> StoredConsensusService:
        """The service, if it is on long-term storage; else the check is skipped."""
        if not isinstance(service, StoredConsensusService):
            pytest.skip("this consensus is not on long-term storage")
        return service

    @pytest.fixture
    def client(self, service: ConsensusService, environment: Environment) -> Caller:
        """A caller that made the collection, with one line in it."""
        client = Caller(service.open(environment))
        client.begin("first")
        return client

    @pytest.fixture
    def other(self, service: ConsensusService, environment: Environment, client: Caller) -> Caller:
        """Another caller that opened it."""
        other = Caller(service.open(environment))
        other.open()
        return other


def added(line: str) -> Change:
    """The change that adds a line."""
    return Change(kind=ADD, body=line.encode())


def linked(rollup: Rollup) -> Change:
    """The change that names a rollup."""
    return Change(kind=LINK, body=json.dumps(asdict(rollup)).encode())


def forgot(floor: Rollup) -> Change:
    """The change that names no rollup before ``floor``."""
    return Change(kind=FORGET, body=str(floor.seqno).encode())


def cut(client: Caller) -> None:
    """Link a rollup, add a line, and truncate: what a stale caller knows is gone then."""
    assert client.link()
    client.add(f"line after a rollup at {client.tip.seqno}")
    client.truncate()


def cut_thrice(client: Caller) -> None:
    """The same several times: nothing that a stale caller knows is left then."""
    for _ in range(3):
        cut(client)


def followed(progress: Progress) -> Followed:
    """The progress, which goes on from where it was."""
    assert isinstance(progress, Followed)
    return progress
