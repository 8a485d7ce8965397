"""A program that writes into a log of Kafka, record by record."""

from __future__ import annotations

from siltstone.core.records.frame import KIND_BATCH, encode_frame
from siltstone.tier1.kafka.claim_record import (
    KIND_CLAIM,
    ClaimRecord,
    encode_claim_record,
)

LINEAGE = bytes(range(16))


def claim(above: int = 0, *, kind: int = KIND_CLAIM, lineage: bytes = LINEAGE) -> bytes:
    return encode_claim_record(
        ClaimRecord(
            kind=kind,
            lineage=lineage,
            nonce=bytes(16),
            above=above,
            host=bytes(16),
            pid=1,
            started=2,
            owner="höst",
        )
    )


class Writer:
    """Makes frames of one epoch, each after the one before."""

    def __init__(
        self, epoch: int, index: int = 0, crc: int = 0, *, lineage: bytes = LINEAGE
    ) -> None:
        self.epoch, self.index, self.crc, self.lineage = epoch, index, crc, lineage

    def frame(self, kind: int = KIND_BATCH) -> bytes:
        made = encode_frame(
            [b"x"],
            kind=kind,
            lineage=self.lineage,
            epoch=self.epoch,
            index=self.index,
            previous_crc=self.crc,
            count=1,
        )
        self.index, self.crc = self.index + 1, made.crc
        return b"".join(made.buffers)

    def next(self, epoch: int) -> Writer:
        return Writer(epoch, self.index, self.crc)
