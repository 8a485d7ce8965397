"""What verbs that delete would do, told without doing it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from siltstone.cli.output import bytes_fields, print_json, say
from siltstone.cli.session import Session
from siltstone.core.errors import ConditionFailedError, OffsetError
from siltstone.core.text import counted

if TYPE_CHECKING:
    from siltstone.container.models.segments import SegmentInfo
    from siltstone.store.blocking.table import Table
    from siltstone.store.store import Store


def tell_removals(session: Session, store: Store, names: Iterable[str], *, as_json: bool) -> None:
    """Say of each segment that it would be removed. Raises ``SegmentNotFoundError``."""
    count = total = 0
    for name in names:
        info = store.segment(name).info()
        length = info.length - info.start_offset
        count, total = count + 1, total + length
        if as_json:
            print_json({"would_remove": name, "length": length})
        else:
            say(f"would remove {name}: {counted(length, 'byte')}")
    session.note(f"{counted(count, 'segment')} would go, {counted(total, 'byte')}")


def tell_truncation(info: SegmentInfo, offset: int, *, as_json: bool) -> None:
    """Say how many bytes a truncation would drop. Raises ``OffsetError`` as it would."""
    if offset > info.length:
        raise OffsetError(
            "truncation beyond the end", segment=info.name, expected=info.length, actual=offset
        )
    length = max(0, offset - info.start_offset)
    if as_json:
        print_json({"would_truncate": info.name, "offset": info.start_offset, "length": length})
    else:
        say(f"would drop {counted(length, 'byte')} of {info.name}, from {info.start_offset} on")


def tell_key_removal(table: Table, key: bytes, *, as_json: bool) -> None:
    """Say whether a key would be removed."""
    found = table.get(key)
    if as_json:
        print_json({**bytes_fields("would_remove", key), "there": found is not None})
    elif found is None:
        say("would remove nothing: there is no such key")
    else:
        say(f"would remove the key, of version {found.version}")


def tell_range_removal(
    table: Table,
    first: bytes,
    after: bytes | None,
    expected: Mapping[bytes, int | None],
    *,
    as_json: bool,
) -> None:
    """Say how many keys of a range would be removed.

    Raises:
        ConditionFailedError: a key has another version than expected, or is there and should not.
    """
    from siltstone.container.models.segments import VersionIs

    for key, version in expected.items():
        found = table.get(key)
        current = None if found is None else found.version
        if current != version:
            condition = VersionIs(table=table.name, key=key, version=version)
            raise ConditionFailedError(condition=condition, current=current)
    count = sum(1 for _ in table.scan(first, after))
    if as_json:
        print_json({"would_remove_keys": count})
    else:
        say(f"would remove {counted(count, 'key')}")
