"""The object ``volumes/place``: which place this is, so that no other is taken for it.

Body, in an envelope of kind ``VOLUME_PLACE``::

    place: bytes[16]    random
"""

from __future__ import annotations

from siltstone.core.errors import CorruptDataError
from siltstone.core.records.envelope import RecordKind, open_only, seal
from siltstone.volumes.records.keys import ID_BYTES

_VERSION = 1


def encode_place(place: bytes) -> bytes:
    """Encode the record of a place."""
    return seal(RecordKind.VOLUME_PLACE, _VERSION, place)


def decode_place(data: bytes, *, where: str) -> bytes:
    """Return the id of the place. Raises ``CorruptDataError`` and ``FormatError``."""
    body = open_only(data, RecordKind.VOLUME_PLACE, _VERSION, where=where)
    if len(body) != ID_BYTES:
        raise CorruptDataError("record of a place has another length", where=where)
    return body
