"""Who keeps history, or lets it go: bookmarks, compactions, garbage, sweeps, checks."""

from __future__ import annotations

from siltstone.collections.async_bookmark import AsyncBookmark
from siltstone.collections.async_collection import AsyncCollection
from siltstone.core.errors import (
    BookmarkFencedError,
    ConditionFailedError,
    LeaseExpiredError,
    SinceError,
    SinceHeldError,
)
from tests.simulation.collections.actor import UNANSWERED, Actor
from tests.simulation.collections.facts import BookmarkFacts
from tests.simulation.facts import ViolationError


class BookmarkActor(Actor):
    """Takes a bookmark, and moves it until another process has taken it."""

    async def once(self, gusts: AsyncCollection) -> None:
        name = self.chance.choice(sorted(self.ledger.bookmarks))
        facts = self.ledger.bookmarks[name]
        lowest, others = facts.since, facts.open_takes
        facts.takes += 1
        mine = facts.takes
        try:
            mark = await gusts.bookmark(name)
        except UNANSWERED as error:
            self.excuse(error)
            return
        if lowest is not None and not lowest <= mark.since <= facts.asked:
            raise ViolationError(f"bookmark {name} is at {mark.since}, not {lowest}")
        facts.acknowledged.append(mine)
        facts.moved(mark.since)
        self.note(f"took {name} at {mark.since}")
        latest = facts.takes
        while not self.host.is_leaving and self.chance.random() < 0.8:
            await self.host.process.sleep(4 * self.chance.random())
            is_fenced = max(facts.acknowledged) > latest
            may_be_fenced = others > 0 or facts.takes > mine or facts.open_takes > 0
            if self.chance.random() < 0.5:
                await self._read(gusts, mark)
                continue
            try:
                await self._advance(mark, facts, is_fenced=is_fenced)
            except BookmarkFencedError as error:
                if not (may_be_fenced or facts.takes > mine):
                    raise ViolationError(f"nobody took the bookmark: {error}") from error
                return

    async def _advance(self, mark: AsyncBookmark, facts: BookmarkFacts, *, is_fenced: bool) -> None:
        """Move it; ``is_fenced`` if a later take-over was acknowledged before."""
        lowest = max(mark.since, facts.asked)
        if self.ledger.upper <= lowest:
            return
        to = self.chance.randint(lowest, self.ledger.upper - 1)
        if not is_fenced:
            facts.asked = max(facts.asked, to)
        try:
            await mark.advance(to)
        except SinceError as error:
            raise ViolationError(f"the bookmark was at {lowest} at most: {error}") from error
        except UNANSWERED as error:
            self.excuse(error)
            return
        if is_fenced:
            raise ViolationError(f"{mark.name} was moved to {to} by who had lost it")
        facts.moved(to)
        self.note(f"moved {mark.name} to {to}")

    async def _read(self, gusts: AsyncCollection, mark: AsyncBookmark) -> None:
        """What it keeps can be read."""
        known = self.ledger.known()
        if mark.since >= known.upper:
            return
        try:
            snapshot = await gusts.snapshot(mark.since)
            self.ledger.read_rows(await snapshot.to_arrow(), mark.since, known)
        except SinceError as error:
            self.ledger.refused_time(error.as_of, error.since)
        except LeaseExpiredError:
            return  # It was too slow for a reader without a lease.
        except UNANSWERED as error:
            self.excuse(error)


class Keeper(Actor):
    """Does what is due anyway, and what is not."""

    async def once(self, gusts: AsyncCollection) -> None:
        acts = (
            self._compact,
            self._compact,
            self._collect,
            self._collect,
            self._sweep,
            self._sweep,
            self._check,
            self._look,
            self._advance_since,
            self._settle,
        )
        act = self.chance.choice(acts)
        self.note(act.__name__)
        try:
            await act(gusts)
        except UNANSWERED as error:
            self.excuse(error)

    async def _compact(self, gusts: AsyncCollection) -> None:
        try:
            await gusts.compact()
        except ConditionFailedError:
            self.note("others compact all the time")

    async def _collect(self, gusts: AsyncCollection) -> None:
        if self.chance.random() < 0.2:
            await self.host.collections.collect()
        else:
            await gusts.collect()

    async def _sweep(self, gusts: AsyncCollection) -> None:
        if self.chance.random() < 0.2:
            await self.host.collections.sweep()
        else:
            await gusts.sweep()

    async def _check(self, gusts: AsyncCollection) -> None:
        deep = self.chance.random() < 0.3
        async for finding in self.host.collections.check([gusts.name], deep=deep):
            if finding.severity == "damage":
                raise ViolationError(f"damage at {finding.where}: {finding.message}")

    async def _look(self, gusts: AsyncCollection) -> None:
        known = self.ledger.known()
        self.ledger.told(await gusts.info(), known)
        if gusts.name not in await self.host.collections.list():
            raise ViolationError(f"{gusts.name} is not in the list")

    async def _advance_since(self, gusts: AsyncCollection) -> None:
        ledger = self.ledger
        known = ledger.known()
        if known.since >= known.upper or self.chance.random() < 0.5:
            return
        to = self.chance.randint(known.since, known.upper - 1)
        ledger.asked_since = max(ledger.asked_since, to)
        try:
            since = await gusts.advance_since(to)
        except SinceHeldError as error:
            if error.limit >= to:
                raise ViolationError(f"nothing holds the since below {to}: {error}") from error
            return
        if since < to:
            raise ViolationError(f"the since is {since} after it moved to {to}")
        ledger.told_since(since, known)

    async def _settle(self, gusts: AsyncCollection) -> None:
        await gusts.settle()
