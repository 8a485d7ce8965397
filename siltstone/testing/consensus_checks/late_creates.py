"""Checks of a consensus on long-term storage: creates that land when no caller waits for them."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial

import pytest

from siltstone.core.chunk_storage import Buffer, ChunkStat, ChunkStorage
from siltstone.core.environment import Environment
from siltstone.core.errors import (
    ChunkError,
    ChunkExistsError,
    ChunkUnavailableError,
    Outcome,
    OutcomeUnknownError,
)
from siltstone.core.storage.wrapper import WrappedChunkStorage
from siltstone.testing.consensus_checks.subject import (
    Caller,
    ConsensusSubject,
    StoredConsensusService,
    added,
    cut_thrice,
)
from siltstone.testing.faults.faulty_chunk_storage import (
    Fate,
    FaultyChunkStorage,
    Plan,
    StorageCall,
)


class HeldCreates(WrappedChunkStorage):
    """Keeps whole creates back, each with an unknown outcome, and lets them land when told to.

    Attributes:
        is_holding: whether it does; else it only delegates.
    """

    def __init__(self, inner: ChunkStorage) -> None:
        super().__init__(inner)
        self.is_holding = False
        self._held: dict[str, bytes] = {}

    def create_whole(self, name: str, buffers: Sequence[Buffer]) -> None:
        """``create_whole`` of ``optional_verbs``."""
        if not self.is_holding:
            super().create_whole(name, buffers)
            return
        self._held.setdefault(name, b"".join(buffers))
        raise ChunkUnavailableError(
            "injected: held", chunk=name, operation="create", outcome=Outcome.UNKNOWN
        )

    def land(self) -> int:
        """Let each create that was kept back have its effect; return how many had one."""
        held, self._held = self._held, {}
        landed = 0
        for name, data in held.items():
            try:
                super().create_whole(name, [data])
            except ChunkExistsError:
                continue
            landed += 1
        return landed


def fail_from(number: int, prefix: str) -> Plan:
    """Return the plan under which no call of such verbs has an effect, from the given one on."""
    seen = 0

    def plan(call: StorageCall) -> Fate:
        nonlocal seen
        seen += call.operation.startswith(prefix)
        is_lost = call.operation.startswith(prefix) and seen >= number
        return Fate.LOST_CALL if is_lost else Fate.DONE

    return plan


class ForgetfulListings(WrappedChunkStorage):
    """Lists as the contract allows it while much happens: it misses what comes meanwhile.

    Attributes:
        meanwhile: what happens during the next listing; then nothing does any more.
        late: what of that it sees nevertheless.
    """

    def __init__(self, inner: ChunkStorage) -> None:
        super().__init__(inner)
        self.meanwhile: Callable[[], object] | None = None
        self.late: Callable[[], object] = lambda: None

    def list(self, prefix: str = "", start_after: str = "") -> Iterator[ChunkStat]:
        """``ChunkStorage.list``."""
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is None:
            yield from super().list(prefix, start_after)
            return
        seen = {chunk.name for chunk in super().list(prefix, start_after)}
        meanwhile()
        before = {chunk.name for chunk in super().list(prefix, start_after)}
        self.late()
        for chunk in super().list(prefix, start_after):
            if chunk.name in seen or chunk.name not in before:
                yield chunk


class LateCreateChecks(ConsensusSubject):
    """A create lands after its caller gave it up, or died."""

    @pytest.fixture
    def held(self, stored: StoredConsensusService) -> HeldCreates:
        """The storage of the caller whose creates land late."""
        return HeldCreates(stored.storage())

    @pytest.fixture
    def late(
        self,
        stored: StoredConsensusService,
        held: HeldCreates,
        environment: Environment,
        client: Caller,
    ) -> Caller:
        """That caller; it opened the collection."""
        late = Caller(stored.over(held, environment))
        late.open()
        return late

    def test_a_commit_that_lands_later_counts_like_any_other(
        self, client: Caller, late: Caller, held: HeldCreates
    ) -> None:
        self._give_up(late, held)
        assert held.land() == 1
        client.refresh()
        assert "late" in client.story.lines
        late.refresh()
        late.add("next")
        client.refresh()
        assert client.story.lines == ("first", "late", "next")

    def test_a_commit_that_lands_after_another_one_took_its_seqno_is_nothing(
        self, client: Caller, late: Caller, held: HeldCreates
    ) -> None:
        self._give_up(late, held)
        client.add("second")
        assert held.land() == 0
        late.add("third")
        client.refresh()
        assert client.story.lines == ("first", "second", "third")

    @pytest.mark.parametrize("links", [False, True], ids=["of a line", "of a link"])
    def test_a_create_under_a_name_that_was_freed_is_seen_by_no_caller(
        self, client: Caller, other: Caller, late: Caller, held: HeldCreates, links: bool
    ) -> None:
        client.add("second")
        late.refresh()
        self._give_up(late, held, links=links)
        other.refresh()
        cut_thrice(client)
        assert held.land() == 1
        for caller in (other, late):
            caller.refresh()
            assert caller.story == client.story
        fresh = Caller(other.consensus)
        fresh.open()
        assert fresh.story == client.story
        late.add("next")
        client.refresh()
        assert client.story.lines[-1] == "next"
        assert "late" not in client.story.lines
        assert client.sweep() == 1 + links, "the entry, and the rollup that it would have linked"
        other.open()
        assert other.story == client.story

    @pytest.mark.parametrize("links", [False, True], ids=["of a line", "of a link"])
    def test_a_late_create_is_not_believed_where_a_listing_shows_it_as_the_newest(
        self,
        client: Caller,
        late: Caller,
        held: HeldCreates,
        stored: StoredConsensusService,
        environment: Environment,
        links: bool,
    ) -> None:
        """All that is newer came during the listing, and all that was there before went."""
        client.add("second")
        late.refresh()
        self._give_up(late, held, links=links)
        listings = ForgetfulListings(stored.storage())
        listings.meanwhile, listings.late = partial(cut_thrice, client), held.land
        opening = Caller(stored.over(listings, environment))
        opening.open()
        assert opening.story == client.story

    def test_a_collection_is_found_by_a_listing_that_misses_all_that_came_meanwhile(
        self, client: Caller, stored: StoredConsensusService, environment: Environment
    ) -> None:
        listings = ForgetfulListings(stored.storage())
        listings.meanwhile = partial(cut_thrice, client)
        opening = Caller(stored.over(listings, environment))
        opening.open()
        assert opening.story == client.story

    @pytest.mark.parametrize("number", [1, 2, 3])
    def test_a_truncation_that_ends_in_its_middle_lets_no_late_create_be_believed(
        self,
        client: Caller,
        other: Caller,
        late: Caller,
        held: HeldCreates,
        stored: StoredConsensusService,
        environment: Environment,
        number: int,
    ) -> None:
        """Whichever delete is the last: what may be freed has no anchor any more."""
        self._give_up(late, held)
        client.add("second")
        client.add("third")
        assert client.link()
        client.add("fourth")
        faulty = FaultyChunkStorage(stored.storage(), fail_from(number, "delete"))
        dying = Caller(stored.over(faulty, environment))
        dying.open()
        with suppress(ChunkError):
            dying.truncate()
        held.land()
        for caller in (other, late, client):
            caller.refresh()
            assert "late" not in caller.story.lines
        late.add("next")
        client.refresh()
        assert client.story.lines == ("first", "second", "third", "fourth", "next")

    def test_a_first_diff_that_lands_late_never_counts(
        self,
        client: Caller,
        other: Caller,
        stored: StoredConsensusService,
        held: HeldCreates,
        environment: Environment,
    ) -> None:
        first = Caller(stored.over(held, environment), bytes(16))
        held.is_holding = True
        with pytest.raises(OutcomeUnknownError):
            first.begin("late")
        held.is_holding = False
        another = Caller(client.consensus, bytes(16))
        another.begin("in time")
        cut_thrice(another)
        assert held.land() == 0, "the name of the first entry is never free again"
        first.begin("once more")
        assert first.story == another.story
        assert "late" not in another.story.lines

    def test_what_lands_late_is_repeated_by_no_caller(
        self, client: Caller, late: Caller, held: HeldCreates
    ) -> None:
        """Its caller finds its own line when it looks again, by the state and not by guessing."""
        self._give_up(late, held)
        held.land()
        late.refresh()
        assert "late" in late.story.lines

    def _give_up(self, late: Caller, held: HeldCreates, *, links: bool = False) -> None:
        held.is_holding = True
        give_up = late.link if links else partial(late.attempt, added("late"))
        with pytest.raises(OutcomeUnknownError):
            give_up()
        held.is_holding = False
