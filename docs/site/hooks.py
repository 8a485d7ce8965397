"""What mkdocs shows: every document of the repository under its own path, and the reference.

The documents link to one another, and to files of the code, by relative paths; on the site each has
the same path, so a link that works in the repository works there, and a dead one fails the build.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT: Final = Path(__file__).resolve().parents[2]

HEAD: Final = "# {title}\n\n{text}\n"
ENTRY: Final = "\n::: {name}\n"

GROUPS: Final = {
    "functions": ("Functions", "Where a program begins: making, opening and repairing a store."),
    "stores": ("Stores", "What `open` and `open_async` return; both have the same verbs."),
    "segments": ("Segments", "Handles to segments, and writers of them."),
    "tables": ("Tables", "Handles to tables, and snapshots of them."),
    "collections": (
        "Collections",
        "What `open_collections` and `open_collections_async` return. How to use it is on the page"
        " [collections](../docs/collections.md).",
    ),
    "values": ("Values", "What verbs take and return: frozen records and enums."),
    "errors": ("Errors", "What to do about each is on the page [errors](../docs/errors.md)."),
}
"""Title and first line of the pages that hold ``siltstone.__all__``."""

COLLECTIONS: Final = frozenset(
    {"AppendResult", "AsyncBookmark", "AsyncSubscription", "Changes", "Subscription"}
)
"""Names of collections that do not say so."""

MODULES: Final = {
    "keyspaces": (
        "Keyspaces",
        "How to use it is on the page [keyspaces](../docs/keyspaces.md).",
        (
            "siltstone.objects.keyspace.create",
            "siltstone.objects.keyspace.open",
            "siltstone.objects.keyspace.names",
            "siltstone.objects.keyspace.Keyspace",
            "siltstone.objects.blocking_folds.Folds",
            "siltstone.objects.blocking_snapshot.KeyspaceSnapshot",
            "siltstone.objects.async_keyspaces.create_async",
            "siltstone.objects.async_keyspaces.open_async",
            "siltstone.objects.async_keyspaces.names_async",
            "siltstone.objects.async_keyspace.AsyncKeyspace",
            "siltstone.objects.async_folds.AsyncFolds",
            "siltstone.objects.async_snapshot.AsyncKeyspaceSnapshot",
            "siltstone.objects.object_views.ObjectHead",
            "siltstone.objects.object_views.StoredObject",
            "siltstone.objects.batch.PutResult",
            "siltstone.objects.value_compaction.CompactionReport",
            "siltstone.objects.value_compaction.DroppedObject",
        ),
    ),
    "volumes": (
        "Volumes",
        "How to use it is on the page [volumes](../docs/volumes.md).",
        (
            "siltstone.volumes.client.open",
            "siltstone.volumes.client.VolumeClient",
            "siltstone.volumes.client.VolumeSync",
            "siltstone.volumes.volume.Volume",
            "siltstone.volumes.volume.VolumeInfo",
            "siltstone.volumes.volume.SyncAction",
            "siltstone.volumes.reader.VolumeReader",
            "siltstone.volumes.reader.VolumeWriter",
            "siltstone.volumes.async_client.open_async",
            "siltstone.volumes.async_client.AsyncVolumeClient",
            "siltstone.volumes.async_client.AsyncVolume",
            "siltstone.volumes.async_client.AsyncVolumeReader",
            "siltstone.volumes.async_client.AsyncVolumeWriter",
            "siltstone.volumes.sqlite.connections.connect",
            "siltstone.volumes.sqlite.connections.attach",
            "siltstone.volumes.records.state_rows.Snapshot",
            "siltstone.volumes.records.state_rows.Mapping",
            "siltstone.volumes.records.state_rows.SyncDirection",
            "siltstone.volumes.records.state_rows.VolumeStatus",
        ),
    ),
    "events": (
        "Events",
        "Events with a length and a check, in segments.",
        ("siltstone.events",),
    ),
    "spark": (
        "Spark",
        "How to use it is on the page [Spark](../docs/spark.md).",
        (
            "siltstone.spark.local_session.session",
            "siltstone.spark.data_source.register",
            "siltstone.spark.segment_files.files",
            "siltstone.spark.native_collection.collection",
            "siltstone.spark.java.java_home",
        ),
    ),
    "plugins": (
        "Plugins",
        "The contracts of bindings and logs, and their suites. The rules are on the page"
        " [plugins](../docs/plugins.md).",
        (
            "siltstone.core.chunk_storage",
            "siltstone.core.fenced_log",
            "siltstone.core.hooks",
            "siltstone.testing.chunk_storage_contract",
            "siltstone.testing.fenced_log_contract",
        ),
    ),
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents, what they link to, and the pages of the reference."""
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    documents = [path for path in tracked if path.endswith(".md")]
    wanted = {target for path in documents for target in _linked(path)}
    for path in sorted({*documents, *(wanted & set(tracked))}):
        if (ROOT / path).is_file():
            files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    for name, text in reference().items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


def reference() -> dict[str, str]:
    """Return the pages of the reference by name."""
    import siltstone

    names: dict[str, list[str]] = {group: [] for group in GROUPS}
    for name in siltstone.__all__:
        if not name.startswith("__"):
            names[_group(name)].append(f"siltstone.{name}")
    chosen = {group: (*GROUPS[group], found) for group, found in names.items()} | MODULES
    return {
        page: HEAD.format(title=title, text=text) + "".join(ENTRY.format(name=n) for n in entries)
        for page, (title, text, entries) in chosen.items()
    }


def _group(name: str) -> str:
    if name.islower() or "_" in name:
        return "functions"
    if name.endswith("Error") or name == "Outcome":
        return "errors"
    if "Collection" in name or name in COLLECTIONS:
        return "collections"
    if name.endswith("Store"):
        return "stores"
    if name.endswith(("Segment", "Writer")):
        return "segments"
    return "tables" if name.endswith(("Table", "TableSnapshot")) else "values"


def _linked(path: str) -> set[str]:
    """The files that a document links to, as paths from the root."""
    text = (ROOT / path).read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)\s#]+)[^)]*\)", text)
    found = ((ROOT / path).parent / target for target in targets if ":" not in target)
    return {
        each.resolve().relative_to(ROOT).as_posix()
        for each in found
        if each.resolve().is_relative_to(ROOT)
    }
