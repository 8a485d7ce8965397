"""From what a person names to the place of a layout, and its keys on the store's own storage."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from siltstone.core.errors import SettingsError
from siltstone.migration.legacy.examine import examine
from siltstone.migration.legacy.findings import LayoutFindings
from siltstone.migration.legacy.importer import InPlace
from siltstone.migration.legacy.names import NoLegacyLayoutError
from siltstone.migration.legacy.plan import migration_name
from siltstone.migration.source.places import FolderPlace, LegacyPlace, StoragePlace
from siltstone.migration.source.worker_layout import WorkerLayout
from siltstone.store.settings.effective import EffectiveSettings, load_settings
from siltstone.store.store_assembly import storage_of

STORAGE: Final = "storage:"
"""The text before a prefix of keys of the store's own long-term storage."""

_FOLDER_BINDING: Final = "nfs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """Where a layout lies.

    Attributes:
        place: reads it.
        folder: the folder, or ``None`` when it is a prefix of a bucket.
        prefix: of its keys on the store's long-term storage; ``None`` when it lies elsewhere.
        migration: its name.
        settings: settings file of the store.
    """

    place: LegacyPlace
    folder: Path | None
    prefix: str | None
    migration: str
    settings: str

    def examine(self, known: Collection[str] = ()) -> LayoutFindings:
        """Look at every file, and write nothing.

        Args:
            known: segments that came from there, see ``naming_of``.

        Raises:
            NoLegacyLayoutError: there is no such folder.
            LegacyLayoutError, OSError, ChunkError: as ``examine``.
        """
        try:
            return examine(self.place, known)
        except NoLegacyLayoutError:
            self.check_folder()
            raise

    def check_folder(self) -> None:
        """Raises ``NoLegacyLayoutError``: there is no such folder."""
        if self.folder is not None and not self.folder.is_dir():
            raise NoLegacyLayoutError("no such folder", where=str(self.folder))

    def for_workers(self, uuid: str) -> WorkerLayout:
        """The layout as it travels; ``uuid`` is that of the store."""
        return WorkerLayout(
            store=self.settings,
            uuid=uuid,
            folder=None if self.folder is None else str(self.folder),
            prefix=self.prefix or "",
        )

    def in_place(self) -> InPlace:
        """The names of the files there, and in which versions they lie there now.

        Raises:
            SettingsError: the layout does not lie on the store's long-term storage.
        """
        if self.prefix is None:
            raise SettingsError(
                f"{self.place.where} is not below the store's long-term storage, so its files "
                f"cannot become chunks: copy it, or move it there"
            )
        with closing(storage_of(self.settings)) as storage:
            versions = {found.name: found.version for found in storage.list(self.prefix)}
        return InPlace(prefix=self.prefix, versions=versions)


@contextmanager
def located(text: str, store: Path | str, sealed: Path | None = None) -> Iterator[Located]:
    """Find a layout, until the end of the block.

    Its folder may be gone: with its last file, where the store continues in it.

    Args:
        text: a folder, or ``storage:`` and a prefix of keys of the store's long-term storage.
        store: the store's settings file, or its folder.
        sealed: a file with one name on each line: what is sealed, in a place that does not tell, or
            in addition to what it tells.

    Raises:
        SettingsError, StoreNotFoundError: the store's settings are wrong, or not there.
        OSError: the file of sealed names cannot be read.
    """
    settings = load_settings(store)
    path = str(Path(settings.file).absolute())
    root = _root(settings)
    names = None if sealed is None else frozenset(sealed.read_text("utf-8").split("\n")) - {""}
    if not text.startswith(STORAGE) or root is not None:
        folder = _folder(text, root)
        prefix = _prefix(folder, root)
        where = str(folder) if prefix is None else f"{STORAGE}{prefix}"
        yield Located(
            place=FolderPlace(folder, names or frozenset()),
            folder=folder,
            prefix=prefix,
            migration=migration_name(where),
            settings=path,
        )
        return
    prefix = text.removeprefix(STORAGE).strip("/")
    prefix = f"{prefix}/" if prefix else ""
    with closing(storage_of(path)) as storage:
        yield Located(
            place=StoragePlace(storage, prefix, names),
            folder=None,
            prefix=prefix,
            migration=migration_name(f"{STORAGE}{prefix}"),
            settings=path,
        )


def _root(settings: EffectiveSettings) -> Path | None:
    """The folder of the chunks, where they lie in one."""
    if settings.binding != _FOLDER_BINDING:
        return None
    return Path(os.path.realpath(str(settings.binding_options["path"])))


def _folder(text: str, root: Path | None) -> Path:
    if text.startswith(STORAGE) and root is not None:
        return root / text.removeprefix(STORAGE).strip("/")
    return Path(os.path.realpath(text))


def _prefix(folder: Path, root: Path | None) -> str | None:
    if root is None or not folder.is_relative_to(root):
        return None
    inside = folder.relative_to(root).as_posix()
    return "" if inside == "." else f"{inside}/"
