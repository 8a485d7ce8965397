"""The options of ``df.write.format("siltstone")`` and of a stream: checked before any task runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from siltstone.container.models.imports import ImportMode
from siltstone.core.constants import check_segment_name
from siltstone.core.errors import SettingsError, SiltstoneError
from siltstone.spark.catalog_tables import check_options
from siltstone.spark.options import Mode, choice

SPARK_OPTIONS: Final = frozenset({"checkpointlocation"})
"""What Spark itself is told by an option of a stream."""


class Outputs(StrEnum):
    """Which segments get the rows."""

    ONE = "one"
    """One segment gets those of all partitions, in their order."""
    PARTITION = "partition"
    """Each partition has a segment of its own, with its number after the name."""
    KEY = "key"
    """Each value of the key column has a segment of its own, with the value after the name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """What to write where.

    Attributes:
        store: absolute path of the settings file, or of the folder that holds it.
        segment: name of the segment; what names begin with, if there are several.
        mode: how a row is written: as a line, an event, or the value alone.
        outputs: which segments get the rows.
        key: name of the key column; empty when there is none.
        import_mode: what becomes of segments that there are.
    """

    store: str
    segment: str
    mode: Mode = Mode.LINES
    outputs: Outputs = Outputs.ONE
    key: str = ""
    import_mode: ImportMode = ImportMode.APPEND

    def segment_of(self, part: str) -> str:
        """The segment that gets the rows of one partition or key, or all rows.

        Raises:
            SegmentNameError: there can be none of that name.
        """
        if self.outputs is Outputs.ONE:
            return self.segment
        return check_segment_name(f"{self.segment}/{part}")


KNOWN: Final = ("store", "segment", "mode", "outputs", "key")


def parse_write_options(given: Mapping[str, str], *, overwrite: bool) -> WriteOptions:
    """Check what a user wrote; names of options are compared without case, as Spark does.

    Raises:
        SettingsError: an option is unknown, missing or out of its range; the message names it.
    """
    options = {name.lower(): str(value) for name, value in given.items()}
    check_options(options)
    if unknown := sorted(options.keys() - set(KNOWN) - SPARK_OPTIONS):
        hint = "; save() takes no path: say .option('store', path)" if "path" in unknown else ""
        raise SettingsError(
            f"unknown option: {', '.join(map(repr, unknown))}; "
            f"known for writing are {', '.join(KNOWN)}{hint}"
        )
    for name in ("store", "segment"):
        if not options.get(name):
            raise SettingsError(f"option {name!r} is missing")
    try:
        segment = check_segment_name(options["segment"])
    except SiltstoneError as error:
        raise SettingsError(f"option 'segment': {error}") from error
    key = options.get("key", "")
    outputs = choice(options, "outputs", Outputs.KEY if key else Outputs.ONE)
    if (outputs is Outputs.KEY) != bool(key):
        raise SettingsError("option 'key' names a column, and goes with outputs=key alone")
    return WriteOptions(
        store=str(Path(options["store"]).expanduser().absolute()),
        segment=segment,
        mode=choice(options, "mode", Mode.LINES),
        outputs=outputs,
        key=key,
        import_mode=ImportMode.REPLACE if overwrite else ImportMode.APPEND,
    )
