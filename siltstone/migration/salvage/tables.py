"""What there is of the tables of one container, and what each may be called."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from siltstone.core.constants import ROWS_PER_SLICE
from siltstone.core.records.attributes import decode_attributes
from siltstone.core.records.keys import METADATA_TABLE, RowKind, attributes_key, name_key, name_of
from siltstone.core.records.number import decode_number
from siltstone.metadata.rows import Rows
from siltstone.metadata.tables import Tables
from siltstone.migration.salvage.log_records import LogOverlay
from siltstone.migration.salvage.report import SalvagedTable, Verdict

_Row = tuple[bytes, int, bytes]
"""Key, version and value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """What is known of the tables of a container.

    Attributes:
        container: its index.
        rows: of the newest state that can be built; ``None`` without any.
        log: what records of the table log say after that.
        doubts: why that state is not the newest one; none when it is.
    """

    container: int
    rows: Rows | None
    log: LogOverlay
    doubts: tuple[str, ...]

    @property
    def tables(self) -> Tables | None:
        """All tables of the state."""
        return None if self.rows is None else self.rows.tables

    def attributes(self, name: str) -> tuple[dict[str, str], bool]:
        """Attributes of a segment of this name, and whether a checkpoint proves them."""
        segment_id = None if self.rows is None else self.rows.find(name)
        _, named = self.log.values.get((METADATA_TABLE, name_key(name)), (0, None))
        if named is not None:
            segment_id = decode_number(RowKind.NAME, named)
        if segment_id is None:
            return {}, False
        later = self.log.values.get((METADATA_TABLE, attributes_key(segment_id)))
        if later is not None:
            return {} if later[1] is None else decode_attributes(segment_id, later[1]), False
        if self.rows is None:
            return {}, False
        return self.rows.attributes(segment_id), not self.doubts


def salvaged_tables(state: TableState, folder: Path) -> list[SalvagedTable]:
    """Write what there is of each table to a file in ``folder``; say what it may be called.

    Lines are those of ``siltstone table scan --json``. Blocking.
    """
    found = []
    for number, (table_id, name) in enumerate(_tables(state)):
        path = folder / f"c{state.container}-{number}"
        count, length, digest = _write(path, state, table_id)
        verdict, why = _judged(state, table_id, named=name is not None)
        found.append(
            SalvagedTable(
                name=f"table {table_id}" if name is None else name,
                container=state.container,
                verdict=verdict,
                keys=count,
                version=_version(state),
                proven=None if state.tables is None else state.tables.applied_version,
                why=why,
                length=length,
                plan=digest,
                lines=path,
            )
        )
    return sorted(found, key=lambda table: table.name)


def _version(state: TableState) -> int:
    return max(state.log.position, 0 if state.tables is None else state.tables.applied_version)


def _judged(state: TableState, table_id: int, *, named: bool) -> tuple[Verdict, tuple[str, ...]]:
    if state.tables is not None and not state.doubts:
        return Verdict.EXACT, ()
    why = []
    if not named:
        why.append("nothing tells its name")
    why += [
        f"nothing is left of what was updated from version {begin} to {end}"
        for begin, end in state.log.gaps
    ]
    verdict = Verdict.GUESSED if why else Verdict.PREFIX
    return verdict, (*why, "no checkpoint proves its last update")


def _tables(state: TableState) -> Iterator[tuple[int, str | None]]:
    """Each table with its name, as far as that is known."""
    names: dict[int, str] = {}
    if state.rows is not None:
        after = ""
        while page := state.rows.table_names("", after, ROWS_PER_SLICE):
            names |= {table_id: name for name, table_id in page}
            after = page[-1][0]
    for key, _, value in state.log.of(METADATA_TABLE):
        if key[:1] == bytes((RowKind.TABLE,)) and value is not None:
            names[decode_number(RowKind.TABLE, value)] = name_of(key)
    others = {table_id for table_id, _ in state.log.values} - {METADATA_TABLE, *names}
    yield from sorted(names.items())
    yield from ((table_id, None) for table_id in sorted(others))


def _write(path: Path, state: TableState, table_id: int) -> tuple[int, int, str]:
    """Write the rows of a table as lines; return how many, their bytes and a digest of them."""
    digest = hashlib.blake2b(digest_size=16)
    count = length = 0
    with path.open("wb") as file:
        for key, version, value in _rows(state, table_id):
            fields = {**_field("key", key), **_field("value", value), "version": version}
            line = json.dumps(fields, ensure_ascii=False).encode() + b"\n"
            file.write(line)
            digest.update(line)
            count, length = count + 1, length + len(line)
    return count, length, digest.hexdigest()


def _rows(state: TableState, table_id: int) -> Iterator[_Row]:
    """The rows of a table, in the order of keys: those of the state, and what the log changes."""
    changed = state.log.of(table_id)
    at = 0
    for key, version, value in _base(state, table_id):
        while at < len(changed) and changed[at][0] < key:
            yield from _present(changed[at])
            at += 1
        if at < len(changed) and changed[at][0] == key:
            yield from _present(changed[at])
            at += 1
        elif not state.log.is_removed(table_id, key, version):
            yield key, version, value
    for row in changed[at:]:
        yield from _present(row)


def _present(row: tuple[bytes, int, bytes | None]) -> Iterator[_Row]:
    key, version, value = row
    if value is not None:
        yield key, version, value


def _base(state: TableState, table_id: int) -> Iterator[_Row]:
    if state.tables is None:
        return
    low = b""
    while page := state.tables.scan(table_id, low, None, limit=ROWS_PER_SLICE):
        for key, entry in page:
            yield key, entry.version, entry.value
        low = page[-1][0] + b"\0"


def _field(name: str, data: bytes) -> dict[str, str]:
    """Bytes for JSON, as the command writes them."""
    try:
        return {name: data.decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode("ascii")}
