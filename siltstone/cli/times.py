"""Times as people write them after an option."""

from __future__ import annotations

import time
from datetime import datetime

import click

from siltstone.store.local_times import seconds_of
from siltstone.store.settings.units import parse_time


class SinceTime(click.ParamType[float]):
    """A time in the past: ``15min`` ago, or a date with or without a time of day (ISO 8601)."""

    name = "time"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return seconds since 1970. Without a zone a date is one of this machine's zone.

        Of a time that the zone skips those of the skip, of one that it has twice the first.
        """
        if isinstance(value, float):
            return value
        text = str(value)
        try:
            return max(0.0, time.time() - parse_time(text))
        except ValueError:
            pass
        try:
            return max(0.0, seconds_of(datetime.fromisoformat(text)))
        except (ValueError, OverflowError):
            self.fail(f"not a time: {text!r}; write 15min, 2h, 7d or 2026-01-31T12:00", param, ctx)


SINCE = SinceTime()
