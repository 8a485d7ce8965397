"""Joining objects on the service, 32 at a time, so more of them through objects in between.

The service joins whole objects. Of a source that is to be shortened, the beginning is read and sent
again, in objects of its own. What is made in between has names that no chunk can have, below an
empty part in front of the target's; it is removed when the join is over, however that ends, and by
the sweep of leftovers when even that failed.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any, Final

from google.api_core.exceptions import NotFound, PreconditionFailed

from siltstone.bindings.gcs.errors import refused, replaced, translated
from siltstone.bindings.gcs.lists import list_keys
from siltstone.bindings.gcs.reads import look_at, read_range
from siltstone.bindings.gcs.service import Service
from siltstone.bindings.gcs.uploads import Made, creation, json_of, made, properties, put
from siltstone.core.checksums import combine
from siltstone.core.errors import (
    ChunkError,
    ChunkExistsError,
    ChunkUnavailableError,
    Outcome,
)
from siltstone.core.remote.ranges import RangeRead
from siltstone.core.remote.sources import looked_at
from siltstone.core.remote.target import Target

COMPOSE_MAX: Final = 32
"""Sources of one request, as the service has it."""
JOIN_MAX: Final = COMPOSE_MAX * COMPOSE_MAX
NAMED_BYTES: Final = 480
"""How much of the target's name goes into those in between; a key has 1,024 bytes."""
BETWEEN: Final = re.compile(r"//[0-9a-f]{16}/[0-9]+\Z")


class Between:
    """The objects that one join makes other than its target.

    Args:
        service: where.
        target: what is joined.
    """

    def __init__(self, service: Service, target: Target) -> None:
        self._service = service
        self._target = target
        named = target.name.encode()[:NAMED_BYTES].decode(errors="ignore")
        self._folder = f"{service.settings.folder}/{named}//{os.urandom(8).hex()}/"
        self._numbers = count()
        self._lock = threading.Lock()
        self._begun: dict[str, int | None] = {}

    def next(self) -> Target:
        """A new object to be made; it will be removed."""
        with self._lock:
            key = f"{self._folder}{next(self._numbers)}"
            self._begun[key] = None
        target = self._target
        return Target(
            name=target.name, key=key, operation=target.operation, deadline=target.deadline
        )

    def done(self, made: Made) -> Made:
        """Note which object was made."""
        with self._lock:
            self._begun[made.key] = made.generation
        return made

    def remove(self) -> None:
        """Remove all that was made, as far as that succeeds at once."""
        calls = [partial(self._remove, key, found) for key, found in self._begun.items()]
        if calls:
            self._service.side_by_side(calls)

    def _remove(self, key: str, generation: int | None) -> None:
        # One whose making was not answered may still come, and is left to the sweep.
        deadline = self._service.deadline(0)
        with suppress(Exception), self._service.session.until(deadline):
            blob = self._service.bucket.blob(key)
            blob.delete(retry=None, if_generation_match=generation)


def join(service: Service, target: Target, sources: Sequence[tuple[str, int]]) -> None:
    """Make the object ``target`` of the first ``length`` bytes of each ``(name, length)``.

    Raises:
        ChunkNotFoundError: a source is not there.
        ChunkOffsetError: a source is too short.
        ChunkUnavailableError: a source was replaced meanwhile, or the service failed.
    """
    look = partial(look_at, service, operation="concat", deadline=target.deadline)
    found = looked_at(service, sources, look, lambda looked: looked[0].length)
    between = Between(service, target)
    try:
        parts: list[Made] = []
        for name, length in sources:
            parts += _as_parts(service, target, between, name, found[name][0], length)
        while len(parts) > COMPOSE_MAX:
            groups = [parts[i : i + COMPOSE_MAX] for i in range(0, len(parts), COMPOSE_MAX)]
            parts = service.side_by_side([partial(_grouped, service, between, g) for g in groups])
        compose(service, target, parts)
    finally:
        between.remove()


def compose(service: Service, target: Target, parts: Sequence[Made]) -> Made:
    """Make an object of up to 32 others, each pinned to its generation, by one request."""
    told = {
        "sourceObjects": [{"name": part.key, "generation": part.generation} for part in parts],
        "destination": properties(service),
    }
    with translated.change(target):
        answer = service.send(
            "POST",
            f"{service.path(target.key)}/compose",
            creation(service),
            target.deadline,
            body=json.dumps(told).encode(),
            headers={"Content-Type": "application/json; charset=UTF-8"},
        )
        if answer.status_code == 404:
            # It was there when the join began.
            raise replaced(target.name, target.operation)
        if answer.status_code != 200:
            raise refused(answer)
    length, crc = _expected(parts)
    return made(json_of(answer), target, length, crc)


def sweep_between(service: Service, prefix: str, age_s: float) -> int:
    """Remove what joins of targets below ``prefix`` left that is older than ``age_s``."""
    before = time.time() - age_s
    removed = 0
    for blob in list_keys(
        service, f"{service.settings.folder}/{prefix}", prefix, "sweep_leftovers"
    ):
        updated = blob.updated
        if not BETWEEN.search(blob.name) or updated is None or updated.timestamp() > before:
            continue
        with (
            translated(prefix, "sweep_leftovers", changes=True),
            service.session.until(service.deadline(0)),
        ):
            try:
                blob.delete(retry=None, if_generation_match=int(blob.generation))
            except (NotFound, PreconditionFailed):
                continue
        removed += 1
    return removed


def _as_parts(
    service: Service, target: Target, between: Between, name: str, source: Made, length: int
) -> list[Made]:
    """The object itself, or objects that hold its beginning."""
    if length == source.length:
        return [source]
    parts: list[Made] = []
    step = int(service.settings.put_bytes_max)
    for start in range(0, length, step):
        content = bytearray(min(step, length - start))
        asked = RangeRead(
            name=name,
            key=source.key,
            operation="concat",
            offset=start,
            length=len(content),
            deadline=target.deadline,
            version=str(source.generation),
        )
        if read_range(service, asked, memoryview(content)) != len(content):
            raise replaced(name, "concat")
        parts.append(_unseen(service, between, [content]))
    return parts


def _unseen(service: Service, between: Between, content: Sequence[Any]) -> Made:
    """Make an object in between of bytes. Whatever fails, the target was not begun."""
    place = between.next()
    try:
        return between.done(put(service, place, content, sum(map(len, content))))
    except ChunkError as error:
        raise _before_target(error) from error


def _grouped(service: Service, between: Between, parts: Sequence[Made]) -> Made:
    """Make an object in between of others, unless it would be the one that there is."""
    if len(parts) == 1:
        return parts[0]
    place = between.next()
    try:
        return between.done(compose(service, place, parts))
    except ChunkError as error:
        raise _before_target(error) from error


def _before_target(error: ChunkError) -> ChunkError:
    """Let an error of an earlier step say of the target that it was not made."""
    if isinstance(error, ChunkExistsError):
        return ChunkUnavailableError(
            "another join uses the same name", chunk=error.chunk, operation=error.operation
        )
    error.outcome = Outcome.NOT_APPLIED
    return error


def _expected(parts: Sequence[Made]) -> tuple[int, int | None]:
    """Length and CRC32C of what the parts make; no sum where that of a part is not known."""
    length, crc = 0, 0
    known = True
    for part in parts:
        if part.crc is None:
            known = False
        else:
            crc = combine(crc, part.crc, part.length)
        length += part.length
    return length, crc if known else None
