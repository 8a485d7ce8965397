"""Reading the settings file: YAML without duplicate keys, environment references, lines.

What the keys mean is in ``settings``; here they are only text with a place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from siltstone.core.errors import SettingsError, StoreError, StoreNotFoundError
from siltstone.core.open_files import is_lack, way_out

FILE_NAME: Final = "siltstone.yaml"
FILE_BYTES_MAX: Final = 2**20
"""A settings file is written by a person; a megabyte of it is another file given by mistake."""

_FAST: Final[Any] = getattr(yaml, "CSafeLoader", None)
"""The loader in C, which most builds have: a new store's file takes it 0.1 ms instead of 8."""

_REFERENCE: Final = re.compile(r"\$\$(?=\{)|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^{}]*))?\}|\$\{")

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsText:
    """A settings file as it was read.

    Attributes:
        path: the file.
        values: its content, references replaced.
        lines: the line of each key, counted from 1.
    """

    path: Path
    values: dict[str, Any]
    lines: Mapping[KeyPath, int]

    def place(self, key: KeyPath) -> str:
        """Where ``key`` stands, or the innermost key above it that the file has."""
        while key and key not in self.lines:
            key = key[:-1]
        return f"{self.path}:{self.lines[key]}" if key else str(self.path)

    def error(self, key: KeyPath, reason: str) -> SettingsError:
        """Make the error about ``key``; its line is that of the innermost key that the file has."""
        return _error(self.path, key, self.lines, reason)


def find_settings_file(path: Path | str) -> Path:
    """Return the settings file that ``path`` names: itself, or ``siltstone.yaml`` in the folder.

    Raises:
        StoreNotFoundError: there is none.
    """
    found = Path(path).expanduser()
    if found.is_dir():
        found /= FILE_NAME
    if not found.is_file():
        raise StoreNotFoundError(f"no store at {str(path)!r}: there is no file {str(found)!r}")
    return found.absolute()


def read_settings_file(path: Path, environment: Mapping[str, str]) -> SettingsText:
    """Read ``path``, refuse what is ambiguous, and replace ``${NAME}`` and ``${NAME:-default}``.

    ``$${`` stands for ``${`` itself. References are replaced in values, never in keys.

    Raises:
        SettingsError: unreadable, not YAML, not a mapping, a key twice, or a variable not set.
        StoreError: this process has no descriptor to read it with.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        if is_lack(error):
            raise StoreError(f"too many open files; {way_out()}", path=path) from error
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from error
    if len(raw) > FILE_BYTES_MAX:
        raise SettingsError(f"{path}: larger than {FILE_BYTES_MAX} bytes, so not a settings file")
    lines: dict[KeyPath, int] = {}
    try:
        loader, node = _composed(raw.decode("utf-8-sig"))
        if node is not None:
            _collect(path, node, (), lines, ())
        values = None if node is None else loader.construct_document(node)
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: is not UTF-8 text") from error
    except yaml.YAMLError as error:
        raise SettingsError(_yaml_message(path, error)) from error
    except (ValueError, TypeError) as error:  # constructors of scalars, such as a date of month 13
        if isinstance(error, SettingsError):
            raise
        raise SettingsError(f"{path}: a value cannot be understood: {error}") from error
    if values is None:
        values = {}
    if not isinstance(values, dict):
        raise SettingsError(f"{path}: must hold keys and values, not a {type(values).__name__}")
    replaced = _replaced(path, values, (), lines, environment)
    return SettingsText(path=path, values=replaced, lines=lines)


def _composed(text: str) -> tuple[Any, yaml.Node | None]:
    """Read a text; return what makes values of its nodes, and the topmost of these.

    Raises:
        yaml.YAMLError: it is not YAML.
    """
    if _FAST is not None:
        try:
            fast = _FAST(text)
            return fast, fast.get_single_node()
        except yaml.YAMLError:
            pass  # The other one tells the reason in the words that are documented.
    loader = yaml.SafeLoader(text)
    return loader, loader.get_single_node()


def _collect(
    path: Path, node: yaml.Node, key: KeyPath, lines: dict[KeyPath, int], above: tuple[int, ...]
) -> None:
    """Note the line of every key below ``node`` and refuse a duplicate key."""
    if id(node) in above:
        raise _error(path, key, lines, "an alias contains itself")
    above = (*above, id(node))
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            lines[(*key, index)] = item.start_mark.line + 1
            _collect(path, item, (*key, index), lines, above)
    elif isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for name, value in node.value:
            here = (*key, str(name.value))
            if not isinstance(name, yaml.ScalarNode) or name.tag != "tag:yaml.org,2002:str":
                line = {here: name.start_mark.line + 1}
                raise _error(path, here, line, "a key must be plain text")
            if name.value in seen:
                line = {here: name.start_mark.line + 1}
                raise _error(path, here, line, "the key stands here twice")
            seen.add(name.value)
            lines[here] = name.start_mark.line + 1
            _collect(path, value, here, lines, above)


def _replaced(
    path: Path, value: Any, key: KeyPath, lines: Mapping[KeyPath, int], names: Mapping[str, str]
) -> Any:
    if isinstance(value, dict):
        return {k: _replaced(path, v, (*key, k), lines, names) for k, v in value.items()}
    if isinstance(value, list):
        return [_replaced(path, v, (*key, i), lines, names) for i, v in enumerate(value)]
    if not isinstance(value, str):
        return value

    def one(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        if match[1] is None:
            raise _error(path, key, lines, "'${' without a name and '}'; write '$${' for the text")
        found = names.get(match[1])
        if not found and match[2] is not None:
            found = match[2]
        if found is None:
            reason = f"the environment variable {match[1]} is not set"
            raise _error(path, key, lines, reason)
        return found

    return _REFERENCE.sub(one, value)


def _error(path: Path, key: KeyPath, lines: Mapping[KeyPath, int], reason: str) -> SettingsError:
    known = key
    while known and known not in lines:
        known = known[:-1]
    line = f" line {lines[known]}" if known else ""
    name = ".".join(str(part) for part in key)
    return SettingsError(f"{path}{line}: {name}: {reason}" if name else f"{path}{line}: {reason}")


def _yaml_message(path: Path, error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    line = f" line {mark.line + 1}" if mark is not None else ""
    return f"{path}{line}: is not valid YAML: {problem}"
