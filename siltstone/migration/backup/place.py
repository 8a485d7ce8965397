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
from dataclasses import dataclass
from typing import Final

from siltstone.core.checksums import crc32c, crc32c_of
from siltstone.core.chunk_storage import Buffer, ChunkStorage
from siltstone.core.closed_on_exit import Closing
from siltstone.core.environment import Environment
from siltstone.core.errors import (
    ChunkError,
    ChunkExistsError,
    ChunkNotFoundError,
    ChunkOffsetError,
    ChunkStorageFullError,
    CorruptDataError,
    Outcome,
    StoreError,
    StoreNotFoundError,
)
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
from siltstone.core.records.envelope import is_cut
from siltstone.store.manifest import MANIFEST_NAME

ROOT: Final = "siltstone-backup/"
CHUNKS: Final = "chunks/"
FILES: Final = "files/"
GENERATIONS: Final = "generations/"
COPY: Final = ".copy"
NUMBER: Final = re.compile(r"[0-9]{20}")
"""The names of a generation and of a turn; anything with another name there is not ours."""
_STORE: Final = re.compile(r"[0-9a-f]{32}")
_PUTS_MAX: Final = 3
_NONCE_BYTES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDamage:
    """What is wrong with one of the two records of a generation.

    Attributes:
        name: of the record.
        missing: whether it is not there; if not, it cannot be read.
        text: the same for people.
    """

    name: str
    missing: bool
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundGeneration:
    """A generation whose record, or the copy of it, is there.

    Attributes:
        number: of the generation.
        backup: what it says; ``None`` when neither can be read.
        damage: what is wrong with its record and with the copy; empty when all is well.
    """

    number: int
    backup: Backup | None
    damage: tuple[RecordDamage, ...] = ()


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
        """Read an object and compare it with its sum.

        Raises:
            CorruptDataError: it is damaged, or not there.
        """
        if not found.name:
            return b""
        where = self.folder + found.name
        buffer = bytearray(found.length)
        try:
            count = self.storage.read_into(where, 0, buffer)
        except (ChunkNotFoundError, ChunkOffsetError) as error:
            raise CorruptDataError("object of a backup is not there", where=where) from error
        if count != found.length or crc32c(buffer) != found.crc:
            raise CorruptDataError("object of a backup is damaged", where=where)
        return bytes(buffer)

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
        """All generations that are whole, the oldest first, and those whose records are damaged.

        Raises:
            FormatError: a newer version made one.
            ChunkError: the place did not answer.
        """
        found = (self._generation(number) for number in self.numbers())
        return [one for one in found if one is not None]

    def numbers(self) -> list[int]:
        """The numbers of all generations, of those too whose maker died before they were whole."""
        prefix = f"{self.folder}{GENERATIONS}"
        found = {one.name[len(prefix) :].removesuffix(COPY) for one in self.storage.list(prefix)}
        return sorted(int(number) for number in found if NUMBER.fullmatch(number))

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
        now = self._generation(backup.generation)
        if now is None or now.backup not in (None, backup):
            raise StoreNotFoundError(
                "the backup was removed meanwhile", generation=backup.generation, place=self.folder
            )

    def generation(self, number: int | None) -> Backup:
        """The newest generation, or the one of a number.

        Raises:
            StoreNotFoundError: there is none.
            CorruptDataError: its record is damaged, and so is the copy.
        """
        found = [one for one in self.generations() if number in (None, one.number)]
        if not found:
            text = "the place has no backup" if number is None else "there is no such backup"
            raise StoreNotFoundError(text, generation=number, place=self.folder)
        backup = found[-1].backup
        if backup is None:
            raise CorruptDataError("record of a backup is damaged", where=found[-1].damage[0].name)
        return backup

    def state(self, backup: Backup) -> None:
        """Make a generation whole: everything that it names is there."""
        data = encode_backup(backup)
        for name in self._records(backup.generation):
            put(self.storage, name, [data])

    def forget(self, number: int) -> None:
        """Take the record of a generation away. What it named stays, for others may name it."""
        for name in reversed(self._records(number)):
            delete(self.storage, name)

    def _records(self, number: int) -> tuple[str, str]:
        """In the order in which they are written: so the other one says that the first is whole."""
        name = f"{self.folder}{GENERATIONS}{number:020d}"
        return name + COPY, name

    def _generation(self, number: int) -> FoundGeneration | None:
        """A generation; ``None`` when it is gone, or its maker died in the middle of a record."""
        backup: Backup | None = None
        damage: list[RecordDamage] = []
        cut = False
        for name in self._records(number):
            try:
                data = _read_record(self.storage, name)
                cut = cut or (not damage and is_cut(data))
                found = decode_backup(data, where=name)
                if (found.store_id, found.generation) != (self.store_id, number):
                    raise CorruptDataError("record of another backup", where=name)
            except ChunkNotFoundError:
                if cut:
                    return None
                text = f"record of a backup is not there where={name}"
                damage.append(RecordDamage(name=name, missing=True, text=text))
            except CorruptDataError as error:
                damage.append(RecordDamage(name=name, missing=False, text=str(error)))
            else:
                backup = backup or found
        if backup is None and all(one.missing for one in damage):
            return None  # removed after the listing that showed it
        return FoundGeneration(number=number, backup=backup, damage=tuple(damage))

    def close(self) -> None:
        """Close the place. Idempotent."""
        self.storage.close()


def check_no_store(storage: ChunkStorage, path: str) -> None:
    """Refuse the long-term storage of a store as a place of backups. Raises ``StoreError``."""
    try:
        storage.stat(MANIFEST_NAME)
    except ChunkNotFoundError:
        return
    raise StoreError("this is the long-term storage of a store, choose another place", place=path)


def stores_in(storage: ChunkStorage) -> Iterator[bytes]:
    """The ids of all stores that a place has backups of."""
    start_after = ""
    while (found := next(iter(storage.list(ROOT, start_after)), None)) is not None:
        text = found.name[len(ROOT) :].partition("/")[0]
        # The character after the slash: everything of this store is below it.
        start_after = f"{ROOT}{text}0"
        if _STORE.fullmatch(text):
            yield bytes.fromhex(text)


def put(storage: ChunkStorage, name: str, buffers: Sequence[Buffer]) -> None:
    """Make an object with this content, in the place of whatever has its name.

    What is put here is the same in each try, so a create whose outcome is unknown may be repeated.
    """
    for tries_left in range(_PUTS_MAX - 1, -1, -1):
        try:
            storage.create(name, buffers)
        except ChunkExistsError:
            if not tries_left:
                raise
            delete(storage, name)
        except ChunkStorageFullError:
            raise  # it stays full, whatever became of the name
        except ChunkError as error:
            if not tries_left or error.outcome is not Outcome.UNKNOWN:
                raise
        else:
            return


def delete(storage: ChunkStorage, name: str) -> None:
    """Remove an object; one that is gone is fine."""
    try:
        storage.delete(name)
    except ChunkNotFoundError:
        return


def _read_record(storage: ChunkStorage, name: str) -> bytearray:
    buffer = bytearray(storage.stat(name).length)
    count = storage.read_into(name, 0, buffer)
    del buffer[count:]
    return buffer
