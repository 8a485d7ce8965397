"""Volumes: pages that an application commits on its own disk, synced with any bucket or share.

``open`` opens a client, a folder with volumes. See docs/volumes.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from siltstone.core.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from siltstone.volumes.async_client import AsyncVolume as AsyncVolume
    from siltstone.volumes.async_client import AsyncVolumeClient as AsyncVolumeClient
    from siltstone.volumes.async_client import AsyncVolumeReader as AsyncVolumeReader
    from siltstone.volumes.async_client import AsyncVolumeWriter as AsyncVolumeWriter
    from siltstone.volumes.async_client import open_async as open_async
    from siltstone.volumes.client import VolumeClient as VolumeClient
    from siltstone.volumes.client import VolumeSync as VolumeSync
    from siltstone.volumes.client import open as open
    from siltstone.volumes.errors import ConcurrentWriteError as ConcurrentWriteError
    from siltstone.volumes.errors import ConflictError as ConflictError
    from siltstone.volumes.errors import NeedsRecoveryError as NeedsRecoveryError
    from siltstone.volumes.errors import RejectedCommitError as RejectedCommitError
    from siltstone.volumes.errors import RemoteMismatchError as RemoteMismatchError
    from siltstone.volumes.errors import VolumeError as VolumeError
    from siltstone.volumes.errors import VolumeExistsError as VolumeExistsError
    from siltstone.volumes.errors import VolumeNameError as VolumeNameError
    from siltstone.volumes.errors import VolumeNotFoundError as VolumeNotFoundError
    from siltstone.volumes.reader import VolumeReader as VolumeReader
    from siltstone.volumes.reader import VolumeWriter as VolumeWriter
    from siltstone.volumes.records.state_rows import Mapping as Mapping
    from siltstone.volumes.records.state_rows import Snapshot as Snapshot
    from siltstone.volumes.records.state_rows import SyncDirection as SyncDirection
    from siltstone.volumes.records.state_rows import VolumeStatus as VolumeStatus
    from siltstone.volumes.volume import SyncAction as SyncAction
    from siltstone.volumes.volume import Volume as Volume
    from siltstone.volumes.volume import VolumeInfo as VolumeInfo

__all__ = [
    "AsyncVolume",
    "AsyncVolumeClient",
    "AsyncVolumeReader",
    "AsyncVolumeWriter",
    "ConcurrentWriteError",
    "ConflictError",
    "Mapping",
    "NeedsRecoveryError",
    "RejectedCommitError",
    "RemoteMismatchError",
    "Snapshot",
    "SyncAction",
    "SyncDirection",
    "Volume",
    "VolumeClient",
    "VolumeError",
    "VolumeExistsError",
    "VolumeInfo",
    "VolumeNameError",
    "VolumeNotFoundError",
    "VolumeReader",
    "VolumeStatus",
    "VolumeSync",
    "VolumeWriter",
    "open",
    "open_async",
]

_PLACES = {
    "AsyncVolume": "async_client",
    "AsyncVolumeClient": "async_client",
    "AsyncVolumeReader": "async_client",
    "AsyncVolumeWriter": "async_client",
    "open_async": "async_client",
    "VolumeClient": "client",
    "Mapping": "records.state_rows",
    "Snapshot": "records.state_rows",
    "SyncAction": "volume",
    "SyncDirection": "records.state_rows",
    "Volume": "volume",
    "VolumeInfo": "volume",
    "VolumeReader": "reader",
    "VolumeStatus": "records.state_rows",
    "VolumeSync": "client",
    "VolumeWriter": "reader",
    "open": "client",
}
_PLACES |= {name: "errors" for name in __all__ if name.endswith("Error")}

_load = _lazy_names(__name__, _PLACES)


def __getattr__(name: str) -> Any:
    try:
        return _load(name)
    except ModuleNotFoundError as error:
        from siltstone.core.packages import install_hint

        raise ImportError(
            f"siltstone.volumes needs a package that is not installed ({error.name}); "
            f"try: {install_hint('volumes')}"
        ) from error


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
