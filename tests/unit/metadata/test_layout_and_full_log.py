"""Changes of a layout while tier 1 is full: tried again, planned again, and not for ever."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from siltstone.core.errors import StorageFullError
from siltstone.core.records.layout import Layout
from siltstone.core.records.table_record import TableEntry
from siltstone.metadata import changes
from siltstone.metadata.layout_store import FULL_ATTEMPTS, FULL_PAUSE_S, TableLayoutStore
from siltstone.metadata.tables import Tables
from tests.support.metadata.acknowledging_log import AcknowledgingLog
from tests.support.metadata.layout_house import DELAY_S, SEGMENT, Clock, House, run


class FullLog(AcknowledgingLog):
    """A log that refuses ``refusals`` updates for lack of room, and then accepts them."""

    refusals = 0

    async def update(self, entries: Sequence[TableEntry]) -> int:
        if self.refusals:
            self.refusals -= 1
            raise StorageFullError("no room")
        return await super().update(entries)


class Pauses(Clock):
    """A clock on which waiting takes no time; ``meanwhile`` may change the rows."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []
        self.meanwhile: Callable[[], None] = lambda: None

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.meanwhile()


def full_house(tables: Tables, refusals: int) -> tuple[House, Pauses]:
    house, pauses = House(tables), Pauses()
    log = FullLog(tables)
    log.refusals = refusals
    house.log = log
    house.store = TableLayoutStore(house.rows, log, 3, pauses, DELAY_S)
    return house, pauses


@pytest.mark.parametrize("refusals", [1, FULL_ATTEMPTS])
def test_a_change_is_tried_again_while_tier_1_is_full(tables: Tables, refusals: int) -> None:
    house, pauses = full_house(tables, refusals)
    change = house.flush(Layout(segment_id=SEGMENT), 100, chunk_id=9)
    assert run(house.store.commit(change)) is True
    assert house.store.layout(SEGMENT) == change.after
    assert pauses.slept == [FULL_PAUSE_S] * refusals


def test_a_change_is_not_tried_for_ever(tables: Tables) -> None:
    house, pauses = full_house(tables, FULL_ATTEMPTS + 1)
    change = house.flush(Layout(segment_id=SEGMENT), 100, chunk_id=9)
    with pytest.raises(StorageFullError):
        run(house.store.commit(change))
    assert len(pauses.slept) == FULL_ATTEMPTS
    assert house.store.layout(SEGMENT) == Layout(segment_id=SEGMENT)


@pytest.mark.parametrize("refusals", [1, FULL_ATTEMPTS])
def test_each_attempt_looks_at_the_state_again(tables: Tables, refusals: int) -> None:
    house, pauses = full_house(tables, refusals)
    change = house.flush(Layout(segment_id=SEGMENT), 100, chunk_id=9)

    def delete() -> None:
        if len(pauses.slept) == refusals:
            house.put(changes.put_state(replace(house.state, deleted=True)))

    pauses.meanwhile = delete
    assert run(house.store.commit(change)) is False
    assert house.store.layout(SEGMENT) == Layout(segment_id=SEGMENT)
