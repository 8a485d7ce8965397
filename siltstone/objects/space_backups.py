"""The care of backups of keyspaces: which there are, and how old ones go. All of it blocks."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from siltstone.core.errors import CorruptDataError, StoreNotFoundError
from siltstone.core.text import uuid_text
from siltstone.objects.records.space_backup import SpaceBackup
from siltstone.objects.space_place import SpacePlace, one_space, spaces_in
from siltstone.store.admin.generations import FoundRecord
from siltstone.store.admin.place_objects import delete_all
from siltstone.store.admin.place_turns import Lease, turn


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyspaceBackup:
    """A backup of a keyspace in a place.

    Attributes:
        generation: its number; later ones are higher.
        keyspace: the name that it had; ``None`` when no record can be read.
        store: uuid of the store that it was in; ``None`` likewise.
        made: when it was begun, seconds since 1970.
        sqn: SQN of the newest change that it has; 0 for none.
        segments: how many value segments it has.
        large: how many large values it has.
        size: bytes of both.
        missing: ranges of bytes that it lacks, since they were damaged or gone in the store.
        damage: what is wrong with its two records, for people; none when all is well.
    """

    generation: int
    keyspace: str | None
    store: str | None
    made: float
    sqn: int
    segments: int
    large: int
    size: int
    missing: int
    damage: tuple[str, ...]


def list_backups(
    place: Path | str, keyspace: str | None = None, store: str | None = None
) -> list[KeyspaceBackup]:
    """The backups of keyspaces in a place, those of one keyspace from the oldest to the newest.

    Args:
        place: settings file of the place, or a folder.
        keyspace: name; ``None`` means all.
        store: uuid of the store that it was in; ``None`` means all.

    Raises:
        StoreNotFoundError: a keyspace or a store is named, and there are none of it.
        SettingsError: there is no such place; or one keyspace is meant, and several fit.
        ChunkError: the place refused, or did not answer.
        FormatError: a newer version made one.
    """
    with spaces_in(place) as spaces:
        if keyspace is not None or store is not None:
            spaces = [one_space(spaces, keyspace, store, place=place)]
        return [found for each in spaces for found in _backups(each)]


def _backups(space: SpacePlace) -> list[KeyspaceBackup]:
    found = []
    for each in space.settled():
        backup = each.backup
        found.append(
            KeyspaceBackup(
                generation=each.number,
                keyspace=None if backup is None else backup.keyspace,
                store=None if backup is None else uuid_text(backup.store_id),
                made=0.0 if backup is None else backup.made_ms / 1000,
                sqn=0 if backup is None else backup.next_sqn - 1,
                segments=0 if backup is None else len(backup.segments),
                large=0 if backup is None else len(backup.large),
                size=0 if backup is None else backup.size,
                missing=0 if backup is None else len(backup.missing),
                damage=tuple(one.text for one in each.damage),
            )
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedBackups:
    """What ``remove_backups`` removed.

    Attributes:
        generations: numbers of the backups.
        objects: objects with values that no other backup needs.
        size: bytes of these.
    """

    generations: tuple[int, ...]
    objects: int
    size: int


def remove_backups(
    place: Path | str,
    generations: Collection[int],
    *,
    keyspace: str | None = None,
    store: str | None = None,
    takeover: bool = False,
    dry_run: bool = False,
) -> RemovedBackups:
    """Remove backups of a keyspace, and every object that no other backup of it names.

    A repeat goes on; without any generation it deletes what calls that died have left.

    Args:
        place: settings file of the place, or a folder.
        generations: their numbers. Those that are gone already are no error.
        keyspace: name; ``None`` means the only one that the place has backups of.
        store: uuid of the store that it was in; ``None`` means the only one.
        takeover: continue although another call is at work in the place.
        dry_run: only tell what would be removed.

    Raises:
        StoreNotFoundError: there are none of it, or there never was one of a number.
        SettingsError: there is no such place; or several keyspaces fit.
        StoreInUseError: another call makes or removes backups of this keyspace here.
        CorruptDataError: another backup cannot be read, so what it needs is unknown: objects stay.
        ChunkError: the place refused, or did not answer.
    """
    with spaces_in(place) as spaces:
        space = one_space(spaces, keyspace, store, place=place)
        if dry_run:
            gone = _gone(space, generations)
            sizes = _garbage(
                space, [each for each in space.generations() if each.number not in gone]
            )
            return RemovedBackups(
                generations=tuple(gone), objects=len(sizes), size=sum(sizes.values())
            )
        with turn(space, takeover=takeover) as taken:
            gone = _gone(space, generations)
            for number in gone:
                taken.check()
                space.forget(number)
            count, size = _collect(space, taken)
    return RemovedBackups(generations=tuple(gone), objects=count, size=size)


def _gone(space: SpacePlace, generations: Collection[int]) -> list[int]:
    """Those of some generations that are there."""
    there = set(space.numbers())
    for number in generations:
        if number > max(there, default=0):
            raise StoreNotFoundError("there is no such backup", generation=number)
    return sorted(there.intersection(generations))


def _collect(space: SpacePlace, taken: Lease) -> tuple[int, int]:
    """Delete the objects that nothing names; return how many, and their bytes."""
    whole = space.generations()
    garbage = _garbage(space, whole)
    for number in set(space.numbers()) - {found.number for found in whole}:
        taken.check()
        space.forget(number)  # its maker died in the middle of its record
    delete_all(space.storage, [space.folder + name for name in garbage], taken.check)
    return len(garbage), sum(garbage.values())


def _garbage(space: SpacePlace, kept: list[FoundRecord[SpaceBackup]]) -> dict[str, int]:
    """The lengths of the objects that no kept generation names.

    Raises:
        CorruptDataError: one cannot be read, so what it needs is unknown.
    """
    named: set[str] = set()
    for found in kept:
        if found.backup is None:
            raise CorruptDataError(
                f"backup {found.number} cannot be read", where=found.damage[0].name
            )
        named |= {part.name for part in found.backup.objects}
    return {name: length for name, length in space.lengths().items() if name not in named}
