"""Pushing: the commits that a place has not become one commit record, whose name decides.

A push is never forgotten while its outcome is unknown: its record is noted before it is created,
and the same bytes are created again until the name is taken. What then is there says who was first,
so a create that arrives late finds its name taken and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import IO, Final, cast

from pyroaring import BitMap

from siltstone.core.constants import MIB
from siltstone.core.environment import Environment
from siltstone.core.errors import (
    ChunkError,
    ChunkExistsError,
    CorruptDataError,
    Outcome,
    OutcomeUnknownError,
    StoreError,
)
from siltstone.volumes.errors import RejectedCommitError
from siltstone.volumes.local_commits import LocalCommits
from siltstone.volumes.object_names import bundle_name, commit_name
from siltstone.volumes.page_changes import up_to
from siltstone.volumes.partitions import Partitions
from siltstone.volumes.place_calls import CreateBundle, CreateRecord, ReadObject, Steps
from siltstone.volumes.records.commit_record import (
    NO_BUNDLE,
    NO_DIGEST,
    CommitRecord,
    digest_of,
    encode_record,
    split_object,
    trail_length,
    with_trail,
)
from siltstone.volumes.records.page_row import AVAILABLE, EMPTY_ROW
from siltstone.volumes.records.state_rows import PendingPush, Snapshot
from siltstone.volumes.slabs import BundleWriter

TRIES: Final = 3
"""So often a bundle is uploaded under another name, and a record created again, in one push."""

_SPOOL_BYTES: Final = 16 * MIB
"""A bundle up to this size is kept in memory while it is made and sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pusher:
    """Pushes one volume.

    Attributes:
        local: the volume in the client's folder.
        partitions: of the folder.
        environment: gives ids and the time.
        volume: id of the volume.
        log: its log in the place.
        client: id of the client.
        level: of compression.
    """

    local: LocalCommits
    partitions: Partitions
    environment: Environment
    volume: bytes
    log: bytes
    client: bytes
    level: int

    def push(self) -> Steps[Snapshot | None]:
        """Push what the place has not; ``None`` if it has everything.

        Raises:
            NeedsRecoveryError: the push before has not ended.
            RejectedCommitError: another client was faster.
            OutcomeUnknownError: the place did not say whether it took the record.
            StoreError: there is no room for temporary files; nothing was published.
        """
        newest = self.local.rows.snapshot
        if newest.mapping.local < newest.local and self._is_taken(newest.mapping.remote + 1):
            self.local.reject_push()
            raise self._rejected(newest.mapping.remote + 1)
        begun = self.local.begin_push()
        if begun is None:
            return None
        snapshot, end = begun
        return (yield from self._send(snapshot, end))

    def recover(self) -> Steps[Snapshot | None]:
        """End a push that was interrupted; ``None`` if none was that had come to its record.

        Raises:
            RejectedCommitError: another client was faster.
            OutcomeUnknownError: the place still did not say whether it took the record.
        """
        push = self.local.rows.push
        if push is not None:
            return (yield from self._fill(push, is_first=False))
        # No record was created, or will be: what was not published is as if it was never pushed.
        self.local.forget_push()
        return None

    def _send(self, snapshot: Snapshot, end: int) -> Steps[Snapshot]:
        """Upload the pages of commits up to ``end``, then create their record."""
        pages = self.local.rows.commit(end).pages
        changed, kept = self.local.rows.changes_after(self.log, snapshot.mapping, end)
        changed = up_to(changed, pages)
        writer = BundleWriter(self.level)
        folder = str(self.partitions.folder.parent)  # A system's own may be in memory.
        with SpooledTemporaryFile(_SPOOL_BYTES, dir=folder) as spool:
            file = cast(IO[bytes], spool)
            try:
                for piece in writer.pieces(self._stored(changed, end)):
                    file.write(piece)
            except OSError as error:
                raise StoreError(
                    "there is no room to make a bundle in", volume=self.local.rows.name
                ) from error
            bundle = yield from self._upload(file, sum(slab.length for slab in writer.slabs))
        target = snapshot.mapping.remote + 1
        before = self._before(target)
        record = CommitRecord(
            log=self.log,
            lsn=target,
            previous=digest_of(before[0]) if before else NO_DIGEST,
            pages=pages,
            kept=kept,
            client=self.client,
            time_ms=int(self.environment.time() * 1000),
            content=writer.content,
            bundle=bundle,
            stored=writer.stored,
            zeros=up_to(changed - writer.stored, kept),  # those above are zeros anyway
            slabs=tuple(writer.slabs),
        )
        encoded = encode_record(record)
        push = PendingPush(
            end=end,
            target=target,
            digest=digest_of(encoded),
            data=with_trail(encoded, target, before),
        )
        self.local.note_push(push)
        return (yield from self._fill(push, is_first=True))

    def _upload(self, file: IO[bytes], length: int) -> Steps[bytes]:
        """Upload a bundle; return its id. A name with an unknown outcome is never used again."""
        if not length:
            return NO_BUNDLE
        for left in reversed(range(TRIES)):
            bundle = self.environment.uuid()
            try:
                yield CreateBundle(bundle_name(self.log, bundle), file, length)
            except ChunkError as error:
                if error.outcome is not Outcome.UNKNOWN or not left:
                    raise
            else:
                return bundle
        raise AssertionError("the last try returns or raises")

    def _fill(self, push: PendingPush, *, is_first: bool) -> Steps[Snapshot]:
        """Create the record until its name is taken; then see by whom.

        Args:
            push: has the record.
            is_first: whether it was never sent, so that a refusal says that nothing was published.
        """
        name = commit_name(self.log, push.target)
        may_be_there = not is_first
        for left in reversed(range(TRIES)):
            try:
                yield CreateRecord(name, push.data)
            except ChunkExistsError:
                break
            except ChunkError as error:
                is_refused = error.outcome is not Outcome.UNKNOWN
                if is_refused and not may_be_there:
                    raise
                if is_refused or not left:
                    raise self._unknown(push) from error
                may_be_there = True
            else:
                return self.local.finish_push(self.log, push, _own(push.data, name))
        try:
            data = yield ReadObject(name)
        except ChunkError as error:
            raise self._unknown(push) from error
        if data is None:
            raise CorruptDataError("commit record is gone", where=name)
        found = _own(data, name)
        if digest_of(found) == push.digest:
            return self.local.finish_push(self.log, push, found)
        self.local.reject_push()
        raise self._rejected(push.target)

    def _stored(self, changed: BitMap, end: int) -> Iterator[tuple[int, bytes]]:
        """Yield those of the changed pages that are not zeros, as they are at ``end``."""
        for index in changed:
            found = self.partitions.newest_page(self.volume, index, end)
            if found is None or found[1] == EMPTY_ROW:
                continue
            if found[1][0] != AVAILABLE:
                raise CorruptDataError(
                    "page that was never pushed is not here",
                    where=f"volume {self.local.rows.name}",
                    index=index,
                )
            yield index, found[1][1:]

    def _before(self, target: int) -> list[bytes]:
        """Records before a target that its trail has, newest first; at least the one before."""
        rows = self.local.rows
        found: list[bytes] = []
        for lsn in range(target - 1, max(0, target - 1 - max(1, trail_length(target))), -1):
            encoded = rows.encoded_record(self.log, lsn)
            if encoded is None:
                break
            found.append(encoded)
        if target > 1 and not found:
            raise CorruptDataError("record is missing", where=f"volume {rows.name}", lsn=target - 1)
        return found

    def _is_taken(self, lsn: int) -> bool:
        return self.local.rows.encoded_record(self.log, lsn) is not None

    def _unknown(self, push: PendingPush) -> OutcomeUnknownError:
        return OutcomeUnknownError(
            "place did not say whether it took the push: push or recover again",
            volume=self.local.rows.name,
            lsn=push.target,
        )

    def _rejected(self, lsn: int) -> RejectedCommitError:
        return RejectedCommitError(
            "another client was faster; nothing was published: reset the volume and write again, "
            "or push it to a log of its own",
            volume=self.local.rows.name,
            lsn=lsn,
        )


def _own(data: bytes, name: str) -> bytes:
    return split_object(data, where=name)[0]
