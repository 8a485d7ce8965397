"""Bytes that are almost a record: the worked examples of the format pages, damaged."""

from __future__ import annotations

import re
import struct
from random import Random

from tests.support.docs.format_page import FORMATS

EXTREMES = (
    0,
    1,
    0x7F,
    0x80,
    0xFF,
    0xFFFF,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**63 - 1,
    2**63,
    2**64 - 1,
)
WIDTHS = {1: "<B", 2: "<H", 4: "<I", 8: "<Q"}
EDITS_MAX = 6
PIECE_MAX = 40
NOISE_MAX = 200


def examples() -> list[bytes]:
    """Every block of bytes in ``docs/formats``."""
    blocks = [
        block
        for page in sorted(FORMATS.glob("*.md"))
        for block in re.findall(r"```hex\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    ]
    return [
        bytes.fromhex("".join(line.partition("#")[0] for line in block.splitlines()))
        for block in blocks
    ]


EXAMPLES = examples()


def almost_record(chance: Random) -> bytes:
    """An example with a few edits, or now and then nothing but noise."""
    if chance.random() < 0.1:
        return chance.randbytes(chance.randrange(NOISE_MAX))
    data = bytearray(chance.choice(EXAMPLES))
    for _ in range(chance.randint(1, EDITS_MAX)):
        _edit(data, chance)
    return bytes(data)


def _edit(data: bytearray, chance: Random) -> None:
    at = chance.randrange(len(data) + 1)
    width = chance.choice(sorted(WIDTHS))
    what = chance.randrange(4)
    if what == 0 and at + width <= len(data):
        struct.pack_into(WIDTHS[width], data, at, chance.choice(EXTREMES) % 256**width)
    elif what == 1 and at < len(data):
        data[at] ^= 1 << chance.randrange(8)
    elif what == 2:
        begin = chance.randrange(len(data) + 1)
        data[at:at] = data[begin : begin + chance.randrange(PIECE_MAX)]
    else:
        data[at : at + chance.randrange(PIECE_MAX)] = chance.randbytes(chance.randrange(PIECE_MAX))
