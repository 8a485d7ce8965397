"""Typed reads and changes of metadata rows agree, acknowledged and pending."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import rocksdict

from siltstone.core.constants import BLOCK_BYTES, GROUP_BLOCKS
from siltstone.core.errors import CorruptDataError
from siltstone.core.records.block_sums import BlockSumsPatch
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent
from siltstone.core.records.keys import METADATA_TABLE, CounterKind, chunk_key, state_key
from siltstone.core.records.layout import Layout
from siltstone.core.records.segment_state import SegmentState
from siltstone.core.records.table_record import TableEntry
from siltstone.core.records.task import Task, TaskKind, TaskStage
from siltstone.core.records.tombstone import Tombstone
from siltstone.core.records.writer_row import WriterRow
from siltstone.metadata import changes, index_rows
from siltstone.metadata.index import Index
from siltstone.metadata.rows import Rows
from siltstone.metadata.tables import Tables

CHUNK = Chunk(chunk_id=5, name="data/x", epoch=2, length=10)
WRITER = WriterRow(segment_id=1, number=3, name="loader", used_ms=9)


def commit(tables: Tables, *entries: TableEntry | Sequence[TableEntry]) -> int:
    flat = [
        one for entry in entries for one in ([entry] if isinstance(entry, TableEntry) else entry)
    ]
    update = tables.assign(flat)
    tables.acknowledge([update], 0)
    return update.table_version


def test_nothing_is_there_at_first(rows: Rows) -> None:
    absent: list[object] = [
        rows.find("a"),
        rows.state(1),
        rows.chunk(1),
        rows.floor(1, 5),
        rows.tombstone("a"),
    ]
    absent += [rows.writer(1, 1), rows.table_id("t")]
    assert not any(absent)
    assert rows.layout(4) == rows.pending_layout(4) == Layout(segment_id=4)
    assert rows.sums(1, 0) == ()
    assert not [*rows.extents(1, 0, 9, 9), *rows.writers(1), *rows.tasks(9)]
    assert rows.segments() == rows.table_names() == []
    assert {rows.counter(kind) for kind in CounterKind} == {1}


def test_what_is_put_is_read_and_removed(tables: Tables, rows: Rows) -> None:
    state = SegmentState(segment_id=1, name="a", sealed_length=4, created_ms=3)
    layout = Layout(segment_id=1, storage_length=4, last_chunk_id=5)
    tombstone = Tombstone(name="b", source_id=2, target_id=1, offset=0, length=4, made_ms=1)
    update = tables.assign(
        [
            changes.put_name("a", 1),
            changes.put_state(state),
            changes.put_layout(layout),
            changes.put_chunk(CHUNK),
            *changes.put_writer(WRITER),
            changes.put_table("t", 8),
            changes.put_tombstone(tombstone),
            changes.put_counter(CounterKind.SEGMENT_ID, 17),
        ]
    )
    assert not any([rows.find("a"), rows.state(1), rows.chunk(5), rows.writer(1, 3)])
    assert rows.pending_find("a") == 1
    assert rows.pending_state(1) == state
    assert rows.pending_layout(1) == layout
    assert rows.pending_chunk(5) == CHUNK
    assert rows.pending_writer(1, 3) == WRITER
    assert rows.pending_writer_number(1, "loader") == 3
    assert rows.pending_table_id("t") == 8
    assert rows.pending_tombstone("b") == tombstone
    assert rows.pending_counter(CounterKind.SEGMENT_ID) == 17
    tables.acknowledge([update], 0)
    assert (rows.find("a"), rows.state(1), rows.layout(1)) == (1, state, layout)
    assert (rows.chunk(5), rows.writer(1, 3)) == (CHUNK, WRITER)
    assert rows.pending_writer_number(1, "loader") == 3
    assert (rows.table_id("t"), rows.tombstone("b")) == (8, tombstone)
    assert rows.counter(CounterKind.SEGMENT_ID) == 17
    commit(
        tables,
        changes.remove_name("a"),
        changes.remove_state(1),
        changes.remove_layout(1),
        changes.remove_chunk(CHUNK),
        changes.remove_writer(WRITER),
        changes.remove_tombstone("b"),
    )
    assert [key[0] for key, _ in tables.scan(METADATA_TABLE, b"", None)] == [10, 12]


def extent(segment_id: int, start: int, length: int) -> Extent:
    return Extent(segment_id=segment_id, start=start, chunk_id=1, chunk_offset=start, length=length)


@pytest.mark.slow
def test_extents_are_found_by_range(tables: Tables, rows: Rows) -> None:
    mine = [extent(7, 100, 50), extent(7, 150, 1), extent(7, 151, 49)]
    others = [extent(6, 2**40, 5), extent(8, 0, 5)]
    commit(tables, [changes.put_extent(one) for one in mine + others])
    assert rows.floor(7, 99) is None
    assert [rows.floor(7, at) for at in (100, 149, 150, 151, 10**15)] == [
        mine[0],
        mine[0],
        mine[1],
        mine[2],
        mine[2],
    ]
    for start in range(95, 205):
        for end in range(start, 205):
            expected = [one for one in mine if one.start < end and one.end > start and start < end]
            assert rows.extents(7, start, end, 9) == expected
            assert rows.extents(7, start, end, 1) == expected[:1]
    commit(tables, changes.remove_extent(mine[0]))
    assert rows.extents(7, 0, 10**15, 9) == mine[1:]


def test_an_extent_is_located_by_one_seek(
    index: Index, tables: Tables, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there are, and however many were removed next to it."""
    count = 2_000
    many = [extent(7, 10 * number, 10) for number in range(count)]
    for number in range(0, count, 500):
        commit(tables, [changes.put_extent(one) for one in many[number : number + 500]])
    commit(tables, [changes.remove_extent(one) for one in many[:500]])
    steps: list[str] = []

    class Counting:
        """An iterator that notes its steps."""

        def __init__(self, rows: rocksdict.RdictIter) -> None:
            self._rows = rows

        def __getattr__(self, name: str) -> object:
            call = getattr(self._rows, name)
            if name not in ("seek", "seek_for_prev", "next", "prev"):
                return call

            def noted(*rest: object) -> object:
                steps.append(name)
                return call(*rest)

            return noted

    walk = index_rows.walk_backward
    monkeypatch.setattr(
        "siltstone.metadata.index.walk_backward",
        lambda rows, *rest: walk(Counting(rows), *rest),  # type: ignore[arg-type]
    )
    forward = index_rows.walk_forward
    monkeypatch.setattr(
        "siltstone.metadata.index.walk_forward",
        lambda rows, *rest: forward(Counting(rows), *rest),  # type: ignore[arg-type]
    )
    for number in (500, 501, 1_234, count - 1):
        for start, end, limit in ((0, 10, 9), (3, 4, 9), (9, 10_000, 1)):
            steps.clear()
            found = rows.extents(7, 10 * number + start, 10 * number + end, limit)
            assert found == [many[number]]
            assert steps == ["seek_for_prev"]
        steps.clear()
        assert rows.floor(7, 10 * number + 5) == many[number]
        assert steps == ["seek_for_prev"]


