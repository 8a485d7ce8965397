"""Keyspaces: values of any size by bucket and key, with heads and an index, in an open store.

``create`` makes a keyspace in a ``siltstone.Store``, ``open`` opens one; ``create_async`` and
``open_async`` do it in a ``siltstone.AsyncStore``. See docs/keyspaces.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.core.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from siltstone.objects.async_exchange import AsyncDifferences as AsyncDifferences
    from siltstone.objects.async_exchange import Difference as Difference
    from siltstone.objects.async_keyspace import AsyncKeyspace as AsyncKeyspace
    from siltstone.objects.async_keyspaces import check_async as check_async
    from siltstone.objects.async_keyspaces import create_async as create_async
    from siltstone.objects.async_keyspaces import destroy_async as destroy_async
    from siltstone.objects.async_keyspaces import names_async as names_async
    from siltstone.objects.async_keyspaces import open_async as open_async
    from siltstone.objects.async_keyspaces import rebuild_async as rebuild_async
    from siltstone.objects.async_keyspaces import restore_async as restore_async
    from siltstone.objects.async_keyspaces import warnings_async as warnings_async
    from siltstone.objects.async_snapshot import AsyncKeyspaceSnapshot as AsyncKeyspaceSnapshot
    from siltstone.objects.batch import PutResult as PutResult
    from siltstone.objects.blocking_exchange import Differences as Differences
    from siltstone.objects.blocking_large import OpenValue as OpenValue
    from siltstone.objects.blocking_snapshot import KeyspaceSnapshot as KeyspaceSnapshot
    from siltstone.objects.entries import EntriesResult as EntriesResult
    from siltstone.objects.errors import CompactionBusyError as CompactionBusyError
    from siltstone.objects.errors import KeyspaceExistsError as KeyspaceExistsError
    from siltstone.objects.errors import KeyspaceNameError as KeyspaceNameError
    from siltstone.objects.errors import KeyspaceNotFoundError as KeyspaceNotFoundError
    from siltstone.objects.errors import LostObjectError as LostObjectError
    from siltstone.objects.errors import ObjectError as ObjectError
    from siltstone.objects.errors import ObjectLimitError as ObjectLimitError
    from siltstone.objects.errors import RebuildingError as RebuildingError
    from siltstone.objects.errors import UnsupportedError as UnsupportedError
    from siltstone.objects.evaluation import SqnIs as SqnIs
    from siltstone.objects.keyspace import Keyspace as Keyspace
    from siltstone.objects.keyspace import check as check
    from siltstone.objects.keyspace import create as create
    from siltstone.objects.keyspace import destroy as destroy
    from siltstone.objects.keyspace import names as names
    from siltstone.objects.keyspace import open as open
    from siltstone.objects.keyspace import rebuild as rebuild
    from siltstone.objects.keyspace import restore as restore
    from siltstone.objects.keyspace import warnings as warnings
    from siltstone.objects.object_views import ObjectHead as ObjectHead
    from siltstone.objects.object_views import StoredObject as StoredObject
    from siltstone.objects.open_value import AsyncOpenValue as AsyncOpenValue
    from siltstone.objects.rebuild_plan import Recalc as Recalc
    from siltstone.objects.rebuild_report import DoubtfulObject as DoubtfulObject
    from siltstone.objects.rebuild_report import RebuildReport as RebuildReport
    from siltstone.objects.records.space_backup import AbsentBytes as AbsentBytes
    from siltstone.objects.space_backup import KeyspaceBackupReport as KeyspaceBackupReport
    from siltstone.objects.space_backups import KeyspaceBackup as KeyspaceBackup
    from siltstone.objects.space_backups import RemovedBackups as RemovedBackups
    from siltstone.objects.space_backups import list_backups as list_backups
    from siltstone.objects.space_backups import remove_backups as remove_backups
    from siltstone.objects.space_info import KeyspaceInfo as KeyspaceInfo
    from siltstone.objects.space_info import ValueSegmentInfo as ValueSegmentInfo
    from siltstone.objects.space_removal import RemovedKeyspace as RemovedKeyspace
    from siltstone.objects.space_verify import DamagedBackup as DamagedBackup
    from siltstone.objects.space_verify import KeyspaceVerifyReport as KeyspaceVerifyReport
    from siltstone.objects.space_verify import verify_backups as verify_backups
    from siltstone.objects.space_warnings import KeyspaceWarning as KeyspaceWarning
    from siltstone.objects.space_warnings import KeyspaceWarningKind as KeyspaceWarningKind
    from siltstone.objects.sync import SyncReport as SyncReport
    from siltstone.objects.value_compaction import CompactionReport as CompactionReport
    from siltstone.objects.value_compaction import DroppedObject as DroppedObject

__all__ = [
    "AbsentBytes",
    "AsyncDifferences",
    "AsyncKeyspace",
    "AsyncKeyspaceSnapshot",
    "AsyncOpenValue",
    "CompactionBusyError",
    "CompactionReport",
    "DamagedBackup",
    "Difference",
    "Differences",
    "DoubtfulObject",
    "DroppedObject",
    "EntriesResult",
    "Keyspace",
    "KeyspaceBackup",
    "KeyspaceBackupReport",
    "KeyspaceExistsError",
    "KeyspaceInfo",
    "KeyspaceNameError",
    "KeyspaceNotFoundError",
    "KeyspaceSnapshot",
    "KeyspaceVerifyReport",
    "KeyspaceWarning",
    "KeyspaceWarningKind",
    "LostObjectError",
    "ObjectError",
    "ObjectHead",
    "ObjectLimitError",
    "OpenValue",
    "PutResult",
    "RebuildReport",
    "RebuildingError",
    "Recalc",
    "RemovedBackups",
    "RemovedKeyspace",
    "SqnIs",
    "StoredObject",
    "SyncReport",
    "UnsupportedError",
    "ValueSegmentInfo",
    "check",
    "check_async",
    "create",
    "create_async",
    "destroy",
    "destroy_async",
    "list_backups",
    "names",
    "names_async",
    "open",
    "open_async",
    "rebuild",
    "rebuild_async",
    "remove_backups",
    "restore",
    "restore_async",
    "verify_backups",
    "warnings",
    "warnings_async",
]

_PLACES = {
    "AsyncDifferences": "async_exchange",
    "AsyncKeyspace": "async_keyspace",
    "AsyncKeyspaceSnapshot": "async_snapshot",
    "AsyncOpenValue": "open_value",
    "CompactionReport": "value_compaction",
    "DroppedObject": "value_compaction",
    "Difference": "async_exchange",
    "Differences": "blocking_exchange",
    "DoubtfulObject": "rebuild_report",
    "EntriesResult": "entries",
    "Keyspace": "keyspace",
    "KeyspaceInfo": "space_info",
    "KeyspaceBackup": "space_backups",
    "KeyspaceBackupReport": "space_backup",
    "KeyspaceSnapshot": "blocking_snapshot",
    "AbsentBytes": "records.space_backup",
    "ObjectHead": "object_views",
    "OpenValue": "blocking_large",
    "PutResult": "batch",
    "RemovedKeyspace": "space_removal",
    "RebuildReport": "rebuild_report",
    "Recalc": "rebuild_plan",
    "RemovedBackups": "space_backups",
    "SqnIs": "evaluation",
    "StoredObject": "object_views",
    "ValueSegmentInfo": "space_info",
    "check": "keyspace",
    "check_async": "async_keyspaces",
    "SyncReport": "sync",
    "create": "keyspace",
    "create_async": "async_keyspaces",
    "destroy": "keyspace",
    "destroy_async": "async_keyspaces",
    "list_backups": "space_backups",
    "names": "keyspace",
    "names_async": "async_keyspaces",
    "open": "keyspace",
    "open_async": "async_keyspaces",
    "rebuild": "keyspace",
    "rebuild_async": "async_keyspaces",
    "remove_backups": "space_backups",
    "restore": "keyspace",
    "restore_async": "async_keyspaces",
    "DamagedBackup": "space_verify",
    "KeyspaceVerifyReport": "space_verify",
    "verify_backups": "space_verify",
    "KeyspaceWarning": "space_warnings",
    "KeyspaceWarningKind": "space_warnings",
    "warnings": "keyspace",
    "warnings_async": "async_keyspaces",
}


_PLACES |= {name: "errors" for name in __all__ if name.endswith("Error")}

__getattr__ = _lazy_names(__name__, _PLACES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
