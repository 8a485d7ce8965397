"""Snapshots end when their container closes itself; folds of the reopened one begin with others."""

from __future__ import annotations

import pytest

from siltstone.core.errors import OutcomeUnknownError, SnapshotExpiredError
from siltstone.testing.faults.faulty_fenced_log import FaultPlan
from tests.support.container.container_world import World, world
from tests.support.objects.space_world import open_owner


async def fold_after_reopening(made: World) -> None:
    plan = FaultPlan()
    opened = await open_owner(made, plan=plan)
    await opened.make()
    keyspace = await opened.keyspace()
    await keyspace.put("b", "k", b"v")
    held = await keyspace.snapshot()
    plan.fail("append", applied=False)
    with pytest.raises(OutcomeUnknownError):
        await keyspace.put("b", "l", b"lost")
    while opened.store.stats()[0].error is not None:
        await made.environment.sleep(1)
    assert [head.key async for head in keyspace.heads()] == ["k"], "the version is that of before"
    with pytest.raises(SnapshotExpiredError):
        await held.head("b", "k")
    await held.close()
    assert [head.key async for head in keyspace.heads()] == ["k"]
    await opened.store.close()


def test_a_fold_shares_no_snapshot_that_ended_with_its_container() -> None:
    with world() as made:
        made.run(fold_after_reopening(made))
