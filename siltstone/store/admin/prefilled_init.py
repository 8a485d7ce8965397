"""Making a store in several steps. The same call continues one that was killed.

While it is made, its settings lie next to their place under a name that says what it is made from,
and long-term storage has no store manifest, or only the next call knows where it is. So no process
opens it, and a repeat knows what is its own. That file is locked as long as a call is at work.
"""

from __future__ import annotations

import fcntl
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from errno import ENOLCK, ENOSYS, EOPNOTSUPP
from functools import partial
from pathlib import Path
from typing import Final

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.environment import SystemEnvironment
from siltstone.core.error_facts import add_facts
from siltstone.core.errors import (
    ChunkExistsError,
    CorruptDataError,
    SettingsError,
    SiltstoneError,
    StoreError,
    StoreExistsError,
    StoreInUseError,
)
from siltstone.core.posix import SystemFileCalls, sync_folder
from siltstone.core.records.envelope import is_cut
from siltstone.core.records.store_manifest import StoreManifest, encode_store_manifest
from siltstone.core.storage.first_look import first_look
from siltstone.core.storage.optional_verbs import delete_many
from siltstone.segments.simplified_layout import SIMPLIFIED, holds_simplified
from siltstone.store.manifest import MANIFEST_NAME, read_manifest
from siltstone.store.settings.effective import load_settings, storage_place
from siltstone.store.settings.file import FILE_NAME
from siltstone.store.settings.template import CHUNKS_FOLDER, made_from_of
from siltstone.store.site import (
    Site,
    make_folders,
    refuse_used,
    removed_on_failure,
    storage_at,
    write_durably,
)
from siltstone.store.store import open_store
from siltstone.store.store_assembly import Assembly

_DRAFT: Final = f".{FILE_NAME}.from-"
_FIRST: Final = re.compile(re.escape(f".{FILE_NAME}.") + "[0-9a-f]{32}")
"""A draft before its place is known to be empty."""

