"""The care of backups: which ones exist, and how old ones are removed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import CorruptDataError, SettingsError, StoreNotFoundError
from siltstone.core.text import uuid_text
from siltstone.migration.backup.place import CHUNKS, FILES, BackupPlace, FoundGeneration, stores_in
from siltstone.migration.backup.plan import fragment_name
from siltstone.store.admin.place_objects import delete_all
from siltstone.store.admin.place_settings import find_place, open_place
from siltstone.store.admin.place_turns import turn


@contextmanager
def backups_of(
    place: Path | str, store: str | None, *, rate: int | None = None
) -> Iterator[BackupPlace]:
    """Open the backups of one store, until the end of the block.

    Args:
        place: settings file of the place, or a folder.
        store: uuid of the store; ``None`` means the only one that the place has backups of.
        rate: bytes a second to and from the place; ``None`` means no limit.

    Raises:
        StoreNotFoundError: the place has no backups of it.
        SettingsError: it has those of several stores, and none was named.
        ChunkError: the place refused, or did not answer.
    """
    environment = SystemEnvironment()
    found = find_place(place)
    try:
        storage = open_place(found, environment, rate=rate)
        try:
            ids = [uuid_text(one) for one in stores_in(storage)]
            if store is None and len(ids) > 1:
                known = ", ".join(ids)
                raise SettingsError(f"{found.path}: backups of several stores, --of one: {known}")
            chosen = store or next(iter(ids), None)
            if chosen not in ids:
                raise StoreNotFoundError("no backups are here", place=found.path, store=store)
            yield BackupPlace(storage, environment, bytes.fromhex(chosen.replace("-", "")))
        finally:
            storage.close()
    finally:
        environment.close()


def list_backups(place: Path | str, store: str | None = None) -> list[FoundGeneration]:
    """The generations of a store, the oldest first; see ``backups_of`` for arguments and errors."""
    with backups_of(place, store) as opened:
        return opened.settled()


def remove_backups(
    place: Path | str,
    generations: Collection[int],
    store: str | None = None,
    *,
    dry_run: bool = False,
    takeover: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> None:
    """Take generations away; what they alone named is garbage from then on.

    Numbers only grow. So a number below the newest one that is not there was removed before, for
    instance by a call that died.

    Args:
        place: settings file of the place, or a folder.
        generations: their numbers.
        store: see ``backups_of``.
        dry_run: only look whether they are there.
        takeover: continue although another call is at work in the place.
        progress: called with each that is gone, durably.

    Raises:
        StoreNotFoundError: there never was one of a number; nothing was removed.
        StoreInUseError: another call makes, removes or collects backups here.
    """
    with ExitStack() as stack:
        opened = stack.enter_context(backups_of(place, store))
        taken = None if dry_run else stack.enter_context(turn(opened, takeover=takeover))
        there = {found.number for found in opened.generations()}
        for number in generations:
            if number > max(there, default=0):
                raise StoreNotFoundError("there is no such backup", generation=number)
        if taken is None:
            return
        for number in sorted(there.intersection(generations)):
            taken.check()
            opened.forget(number)
            progress(number)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectReport:
    """What ``collect_backups`` removed.

    Attributes:
        count: of objects.
        size: their bytes.
    """

    count: int
    size: int


def collect_backups(
    place: Path | str, store: str | None = None, *, dry_run: bool = False, takeover: bool = False
) -> CollectReport:
    """Delete every object that no generation names, also those that calls which died have left.

    Args:
        place: settings file of the place, or a folder.
        store: see ``backups_of``.
        dry_run: only count.
        takeover: continue although another call is at work in the place.

    Raises:
        CorruptDataError: a generation cannot be read, so what it names is unknown; nothing was
            removed. Remove that generation first.
        StoreInUseError: another call makes, removes or collects backups here.
    """
    with backups_of(place, store) as opened, turn(opened, takeover=takeover) as taken:
        named = named_objects(opened)
        lengths = {**opened.lengths(CHUNKS), **opened.lengths(FILES)}
        garbage = [name for name in lengths if name not in named]
        if not dry_run:
            stated = {found.number for found in opened.generations()}
            for number in opened.numbers():
                if number not in stated:
                    taken.check()
                    opened.forget(number)
            delete_all(opened.storage, [opened.folder + name for name in garbage], taken.check)
        return CollectReport(count=len(garbage), size=sum(lengths[name] for name in garbage))


def named_objects(place: BackupPlace) -> set[str]:
    """The names of all objects, below the store's folder, that generations name.

    Raises:
        CorruptDataError: a generation cannot be read.
    """
    named: set[str] = set()
    for found in place.generations():
        if found.backup is None:
            raise CorruptDataError(
                f"generation {found.number} cannot be read", where=found.damage[0].name
            )
        for container in found.backup.containers:
            named |= {container.list.name, container.tail.name}
            named |= {file.content.name for file in container.index_files}
        if found.backup.collections is not None:
            named.add(found.backup.collections.content.name)
        for chunk in place.copies(found.backup):
            named |= {fragment_name(chunk.stem, one.start, one.stop) for one in chunk.fragments}
    return named
