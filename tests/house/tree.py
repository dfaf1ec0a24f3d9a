"""The project as files: what the checks of the house look at."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = ("sysfs", "policies", "cri_proxy")
FOLDERS = (*PACKAGES, "configs", "tests", "packaging", "docs", "changes", "benchmarks", ".ci")
# Made by tools, never written by hand: caches, the package's metadata, the stubs of the CRI.
MADE_FOLDERS = {"__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis"}
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


def is_generated(path: Path) -> bool:
    return path.stem.endswith(("_pb2", "_pb2_grpc"))


@cache
def files() -> tuple[Path, ...]:
    """Every file of the project, sorted, without what tools leave behind."""
    found = [p for p in ROOT.iterdir() if p.is_file() and p.name != ".git"]  # a linked worktree's .git is a file
    for folder in FOLDERS:
        found += [p for p in (ROOT / folder).rglob("*") if p.is_file() and not MADE_FOLDERS & set(p.parts)]
    return tuple(sorted(found))


def python_files(*folders: str) -> list[Path]:
    """The Python files below these folders that people write."""
    return [p for p in files() if p.suffix == ".py" and folder_of(p) in folders and not is_generated(p)]


def folder_of(path: Path) -> str:
    """The folder at the top that holds this file; the file's own name if none does."""
    return path.relative_to(ROOT).parts[0]


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes(), filename=str(path))


def functions(path: Path) -> Iterator[FunctionNode]:
    """Every function of a file, methods and nested ones too."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, FunctionNode):
            yield node
