"""Records of a place come back as they were, and no damage of them is taken for a record."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from siltstone.core.errors import CorruptDataError, FormatError
from siltstone.core.records.envelope import RecordKind, seal
from siltstone.volumes.object_names import commit_name, commits_of, lsn_of_name
from siltstone.volumes.records.commit_record import (
    SLAB_PAGES,
    TRAIL_BYTES_MAX,
    Codec,
    CommitRecord,
    Slab,
    decode_record,
    encode_record,
    split_object,
    with_trail,
)
from siltstone.volumes.records.keys import (
    LSN_MAX,
    page_key,
    read_page_key,
)
from siltstone.volumes.records.page_set import decode_pages, encode_pages
from siltstone.volumes.records.state_rows import (
    CommitRow,
    Mapping,
    PendingPush,
    Snapshot,
    SyncDirection,
    VolumeConfig,
    VolumeStatus,
    Watermarks,
    decode_commit,
    decode_config,
    decode_push,
    decode_snapshot,
    decode_status,
    decode_watermarks,
    encode_commit,
    encode_config,
    encode_push,
    encode_snapshot,
    encode_status,
    encode_watermarks,
)

LOG = bytes(range(16))
lsns = st.integers(1, LSN_MAX)
indexes = st.integers(1, 2**32 - 1)
sets = st.sets(st.integers(1, 5_000), max_size=200).map(BitMap)
ids = st.binary(min_size=16, max_size=16)
digests = st.binary(min_size=32, max_size=32)


@st.composite
def records(draw: st.DrawFn) -> CommitRecord:
    stored = draw(sets)
    zeros = draw(sets) - stored
    top = max([0, *stored, *zeros])
    slabs = [
        Slab(length=draw(st.integers(0, 2**32 - 1)), codec=draw(st.sampled_from(Codec)), crc=number)
        for number in range(-(-len(stored) // SLAB_PAGES))
    ]
    return CommitRecord(
        log=draw(ids),
        lsn=draw(lsns),
        previous=draw(digests),
        pages=draw(st.integers(top, 2**32 - 1)),
        kept=draw(st.integers(0, 2**32 - 1)),
        client=draw(ids),
        time_ms=draw(st.integers(0, 2**64 - 1)),
        content=draw(digests),
        bundle=draw(ids),
        stored=stored,
        zeros=zeros,
        slabs=tuple(slabs),
    )


def a_record(lsn: int = 3, pages: int = 9) -> CommitRecord:
    return CommitRecord(
        log=LOG,
        lsn=lsn,
        previous=bytes([1]) * 32,
        pages=pages,
        kept=4,
        client=bytes([2]) * 16,
        time_ms=5,
        content=bytes([6]) * 32,
        bundle=bytes([7]) * 16,
        stored=BitMap([1, 5]),
        zeros=BitMap([9]),
        slabs=(Slab(length=77, codec=Codec.ZSTD, crc=8),),
    )


@given(records())
def test_a_record_comes_back(record: CommitRecord) -> None:
    assert decode_record(encode_record(record), where="test") == record


def test_no_flipped_bit_of_an_object_is_read_as_something_else() -> None:
    whole = with_trail(encode_record(a_record()), 3, [encode_record(a_record(2))])
    known = split_object(whole, where="test")
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises((CorruptDataError, FormatError)):
            decoded(bytes(damaged), known)


def decoded(data: bytes, known: list[bytes]) -> list[CommitRecord]:
    found = split_object(data, where="test")
    assert set(found) <= set(known)
    return [decode_record(each, where="test") for each in found]


@pytest.mark.parametrize("length", range(1, 40))
def test_a_cut_object_is_damaged(length: int) -> None:
    whole = encode_record(a_record())
    with pytest.raises(CorruptDataError):
        split_object(whole[:-length], where="test")


def test_an_empty_object_is_damaged() -> None:
    with pytest.raises(CorruptDataError):
        split_object(b"", where="test")


@pytest.mark.parametrize(
    "wrong",
    [
        {"pages": 4},
        {"zeros": BitMap([5])},
        {"slabs": ()},
        {"slabs": (Slab(length=1, codec=Codec.RAW, crc=0),) * 2},
        {"stored": BitMap([0, 1])},
    ],
)
def test_a_record_whose_fields_do_not_fit_is_refused(wrong: dict[str, object]) -> None:
    fields = {name: getattr(a_record(), name) for name in CommitRecord.__slots__}
    with pytest.raises(CorruptDataError):
        decode_record(encode_record(CommitRecord(**(fields | wrong))), where="test")


def test_a_record_of_a_newer_version_is_told_from_damage() -> None:
    with pytest.raises(FormatError):
        decode_record(seal(RecordKind.VOLUME_COMMIT, 2, b"new"), where="test")


@pytest.mark.parametrize(
    ("lsn", "others"), [(1, 0), (2, 1), (32, 31), (33, 0), (34, 1), (64, 31), (65, 0)]
)
def test_a_trail_goes_back_to_the_last_multiple_of_32(lsn: int, others: int) -> None:
    before = [encode_record(a_record(each)) for each in range(lsn - 1, 0, -1)]
    found = split_object(with_trail(encode_record(a_record(lsn)), lsn, before), where="test")
    assert [decode_record(each, where="test").lsn for each in found] == list(
        range(lsn, lsn - others - 1, -1)
    )


def test_a_trail_has_at_most_64_kib() -> None:
    large = encode_record(
        CommitRecord(
            **{name: getattr(a_record(), name) for name in CommitRecord.__slots__}
            | {"pages": 2**31, "zeros": BitMap(range(10, 60_000, 3))}
        )
    )
    found = split_object(with_trail(large, 32, [large] * 31), where="test")
    assert len(found) == 1 + TRAIL_BYTES_MAX // len(large)


@given(lsns, lsns)
def test_names_of_newer_records_come_first(one: int, other: int) -> None:
    assert (commit_name(LOG, one) < commit_name(LOG, other)) == (one > other)
    assert lsn_of_name(LOG, commit_name(LOG, one)) == one


@pytest.mark.parametrize("end", ["", "x", "0" * 15, "0" * 17, "F" * 16, "-" + "0" * 15])
def test_what_is_no_name_of_a_record_is_not_read_as_one(end: str) -> None:
    assert lsn_of_name(LOG, commits_of(LOG) + end) is None


@given(indexes, lsns, indexes, lsns)
def test_rows_of_a_page_lie_together_the_newest_first(a: int, i: int, b: int, j: int) -> None:
    one, other = page_key(LOG, a, i), page_key(LOG, b, j)
    assert (one < other) == ((a, -i) < (b, -j))
    assert read_page_key(one) == (a, i)


@given(sets)
def test_a_set_of_pages_comes_back(pages: BitMap) -> None:
    assert decode_pages(encode_pages(pages), where="test") == pages


def test_a_set_that_cannot_be_read_is_damage() -> None:
    with pytest.raises(CorruptDataError):
        decode_pages(b"xxxx", where="test")


@given(
    st.builds(VolumeConfig, log=ids, sync=st.sampled_from(SyncDirection), place=st.none() | ids),
    st.builds(
        Snapshot,
        local=lsns,
        mapping=st.builds(Mapping, lsns, lsns),
        pages=indexes,
        generation=lsns,
    ),
    st.builds(Watermarks, pending_sync=lsns, checkpoint=lsns),
    st.builds(PendingPush, end=lsns, target=lsns, digest=digests, data=st.binary()),
    st.builds(CommitRow, changed=sets, pages=indexes, kept=indexes),
    st.sampled_from(VolumeStatus),
)
def test_rows_of_a_volume_come_back(
    config: VolumeConfig,
    snapshot: Snapshot,
    watermarks: Watermarks,
    push: PendingPush,
    commit: CommitRow,
    status: VolumeStatus,
) -> None:
    assert decode_config(encode_config(config), where="test") == config
    assert decode_snapshot(encode_snapshot(snapshot), where="test") == snapshot
    assert decode_watermarks(encode_watermarks(watermarks), where="test") == watermarks
    assert decode_push(encode_push(push), where="test") == push
    assert decode_commit(encode_commit(commit), where="test") == commit
    assert decode_status(encode_status(status), where="test") is status
