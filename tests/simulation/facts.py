"""What is known of one thing that applications asked for: an attempt, some bytes, a segment.

An attempt is open until it is known whether it happened. It *happened* once any process heard so or
saw it, and from then on it is a fact for ever. It *failed* once an error said that it was not
applied, or once a newer owner had a look and it was not there: from then on no process may see it
or hear that it happened. Facts are compared with every answer; what no attempt explains is an
invention.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum


class ViolationError(AssertionError):
    """The store broke a promise."""


class State(Enum):
    """What is known of an attempt."""

    OPEN = "open"
    HAPPENED = "happened"
    FAILED = "failed"


@dataclass(eq=False)
class Attempt:
    """Something that was asked of an owner.

    Attributes:
        what: for people.
        epoch: of the owner that it was last asked of.
        state: what is known.
        why: it is known that it failed.
        done_version: of the table, that did it, if it is about rows and that is known.
    """

    what: str
    epoch: int
    state: State = State.OPEN
    why: str = ""
    done_version: int | None = None

    def happened(self) -> None:
        if self.state is State.FAILED:
            raise ViolationError(f"{self.what} of epoch {self.epoch} happened after it had failed")
        self.state = State.HAPPENED

    def failed(self, why: str) -> None:
        """It did not happen, and never will."""
        if self.state is State.HAPPENED:
            raise ViolationError(f"{self.what} of epoch {self.epoch} had happened, but {why}")
        self.state = State.FAILED
        self.why = why

    def done(self, version: int) -> None:
        """It happened, and this table version did it."""
        self.happened()
        if self.done_version not in (None, version):
            raise ViolationError(f"{self.what} is of version {self.done_version} and {version}")
        self.done_version = version

    def again(self, epoch: int) -> None:
        """It is asked again, of a later owner."""
        self.epoch = epoch
        if self.state is State.FAILED:
            self.state = State.OPEN


@dataclass(eq=False)
class Bytes(Attempt):
    """An append, or what a concat adds.

    Attributes:
        data: unlike any other's.
        offset: where it is, once that is known.
        group: those that happen together with it, or not at all.
        end: the attempt to remove it, if it is a row.
        asked_ms: when it was asked for first, so it was not appended before.
        heard_ms: when a process first heard of it or saw it, so it was not appended later.
        hidden: whether it may be among bytes that retention took before any process saw them.
    """

    data: bytes = b""
    offset: int | None = None
    group: list[Bytes] = field(default_factory=list)
    end: Attempt | None = None
    asked_ms: int = 0
    heard_ms: int = 0
    hidden: bool = False

    @property
    def stays(self) -> bool:
        """Whether a row is there for certain."""
        removed = self.end is not None and self.end.state is not State.FAILED
        return self.state is State.HAPPENED and not removed

    def check_group(self) -> None:
        """What was asked for as one happened as one."""
        if len({member.state for member in self.group} - {State.OPEN}) > 1:
            raise ViolationError(f"{self.what}: a part of its commit happened, a part did not")


@dataclass(eq=False)
class Segment:
    """One segment: one life of a name.

    Attributes:
        name: its name.
        create: the attempt that made it.
        now_ms: tells the time.
        known: its bytes as far as they are known without a gap.
        ahead: what is known beyond a gap, by offset.
        appends: those that may still happen, or happened at an unknown place.
        every: all appends, for people.
        start: the highest start that is a fact.
        start_tried: the highest that was asked for.
        seal: the attempt to seal it, if any.
        end: the attempt to delete or join it, if any.
        private: whether only the client that made it uses it.
        segment_id: what the store calls it, once that is known.
        sealed_length: its length for ever.
        calls: calls in progress that name it.
        rename: the attempt to give it another name, while its outcome is unknown.
        new_name: that name.
        values: what its one attribute was set to, from the last value that is certain on.
        is_set: whether a client is setting it.
        placed: appends whose bytes are known, in their order.
        cuts: offsets that clients truncated at, or tried to.
        holes: runs of known bytes that were cut before any process saw them.
        ruled: the highest start that a rule of retention ever allowed.
    """

    name: str
    create: Attempt
    now_ms: Callable[[], int]
    known: bytearray = field(default_factory=bytearray)
    ahead: dict[int, Bytes] = field(default_factory=dict)
    appends: list[Bytes] = field(default_factory=list)
    every: list[Bytes] = field(default_factory=list)
    start: int = 0
    start_tried: int = 0
    seal: Attempt | None = None
    end: Attempt | None = None
    private: bool = False
    segment_id: int | None = None
    sealed_length: int | None = None
    calls: int = 0
    rename: Attempt | None = None
    new_name: str = ""
    values: list[Bytes] = field(default_factory=list)
    is_set: bool = False
    placed: list[Bytes] = field(default_factory=list)
    cuts: set[int] = field(default_factory=set)
    holes: list[tuple[int, int]] = field(default_factory=list)
    ruled: int = 0

    @property
    def start_max(self) -> int:
        """No client asked for a higher start, and no rule allowed one."""
        return max(self.start_tried, self.ruled)

    @property
    def length(self) -> int:
        """Length as far as it is known without a gap."""
        return len(self.known)

    @property
    def is_quiet(self) -> bool:
        """Whether no client asked for its end or for another name."""
        return self.end is None and self.rename is None

    @property
    def ended(self) -> bool:
        return self.end is not None and self.end.state is State.HAPPENED

    @property
    def sealed(self) -> bool:
        return self.seal is not None and self.seal.state is State.HAPPENED

    def append(self, data: bytes, epoch: int, what: str = "append") -> Bytes:
        """Note that an append is asked for."""
        text = f"{what} to {self.name} ({len(data)} bytes)"
        made = Bytes(what=text, epoch=epoch, data=data, asked_ms=self.now_ms())
        self.asked(made)
        return made

    def asked(self, append: Bytes) -> None:
        """An append is on its way, perhaps again. One of nothing cannot be seen."""
        if append.data and append not in self.appends:
            self.appends.append(append)
            self.every.append(append)

    def acknowledged(self, append: Bytes, offset: int) -> None:
        """An owner said that it happened, and where."""
        self._place(append, offset)

    def _place(self, append: Bytes, offset: int) -> None:
        append.happened()
        if append.offset is not None:
            if append.offset != offset:
                raise ViolationError(f"{append.what} is at {append.offset} and at {offset}")
            return
        append.offset = offset
        append.heard_ms = self.now_ms()
        if any(start <= offset and offset + len(append.data) <= end for start, end in self.holes):
            return
        if offset < self.length:
            raise ViolationError(f"{append.what} at {offset}, where other bytes are")
        self.ahead[offset] = append
        self._join_ahead()

    def _join_ahead(self) -> None:
        while (following := self.ahead.pop(self.length, None)) is not None:
            self.known += following.data
            self.placed.append(following)

    @property
    def unplaced(self) -> list[Bytes]:
        """Appends that may be there, at an unknown place."""
        return [a for a in self.appends if a.offset is None and a.state is not State.FAILED]

    @property
    def length_max(self) -> int:
        """It has at most this many bytes, whatever happened."""
        ahead = sum(len(append.data) for append in self.ahead.values())
        return self.length + ahead + sum(len(append.data) for append in self.unplaced)

    def cut_unseen(self, start: int) -> None:
        """Retention took bytes up to ``start`` of which some were never seen.

        They have to be those of whole appends; which ones is no longer known.
        """
        if start <= self.length:
            return
        inside = [offset for offset in self.ahead if offset < start]
        gap = start - self.length - sum(len(self.ahead.pop(offset).data) for offset in inside)
        sums = {0}
        for append in self.unplaced:
            append.hidden = True
            sums |= {total + len(append.data) for total in sums}
        if gap not in sums:
            raise ViolationError(f"{self.name} was cut inside an append, at {start}")
        self.holes.append((self.length, start))
        self.known += bytes(start - self.length)
        self._join_ahead()

    def is_border(self, offset: int) -> bool:
        """Whether an append begins or ends there, or a client cut there; unknown counts as yes."""
        if offset == 0 or offset in self.cuts or any(a <= offset <= b for a, b in self.holes):
            return True
        return any(offset in (a.offset, (a.offset or 0) + len(a.data)) for a in self.placed)

    def seen(self, offset: int, data: bytes, who: str) -> None:
        """A process read these bytes: compare them, and learn what happened."""
        assert offset <= self.length, "reads begin at what is known"
        while self.length < offset + len(data):
            position = self.length
            rest = data[position - offset :]
            append = self._explain(position, rest)
            if append is None:
                known = [each for each in self.every if _agree(each.data, rest)]
                told = [f"{each.what} {each.state} epoch {each.epoch} {each.why}" for each in known]
                raise ViolationError(
                    f"{who} read invented bytes of {self.name} at {position}: {told}"
                )
            # One that is seen in part is certain anyway.
            self._place(append, position)
        for begin, end in self._seen_before(offset, offset + len(data)):
            if data[begin - offset : end - offset] != self.known[begin:end]:
                raise ViolationError(f"{who} read wrong bytes of {self.name} from {offset} on")

    def _seen_before(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """The parts of ``[begin, end)`` outside of holes."""
        for hole, after in self.holes:
            if begin < hole:
                yield begin, min(end, hole)
            begin = max(begin, min(end, after))
        yield begin, end

    def _explain(self, position: int, rest: bytes) -> Bytes | None:
        """The append whose bytes these are, as far as they go."""
        for append in self.appends:
            waiting = append.state is not State.FAILED and append.offset is None
            if waiting and _agree(append.data, rest):
                return append
        return None

    def set_to(self, value: Bytes) -> None:
        """It is certain that the attribute got this value, and none before it any more."""
        value.happened()
        self.values = self.values[self.values.index(value) :]

    def value_seen(self, value: str | None, known: list[Bytes], who: str, *, was_set: bool) -> None:
        """A process saw the attribute.

        Args:
            value: what it was.
            known: what it may have been before that process looked.
            who: looked.
            was_set: whether it was certain in advance that it had some value.
        """
        if value is None:
            if was_set:
                raise ViolationError(f"{who}: the attribute of {self.name} is gone")
            return
        for attempt in (*known, *self.values):
            if attempt.data.decode() == value and attempt.state is not State.FAILED:
                if attempt in self.values:
                    self.set_to(attempt)
                return
        raise ViolationError(f"{who}: an old or invented attribute of {self.name}: {value}")

    def looked_through(self, epoch: int) -> None:
        """An owner of ``epoch`` showed everything: what older ones left open did not happen."""
        for append in self.appends:
            if append.hidden:
                continue
            if append.state is State.OPEN and append.epoch < epoch:
                append.failed(f"an owner of epoch {epoch} does not have it")
            elif append.offset is None and append.state is State.HAPPENED and append.epoch < epoch:
                raise ViolationError(f"{append.what} happened, but epoch {epoch} does not have it")
            append.check_group()
        self.appends = [
            append
            for append in self.appends
            if append.state is not State.FAILED and append.offset is None
        ]


def _agree(data: bytes, rest: bytes) -> bool:
    count = min(len(data), len(rest))
    return data[:count] == rest[:count]
