"""Which consensus the collections of a store use: the object ``collections/consensus``.

Body of a record of kind 24, version 1, little-endian::

    consensus: u16, and that many bytes of UTF-8

The envelope is that of ``siltstone.core.records.envelope``.
"""

from __future__ import annotations

from siltstone.core.constants import Buffer
from siltstone.core.records.envelope import RecordKind, open_only, seal
from siltstone.core.records.fields import FieldReader, FieldWriter

VERSION = 1


def encode_choice(consensus: str) -> bytes:
    """Encode the name of a consensus, such as ``objects``."""
    fields = FieldWriter()
    fields.put_text(consensus)
    return seal(RecordKind.COLLECTION_CONSENSUS, VERSION, fields.to_bytes())


def decode_choice(data: Buffer, *, where: str) -> str:
    """Return the name of the consensus.

    Raises:
        CorruptDataError: damaged; ``where`` is named.
        FormatError: another kind, or a newer version.
    """
    fields = FieldReader(
        open_only(data, RecordKind.COLLECTION_CONSENSUS, VERSION, where=where), where=where
    )
    consensus = fields.take_text()
    fields.finish()
    return consensus
