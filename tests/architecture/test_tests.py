"""How modules of the tests may import one another, and how a test awaits."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

import pytest

from tests.architecture.source_tree import ROOT, trees_of_tests


def imported(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The line and the name of all that a module imports, wherever it does."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


@cache
def is_test_module(name: str) -> bool:
    """Whether it is the name of a module of tests, or of something in one."""
    parts = name.split(".")
    return any(
        (ROOT / "/".join(parts[:length])).with_suffix(".py").is_file()
        for length in range(2, len(parts) + 1)
        if parts[0] == "tests" and parts[length - 1].startswith("test_")
    )


def nested_stories(tree: ast.Module) -> Iterator[int]:
    """The lines of coroutine functions called ``story`` that another function has inside."""
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    for outer in functions:
        for node in ast.walk(outer):
            if isinstance(node, ast.AsyncFunctionDef) and node is not outer:
                yield from [node.lineno] * (node.name == "story")


def test_no_module_imports_a_test_module() -> None:
    """What tests share is in ``tests/support``."""
    wrong = [
        f"{path}:{line} {name}"
        for path, tree in trees_of_tests().items()
        for line, name in imported(tree)
        if is_test_module(name)
    ]
    assert wrong == []


def test_support_needs_nothing_of_the_tests_next_to_it() -> None:
    wrong = [
        f"{path}:{line} {name}"
        for path, tree in trees_of_tests().items()
        if path.startswith("tests/support/")
        for line, name in imported(tree)
        if name.startswith(("tests.unit.", "tests.faults.", "tests.contract.", "tests.model."))
    ]
    assert wrong == []


def test_a_test_awaits_itself() -> None:
    """It is a coroutine function, see ``tests/support/async_tests.py``, and has none inside."""
    wrong = [
        f"{path}:{line}" for path, tree in trees_of_tests().items() for line in nested_stories(tree)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("async def story():\n    pass\n", []),
        ("def test_a():\n    async def story():\n        pass\n", [2]),
        ("def test_a():\n    if True:\n        async def story(made):\n            pass\n", [3]),
        (
            "class TestA:\n    def test_a(self):\n        async def story():\n            pass\n",
            [3],
        ),
        ("def test_a():\n    async def other():\n        pass\n", []),
    ],
)
def test_a_nested_story_is_found(code: str, lines: list[int]) -> None:
    assert sorted(set(nested_stories(ast.parse(code)))) == lines


@pytest.mark.parametrize(
    ("code", "is_wrong"),
    [
        ("from tests.architecture.test_tests import trees", True),
        ("from tests.architecture import test_tests as others", True),
        ("import tests.architecture.test_tests", True),
        ("def test_a():\n    from tests.architecture.test_tests import trees", True),
        ("from tests.architecture.source_tree import ROOT", False),
        ("from tests.support.stubs.read_suite import test_a_stat_is_one_head", False),
    ],
)
def test_an_import_of_a_test_module_is_found(code: str, is_wrong: bool) -> None:
    names = [name for _, name in imported(ast.parse(code))]
    assert any(map(is_test_module, names)) is is_wrong
