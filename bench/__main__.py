"""``python -m bench [NAME…] [--quick] [--write] [--folder PATH]``."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from bench import (
    adoption,
    ages,
    appends,
    azure,
    backup,
    caches,
    collections,
    flushes,
    gcs,
    hdfs,
    kafka,
    keyspaces,
    latencies,
    layouts,
    lives,
    machine,
    mixed,
    moves,
    openings,
    packs,
    peers,
    pipelines,
    populations,
    reads,
    recoveries,
    report,
    requests,
    s3,
    short_lives,
    silt,
    spark_collections,
    spark_rows,
    spark_sink,
    starts,
    takeovers,
    updates,
    volumes,
)
from bench.figure import Figure, table
from bench.workshop import Workshop

PARTS: dict[str, tuple[str, Callable[[Workshop], list[Figure]]]] = {
    "appends": ("Durable appends", appends.run),
    "latencies": ("Appends under load", latencies.run),
    "lives": ("Appends of other sizes, and lives of segments", lives.run),
    "flushes": ("Append and flush", flushes.run),
    "packs": ("Many small segments", packs.run),
    "requests": ("Requests to long-term storage", requests.run),
    "layouts": ("Many chunks", layouts.run),
    "reads": ("Reads", reads.run),
    "caches": ("Reads from far away", caches.run),
    "updates": ("Segments and tables", updates.run),
    "peers": ("Segments and tables beside other engines", peers.run),
    "collections": ("Collections beside table formats on files", collections.run),
    "keyspaces": ("Values by key", keyspaces.run),
    "volumes": ("Volumes and SQLite in them", volumes.run),
    "starts": ("The command and the import", starts.run),
    "openings": ("Opening", openings.run),
    "short_lives": ("Owners that live for seconds", short_lives.run),
    "populations": ("Opening very many segments", populations.run),
    "recovery": ("Recovery from long-term storage alone", recoveries.run),
    "takeovers": ("The death of an owner", takeovers.run),
    "kafka": ("The log kafka beside its client", kafka.run),
    "mixed": ("Everything at once", mixed.run),
    "ages": ("Opening an old store", ages.run),
    "azure": ("The binding azure beside its SDK", azure.run),
    "hdfs": ("The binding hdfs beside its client", hdfs.run),
    "gcs": ("The binding gcs beside its SDK", gcs.run),
    "s3": ("The binding s3 beside its SDK and obstore", s3.run),
    "silt": ("Segments as files in Spark", silt.run),
    "spark_collections": ("Collections in Spark beside its Parquet", spark_collections.run),
    "spark_rows": ("Segments as rows in Spark", spark_rows.run),
    "spark_sink": ("Rows of Spark into segments", spark_sink.run),
    "backup": ("Backups, restores and copies beside cp", backup.run),
    "moves": ("Moves and comparisons beside cp and the SDK", moves.run),
    "pipelines": ("Scrubs on threads and in Spark", pipelines.run),
    "adoption": ("Plain files in and out", adoption.run),
}
PAGE = Path(__file__).with_name("README.md")


def main(arguments: Sequence[str]) -> None:
    """Run the parts that are named, or all."""
    options = _options(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="bench-") as folder:
        workshop = Workshop(folder=Path(folder), quick=options.quick)
        sections = {}
        for name in options.names or PARTS:
            title, run = PARTS[name]
            facts = machine.facts(workshop.folder)
            print(f"\n{title}\n{facts}", flush=True)
            figures = run(workshop)
            print(table(figures), flush=True)
            if figures:
                sections[name] = report.section(name, title, facts, figures)
    if options.write:
        old = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(report.page(old, PARTS, sections, workshop.rounds), encoding="utf-8")


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="only see that it works")
    parser.add_argument(
        "--write", action="store_true", help=f"put the figures into {PAGE.parent.name}/README.md"
    )
    parser.add_argument(
        "--folder", type=Path, default=Path("build"), help="where to write; default: %(default)s"
    )
    options = parser.parse_args(arguments)
    unknown = set(options.names) - set(PARTS)
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    if options.quick and options.write:
        parser.error("a quick run has no figures to write")
    return options


if __name__ == "__main__":
    main(sys.argv[1:])
