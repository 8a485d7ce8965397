"""Backups of keyspaces in a place, read as a whole and compared with their sums. It blocks."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from siltstone.core.errors import CorruptDataError, StoreNotFoundError
from siltstone.core.records.backup import BackupObject
from siltstone.objects.records.space_backup import AbsentBytes, SpaceBackup
from siltstone.objects.space_place import SpacePlace, one_space, spaces_in
from siltstone.store.admin.generations import FoundRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedBackup:
    """An object in a place that is damaged or gone, and the backups that need it.

    Attributes:
        keyspace: the name that it had; ``None`` when no record can be read.
        generations: numbers of the backups, in order.
        where: the name of the object in the place.
        text: what is wrong, for people.
    """

    keyspace: str | None
    generations: tuple[int, ...]
    where: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyspaceVerifyReport:
    """What ``verify_backups`` found.

    Attributes:
        generations: how many backups were looked at.
        objects: how many objects with values were read, each once.
        size: bytes of these.
        damage: what is wrong; none when every backup can be restored as a whole. Bytes that were
            missing when a backup was made are in it, too.
    """

    generations: int
    objects: int
    size: int
    damage: tuple[DamagedBackup, ...]


def verify_backups(
    place: Path | str,
    generations: Collection[int] | None = None,
    *,
    keyspace: str | None = None,
    store: str | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> KeyspaceVerifyReport:
    """Read all that backups of keyspaces in a place name, and compare it with their sums.

    It changes nothing, and holds up to 32 MiB in memory. Backups may be made meanwhile; of one that
    is removed meanwhile the objects are told as gone.

    Args:
        place: settings file of the place, or a folder.
        generations: their numbers, of one keyspace; ``None`` means all.
        keyspace: name; ``None`` means all, or the only one where generations are named.
        store: uuid of the store that it was in; ``None`` likewise.
        progress: told bytes of objects that are done, and of all.

    Raises:
        StoreNotFoundError: there are none of it, or none of a number.
        SettingsError: there is no such place; or one keyspace is meant, and several fit.
        ChunkError: the place refused, or did not answer.
        FormatError: a newer version made one.
    """
    with spaces_in(place) as spaces:
        if generations is not None or keyspace is not None or store is not None:
            spaces = [one_space(spaces, keyspace, store, place=place)]
        wanted = [_Wanted.of(space, generations) for space in spaces]
        total = sum(each.size for each in wanted)
        done = 0
        damage = [found for each in wanted for found in each.damaged_records()]
        damage += [found for each in wanted for found in each.missing_bytes()]
        for each in wanted:
            for one, needed in each.objects.items():
                try:
                    each.space.read(one)
                except CorruptDataError as error:
                    damage.append(each.damage(needed, each.space.folder + one.name, str(error)))
                done += one.length
                progress(done, total)
    return KeyspaceVerifyReport(
        generations=sum(len(each.found) for each in wanted),
        objects=sum(len(each.objects) for each in wanted),
        size=total,
        damage=tuple(damage),
    )


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is read of one keyspace.

    Attributes:
        space: its backups.
        found: the generations.
        objects: what they name, and the numbers of those that name it.
    """

    space: SpacePlace
    found: list[FoundRecord[SpaceBackup]]
    objects: dict[BackupObject, list[int]]

    @staticmethod
    def of(space: SpacePlace, generations: Collection[int] | None) -> _Wanted:
        """Choose generations. Raises ``StoreNotFoundError`` when one is not there."""
        found = space.settled()
        for number in generations or ():
            if all(each.number != number for each in found):
                raise StoreNotFoundError("there is no such backup", generation=number)
        chosen = [each for each in found if generations is None or each.number in generations]
        objects: dict[BackupObject, list[int]] = {}
        for each in chosen:
            for one in () if each.backup is None else each.backup.objects:
                objects.setdefault(one, []).append(each.number)
        return _Wanted(space, chosen, objects)

    @property
    def size(self) -> int:
        """Bytes of all objects."""
        return sum(each.length for each in self.objects)

    def damaged_records(self) -> list[DamagedBackup]:
        """What is wrong with the records of generations."""
        return [
            self.damage([each.number], one.name, one.text)
            for each in self.found
            for one in each.damage
        ]

    def missing_bytes(self) -> list[DamagedBackup]:
        """What backups lack since they were made."""
        lacks: dict[AbsentBytes, list[int]] = {}
        for each in self.found:
            for one in () if each.backup is None else each.backup.missing:
                lacks.setdefault(one, []).append(each.number)
        return [
            self.damage(
                needed, self.space.folder + one.segment, f"missing since it was made: {one}"
            )
            for one, needed in lacks.items()
        ]

    def damage(self, needed: list[int], where: str, text: str) -> DamagedBackup:
        """Say what is wrong with one object of the place."""
        names = {each.backup.keyspace for each in self.found if each.backup is not None}
        return DamagedBackup(
            keyspace=next(iter(names), None), generations=tuple(needed), where=where, text=text
        )
