"""The time zones that a session of Spark may have, by the names that Java knows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from siltstone.core.errors import SettingsError

Offset = Callable[[int], int]
"""Gives the seconds east of Greenwich at this many seconds since 1970 in UTC."""

SHORT_IDS: Final[Mapping[str, str]] = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka", "CAT": "Africa/Harare", "CNT": "America/St_Johns",
    "CST": "America/Chicago", "CTT": "Asia/Shanghai", "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris", "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo", "MIT": "Pacific/Apia", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi", "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh",
    "EST": "-05:00", "MST": "-07:00", "HST": "-10:00",
}  # fmt: skip
"""``java.time.ZoneId.SHORT_IDS``, which Spark asks first."""

_ONE_HOUR_DIGIT: Final = re.compile(r"([+-])(\d):")
_ONE_MINUTE_DIGIT: Final = re.compile(r"([+-])(\d\d):(\d)$")
_PREFIX: Final = re.compile(r"(?:UTC|GMT|UT)(?=[+-]|$)")
_OFFSET: Final = re.compile(r"([+-])(\d{1,2})(?:(:?)(\d\d)(?:\3(\d\d))?)?")
_OFFSET_MAX_S: Final = 18 * 3600
_CYCLE_S: Final = 146_097 * 86_400
"""The calendar, and with it every rule of summer time, begins again every 400 years."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_S: Final = int((datetime(2, 1, 1, tzinfo=UTC) - _EPOCH).total_seconds())
_LAST_S: Final = int((datetime(9999, 1, 1, tzinfo=UTC) - _EPOCH).total_seconds())


def zone_offset(name: str) -> Offset:
    """Find the rule of a zone of ``spark.sql.session.timeZone``.

    Raises:
        SettingsError: the zones of this machine do not have it.
    """
    text = _ONE_HOUR_DIGIT.sub(r"\g<1>0\2:", name, count=1)
    text = _ONE_MINUTE_DIGIT.sub(r"\1\2:0\3", text, count=1)
    text = SHORT_IDS.get(text, text)
    fixed = _fixed(_PREFIX.sub("", text, count=1))
    if fixed is not None:
        return lambda _: fixed
    try:
        zone = ZoneInfo(text)
    except (KeyError, ValueError, OSError) as error:
        raise SettingsError(
            f"time zone {name!r} of the session is not known here; cast the key to STRING"
        ) from error
    return lambda seconds: _offset(zone, seconds)


def _fixed(text: str) -> int | None:
    """Seconds of ``+h``, ``+hh``, ``+hh:mm``, ``+hhmm`` and so on, and of no offset."""
    if text in ("", "Z"):
        return 0
    match = _OFFSET.fullmatch(text)
    if match is None:
        return None
    sign, hours, _, minutes, seconds = match.groups()
    total = int(hours) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
    if total > _OFFSET_MAX_S:
        return None
    return -total if sign == "-" else total


def _offset(zone: ZoneInfo, seconds: int) -> int:
    # Before its first rule a zone has one offset, and after the last one a rule for each year.
    inside = max(seconds, _FIRST_S)
    if inside >= _LAST_S:
        inside -= ((inside - _LAST_S) // _CYCLE_S + 1) * _CYCLE_S
    offset = (_EPOCH + timedelta(seconds=inside)).astimezone(zone).utcoffset()
    assert offset is not None, "a zone has an offset at every instant"
    return int(offset.total_seconds())
