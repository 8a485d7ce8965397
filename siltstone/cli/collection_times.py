"""Times of collections as people write them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from siltstone.cli.times import SINCE

if TYPE_CHECKING:
    from siltstone.collections.collection_info import CollectionInfo

START: Final = "start"
"""As a time to follow from: the rows that there are, and then what changes."""


class CollectionTime(click.ParamType[int | float]):
    """A time of a collection: its number; or ``15min`` ago, or a date, which are seconds then."""

    name = "time"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | float:
        """Return a number as it is, and seconds since 1970 of anything else."""
        if isinstance(value, int | float):
            return value
        text = str(value)
        if text.isdecimal():
            return int(text)
        return SINCE.convert(text, param, ctx)


class FollowStart(click.ParamType[int | float | str]):
    """A time of a collection, or ``start``."""

    name = "time"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | float | str:
        """Return ``start``, or what ``CollectionTime`` does."""
        return START if value == START else TIME.convert(value, param, ctx)


TIME: Final = CollectionTime()
FOLLOW_START: Final = FollowStart()


def time_in(info: CollectionInfo, given: float) -> int:
    """Return a time of this collection.

    Raises:
        click.UsageError: it is a date, and the times of the collection are none.
    """
    if isinstance(given, int):
        return given
    if info.times != "ms":
        raise click.UsageError(f"times of {info.name} are counts, so none is a date: give a number")
    return int(given * 1000)
