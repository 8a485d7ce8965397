"""What one local LSN makes of the pages of a volume, planned from the records of a log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyroaring import BitMap

from siltstone.volumes.records.commit_record import CommitRecord
from siltstone.volumes.records.keys import INDEX_MAX
from siltstone.volumes.records.page_row import EMPTY_ROW, pending_row


@dataclass(frozen=True, slots=True, kw_only=True)
class PageChanges:
    """Rows of pages that one local LSN brings.

    Attributes:
        rows: value of the page row by index; indexes within ``pages``.
        pages: how many pages the volume has after it.
        kept: how many of those before it stayed throughout.
    """

    rows: Mapping[int, bytes]
    pages: int
    kept: int


def merged(records: Sequence[CommitRecord], pages: int) -> PageChanges:
    """What records of a log make of a volume of so many pages, as one commit.

    Args:
        records: in the order of their LSNs; may be none.
        pages: how many pages the volume has before them.
    """
    rows: dict[int, bytes] = {}
    seen = BitMap()
    limit = count = records[-1].pages if records else pages
    for record in reversed(records):
        zeros = up_to(record.zeros, limit) - seen
        stored = up_to(record.stored, limit) - seen
        row = pending_row(record.lsn)
        rows.update(dict.fromkeys(stored, row))
        rows.update(dict.fromkeys(zeros, EMPTY_ROW))
        seen |= stored | zeros
        limit = min(limit, record.kept)
    kept = min([pages, *(record.kept for record in records)])
    return PageChanges(rows=rows, pages=count, kept=kept)


def up_to(pages: BitMap, limit: int) -> BitMap:
    """The indexes of a set that are at most ``limit``."""
    if not pages or pages.max() <= limit:
        return pages
    few = pages.copy()
    few.remove_range(limit + 1, INDEX_MAX + 1)
    return few
