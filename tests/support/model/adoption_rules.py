"""Rules of objects in place: others put them there, and they are kept until they are finalised."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from siltstone.container.models.imports import (
    ImportedChunk,
    ImportMode,
    ImportOutput,
    ImportSessionError,
)
from siltstone.core.storage.block_sums import extend_sums
from tests.support.container.imported_chunks import DAY_S
from tests.support.model.import_rules import JOBS_MAX, ImportRules, Job, modes
from tests.support.model.machine_base import names, sizes

adoptions = st.sampled_from(["x", "y"])
parts = st.lists(sizes.filter(bool), max_size=3)
gifts = st.lists(
    st.tuples(names, modes, parts), min_size=1, max_size=2, unique_by=lambda gift: gift[0]
)


class AdoptionRules(ImportRules):
    """Adoptions of one container.

    Objects of an adoption that is not finalised lie there as they are, whatever happens; what is
    finalised lies there for as long as a segment has it. An object that the container does not know
    may come again.
    """

    objects: dict[str, bytes]
    adopted: dict[str, str]
    finalised: frozenset[str] = frozenset()

    @initialize()
    def no_objects(self) -> None:
        self.objects, self.adopted = {}, {}

    @precondition(lambda self: len(self.jobs) < JOBS_MAX)
    @rule(
        several=gifts,
        adoption=adoptions,
        start=st.sampled_from([0, 1, 1_000]),
        sealed=st.sampled_from([None, True, False]),
        sums=st.booleans(),
        again=st.booleans(),
    )
    def open_adoption(
        self,
        several: list[tuple[str, ImportMode, list[int]]],
        adoption: str,
        start: int,
        sealed: bool | None,
        sums: bool,
        again: bool,
    ) -> None:
        """A session that stays open; it is brought to its end like any other one."""
        self.sessions += 1
        adoption = self.living(adoption)
        work = self.container.imports.open(
            f"job {self.sessions}", lifetime_s=DAY_S, adoption=adoption
        )
        ticket = self.run(work)
        unknown = self.unknown() if again else []
        outputs, data = [], []
        for name, mode, lengths in several:
            objects = [unknown.pop() if unknown else self.put(length) for length in lengths]
            self.adopted.update(dict.fromkeys(objects, adoption))
            is_new = mode is not ImportMode.APPEND
            outputs.append(
                ImportOutput(
                    segment=name,
                    chunks=tuple(self.described(each, sums) for each in objects),
                    mode=mode,
                    start=start if is_new else 0,
                    sealed=sealed if is_new else None,
                )
            )
            data.append(b"".join(self.objects[each] for each in objects))
        self.jobs += (Job(ticket, tuple(outputs), tuple(data), None),)

    @rule(adoption=adoptions)
    def finalise(self, adoption: str) -> None:
        name = self.living(adoption)
        if self.run(self.container.adoptions.finalise(name)) is not None:
            self.finalised |= {name}
            self.fails(ImportSessionError, self.container.adoptions.release(name))

    @rule(adoption=adoptions, delete=st.booleans())
    def release(self, adoption: str, delete: bool) -> None:
        for segment in sorted(self.model.segments) if delete else ():
            self.run(self.container.delete(segment))
            self.forget(segment)
        released = self.run(self.container.adoptions.release(self.living(adoption)))
        assert released is None or not delete or not released.in_use

    @rule(name=names)
    def record_sums(self, name: str) -> None:
        if self.has(name):
            self.run(self.container.record_sums(name, lambda _: None))

    async def check_all(self) -> None:
        await super().check_all()
        storage = self.world.new_storage()
        for name, data in getattr(self, "objects", {}).items():
            if self.adopted[name] in self.finalised:
                continue
            buffer = bytearray(len(data) + 1)
            count = storage.read_into(name, 0, buffer)
            assert buffer[:count] == data, f"{name} is not as it was"

    # --- steps ------------------------------------------------------------------------------------

    def living(self, adoption: str) -> str:
        """The name of an adoption that was not finalised before."""
        count = sum(name.startswith(adoption) for name in self.finalised)
        return f"{adoption}{count}"

    def put(self, length: int) -> str:
        """Put an object there, as another program does."""
        name = f"old/{len(self.objects)}"
        self.objects[name] = self.made(length)
        self.world.new_storage().create(name, [self.objects[name]])
        return name

    def described(self, name: str, sums: bool) -> ImportedChunk:
        data = self.objects[name]
        found = tuple(extend_sums([data], 0, 0)) if sums else None
        return ImportedChunk(name=name, length=len(data), sums=found)

    def unknown(self) -> list[str]:
        """Objects that lie there, and that the container and the open sessions know nothing of."""
        wanted = {chunk.name for job in self.jobs for out in job.outputs for chunk in out.chunks}
        return [
            name
            for name in self.world.names("old/")
            if name not in wanted and self.container.adoptions.knows([name]) is None
        ]
