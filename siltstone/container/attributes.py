"""What attributes a segment may have, and what a change makes of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from siltstone.container.views import SetAttribute
from siltstone.core.errors import AttributeLimitError

ATTRIBUTES_MAX = 32
ATTRIBUTE_BYTES_MAX = 4_096
"""Most bytes of UTF-8 that keys and values of one segment have together."""


def changed(
    segment: str, before: Mapping[str, str], changes: Iterable[SetAttribute]
) -> dict[str, str]:
    """Return the attributes of ``segment`` after ``changes``, made in order.

    Raises:
        AttributeLimitError: there would be too many, or they would be too long.
    """
    after = dict(before)
    for change in changes:
        if change.value is None:
            after.pop(change.key, None)
        else:
            after[change.key] = change.value
    check_limits(segment, after)
    return after


def check_limits(segment: str, attributes: Mapping[str, str]) -> None:
    """Refuse more than a segment may have. Raises ``AttributeLimitError``."""
    size = sum(len(part.encode("utf-8")) for item in attributes.items() for part in item)
    if len(attributes) > ATTRIBUTES_MAX or size > ATTRIBUTE_BYTES_MAX:
        raise AttributeLimitError(
            "too many or too long attributes",
            segment=segment,
            count=len(attributes),
            count_max=ATTRIBUTES_MAX,
            bytes=size,
            bytes_max=ATTRIBUTE_BYTES_MAX,
        )


def check_attribute(key: object, value: object) -> None:
    """Refuse what can be no attribute; a ``value`` of ``None`` is a removal or absence.

    Raises:
        TypeError: no strings.
        ValueError: the key is empty or holds ``=``, or one of both is not valid unicode.
    """
    if not isinstance(key, str) or not (value is None or isinstance(value, str)):
        raise TypeError("keys and values of attributes are strings")
    if not key or "=" in key:
        raise ValueError(f"an attribute's key is not empty and holds no '=': {key!r}")
    for part in (key, value or ""):
        part.encode("utf-8")
