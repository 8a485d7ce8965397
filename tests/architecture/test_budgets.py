"""Files and functions stay small enough to be read in one go.

An exception is named with its own ceiling, and goes as soon as it is not needed any more.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from tests.architecture.source_tree import modules

FILE_LINES_MAX = 400
FILE_LINES_LIMIT = 800
"""No exception goes beyond it."""
FUNCTION_LINES_MAX = 60

FILES_OVER: Mapping[str, int] = {
    "siltstone/__init__.py": 440,  # each public name: for checkers, where it is, and in the list
    "siltstone/bindings/nfs/chunk_storage.py": 415,  # the contract, call by call
    "siltstone/collections/async_collection.py": 440,  # each verb of a collection
    "siltstone/collections/async_collections.py": 460,  # how they are opened, and all of a store
    "siltstone/collections/shared_state.py": 415,  # one state: its commits, and what brings news
    "siltstone/container/changes/segment_changes.py": 425,  # segments and tables, made and removed
    "siltstone/container/commit/pipeline.py": 442,  # from an operation to an acknowledged one
    "siltstone/container/container.py": 507,  # the life of an owner, and what it shows
    "siltstone/container/flush/segment_flusher.py": 410,  # one flush, from its choice to its rows
    "siltstone/container/owner_parts.py": 410,  # the parts list of an owner
    "siltstone/container/reader/read_container.py": 735,  # the life of a reader, and what it shows
    "siltstone/container/recovery/lossy_recovery.py": 402,  # one recovery, step by step
    "siltstone/core/errors.py": 595,  # one tree, which a handler reads from its root
    "siltstone/core/posix.py": 435,  # the calls of files, one by one
    "siltstone/core/storage/async_storage.py": 420,  # the bridge, with every call of the contract
    "siltstone/store/async_store.py": 800,  # every verb of a store
    "siltstone/segments/segment_storage.py": 455,  # the verbs of the layer, call by call
    "siltstone/tier1/file/fenced_log.py": 405,  # the contract, call by call
    "siltstone/tier1/kafka/fenced_log.py": 405,  # the contract, call by call
}
"""Path: the lines that this file may have."""

FUNCTIONS_OVER: Mapping[str, int] = {}
"""Path::name: the lines that this function may have."""


def test_files_are_short() -> None:
    sizes = {module.path: len(module.text.splitlines()) for module in modules()}
    over = {
        path: lines for path, lines in sizes.items() if lines > FILES_OVER.get(path, FILE_LINES_MAX)
    }
    assert over == {}


def test_no_exception_is_beyond_the_limit() -> None:
    assert [path for path, lines in FILES_OVER.items() if lines > FILE_LINES_LIMIT] == []


def test_functions_are_short() -> None:
    over = {
        name: lines
        for name, lines in _function_sizes().items()
        if lines > FUNCTIONS_OVER.get(name, FUNCTION_LINES_MAX)
    }
    assert over == {}


def test_exceptions_are_still_needed() -> None:
    files = {module.path: len(module.text.splitlines()) for module in modules()}
    functions = _function_sizes()
    idle = [path for path in FILES_OVER if files.get(path, 0) <= FILE_LINES_MAX]
    idle += [name for name in FUNCTIONS_OVER if functions.get(name, 0) <= FUNCTION_LINES_MAX]
    assert idle == []


def _function_sizes() -> dict[str, int]:
    sizes: dict[str, int] = {}
    for module in modules():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                name = f"{module.path}::{node.name}"
                sizes[name] = max(sizes.get(name, 0), _code_lines(node))
    return sizes


def _code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count the lines of a function without its docstring: explaining at length costs nothing."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function, clean=False) is not None:
        docstring = function.body[0]
        lines -= (docstring.end_lineno or docstring.lineno) - docstring.lineno + 1
    return lines
