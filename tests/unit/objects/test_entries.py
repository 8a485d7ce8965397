"""What a request for entries of heads only does, by cases."""

from __future__ import annotations

from siltstone.core.errors import ConditionFailedError
from siltstone.objects.entries import (
    EntriesChange,
    EntriesRequest,
    entries_request,
    entry_key,
    evaluate_entries,
)
from siltstone.objects.evaluation import SqnIs
from siltstone.objects.records.head import Head, decode_head
from siltstone.objects.records.keys import expiry_key, head_key

NOW_MS = 5_000_500
KEY = entry_key("b", "k", "s")
OLD = Head(3, 0, 0, 0, 0, 0, bytes(8), 1, 5_000, (), b"old")
"""It expired half a second ago."""


def asked(*specs: tuple[object, ...], **arguments: object) -> EntriesRequest:
    return entries_request(specs, looks_up=True, **arguments)  # type: ignore[arg-type]


def done(request: EntriesRequest, old: Head | None) -> EntriesChange:
    found = evaluate_entries(request, {KEY: old}, 9, NOW_MS)
    assert isinstance(found, EntriesChange)
    return found


def test_an_entry_that_has_expired_counts_as_absent() -> None:
    name = ("b", "k", "s")
    request = asked(("add", *name, b"v"), expected={name: None})
    head = done(request, OLD).heads[KEY]
    assert head is not None
    assert (head.sqn, head.previous, head.metadata) == (9, 3, b"v")
    refused = evaluate_entries(asked(("remove", *name), expected={name: 3}), {KEY: OLD}, 9, NOW_MS)
    assert isinstance(refused, ConditionFailedError)
    assert (refused.condition, refused.current) == (SqnIs("b", "k", 3, "s"), None)


def test_the_row_of_an_end_goes_with_the_end() -> None:
    added = done(asked(("add", "b", "k", "s", b"v"), ttl_s=10), OLD)
    (row_key, value), *ends = added.rows
    assert row_key == head_key(KEY)
    assert value is not None
    assert decode_head(value, where="x").expires_s == 5_011
    assert ends == [
        (expiry_key(KEY, 5_000), None),
        (expiry_key(KEY, 5_011), b""),
    ]
    removed = done(asked(("remove", "b", "k", "s")), OLD)
    assert removed.rows == [
        (head_key(KEY), None),
        (expiry_key(KEY, 5_000), None),
    ]
    assert removed.heads == {KEY: None}
    assert added.size > sum(len(key) + len(row or b"") for key, row in added.rows)


def test_without_look_up_no_head_is_asked_for() -> None:
    specs = [("add", "b", "k", "s", b"v")]
    request = entries_request(specs, looks_up=False)
    assert request.looked_up == frozenset()
    found = evaluate_entries(request, {}, 9, NOW_MS)
    assert isinstance(found, EntriesChange)
    assert [key for key, _ in found.rows] == [head_key(KEY)]
    assert entries_request(specs, looks_up=True).looked_up == {KEY}
