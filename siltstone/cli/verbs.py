"""The verbs of the command by name, each loaded when it is asked for.

All of them bring most of the package with them, which takes several times as long as the verb that
was given. So what a list of verbs shows of each stands here as well.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Final, NamedTuple

import click

from siltstone.cli.named_values import complete_names
from siltstone.cli.verb_options import add_common_options


class Verb(NamedTuple):
    """Where a verb is, and what it does.

    Attributes:
        module: its module of this package.
        attribute: its name there.
        summary: the first sentence of its help.
    """

    module: str
    attribute: str
    summary: str


VERBS: Final[dict[str, Verb]] = {
    "adoption": Verb("file_commands", "adoption", "Files and objects that were taken in place."),
    "append": Verb(
        "append_command",
        "append",
        "Append FILE, or standard input, to SEGMENT, in constant memory.",
    ),
    "attributes": Verb(
        "attribute_commands",
        "attributes",
        "Show the attributes of SEGMENT, or change several of them, all or none.",
    ),
    "backup": Verb(
        "backup_commands",
        "backup",
        "Backups of a store, made while its owner runs; PLACE is a folder or a settings file.",
    ),
    "cat": Verb("read_commands", "cat", "Write the bytes of SEGMENT to standard output."),
    "check": Verb("check_command", "check", "Compare metadata with long-term storage, both ways."),
    "chunks": Verb(
        "chunks_command",
        "chunks",
        "Show where the flushed bytes of SEGMENT lie, and what long-term storage has of them.",
    ),
    "collection": Verb(
        "collection_commands",
        "collection",
        "Tables that change over time, on long-term storage alone; nothing is claimed.",
    ),
    "completion": Verb(
        "completion_command",
        "completion",
        "Print what lets SHELL complete this command; source it in the shell's start file.",
    ),
    "concat": Verb("write_commands", "concat", "Append the sealed segment SOURCE to TARGET."),
    "containers": Verb(
        "containers_command",
        "containers",
        "Show the owner of each container, what is unflushed, and what holds its log.",
    ),
    "copy": Verb(
        "copy_command",
        "copy",
        "Copy segments and collections of the store SOURCE into TARGET: what is new and no more.",
    ),
    "create": Verb("write_commands", "create", "Make the empty segment SEGMENT."),
    "doctor": Verb(
        "doctor_command",
        "doctor",
        "Probe what the store needs: storage, clock, tier 1, whether it opens, space, collections.",
    ),
    "export": Verb(
        "file_commands",
        "export",
        "Write SEGMENTS to TARGET: one to a file, several below a folder, each by its name.",
    ),
    "flush": Verb(
        "write_commands",
        "flush",
        "Move SEGMENT, or all of the store, from tier 1 to long-term storage.",
    ),
    "gc": Verb("garbage_commands", "gc", "Garbage: chunks that nothing names any more."),
    "health": Verb("health_command", "health", "Show how long-term storage does."),
    "help": Verb(
        "help_command",
        "help_",
        "Show the help of VERB, such as ``table put``, or the list of verbs.",
    ),
    "import": Verb(
        "file_commands",
        "import_",
        "Make SEGMENT of files, one after the other; those of a folder in the order of their "
        "paths.",
    ),
    "init": Verb(
        "write_commands",
        "init",
        "Make a store in FOLDER: a settings file with comments, and its folders.",
    ),
    "journal": Verb(
        "inspect_commands",
        "journal",
        "The system journal on long-term storage: where a boot starts.",
    ),
    "log": Verb("inspect_commands", "log", "The tier-1 log."),
    "ls": Verb(
        "list_command",
        "list_segments",
        "List the segments whose names start with PREFIX, or match it as a pattern.",
    ),
    "migrate": Verb(
        "migrate_commands",
        "migrate",
        "Data of older layouts: in by copy or in place, compared, and back out again.",
    ),
    "objects": Verb(
        "object_commands",
        "objects",
        "Keyspaces: values by bucket and key, with metadata and an index.",
    ),
    "recover": Verb(
        "recover_command",
        "recover",
        "Continue without a lost tier 1: from long-term storage, as of its last table-log flush.",
    ),
    "rename": Verb("attribute_commands", "rename", "Give SEGMENT the name NEW_NAME."),
    "retention": Verb(
        "retention_commands",
        "retention",
        "Rules by which the oldest bytes of segments are truncated in the background.",
    ),
    "rm": Verb(
        "write_commands",
        "remove",
        "Remove SEGMENTS, in the given order, or all whose names begin with --prefix.",
    ),
    "salvage": Verb(
        "salvage_command",
        "salvage",
        "Say what chunks alone give back, and bring it into a new store.",
    ),
    "seal": Verb("write_commands", "seal", "Let SEGMENT take no more bytes, for ever."),
    "settings": Verb("settings_commands", "settings", "The settings file of the store."),
    "spark": Verb(
        "spark_commands",
        "spark",
        "Jobs over many chunks, in tasks of Spark or on threads of our own.",
    ),
    "stat": Verb(
        "read_commands",
        "stat",
        "Show SEGMENT, or the store: its containers, and what would be lost with tier 1 gone.",
    ),
    "storage": Verb(
        "storage_commands",
        "storage",
        "Another long-term storage for the store; NEW is a settings file next to the store's own.",
    ),
    "table": Verb("table_commands", "table", "Read and change tables."),
    "tail": Verb(
        "read_commands",
        "tail",
        "Write the last lines or bytes of SEGMENT, and with -f what follows them.",
    ),
    "truncate": Verb(
        "write_commands", "truncate", "Drop the bytes of SEGMENT below OFFSET, for ever."
    ),
    "volume": Verb(
        "volume_commands",
        "volume",
        "Pages that are committed in a folder, and synced with any bucket or share.",
    ),
}


class LoadedVerbs(MutableMapping[str, click.Command]):
    """The commands of ``VERBS``, as a group of click holds its own; each is loaded once."""

    def __init__(self) -> None:
        self._loaded: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._loaded:
            verb = VERBS[name]
            command: click.Command = getattr(
                import_module(f"siltstone.cli.{verb.module}"), verb.attribute
            )
            add_common_options(command)
            complete_names(command, name)
            self._loaded[name] = command
        return self._loaded[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(VERBS)

    def __len__(self) -> int:
        return len(VERBS)
