"""Conditional transactions on several keys by concurrent clients, while owners crash and follow.

What may fail: any owner at any moment, and clients still call owners that have been taken over.
What must hold: some order of the transactions explains all that was seen, in which each comes
after those that had ended before it began. The check rests on what clients saw alone.
"""

from __future__ import annotations

import pytest

from siltstone.container.models.segments import Put, VersionIs
from siltstone.core.errors import ConditionFailedError, SnapshotExpiredError
from tests.support.container.container_world import Owner
from tests.support.model.unquiet_owners import LOST, UnquietOwners
from tests.support.oracles.isolation import End, Transaction, anomalies

TABLES = ("one", "two")
KEYS = [(table, b"%d" % number) for table in TABLES for number in range(8)]
CLIENTS = 8
COUNT = 1_000
"""Conditional transactions of one seed; there are ten seeds."""

HALF = b"half of "
Key = tuple[str, bytes]


class Clients:
    """The clients of one run and what they saw."""

    def __init__(self, owners: UnquietOwners) -> None:
        self.owners = owners
        self.seen: list[Transaction] = []
        self.begun = 0
        self.count = 0

    async def client(self) -> None:
        """Transactions until enough were begun, each by an owner that may be an old one."""
        owners = self.owners
        owner = owners.owner
        while self.count < COUNT:
            self.begun += 1
            name = f"t{self.begun}"
            if owners.chance.random() < 0.3 or owner.container.closed:
                owner = owners.owner
            reading = owners.chance.random() < 0.2
            try:
                await (self.look(owner, name) if reading else self.change(owner, name))
            except LOST:
                await owners.pause(0.1)

    async def change(self, owner: Owner, name: str) -> None:
        """Read some keys, one after the other, and change some of them if none has changed."""
        owners, container = self.owners, owner.container
        keys = owners.chance.sample(KEYS, owners.chance.randint(1, 4))
        began = owners.now()
        reads: dict[Key, str | None] = {}
        conditions = []
        for key in keys:
            asked = owners.now()
            found = await container.table_get(*key)
            reads[key] = None if found is None else found.value.decode()
            self.read(owner, f"{name} {key}", {key: reads[key]}, asked)
            conditions.append(VersionIs(*key, None if found is None else found.version))
        writes = owners.chance.sample(keys, owners.chance.randint(1, len(keys)))
        puts = [Put(*key, name.encode()) for key in writes]
        if owners.chance.random() < 0.2:
            puts.insert(0, Put(*writes[0], HALF + name.encode()))
        self.count += 1
        end, ended = End.UNKNOWN, None
        try:
            await container.commit(puts, conditions)
            end, ended = End.COMMITTED, owners.now()
        except ConditionFailedError:
            end = End.REFUSED
        finally:
            self.saw(name, reads, frozenset(writes), end, began, ended)

    async def look(self, owner: Owner, name: str) -> None:
        """Read some keys of one table at one version."""
        owners = self.owners
        began = owners.now()
        table = owners.chance.choice(TABLES)
        taken = await owner.container.table_snapshot(table, 60.0)
        reads: dict[Key, str | None] = {}
        try:
            for key in KEYS:
                if key[0] == table:
                    found = taken.get(key[1])
                    reads[key] = None if found is None else found.value.decode()
                    if owners.chance.random() < 0.2:
                        await owners.pause(0.01)
        except SnapshotExpiredError:
            return
        finally:
            taken.release()
        self.read(owner, name, reads, began)

    def read(self, owner: Owner, name: str, reads: dict[Key, str | None], began: int) -> None:
        """Keep a read. An owner that was followed knows no better than what it saw last."""
        since = began if self.owners.newest(owner) else 0
        self.saw(name, reads, frozenset(), End.COMMITTED, since, self.owners.now())

    async def last_look(self) -> None:
        """All keys as they are in the end."""
        owners = self.owners
        began = owners.now()
        reads: dict[Key, str | None] = dict.fromkeys(KEYS)
        for table in TABLES:
            for key, value in await owners.owner.container.table_scan(table):
                reads[table, key] = value.value.decode()
        self.saw("the end", reads, frozenset(), End.COMMITTED, began, owners.now())

    def saw(
        self,
        name: str,
        reads: dict[Key, str | None],
        writes: frozenset[Key],
        end: End,
        began: int,
        ended: int | None,
    ) -> None:
        """Keep what one transaction saw."""
        self.seen.append(
            Transaction(name=name, reads=reads, writes=writes, end=end, began=began, ended=ended)
        )


@pytest.mark.parametrize("seed", range(10))
def test_some_order_explains_all_transactions(seed: int) -> None:
    owners = UnquietOwners(seed, quiet_s=(0.02, 0.2))
    clients = Clients(owners)

    async def work() -> None:
        for table in TABLES:
            await owners.owner.container.create_table(table)
        await owners.during([clients.client] * CLIENTS)
        await clients.last_look()
        await owners.close()

    try:
        owners.world.run(work())
    finally:
        owners.world.close()
    ends = [each.end for each in clients.seen if each.writes]
    assert owners.world.owners > 5
    assert ends.count(End.COMMITTED) > COUNT / 4
    assert ends.count(End.UNKNOWN) > 5
    found = anomalies(clients.seen)
    assert not found, f"seed {seed}: {found[0].kind}: {found[0].why}"
