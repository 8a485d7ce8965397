"""What a person may write in ``siltstone.yaml`` about keyspaces."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from siltstone.core.constants import GIB, MIB
from siltstone.store.settings.sections import Section, Text
from siltstone.store.settings.unit_types import PositiveSize, Time

HOUR_MAX: Final = 23


def _value_segment(value: int) -> int:
    if not MIB <= value <= 4 * GIB:
        raise ValueError("must be from 1 MiB to 4 GiB")
    return value


def _hours(value: str) -> str:
    begin, dash, end = value.partition("-")
    if not (dash and begin.isdecimal() and end.isdecimal() and begin != end):
        raise ValueError("not two hours of a day, such as '22-6'")
    if not (value.isascii() and int(begin) <= HOUR_MAX and int(end) <= HOUR_MAX + 1):
        raise ValueError("hours are from 0 to 24")
    return value


def _count_from_0(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"not a whole number: {value!r}")  # noqa: TRY004
    return value


HeadChecksCount = Annotated[int, BeforeValidator(_count_from_0), Field(ge=0)]


class ObjectsSection(Section):
    """How this process uses keyspaces."""

    value_segment: Annotated[PositiveSize, AfterValidator(_value_segment)] = Field(
        default=256 * MIB,
        description="with so many bytes a value segment is full, from 1MiB to 4GiB; 65,536 records "
        "fill one too. Only full ones are compacted, so a small keyspace that changes fast wants "
        "less",
    )
    lost: Literal["error", "missing"] = Field(
        default="error",
        description="what reads tell of an object whose value is damaged or gone. error: a "
        "LostObjectError. missing: that it is absent, for those who put such objects again from "
        "elsewhere; it is counted and logged",
    )
    head_checks: HeadChecksCount = Field(
        default=100,
        description="one in so many heads is compared with its record afterwards, so that losses "
        "are noticed early; each of these is a read of long-term storage, and 0 makes none",
    )
    compact: Literal["auto", "manual"] = Field(
        default="auto",
        description="auto: the owner compacts value segments when enough was changed; manual: "
        "only `compact` does",
    )
    compact_hours: Annotated[Text, AfterValidator(_hours)] | None = Field(
        default=None,
        description="hours of the day, in UTC, in which compactions begin by themselves, such as "
        "`22-6`; without it they begin at any time. What runs then ends later",
    )
    waste_retention: Time = Field(
        default=0.0,
        description="how long a value segment stays that compaction has replaced, for snapshots "
        "of read-only processes, of which the owner does not know",
    )

    @property
    def hours(self) -> tuple[int, int] | None:
        """The first hour of ``compact_hours`` and the one after the last; ``None`` for any."""
        if self.compact_hours is None:
            return None
        begin, _, end = self.compact_hours.partition("-")
        return int(begin), int(end)
