"""What a request does to an object: random lives of a few objects agree with a plain dictionary."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.core.errors import ConditionFailedError
from siltstone.objects.changes import (
    DeleteRequest,
    PutRequest,
    ReapRequest,
    Request,
    Unset,
    object_key,
    put_request,
)
from siltstone.objects.errors import ObjectLimitError
from siltstone.objects.evaluation import (
    EXPIRES_S_MAX,
    ObjectChange,
    RecordPlace,
    SqnIs,
    evaluate,
)
from siltstone.objects.records.head import Head, decode_head
from siltstone.objects.records.keys import (
    ObjectKey,
    decode_expiry_key,
    decode_head_key,
    decode_index_key,
    expiry_key,
    head_key,
)
from siltstone.objects.records.limits import NAME_BYTES_MAX
from siltstone.objects.records.space_rows import decode_index_entry
from siltstone.objects.records.value_record import ValueKind, decode_header, decode_record

NOW_MS = 1_700_000_000_000
KEYS = [object_key("o", bucket, key) for bucket, key in (("b", "k"), ("b", "k\0"), ("c", "k"))]
NAMES = ("", "s", "t")
EACH_ENTRY = [(f, t) for f in ("f", "g") for t in NAMES]


@dataclass
class Put:
    """The object is set, with an index or with specs."""

    key: ObjectKey
    value: bytes
    index: dict[str, list[str]] | None
    specs: list[tuple[str, str, str]] | None
    expected: str
    ttl_s: int | None


@dataclass
class Delete:
    """The object is removed."""

    key: ObjectKey
    expected: str


@dataclass
class Reap:
    """What has expired goes, in one round; ``late`` does so from a scan of some time ago."""

    late: bool


@dataclass
class Pass:
    """Time goes by."""

    milliseconds: int


@dataclass
class Known:
    """An object of the model: what a user would say of it."""

    sqn: int
    value: bytes
    entries: set[tuple[bytes, bytes]]
    expires_s: int
    record: bytes


@dataclass
class Life:
    """A ledger under test, and what it should be."""

    table: dict[bytes, bytes] = field(default_factory=dict)
    known: dict[ObjectKey, Known] = field(default_factory=dict)
    seen: list[tuple[int, ObjectKey]] = field(default_factory=list)
    now_ms: int = NOW_MS
    next_sqn: int = 1
    length: int = 0

    def visible(self, key: ObjectKey) -> Known | None:
        known = self.known.get(key)
        expired = known is not None and known.expires_s and known.expires_s * 1000 <= self.now_ms
        return None if expired else known

    def expected(self, key: ObjectKey, how: str) -> Any:
        visible = self.visible(key)
        current = None if visible is None else visible.sqn
        return {"any": Unset.ANY, "right": current, "absent": None, "wrong": 10**6}[how]

    def old(self, key: ObjectKey) -> Head | None:
        raw = self.table.get(head_key(key))
        return None if raw is None else decode_head(raw, where="x")

    def evaluated(self, request: Request) -> Any:
        place = RecordPlace(self.next_sqn, 3, self.length)
        found = evaluate(request, self.old(request.key), place, self.now_ms)
        if isinstance(found, ObjectChange):
            keys = [key for key, _ in found.rows]
            assert len(keys) == len(set(keys))
            for key, value in found.rows:
                if value is None:
                    self.table.pop(key, None)
                else:
                    assert self.table.get(key) != value, "a row changes nothing"
                    self.table[key] = value
            length = sum(map(len, found.parts))
            if found.note is not None:
                assert found.note.record_length == length
                assert found.note.sqn == self.next_sqn
                self.next_sqn += 1
            self.length += length
            assert found.size >= length + sum(len(key) + len(v or b"") for key, v in found.rows)
            assert found.head == self.old(request.key)
        return found

    def check(self) -> None:
        """All rows say what the model says, and nothing else."""
        heads, entries, ends = {}, {}, set()
        for row_key, raw in self.table.items():
            if row_key[0] == 0x10:
                heads[decode_head_key(row_key)] = decode_head(raw, where="x")
            elif row_key[0] == 0x20:
                entries[decode_index_key(row_key)] = decode_index_entry(raw, where="x")
            else:
                ends.add(decode_expiry_key(row_key))
                assert raw == b""
        known = self.known
        assert {key: head.sqn for key, head in heads.items()} == {
            key: each.sqn for key, each in known.items()
        }
        for key, head in heads.items():
            assert set(head.entries) == known[key].entries
            assert list(head.entries) == sorted(head.entries)
            assert (head.size, head.expires_s) == (len(known[key].value), known[key].expires_s)
            assert (head.number, head.length) == (3, len(known[key].record))
            header, value = decode_record(known[key].record, where="x")
            assert (header.key, value) == (key, known[key].value)
            assert header[1:7] == (*head[:2], head.modified_ms, *head[5:7], head.expires_s)
            assert (header.entries, header.metadata) == (head.entries, head.metadata)
        assert entries == {
            (entry, key): each.expires_s for key, each in known.items() for entry in each.entries
        }
        assert ends == {(each.expires_s, key) for key, each in known.items() if each.expires_s}


def pairs(index: dict[str, list[str]]) -> set[tuple[bytes, bytes]]:
    return {(name.encode(), term.encode()) for name, terms in index.items() for term in terms}


def do_put(life: Life, step: Put) -> None:
    visible, old = life.visible(step.key), life.known.get(step.key)
    expected = life.expected(step.key, step.expected)
    request = put_request(
        step.key,
        step.value,
        index=step.index,
        specs=step.specs,
        expected=expected,
        ttl_s=step.ttl_s,
        metadata=step.value[:3],
    )
    sqn, begun_s = life.next_sqn, -(-life.now_ms // 1000)
    told = life.evaluated(request)
    current = None if visible is None else visible.sqn
    if expected is not Unset.ANY and expected != current:
        failed(told, step.key, expected, current)
        return
    entries = pairs(step.index or {})
    if step.specs is not None:
        entries = set() if visible is None else set(visible.entries)
        for verb, name, term in step.specs:
            entry = name.encode(), term.encode()
            (entries.add if verb == "add" else entries.discard)(entry)
    assert isinstance(told, ObjectChange)
    assert told.replaced == current
    record = b"".join(told.parts)
    header = decode_header(record, where="x")
    assert (header.kind, header.sqn) == (ValueKind.STANDARD, sqn)
    assert header.previous == (0 if old is None else old.sqn)
    expires_s = 0 if step.ttl_s is None else begun_s + step.ttl_s
    life.known[step.key] = Known(sqn, step.value, entries, expires_s, record)


def failed(told: Any, key: ObjectKey, expected: int | None, current: int | None) -> None:
    assert isinstance(told, ConditionFailedError)
    assert told.condition == SqnIs(key.bucket.decode(), key.key.decode(), expected)
    assert told.current == current


def do_delete(life: Life, step: Delete) -> None:
    visible, sqn = life.visible(step.key), life.next_sqn
    expected = life.expected(step.key, step.expected)
    told = life.evaluated(DeleteRequest(key=step.key, expected=expected))
    current = None if visible is None else visible.sqn
    if expected is not Unset.ANY and expected != current:
        failed(told, step.key, expected, current)
    elif visible is None:
        assert told is None
    else:
        assert told.replaced == visible.sqn
        header, value = decode_record(b"".join(told.parts), where="x")
        assert (header.kind, header.sqn, value) == (ValueKind.TOMBSTONE, sqn, b"")
        assert (header.key, header.previous, header.entries) == (step.key, visible.sqn, ())
        del life.known[step.key]


def do_reap(life: Life, step: Reap) -> None:
    rows = [decode_expiry_key(key) for key in life.table if key[0] == 0x08]
    found = [each for each in rows if each[0] * 1000 <= life.now_ms]
    for expires_s, key in life.seen if step.late else found:
        known = life.known.get(key)
        told = life.evaluated(ReapRequest(key=key, expires_s=expires_s))
        assert told.parts == ()
        assert (told.note, told.replaced) == (None, None)
        if known is not None and known.expires_s == expires_s:
            del life.known[key]
    life.seen = found


ENTRY_SETS = st.dictionaries(st.sampled_from("fg"), st.lists(st.sampled_from(NAMES), max_size=3))
SPECS = st.lists(
    st.tuples(st.sampled_from(("add", "remove")), st.sampled_from("fg"), st.sampled_from(NAMES)),
    max_size=5,
)
EXPECTED = st.sampled_from(("any", "any", "right", "absent", "wrong"))
TTLS = st.none() | st.integers(1, 3)
VALUES = st.binary(max_size=5)
WHICH = st.sampled_from(KEYS)
STEPS = st.lists(
    st.builds(Put, WHICH, VALUES, ENTRY_SETS, st.none(), EXPECTED, TTLS)
    | st.builds(Put, WHICH, VALUES, st.none(), SPECS, EXPECTED, TTLS)
    | st.builds(Delete, WHICH, EXPECTED)
    | st.builds(Reap, st.booleans())
    | st.builds(Pass, st.integers(1, 2_500)),
    max_size=25,
)


@pytest.mark.slow
@settings(max_examples=150)
@given(STEPS)
def test_rows_are_always_those_of_the_objects_that_there_are(steps: list[Any]) -> None:
    life = Life()
    for step in steps:
        match step:
            case Put():
                do_put(life, step)
            case Delete():
                do_delete(life, step)
            case Reap():
                do_reap(life, step)
            case Pass():
                life.now_ms += step.milliseconds
        life.check()


def put(**options: Any) -> PutRequest:
    return put_request(KEYS[0], b"value", **options)


PLACE = RecordPlace(9, 2, 500)


def changed(request: Request, old: Head | None = None, now_ms: int = NOW_MS) -> ObjectChange:
    found = evaluate(request, old, PLACE, now_ms)
    assert isinstance(found, ObjectChange)
    return found


def head_of(**options: Any) -> Head:
    head = changed(put(**options)).head
    assert head is not None
    return head


def test_a_put_of_the_same_index_changes_no_row_but_the_head() -> None:
    index = {"f": ["s", "t"]}
    rows = changed(put(index=index), head_of(index=index)).rows
    assert [key for key, _ in rows] == [head_key(KEYS[0])]


def test_wrong_specs_leave_the_rows_of_the_set() -> None:
    old = head_of(index={"f": ["s"]})
    specs = [("add", "f", "s"), ("remove", "f", "never"), ("remove", "g", "s")]
    change = changed(put(specs=specs), old)
    assert change.head is not None
    assert change.head.entries == old.entries
    assert [key for key, _ in change.rows] == [head_key(KEYS[0])]


def test_specs_that_make_the_index_too_large_are_refused() -> None:
    terms = [b"%d" % number + bytes(NAME_BYTES_MAX // 2) for number in range(7)]
    old = head_of(index={"f": terms})
    more = [("add", "f", b"x" * NAME_BYTES_MAX)]
    assert isinstance(evaluate(put(specs=more), old, PLACE, NOW_MS), ObjectLimitError)
    assert changed(put(specs=[*more, ("remove", "f", terms[0])]), old).head is not None


def test_what_has_expired_is_not_there_for_conditions_specs_and_deletes() -> None:
    old = head_of(index={"f": ["s"]}, ttl_s=1)
    end_ms = old.expires_s * 1000
    before = evaluate(put(expected=None), old, PLACE, end_ms - 1)
    assert isinstance(before, ConditionFailedError)
    assert before.current == old.sqn
    change = changed(put(expected=None, specs=[("add", "g", "t")]), old, end_ms)
    assert change.replaced is None
    assert change.head is not None
    assert change.head.entries == ((b"g", b"t"),)
    assert change.head.previous == old.sqn, "the chain of changes has it"
    assert evaluate(DeleteRequest(key=KEYS[0], expected=Unset.ANY), old, PLACE, end_ms) is None


@pytest.mark.parametrize("now_ms", [0, NOW_MS, (2**32 - 1) * 1000, 2**50])
def test_the_longest_ttl_ends_at_a_time_that_a_row_can_hold(now_ms: int) -> None:
    head = changed(put(ttl_s=2**31), now_ms=now_ms).head
    assert head is not None
    assert head.expires_s == min(-(-now_ms // 1000) + 2**31, EXPIRES_S_MAX)


def test_a_late_reap_spares_an_object_that_was_put_again() -> None:
    request = put_request(KEYS[0], b"v", ttl_s=100)
    found = evaluate(request, None, RecordPlace(1, 1, 0), NOW_MS)
    assert isinstance(found, ObjectChange)
    head = found.head
    assert head is not None
    late = evaluate(
        ReapRequest(key=KEYS[0], expires_s=head.expires_s - 1),
        head,
        RecordPlace(2, 1, 100),
        NOW_MS + 200_000,
    )
    assert isinstance(late, ObjectChange)
    assert late.head == head
    assert late.rows == [(expiry_key(KEYS[0], head.expires_s - 1), None)]
