"""What is known of one change of a keyspace, and of one look at an object."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from tests.simulation.facts import Attempt, State, ViolationError

if TYPE_CHECKING:
    from siltstone.objects.object_views import ObjectHead
    from siltstone.objects.records.head import Head
    from siltstone.objects.records.keys import ObjectKey

Key = tuple[str, str, str]
"""Tag, bucket and key."""

Entry = tuple[str, str]
"""Field and term."""

Spec = tuple[str, str, str]
"""``add`` or ``remove``, field and term."""


@dataclass(eq=False, kw_only=True)
class SpaceChange(Attempt):
    """A put or a delete that was asked for.

    Attributes:
        number: of the change; the object's metadata says it.
        key: of the object.
        process: that it was asked of.
        digest: SHA-256 of the value; ``None`` of a delete.
        size: bytes of the value.
        index: the whole set of entries; ``None`` if ``specs`` change it, until it was seen.
        specs: changes of the set of entries.
        ttl_s: seconds until it expires; ``None`` for never.
        asked_s: what the clock of its process said when it was asked for.
        sqn: its number, once it is known.
        expires_s: seconds since 1970, once that is known; 0 for never.
        over: whether it is certain that no look shows it any more, should it ever have happened.
    """

    number: int
    key: Key
    process: str
    digest: str | None
    size: int = 0
    index: frozenset[Entry] | None = frozenset()
    specs: tuple[Spec, ...] = ()
    ttl_s: int | None = None
    asked_s: float = 0.0
    sqn: int | None = None
    expires_s: int | None = None
    over: bool = False

    @property
    def is_put(self) -> bool:
        """Whether there is an object after it."""
        return self.digest is not None

    def may_be_gone(self, latest_s: float) -> bool:
        """Whether no object may be there after it, by any clock up to a time."""
        if not self.is_put:
            return True
        if self.ttl_s is None:
            return False
        ends_s = self.asked_s + self.ttl_s if self.expires_s is None else self.expires_s
        return ends_s <= latest_s

    def is_possible(self) -> bool:
        """Whether it may still turn out to have happened."""
        return self.state is not State.FAILED and not self.over

    def entries_after(self, before: frozenset[Entry]) -> frozenset[Entry]:
        """The entries that its specs make of others."""
        entries = set(before)
        for verb, field, term in self.specs:
            (entries.add if verb == "add" else entries.discard)((field, term))
        return frozenset(entries)

    def check_value(self, value: bytes) -> None:
        """Compare a value that was read. Raises ``ViolationError``."""
        if sha256(value).hexdigest() != self.digest:
            raise ViolationError(f"{self.what}: another value, {len(value)} of {self.size} bytes")


@dataclass(frozen=True, slots=True)
class SeenHead:
    """An object as a look showed it, without its value.

    Attributes:
        key: of the object.
        sqn: of its change.
        number: that its metadata says.
        size: bytes of its value.
        entries: of the index.
        expires_s: when it expires; 0 for never.
    """

    key: Key
    sqn: int
    number: int
    size: int
    entries: frozenset[Entry]
    expires_s: int


def seen_head(head: ObjectHead) -> SeenHead:
    """What a verb showed."""
    entries = frozenset((field, term) for field, terms in head.index.items() for term in terms)
    key = (head.tag, head.bucket, head.key)
    number = int(head.metadata)
    return SeenHead(key, head.sqn, number, head.size, entries, head.expires or 0)


def seen_row(key: ObjectKey, head: Head) -> SeenHead:
    """What a row says."""
    entries = frozenset((field.decode(), term.decode()) for field, term in head.entries)
    names = key.tag.decode(), key.bucket.decode(), key.key.decode()
    return SeenHead(names, head.sqn, int(head.metadata), head.size, entries, head.expires_s)
