"""The place of backups: what lies where in it, what counts as whole, and whose turn it is.

A place holds backups of any number of stores. Names in it::

    siltstone-backup/<store id>/chunks/<chunk name>.<start>-<stop>     bytes of chunks
    siltstone-backup/<store id>/files/<container>-<kind>-<crc>-<length>-<nonce>
    siltstone-backup/<store id>/generations/<generation, 20 digits>    the record of a generation
    siltstone-backup/<store id>/generations/<generation, 20 digits>.copy
    siltstone-backup/<store id>/turns/<turn, 20 digits>                who works here

The record is written last, so a generation is there whole or not at all. Nothing that a record
names is ever changed. It is written twice, so that one damaged object takes no generation away.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from siltstone.core.checksums import crc32c_of
from siltstone.core.chunk_storage import Buffer, ChunkStorage
from siltstone.core.closed_on_exit import Closing
from siltstone.core.environment import Environment
from siltstone.core.errors import CorruptDataError, StoreNotFoundError
from siltstone.core.records.backup import (
    Backup,
    BackupChunk,
    BackupContainer,
    BackupObject,
    decode_backup,
    decode_chunk_list,
    encode_backup,
)
from siltstone.core.records.backup_collections import BackupCollection, decode_collections
from siltstone.store.admin.generations import GENERATIONS, FoundRecord, Generations
from siltstone.store.admin.place_objects import put, read_object

ROOT: Final = "siltstone-backup/"
CHUNKS: Final = "chunks/"
FILES: Final = "files/"
_STORE: Final = re.compile(r"[0-9a-f]{32}")
_NONCE_BYTES: Final = 8


FoundGeneration = FoundRecord[Backup]


class BackupPlace(Closing):
    """The backups of one store in a place.

    Args:
        storage: the place; closed by ``close``.
        environment: gives randomness.
        store_id: of the store, 16 bytes.

    Attributes:
        folder: what all names here begin with.
    """

    def __init__(self, storage: ChunkStorage, environment: Environment, store_id: bytes) -> None:
        self.storage = storage
        self.environment = environment
        self.store_id = store_id
        self.folder = f"{ROOT}{store_id.hex()}/"
        self._generations = Generations(storage, self.folder, self._decode)

    # --- objects ----------------------------------------------------------------------------------

    def lengths(self, kind: str) -> dict[str, int]:
        """The lengths of all objects below ``CHUNKS`` or ``FILES``, by name below ``folder``."""
        cut = len(self.folder)
        return {found.name[cut:]: found.length for found in self.storage.list(self.folder + kind)}

    def put_file(self, container: int, kind: str, buffers: Sequence[Buffer]) -> BackupObject:
        """Keep bytes under a name that was never used; no bytes at all need no object."""
        length = sum(map(len, buffers))
        if not length:
            return BackupObject()
        crc = crc32c_of(buffers)
        nonce = self.environment.random_bytes(_NONCE_BYTES).hex()
        name = f"{FILES}{container}-{kind}-{crc:08x}-{length}-{nonce}"
        put(self.storage, self.folder + name, buffers)
        return BackupObject(name=name, length=length, crc=crc)

    def read(self, found: BackupObject) -> bytes:
        """See ``read_object``; what has no name is empty."""
        return read_object(self.storage, self.folder, found) if found.name else b""

    def chunks(self, container: BackupContainer) -> tuple[BackupChunk, ...]:
        """The chunks of a container. Raises as ``read`` does."""
        where = self.folder + container.list.name
        return decode_chunk_list(self.read(container.list), container.chunks, where=where)

    def collections(self, backup: Backup) -> tuple[BackupCollection, ...]:
        """The collections of a backup. Raises as ``read`` does."""
        if backup.collections is None:
            return ()
        content = backup.collections.content
        return decode_collections(self.read(content), where=self.folder + content.name)

    def copies(self, backup: Backup) -> Iterator[BackupChunk]:
        """All that is copied in fragments: chunks, and objects of rows. Raises as ``read`` does."""
        for container in backup.containers:
            yield from self.chunks(container)
        for collection in self.collections(backup):
            yield from collection.parts

    # --- generations ------------------------------------------------------------------------------

    def generations(self) -> list[FoundGeneration]:
        """See ``Generations.found``."""
        return self._generations.found()

    def settled(self) -> list[FoundGeneration]:
        """See ``Generations.settled``."""
        return self._generations.settled()

    def numbers(self) -> list[int]:
        """See ``Generations.numbers``."""
        return self._generations.numbers()

    def witness(self, number: int | None = None) -> str:
        """An object that is here, by which workers know the place; preferably one that stays.

        Args:
            number: of the generation that goes when it does; ``None`` takes what is there.

        Raises:
            StoreNotFoundError: there is none.
        """
        begin = "" if number is None else f"{number:020d}"
        records = [found.name for found in self.storage.list(self.folder + GENERATIONS + begin)]
        if records:
            return records[-1]  # of the newest generation: the oldest ones are removed first
        found = None if begin else next(iter(self.storage.list(self.folder)), None)
        if found is not None:
            return found.name
        text = "there is no such backup" if begin else "the place has no backup"
        raise StoreNotFoundError(text, generation=number, place=self.folder)

    def check_there(self, backup: Backup) -> None:
        """Raise ``StoreNotFoundError`` if a generation was removed since it was read."""
        now = self._generations.one(backup.generation)
        if now is None or now.backup not in (None, backup):
            raise StoreNotFoundError(
                "the backup was removed meanwhile", generation=backup.generation, place=self.folder
            )

    def generation(self, number: int | None) -> Backup:
        """See ``Generations.wanted``."""
        return self._generations.wanted(number)

    def state(self, backup: Backup) -> None:
        """See ``Generations.state``."""
        self._generations.state(backup.generation, encode_backup(backup))

    def forget(self, number: int) -> None:
        """See ``Generations.forget``."""
        self._generations.forget(number)

    def _decode(self, data: Buffer, number: int, where: str) -> Backup:
        found = decode_backup(data, where=where)
        if (found.store_id, found.generation) != (self.store_id, number):
            raise CorruptDataError("record of another backup", where=where)
        return found

    def close(self) -> None:
        """Close the place. Idempotent."""
        self.storage.close()


def stores_in(storage: ChunkStorage) -> Iterator[bytes]:
    """The ids of all stores that a place has backups of."""
    start_after = ""
    while (found := next(iter(storage.list(ROOT, start_after)), None)) is not None:
        text = found.name[len(ROOT) :].partition("/")[0]
        # The character after the slash: everything of this store is below it.
        start_after = f"{ROOT}{text}0"
        if _STORE.fullmatch(text):
            yield bytes.fromhex(text)
