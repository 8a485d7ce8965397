"""What a container shows after files of it were lost."""

from __future__ import annotations

from dataclasses import dataclass

import siltstone
from siltstone import Store

Rows = dict[bytes, bytes]


@dataclass(frozen=True)
class Shown:
    """What an open showed.

    Attributes:
        segments: start and readable bytes of each segment; ``None`` where a read failed.
        tables: content of each table.
    """

    segments: dict[str, tuple[int, bytes | None]]
    tables: dict[str, Rows]


def shown_by(store: Store) -> Shown:
    segments: dict[str, tuple[int, bytes | None]] = {}
    for info in store.list():
        try:
            data = store.segment(info.name).read(info.start_offset, info.length)
        except siltstone.CorruptDataError:
            segments[info.name] = info.start_offset, None
        else:
            segments[info.name] = info.start_offset, data
    return Shown(
        segments,
        {
            name: {key: value.value for key, value in store.table(name).scan()}
            for name in store.list_tables()
        },
    )
