"""Entries of a keyspace of heads only, as lines of JSON: what ``objects mput`` is given."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import click

from siltstone.cli.object_names import ABSENT

_OPS: Final = ("add", "remove", "expect")
_FIELDS: Final = {"op", "expect"} | {
    name + suffix for name in ("bucket", "key", "subkey", "value") for suffix in ("", "_base64")
}
Name = tuple[bytes, bytes, bytes]


@dataclass(frozen=True, slots=True)
class EntryLines:
    """What all lines ask for.

    Attributes:
        entries: for ``Keyspace.mput``, in the order of the lines.
        expected: by bucket, key and subkey the SQN; ``None`` for absence.
    """

    entries: list[tuple[Any, ...]] = field(default_factory=list)
    expected: dict[Name, int | None] = field(default_factory=dict)


def read_entries(lines: Iterable[bytes], most: int) -> EntryLines:
    """Read lines of JSON, empty ones left out.

    Args:
        lines: each an object with ``op``, which is add, remove or expect, ``bucket``, ``key``,
            ``subkey`` unless it is empty, ``value`` after add, and ``expect``, an SQN, or -1 for
            absence. Names and values are text, or base64 in ``bucket_base64`` and so on.
        most: lines; of more nothing is read.

    Raises:
        click.UsageError: a line is something else, or there are too many; it says which line.
    """
    found = EntryLines()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if len(found.entries) >= most or len(found.expected) >= most:
            raise click.UsageError(f"more than {most:,} lines: divide them into several calls")
        given = _object(line, number)
        op = given.get("op")
        if op not in _OPS:
            _refuse(number, f"op is add, remove or expect, not {op!r}")
        bucket, key = _bytes(given, "bucket", number), _bytes(given, "key", number)
        name = bucket, key, _bytes(given, "subkey", number, absent=b"")
        if ("value" in given or "value_base64" in given) != (op == "add"):
            _refuse(number, "add needs a value, and remove and expect have none")
        if op == "add":
            found.entries.append((op, *name, _bytes(given, "value", number)))
        elif op == "remove":
            found.entries.append((op, *name))
        _keep_expected(found, name, given, number)
    return found


def _object(line: bytes, number: int) -> dict[str, Any]:
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"line {number}: not JSON: {error}") from error
    if not isinstance(given, dict):
        _refuse(number, "not an object of JSON")
    if unknown := sorted(given.keys() - _FIELDS):
        _refuse(number, f"unknown field {unknown[0]!r}")
    return given


def _keep_expected(found: EntryLines, name: Name, given: dict[str, Any], number: int) -> None:
    if "expect" not in given:
        if given["op"] == "expect":
            _refuse(number, "expect is missing: an SQN, or -1 for an entry that must be absent")
        return
    expect = given["expect"]
    if not isinstance(expect, int) or isinstance(expect, bool) or expect < ABSENT:
        _refuse(number, f"expect is an SQN, or -1 for an entry that must be absent, not {expect!r}")
    found.expected[name] = None if expect == ABSENT else expect


def _bytes(given: dict[str, Any], name: str, number: int, absent: bytes | None = None) -> bytes:
    """A name or a value, of its text or of base64."""
    encoded = f"{name}_base64"
    if name in given and encoded in given:
        _refuse(number, f"{name} and {encoded} exclude each other")
    text = given.get(encoded, given.get(name))
    if name not in given and encoded not in given:
        if absent is not None:
            return absent
        _refuse(number, f"{name} is missing")
    if not isinstance(text, str):
        _refuse(number, f"{name} is text, or {encoded}, not {text!r}")
    if encoded not in given:
        try:
            return text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            _refuse(number, f"{name} is no text: write {encoded}")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        _refuse(number, f"{encoded} is not base64: {text!r}")


def _refuse(number: int, reason: str) -> NoReturn:
    raise click.UsageError(f"line {number}: {reason}")
