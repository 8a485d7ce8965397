"""CRC32C over buffers, and the combination of two sums without their bytes."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from functools import cache

import crc32c as _crc32c

from siltstone.core.constants import Buffer

_POLYNOMIAL = 0x82F63B78


crc32c = _crc32c.crc32c
"""CRC32C of a buffer, continued from the second argument. The GIL is released for large ones."""


def crc32c_of(buffers: Iterable[Buffer], value: int = 0) -> int:
    """CRC32C of the concatenation of ``buffers``, continued from ``value``."""
    for buffer in buffers:
        value = _crc32c.crc32c(buffer, value)
    return value


def crc_text(value: int) -> str:
    """A CRC32C as services write it: its four bytes, the highest first, in base64."""
    return base64.b64encode(value.to_bytes(4, "big")).decode()


def _times(matrix: list[int], vector: int) -> int:
    total = 0
    index = 0
    while vector:
        if vector & 1:
            total ^= matrix[index]
        vector >>= 1
        index += 1
    return total


def _squared(matrix: list[int]) -> list[int]:
    return [_times(matrix, row) for row in matrix]


@cache
def _zero_operators() -> list[list[int]]:
    """Matrices over GF(2) that append 1, 2, 4, … zero bytes to a sum.

    They take as long as importing several modules, and few processes combine sums.
    """
    one_bit = [_POLYNOMIAL] + [1 << n for n in range(31)]
    one_byte = _squared(_squared(_squared(one_bit)))
    operators = [one_byte]
    for _ in range(62):
        operators.append(_squared(operators[-1]))
    return operators


def combine(first: int, second: int, second_length: int) -> int:
    """CRC32C of A+B from the CRC32C of A, the CRC32C of B and B's length in bytes."""
    index = 0
    operators = _zero_operators()
    while second_length:
        if second_length & 1:
            first = _times(operators[index], first)
        second_length >>= 1
        index += 1
    return first ^ second
