"""A bank in a volume: accounts in pages, whose total never changes, and sums of the pages in one.

So a reader can tell of any snapshot whether it is whole and of one moment.
"""

from __future__ import annotations

import struct
from random import Random
from zlib import crc32

from siltstone.volumes import Volume
from siltstone.volumes.reader import VolumeReader, VolumeWriter

ACCOUNT_PAGES = 196
PER_PAGE = 512
FIRST_AMOUNT = 1_000
TRANSFER_MAX = 50
SUMS = 1
"""The page with the sums of the others; accounts are in the pages after it."""

_ACCOUNTS = struct.Struct(f"<{PER_PAGE}Q")
_SUMS = struct.Struct(f"<{ACCOUNT_PAGES}I")


def found(volume: Volume) -> None:
    """Give 100,352 accounts 1,000 each, in one commit."""
    page = _ACCOUNTS.pack(*[FIRST_AMOUNT] * PER_PAGE)
    with volume.writer() as writer:
        for number in range(ACCOUNT_PAGES):
            writer.write(SUMS + 1 + number, page)
        _write_sums(writer, [crc32(page)] * ACCOUNT_PAGES)
        writer.commit()


def transfer(volume: Volume, chance: Random, count: int) -> int:
    """Make transfers between accounts in one commit; return its LSN."""
    with volume.writer() as writer:
        sums = list(_SUMS.unpack_from(writer.read(SUMS)))
        for _ in range(count):
            giver, taker = (
                divmod(chance.randrange(ACCOUNT_PAGES * PER_PAGE), PER_PAGE) for _ in range(2)
            )
            amount = min(chance.randrange(TRANSFER_MAX), _amounts(writer, giver[0])[giver[1]])
            for (page, position), change in ((giver, -amount), (taker, amount)):
                amounts = list(_amounts(writer, page))
                amounts[position] += change
                content = _ACCOUNTS.pack(*amounts)
                writer.write(SUMS + 1 + page, content)
                sums[page] = crc32(content)
        _write_sums(writer, sums)
        return writer.commit().local


def audit(volume: Volume) -> None:
    """Check the total and every sum of the newest snapshot."""
    with volume.reader() as reader:
        sums = _SUMS.unpack_from(reader.read(SUMS))
        total = 0
        for number in range(ACCOUNT_PAGES):
            page = reader.read(SUMS + 1 + number)
            assert crc32(page) == sums[number], f"page {number} is of another moment"
            total += sum(_ACCOUNTS.unpack(page))
        assert total == ACCOUNT_PAGES * PER_PAGE * FIRST_AMOUNT


def _amounts(reader: VolumeReader, page: int) -> tuple[int, ...]:
    return _ACCOUNTS.unpack(reader.read(SUMS + 1 + page))


def _write_sums(writer: VolumeWriter, sums: list[int]) -> None:
    writer.write(SUMS, _SUMS.pack(*sums).ljust(4096, b"\0"))
