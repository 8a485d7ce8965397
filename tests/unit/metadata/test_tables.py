"""Tables: assigned, acknowledged, dropped and replayed updates, always like two dicts."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from siltstone.core.errors import CorruptDataError
from siltstone.core.records.table_record import TableEntry, TableRecord, decode_table_record
from siltstone.metadata.assigned_update import AssignedUpdate
from siltstone.metadata.index import Index
from siltstone.metadata.index_rows import Entry
from siltstone.metadata.position import Position
from siltstone.metadata.tables import Tables
from tests.unit.metadata.conftest import LINEAGE

KEYS = [(0, b""), (0, b"k"), (1, b"k"), (1, b"k\0")]
Model = dict[tuple[int, bytes], Entry]


def applied(model: Model, entries: list[TableEntry], version: int) -> Model:
    """The effect of the entries on a dict, without the code under test."""
    after = dict(model)
    for entry in entries:
        key = (entry.table_id, entry.key)
        if entry.range_end is not None:
            for table_id, other in list(after):
                inside = entry.key <= other and (not entry.range_end or other < entry.range_end)
                if table_id == entry.table_id and inside:
                    del after[table_id, other]
        elif entry.value is None:
            after.pop(key, None)
        elif entry.splice_at is None:
            after[key] = Entry(version, entry.value)
        else:
            after[key] = Entry(version, after[key].value[: entry.splice_at] + entry.value)
    return after


class TablesMachine(RuleBasedStateMachine):
    """A model of two dicts, acknowledged and pending, against real tables."""

    def __init__(self) -> None:
        super().__init__()
        self.scratch = tempfile.TemporaryDirectory()
        self.index = Index.open(Path(self.scratch.name) / "a", cache_bytes=1 << 20)
        self.tables = Tables(self.index, LINEAGE)
        self.seen: Model = {}
        self.models: list[Model] = [{}]
        self.waiting: list[AssignedUpdate] = []
        self.log: list[bytes] = []

    @rule(data=st.data(), count=st.integers(1, 4))
    def assign(self, data: st.DataObject, count: int) -> None:
        entries: list[TableEntry] = []
        model = self.models[-1]
        for _ in range(count):
            key = data.draw(st.sampled_from(KEYS))
            if data.draw(st.integers(0, 4)) == 0:
                end = data.draw(st.sampled_from([b"", b"k", b"k\0", b"l"]))
                entries.append(TableEntry(*key, None, range_end=end))
                continue
            value = data.draw(st.none() | st.binary(max_size=4))
            splice_at = None
            known = applied(model, entries, 0).get(key)
            if value is not None and known is not None and data.draw(st.booleans()):
                splice_at = data.draw(st.integers(0, len(known.value)))
            entries.append(TableEntry(*key, value, splice_at))
        start = self.tables.version
        update = self.tables.assign(entries)
        assert update.table_version == start + len(update.record) == self.tables.version
        self.models.append(applied(model, entries, update.table_version))
        self.waiting.append(update)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        count = data.draw(st.integers(1, len(self.waiting)))
        frame, self.waiting = self.waiting[:count], self.waiting[count:]
        self.tables.acknowledge(frame, len(self.log))
        self.log += [update.record for update in frame]
        self.models = self.models[count:]

    @rule()
    def drop(self) -> None:
        self.tables.drop_pending()
        self.waiting.clear()
        self.models = self.models[:1]

    @rule()
    def reopen(self) -> None:
        self.drop()
        self.index.close()
        self.index = Index.open(Path(self.scratch.name) / "a", cache_bytes=1 << 20)
        self.tables = Tables(self.index, LINEAGE)
        for at, record in enumerate(self.log):
            assert not self.tables.replay(decode_table_record(record, where="test"), at)

    @invariant()
    def reads_agree(self) -> None:
        for key in KEYS:
            assert self.tables.get(*key) == self.models[0].get(key)
            assert self.tables.pending(*key) == self.models[-1].get(key)
        assert self.tables.applied_version == sum(map(len, self.log))

    def teardown(self) -> None:
        folder = Path(self.scratch.name) / "b"
        index = Index.open(folder, cache_bytes=1 << 20)
        tables = Tables(index, LINEAGE)
        for at, record in enumerate(self.log):
            assert tables.replay(decode_table_record(record, where="test"), at)
            assert not tables.replay(decode_table_record(record, where="test"), at)
        assert [tables.get(*key) for key in KEYS] == [self.models[0].get(key) for key in KEYS]
        assert tables.applied_crc == self.tables.applied_crc
        index.close()
        self.index.close()
        self.scratch.cleanup()


TestTablesMachine = TablesMachine.TestCase
TestTablesMachine.settings = settings(max_examples=15, stateful_step_count=20)


def put(key: bytes, value: bytes, splice_at: int | None = None) -> TableEntry:
    return TableEntry(1, key, value, splice_at)


def test_pending_is_not_shown(tables: Tables) -> None:
    update = tables.assign([put(b"k", b"v")])
    assert tables.get(1, b"k") is None
    assert tables.scan(1, b"", None) == []
    assert tables.pending(1, b"k") == Entry(update.table_version, b"v")
    tables.acknowledge([update], 4)
    assert tables.scan(1, b"", None) == [(b"k", Entry(update.table_version, b"v"))]


def test_a_pending_removal_hides_what_is_acknowledged(tables: Tables) -> None:
    tables.acknowledge([tables.assign([put(b"k", b"v")])], 0)
    tables.assign([TableEntry(1, b"k", None)])
    assert tables.pending(1, b"k") is None
    assert tables.get(1, b"k") is not None


def remove_range(start: bytes, end: bytes) -> TableEntry:
    return TableEntry(1, start, None, range_end=end)


def test_a_pending_range_removal_hides_what_came_before_it_alone(tables: Tables) -> None:
    tables.acknowledge([tables.assign([put(b"a", b"1"), put(b"c", b"1")])], 0)
    before = tables.assign([put(b"b", b"2")])
    removal = tables.assign([remove_range(b"a", b"c"), put(b"aa", b"3")])
    later = tables.assign([put(b"a", b"4")])
    assert tables.pending(1, b"b") is None
    assert tables.pending(1, b"a") == Entry(later.table_version, b"4")
    assert tables.pending(1, b"aa") == Entry(removal.table_version, b"3")
    assert tables.pending(1, b"c") is not None
    tables.acknowledge([before], 1)
    assert tables.pending(1, b"b") is None
    tables.acknowledge([removal], 2)
    assert [key for key, _ in tables.scan(1, b"", None)] == [b"aa", b"c"]
    tables.drop_pending()
    assert tables.pending(1, b"a") is None
    assert tables.pending(1, b"b") is None


def test_a_lost_range_removal_removes_nothing(tables: Tables) -> None:
    tables.acknowledge([tables.assign([put(b"a", b"1")])], 0)
    tables.assign([remove_range(b"", b"")])
    assert tables.pending(1, b"a") is None
    tables.drop_pending()
    assert tables.pending(1, b"a") == tables.get(1, b"a")


def test_a_splice_sees_the_range_removal_before_it(tables: Tables) -> None:
    tables.acknowledge([tables.assign([put(b"k", b"abc")])], 0)
    with pytest.raises(ValueError, match="splice"):
        tables.assign([remove_range(b"", b""), put(b"k", b"d", 1)])
    tables.assign([remove_range(b"", b"")])
    with pytest.raises(ValueError, match="splice"):
        tables.assign([put(b"k", b"d", 1)])
    tables.drop_pending()
    tables.assign([remove_range(b"k", b"k\0"), put(b"k", b"xyz"), put(b"k", b"d", 1)])
    found = tables.pending(1, b"k")
    assert found is not None
    assert found.value == b"xd"


def test_the_position_goes_along(index: Index, tables: Tables) -> None:
    updates = [tables.assign([put(b"k", b"v")]), tables.assign([])]
    tables.acknowledge(updates, 41)
    assert index.position is not None
    assert index.position.log_index == 42
    assert index.position.version == tables.version == tables.applied_version
    assert index.position.running_crc == tables.running_crc == tables.applied_crc
    tables.acknowledge([], 50)
    assert index.position.log_index == 42


def test_a_replayed_frame_counts_as_done_when_a_later_one_begins(index: Index) -> None:
    source = Tables(index, LINEAGE)
    records = [source.assign([put(b"%d" % n, b"v")]).record for n in range(2)]
    source.drop_pending()
    for record in records:
        assert source.replay(decode_table_record(record, where="test"), 6)
        assert index.position is not None
        assert index.position.log_index == 6


def test_splices_keep_a_head(tables: Tables) -> None:
    update = tables.assign([put(b"k", b"head-tail"), put(b"k", b"TAIL!", 5), put(b"k", b"x", 7)])
    assert tables.pending(1, b"k") == Entry(update.table_version, b"head-TAx")
    second = tables.assign([put(b"k", b"", 4)])
    tables.acknowledge([update, second], 0)
    assert tables.get(1, b"k") == Entry(second.table_version, b"head")


@pytest.mark.parametrize("first", [None, b"ab"])
def test_a_splice_beyond_its_value_changes_nothing(tables: Tables, first: bytes | None) -> None:
    if first is not None:
        tables.assign([put(b"k", first)])
    before = (tables.version, tables.running_crc, tables.pending(1, b"k"))
    with pytest.raises(ValueError, match="splice"):
        tables.assign([put(b"other", b"v"), put(b"k", b"v", 3)])
    assert (tables.version, tables.running_crc, tables.pending(1, b"k")) == before
    assert tables.pending(1, b"other") is None


def test_replay_refuses_what_does_not_continue(tables: Tables) -> None:
    updates = [tables.assign([put(b"k", b"%d" % n)]) for n in range(3)]
    records = [decode_table_record(update.record, where="test") for update in updates]
    tables.drop_pending()
    with pytest.raises(CorruptDataError, match="gap"):
        tables.replay(records[1])
    assert tables.replay(records[0])
    other = tables.assign([put(b"k", b"?")])
    tables.drop_pending()
    assert tables.replay(decode_table_record(other.record, where="test"))
    with pytest.raises(CorruptDataError, match="running sum"):
        tables.replay(records[2])
    with pytest.raises(CorruptDataError, match="differs"):
        tables.replay(records[1])
    assert not tables.replay(records[0])


def test_replay_refuses_a_splice_of_nothing(tables: Tables, tmp_path: Path) -> None:
    tables.acknowledge([tables.assign([put(b"k", b"abc")])], 0)
    update = tables.assign([put(b"k", b"d", 3)])
    index = Index.open(tmp_path / "other")
    other = Tables(index, LINEAGE)
    filler = TableEntry(1, b"j", b"abc")
    other.acknowledge([other.assign([filler])], 0)
    record = decode_table_record(update.record, where="test")
    index.apply([], Position(LINEAGE, tables.applied_version, tables.applied_crc, 0))
    with pytest.raises(CorruptDataError, match="splice"):
        Tables(index, LINEAGE).replay(record)
    index.close()


def test_acknowledging_out_of_order_is_a_defect(tables: Tables) -> None:
    tables.assign([put(b"a", b"1")])
    second = tables.assign([put(b"b", b"2")])
    with pytest.raises(AssertionError):
        tables.acknowledge([second], 0)


def test_an_index_of_another_lineage_is_a_defect(index: Index, tables: Tables) -> None:
    tables.acknowledge([tables.assign([put(b"a", b"1")])], 0)
    with pytest.raises(AssertionError):
        Tables(index, b"another-lineage!")


def random_records(source: Tables, count: int, seed: int) -> tuple[list[TableRecord], list[Model]]:
    """Records of puts, removals, splices and ranges, and the rows after each."""
    chance = Random(seed)
    keys = [b"%02d" % number for number in range(12)]
    records: list[TableRecord] = []
    models: list[Model] = [{}]
    for number in range(count):
        model = models[-1]
        entries: list[TableEntry] = []
        for _ in range(chance.randint(1, 3)):
            key = chance.choice(keys)
            there = applied(model, entries, 0)
            kind = chance.random()
            if kind < 0.5:
                entries.append(put(key, b"value %d" % number))
            elif kind < 0.7 and (1, key) in there:
                entries.append(put(key, b"!", chance.randint(0, len(there[1, key].value))))
            elif kind < 0.85:
                entries.append(TableEntry(1, key, None))
            else:
                entries.append(TableEntry(1, key, None, range_end=chance.choice([*keys, b""])))
        update = source.assign(entries)
        source.acknowledge([update], number)
        records.append(decode_table_record(update.record, where="test"))
        models.append(applied(model, entries, update.table_version))
    return records, models


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("together", [1, 3, 50, 1_000])
def test_many_records_replayed_together_are_what_each_alone_is(
    tables: Tables, tmp_path: Path, together: int, seed: int
) -> None:
    records, models = random_records(tables, 200, seed)
    index = Index.open(tmp_path / "replayed")
    replayed = Tables(index, LINEAGE)
    for begin in range(0, len(records), together):
        some = records[begin : begin + together]
        replayed.replay_all(
            (record, None) for record in [*records[max(0, begin - 1) : begin], *some]
        )
        assert {(1, key): entry for key, entry in replayed.scan(1, b"", None)} == models[
            begin + len(some)
        ]
        assert replayed.applied_version == some[-1].table_version
    assert replayed.applied_crc == tables.applied_crc
    assert index.position is not None
    assert index.position.version == tables.applied_version
    index.close()


def test_what_stands_before_damage_is_replayed(tables: Tables, tmp_path: Path) -> None:
    records, models = random_records(tables, 20, seed=1)
    index = Index.open(tmp_path / "replayed")
    replayed = Tables(index, LINEAGE)
    with pytest.raises(CorruptDataError, match="gap"):
        replayed.replay_all((record, None) for record in [*records[:12], records[13]])
    assert {(1, key): entry for key, entry in replayed.scan(1, b"", None)} == models[12]
    assert replayed.applied_version == replayed.version == records[11].table_version
    assert replayed.replay(records[12])
    index.close()
