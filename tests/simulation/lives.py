"""What clients do to segments and rows as a whole: they begin, change, are joined and end."""

from __future__ import annotations

from tests.simulation.appending import Appending
from tests.simulation.asking import Joining, true
from tests.simulation.facts import Attempt, Bytes, Segment, State, ViolationError
from tests.simulation.looking import KEY


class Lives(Appending):
    """Verbs of segments."""

    async def truncate(self) -> None:
        segment = self._some()
        if segment is None or not segment.length:
            return
        offset = self._chance.randint(segment.start, segment.length)
        segment.start_tried = max(segment.start_tried, offset)
        segment.cuts.add(offset)
        handle = self._handle(segment)

        async def call() -> bool:
            await handle.truncate(offset)
            return True

        epoch = self.epoch
        # An overtaken owner may say that there is nothing to do, of a segment that was there once.
        if await self._ask(call, segment=segment) and epoch == self._ledger.epoch:
            segment.start = max(segment.start, offset)

    async def seal(self) -> None:
        segment = self._some()
        if segment is not None and self._chance.random() < 0.3:
            await self._seal(segment)

    async def _seal(self, segment: Segment) -> bool:
        seal, handle, again, epoch = segment.seal, self._handle(segment), True, self.epoch
        if seal is None:
            seal = segment.seal = Attempt(what=f"seal {segment.name}", epoch=self.epoch)
            again = False
        elif seal.state is State.OPEN and seal.epoch == self.epoch:
            return False
        else:
            seal.again(self.epoch)
        info = await self._ask(handle.seal, seal, again=again, segment=segment)
        if info is None:
            if seal.state is State.FAILED:
                segment.seal = None
            return False
        if epoch != self._ledger.epoch:
            return False
        seal.happened()
        if segment.sealed_length not in (None, info.length):
            raise ViolationError(f"{segment.name} was sealed at two lengths")
        segment.sealed_length = info.length
        return True

    async def rename(self) -> None:
        segment = self._some()
        if segment is None or segment.calls or segment.end is not None:
            return
        self._plans.names += 1
        segment.new_name = f"{self._tag}r/{self._plans.names}"
        segment.rename = rename = Attempt(what=f"rename {segment.name}", epoch=self.epoch)
        handle = self._handle(segment)
        if await self._ask(lambda: handle.rename(segment.new_name), rename) is not None:
            if segment.rename is rename:
                self._ledger.renamed(segment)
            else:  # Another process saw it before this was heard.
                rename.happened()
        elif rename.state is State.FAILED:
            segment.rename = None

    async def delete(self) -> None:
        segment = self._some()
        if segment is None or (segment.end and segment.end.state is not State.FAILED):
            return
        segment.end = Attempt(what=f"delete {segment.name}", epoch=self.epoch)
        end, handle = segment.end, self._handle(segment)

        async def call() -> bool:
            await handle.delete()
            return True

        if await self._ask(call, end, segment=segment):
            end.happened()
            self._ledger.gone(segment)
            # A call that names it could find the new one.
            free = not segment.calls and segment.name not in self._ledger.segments
            if free and self._chance.random() < 0.5:
                await self._create(segment.name, private=False)

    async def join(self) -> None:
        """Fill a segment of one's own, and put it after another one."""
        target = self._some()
        source = await self.create(private=True)
        if source is None or target is None:
            return
        handle = self._handle(source)
        for _ in range(self._chance.randint(0, 4)):
            append = source.append(self._data(), self.epoch, "own append")
            offset = await self._ask(lambda: handle.append(append.data), append, segment=source)  # noqa: B023
            if offset is None:
                return
            source.acknowledged(append, offset)
        if self._chance.random() < 0.3:
            cut = self._chance.randint(0, source.length)
            source.start_tried = cut
            source.cuts.add(cut)
            if await self._ask(lambda: true(handle.truncate(cut)), segment=source) is None:
                return
            source.start = cut
        if not await self._seal(source) or self._ledger.segments.get(target.name) is not target:
            return
        data = bytes(source.known[source.start :])
        added = target.append(data, self.epoch, f"join of {source.name}")
        source.end = added
        joining = Joining(target, source, added)
        await self._join(joining, again=False)
        if added.state is State.OPEN:
            self._plans.joinings.append(joining)

    async def _join(self, joining: Joining, *, again: bool) -> None:
        target, source = joining.target, joining.source
        handle = self._handle(target)
        offset = await self._ask(
            lambda: handle.concat(source.name), joining.bytes, again=again, others=(target, source)
        )
        if offset is not None:
            if joining.bytes.data:
                target.acknowledged(joining.bytes, offset)
            else:
                joining.bytes.happened()
            self._ledger.gone(source)

    async def join_again(self) -> None:
        """Repeat a concat whose outcome is not known."""
        plans = self._plans
        plans.joinings = [j for j in plans.joinings if j.busy or not j.target.ended]
        waiting = [joining for joining in plans.joinings if not joining.busy]
        if not waiting:
            return
        joining = self._chance.choice(waiting)
        joining.busy = True
        try:
            if joining.bytes.offset is None:
                joining.bytes.again(self.epoch)
                joining.target.asked(joining.bytes)
            await self._join(joining, again=True)
            if joining.bytes.state is State.HAPPENED:
                plans.joinings.remove(joining)
        finally:
            joining.busy = False

    async def set_attribute(self) -> None:
        segment = self._some()
        if segment is None or segment.is_set:
            return
        self._plans.names += 1
        text = f"value {self._plans.names}"
        value = Bytes(what=f"{text} of {segment.name}", epoch=self.epoch, data=text.encode())
        segment.values.append(value)
        segment.is_set = True
        handle = self._handle(segment)
        try:
            if await self._ask(lambda: handle.set_attributes({KEY: text}), value, segment=segment):
                segment.set_to(value)
        finally:
            segment.is_set = False

    async def remove_row(self) -> None:
        """Remove a row by its key, or as a range."""
        free = [key for key, row in self._ledger.rows.items() if row.stays]
        if not free:
            return
        key = self._chance.choice(free)
        end = Attempt(what=f"removal of {key!r}", epoch=self.epoch)
        self._ledger.rows[key].end = end
        table = self._rows
        if self._chance.random() < 0.5:
            removed = await self._ask(lambda: table.remove(key), end)
        else:
            removed = await self._ask(lambda: table.remove_range(key, key + b"\0"), end)
        if removed is not None:
            end.done(removed)
            self._ledger.heard_of(removed)
