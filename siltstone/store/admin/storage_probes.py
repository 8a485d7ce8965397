"""Probes of long-term storage: whether the real service does what its binding claims.

The published contract suite says far more; this is what can be asked of a service in production, in
some seconds and under a name of its own, which is removed afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from siltstone.core.chunk_storage import UNLIMITED, Capabilities, ChunkStorage
from siltstone.core.constants import KIB, MIB
from siltstone.core.environment import Environment
from siltstone.core.errors import (
    CapabilityError,
    ChunkAccessDeniedError,
    ChunkError,
    ChunkExistsError,
    ChunkNotFoundError,
    ChunkOffsetError,
    ChunkStorageFullError,
    SiltstoneError,
)
from siltstone.core.storage.optional_verbs import create_whole, sweep_leftovers
from siltstone.core.text import counted

PROBES_PREFIX = "system/doctor/"
"""Nothing else lies there, so what an interrupted doctor left can be told from everything else."""

LARGE_BYTES = 8 * MIB
CONCAT_BYTES_MAX = 16 * MIB
SMALL_CALLS = 10
LONG_PART = "p" * 120
"""Names of chunks have up to six parts of this many bytes."""

NOTHING_CREATED = "no chunk can be created"
"""Of a probe whose cause an earlier one has reported."""

E = TypeVar("E", bound=SiltstoneError)


class ProbeFailedError(Exception):
    """The service answered, and not as it should."""


class _SkippedError(Exception):
    """There is nothing to probe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What one probe came to.

    Attributes:
        area: ``storage``, ``clock``, ``log``, ``container``, ``space``, ``leftovers`` or
            ``collections``.
        name: what was probed.
        outcome: ``ok``, ``warning``, ``failed`` or ``skipped``.
        detail: facts for people.
    """

    area: str
    name: str
    outcome: str
    detail: str


class StorageProbes:
    """Probes a service through two clients, so that nothing rests on what one remembers.

    Args:
        one: writes.
        other: looks; another client of the same service.
        environment: gives time and names.
    """

    def __init__(self, one: ChunkStorage, other: ChunkStorage, environment: Environment) -> None:
        self._one = one
        self._other = other
        self._environment = environment
        self._prefix = f"{PROBES_PREFIX}{environment.random_bytes(8).hex()}/"
        self._made: list[str] = []
        self._created = 0
        self._refused = 0

    @property
    def creates_nothing(self) -> bool:
        """Whether the service refused every chunk; the first probe that made one says why."""
        return bool(self._refused) and not self._created

    @property
    def prefix(self) -> str:
        """Where everything lies that this object makes."""
        return self._prefix

    def run(self) -> Iterator[Probe]:
        """Yield the outcome of each probe; afterwards nothing is left, whatever happened."""
        probes: tuple[tuple[str, Callable[[], str]], ...] = (
            ("create is exclusive", self._exclusive),
            ("visible at once", self._visible),
            ("listings are in order", self._listing),
            ("ranges", self._ranges),
            ("append", self._append),
            ("append at a wrong offset", self._offset),
            ("seal", self._seal),
            ("whole create", self._whole),
            ("concat", self._concat),
            ("long names", self._long_name),
            ("large chunks", self._large),
            ("used space", self._used_space),
            ("deletion", self._delete),
            ("time of a call", self._latency),
        )
        try:
            for name, probe in probes:
                yield self._outcome(name, probe)
        finally:
            left = self._clean()
        if left:
            yield Probe(
                area="storage", name="cleaning up", outcome="warning", detail=f"left: {left}"
            )

    def _outcome(self, name: str, probe: Callable[[], str]) -> Probe:
        try:
            outcome, detail = "ok", probe()
        except _SkippedError as skipped:
            outcome, detail = "skipped", str(skipped)
        except (ProbeFailedError, SiltstoneError) as error:
            outcome, detail = "failed", str(error)
        return Probe(area="storage", name=name, outcome=outcome, detail=detail)

    # --- steps ------------------------------------------------------------------------------------

    @property
    def _capabilities(self) -> Capabilities:
        return self._one.capabilities

    def _name(self, last: str) -> str:
        name = f"{self._prefix}{last}"
        self._made.append(name)
        return name

    def _new(self, last: str, data: bytes = b"probe", *, whole: bool = False) -> str:
        name = self._name(last)
        try:
            if whole:
                create_whole(self._one, name, [data])
            else:
                self._one.create(name, [data])
        except (ChunkAccessDeniedError, ChunkStorageFullError) as error:
            told = self.creates_nothing
            self._refused += 1
            if told:
                raise _SkippedError(NOTHING_CREATED) from error
            raise
        self._created += 1
        return name

    def _read(self, name: str, offset: int, length: int) -> bytes:
        buffer = bytearray(length)
        return bytes(buffer[: self._other.read_into(name, offset, buffer)])

    def _expect(self, name: str, data: bytes) -> None:
        found = self._read(name, 0, len(data) + 1)
        if found != data:
            raise ProbeFailedError(f"{name} holds {len(found)} bytes that are not those written")

    def _clean(self) -> int:
        left = 0
        for name in self._made:
            try:
                self._one.delete(name)
            except ChunkNotFoundError:
                continue
            except SiltstoneError:
                left += 1
        with suppress(SiltstoneError):  # Right or service may be missing; a daily sweep comes.
            sweep_leftovers(self._one, self._prefix, 0.0)
        return left

    # --- probes -----------------------------------------------------------------------------------

    def _exclusive(self) -> str:
        name = self._new("exclusive", b"first")
        _must_fail(
            ChunkExistsError,
            lambda: self._other.create(name, [b"second"]),
            "a second create of the same name was accepted",
        )
        self._expect(name, b"first")
        return "a taken name is refused"

    def _visible(self) -> str:
        name = self._new("visible", b"12345")
        length = self._other.stat(name).length
        if length != 5:
            raise ProbeFailedError(f"another client sees {length} bytes, not 5")
        self._expect(name, b"12345")
        if name not in [stat.name for stat in self._other.list(self._prefix)]:
            raise ProbeFailedError("another client does not list it")
        return "another client stats, reads and lists it"

    def _listing(self) -> str:
        names = [self._new(f"list/{part}") for part in ("b", "a0", "a-", "a/1", "Z")]
        names.sort(key=str.encode)
        prefix = f"{self._prefix}list/"
        found = [stat.name for stat in self._other.list(prefix)]
        if found != names:
            raise ProbeFailedError(f"listed {len(found)} of {len(names)} names, or out of order")
        behind = [stat.name for stat in self._other.list(prefix, names[2])]
        if behind != names[3:]:
            raise ProbeFailedError("a listing after a name is not what follows it")
        return f"{len(names)} names in the order of their bytes"

    def _ranges(self) -> str:
        data = bytes(index * 7 % 251 for index in range(300 * KIB))
        name = self._new("ranges", data)
        for offset, length in ((0, 10), (100_000, 70_000), (len(data) - 5, 100), (len(data), 10)):
            if self._read(name, offset, length) != data[offset : offset + length]:
                raise ProbeFailedError(f"range {offset} of {length} bytes is not what was written")
        return "in the middle, across the end and at it"

    def _append(self) -> str:
        if not self._capabilities.append:
            raise _SkippedError("not claimed: every flush makes a chunk")
        name = self._new("append", b"one")
        self._one.write(name, 3, [b"two"])
        self._expect(name, b"onetwo")
        if self._other.stat(name).length != 6:
            raise ProbeFailedError("another client sees the length from before")
        return "at the end, visible at once"

    def _offset(self) -> str:
        if not self._capabilities.append:
            raise _SkippedError("not claimed")
        name = self._new("offset", b"12345")
        for offset in (0, 4, 6):
            _must_fail(
                ChunkOffsetError,
                partial(self._one.write, name, offset, [b"x"]),
                f"a write at {offset} of a chunk of 5 bytes was accepted",
            )
        self._expect(name, b"12345")
        by = "the service" if self._capabilities.offset_checked else "the binding"
        return f"refused, by {by}"

    def _seal(self) -> str:
        if not self._capabilities.seal:
            raise _SkippedError("not claimed")
        name = self._new("seal", b"12345")
        self._one.seal(name)
        if self._capabilities.append:
            _must_fail(
                ChunkAccessDeniedError,
                lambda: self._other.write(name, 5, [b"x"]),
                "another client could write to a sealed chunk",
            )
        self._expect(name, b"12345")
        return "another client's write is refused"

    def _whole(self) -> str:
        if not self._capabilities.whole:
            raise _SkippedError("not claimed")
        try:
            name = self._new("whole", b"first", whole=True)
        except CapabilityError as error:
            # A file system tells only when it is asked for a link.
            raise _SkippedError(str(error)) from error
        _must_fail(
            ChunkExistsError,
            lambda: create_whole(self._other, name, [b"second"]),
            "a second whole create of the same name was accepted",
        )
        self._expect(name, b"first")
        return "a taken name is refused"

    def _concat(self) -> str:
        capabilities = self._capabilities
        if not capabilities.concat:
            raise _SkippedError("not claimed")
        size = max(capabilities.concat_part_bytes_min, KIB)
        if size > CONCAT_BYTES_MAX:
            raise _SkippedError(f"parts have at least {size} bytes")
        parts = [bytes([65 + index]) * size for index in range(2)]
        sources = [self._new(f"part-{index}", part) for index, part in enumerate(parts)]
        target = self._name("joined")
        self._one.concat(target, [(source, size) for source in sources])
        self._expect(target, b"".join(parts))
        for source, part in zip(sources, parts, strict=True):
            self._expect(source, part)
        return f"two chunks of {size} bytes, which stay"

    def _long_name(self) -> str:
        name = self._new("/".join([LONG_PART] * 6))
        self._expect(name, b"probe")
        return counted(len(name), "byte")

    def _large(self) -> str:
        size = min(LARGE_BYTES, self._capabilities.chunk_bytes_max)
        data = self._environment.random_bytes(KIB) * (size // KIB)
        if not data:
            raise _SkippedError(f"chunks have at most {size} bytes")
        begin = self._environment.monotonic()
        name = self._new("large", data)
        written = self._environment.monotonic()
        self._expect(name, data)
        read = self._environment.monotonic()
        limits = _limits(self._capabilities)
        return (
            f"{counted(len(data), 'byte')}: written in {written - begin:.2f} s, "
            f"read in {read - written:.2f} s{limits}"
        )

    def _used_space(self) -> str:
        if not self._capabilities.used_space:
            raise _SkippedError("not claimed")
        return counted(self._one.used_space(), "byte")

    def _delete(self) -> str:
        name = self._new("delete")
        self._one.delete(name)
        gone = "a deleted chunk is still there"
        _must_fail(ChunkNotFoundError, lambda: self._other.stat(name), gone)
        if name in [stat.name for stat in self._other.list(name)]:
            raise ProbeFailedError("a deleted chunk is still listed")
        _must_fail(ChunkNotFoundError, lambda: self._one.delete(name), gone)
        return "gone at once, for another client too"

    def _latency(self) -> str:
        clock = self._environment.monotonic
        spent: dict[str, list[float]] = {"create": [], "stat": [], "read": [], "delete": []}
        for number in range(SMALL_CALLS):
            marks = [clock()]
            name = self._new(f"small-{number}")
            marks.append(clock())
            self._one.stat(name)
            marks.append(clock())
            self._one.read_into(name, 0, bytearray(5))
            marks.append(clock())
            self._one.delete(name)
            marks.append(clock())
            for kind, begin, end in zip(spent, marks, marks[1:], strict=False):
                spent[kind].append(end - begin)
        middle = {kind: sorted(times)[len(times) // 2] * 1000 for kind, times in spent.items()}
        return ", ".join(f"{kind} {ms:.1f} ms" for kind, ms in middle.items())


def remove_leftovers(storage: ChunkStorage, *, before_s: float) -> int:
    """Delete what interrupted probes left that is older than ``before_s``; return the count."""
    count = 0
    for stat in list(storage.list(PROBES_PREFIX)):
        if stat.modified_s < before_s:
            with suppress(ChunkNotFoundError):
                storage.delete(stat.name)
                count += 1
    return count


def _must_fail(kind: type[ChunkError], call: Callable[[], object], otherwise: str) -> None:
    try:
        call()
    except kind:
        return
    raise ProbeFailedError(otherwise)


def _limits(capabilities: Capabilities) -> str:
    claimed = {
        "largest chunk": capabilities.chunk_bytes_max,
        "writes to a chunk": capabilities.appends_max,
        "parts of a concat": capabilities.concat_parts_max,
    }
    told = [f"{name} {limit}" for name, limit in claimed.items() if limit != UNLIMITED]
    return f"; claimed limits: {', '.join(told)}" if told else ""
