"""Who appends: without a name, under names that several processes use, and by batches."""

from __future__ import annotations

import pickle
from typing import Any

from siltstone.collections.async_collection import AsyncCollection
from siltstone.core.errors import (
    BatchExpiredError,
    CollectionSequenceError,
    Outcome,
    UpperMismatchError,
)
from tests.simulation.collections.actor import UNANSWERED, Actor
from tests.simulation.collections.facts import CollectionAttempt, Row
from tests.simulation.collections.ledger import BuiltBatch, Loader
from tests.simulation.facts import ViolationError

WIDTH_MAX = 6
BATCH_TRIES_MAX = 4


class Appender(Actor):
    """Appends without a name: what had no answer stays unknown."""

    async def once(self, gusts: AsyncCollection) -> None:
        kind = self.chance.choice(("plain", "plain", "conditional", "timed"))
        if kind == "plain":
            await self._append(gusts, self.ledger.attempt(self.chance))
            return
        upper = await self._upper(gusts)
        if upper is None:
            return
        if kind == "conditional":
            await self._append(gusts, self.ledger.attempt(self.chance, expected=upper))
            return
        new = upper + self.chance.randint(1, WIDTH_MAX)
        attempt = self.ledger.attempt(self.chance, expected=upper, new=new)
        await self._append(gusts, attempt)

    async def _upper(self, gusts: AsyncCollection) -> int | None:
        """An upper to expect: told by another process, asked for, or an old one."""
        ledger = self.ledger
        source = self.chance.random()
        if source < 0.1:
            return max(0, ledger.upper - self.chance.choice((1, 3)))
        if source < 0.6:
            return ledger.upper
        known = ledger.known()
        try:
            info = await gusts.info()
        except UNANSWERED as error:
            self.excuse(error)
            return None
        ledger.told(info, known)
        assert info.upper is not None, "nothing finishes it"
        return info.upper

    async def _append(self, gusts: AsyncCollection, attempt: CollectionAttempt) -> None:
        ledger = self.ledger
        known = ledger.known()
        attempt.tries += 1
        try:
            if attempt.new is None:
                done = await gusts.append(
                    come_of(attempt), remove=go_of(attempt), expected_upper=attempt.expected
                )
            else:
                assert attempt.expected is not None
                done = await gusts.compare_and_append(
                    updates_of(attempt),
                    expected_upper=attempt.expected,
                    new_upper=attempt.new,
                )
        except UpperMismatchError as error:
            self.note(f"{attempt}: {error}")
            ledger.refused_upper(attempt, error.expected, error.current, known)
        except (*UNANSWERED, BatchExpiredError) as error:
            self.note(f"{attempt}: {error}")
            if error.outcome is Outcome.NOT_APPLIED and not self.host.process.dead:
                ledger.refused(attempt, str(error))
            self.excuse(error)
        else:
            ledger.acknowledged_appends((attempt,), done.time, done.upper, known)
            self.note(f"acknowledged {attempt}")
            if done.repeated:
                raise ViolationError(f"{attempt} was never made before")


class LoaderActor(Actor):
    """Goes on with the work of a writer with a name, as other processes do at the same time."""

    async def once(self, gusts: AsyncCollection) -> None:
        loader = self.chance.choice(self.ledger.loaders)
        if loader.attempt is None or (loader.is_done and self.chance.random() < 0.7):
            expected = self.ledger.upper if self.chance.random() < 0.3 else None
            loader.attempt = self.ledger.attempt(self.chance, expected=expected)
            loader.sequence += 1
            loader.is_done = False
        await self._append(gusts, loader, loader.sequence, loader.attempt)

    async def _append(
        self, gusts: AsyncCollection, loader: Loader, sequence: int, attempt: CollectionAttempt
    ) -> None:
        ledger = self.ledger
        known = ledger.known()
        attempt.tries += 1
        try:
            done = await gusts.writer(loader.name).append(
                come_of(attempt),
                sequence=sequence,
                remove=go_of(attempt),
                expected_upper=attempt.expected,
            )
        except UpperMismatchError as error:
            self.note(f"{attempt}: {error}")
            ledger.refused_upper(attempt, error.expected, error.current, known)
        except CollectionSequenceError as error:
            self.note(f"{attempt}: {error}")
            if not sequence < error.last_sequence <= loader.sequence:
                raise ViolationError(f"refused sequence {sequence} of {attempt}") from error
            return
        except (*UNANSWERED, BatchExpiredError) as error:
            self.note(f"{attempt}: {error}")
            if loader.sequence == sequence:  # Else others have gone on, and no row tells of it.
                self.excuse(error)
            return
        else:
            ledger.acknowledged_appends((attempt,), done.time, done.upper, known)
            self.note(f"acknowledged {attempt}, repeated: {done.repeated}")
            if done.repeated and attempt.tries == 1:
                raise ViolationError(f"{attempt} was never made before")
        if loader.sequence == sequence:
            loader.is_done = True