def test_names_are_listed_in_pages(tables: Tables, rows: Rows) -> None:
    names = ["a", "a/b", "a/b/c", "aé", "b"]
    commit(tables, [changes.put_name(name, at) for at, name in enumerate(names, 1)])
    commit(tables, changes.put_table("a/t", 9))
    assert [name for name, _ in rows.segments()] == names
    assert rows.segments("a/") == [("a/b", 2), ("a/b/c", 3)]
    assert rows.segments("a", "a/b", 2) == [("a/b/c", 3), ("aé", 4)]
    assert rows.segments("a", "A") == rows.segments("a")
    assert rows.segments("a", "b") == []
    assert rows.table_names("a") == [("a/t", 9)]
    assert rows.table_names("a", "a/t") == []


def test_all_tasks_come_page_by_page(tables: Tables, rows: Rows) -> None:
    """Due or not, each comes once; tasks that are removed before their page do not come."""
    kind = TaskKind.DELETE_CHUNK
    tasks = [
        Task(due_ms=due, kind=kind, subject=subject, name="x")
        for due in (1, 2**40, 2**62)
        for subject in range(1, 701)
    ]
    for at in range(0, len(tasks), 700):
        commit(tables, [changes.put_task(task) for task in tasks[at : at + 700]])
    pages = list(rows.task_pages())
    assert [len(page) for page in pages] == [1_000, 1_000, 100]
    assert [(t.due_ms, t.subject) for page in pages for t in page] == [
        (task.due_ms, task.subject) for task in tasks
    ]
    walk = rows.task_pages()
    assert len(next(walk)) == 1_000
    commit(tables, [changes.remove_task(task) for task in tasks[1_000:1_600]])
    assert [len(page) for page in walk] == [500]


