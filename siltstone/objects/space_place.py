"""Backups of keyspaces in a place, which may have those of any number of them. All of it blocks.

Names in it::

    siltstone-keyspaces/<store id>/<keyspace>/values/<segment id, 16 digits>.<start>-<stop>
    siltstone-keyspaces/<store id>/<keyspace>/generations/<generation, 20 digits>
    siltstone-keyspaces/<store id>/<keyspace>/generations/<generation, 20 digits>.copy
    siltstone-keyspaces/<store id>/<keyspace>/turns/<turn, 20 digits>

where ``<keyspace>`` is the BLAKE2b of 16 bytes of its name. What lies where, and whose turn it is,
is as in the place of backups of stores.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Final

from siltstone.core.chunk_storage import Buffer, ChunkStorage
from siltstone.core.environment import Environment, SystemEnvironment
from siltstone.core.errors import CorruptDataError, SettingsError, StoreNotFoundError
from siltstone.core.records.backup import BackupObject
from siltstone.core.text import uuid_text
from siltstone.objects.records.space_backup import (
    SpaceBackup,
    decode_space_backup,
    encode_space_backup,
)
from siltstone.store.admin.generations import FoundRecord, Generations
from siltstone.store.admin.place_objects import read_object, read_what_is_there
from siltstone.store.admin.place_settings import find_place, open_place

ROOT: Final = "siltstone-keyspaces/"
VALUES: Final = "values/"
_FOLDER: Final = re.compile(ROOT + r"([0-9a-f]{32})/([0-9a-f]{32})/")


Progress = Callable[[int, int], None]
"""Called on the loop of the store with how many bytes are done, of how many."""


def no_progress(done: int, total: int) -> None:
    """Tell nothing."""


class SpacePlace:
    """The backups of one keyspace in a place.

    Args:
        storage: the place.
        environment: gives time and randomness.
        folder: what all names begin with; see ``folder_of``.

    Attributes:
        storage: the same.
        environment: the same.
        folder: the same.
    """

    def __init__(self, storage: ChunkStorage, environment: Environment, folder: str) -> None:
        self.storage = storage
        self.environment = environment
        self.folder = folder
        self._generations = Generations(storage, folder, self._decode)

    def lengths(self) -> dict[str, int]:
        """The lengths of all objects with values, by name below the folder."""
        cut = len(self.folder)
        return {found.name[cut:]: found.length for found in self.storage.list(self.folder + VALUES)}

    def read(self, found: BackupObject) -> bytes:
        """See ``read_object``."""
        return read_object(self.storage, self.folder, found)

    def read_what_is_there(self, found: BackupObject) -> bytes:
        """See the function of this name."""
        return read_what_is_there(self.storage, self.folder, found)

    def numbers(self) -> list[int]:
        """See ``Generations.numbers``."""
        return self._generations.numbers()

    def generations(self) -> list[FoundRecord[SpaceBackup]]:
        """See ``Generations.found``."""
        return self._generations.found()

    def settled(self) -> list[FoundRecord[SpaceBackup]]:
        """See ``Generations.settled``."""
        return self._generations.settled()

    def generation(self, number: int | None) -> SpaceBackup:
        """See ``Generations.wanted``."""
        return self._generations.wanted(number)

    def known(self) -> dict[int, tuple[BackupObject, ...]]:
        """The segments that whole generations have here, by their ids in the store."""
        lengths = self.lengths()
        return {
            segment_id: objects
            for found in self.generations()
            if found.backup is not None
            for segment_id, objects in found.backup.copies().items()
            if all(lengths.get(part.name) == part.length for part in objects)
        }

    def state(self, backup: SpaceBackup) -> None:
        """Make a generation whole: everything that it names is there."""
        self._generations.state(backup.generation, encode_space_backup(backup))

    def forget(self, number: int) -> None:
        """See ``Generations.forget``."""
        self._generations.forget(number)

    def _decode(self, data: Buffer, number: int, where: str) -> SpaceBackup:
        found = decode_space_backup(data, where=where)
        if (folder_of(found.store_id, found.keyspace), found.generation) != (self.folder, number):
            raise CorruptDataError("record of another backup", where=where)
        return found


def folder_of(store_id: bytes, keyspace: str) -> str:
    """What the names of the backups of a keyspace begin with."""
    return f"{ROOT}{store_id.hex()}/{_name_hash(keyspace)}/"


def _name_hash(keyspace: str) -> str:
    return blake2b(keyspace.encode(), digest_size=16).hexdigest()


def folders_in(storage: ChunkStorage) -> Iterator[str]:
    """The folders of all keyspaces that a place has backups of, in order."""
    start_after = ""
    while (found := next(iter(storage.list(ROOT, start_after)), None)) is not None:
        match = _FOLDER.match(found.name)
        if match is None:
            start_after = found.name
            continue
        yield match.group()
        # The character after the slash: everything of this keyspace is below it.
        start_after = match.group()[:-1] + "0"


@contextmanager
def spaces_in(place: Path | str) -> Iterator[list[SpacePlace]]:
    """Open the backups of all keyspaces in a place, until the end of the block.

    Raises:
        SettingsError: there is no such place.
        ChunkError: it refused, or did not answer.
    """
    with (
        closing(SystemEnvironment()) as environment,
        closing(open_place(find_place(place), environment)) as storage,
    ):
        yield [SpacePlace(storage, environment, folder) for folder in folders_in(storage)]


def one_space(
    spaces: list[SpacePlace], keyspace: str | None, store: str | None, *, place: Path | str
) -> SpacePlace:
    """Choose the backups of a keyspace.

    Args:
        spaces: all that the place has.
        keyspace: name; ``None`` means the only one.
        store: uuid of the store that it was in; ``None`` means the only one.
        place: where, for messages.

    Raises:
        StoreNotFoundError: there are none of it.
        SettingsError: there are several that fit.
    """
    found = []
    for each in spaces:
        match = _FOLDER.match(each.folder)
        assert match is not None, "it was found by its name"
        store_id, name_hash = match.groups()
        if store in (None, uuid_text(bytes.fromhex(store_id))) and (
            keyspace is None or name_hash == _name_hash(keyspace)
        ):
            found.append(each)
    if not found:
        raise StoreNotFoundError("no backups of such a keyspace are here", place=str(place))
    if len(found) > 1:
        raise SettingsError(f"{place}: backups of several keyspaces fit, name keyspace and store")
    return found[0]
