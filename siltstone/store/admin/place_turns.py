"""Whose turn it is in a place of backups: one at a time makes, removes or collects there.

A turn is an object with a number, made exclusively; the highest number has the turn. A call that
finds another one there waits for no clock: if a process of this machine had it and is dead, the
turn is taken over, and any other turn only on request. Before any step that cannot be undone, each
call checks whether it still has the turn.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from siltstone.core.errors import (
    ChunkError,
    ChunkExistsError,
    ChunkNotFoundError,
    CorruptDataError,
    StoreInUseError,
)
from siltstone.core.records.claim import Claim, decode_claim, encode_claim
from siltstone.store.admin.place_objects import NUMBER, delete

if TYPE_CHECKING:
    from siltstone.core.chunk_storage import ChunkStorage
    from siltstone.core.environment import Environment

TURNS: Final = "turns/"
_MINE: Final = re.compile(r"pid=(\d+) start=(\S+) machine=(\S+) ")
_BYTES_MAX: Final = 4_096


class TurnPlace(Protocol):
    """A place in which turns are taken."""

    @property
    def storage(self) -> ChunkStorage:
        """A client of it."""
        ...

    @property
    def environment(self) -> Environment:
        """Gives time and randomness."""
        ...

    @property
    def folder(self) -> str:
        """What all names there begin with."""
        ...

    def numbers(self) -> list[int]:
        """The numbers of all generations."""
        ...


class Lease:
    """A turn that a call has.

    Attributes:
        number: of the turn; a generation that is made in it has the same.
        name: of the object that says so.
        owner: how its holder describes itself.
    """

    def __init__(self, place: TurnPlace, number: int, nonce: bytes, owner: str) -> None:
        self.number = number
        self.name = _name(place, number)
        self.owner = owner
        self._place = place
        self._nonce = nonce

    def check(self) -> None:
        """Refuse to continue when another call took the turn. Raises ``StoreInUseError``."""
        held = _held(self._place)
        if held is None or held[0] != self.number or held[1].lineage != self._nonce:
            owner = "none" if held is None else held[1].owner
            raise StoreInUseError("the turn was taken over", owner=owner, place=self._place.folder)


@contextmanager
def turn(place: TurnPlace, *, takeover: bool) -> Iterator[Lease]:
    """Take the turn in a place, until the end of the block.

    Raises:
        StoreInUseError: another call has it, and ``takeover`` is false.
        ChunkError: the place refused, or did not answer.
    """
    held = _held(place)
    number = max(place.numbers(), default=0) + 1
    if held is not None:
        if not (takeover or _is_dead(held[1].owner)):
            raise StoreInUseError(
                "another process makes, removes or collects backups here; if that is not so any "
                "more, take over",
                owner=held[1].owner,
                place=place.folder,
            )
        number = max(number, held[0] + 1)
    environment = place.environment
    taken = Lease(place, number, environment.uuid(), _this_process())
    claim = Claim(
        lineage=taken._nonce,
        epoch=number,
        owner=taken.owner,
        claimed_ms=int(environment.time() * 1000),
    )
    try:
        place.storage.create(taken.name, [encode_claim(claim)])
    except ChunkExistsError as error:
        raise StoreInUseError(
            "another process was faster", owner="unknown", place=place.folder
        ) from error
    if held is not None:
        delete(place.storage, _name(place, held[0]))
    try:
        if max(place.numbers(), default=0) >= number:
            # Another call had this very turn between our look and our claim, and made a generation.
            raise StoreInUseError("another process was faster", owner="unknown", place=place.folder)
        yield taken
    finally:
        # Whatever happened, no other call should wait for us; what stays says that we are dead.
        with suppress(ChunkError, StoreInUseError):
            taken.check()
            delete(place.storage, taken.name)


def _name(place: TurnPlace, number: int) -> str:
    return f"{place.folder}{TURNS}{number:020d}"


def _held(place: TurnPlace) -> tuple[int, Claim] | None:
    """The turn with the highest number, and the process that has it."""
    prefix = f"{place.folder}{TURNS}"
    listed = (found.name for found in place.storage.list(prefix))
    names = [name for name in listed if NUMBER.fullmatch(name, len(prefix))]
    for name in reversed(names):
        buffer = bytearray(_BYTES_MAX)
        try:
            count = place.storage.read_into(name, 0, buffer)
        except ChunkNotFoundError:
            continue  # its holder has just given it back
        number = int(name[len(prefix) :])
        try:
            return number, decode_claim(bytes(buffer[:count]), where=name)
        except CorruptDataError:
            # Cut by a death in the create: no call ever had this turn.
            unheld = Claim(lineage=bytes(16), epoch=number, owner="unknown", claimed_ms=0)
            return number, unheld
    return None


def _this_process() -> str:
    pid = os.getpid()
    return f"pid={pid} start={_started(pid)} machine={_machine()} host={platform.node()}"


def _is_dead(owner: str) -> bool:
    """Whether this is certainly a process of this machine that has ended."""
    found = _MINE.match(owner)
    if found is None:
        return owner == "unknown"
    pid, start, machine = found.groups()
    return machine == _machine() and _started(int(pid)) != start


def _machine() -> str:
    """What is the same for processes that see one another: the boot, and the numbers they have."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return "unknown"


def _started(pid: int) -> str:
    """When a process began, in ticks since the boot; empty when there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "none"
    fields = text.rpartition(")")[2].split()
    return "none" if fields[0] == "Z" else fields[19]
