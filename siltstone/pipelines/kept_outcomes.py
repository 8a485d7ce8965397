"""The file of ``--resume``: which items of a job are done, so that a killed job continues."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

from siltstone.core.closed_on_exit import Closing
from siltstone.core.errors import SettingsError
from siltstone.core.posix import SystemFileCalls, write_fully
from siltstone.pipelines.work import ItemOutcome

VERSION: Final = 1


class KeptOutcomes(Closing):
    """Outcomes of a job, a line of JSON each, after a line that tells which job it is.

    Use it as a context manager. What was written is in the file when ``keep`` returns; a line that
    a crash cut in two is skipped.

    Args:
        path: the file; made when it is missing. ``None`` keeps nothing.
        head: what must be the same for a job to continue: its name, the store, its options.

    Attributes:
        done: length of each subject that is done, by subject.
        counts: how many had which status.

    Raises:
        SettingsError: the file is of another job, or of none.
    """

    def __init__(self, path: Path | None, head: dict[str, Any]) -> None:
        self._path = path
        self._head = {"version": VERSION, **head}
        self.done: dict[str, int] = {}
        self.counts: Counter[str] = Counter()
        if path is None:
            return
        there = path.read_bytes() if path.exists() else b""
        whole = there[: there.rfind(b"\n") + 1]
        if whole:
            self._read(path, whole)
        elif not _line(self._head).startswith(there):
            raise SettingsError(f"{path} is not the file of a job")
        self._file = path.open("r+b" if path.exists() else "w+b", buffering=0)
        self._file.truncate(len(whole))
        self._end = len(whole)
        if not whole:
            self._write(self._head)

    def _read(self, path: Path, whole: bytes) -> None:
        first, *lines = whole.splitlines()
        try:
            head = json.loads(first)
            for line in lines:
                value = json.loads(line)
                self.done[value["subject"]] = value["length"]
                self.counts[value["status"]] += 1
        except (ValueError, KeyError, TypeError) as error:
            raise SettingsError(f"{path} is not the file of a job") from error
        if head != self._head:
            raise SettingsError(f"{path} is of another job: {head}, not {self._head}")

    def keep(self, outcome: ItemOutcome) -> None:
        """Note that this item is done."""
        self.done[outcome.subject] = outcome.length
        self.counts[outcome.status] += 1
        if self._path is not None:
            fields = {
                "subject": outcome.subject,
                "status": outcome.status,
                "length": outcome.length,
            }
            self._write(fields)

    def _write(self, value: object) -> None:
        fd = self._file.fileno()
        self._end += write_fully(SystemFileCalls(), fd, [_line(value)], self._end)

    def end(self) -> None:
        """The job came to its end: the next one begins again."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._path is not None:
            self._file.close()


def _line(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"
