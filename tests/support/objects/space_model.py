"""A keyspace as a dictionary: what each verb does and tells, and what is there afterwards."""

from __future__ import annotations

import io
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any

from siltstone.objects.async_keyspace import AsyncKeyspace
from siltstone.objects.batch import PutResult
from siltstone.objects.changes import name_text
from siltstone.objects.records.keys import ObjectKey
from tests.support.objects.space_check import SeenSpace

Entry = tuple[str, str]
"""A field and a term."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """One request.

    Attributes:
        key: tag, bucket and key of the object.
        value: ``None`` to delete it.
        metadata: of a put.
        index: the whole set of entries; ``None`` when ``specs`` change it.
        specs: changes of the set, in order.
        ttl_s: seconds until it expires; ``None`` for never.
        condition: ``any``, ``absent``, ``right`` (the SQN that it has) or ``wrong`` (another one).
        stream: whether the value is a stream.
    """

    key: tuple[str, str, str]
    value: bytes | None = None
    metadata: bytes = b""
    index: tuple[Entry, ...] | None = ()
    specs: tuple[tuple[str, str, str], ...] = ()
    ttl_s: int | None = None
    condition: str = "any"
    stream: bool = False


@dataclass(frozen=True)
class ModelObject:
    """An object of the dictionary."""

    sqn: int
    value: bytes
    metadata: bytes
    entries: frozenset[Entry]
    expires_s: int

    def is_visible(self, now_s: float) -> bool:
        """Whether it has not expired."""
        return not self.expires_s or now_s < self.expires_s


REFUSED = "refused"
"""What a condition that does not hold makes of a change."""

Told = str | int | None | tuple[int, int | None]


@dataclass
class SpaceModel:
    """All objects by tag, bucket and key, and the SQN of the next change."""

    objects: dict[tuple[str, str, str], ModelObject] = field(default_factory=dict)
    next_sqn: int = 1

    def copy(self) -> SpaceModel:
        """The same, to be changed by itself."""
        return replace(self, objects=dict(self.objects))

    def visible(self, now_s: float) -> dict[tuple[str, str, str], ModelObject]:
        """The objects that have not expired."""
        return {key: each for key, each in self.objects.items() if each.is_visible(now_s)}

    def arguments(self, change: Change, now_s: float) -> dict[str, Any]:
        """How the condition is given to the verb, when all changes before it took place."""
        old = self.objects.get(change.key)
        sqn = old.sqn if old is not None and old.is_visible(now_s) else None
        match change.condition:
            case "absent":
                return {"expected": None}
            case "right":
                return {"expected": sqn}
            case "wrong":
                return {"expected": self.next_sqn + 1_000}
        return {}

    def apply(self, change: Change, now_s: float) -> Told:
        """Do it; returns what its caller is told: SQNs, or ``REFUSED``."""
        old = self.objects.get(change.key)
        if old is not None and not old.is_visible(now_s):
            old = None
        if change.condition == "wrong" or (change.condition == "absent" and old is not None):
            return REFUSED
        if change.value is None and old is None:
            return None
        sqn = self.next_sqn
        self.next_sqn += 1
        if change.value is None:
            del self.objects[change.key]
            return sqn
        entries = set() if old is None else set(old.entries)
        if change.index is not None:
            entries = set(change.index)
        else:
            for verb, name, term in change.specs:
                (entries.add if verb == "add" else entries.discard)((name, term))
        expires_s = 0 if change.ttl_s is None else ceil(now_s) + change.ttl_s
        self.objects[change.key] = ModelObject(
            sqn, change.value, change.metadata, frozenset(entries), expires_s
        )
        return sqn, None if old is None else old.sqn

    def differs(self, seen: SeenSpace, now_s: float) -> str:
        """In what a keyspace differs from this; empty when it does not."""
        found = {
            _names(key): ModelObject(
                each.head.sqn,
                each.value,
                each.head.metadata,
                frozenset((field.decode(), term.decode()) for field, term in each.head.entries),
                each.head.expires_s,
            )
            for key, each in seen.visible(now_s).items()
        }
        expected = self.visible(now_s)
        wrong = [key for key in {**found, **expected} if found.get(key) != expected.get(key)]
        if wrong:
            key = wrong[0]
            return f"{key}: {found.get(key)} instead of {expected.get(key)}"
        if seen.state.next_sqn != self.next_sqn:
            return f"next SQN {seen.state.next_sqn} instead of {self.next_sqn}"
        return ""


def _names(key: ObjectKey) -> tuple[str, str, str]:
    return name_text(key.tag), name_text(key.bucket), name_text(key.key)


def ask(keyspace: AsyncKeyspace, change: Change, arguments: dict[str, Any]) -> Any:
    """Call the verb of a change; returns its future, or a coroutine if it is of a stream."""
    tag, bucket, key = change.key
    if change.value is None:
        return keyspace.delete(bucket, key, tag=tag, **arguments)
    index: dict[str, list[str]] | None = None
    if change.index is not None:
        index = {}
        for name, term in change.index:
            index.setdefault(name, []).append(term)
    put: Any = keyspace.put_from if change.stream else keyspace.put
    return put(
        bucket,
        key,
        io.BytesIO(change.value) if change.stream else change.value,
        tag=tag,
        metadata=change.metadata,
        index=index,
        specs=change.specs if change.index is None else None,
        ttl_s=change.ttl_s,
        **arguments,
    )


def told(result: object) -> Told:
    """What a caller was told, as the model says it. Raises the errors that no model foresees."""
    if isinstance(result, PutResult):
        return result.sqn, result.replaced
    if isinstance(result, BaseException):
        raise result
    assert result is None or isinstance(result, int)
    return result
