"""Rows of collections that are taken away: reads of what is left, and changes of known rows."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.collection_rows import NAME, SCHEMA, rows
from bench.figure import MILLISECONDS, PER_SECOND, Figure, alternate
from bench.peers import optional
from bench.workshop import Stopwatch, Workshop
from siltstone.collections.blocking import Collection, open_collections
from siltstone.collections.rows.snapshot import SnapshotSplit
from siltstone.core.storage.optional_verbs import create_whole
from siltstone.store.store_assembly import storage_of

BULK_ROWS = 10_000_000
APPEND_ROWS = 1_000_000
TAKEN_SHARE = 10
"""One of so many rows is taken away."""

UPDATES = SCHEMA.append(pa.field("_diff", pa.int64()))

KNOWN_ROWS = 100_000
CHANGED_ROWS = 1_000
PART_BYTES, ENTRY_BYTES = 9_000, 500
"""Of the two objects that a change of so many rows makes, about."""


def run(workshop: Workshop) -> list[Figure]:
    """Reads where a tenth was taken away, and changes of a hundredth."""
    return [*_reads(workshop), *_changes(workshop)]


def _reads(workshop: Workshop) -> list[Figure]:
    """All that is left to Arrow, next to the same by hand, and to deltalake after it deleted."""
    total = workshop.pick(BULK_ROWS, 10_000)
    step = min(APPEND_ROWS, total)
    delta: Any = optional("deltalake")
    with workshop.place() as place, open_collections(workshop.store(place)) as collections:
        ours = collections.create(NAME, SCHEMA, key=["key"])
        for start in range(0, total, step):
            ours.append(rows(step, start))
        for start in range(0, total, step):
            ours.append([], remove=_taken(rows(step, start)))
        left = total - total // TAKEN_SHARE
        parts = objects_of(place, ours)
        folder = str(place / "delta")
        if delta is not None:
            for start in range(0, total, step):
                delta.write_deltalake(folder, rows(step, start), mode="append")
            delta.DeltaTable(folder).delete(f"key % {TAKEN_SHARE} = 0")

        def timed(read: Callable[[], int], spent: list[float]) -> Callable[[], float]:
            def measure() -> float:
                with Stopwatch() as watch:
                    assert read() == left
                spent.append(watch.cpu_s * 1e3)
                return left / watch.seconds

            return measure

        def read() -> int:
            return len(ours.snapshot().to_arrow())

        mine, hand = alternate(
            workshop.rounds, timed(read, []), timed(lambda: _summed(parts).num_rows, [])
        )
        upper = ours.info().upper
        assert upper is not None, "it is not finished"
        ours.advance_since(upper - 1)
        ours.compact()
        parts = objects_of(place, ours)

        def alone() -> int:
            return sum(len(pq.read_table(part, columns=SCHEMA.names)) for part in parts)

        ways = [read, alone]
        if delta is not None:
            ways.append(lambda: delta.DeltaTable(folder).to_pyarrow_table().num_rows)
        cpu: list[list[float]] = [[] for _ in ways]
        again, bound, *theirs = alternate(workshop.rounds, *map(timed, ways, cpu))
    what = f"{total:,} rows of which 1 of {TAKEN_SHARE} was taken away to Arrow, rows"
    by_hand_peer = "read, group by all columns, sum and filter by hand"
    after = f"{what}, rewritten"

    def against(peer: str, ours: list[float], theirs: list[float], goal: float | None) -> Figure:
        return Figure(what=after, peer=peer, unit=PER_SECOND, ours=ours, theirs=theirs, goal=goal)

    def spent(peer: str, theirs: list[float]) -> Figure:
        return _took(f"… processor time of {after}", peer, cpu[0], theirs, None)

    alone_peer, delta_peer = "pyarrow on the same Parquet", "deltalake, rewritten"
    figures = [
        Figure(what=what, peer=by_hand_peer, unit=PER_SECOND, ours=mine, theirs=hand, goal=0.8),
        against(alone_peer, again, bound, 0.8),
        spent(alone_peer, cpu[1]),
    ]
    for rates, processor in zip(theirs, cpu[2:], strict=True):
        figures += [
            against(delta_peer, again, rates, 1),
            spent(delta_peer, processor),
            Figure(
                what="… nothing of ours but a read of the same Parquet by pyarrow, rows",
                peer=delta_peer,
                unit=PER_SECOND,
                ours=bound,
                theirs=rates,
            ),
        ]
    return figures


def _changes(workshop: Workshop) -> list[Figure]:
    """Another value in some rows that are known, next to a merge by their keys.

    A third way writes the two objects that each change makes, and nothing else.
    """
    delta: Any = optional("deltalake")
    if delta is None:
        return []
    total, some = workshop.pick(KNOWN_ROWS, 1_000), workshop.pick(CHANGED_ROWS, 10)
    with workshop.place() as place, open_collections(workshop.store(place)) as collections:
        ours = collections.create(NAME, SCHEMA, key=["key"])
        ours.append(rows(total, 0))
        folder = str(place / "delta")
        delta.write_deltalake(folder, rows(total, 0))
        known = rows(total, 0).slice(0, some)
        storage = storage_of(place / "store")
        numbers = count()

        def change() -> float:
            nonlocal known
            new = _raised(known)
            with Stopwatch() as watch:
                ours.append(new, remove=known)
            known = new
            return watch.seconds * 1e3

        def durable() -> float:
            number = next(numbers)
            with Stopwatch() as watch:
                storage.create(f"bare/parts/{number:08}", [bytes(PART_BYTES)])
                create_whole(storage, f"bare/entries/{number:08}", [bytes(ENTRY_BYTES)])
                storage.stat(f"bare/entries/{number:08}")
            return watch.seconds * 1e3

        def merge() -> float:
            new = _raised(known)
            with Stopwatch() as watch:
                merging = delta.DeltaTable(folder).merge(
                    new, "t.key = s.key", source_alias="s", target_alias="t"
                )
                merging.when_matched_update_all().execute()
            return watch.seconds * 1e3

        mine, theirs, bare = alternate(workshop.rounds, change, merge, durable)
    what, peer = f"change {some:,} of {total:,} rows that are known", "a merge of deltalake"
    return [
        _took(what, f"{peer}, nothing synced", mine, theirs, 20),
        _took(what, "a part and an entry of as many bytes by the binding", mine, bare, None),
        _took("… nothing of ours but these two", f"{peer}, nothing synced", bare, theirs, None),
    ]


def _took(
    what: str, peer: str, ours: list[float], theirs: list[float], goal: float | None
) -> Figure:
    return Figure(what=what, peer=peer, unit=MILLISECONDS, ours=ours, theirs=theirs, goal=goal)


def objects_of(place: Path, collection: Collection) -> list[str]:
    """The files of the newest rows."""
    shares = [split.share for split in collection.snapshot().splits()]
    names = {
        piece.name
        for share in shares
        if isinstance(share, SnapshotSplit)
        for run in share.runs
        for piece in run
        if piece.name
    }
    stems = {Path(name).stem for name in names}
    return [str(path) for path in (place / "store").rglob("*.parquet") if path.stem in stems]


def _summed(parts: list[str]) -> pa.Table:
    """What is left of all updates in some objects, without a check of any sum."""
    tables = []
    for part in parts:
        table = pq.read_table(part)
        if "_diff" not in table.column_names:
            ones = pa.repeat(pa.scalar(1, pa.int64()), len(table))
            table = table.append_column("_diff", ones)
        tables.append(table.select(UPDATES.names).cast(UPDATES))
    grouped = pa.concat_tables(tables).group_by(SCHEMA.names).aggregate([("_diff", "sum")])
    return grouped.filter(pc.greater(grouped["_diff_sum"], 0))


def _taken(table: pa.Table) -> pa.Table:
    remainder = pc.subtract(
        table["key"],
        pc.multiply(pc.divide(table["key"], TAKEN_SHARE), TAKEN_SHARE),
    )
    return table.filter(pc.equal(remainder, 0))


def _raised(table: pa.Table) -> pa.Table:
    place = table.column_names.index("gust")
    return table.set_column(place, SCHEMA.field("gust"), pc.add(table["gust"], 1.0))
