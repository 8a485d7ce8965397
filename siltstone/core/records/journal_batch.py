"""The journal batch: one change of a system layout, with what the log may forget because of it."""

from __future__ import annotations

from dataclasses import dataclass

from siltstone.core.layout_store import LayoutChange


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalBatch:
    """One batch.

    Attributes:
        lineage: 16 bytes.
        epoch: of the owner that wrote it.
        sequence: dense over an epoch; never two contents under one.
        safe_index: the log below this index is not needed any more once this batch is durable.
        newest_index: the newest acknowledged log index at the time; -1 when there is none.
        change: the change of a system segment's layout.
    """

    lineage: bytes
    epoch: int
    sequence: int
    safe_index: int
    newest_index: int
    change: LayoutChange
