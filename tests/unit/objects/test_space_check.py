"""A check tells what is wrong with a keyspace, of which object, and nothing where all is well."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone import objects
from siltstone.container.models.segments import Finding
from siltstone.objects.open_space import OpenSpace
from siltstone.objects.records import keys
from siltstone.objects.records.footer import key_hash
from siltstone.objects.records.head import Head, decode_head, encode_head
from siltstone.objects.records.keys import IndexEntry, ObjectKey
from siltstone.objects.records.rebuild_rows import (
    Doubt,
    Rebuild,
    RebuildPhase,
    encode_doubt,
    encode_rebuild,
)
from siltstone.objects.records.space_rows import (
    SpaceState,
    decode_manifest_row,
    decode_state,
    encode_index_entry,
    encode_manifest_row,
    encode_state,
    encode_task,
)
from siltstone.objects.snapshots import LedgerSnapshots
from siltstone.objects.space_check import SpaceCheck
from siltstone.objects.space_names import FATE_ATTRIBUTE, SegmentFate
from tests.support.objects.rebuilt import all_sealed, bytes_at, flip_all
from tests.support.objects.small_segments import NAME, small_keyspace, store_for_keyspaces

Rows = dict[bytes, bytes]
Change = Callable[[Rows], None]

EXPIRES_S = 4_000_000_000
OBJECT = ObjectKey(b"o", b"b", b"k23")
"""In a sealed segment: it has a term, and expires."""

CITY = IndexEntry(b"city", b"oslo")
RIVAL = ObjectKey(b"o", b"b", b"k9")


async def fill(keyspace: objects.AsyncKeyspace) -> None:
    """Put some objects into two sealed segments and the active one; some are replaced or gone."""
    for number in range(50):
        ttl_s = 1_000_000 if number % 20 == 3 else None
        index = {"city": ["oslo"]} if number % 4 == 3 else None
        await keyspace.put("b", f"k{number % 40}", b"v" * 50, index=index, ttl_s=ttl_s)
    await keyspace.delete("b", "k1")
    await keyspace.put("b", "k2", b"with headers kept", tag="log")


async def found(store: siltstone.AsyncStore, *, deep: bool = True) -> list[tuple[str, str, str]]:
    return [as_tuple(each) async for each in objects.check_async(store, NAME, deep=deep)]


def as_tuple(finding: Finding) -> tuple[str, str, str]:
    return finding.severity, finding.where, finding.message


async def change_rows(space: OpenSpace, change: Change) -> None:
    """Change rows of the ledger as no verb does."""
    table = space.parts.store.table(space.parts.names.ledger)
    before = {key: row.value async for key, row in table.scan()}
    after = dict(before)
    change(after)
    await table.update(
        {key: after.get(key) for key in {*before, *after} if before.get(key) != after.get(key)}
    )


# --- what is well ---------------------------------------------------------------------------------


async def test_nothing_is_found_where_all_is_well(tmp_path: Path) -> None:
    folder = store_for_keyspaces(tmp_path)
    shares: list[float] = []
    async with small_keyspace(folder) as (store, keyspace, space):
        await fill(keyspace)
        await all_sealed(space)
        assert await found(store) == []
        await store.flush()
        while (await keyspace.compact()).run:
            pass
        told = keyspace.check(deep=True, progress=shares.append)
        assert [each async for each in told] == []
    async with await siltstone.open_async(folder, read_only=True) as reader:
        assert await found(reader) == []
    assert shares == sorted(shares)
    assert shares[-1] == 1


async def test_a_check_holds_while_objects_change(tmp_path: Path) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (store, keyspace, space):
        await fill(keyspace)
        await all_sealed(space)
        told = keyspace.check(deep=True)
        puts = [keyspace.put("b", f"k{number % 7}", b"new" * 30) for number in range(100)]
        assert [each async for each in told] == []
        await asyncio.gather(*puts)
        assert await found(store) == []


async def test_a_segment_that_is_compacted_away_meanwhile_is_not_lost(tmp_path: Path) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (store, keyspace, space):
        await fill(keyspace)
        for number in range(40):
            await keyspace.put("b", f"k{number}", b"newer")
        await all_sealed(space)
        await store.flush()
        unseen = LedgerSnapshots(store.table(space.parts.names.ledger))
        held = await unseen.take(60)
        assert (await keyspace.compact()).run
        check = SpaceCheck(store, space.parts.names, held.taken, lambda _: None)
        told = [each async for each in check.findings(deep=True)]
        held.release()
        assert {each.severity for each in told} == {"warning"}
        assert all("check again" in each.message for each in told)


async def test_changes_after_the_moment_of_a_check_are_no_damage(tmp_path: Path) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (store, keyspace, space):
        await fill(keyspace)
        for count in (1, 60):  # in the same segment, and in others
            await all_sealed(space)
            held = await space.parts.snapshots.take(60)
            for number in range(count):
                await keyspace.put("b", f"k{number}", b"newer")
            check = SpaceCheck(store, space.parts.names, held.taken, lambda _: None)
            assert [each async for each in check.findings(deep=True)] == []
            held.release()


async def test_a_keyspace_that_is_not_there_is_told(tmp_path: Path) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (store, _, _):
        for name in ("none", "half"):
            with pytest.raises(objects.KeyspaceNotFoundError, match=f"keyspace={name}"):
                [each async for each in objects.check_async(store, name)]
            await store.create_table("objects/{half}/ledger", exist_ok=True)


# --- rows -----------------------------------------------------------------------------------------


def changed_head(**fields: Any) -> Change:
    def change(rows: Rows) -> None:
        row_key = keys.head_key(OBJECT)
        head = decode_head(rows[row_key], where="head")
        rows[row_key] = encode_head(head._replace(**fields))

    return change


def without(row_key: bytes) -> Change:
    return lambda rows: rows.__delitem__(row_key)


def with_row(row_key: bytes, value: bytes) -> Change:
    return lambda rows: rows.update({row_key: value})


def expiry(rows: Iterable[bytes]) -> bytes:
    (row_key,) = (key for key in rows if key.startswith(keys.EXPIRY) and b"k23" in key)
    return row_key


def later(rows: Rows) -> None:
    """Its row says that it expires a second later."""
    rows.pop(expiry(rows))
    rows[keys.expiry_key(OBJECT, EXPIRES_S)] = b""


def changed_state(**fields: int) -> Change:
    def change(rows: Rows) -> None:
        state = decode_state(rows[keys.STATE], where="state")
        rows[keys.STATE] = encode_state(replace(state, **fields))

    return change


def changed_manifest(first_sqn: int, **fields: Any) -> Change:
    def change(rows: Rows) -> None:
        row_key = keys.manifest_key(first_sqn)
        row = decode_manifest_row(first_sqn, rows[row_key], where="manifest")
        rows[row_key] = encode_manifest_row(replace(row, **fields))

    return change


INDEX_KEY = keys.index_keys(OBJECT, [CITY])[0]
STRAY_KEY = keys.index_keys(RIVAL, [IndexEntry(b"city", b"bergen")])[0]
ABSENT_KEY = keys.index_keys(ObjectKey(b"o", b"b", b"no\n"), [CITY])[0]
OF_OBJECT = f"keyspace={NAME} tag=o bucket=b key=k23"
SEGMENT = f"objects/{{{NAME}}}/values/0000000"

ROWS: dict[str, tuple[Change, str, str, str]] = {
    "an index row is missing": (without(INDEX_KEY), "damage", OF_OBJECT, "not found under"),
    "an index row expires": (
        with_row(INDEX_KEY, encode_index_entry(5)), "damage", OF_OBJECT, "at another time"
    ),
    "an index row is cut": (with_row(INDEX_KEY, b"\x05"), "damage", "key=k23", "row"),
    "an index row is foreign": (
        with_row(STRAY_KEY, encode_index_entry(0)), "damage", "key=k9", "'bergen' of 'city'"
    ),
    "an index row finds nothing": (
        with_row(ABSENT_KEY, encode_index_entry(0)), "damage", "key=no\n", "and has none"
    ),
    "no row says that it expires": (
        lambda rows: rows.__delitem__(expiry(rows)), "warning", OF_OBJECT, "never removed"
    ),
    "it expires at another time": (later, "warning", OF_OBJECT, f"expires at {EXPIRES_S}"),
    "a head is cut": (
        lambda rows: rows.update({keys.head_key(OBJECT): b"\x01\x01"}),
        "damage", "bucket=b key=k23", "head is cut",
    ),
    "a key has no end": (with_row(keys.HEAD + b"x", b""), "damage", "row=1078", "count of parts"),
    "a head is from the future": (
        changed_head(sqn=1_000), "damage", OF_OBJECT, "from the future: next_sqn=53 sqn=1000"
    ),
    "a place is beyond the records": (
        changed_head(offset=1 << 40), "damage", OF_OBJECT, f"beyond the end of those of {SEGMENT}2"
    ),
    "a place is in another segment": (
        changed_head(number=1), "damage", OF_OBJECT, f"{SEGMENT}1, which has other changes"
    ),
    "a kind is unknown": (with_row(b"\x77x", b""), "warning", "ledger", "unknown kind: key=7778"),
    "the state is missing": (without(keys.STATE), "damage", NAME, "keyspace has no state"),
    "the state is cut": (with_row(keys.STATE, b"\x03"), "damage", NAME, "row about the keyspace"),
    "a manifest row is missing": (
        without(keys.manifest_key(21)), "damage", OF_OBJECT, "no value segment has its change"
    ),
    "a segment is needed and is to go": (
        with_row(keys.task_key(1), encode_task(0)), "damage", f"{SEGMENT}1", "is to be deleted"
    ),
    "a segment is there twice": (
        changed_manifest(21, number=1), "damage", NAME, "a value segment twice"
    ),
    "segments overlap": (changed_manifest(1, last_sqn=30), "damage", f"{SEGMENT}2", "sqn=21"),
    "a segment has too many records": (
        changed_manifest(1, records=21), "damage", f"{SEGMENT}1", "so many"
    ),
    "a segment is shorter": (
        changed_manifest(1, length=1 << 30), "damage", f"{SEGMENT}1", "ends before its records"
    ),
    "a footer ends elsewhere": (
        changed_manifest(1, footer_end=1 << 30), "damage", f"{SEGMENT}1", "end with its footer"
    ),
    "the number of the next segment is used": (
        changed_state(number=1, next_number=2), "damage", f"{SEGMENT}2", "from the future"
    ),
}  # fmt: skip


@pytest.mark.parametrize("wrong", sorted(ROWS))
async def test_rows_that_do_not_fit_are_told(tmp_path: Path, wrong: str) -> None:
    change, severity, where, message = ROWS[wrong]
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (store, keyspace, space):
        await fill(keyspace)
        await all_sealed(space)
        await change_rows(space, change)
        told = await found(store, deep=False)
        assert any(
            each[0] == severity and where in each[1] and message in each[2] for each in told
        ), told


async def test_an_object_whose_head_is_gone_is_told_by_its_record(tmp_path: Path) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (store, keyspace, space):
        await fill(keyspace)
        await all_sealed(space)
        await change_rows(space, without(keys.head_key(ObjectKey(b"o", b"b", b"k20"))))
        assert await found(store, deep=False) == []
        (told,) = await found(store)
        where = f"keyspace={NAME} tag=o bucket=b key=k20"
        assert told == ("damage", where, "it has a record and no head sqn=21")


@pytest.mark.parametrize("is_named", [True, False])
async def test_a_doubtful_object_has_a_record_and_no_head(tmp_path: Path, is_named: bool) -> None:
    key = ObjectKey(b"o", b"b", b"k20")
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (store, keyspace, space):
        await fill(keyspace)
        await all_sealed(space)
        await change_rows(space, without(keys.head_key(key)))
        row = keys.doubtful_key(key_hash(key), key if is_named else None)
        await change_rows(space, with_row(row, encode_doubt(Doubt(number=1, last_sqn=5))))
        assert {each[0] for each in await found(store)} <= {"warning"}


# --- segments -------------------------------------------------------------------------------------


async def test_segments_that_are_gone_cut_grown_or_not_named_are_told(tmp_path: Path) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (store, keyspace, space):
        await fill(keyspace)
        await all_sealed(space)
        await store.segment(f"{SEGMENT}1").delete()
        await store.segment(f"{SEGMENT}2").truncate(5)
        await store.segment(f"{SEGMENT}3").append(b"something else")
        await change_rows(space, changed_state(next_number=9))
        await store.create(f"{SEGMENT}7")
        await store.create(f"{SEGMENT}x")
        told = await found(store, deep=False)
        assert [(each[0], each[1]) for each in told] == [
            ("damage", f"{SEGMENT}1"),
            ("damage", f"{SEGMENT}2"),
            ("damage", f"{SEGMENT}3"),
            ("garbage", f"{SEGMENT}7"),
            ("warning", f"{SEGMENT}x"),
        ]
        assert "gone" in told[0][2]
        assert "truncated start=5" in told[1][2]
        assert "something else appended" in told[2][2]


async def test_a_keyspace_that_does_not_open_is_checked(tmp_path: Path) -> None:
    folder = store_for_keyspaces(tmp_path)
    async with small_keyspace(folder) as (store, keyspace, space):
        await fill(keyspace)
        await change_rows(space, without(keys.STATE))
    async with await siltstone.open_async(folder, read_only=True) as store:
        with pytest.raises(siltstone.CorruptDataError):
            await objects.open_async(store, NAME)
        (told,) = await found(store)
        assert told[:2] == ("damage", NAME)


# --- records --------------------------------------------------------------------------------------


async def damage_at(folder: Path, store: siltstone.AsyncStore, number: int, at: int) -> None:
    await store.flush()
    flip_all(folder, [await bytes_at(store, f"{SEGMENT}{number}", at)])


async def head_of(space: OpenSpace, key: ObjectKey) -> Head:
    head = await space.parts.ledger.head(key)
    assert head is not None
    return head


@pytest.mark.parametrize("part", ["header", "value"])
async def test_a_damaged_record_is_told_and_its_neighbours_are_not(
    tmp_path: Path, part: str
) -> None:
    """It is in a sealed segment, whose footer says where the records are."""
    folder = store_for_keyspaces(tmp_path)
    async with small_keyspace(folder) as (store, keyspace, space):
        await fill(keyspace)
        await all_sealed(space)
        head = await head_of(space, ObjectKey(b"o", b"b", b"k12"))
        at = head.offset + (30 if part == "header" else head.length - 9)
        await damage_at(folder, store, head.number, at)
    async with await siltstone.open_async(folder) as store:
        assert await found(store, deep=False) == []
        (told,) = await found(store)
        assert told[:2] == ("damage", f"keyspace={NAME} tag=o bucket=b key=k12")
        assert "its value is lost" in told[2]
        assert f"sqn={head.sqn}" in told[2]


async def test_a_damaged_record_that_nothing_reads_is_a_warning(tmp_path: Path) -> None:
    folder = store_for_keyspaces(tmp_path)
    async with small_keyspace(folder) as (store, keyspace, space):
        await fill(keyspace)
        await all_sealed(space)
        old = await head_of(space, ObjectKey(b"o", b"b", b"k12"))
        await keyspace.put("b", "k12", b"newer")
        await damage_at(folder, store, old.number, old.offset + old.length - 9)
    async with await siltstone.open_async(folder) as store:
        ((severity, where, message),) = await found(store)
        assert (severity, where) == ("warning", f"keyspace={NAME} tag=o bucket=b key=k12")
        assert "that nothing reads" in message


async def test_damage_in_the_segment_that_takes_records_names_what_it_costs(
    tmp_path: Path,
) -> None:
    folder = store_for_keyspaces(tmp_path)
    async with small_keyspace(folder) as (store, keyspace, space):
        await fill(keyspace)
        await all_sealed(space)
        head = await head_of(space, ObjectKey(b"o", b"b", b"k5"))
        await damage_at(folder, store, head.number, head.offset + 30)
    async with await siltstone.open_async(folder) as store:
        told = await found(store)
        assert [each[:2] for each in told] == [
            ("damage", f"{SEGMENT}{head.number}"),
            ("damage", f"keyspace={NAME} tag=o bucket=b key=k5"),
        ]
        assert "no record can be told apart from here on" in told[0][2]


@pytest.mark.parametrize("back", [5, 60, 900])
async def test_a_damaged_footer_is_told(tmp_path: Path, back: int) -> None:
    folder = store_for_keyspaces(tmp_path)
    async with small_keyspace(folder) as (store, keyspace, space):
        await fill(keyspace)
        await all_sealed(space)
        end = (await space.parts.manifest.now()).rows[0].footer_end
        await damage_at(folder, store, 1, end - back)
    async with await siltstone.open_async(folder) as store:
        (told,) = await found(store)
        assert told[:2] == ("damage", f"{SEGMENT}1")
        assert "footer is damaged" in told[2]


async def test_a_footer_that_is_whole_and_another_one_is_told(tmp_path: Path) -> None:
    """It says another ``as_of`` than the manifest."""
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (store, keyspace, space):
        await fill(keyspace)
        await all_sealed(space)
        await change_rows(space, changed_manifest(1, as_of=5))
        unsaid, footer = await found(store)
        assert unsaid[:2] == ("warning", f"{SEGMENT}1")
        assert unsaid[2].startswith("a rebuild would leave it out")
        assert footer == ("damage", f"{SEGMENT}1", "its footer is not that of its records")


async def test_a_segment_that_a_rebuild_would_leave_out_is_told(tmp_path: Path) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (store, keyspace, space):
        await fill(keyspace)
        await all_sealed(space)
        replaced = {FATE_ATTRIBUTE: SegmentFate.REPLACED.value}
        await store.segment(f"{SEGMENT}1").set_attributes(replaced)
        (told,) = await found(store)
        assert told[:2] == ("warning", f"{SEGMENT}1")


async def test_doubtful_objects_are_no_damage_and_a_rebuild_that_was_not_ended_is(
    tmp_path: Path,
) -> None:
    """A footer and a record are damaged, so that a rebuild finds no header of an object."""
    folder = store_for_keyspaces(tmp_path)
    async with small_keyspace(folder) as (store, keyspace, space):
        await fill(keyspace)
        for number in range(40):
            await keyspace.put("b", f"k{number}", b"newer" * 20)
        await all_sealed(space)
        await store.flush()
        head = await head_of(space, ObjectKey(b"o", b"b", b"k9"))
        end = (await space.parts.manifest.now()).row_of(head.sqn)
        assert end is not None
        await damage_at(folder, store, head.number, head.offset + 30)
        await damage_at(folder, store, head.number, end.length + 30)
    async with await siltstone.open_async(folder) as store:
        report = await objects.rebuild_async(store, NAME)
        doubtful = {each.key for each in report.doubtful}
        assert "k9" in doubtful
        told = await found(store)
        names = {each[1].rpartition("key=")[2] for each in told if "doubtful" in each[2]}
        assert names == doubtful
        assert [each for each in told if each[2].startswith("it has a record")] == []
        table = store.table(f"objects/{{{NAME}}}/ledger", force=True)
        row = await table.get(keys.STATE)
        assert row is not None
        state = decode_state(row.value, where="state")
        begun = Rebuild(phase=RebuildPhase.RECORDS, state=state)
        await table.put(keys.STATE, encode_rebuild(begun))
        ((severity, where, message),) = await found(store)
        assert (severity, where) == ("damage", NAME)
        assert "a rebuild of its ledger was begun" in message


async def test_heads_that_say_something_else_than_their_records_are_told(tmp_path: Path) -> None:
    cases: dict[str, tuple[dict[str, object], str]] = {
        "size": ({"size": 51}, "head and record differ"),
        "offset": ({"offset": 3}, "its record is elsewhere"),
        "sqn": ({"sqn": 2}, "its head is older than a record"),
    }
    for fields, message in cases.values():
        folder = tmp_path / message.replace(" ", "-")
        async with small_keyspace(store_for_keyspaces(folder)) as (store, keyspace, space):
            await fill(keyspace)
            await all_sealed(space)
            await change_rows(space, changed_head(**fields))
            told = await found(store)
            assert {each[1] for each in told} == {OF_OBJECT}
            assert any(message in each[2] for each in told)


async def test_a_value_that_no_segment_has_is_told(tmp_path: Path) -> None:
    """The head of an object names a change that its segment lacks, as after a wrong compaction."""
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (store, keyspace, space):
        await fill(keyspace)
        await all_sealed(space)
        head = await head_of(space, OBJECT)
        state: SpaceState = (await space.parts.ledger.state()).state  # type: ignore[union-attr]

        def another(rows: Rows) -> None:
            row_key = keys.head_key(ObjectKey(b"o", b"b", b"new"))
            rows[row_key] = encode_head(
                head._replace(sqn=state.next_sqn, entries=(), expires_s=0, offset=0, number=99)
            )
            moved = replace(state, next_sqn=state.next_sqn + 1)
            rows[keys.STATE] = encode_state(moved)

        await change_rows(space, another)
        (told,) = await found(store)
        assert told[:2] == ("damage", f"keyspace={NAME} tag=o bucket=b key=new")
        assert "lacks it" in told[2]
