"""The Kafka log of one container: the contract, over records of one partition."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from siltstone.core.constants import MIB, Buffer
from siltstone.core.environment import Environment, SystemEnvironment
from siltstone.core.errors import (
    FencedError,
    LogError,
    LogTruncatedError,
    Outcome,
    SiltstoneError,
)
from siltstone.core.fenced_log import (
    HandleState,
    LogCondition,
    LogHandle,
    LogOwner,
    LogPlace,
    LogReader,
)
from siltstone.core.records.frame import (
    KIND_BATCH,
    KIND_END,
    Frame,
    encode_frame,
)
from siltstone.core.remote.deadline import Deadline
from siltstone.tier1.kafka.claim import Claimant
from siltstone.tier1.kafka.claim_record import (
    KIND_HOLDER,
    NONCE_BYTES,
    encode_claim_record,
)
from siltstone.tier1.kafka.connection import Connection
from siltstone.tier1.kafka.errors import deleted, translated
from siltstone.tier1.kafka.heartbeat import BEAT_S, SILENCE_S, Beats, Heart
from siltstone.tier1.kafka.neighbours import check_place, newest_epoch_behind
from siltstone.tier1.kafka.presence import HOLDERS, Process, this_process
from siltstone.tier1.kafka.reader import KafkaLogReader
from siltstone.tier1.kafka.record_reads import catch_up, frames_at, note_start
from siltstone.tier1.kafka.replacement import copy_aside, fence
from siltstone.tier1.kafka.scan import PlacedClaim, Scan
from siltstone.tier1.kafka.sender import Sender
from siltstone.tier1.kafka.settings import KafkaLogSettings
from siltstone.tier1.kafka.shelf import SetAsideTopic
from siltstone.tier1.kafka.topic_rules import FRAME_BYTES, options_of_new


class KafkaFencedLog(LogHandle):
    """A ``FencedLog`` in a topic of Kafka. Thread-safe.

    Args:
        settings: of the log.
        container: number of the container.
        environment: where nonces come from.
        here: who this process is.
        beat_s: seconds between signs of life for others.
        silence_s: seconds after which a holder that gave none is taken for dead.
    """

    def __init__(
        self,
        settings: KafkaLogSettings,
        container: int,
        *,
        environment: Environment | None = None,
        here: Process | None = None,
        beat_s: float = BEAT_S,
        silence_s: float = SILENCE_S,
    ) -> None:
        super().__init__()
        self._settings = settings
        self._topic = f"{settings.topic}-{container}"
        self._servers = settings.servers_text
        self._environment = environment or SystemEnvironment()
        self._here = here or this_process()
        self._beat_s = beat_s
        self._connection = Connection(settings.client_options(), self._topic)
        self._shelf = SetAsideTopic(self._topic)
        self._claimant = Claimant(
            settings=settings,
            topic=self._topic,
            connection=self._connection,
            here=self._here,
            shelf=self._shelf,
            silence_s=silence_s,
        )
        self._lock = threading.RLock()
        self._look_lock = threading.Lock()
        self._look = Scan(self._topic)
        self._scan = Scan(self._topic)
        self._sender: Sender | None = None
        self._heart: Heart | None = None
        self._lineage = b""
        self._claim: PlacedClaim | None = None
        self._last_offset = -1

    @property
    def frame_bytes_max(self) -> int:
        """Largest frame in bytes: 8 MiB less 1 KiB, for a record is a little larger."""
        return FRAME_BYTES

    # --- claim ---

    def claim(self, *, lineage: bytes, new: bool, above: int, takeover: bool, owner: str) -> int:
        """See ``FencedLog.claim``. A claim that was sent and then failed poisons the handle.

        Raises:
            CapabilityError: the topic could lose data, or is not to be used; the message says what
                to change.
        """
        self._check_claim(lineage, above, owner)
        with self._lock:
            if self._state is HandleState.CLAIMED:
                raise LogError("the handle is claimed already", outcome=Outcome.NOT_APPLIED)
            self._require(HandleState.UNCLAIMED)
            try:
                with translated("claim", self._topic, self._servers):
                    scan = self._claimant.prepare(lineage, new=new, above=above, takeover=takeover)
            except SiltstoneError:
                self._connection.drop()
                raise
            nonce = self._environment.random_bytes(NONCE_BYTES)
            record = self._claimant.record(lineage, nonce, above=above, owner=owner)
            try:
                with translated("claim", self._topic, self._servers):
                    claim, self._sender = self._claimant.send(scan, record, new=new)
            except BaseException:
                self._poison()
                raise
            self._scan = scan
            self._start(claim)
            return self._epoch

    def _start(self, claim: PlacedClaim) -> None:
        self._claim, self._epoch = claim, claim.epoch
        self._lineage, self._last_offset = claim.record.lineage, claim.offset
        self._state = HandleState.CLAIMED
        HOLDERS.add(claim.record.nonce, self)
        handle = weakref.ref(self)

        def is_newest() -> bool:
            found = handle()
            return found is not None and found.newest_epoch() == claim.epoch

        def end() -> int:
            found = handle()
            return 0 if found is None else found._scan.end

        self._heart = Heart(
            Beats(self._connection.client(), self._topic),
            claim.record.nonce,
            beat_s=self._beat_s,
            deadline_s=self._settings.deadline_s,
            end=end,
            is_newest=is_newest,
        )

    # --- append ---

    def append(self, buffers: Sequence[Buffer], *, count: int, reserve: bool = False) -> int:
        """See ``FencedLog.append``. ``reserve`` changes nothing: brokers keep no room apart."""
        with self._lock:
            self._require(HandleState.CLAIMED)
            return self._append(buffers, KIND_BATCH, count)

    def _append(self, buffers: Sequence[Buffer], kind: int, count: int) -> int:
        scan = self._scan
        index = scan.end
        frame = encode_frame(
            buffers,
            kind=kind,
            lineage=self._lineage,
            epoch=self._epoch,
            index=index,
            previous_crc=scan.crc,
            count=count,
        )
        if frame.size > FRAME_BYTES:
            raise ValueError(f"frame of {frame.size} bytes exceeds {FRAME_BYTES}")
        try:
            with translated("append", self._topic, self._servers):
                self._last_offset = self._send(frame.buffers, frame.size)
        except FencedError:
            self._poison()
            raise
        except SiltstoneError as error:
            self._poison()
            if isinstance(error, LogError) and error.outcome is Outcome.UNKNOWN:
                raise
            # What looks like a refusal may have come after the effect of an earlier attempt.
            raise LogError(str(error), outcome=Outcome.UNKNOWN) from error
        except BaseException:
            self._poison()
            raise
        if scan.recent:
            scan.forget_recent()
        scan.append(self._last_offset, index, frame.crc)
        return index

    def _send(self, buffers: Sequence[Buffer], size: int) -> int:
        """Append a record, and return its offset if this is still the newest owner."""
        assert self._sender is not None, "a claimed handle has a sender"
        deadline = self._deadline(size)
        appended = self._sender.send(buffers, deadline)
        check_place(
            self._connection.partition(),
            self._scan,
            self._last_offset,
            appended,
            self._epoch,
            deadline,
        )
        return appended.offset

    # --- reading ---

    def first(self) -> int:
        """See ``FencedLog.first``."""
        with self._lock:
            self._require(HandleState.CLAIMED)
            return self._scan.first

    def end(self) -> int:
        """See ``FencedLog.end``."""
        with self._lock:
            self._require(HandleState.CLAIMED)
            return self._scan.end

    def read(self, from_index: int) -> Iterator[Frame]:
        """See ``FencedLog.read``."""
        with self._lock:
            self._require(HandleState.CLAIMED)
            scan = self._scan
            with translated("read", self._topic, self._servers):
                note_start(self._connection.partition(), scan, self._deadline())
            if from_index < scan.first:
                raise LogTruncatedError(index=from_index, first=scan.first)
            if scan.recent and scan.recent[0].index <= from_index:
                return iter([frame for frame in scan.recent if frame.index >= from_index])
            offsets = scan.offsets[from_index - scan.first :]
            partition = self._connection.partition()
        return frames_at(partition, from_index, offsets, self._settings.deadline_s, self._servers)

    def dropped_tail(self) -> int:
        """See ``FencedLog.dropped_tail``; brokers take a record whole or not at all."""
        with self._lock:
            self._require(HandleState.CLAIMED)
            return 0

    def truncate(self, before_index: int) -> None:
        """See ``FencedLog.truncate``; to the very frame, but the newest one stays.

        Raises:
            ValueError: ``before_index`` lies beyond ``end()``.
            FencedError: a newer epoch was claimed; nothing was removed. The handle is poisoned.
        """
        with self._lock:
            self._require(HandleState.CLAIMED)
            if before_index > self._scan.end:
                raise ValueError(f"truncation at {before_index} beyond the end")
            try:
                with translated("truncate", self._topic, self._servers):
                    self._truncate(before_index)
            except BaseException:
                self._poison()
                raise

    def _truncate(self, before_index: int) -> None:
        scan = self._scan
        # The first record that is kept is always a frame that counts: only so the others mean the
        # same without those before them.
        count = min(before_index, scan.end - 1) - scan.first
        if count <= 0:
            return
        offset = scan.offsets[count]
        self._say_again()
        start = self._connection.partition().delete_before(offset, self._deadline())
        if start != offset:
            raise deleted(self._topic, start)
        scan.start_at(offset)

    def _say_again(self) -> None:
        """Append the holder, as the claim may be removed; check for a claim meanwhile."""
        assert self._claim is not None, "a claimed handle has a claim"
        record = replace(self._claim.record, kind=KIND_HOLDER, above=self._epoch)
        self._last_offset = self._send([encode_claim_record(record)], 0)

    def newest_epoch(self) -> int:
        """See ``FencedLog.newest_epoch``."""
        self._require_open()
        with self._look_lock, translated("read", self._topic, self._servers):
            try:
                if not self._epoch:
                    return self._looked().epoch
                partition = self._connection.partition()
                deadline_s = self._settings.deadline_s
                return newest_epoch_behind(partition, self._last_offset, self._epoch, deadline_s)
            except BaseException:
                if self._state is not HandleState.CLAIMED:
                    self._connection.drop()
                raise
            finally:
                if self._state is HandleState.CLOSED:  # meanwhile, and nothing else would drop it
                    self._connection.drop()

    def _looked(self) -> Scan:
        """The log as it is now, for a handle that did not claim it."""
        partition = self._connection.partition()
        if self._look.next_offset is not None or partition.exists(self._deadline()):
            catch_up(partition, self._look, self._settings.deadline_s)
            self._look.forget_recent()
        return self._look

    def holder(self) -> LogOwner:
        """See ``FencedLog.holder``. It takes some seconds to find one of another machine dead."""
        self._require_usable()
        with self._look_lock, translated("read", self._topic, self._servers):
            scan = self._looked()
            alive = self._claimant.is_held(scan)
        text = "" if scan.claim is None else scan.claim.record.owner
        return LogOwner(epoch=scan.epoch, alive=alive, description=text)

    def condition(self) -> LogCondition:
        """See ``ExaminedLog.condition``."""
        self._require_usable()
        with self._look_lock, translated("look", self._topic, self._servers):
            return self._claimant.condition(self._connection.partition())

    def open_read(self) -> LogReader:
        """See ``FencedLog.open_read``."""
        self._require_usable()
        connection = Connection(self._settings.client_options(), self._topic)
        return KafkaLogReader(connection, self._topic, self._settings, self._shelf)

    def place(self) -> LogPlace:
        """See ``PlacedLog.place``; whether there is such a topic is not looked at."""
        return LogPlace(kind="topic", name=self._topic)

    # --- replacing it ---

    def fence_all(self) -> None:
        """See ``ReplaceableLog.fence_all``."""
        with self._lock, translated("fence", self._topic, self._servers):
            self._require(HandleState.UNCLAIMED)
            nonce = self._environment.random_bytes(NONCE_BYTES)
            fence(self._connection.partition(), nonce, self._here, self._deadline())

    def set_aside(self) -> str | None:
        """See ``ReplaceableLog.set_aside``: the records are copied to another topic and deleted."""
        with self._lock, translated("set aside", self._topic, self._servers):
            self._require(HandleState.UNCLAIMED)
            settings = self._settings
            self._look = Scan(self._topic)
            return copy_aside(
                self._connection.client(),
                self._topic,
                replicas=settings.replication,
                options=options_of_new(single_broker=settings.single_broker),
                deadline_s=settings.deadline_s,
            )

    # --- the end ---

    def close(self) -> None:
        """See ``FencedLog.close``."""
        with self._lock:
            if self._state is HandleState.CLAIMED:
                # A courtesy to the next owner, which does not depend on it.
                with suppress(SiltstoneError):
                    self._append([], KIND_END, 0)
            self.abandon()

    def abandon(self) -> None:
        """Free everything and write nothing, as the death of the process would. Idempotent."""
        with self._lock:
            self._state = HandleState.CLOSED
            self._release()

    def _poison(self) -> None:
        self._state = HandleState.POISONED
        self._release()

    def _release(self) -> None:
        if self._claim is not None:
            HOLDERS.remove(self._claim.record.nonce)
        heart, self._heart = self._heart, None
        if heart is not None:
            heart.stop()
        self._sender = None
        self._shelf.clear()
        self._connection.drop()

    def _deadline(self, length: int = 0) -> Deadline:
        return Deadline(self._settings.deadline_s + length / MIB)
