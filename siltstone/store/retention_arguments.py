"""Rules of retention: made from arguments, and set in every container."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeVar

from siltstone.core.constants import check_segment_name
from siltstone.core.errors import SiltstoneError
from siltstone.core.records.retention_row import RetentionRow, RetentionScope
from siltstone.store.handles.arguments import check_offset, check_seconds
from siltstone.store.handles.protected_handles import check_unowned
from siltstone.store.settings.units import TIME_MAX_S

if TYPE_CHECKING:
    from siltstone.container.retention.retention import Retention
    from siltstone.store.handles.container_slot import ContainerSlot

T = TypeVar("T")

AGE_MIN_S: Final = 1.0
"""The time index is not finer than some seconds."""


def retention_row(
    name: str, *, prefix: bool, bytes_max: int | None, age_max: timedelta | float | None
) -> RetentionRow:
    """Return the rule that is meant.

    Raises:
        SegmentNameError: no segment has such a name, or begins with it; or a limit is for what
            belongs to a keyspace.
        ValueError, TypeError: a limit that cannot be.
    """
    if not (prefix and name == ""):
        check_segment_name(name)
    if bytes_max is not None or age_max is not None:
        check_unowned(f"{name}*" if prefix else name)
    if bytes_max is not None:
        bytes_max = check_offset(bytes_max, what="bytes_max")
    return RetentionRow(
        scope=RetentionScope.PREFIX if prefix else RetentionScope.SEGMENT,
        name=name,
        bytes_max=bytes_max,
        age_max_ms=None if age_max is None else _age_ms(age_max),
    )


def _age_ms(age_max: object) -> int:
    given = age_max.total_seconds() if isinstance(age_max, timedelta) else age_max
    seconds = check_seconds(given, "age_max is a timedelta or seconds")
    if not AGE_MIN_S <= seconds <= TIME_MAX_S:
        raise ValueError(f"age_max must be between 1 and {TIME_MAX_S:.0f} seconds, not {seconds}")
    return round(seconds * 1000)


async def in_each(
    slots: Sequence[ContainerSlot], act: Callable[[Retention], Awaitable[T]]
) -> list[T]:
    """Do ``act`` in every container, whatever becomes of the others.

    Raises:
        SiltstoneError: the first failure. If there are several containers, it says in which ones
            the act took place, and in which ones it failed or is not known.
    """
    done, failed = [], []
    results = []
    failure: SiltstoneError | None = None
    for slot in slots:
        try:
            results.append(await act(slot.container.retention))
            done.append(str(slot.index))
        except SiltstoneError as error:
            failure = failure or error
            failed.append(str(slot.index))
    if failure is not None:
        if len(slots) > 1:
            where = f"done_in={','.join(done) or 'none'} failed_in={','.join(failed)}"
            failure.args = (f"{failure} {where}",)
        raise failure
    return results
