"""What a process does that holds a bank in a volume until it is killed: transfers, pushes, pulls.

What it was told is reported before the next call: a line of JSON on a pipe, by one ``write``.
"""

from __future__ import annotations

import json
import os
import random
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from siltstone import volumes
from tests.support.volumes.bank import audit, transfer

import_module("siltstone.bindings.nfs.plugin")  # Else each child does so when it first syncs.

NAME = "bank"


@dataclass(frozen=True)
class Work:
    """What a child is told.

    Attributes:
        folder: of all clients.
        place: what they push to.
        slot: which client it is.
        seed: of its choices.
    """

    folder: str
    place: str
    slot: int
    seed: int

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()


def open_client(folder: Path, place: Path, slot: int) -> volumes.VolumeClient:
    """The client of a slot."""
    return volumes.open(folder / f"client-{slot}", place=str(place))


class Child:
    """The work of one child."""

    def __init__(self, work: Work, pipe: int) -> None:
        self._work = work
        self._pipe = pipe
        self._chance = random.Random(work.seed)

    def report(self, *facts: Any) -> None:
        os.write(self._pipe, json.dumps(facts).encode() + b"\n")

    def run(self) -> None:
        work = self._work
        try:
            with open_client(Path(work.folder), Path(work.place), work.slot) as client:
                bank = client.volume(NAME)
                self.report("o", work.slot)
                while True:
                    self._work_on(bank)
        except BaseException as error:
            self.report("e", self._work.slot, repr(error))
            raise

    def _work_on(self, bank: volumes.Volume) -> None:
        slot, choice = self._work.slot, self._chance.random()
        try:
            if choice < 0.6:
                lsn = transfer(bank, self._chance, self._chance.randrange(1, 6))
                self.report("c", slot, lsn)
            elif choice < 0.8:
                if bank.push():
                    self.report("p", slot, bank.info().remote)
            elif choice < 0.95:
                bank.pull()
            else:
                audit(bank)
        except (volumes.RejectedCommitError, volumes.ConflictError):
            bank.reset()
            audit(bank)


def main(request: bytes, pipe: int) -> None:
    """Do what ``request`` says."""
    Child(Work(**json.loads(request)), pipe).run()
