"""The names of chunks, journal files and other objects on long-term storage. Pure functions.

::

    data/c<container>/e<epoch>/<segment name>/<start, 20 digits>-<chunk id, 16 hex>.chunk
    data/c<container>/e<epoch>/_shared/<count of runs, 20 digits>-<chunk id, 16 hex>.chunk
    import/c<container>/<session id, 16 hex>/<partition>-<attempt>-<nonce>
    system/c<container>/e<epoch>/...
    system/store
    system/pins/<container>-<nonce>
    system/files/<container>-<nonce>.silt

``start`` is the offset in the segment of the chunk's first byte. Epochs have 20 digits, so that a
listing is in their order. No part of an escaped segment name holds a full stop, so a chunk never
has the name of another segment's folder. A chunk that several segments share holds as many runs of
their bytes as its name says; no segment's folder is called ``_shared``, since two hex digits or
nothing follow each ``_`` of an escaped name.
"""

from __future__ import annotations

import hashlib
import re

from siltstone.core.errors import CorruptDataError

PINS_PREFIX = "system/pins/"
FILES_PREFIX = "system/files/"

_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-")
_PART_BYTES_MAX = 120
_PART_KEPT = 100
_PARTS_MAX = 6
_IMPORTED = re.compile(r"([0-9a-f]{16})/[0-9]{5,20}-([0-9]{1,20})-[0-9a-f]{16}")


def _escaped(part: bytes) -> str:
    return "".join(chr(byte) if byte in _PLAIN else f"_{byte:02x}" for byte in part)


def _digest(part: bytes) -> str:
    return hashlib.blake2b(part, digest_size=8).hexdigest()


def _shortened(part: str) -> str:
    if len(part) <= _PART_BYTES_MAX:
        return part
    return f"{part[:_PART_KEPT]}-{_digest(part.encode())}"


def segment_folder(name: str) -> str:
    """Return the folder that the chunks of segment ``name`` lie in, below their epoch.

    Each byte outside ``[A-Za-z0-9-]`` becomes ``_`` and two hex digits; ``/`` separates parts. A
    part over 120 bytes keeps its first 100 and gets a hash; beyond 6 parts the rest is hashed into
    the last; an empty part becomes ``_``, which no escape yields.
    """
    parts = [_escaped(part) or "_" for part in name.encode("utf-8").split(b"/")]
    if len(parts) > _PARTS_MAX:
        rest = "/".join(parts[_PARTS_MAX - 1 :])
        parts = [
            *parts[: _PARTS_MAX - 1],
            f"{parts[_PARTS_MAX - 1][:_PART_KEPT]}-{_digest(rest.encode())}",
        ]
    return "/".join(_shortened(part) for part in parts)


def data_prefix(container: int) -> str:
    """Prefix of all data chunks of a container."""
    return f"data/c{container}/"


def is_data_chunk(name: str) -> bool:
    """Whether a name is that of a chunk of users' segments, not of a system file."""
    return name.startswith(("data/", "import/"))


def data_chunk(container: int, epoch: int, segment: str, start: int, chunk_id: int) -> str:
    """Name of a data chunk whose first byte is ``start`` of ``segment``."""
    folder = segment_folder(segment)
    return f"data/c{container}/e{epoch:020d}/{folder}/{start:020d}-{chunk_id:016x}.chunk"


def shared_chunk(container: int, epoch: int, count: int, chunk_id: int) -> str:
    """Name of a data chunk that holds ``count`` runs of bytes, each of another segment."""
    return f"data/c{container}/e{epoch:020d}/_shared/{count:020d}-{chunk_id:016x}.chunk"


def is_ours(name: str) -> bool:
    """Whether a name lies where this store makes chunks and system files of its own."""
    return name.startswith(("data/", "import/", "system/"))


def import_prefix(container: int) -> str:
    """Prefix of all that import sessions of a container bring."""
    return f"import/c{container}/"


def session_prefix(container: int, session_id: int) -> str:
    """Prefix of what one import session brings."""
    return f"{import_prefix(container)}{session_id:016x}/"


def imported_chunk(prefix: str, partition: int, attempt: int, nonce: str) -> str:
    """Name of a chunk that the ``attempt`` at a part of an import makes, below its prefix."""
    return f"{prefix}{partition:05d}-{attempt}-{nonce}"


def imported_attempt(name: str, prefix: str) -> int | None:
    """The attempt in a chunk's name below its session's prefix; ``None`` for any other name."""
    session = prefix.rstrip("/").rpartition("/")[2]
    start = len(prefix) - len(session) - 1
    match = _IMPORTED.fullmatch(name, start) if name.startswith(prefix) else None
    return None if match is None else int(match[2])


def session_of(name: str, container: int) -> int | None:
    """The id of the import session that a name belongs to; ``None`` when it is not of that form."""
    prefix = import_prefix(container)
    match = _IMPORTED.fullmatch(name, len(prefix)) if name.startswith(prefix) else None
    return None if match is None else int(match[1], 16)


def system_prefix(container: int) -> str:
    """Prefix of all system files of a container."""
    return f"system/c{container}/"


def system_epoch_prefix(container: int, epoch: int) -> str:
    """Prefix of the system files of one epoch of a container."""
    return f"system/c{container}/e{epoch:020d}/"


def journal_file(container: int, epoch: int, number: int) -> str:
    """Name of the journal file ``number``, from 1 on, of an epoch."""
    return f"{system_epoch_prefix(container, epoch)}journal-{number:020d}"


def system_chunk(container: int, epoch: int, start: int, chunk_id: int) -> str:
    """Name of a chunk of the table log."""
    return f"{system_epoch_prefix(container, epoch)}tables-{start:020d}-{chunk_id:016x}"


def index_file(container: int, epoch: int, crc: int, length: int, nonce: str) -> str:
    """Name of an uploaded file of an index checkpoint."""
    return f"{system_epoch_prefix(container, epoch)}index-{crc:08x}-{length}-{nonce}"


def claim_file(container: int, epoch: int) -> str:
    """Name of the object that an owner makes once its epoch has booted."""
    return f"{system_epoch_prefix(container, epoch)}claim"


def recovery_file(container: int, epoch: int) -> str:
    """Name of the object that a recovery with loss makes before its checkpoint."""
    return f"{system_epoch_prefix(container, epoch)}recovery"


def file_manifest(container: int, nonce: str) -> str:
    """Name of a file manifest. Paths of Spark hold it, and know it by its end."""
    return f"{FILES_PREFIX}{container}-{nonce}.silt"


def epoch_of(name: str) -> int:
    """Return the epoch in the name of a data chunk or system file.

    Raises:
        CorruptDataError: the name is not one of ours.
    """
    parts = name.split("/", 3)
    if len(parts) == 4 and parts[2][:1] == "e" and parts[2][1:].isdigit():
        return int(parts[2][1:])
    raise CorruptDataError("name has no epoch", where=name)
