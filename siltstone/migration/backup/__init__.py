"""Backups: made, verified, restored, expired. Each function is loaded when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from siltstone.core.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from siltstone.migration.backup.admin import collect_backups as collect_backups
    from siltstone.migration.backup.admin import list_backups as list_backups
    from siltstone.migration.backup.admin import remove_backups as remove_backups
    from siltstone.migration.backup.create import BackupReport as BackupReport
    from siltstone.migration.backup.create import create_backup as create_backup
    from siltstone.migration.backup.restore import restore_backup as restore_backup
    from siltstone.migration.backup.verify import verify_backups as verify_backups

_PLACES: Final = {
    "BackupReport": "create",
    "collect_backups": "admin",
    "create_backup": "create",
    "list_backups": "admin",
    "remove_backups": "admin",
    "restore_backup": "restore",
    "verify_backups": "verify",
}

__all__ = [
    "BackupReport",
    "collect_backups",
    "create_backup",
    "list_backups",
    "remove_backups",
    "restore_backup",
    "verify_backups",
]

__getattr__ = _lazy_names(__name__, _PLACES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
