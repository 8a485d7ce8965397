"""Names of the objects of a place.

::

    volumes/place                           which place this is
    volumes/<log>/commits/<~LSN, 16 hex>    commit records; a listing gives the newest first
    volumes/<log>/bundles/<id>              pages
"""

from __future__ import annotations

from siltstone.volumes.records.keys import LSN_MAX

PLACE = "volumes/place"
_ROOT = "volumes/"


def commits_of(log: bytes) -> str:
    """Beginning of the names of all commit records of a log."""
    return f"{_ROOT}{log.hex()}/commits/"


def commit_name(log: bytes, lsn: int) -> str:
    """Name of the commit record of a remote LSN."""
    return f"{commits_of(log)}{LSN_MAX - lsn:016x}"


def lsn_of_name(log: bytes, name: str) -> int | None:
    """The remote LSN of a commit record; ``None`` for what is none."""
    text = name.removeprefix(commits_of(log))
    try:
        lsn = LSN_MAX - int(text, 16)
    except ValueError:
        return None
    return lsn if commit_name(log, lsn) == name else None


def bundle_name(log: bytes, bundle: bytes) -> str:
    """Name of a bundle."""
    return f"{_ROOT}{log.hex()}/bundles/{bundle.hex()}"
