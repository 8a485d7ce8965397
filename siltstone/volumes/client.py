"""A client: a folder with volumes, and the place that they are synced with."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.closed_on_exit import Closing
from siltstone.core.environment import Environment, SystemEnvironment
from siltstone.core.errors import ClosedError, SettingsError, SiltstoneError
from siltstone.store.admin.place_settings import find_place, open_place
from siltstone.volumes.errors import VolumeExistsError, VolumeNameError, VolumeNotFoundError
from siltstone.volumes.fetch import need_log
from siltstone.volumes.partitions import Partitions, VolumePartition
from siltstone.volumes.place_calls import run
from siltstone.volumes.records.keys import ID_BYTES, NAME, name_key
from siltstone.volumes.records.state_rows import SyncDirection, VolumeConfig
from siltstone.volumes.settings import (
    ClientSettings,
    Durability,
    read_settings,
    write_settings,
)
from siltstone.volumes.volume import ClientParts, SyncAction, Volume
from siltstone.volumes.volume_rows import VolumeRows

NAME_BYTES_MAX: Final = 255

_CLIENT_KEY: Final = b"client"
_ROWS_FOLDER: Final = "partitions"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeSync:
    """What a sync of one volume did.

    Attributes:
        name: of the volume.
        action: what was done; ``None`` if it failed.
        error: why it failed.
    """

    name: str
    action: SyncAction | None = None
    error: SiltstoneError | None = None


class VolumeClient(Closing):
    """Volumes in a folder of this machine. Thread-safe; a context manager. Made by ``open``.

    Only one process can have the folder open. The place is asked when a verb first needs it, so
    everything else works without a network.

    Args:
        folder: of the client.
        settings: of the client.
        open_storage: opens the place that the volumes are synced with.
        environment: gives ids and the time; closed with the client.
    """

    def __init__(
        self,
        folder: Path,
        settings: ClientSettings,
        open_storage: Callable[[], ChunkStorage],
        environment: Environment,
    ) -> None:
        self._folder = folder
        self._settings = settings
        self._open_storage = open_storage
        self._environment = environment
        self._lock = threading.Lock()
        self._place_lock = threading.Lock()
        self._storage: ChunkStorage | None = None
        self._volumes: dict[str, Volume] = {}
        self._closed = False
        self._partitions = Partitions(folder / _ROWS_FOLDER)
        try:
            own_id = self._own_id()
        except BaseException:
            self._partitions.close()
            raise
        self._parts = ClientParts(
            partitions=self._partitions,
            environment=environment,
            client=own_id,
            level=settings.level,
            synced=settings.durability is Durability.POWER,
            cache=settings.cache,
            storage=self._opened_place,
        )
        self._stopped = threading.Event()
        self._worker: threading.Thread | None = None
        if settings.interval is not None:
            self._worker = threading.Thread(
                target=self._sync_often, args=(settings.interval,), name="volume-sync", daemon=True
            )
            self._worker.start()

    @classmethod
    def open(cls, folder: Path | str, place: str | None, environment: Environment) -> VolumeClient:
        """See ``siltstone.volumes.open``."""
        path = Path(folder).expanduser().absolute()
        settings = read_settings(path)
        if settings is None:
            if place is None:
                raise SettingsError(
                    f"{path}: no client is here: give the place that its volumes are pushed to"
                )
            target = find_place(place)
            settings = write_settings(path, target.path)
        else:
            target = find_place(
                path / Path(settings.place).expanduser() if place is None else place
            )
        return cls(path, settings, partial(open_place, target, environment, make=True), environment)

    def names(self) -> list[str]:
        """Names of the volumes, in order."""
        self._check_open()
        rows = self._partitions.scan(VolumePartition.VOLUMES, NAME, NAME)
        return [key[len(NAME) :].decode("utf-8") for key, _ in rows]

    def create(self, name: str, *, sync: SyncDirection | str | None = None) -> Volume:
        """Make an empty volume with a log of its own. Needs no network.

        Args:
            name: of at most 255 bytes of UTF-8, printable.
            sync: which way ``sync`` moves commits; by default as the settings say.

        Raises:
            VolumeExistsError: there is one of this name.
            VolumeNameError: it cannot be the name of a volume.
            ValueError: there is no such direction.
        """
        return self._add(name, self._environment.uuid(), sync)

    def clone(self, name: str, log: str, *, sync: SyncDirection | str | None = None) -> Volume:
        """Make a volume that follows a log of the place, as it is now; fetches no page.

        Args:
            name: see ``create``.
            log: id of the log: ``Volume.log`` of the volume that was pushed.
            sync: see ``create``.

        Raises:
            VolumeNotFoundError: the place has no such log.
            VolumeExistsError: there is a volume of this name.
            VolumeNameError: it cannot be the name of a volume.
            ChunkError: the place did not answer; nothing was made.
        """
        check_name(name)
        log_id = _log_id(log)
        if name in self.names():
            raise VolumeExistsError("client has a volume of this name", volume=name)
        run(need_log(log_id), self._opened_place)
        volume = self._add(name, log_id, sync)
        try:
            volume.pull()
        except BaseException:
            self.drop(name)
            raise
        return volume

    def drop(self, name: str) -> None:
        """Remove a volume from this client, with commits that were not pushed; the place keeps its.

        Readers and writers of it fail from now on.

        Raises:
            VolumeNotFoundError: there is none of this name.
        """
        dropped = self.volume(name)
        with self._lock:
            dropped.check_there()  # the name may be that of a newer volume by now
            self._volumes.pop(name, None)
            volume = dropped.end()
            batch = self._partitions.batch()
            batch.delete(VolumePartition.VOLUMES, name_key(name))
            for partition in (
                VolumePartition.VOLUMES,
                VolumePartition.PAGES,
                VolumePartition.COMMITS,
                VolumePartition.GARBAGE,
            ):
                batch.delete_below(partition, volume)
            if not self._is_followed(bytes.fromhex(dropped.log), but=name):
                batch.delete_below(VolumePartition.RECORDS, bytes.fromhex(dropped.log))
            self._partitions.write(batch, synced=True)

    def _is_followed(self, log: bytes, *, but: str) -> bool:
        """Whether a volume other than one of this name has the log."""
        others = self._partitions.scan(VolumePartition.VOLUMES, NAME, NAME)
        return any(
            VolumeRows(self._partitions, volume, "another").config.log == log
            for key, volume in others
            if key != name_key(but)
        )

    def volume(self, name: str) -> Volume:
        """Return a volume. Raises ``VolumeNotFoundError``."""
        with self._lock:
            self._check_open()
            found = self._volumes.get(name)
            if found is None:
                check_name(name)
                volume = self._partitions.get(VolumePartition.VOLUMES, name_key(name))
                if volume is None:
                    raise VolumeNotFoundError(
                        "client has no volume of this name", volume=name, folder=self._folder
                    )
                found = self._volumes[name] = Volume(self._parts, volume, name)
            return found

    def sync(self) -> list[VolumeSync]:
        """Sync each volume in the direction that is set for it; what failed is told, not raised."""
        return [self._synced(name) for name in self.names()]

    def close(self) -> None:
        """Wait for the sync in the background, and close. Idempotent.

        Does nothing in a process that was forked from the one that opened it.
        """
        if self._partitions.is_forked:
            return
        self._stopped.set()
        if self._worker is not None:
            self._worker.join()
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._partitions.close()
            with self._place_lock:
                if self._storage is not None:
                    self._storage.close()
            self._environment.close()

    def _add(self, name: str, log: bytes, sync: SyncDirection | str | None) -> Volume:
        check_name(name)
        direction = self._settings.sync if sync is None else SyncDirection(sync)
        with self._lock:
            self._check_open()
            if self._partitions.get(VolumePartition.VOLUMES, name_key(name)) is not None:
                raise VolumeExistsError("client has a volume of this name", volume=name)
            volume = self._environment.uuid()
            batch = self._partitions.batch()
            batch.put(VolumePartition.VOLUMES, name_key(name), volume)
            rows = VolumeRows(self._partitions, volume, name)
            rows.put_config(batch, VolumeConfig(log=log, sync=direction))
            self._partitions.write(batch, synced=True)
        return self.volume(name)

    def _own_id(self) -> bytes:
        found = self._partitions.get(VolumePartition.VOLUMES, _CLIENT_KEY)
        if found is None:
            found = self._environment.uuid()
            batch = self._partitions.batch()
            batch.put(VolumePartition.VOLUMES, _CLIENT_KEY, found)
            self._partitions.write(batch, synced=True)
        return found

    def _opened_place(self) -> ChunkStorage:
        # Not under the other lock, since it may take long, and most verbs need no place.
        with self._place_lock:
            self._check_open()
            if self._storage is None:
                self._storage = self._open_storage()
            return self._storage

    def _sync_often(self, interval_s: float) -> None:
        while not self._stopped.wait(interval_s):
            try:
                self._sync_each()
            except Exception:  # noqa: BLE001 - the next one may be done, and nothing else would be
                _log.exception("volumes were not synced")

    def _sync_each(self) -> None:
        for name in self.names():
            if self._stopped.is_set():
                return
            done = self._synced(name)
            if done.error is not None:
                _log.warning("volume was not synced: volume=%s: %s", name, done.error)

    def _synced(self, name: str) -> VolumeSync:
        try:
            return VolumeSync(name=name, action=self.volume(name).sync())
        except SiltstoneError as error:
            return VolumeSync(name=name, error=error)

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("client is closed", folder=self._folder)


def check_name(name: str) -> None:
    """Check the name of a volume. Raises ``VolumeNameError`` and ``TypeError``."""
    if not isinstance(name, str):
        raise TypeError(f"name of a volume is a str, not {type(name).__name__}")
    if not name or not name.isprintable() or len(name.encode("utf-8", "replace")) > NAME_BYTES_MAX:
        raise VolumeNameError(
            f"name of a volume has 1 to {NAME_BYTES_MAX} bytes, all printable", volume=repr(name)
        )


def _log_id(log: str) -> bytes:
    try:
        found = bytes.fromhex(log)
    except ValueError:
        found = b""
    if len(found) != ID_BYTES:
        raise VolumeNotFoundError(f"id of a log is {2 * ID_BYTES} hex digits", log=repr(log))
    return found


def open(folder: Path | str, *, place: str | None = None) -> VolumeClient:
    """Open a client: a folder with volumes.

    Args:
        folder: made when it is missing, with its settings in ``volumes.yaml``.
        place: what the volumes are synced with: a folder, or a settings file with the section
            ``long_term_storage``. Needed for a new client; otherwise that of the settings.

    Raises:
        SettingsError: the settings are wrong, or a new client has no place.
        StoreInUseError: another process, or this one, has the folder open.
        CorruptDataError: the folder is damaged.
        StoreError: this process was forked from one that had opened a store or a client.
    """
    return VolumeClient.open(folder, place, SystemEnvironment())
