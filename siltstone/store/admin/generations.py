"""Generations of backups: each has a record, written last and twice, that names all of it.

Names, below a folder::

    generations/<generation, 20 digits>.copy
    generations/<generation, 20 digits>

So a generation is there whole or not at all, and one damaged object takes none away.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

from siltstone.core.chunk_storage import Buffer, ChunkStorage
from siltstone.core.errors import ChunkNotFoundError, CorruptDataError, StoreNotFoundError
from siltstone.core.records.envelope import is_cut
from siltstone.store.admin.place_objects import NUMBER, delete, put, read_record

GENERATIONS: Final = "generations/"
COPY: Final = ".copy"

R = TypeVar("R")


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
class FoundRecord(Generic[R]):
    """A generation whose record, or the copy of it, is there.

    Attributes:
        number: of the generation.
        backup: what it says; ``None`` when neither can be read.
        damage: what is wrong with its record and with the copy; empty when all is well.
    """

    number: int
    backup: R | None
    damage: tuple[RecordDamage, ...] = ()


class Generations(Generic[R]):
    """The generations in one folder of a place.

    Args:
        storage: the place.
        folder: what all names begin with.
        decode: decodes the record of a generation of a number that lies under a name; raises
            ``CorruptDataError`` for a damaged one, or that of another generation.
    """

    def __init__(
        self, storage: ChunkStorage, folder: str, decode: Callable[[Buffer, int, str], R]
    ) -> None:
        self._storage = storage
        self._folder = folder
        self._decode = decode

    def numbers(self) -> list[int]:
        """The numbers of all generations, of those too whose maker died before they were whole."""
        prefix = f"{self._folder}{GENERATIONS}"
        found = {one.name[len(prefix) :].removesuffix(COPY) for one in self._storage.list(prefix)}
        return sorted(int(number) for number in found if NUMBER.fullmatch(number))

    def found(self) -> list[FoundRecord[R]]:
        """All generations that are whole, the oldest first, and those whose records are damaged.

        Raises:
            FormatError: a newer version made one.
            ChunkError: the place did not answer.
        """
        found = (self.one(number) for number in self.numbers())
        return [one for one in found if one is not None]

    def settled(self) -> list[FoundRecord[R]]:
        """``found``, without damage that is gone at a second look.

        A generation that is being made or removed has one of its two records; not so then.
        """
        found = self.found()
        if not any(one.damage for one in found):
            return found
        before = {record for one in found for record in one.damage}
        return [
            one
            if one.backup is None
            else replace(one, damage=tuple(record for record in one.damage if record in before))
            for one in self.found()
        ]

    def wanted(self, number: int | None) -> R:
        """The newest generation, or the one of a number.

        Raises:
            StoreNotFoundError: there is none.
            CorruptDataError: its record is damaged, and so is the copy.
        """
        found = [one for one in self.found() if number in (None, one.number)]
        if not found:
            text = "the place has no backup" if number is None else "there is no such backup"
            raise StoreNotFoundError(text, generation=number, place=self._folder)
        backup = found[-1].backup
        if backup is None:
            raise CorruptDataError("record of a backup is damaged", where=found[-1].damage[0].name)
        return backup

    def state(self, number: int, data: bytes) -> None:
        """Make a generation whole: everything that its record names is there."""
        for name in self._records(number):
            put(self._storage, name, [data])

    def forget(self, number: int) -> None:
        """Take the record of a generation away. What it named stays, for others may name it."""
        for name in reversed(self._records(number)):
            delete(self._storage, name)

    def _records(self, number: int) -> tuple[str, str]:
        """In the order in which they are written: so the other one says that the first is whole."""
        name = f"{self._folder}{GENERATIONS}{number:020d}"
        return name + COPY, name

    def one(self, number: int) -> FoundRecord[R] | None:
        """A generation; ``None`` when it is gone, or its maker died in the middle of a record."""
        backup: R | None = None
        damage: list[RecordDamage] = []
        cut = False
        for name in self._records(number):
            try:
                data = read_record(self._storage, name)
                cut = cut or (not damage and is_cut(data))
                found = self._decode(data, number, name)
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
        return FoundRecord(number=number, backup=backup, damage=tuple(damage))
