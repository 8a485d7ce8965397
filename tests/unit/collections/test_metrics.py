"""What a process measures of collections, compared with what it did; and what they use."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pyarrow
import pytest
from prometheus_client import REGISTRY

import siltstone
from siltstone.core.environment import SystemEnvironment
from siltstone.core.metrics import Metric, MetricKind, Metrics
from siltstone.testing.faults.faulty_chunk_storage import Fate, all_done
from tests.support.collections.collections_world import CollectionsWorld, many_rows, rows
from tests.support.collections.stored_objects import objects

HOUR_S = 3600.0


class Measured(Metrics):
    """Keeps what is measured, by the name of the metric and the id of the collection."""

    enabled = True

    def __init__(self) -> None:
        self.values: Counter[tuple[str, str]] = Counter()

    def add(self, metric: Metric, amount: float, *labels: str) -> None:
        assert metric.kind is MetricKind.COUNTER
        self.values[self._key(metric, labels)] += int(amount)

    def set(self, metric: Metric, value: float, *labels: str) -> None:
        assert metric.kind is MetricKind.GAUGE
        self.values[self._key(metric, labels)] = int(value)

    def of(self, name: str, collection_id: str) -> int:
        """A value of a collection."""
        return self.values[name, collection_id]

    def _key(self, metric: Metric, labels: tuple[str, ...]) -> tuple[str, str]:
        name = metric.name.removeprefix("siltstone_collection_").removesuffix("_total")
        (collection_id,) = labels
        return name, collection_id


@pytest.mark.virtual_time
async def test_appends_rows_entries_merges_and_rollups_of_a_process_are_counted() -> None:
    async with CollectionsWorld() as world:
        await world.create()
        measured = Measured()
        gusts = await world.open(metrics=measured).collection()
        before = (await gusts.info()).seqno
        for number in range(70):
            await gusts.append(rows((f"k{number}", 1), ("b", 2)))
        await gusts.append(many_rows(1_000))
        await gusts.writer("w").append(rows(("a", 1)), sequence=4)
        assert (await gusts.writer("w").append(rows(("a", 1)), sequence=4)).repeated
        await gusts.compact()
        await gusts.settle()
        info = await gusts.info()
    assert measured.of("appends", info.id) == 72
    assert measured.of("rows", info.id) == 70 * 2 + 1_000 + 1
    assert measured.of("commits", info.id) == info.seqno - before
    assert measured.of("merges", info.id) == 1
    assert measured.of("rollups", info.id) == 1
    assert measured.of("lost_races", info.id) == 0
    shown = measured.of("batches", info.id), measured.of("parts", info.id)
    assert shown == (info.batches, info.parts) == (1, 1)


@pytest.mark.virtual_time
async def test_a_merge_by_workers_is_counted_by_who_puts_it() -> None:
    async with CollectionsWorld() as world:
        await world.create()
        measured = Measured()
        opener = world.open(metrics=measured)
        gusts = await opener.collection()
        for number in range(3):
            await gusts.append(many_rows(1_000, 1_000 * number))
        large = await gusts.large_merges.planned()
        assert large is not None
        runs = [one.merged(opener.storage, SystemEnvironment()) for one in large.ranges]
        assert await gusts.large_merges.put(large, runs)
        info = await gusts.info()
    assert (info.batches, measured.of("merges", info.id)) == (1, 1)


@pytest.mark.virtual_time
async def test_a_race_that_was_lost_is_counted_by_who_lost_it() -> None:
    async with CollectionsWorld() as world:
        await world.create()
        slow, fast = Measured(), Measured()
        slow_gusts = await world.open(metrics=slow).collection()
        fast_gusts = await world.open(metrics=fast).collection()
        await fast_gusts.append(rows(("a", 1)))
        await slow_gusts.append(rows(("b", 2)))
        one = (await slow_gusts.info()).id
    assert (slow.of("lost_races", one), slow.of("appends", one)) == (1, 1)
    assert (fast.of("lost_races", one), fast.of("appends", one)) == (0, 1)


@pytest.mark.virtual_time
async def test_an_append_that_another_process_made_before_is_not_counted_again() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        measured = Measured()
        other = await world.open(metrics=measured).collection()
        await gusts.writer("w").append(rows(("a", 1)), sequence=4)
        assert (await other.writer("w").append(rows(("a", 1)), sequence=4)).repeated
        one = (await other.info()).id
    assert (measured.of("appends", one), measured.of("rows", one)) == (0, 0)


@pytest.mark.virtual_time
async def test_what_other_processes_do_is_shown_and_not_counted() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        measured = Measured()
        other = await world.open(metrics=measured).collection()
        for _ in range(3):
            await gusts.append(many_rows(1_000))
        info = await other.info()
    assert (measured.of("batches", info.id), measured.of("parts", info.id)) == (3, 3)
    assert (measured.of("appends", info.id), measured.of("commits", info.id)) == (0, 0)


@pytest.mark.virtual_time
async def test_a_lease_that_ended_too_early_is_counted() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create()
        await (await opener.collection()).append(rows(("a", 1)))
        measured = Measured()
        asleep = world.open(metrics=measured)
        gusts = await asleep.collection()
        await gusts.snapshot(lease=True)
        asleep.storage.plan = lambda call: Fate.REFUSED
        await world.sleep(HOUR_S)
        await (await opener.collection()).append(rows(("a", 1)))
        asleep.storage.plan = all_done
        await world.sleep(HOUR_S)
        one = (await gusts.info()).id
    assert measured.of("lease_losses", one) == 1


@pytest.mark.parametrize("consensus", ["objects", "table"])
def test_metrics_of_collections_are_those_of_the_process(tmp_path: Path, consensus: str) -> None:
    settings = siltstone.init(tmp_path / "store")
    with settings.open("a", encoding="utf-8") as file:
        file.write(f"\nmetrics:\n  enabled: true\ncollections:\n  consensus: {consensus}\n")
    schema = pyarrow.schema([("n", pyarrow.int64())])
    found = REGISTRY.get_sample_value
    with ExitStack() as opened:
        if consensus == "table":
            store = opened.enter_context(siltstone.open(settings))
            collections = opened.enter_context(siltstone.open_collections(store))
        else:
            collections = opened.enter_context(siltstone.open_collections(settings))
        counts = collections.create("counts", schema, key=["n"])
        counts.append([{"n": 1}, {"n": 2}])
        labels = {"container": "collections", "collection": counts.info().id}
        labels["store"] = store.uuid if consensus == "table" else _uuid(settings)
        assert found("siltstone_collection_rows_total", labels) == 2
        assert found("siltstone_collection_batches", labels) == 1
    assert found("siltstone_collection_batches", labels) is None
    assert found("siltstone_collection_rows_total", labels) == 2


def test_used_space_is_that_of_the_objects_of_each_collection(tmp_path: Path) -> None:
    store = tmp_path / "store"
    schema = pyarrow.schema([("n", pyarrow.int64())])
    with siltstone.open_collections(siltstone.init(store)) as collections:
        for name in ("a", "b", "gone"):
            made = collections.create(name, schema, key=["n"])
            made.append(pyarrow.table({"n": list(range(5_000))}))
        collections.drop("gone")
        collections.settle()
        ids = {name: collections.collection(name).info().id for name in ("a", "b")}
    with siltstone.open_collections(store) as collections:
        found = {one.name or one.id: one for one in collections.space()}
        assert [one.name for one in collections.space(["b"])] == ["b"]
    sizes = {name: len(data) for name, data in objects(store).items()}
    for one in found.values():
        mine = {name: size for name, size in sizes.items() if f"/{one.id}/" in name}
        assert (one.objects, one.length) == (len(mine), sum(mine.values()))
        for kind, size in (
            ("entries", one.entry_bytes),
            ("rollups", one.rollup_bytes),
            ("parts", one.part_bytes),
        ):
            assert size == sum(size for name, size in mine.items() if f"/{kind}/" in name)
    assert {name: found[name].id for name in ids} == ids
    assert found["catalog"].id == "0" * 32
    (dropped,) = [one for one in found.values() if one.name is None]
    assert dropped.part_bytes == 0
    assert sum(one.length for one in found.values()) + sizes["collections/consensus"] == sum(
        sizes.values()
    )


def _uuid(settings: Path) -> str:
    with siltstone.open(settings) as store:
        return store.uuid
