"""Types of settings that people write with a unit, apart from the units: they bring pydantic."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from siltstone.store.settings.units import parse_size, parse_time


def _above_zero(value: float) -> float:
    if not value:
        raise ValueError("must be above 0")
    return value


def _rate(value: int) -> int:
    if not value:
        raise ValueError("must be above 0; leave it out for no limit")
    return value


Size = Annotated[int, BeforeValidator(parse_size)]
PositiveSize = Annotated[Size, AfterValidator(_above_zero)]
Rate = Annotated[Size, AfterValidator(_rate)]
"""Bytes a second."""
Time = Annotated[float, BeforeValidator(parse_time)]
PositiveTime = Annotated[Time, AfterValidator(_above_zero)]
"""Sizes and times as people write them: ``64MiB``, ``30s``."""