class Batcher(Actor):
    """Builds batches, and appends those that others built."""

    async def once(self, gusts: AsyncCollection) -> None:
        if not self.ledger.batches or self.chance.random() < 0.4:
            await self._build(gusts)
        else:
            await self._append(gusts)

    async def _build(self, gusts: AsyncCollection) -> None:
        attempt = self.ledger.attempt(self.chance)
        try:
            batch = await gusts.batch(come_of(attempt), remove=go_of(attempt))
        except UNANSWERED as error:
            self.ledger.refused(attempt, "its batch was never built")
            self.excuse(error)
            return
        self.note(f"built {attempt}")
        host = self.host
        built = BuiltBatch(pickle.dumps(batch), attempt, lambda: not host.is_leaving)
        self.ledger.batches.append(built)

    async def _append(self, gusts: AsyncCollection) -> None:
        ledger = self.ledger
        count = min(len(ledger.batches), self.chance.choice((1, 1, 2, 3)))
        batches = self.chance.sample(ledger.batches, count)
        attempts = tuple(batch.attempt for batch in batches)
        expected = ledger.upper if self.chance.random() < 0.2 else None
        known = ledger.known()
        for attempt in attempts:
            attempt.tries += 1
        numbers = [attempt.number for attempt in attempts]
        try:
            done = await gusts.append_batches(
                [pickle.loads(batch.pickled) for batch in batches],
                expected_upper=expected,
            )
        except UpperMismatchError as error:
            ledger.refused_upper(None, error.expected, error.current, known)
        except BatchExpiredError as error:
            self.note(f"batches {numbers}: {error}")
            is_first = all(attempt.tries == 1 for attempt in attempts)  # Others may come between.
            if is_first and all(batch.is_kept() for batch in batches):
                self.need_trouble(error)
        except UNANSWERED as error:
            self.note(f"batches {numbers}: {error}")
            self.excuse(error)
        else:
            ledger.acknowledged_appends(attempts, done.time, done.upper, known)
            self.note(f"acknowledged batches {numbers} at {done.time}")
        for batch in batches:
            is_over = batch.attempt.is_told and self.chance.random() < 0.6
            if batch in ledger.batches and (is_over or batch.attempt.tries >= BATCH_TRIES_MAX):
                ledger.batches.remove(batch)


def come_of(attempt: CollectionAttempt) -> list[dict[str, Any]]:
    """The rows of an attempt, as mappings."""
    return _rows([attempt.mark, *(row for row, _ in attempt.come)])


def go_of(attempt: CollectionAttempt) -> list[dict[str, Any]] | None:
    """The rows that it takes away, if there are any."""
    return _rows(attempt.go) if attempt.go else None


def updates_of(attempt: CollectionAttempt) -> list[dict[str, Any]]:
    """The updates of an attempt whose rows have times of their own."""
    assert attempt.expected is not None
    return [
        {"k": row[0], "v": row[1], "_time": time, "_diff": diff}
        for row, time, diff in attempt.changes(attempt.expected)
    ]


def _rows(rows: list[Row]) -> list[dict[str, Any]]:
    return [{"k": key, "v": value} for key, value in rows]
