"""Verbs of the table: what one version of it shows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from siltstone.container.models.segments import TableValue
from siltstone.store.handles.async_table import AsyncTableSnapshot
from tests.simulation.ageing import Ageing
from tests.simulation.facts import Bytes, State, ViolationError
from tests.simulation.twins import KEYS

Found = dict[bytes, TableValue]


class Versions(Ageing):
    """Rows and snapshots of them."""

    async def look_at_rows(self) -> None:
        epoch, ledger = self.epoch, self._ledger
        current = epoch == ledger.epoch
        rows = ledger.rows
        sure = [key for key, row in rows.items() if row.stays]
        gone = [key for key, row in rows.items() if row.end and row.end.state is State.HAPPENED]

        version = ledger.version
        found = await self._ask(lambda: _all(self._rows.scan()))
        if found is None:
            return
        self._seen(found)
        if current and epoch == ledger.epoch:
            ledger.twins.seen(found, version, exact=False)
        if not current or epoch != ledger.epoch:
            return
        for key in sure:
            if key not in found and rows[key].stays:
                raise ViolationError(f"row {key!r} is gone from epoch {epoch}")
        if back := [key for key in gone if key in found]:
            raise ViolationError(f"removed rows are back in epoch {epoch}: {back}")
        for key, row in rows.items():
            end = row.end
            if end is not None and end.state is State.OPEN and end.epoch < epoch:
                if key in found:
                    end.failed(f"epoch {epoch} still has it")
                else:
                    end.happened()
            if key not in found and row.state is State.OPEN and row.epoch < epoch:
                row.failed(f"epoch {epoch} does not have it")
            row.check_group()

    def _seen(self, found: Mapping[bytes, TableValue]) -> None:
        for key, value in found.items():
            if key not in KEYS:
                self._ledger.row_seen(key, value)

    async def set_twins(self) -> None:
        """Set two rows to the same value."""
        self._plans.names += 1
        value = f"{self._plans.names}".encode()
        pair = self._ledger.twins.asked(value, self.epoch)
        version = await self._ask(lambda: self._rows.update(dict.fromkeys(KEYS, value)), pair)
        if version is not None:
            pair.done(version)
            self._ledger.heard_of(version)

    async def snapshot(self) -> None:
        """Look at one version again and again, while others change the table."""
        ledger, epoch, known = self._ledger, self.epoch, self._ledger.version
        current = epoch == ledger.epoch
        taken = await self._ask(lambda: self._rows.snapshot(ttl_s=20.0))
        if taken is None:
            return
        if current and epoch == ledger.epoch and taken.version < known:
            raise ViolationError(f"a snapshot of {taken.version} is older than version {known}")
        try:
            await self._look_again(taken)
        finally:
            await taken.close()

    async def _look_again(self, taken: AsyncTableSnapshot) -> None:
        first: Found | None = None
        for _ in range(self._chance.randint(2, 4)):
            reverse = self._chance.random() < 0.5
            found = await self._ask(lambda: _all(taken.scan(reverse=reverse)))  # noqa: B023
            if found is None:
                return
            if list(found) != sorted(found, reverse=reverse):
                raise ViolationError(f"a scan in disorder: {list(found)}")
            if first not in (None, found):
                raise ViolationError(f"a snapshot of version {taken.version} changed")
            first = found
            self._seen(found)
            self._ledger.twins.seen(found, taken.version, exact=True)
            for key, row in self._ledger.rows.items():
                check_row(key, row, found.get(key), taken.version)
            if self._ledger.rows:
                key = self._chance.choice(list(self._ledger.rows))
                alone = await self._ask(lambda: _one(taken, key))  # noqa: B023
                if alone is not None and alone[0] != found.get(key):
                    raise ViolationError(f"a snapshot has another {key!r} by itself: {alone[0]}")
            await self._process.sleep(4 * self._chance.random())


async def _all(entries: AsyncIterator[tuple[bytes, TableValue]]) -> Found:
    return {key: value async for key, value in entries}


async def _one(taken: AsyncTableSnapshot, key: bytes) -> tuple[TableValue | None]:
    return (await taken.get(key),)


def check_row(key: bytes, row: Bytes, found: TableValue | None, version: int) -> None:
    """Whether a row is there at a version just if it was written by then, and not removed."""
    end = row.end
    removed = end is not None and end.state is not State.FAILED
    done = row.done_version
    gone = None if end is None else end.done_version
    if found is not None:
        if found.version > version:
            raise ViolationError(f"version {version} shows {key!r} of {found.version}")
        if gone is not None and gone <= version:
            raise ViolationError(f"version {version} shows {key!r}, which {gone} removed")
        return
    stays = not removed or (gone is not None and gone > version)
    if row.state is State.HAPPENED and done is not None and done <= version and stays:
        raise ViolationError(f"version {version} does not show {key!r} of {done}")
