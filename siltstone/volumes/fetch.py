"""Fetching: which commit records a log has after those that are known here.

A fetch without news is one request. With news it is that one, a page of a listing, and one read for
32 records, since records have the ones before them as their trail.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from siltstone.core.errors import ChunkExistsError, CorruptDataError
from siltstone.volumes.errors import RemoteMismatchError, VolumeNotFoundError
from siltstone.volumes.object_names import PLACE, commit_name, commits_of, lsn_of_name
from siltstone.volumes.place_calls import CreateRecord, FirstName, ReadObject, Steps
from siltstone.volumes.records.commit_record import (
    NO_DIGEST,
    CommitRecord,
    decode_record,
    digest_of,
    split_object,
)
from siltstone.volumes.records.place_record import decode_place, encode_place


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedRecord:
    """A commit record of a log.

    Attributes:
        record: what it says.
        encoded: its bytes, without the trail.
    """

    record: CommitRecord
    encoded: bytes


def identify(fresh: bytes) -> Steps[bytes]:
    """Return the id of the place; it gets ``fresh`` as its id if it has none."""
    data = yield ReadObject(PLACE)
    if data is None:
        with suppress(ChunkExistsError):
            yield CreateRecord(PLACE, encode_place(fresh))
        data = yield ReadObject(PLACE)
        if data is None:
            raise CorruptDataError("record of the place is gone", where=PLACE)
    return decode_place(data, where=PLACE)


def newest_lsn(log: bytes) -> Steps[int]:
    """Return the newest remote LSN of a log; 0 if it has no commit.

    What others put between the records is passed over, such as ``.nfs0001`` and ``.DS_Store``.
    """
    name = yield FirstName(commits_of(log))
    while name is not None:
        lsn = lsn_of_name(log, name)
        if lsn is not None:
            return lsn
        name = yield FirstName(commits_of(log), name)
    return 0


def check_log(log: bytes, known: int, encoded: bytes | None) -> Steps[None]:
    """Check that a log still has the newest record that is known.

    A place that was restored from an older backup has not, and would take new commits in the place
    of those that it lost.

    Args:
        log: the log.
        known: its remote LSN; 0 if none is known.
        encoded: the record, without the trail.

    Raises:
        RemoteMismatchError: the log has not got it, or another one.
    """
    if not known:
        return
    name = commit_name(log, known)
    data = yield ReadObject(name)
    if data is None or split_object(data, where=name)[0] != encoded:
        raise RemoteMismatchError(
            "log of the place has not got a commit that it had: it may be a copy, or restored from "
            "a backup",
            log=log.hex(),
            lsn=known,
        )


def fetch_records(log: bytes, known: int, encoded: bytes | None) -> Steps[list[FetchedRecord]]:
    """Return the records after ``known``, in the order of their LSNs; none if there is no news.

    Args:
        log: the log.
        known: the newest remote LSN that is known; 0 if none is.
        encoded: its record, without the trail.

    Raises:
        RemoteMismatchError: they do not follow what is known.
        CorruptDataError: a record is damaged, or missing below another.
    """
    news = yield ReadObject(commit_name(log, known + 1))
    if news is None:
        return []
    newest = yield from newest_lsn(log)
    found: list[FetchedRecord] = []
    lsn = newest
    while lsn > known:
        name = commit_name(log, lsn)
        data = news if lsn == known + 1 else (yield ReadObject(name))
        if data is None:
            raise CorruptDataError("commit record is missing", where=name)
        for each in split_object(data, where=name):
            if lsn == known:
                break
            found.append(_checked(each, log, lsn, where=name))
            lsn -= 1
    found.reverse()
    check_chain(found, NO_DIGEST if encoded is None else digest_of(encoded))
    return found


def _checked(encoded: bytes, log: bytes, lsn: int, *, where: str) -> FetchedRecord:
    record = decode_record(encoded, where=where)
    if record.log != log or record.lsn != lsn:
        raise CorruptDataError("record of another commit", where=where, lsn=record.lsn)
    return FetchedRecord(record=record, encoded=encoded)


def check_chain(records: list[FetchedRecord], digest: bytes) -> None:
    """Check that each record follows the one before, the first one what is known.

    Raises:
        RemoteMismatchError: it does not.
    """
    for each in records:
        if each.record.previous != digest:
            raise RemoteMismatchError(
                "log of the place continues from another commit than the one known here",
                log=each.record.log.hex(),
                lsn=each.record.lsn,
            )
        digest = digest_of(each.encoded)


def need_log(log: bytes) -> Steps[None]:
    """Check that a log has a commit. Raises ``VolumeNotFoundError``."""
    if not (yield from newest_lsn(log)):
        raise VolumeNotFoundError("place has no log of this id", log=log.hex())
