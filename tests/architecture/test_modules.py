"""How modules are named, what they import, and what packages export."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import PurePosixPath

from tests.architecture.source_tree import ROOT, modules

VAGUE_WORDS = frozenset({"base", "common", "helper", "helpers", "manager", "misc", "util", "utils"})
NOUNS = frozenset({"opening", "concat_staging", "housekeeping"})
"""Names that end in *-ing* and are nouns nevertheless."""
SPARK_MARK = re.compile(r"^(pytestmark = \[|@|    )pytest\.mark\.spark\b", re.MULTILINE)
SDKS = frozenset(
    {"azure", "boto3", "botocore", "google", "hdfs_native", "kafka", "pyarrow", "pyspark"}
)


def test_module_names_say_what_is_inside() -> None:
    vague = [
        module.path
        for module in modules()
        for part in PurePosixPath(module.path).with_suffix("").parts
        if VAGUE_WORDS & set(part.split("_"))
    ]
    assert vague == []


def test_modules_are_named_by_nouns_not_by_participles() -> None:
    participles = [
        module.path
        for module in modules()
        if (name := PurePosixPath(module.path).stem).endswith("ing") and name not in NOUNS
    ]
    assert participles == []


def test_module_names_have_no_leading_underscore() -> None:
    hidden = [
        module.path
        for module in modules()
        if (name := PurePosixPath(module.path).name).startswith("_")
        and name not in ("__init__.py", "__main__.py")
    ]
    assert hidden == []


def test_what_starts_spark_is_in_one_folder() -> None:
    """``make test`` looks for it there only, and runs nothing else of that folder."""
    tests = ROOT / "tests"
    marked = {
        path for path in tests.rglob("test_*.py") if SPARK_MARK.search(path.read_text("utf-8"))
    }
    assert marked == set((tests / "spark").rglob("test_*.py"))


def test_imports_are_absolute() -> None:
    relative = [
        f"{module.path}:{node.lineno}"
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom) and node.level > 0
    ]
    assert relative == []


def test_packages_list_what_they_export() -> None:
    wrong = []
    for module in modules():
        if not module.path.endswith("/__init__.py"):
            continue
        public, listed = _public_names(module.tree), _listed_names(module.tree)
        if public and listed is None:
            wrong.append(f"{module.path}: no __all__ for {sorted(public)}")
        elif missing := public - (listed or set()):
            wrong.append(f"{module.path}: {sorted(missing)} not in __all__")
    assert wrong == []


def test_no_module_takes_the_place_of_a_name_that_is_made_when_asked_for() -> None:
    """An import of the module puts it into its package, where the name is then never made."""
    taken = []
    for module in modules():
        path = PurePosixPath(module.path)
        if path.name == "__init__.py" and "lazy_names" in module.text:
            inside = {file.stem for file in (ROOT / path.parent).glob("*.py")}
            inside |= {file.parent.name for file in (ROOT / path.parent).glob("*/__init__.py")}
            taken += [
                f"{path.parent}/{name}" for name in inside & (_listed_names(module.tree) or set())
            ]
    assert taken == []


def test_importing_siltstone_imports_no_sdk() -> None:
    code = "import sys, siltstone; print(*{name.partition('.')[0] for name in sys.modules})"
    run = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=120
    )
    assert SDKS & set(run.stdout.split()) == set()


def _public_names(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in tree.body:
        match node:
            case ast.ImportFrom(module=str(source), names=aliases) if "siltstone" in source:
                names.update(alias.asname or alias.name for alias in aliases)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.ClassDef(name=name):
                names.add(name)
    return {name for name in names if not name.startswith("_")}


def _listed_names(tree: ast.Module) -> set[str] | None:
    """Return what ``__all__`` holds, or ``None`` if there is none."""
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id="__all__")], value=value)
                | ast.AnnAssign(target=ast.Name(id="__all__"), value=ast.expr() as value)
            ):
                return set(ast.literal_eval(value))
    return None
