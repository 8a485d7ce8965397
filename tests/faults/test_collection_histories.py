"""Transactions that read lists in a collection and append to them, over storage that fails.

A transaction reads at the upper, and appends on the condition that this is the upper still; one
that only reads appends nothing on that condition. What it reads are rows at some time from the
since on, and the changes after it.
What may fail: each call to storage is refused, lost, or has its reply lost; processes die in the
middle of an append; batches are merged, history ends, and garbage is deleted meanwhile.
What must hold: rows and the changes after them are what all changes alone make; a list that was
read begins with each one that was there before; some order of the transactions explains all that
was seen, in which each comes after those that had ended before it began.
"""

from __future__ import annotations

import pytest

from tests.support.collections.list_histories import ListClients
from tests.support.collections.list_reader import misfits
from tests.support.oracles.isolation import End, anomalies
from tests.support.soak import share_of

pytestmark = pytest.mark.virtual_time

COUNT = 80
"""Transactions of one seed."""


async def play(seed: int) -> ListClients:
    clients = ListClients(seed, COUNT)
    await clients.run()
    assert anomalies(clients.seen) == [], f"seed {seed}"
    assert misfits(clients.lists) == [], f"seed {seed}"
    return clients


async def test_transactions_on_lists_take_effect_one_after_the_other() -> None:
    ends = []
    for seed in range(3):
        ends += [one.end for one in (await play(seed)).seen]
    assert set(ends) == set(End), "each way to end is there"
    assert ends.count(End.COMMITTED) > len(ends) / 4


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_many_transactions_on_lists_take_effect_one_after_the_other() -> None:
    for seed in range(1_000, 1_000 + share_of(200)):
        await play(seed)
