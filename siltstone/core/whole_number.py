"""Whole numbers of any type: those of Python, of numpy, and whatever else can be an index."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import SupportsIndex


def whole_number(value: SupportsIndex, *, what: str) -> int:
    """Return ``value`` as an ``int``: a fixed number of bits must not decide what a sum is.

    Raises:
        TypeError: it is a truth value, or no whole number.
    """
    if type(value) is int:
        return value
    if isinstance(value, bool):
        raise TypeError(f"{what} is an int, not bool")
    try:
        return index(value)
    except TypeError as error:
        raise TypeError(f"{what} is an int, not {type(value).__name__}") from error
