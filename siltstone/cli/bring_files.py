"""Bringing plain files into the store, wherever their bytes are copied."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from siltstone.cli.interrupts import goes_on
from siltstone.cli.output import counting_bar, print_json, print_table, say
from siltstone.cli.session import Session
from siltstone.core.text import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from siltstone.migration.files.import_files import ImportChoices
    from siltstone.migration.files.import_plan import PlannedFileSegment
    from siltstone.pipelines.work import Executor
    from siltstone.store.store import Store


@goes_on()
def told_imports(
    session: Session,
    store: Store,
    planned: Sequence[PlannedFileSegment],
    choices: ImportChoices,
    executor: Executor,
    *,
    rate: int | None,
    as_json: bool,
) -> None:
    """Import what was planned, and tell each segment once it is there."""
    from siltstone.migration.files.import_files import import_files

    if not planned:
        session.note("import: nothing to do: there is no file")
    total = sum(each.length for each in planned)
    with counting_bar("import", total, shown=not session.quiet) as progress:
        path = session.store_path()
        segments = import_files(
            store, path, planned, choices, progress, executor=executor, rate=rate
        )
        with closing(segments):
            for made in segments:
                if as_json:
                    print_json(made)
                else:
                    there = " (made before)" if made.repeated else ""
                    files = counted(made.files, "file")
                    say(f"{made.segment}: {counted(made.length, 'byte')} of {files}{there}")


def show_plan(planned: Sequence[PlannedFileSegment], *, as_json: bool) -> None:
    """Show which file would become which bytes of which segment."""
    rows = []
    for segment in planned:
        offset = 0
        for source in segment.sources:
            rows.append((segment.name, offset, source.length, source.path))
            offset += source.length
    if not as_json:
        print_table(("SEGMENT", "OFFSET", "LENGTH", "FILE"), rows)
        return
    for name, offset, length, file in rows:
        print_json({"segment": name, "offset": offset, "length": length, "file": file})
