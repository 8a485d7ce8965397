"""The adoption row: an import session that took objects in place, and whether they are still kept.

Value, under the key of the session's id::

    kind: u8 = 21
    version: u8 = 1
    flags: u8             1 = finalised
    adoption: text
"""

from __future__ import annotations

from dataclasses import dataclass

from siltstone.core.records.keys import RowKind
from siltstone.core.records.wire import Reader, head, text

VERSION = 1
_FINALISED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptionRow:
    """One committed session; there is none for a session whose objects never came to a segment.

    Attributes:
        session_id: of the session.
        adoption: the name that sessions share whose objects are finalised together.
        finalised: whether objects that nothing needs any more may be deleted.
    """

    session_id: int
    adoption: str
    finalised: bool = False


def encode_adoption_row(row: AdoptionRow) -> bytes:
    """Encode the value of the row; the session's id is in its key."""
    flags = bytes((_FINALISED if row.finalised else 0,))
    return head(RowKind.ADOPTION, VERSION) + flags + text(row.adoption)


def decode_adoption_row(session_id: int, value: bytes) -> AdoptionRow:
    """Decode the value of the row of this session.

    Raises:
        FormatError: of another kind or version.
        CorruptDataError: damaged.
    """
    where = f"adoption of session {session_id}"
    reader = Reader(value, kind=RowKind.ADOPTION, version=VERSION, where=where)
    flags = reader.flags(_FINALISED)
    row = AdoptionRow(session_id=session_id, adoption=reader.text(), finalised=bool(flags))
    reader.end()
    return row
