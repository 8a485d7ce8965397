"""Rules of what users note about segments and of their names, crashes in the middle included."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from siltstone.container.models.segments import ATTRIBUTES_MAX, Append, AttributeIs, SetAttribute
from siltstone.core.errors import (
    AttributeLimitError,
    ConditionFailedError,
    SegmentExistsError,
    SegmentNotFoundError,
)
from tests.support.model.container_model import Model, compare
from tests.support.model.machine_base import LOST, TABLE, names, sizes
from tests.support.model.owner_rules import OwnerRules

keys = st.sampled_from(["a", "b", "ü"])
values = st.none() | st.sampled_from(["", "1", "two"])
notes = st.dictionaries(keys, values, min_size=1)


class NamingRules(OwnerRules):
    """Attributes and renames."""

    @rule(name=names, changes=notes, key=keys, right=st.booleans(), size=sizes)
    def note(
        self, name: str, changes: dict[str, str | None], key: str, right: bool, size: int
    ) -> None:
        """Attributes and bytes in one commit, on condition of an attribute."""
        segment = self.model.segments.get(name)
        known = segment.attributes.get(key) if segment is not None else None
        conditions = [AttributeIs(name, key, known if right else "something else")]
        data = b"" if segment is None or segment.sealed else self.made(size)
        operations = [SetAttribute(name, *item) for item in changes.items()]
        work = self.container.commit(
            [*operations, *([Append(name, data)] if data else [])], conditions
        )
        if segment is None:
            self.fails(SegmentNotFoundError, work)
        elif not right:
            failed = self.fails(ConditionFailedError, work)
            assert isinstance(failed, ConditionFailedError)
            assert failed.current == known
        else:
            self.run(work)
            segment.note(changes)
            segment.data += data

    @rule(name=names, right=st.booleans())
    def note_too_much(self, name: str, right: bool) -> None:
        if self.has(name):
            many = [SetAttribute(name, f"{number}", "") for number in range(ATTRIBUTES_MAX + 1)]
            self.fails(AttributeLimitError, self.container.commit(many))

    @rule(name=names, new=names)
    def rename(self, name: str, new: str) -> None:
        work = self.container.rename(name, new)
        if not self.has(name) and self.model.was_renamed(name, new):
            self.run(work)
        elif not self.has(name):
            self.fails(SegmentNotFoundError, work)
        elif self.has(new):
            self.fails(SegmentExistsError, work)
        else:
            self.run(work)
            self.model.rename(name, new)

    @rule(name=names, new=names, size=sizes.filter(bool), again=st.booleans())
    def rename_in_a_crowd(self, name: str, new: str, size: int, again: bool) -> None:
        """Calls by both names around a rename that is on its way."""
        if not self.has(name) or self.has(new) or self.model.segments[name].sealed:
            return
        container = self.container
        first, late = self.made(size), self.made(size)

        async def append(to: str, data: bytes) -> int:
            return int(await container.append(to, data))

        async def work() -> list[Any]:
            calls = [append(name, first), container.rename(name, new), append(name, late)]
            calls += [append(new, late), container.truncate(name, 0)]
            if again:
                calls.append(container.create(name))
            tasks = [asyncio.create_task(call) for call in calls]
            return await asyncio.gather(*tasks, return_exceptions=True)

        length = len(self.model.segments[name].data)
        found = self.run(work())
        assert (found[0], found[1], found[3]) == (length, None, length + size)
        self.model.segments[name].data += first + late
        self.model.rename(name, new)
        if again:
            self.model.create(name)
        for result in (found[2], found[4]):
            # By the old name they find the next segment of this name, if they come late enough.
            assert isinstance(result, SegmentNotFoundError) or (again and not result)
        if found[2] == 0:
            self.model.segments[name].data += late

    @rule(
        changed=st.lists(st.tuples(names, notes), max_size=3, unique_by=lambda item: item[0]),
        renamed=st.booleans(),
        delay=st.floats(0, 0.1),
        keep=st.booleans(),
    )
    def crash_while_naming(
        self,
        changed: list[tuple[str, dict[str, str | None]]],
        renamed: bool,
        delay: float,
        keep: bool,
    ) -> None:
        """What was in flight is there from its beginning, what was acknowledged in any case."""
        calls, models = self.naming([item for item in changed if self.has(item[0])], renamed)

        async def work() -> int:
            tasks = [asyncio.create_task(call) for call in calls]
            await self.world.environment.sleep(delay)
            await self.world.crash(self.owner, keep_index=keep)
            results = await asyncio.gather(*tasks, return_exceptions=True)
            failed = [isinstance(result, BaseException) for result in results]
            assert all(
                isinstance(result, LOST) for result, bad in zip(results, failed, strict=True) if bad
            )
            assert failed == sorted(failed)
            return failed.count(False)

        acknowledged = self.run(work())
        self.owner = self.run(self.world.open(index=self.owner.folder.name))
        infos = self.run(self.container.list_segments())
        found = {info.name: info.attributes for info in infos}
        self.model = next(
            model
            for model in models[acknowledged:]
            if {name: segment.attributes for name, segment in model.segments.items()} == found
        )
        self.run(compare(self.model, self.container, TABLE))

    def naming(
        self, changed: list[tuple[str, dict[str, str | None]]], renamed: bool
    ) -> tuple[list[Any], list[Model]]:
        """Calls that touch different names, and the model before and after each of them."""
        calls: list[Any] = []
        models = [self.model]
        free = next((name for name in ("a", "b", "sub/c", "d") if not self.has(name)), None)
        for number, (name, changes) in enumerate(changed):
            model = deepcopy(models[-1])
            if renamed and number == 0 and free is not None:
                calls.append(self.container.rename(name, free))
                model.rename(name, free)
            else:
                calls.append(
                    self.container.commit([SetAttribute(name, *item) for item in changes.items()])
                )
                model.segments[name].note(changes)
            models.append(model)
        return calls, models
