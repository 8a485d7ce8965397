"""Copies between folders and a bucket, and their comparisons, next to ``cp`` and the SDK.

The peer for a folder is ``cp`` of the same chunks, followed by a ``sync`` if the compared work is
durable; the peer for a bucket is boto3, which puts and gets the same files whole, four at a time.
Neither verifies anything. A comparison reads each byte twice, once on either side; it is rated by
the bytes of one side. Its peer copies the bytes of one side; for a bucket there is also a peer that
only reads them. All bytes that are read are in memory, and so are the server's objects.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

import siltstone
from bench.backup import GOAL, MIB, PLAIN, SYNCED, append, check, copied, plain, read_all, settings
from bench.figure import MIB_PER_SECOND, Figure, alternate
from bench.s3_place import BUCKET, S3Place, s3_place
from bench.workshop import Workshop, seconds_of
from services.unavailable import UnavailableError
from siltstone.migration.backup.create import create_backup
from siltstone.migration.backup.verify import verify_backups
from siltstone.migration.legacy.examine import examine
from siltstone.migration.legacy.export import export
from siltstone.migration.legacy.importer import bring
from siltstone.migration.legacy.locate import located
from siltstone.migration.legacy.plan import Way, plan_migration
from siltstone.migration.legacy.verify import verify
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.pipelines.store_view import store_view
from siltstone.pipelines.verify_copy import plan_verify_copy, verify_copy

WIDTH: Final = 4


def run(workshop: Workshop) -> list[Figure]:
    """Measure moves and comparisons by wall; those of a bucket if the server is available."""
    chunk = workshop.pick(64, 2) * MIB
    total = workshop.pick(16, 2) * chunk
    with workshop.place() as place:
        moves = _Moves(workshop, place, chunk, total)
        figures = moves.in_folders()
        try:
            with s3_place() as bucket:
                figures += moves.in_bucket(bucket)
        except UnavailableError as error:
            print(f"NOT MEASURED: {error}", file=sys.stderr, flush=True)
    return figures


class _Moves:
    """One store in a folder, and what is made from it."""

    def __init__(self, workshop: Workshop, place: Path, chunk: int, total: int) -> None:
        self._workshop = workshop
        self._place = place
        self._total = total
        self._settings = settings(chunk)
        self._file = workshop.store(place, self._settings)
        append(self._file, total)
        self._chunks = sorted(
            path for path in (self._file.parent / "chunks" / "data").rglob("*") if path.is_file()
        )
        self._numbers = count()

    def in_folders(self) -> list[Figure]:
        """A copy compared, a backup verified, a legacy layout imported and compared."""
        with self._workshop.place() as place:
            target = self._workshop.store(place, self._settings)
            copied(self._file, target)
            create_backup(self._file, place / "backups")
            legacy = place / "legacy"
            with siltstone.open(self._file, read_only=True) as store:
                check(export(store, store.list(), legacy))
            brought = siltstone.init(place / "brought")
            _brought(brought, legacy)
            read_all(place)
            comparisons: dict[str, Callable[[], float]] = {
                "compare a copy with its source": lambda: _compared(self._file, target),
                "verify a backup": lambda: _verified(place / "backups"),
                "migrate verify": lambda: _legacy_verified(brought, legacy),
            }
            figures = self._figures(comparisons, PLAIN, lambda: self._cp(sync=False))
            for peer, sync in ((PLAIN, False), (SYNCED, True)):
                figures += self._figures(
                    {"migrate legacy, by copy": lambda: self._bring(legacy)},
                    peer,
                    partial(self._cp, sync=sync),
                )
        return figures

    def in_bucket(self, place: S3Place) -> list[Figure]:
        """Copies into a bucket, out of it, and within it, and a comparison with it."""
        source = place.store(self._place / "bucket", "source", self._settings)
        copied(self._file, source)
        for number, path in enumerate(self._chunks):
            place.boto3.upload_file(str(path), BUCKET, f"sdk/{number}")
        figures = self._figures(
            {"copy a store in a folder into a bucket": lambda: self._into(place, self._file)},
            "boto3: put_object",
            lambda: self._sdk(place, self._put),
        )
        figures += self._figures(
            {"copy a store in a bucket into a folder": lambda: self._out(source)},
            "boto3: get_object, and sync",
            lambda: self._got(place, sync=True),
        )
        figures += self._figures(
            {"copy a store in a bucket within it": lambda: self._into(place, source)},
            "boto3: get_object, put_object",
            lambda: self._sdk(place, self._passed_on),
        )
        seconds, saved, read = alternate(
            self._workshop.rounds,
            lambda: _compared(self._file, source),
            lambda: self._got(place, sync=False),
            lambda: self._sdk(place, self._read),
        )
        for peer, theirs, goal in (
            ("boto3: get_object into files", saved, GOAL),
            ("boto3: get_object, into nothing", read, None),
        ):
            figures.append(
                Figure(
                    what="compare a store in a bucket with one in a folder",
                    peer=peer,
                    unit=MIB_PER_SECOND,
                    ours=self._rates(seconds),
                    theirs=self._rates(theirs),
                    goal=goal,
                )
            )
        return figures

    def _into(self, place: S3Place, source: Path) -> float:
        """Copy into a new store in the bucket."""
        prefix = f"into-{next(self._numbers)}"
        with self._workshop.place() as folder:
            target = place.store(folder / "store", prefix, self._settings)
            seconds = seconds_of(lambda: copied(source, target))
        shutil.rmtree(place.server.data / BUCKET / prefix)
        return seconds

    def _out(self, source: Path) -> float:
        """Copy into a new store in a folder."""
        with self._workshop.place() as folder:
            target = self._workshop.store(folder, self._settings)
            return seconds_of(lambda: copied(source, target))

    def _sdk(self, place: S3Place, call: Callable[[S3Place, int], object]) -> float:
        """Let the SDK do something with every chunk; what it makes is removed."""
        with ThreadPoolExecutor(WIDTH) as threads:
            each = partial(call, place)
            seconds = seconds_of(lambda: list(threads.map(each, range(len(self._chunks)))))
        shutil.rmtree(place.server.data / BUCKET / "made", ignore_errors=True)
        return seconds

    def _put(self, place: S3Place, number: int) -> None:
        with self._chunks[number].open("rb") as body:
            place.boto3.put_object(Bucket=BUCKET, Key=f"made/{number}", Body=body)

    def _passed_on(self, place: S3Place, number: int) -> None:
        body = self._read(place, number)
        place.boto3.put_object(Bucket=BUCKET, Key=f"made/{number}", Body=body)

    def _read(self, place: S3Place, number: int) -> bytes:
        return place.boto3.get_object(Bucket=BUCKET, Key=f"sdk/{number}")["Body"].read()

    def _got(self, place: S3Place, *, sync: bool) -> float:
        """Let the SDK copy every chunk into a folder."""
        with self._workshop.place() as folder:

            def save(place: S3Place, number: int) -> None:
                with (folder / str(number)).open("wb") as file:
                    body = place.boto3.get_object(Bucket=BUCKET, Key=f"sdk/{number}")["Body"]
                    for piece in body.iter_chunks(MIB):
                        file.write(piece)

            with ThreadPoolExecutor(WIDTH) as threads:

                def work() -> None:
                    list(threads.map(partial(save, place), range(len(self._chunks))))
                    if sync:
                        subprocess.run(["sync", "-f", folder], check=True)

                return seconds_of(work)

    def _bring(self, legacy: Path) -> float:
        """Import a legacy layout into a new store."""
        with self._workshop.place() as folder:
            target = self._workshop.store(folder, self._settings)
            return seconds_of(lambda: _brought(target, legacy))

    def _cp(self, *, sync: bool) -> float:
        with self._workshop.place() as folder:
            return seconds_of(lambda: plain(self._file, folder / "chunks", sync=sync))

    def _figures(
        self, ways: Mapping[str, Callable[[], float]], peer: str, theirs: Callable[[], float]
    ) -> list[Figure]:
        """Seconds of a measure as a rate, next to the peer's."""
        measured = alternate(self._workshop.rounds, *ways.values(), theirs)
        *ours, other = map(self._rates, measured)
        return [
            Figure(what=what, peer=peer, unit=MIB_PER_SECOND, ours=rates, theirs=other, goal=GOAL)
            for what, rates in zip(ways, ours, strict=True)
        ]

    def _rates(self, seconds: Iterable[float]) -> list[float]:
        return [self._total / MIB / one for one in seconds]


def _compared(source: Path, target: Path) -> float:
    def work() -> None:
        with store_view(source) as view, store_view(target) as other:
            items, known = plan_verify_copy(view, other, view.segments())
            check([*known, *verify_copy(view, other, LocalExecutor(), items)])

    return seconds_of(work)


def _verified(backups: Path) -> float:
    def work() -> None:
        if verify_backups(backups).findings:
            raise SystemExit("the backup is damaged")

    return seconds_of(work)


def _brought(target: Path, legacy: Path) -> None:
    with located(str(legacy), target) as place, siltstone.open(target) as store:
        plan = plan_migration(
            examine(place.place), {}, migration=place.migration, way=Way.COPY, under=""
        )
        check(bring(plan, place.for_workers(store.uuid), store, LocalExecutor(), None))


def _legacy_verified(target: Path, legacy: Path) -> float:
    def work() -> None:
        with located(str(legacy), target) as place, store_view(target) as view:
            check(verify(place, view, LocalExecutor()))

    return seconds_of(work)
