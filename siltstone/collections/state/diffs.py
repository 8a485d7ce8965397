"""From one state to the next, and what lies between two: each is the inverse of the other.

``apply(before, diff_of(before, after)) == after`` for each two states of which commands made the
second out of the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from siltstone.core.errors import CorruptDataError
from siltstone.core.records.collection_batch import Batches, CollectionBatch
from siltstone.core.records.collection_change import (
    ChangeKind,
    ReplacedBatches,
    decode_change,
    encode_change,
)
from siltstone.core.records.collection_entry import Change, Diff
from siltstone.core.records.collection_state import CollectionState, Life, impossible

_NUMBERS: Final[Mapping[int, str]] = {
    ChangeKind.SINCE: "since",
    ChangeKind.LIFE: "life",
    ChangeKind.FORMAT: "format",
    ChangeKind.FLOOR: "floor",
    ChangeKind.COLLECTED: "collected",
}
_PUTS: Final[Mapping[int, tuple[str, str]]] = {
    ChangeKind.PUT_SCHEMA: ("schemas", "schema_id"),
    ChangeKind.PUT_READER: ("readers", "id"),
    ChangeKind.PUT_WRITER: ("writers", "name"),
    ChangeKind.PUT_BOOKMARK: ("bookmarks", "name"),
    ChangeKind.PUT_ROLLUP: ("rollups", "seqno"),
}
_DROPS: Final[Mapping[int, str]] = {
    ChangeKind.DROP_SCHEMA: "schemas",
    ChangeKind.DROP_READER: "readers",
    ChangeKind.DROP_WRITER: "writers",
    ChangeKind.DROP_BOOKMARK: "bookmarks",
    ChangeKind.DROP_ROLLUP: "rollups",
}
_PUT_OF: Final = {table: ChangeKind(kind) for kind, (table, _) in _PUTS.items()}
_DROP_OF: Final = {table: ChangeKind(kind) for kind, table in _DROPS.items()}


def apply(state: CollectionState, diff: Diff) -> CollectionState:
    """Return the state after ``diff``. It shares with ``state`` what did not change.

    Raises:
        CorruptDataError: the diff does not follow the state, or does not fit it; the entry is
            named.
        FormatError: a newer version wrote the diff.
    """
    where = f"entry {diff.seqno} of collection {state.id.hex()}"
    if diff.seqno != state.seqno + 1 or diff.written_ms <= state.written_ms:
        raise CorruptDataError("diff does not follow the state", where=where, state=state.seqno)
    fields: dict[str, Any] = {"seqno": diff.seqno, "written_ms": diff.written_ms}
    for change in diff.changes:
        value = decode_change(change.kind, change.body, where=where)
        try:
            _change(state, fields, change.kind, value)
        except (KeyError, ValueError) as error:
            raise CorruptDataError("change does not fit the state", where=where) from error
    after = replace(state, **fields)
    problem = impossible(after) or _backwards(state, after)
    if problem:
        raise CorruptDataError(problem, where=where)
    return after


def diff_of(
    before: CollectionState, after: CollectionState, *, token: int = 0, actor: str = ""
) -> Diff:
    """Return the diff that leads from ``before`` to ``after``, the state of the next seqno.

    ``token`` and ``actor`` are those of the diff.
    """
    assert after.seqno == before.seqno + 1, "a diff leads to the next seqno"
    problem = impossible(after) or _backwards(before, after)
    assert not problem, problem  # No process could open the collection any more.
    changes = [
        encode_change(ChangeKind(kind), getattr(after, name))
        for kind, name in _NUMBERS.items()
        if getattr(after, name) != getattr(before, name)
    ]
    for table in _PUT_OF:
        old, new = getattr(before, table), getattr(after, table)
        if old is not new:
            changes.extend(_row_changes(table, old, new))
    changes.extend(_batch_changes(before.batches, after.batches))
    return Diff(
        seqno=after.seqno,
        token=token,
        written_ms=after.written_ms,
        actor=actor,
        changes=tuple(changes),
    )


def _change(state: CollectionState, fields: dict[str, Any], kind: int, value: Any) -> None:
    """Put one change into ``fields``. Raises ``KeyError`` or ``ValueError`` if it does not fit."""
    if kind in _NUMBERS:
        fields[_NUMBERS[kind]] = value
    elif kind in _PUTS:
        table, key = _PUTS[kind]
        _rows(state, fields, table)[getattr(value, key)] = value
    elif kind in _DROPS:
        del _rows(state, fields, _DROPS[kind])[value]
    else:
        batches = fields.get("batches", state.batches)
        fields["batches"] = _changed_batches(batches, value)


def _rows(state: CollectionState, fields: dict[str, Any], table: str) -> dict[Any, Any]:
    """The rows of a table that may be changed: a copy, made once."""
    if table not in fields:
        fields[table] = dict(getattr(state, table))
    rows: dict[Any, Any] = fields[table]
    return rows


def _changed_batches(batches: Batches, value: CollectionBatch | ReplacedBatches) -> Batches:
    if isinstance(value, CollectionBatch):
        return batches.added(value)
    span = batches.span(value.lower, value.upper)
    if span is None:
        raise ValueError("no batches begin and end there")
    return batches.replaced(*span, value.batches)


def _backwards(before: CollectionState, after: CollectionState) -> str:
    """What does not go on from ``before``; empty where all does."""
    for name in ("format", "since", "upper", "floor", "collected"):
        if getattr(after, name) < getattr(before, name):
            return f"{name} goes back"
    if before.life is not Life.OPEN and (
        after.life is not before.life or after.batches != before.batches
    ):
        return "a collection that has ended goes on"
    return ""


def _row_changes(
    table: str, before: Mapping[Any, Any], after: Mapping[Any, Any]
) -> Iterator[Change]:
    for key in sorted(before.keys() - after.keys()):
        yield encode_change(_DROP_OF[table], key)
    for key in sorted(after):
        if before.get(key) != after[key]:
            yield encode_change(_PUT_OF[table], after[key])


def _batch_changes(before: Batches, after: Batches) -> Iterator[Change]:
    """Walk both from frontier to frontier, and replace what differs between two that both have."""
    if before is after:
        return
    old, new = before.items, after.items
    at = to = after.shared_with(before)
    while at < len(old):
        if old[at] is new[to] or old[at] == new[to]:
            at, to = at + 1, to + 1
            continue
        end, stop = at + 1, to + 1
        while end < len(old) and old[end - 1].upper != new[stop - 1].upper:
            if old[end - 1].upper < new[stop - 1].upper:
                end += 1
            else:
                stop += 1
        while stop < len(new) and new[stop - 1].upper < old[end - 1].upper:
            stop += 1
        replaced = ReplacedBatches(
            lower=old[at].lower, upper=old[end - 1].upper, batches=new[to:stop]
        )
        yield encode_change(ChangeKind.REPLACE_BATCHES, replaced)
        at, to = end, stop
    for batch in new[to:]:
        yield encode_change(ChangeKind.PUT_BATCH, batch)
