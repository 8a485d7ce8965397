"""Starting the loader, following its reports, and killing it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from examples.flights.source import Source

Progress = dict[int, int]
"""The newest line that each writer reported as durable."""


def acknowledged(progress: Progress, writers: int) -> Iterator[int]:
    """Yield the numbers of all lines that are durable according to the reports."""
    for writer, newest in progress.items():
        yield from range(writer, newest + 1, writers)


def load_and_kill(store: Path, source: Source, writers: int, enough: int) -> Progress:
    """Load until at least ``enough`` lines are durable, then kill the loader at once.

    Returns:
        What it had reported up to its end.
    """
    progress: Progress = {}
    with _loader(store, source.path, writers) as (process, reports):
        for report in reports:
            _note(report, progress)
            if _count(progress, writers) >= enough:
                process.send_signal(signal.SIGKILL)
                break
        for report in reports:  # reports in the pipe when it died were acknowledged as well
            _note(report, progress)
    if process.returncode != -signal.SIGKILL:
        raise SystemExit(f"the loader ended with {process.returncode} before it could be killed")
    return progress


def load_rest(store: Path, source: Source, writers: int) -> int:
    """Load what is missing; return how many reports that took."""
    count = 0
    with _loader(store, source.path, writers) as (process, reports):
        for _ in reports:
            count += 1
    if process.returncode:
        raise SystemExit(f"the loader failed with {process.returncode}")
    return count


@contextmanager
def _loader(
    store: Path, csv: Path, writers: int
) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    command = [sys.executable, "-m", "examples.flights.loader", str(store), str(csv), str(writers)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    ) as process:
        assert process.stdout is not None, "it was asked for"
        try:
            yield process, process.stdout
        except BaseException:
            process.kill()
            raise


def _note(report: str, progress: Progress) -> None:
    if report.endswith("\n"):  # the last one may be cut
        writer, newest = map(int, report.split())
        progress[writer] = newest


def _count(progress: Progress, writers: int) -> int:
    return sum((newest - writer) // writers + 1 for writer, newest in progress.items())