_NO_LOCKS: Final = frozenset({ENOLCK, ENOSYS, EOPNOTSUPP})
"""What is answered where there are no locks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewStore:
    """A store that is being made.

    Attributes:
        assembly: gives its logs and clients of its long-term storage.
        settings: its settings file for now.
        store_id: of the store, 16 bytes; the same in each try.
        lengths: of the objects that an earlier try has brought, by name.
    """

    assembly: Assembly
    settings: Path
    store_id: bytes
    lengths: dict[str, int]


def fill_store(
    site: Site,
    origin: str,
    containers: int,
    fill: Callable[[NewStore], None],
    *,
    stays: bool = True,
) -> Path:
    """Make a store by ``fill`` and return its settings file.

    Args:
        site: where; its folders and its long-term storage must be empty, but for what an earlier
            try with the same ``origin`` has left.
        origin: what the store is made from, as a part of a file name.
        containers: of the store.
        fill: brings what the store is to hold; it finds what an earlier try brought.
        stays: what was made stays when something fails, for the next call; else it is removed.

    Raises:
        StoreExistsError: a store, or something else, is here already.
        StoreInUseError: another call makes a store here.
        StoreError: the folder cannot be written, or an earlier try was another one.
        SettingsError: the options of ``site`` are wrong.
        ChunkError: long-term storage refused, or did not answer.
    """
    environment = SystemEnvironment()
    settings = site.place / FILE_NAME
    try:
        if _is_named(site, origin, stays=stays):
            _tidy(site)
            return settings
        with removed_on_failure() as made, _named_as(settings, site):
            draft, store_id = _draft(site, origin, environment, made, stays=stays)
            if stays:
                made.clear()
            with _held(draft):
                manifest = StoreManifest(
                    store_id=store_id,
                    container_count=containers,
                    created_ms=int(environment.time() * 1000),
                )
                _fill(draft, manifest, fill, environment, stays=stays)
                with _emptied_on_failure(site, draft, stays=stays):
                    open_store(draft).close()
                    _name(draft, settings)
        _tidy(site)
        return settings
    except OSError as error:
        raise StoreError(
            f"no store can be made here: {error.strerror}", path=error.filename or site.place
        ) from error
    finally:
        environment.close()


def begun(site: Site) -> str | None:
    """What an unfinished call here makes a store from; ``None`` if there is none."""
    return next((_origin_of(draft) for draft in _drafts(site)), None)


def _fill(
    draft: Path,
    manifest: StoreManifest,
    fill: Callable[[NewStore], None],
    environment: SystemEnvironment,
    *,
    stays: bool,
) -> None:
    """Bring what the store is to hold, then make it one that can be opened."""
    store_id = manifest.store_id
    with closing(Assembly(load_settings(draft), environment, manifest)) as assembly:
        with closing(storage_at(draft)) as storage:
            lengths = _own(storage, store_id)
        if lengths and not stays and MANIFEST_NAME not in lengths:
            raise _not_empty(draft, min(lengths))
        fill(NewStore(assembly=assembly, settings=draft, store_id=store_id, lengths=lengths))
    with closing(storage_at(draft)) as storage:
        _state(storage, manifest)


def _not_empty(
    draft: Path, found: str, what: str = "choose another folder or prefix, or open what is there"
) -> StoreExistsError:
    error = StoreExistsError(f"long-term storage is not empty: {what}", found=found)
    add_facts(error, storage_place(load_settings(draft).binding_options, None))
    return error


def _drafts(site: Site) -> list[Path]:
    return sorted(site.place.glob(f"{_DRAFT}*")) if site.place.is_dir() else []


def _origin_of(draft: Path) -> str:
    return draft.name[len(_DRAFT) :].rpartition(".")[0]


def _is_named(site: Site, origin: str, *, stays: bool) -> bool:
    """Whether a call for the same has made the store that is here.

    Where a try that failed would have been removed, only one that was killed is known again, by
    what it worked with.

    Raises:
        StoreExistsError: there is another store.
    """
    settings = site.place / FILE_NAME
    if not first_look(site.place, settings.exists):
        return False
    for draft in _drafts(site):
        if _origin_of(draft) == origin and draft.samefile(settings):
            return True
    made_from = made_from_of(settings)
    if stays and made_from == origin:
        return True
    raise StoreExistsError("there is a store here already", path=settings, made_from=made_from)


def _draft(
    site: Site, origin: str, environment: SystemEnvironment, made: list[Path], *, stays: bool
) -> tuple[Path, bytes]:
    """The settings file of an earlier try, or a new one; and the id of the store in it."""
    place = site.place
    text = partial(site.settings_text, made_from=origin if stays else None)
    for draft in _drafts(site):
        if _origin_of(draft) != origin:
            raise StoreExistsError(
                "something else was begun here and is not finished: repeat that, or remove what it"
                " has made and this file",
                begun=_origin_of(draft),
                path=draft,
            )
        store_id = bytes.fromhex(draft.name.rpartition(".")[2])
        if draft.read_text(encoding="utf-8") != text(store_id):
            raise StoreError(
                "the call before had other options: repeat it with those, or remove what it has"
                " made and this file",
                path=draft,
            )
        return draft, store_id
    first_look(place, lambda: refuse_used(site))
    store_id = environment.uuid()
    draft = place / f"{_DRAFT}{origin}.{store_id.hex()}"
    first = place / f".{FILE_NAME}.{store_id.hex()}"
    make_folders(site, made)
    made.append(first)
    write_durably(first, text(store_id))
    with closing(storage_at(first)) as storage:
        if (there := next(iter(storage.list()), None)) is not None:
            if (name := holds_simplified(storage)) is not None:
                raise _not_empty(first, name, SIMPLIFIED)
            raise _not_empty(first, there.name)
    # From here on what lies there is ours.
    first.rename(draft)
    made.append(draft)
    sync_folder(SystemFileCalls(), str(place))
    return draft, store_id


@contextmanager
def _held(draft: Path) -> Iterator[None]:
    """Hold the lock of a draft. Raises ``StoreInUseError``, ``StoreExistsError``."""
    with draft.open("r+b") as file:  # NFS gives this lock to writers only
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            text = "another call makes a store here"
            raise StoreInUseError(text, owner="unknown", path=draft) from error
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
        if not draft.exists():  # it was made meanwhile
            raise StoreExistsError("there is a store here already", path=draft.parent / FILE_NAME)
        yield


@contextmanager
def _named_as(settings: Path, site: Site) -> Iterator[None]:
    """Name the settings file in what is wrong with its draft."""
    try:
        yield
    except SettingsError as error:
        # By its form: the draft itself may be removed already.
        draft = re.escape(str(site.place / f".{FILE_NAME}.")) + "[^/]*?[0-9a-f]{32}"
        raise SettingsError(re.sub(draft, lambda _: str(settings), str(error))) from error


@contextmanager
def _emptied_on_failure(site: Site, settings: Path, *, stays: bool) -> Iterator[None]:
    """Empty folders and storage of a store that is ours for certain, when the body fails."""
    try:
        yield
    except BaseException:
        named = site.place / FILE_NAME
        if not stays and not (named.exists() and named.samefile(settings)):
            if CHUNKS_FOLDER not in site.folders:
                with suppress(SiltstoneError), closing(storage_at(settings)) as storage:
                    delete_many(storage, [found.name for found in storage.list()])
            for name in site.folders:
                for path in (site.place / name).iterdir():
                    if path.is_dir():
                        shutil.rmtree(path, ignore_errors=True)
                    else:
                        path.unlink(missing_ok=True)
            settings.unlink(missing_ok=True)
        raise


def _own(storage: ChunkStorage, store_id: bytes) -> dict[str, int]:
    """What an earlier try has brought; another store in its place is refused.

    A manifest that was cut is ours, of a call that was killed: the place was empty before.
    """
    lengths = {found.name: found.length for found in storage.list()}
    if MANIFEST_NAME in lengths:
        try:
            stated = read_manifest(storage)
        except CorruptDataError:
            data = bytearray(lengths[MANIFEST_NAME])
            if data:
                storage.read_into(MANIFEST_NAME, 0, data)
            if not is_cut(data):
                raise
            storage.delete(MANIFEST_NAME)
            del lengths[MANIFEST_NAME]
        else:
            if stated.store_id != store_id:
                raise StoreExistsError("long-term storage holds another store")
    return lengths


def _state(storage: ChunkStorage, manifest: StoreManifest) -> None:
    """Make the store one that can be opened."""
    try:
        storage.create(MANIFEST_NAME, [encode_store_manifest(manifest)])
    except ChunkExistsError as error:
        if read_manifest(storage).store_id != manifest.store_id:
            raise StoreExistsError("long-term storage holds another store") from error


def _name(draft: Path, settings: Path) -> None:
    try:
        settings.hardlink_to(draft)  # exclusive: of two makers one wins
    except FileExistsError as error:
        raise StoreExistsError("there is a store here already", path=settings) from error


def _first_drafts(site: Site) -> list[Path]:
    return [path for path in site.place.glob(".*") if _FIRST.fullmatch(path.name)]


def _tidy(site: Site) -> None:
    """Remove what calls have worked with, killed ones too, once the settings file is there."""
    # The draft last: it says that the settings file is of this call.
    for path in (*_first_drafts(site), *_drafts(site)):
        path.unlink(missing_ok=True)
    sync_folder(SystemFileCalls(), str(site.place))