def test_all_names_and_entries_come_page_by_page(rows: Rows, tables: Tables) -> None:
    names = [f"s{index:04}" for index in range(1_100)]
    for at in range(0, len(names), 550):
        some = enumerate(names[at : at + 550], at + 1)
        commit(tables, [changes.put_name(name, segment_id) for segment_id, name in some])
    pages = list(rows.segment_pages())
    assert [len(page) for page in pages] == [1_000, 100]
    assert [name for page in pages for name, _ in page] == names
    keys = [index.to_bytes(2, "big") for index in range(1_100)]
    commit(tables, [TableEntry(table_id=5, key=key, value=b"v") for key in keys])
    walk = tables.pages(5, keys[50], keys[1_099])
    first = [key for key, _ in next(walk)]
    commit(tables, [TableEntry(table_id=5, key=keys[1_098], value=None)])
    assert first + [key for page in walk for key, _ in page] == keys[50:1_098]


def test_a_walk_ends_at_the_borders_of_its_range(tables: Tables) -> None:
    commit(tables, [TableEntry(table_id=5, key=bytes((key,)), value=b"v") for key in range(1, 9)])
    for low in range(1, 10):
        for high in range(low, 10):
            there = [bytes((key,)) for key in range(low, min(high, 9))]
            for reverse in (False, True):
                found = tables.scan(5, bytes((low,)), bytes((high,)), reverse=reverse)
                assert [key for key, _ in found] == (there[::-1] if reverse else there)


def test_tasks_come_when_they_are_due(tables: Tables, rows: Rows) -> None:
    tasks = [
        Task(due_ms=due, kind=TaskKind.DELETE_CHUNK, subject=subject, name="x")
        for due, subject in ((5, 2), (5, 9), (6, 1), (2**40, 1))
    ]
    version = commit(tables, [changes.put_task(task) for task in reversed(tasks)])
    assert [task.subject for task in rows.tasks(5)] == [2, 9]
    assert [task.due_ms for task in rows.tasks(2**41)] == [5, 5, 6, 2**40]
    assert rows.tasks(4) == []
    assert {task.dropped_version for task in rows.tasks(9)} == {version}
    first, second = rows.tasks(6, limit=2)
    assert [task.due_ms for task in rows.tasks(6, after=second)] == [6]
    stated = Task(
        due_ms=5,
        kind=first.kind,
        subject=2,
        name="x",
        stage=TaskStage.STATED,
        dropped_version=first.dropped_version,
    )
    commit(tables, changes.put_task(stated), changes.remove_task(second))
    assert rows.tasks(5) == [stated]


def test_writers_are_listed_and_advance(tables: Tables, rows: Rows) -> None:
    others = [
        WriterRow(segment_id=1, number=900, name="z"),
        WriterRow(segment_id=2, number=4, name="l"),
    ]
    commit(tables, *[changes.put_writer(row) for row in (WRITER, *others)])
    later = WriterRow(
        segment_id=1, number=3, name="loader", sequence=70, offset=1000, length=10, used_ms=99
    )
    commit(tables, changes.advance_writer(later))
    assert rows.writers(1) == [later, others[0]]
    assert rows.writers(1, limit=1) == [later]


def test_a_chunk_grows_by_its_tail(tables: Tables, rows: Rows) -> None:
    commit(tables, changes.put_chunk(CHUNK))
    grown = Chunk(chunk_id=5, name="data/x", epoch=2, length=10**12, closed=True, references=2)
    entry = tables.get(METADATA_TABLE, chunk_key(5))
    assert entry is not None
    commit(tables, changes.change_chunk(grown, entry.value))
    assert rows.chunk(5) == grown
    renamed = Chunk(chunk_id=5, name="data/y", epoch=2, length=11)
    with pytest.raises(AssertionError):
        changes.change_chunk(renamed, entry.value)


def test_sums_are_patched(tables: Tables, rows: Rows) -> None:
    def patch(first: int, *sums: int) -> TableEntry:
        return changes.put_sums(BlockSumsPatch(chunk_id=5, group=1, first_block=first, sums=sums))

    commit(tables, patch(0, 1, 2, 3))
    commit(tables, patch(2, 33, 4))
    assert rows.sums(5, 1) == (1, 2, 33, 4)
    commit(tables, patch(1, 22))
    assert rows.sums(5, 1) == (1, 22)
    with pytest.raises(ValueError, match="splice"):
        tables.assign([patch(3, 9)])


def test_all_sums_go_with_a_chunk(tables: Tables) -> None:
    group_bytes = BLOCK_BYTES * GROUP_BLOCKS
    for length, groups in ((1, 1), (group_bytes, 1), (group_bytes + 1, 2)):
        chunk = Chunk(chunk_id=5, name="x", epoch=1, length=length)
        assert len(changes.remove_chunk(chunk)) == 1 + groups


def test_a_damaged_row_is_named(tables: Tables, rows: Rows) -> None:
    commit(tables, TableEntry(METADATA_TABLE, state_key(3), b"\x02\x01\x00\xff"))
    with pytest.raises(CorruptDataError, match="state of segment 3"):
        rows.state(3)
