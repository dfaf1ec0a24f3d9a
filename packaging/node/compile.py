"""Byte-compile packages as a node gets them, without what only takes memory there: compile.py DIRECTORY ROOT.

Docstrings are half a megabyte of the daemon's memory. Columns, which only a traceback on a terminal would underline,
are another half: this must run with PYTHONNODEBUGRANGES=1. The annotations of functions, which are not read there, are
0.8 MB; those of classes stay, since dataclasses, options and the JSON of the state are made from them.
"""

import ast
import marshal
import sys
from importlib.util import MAGIC_NUMBER, cache_from_source, source_hash
from pathlib import Path

UNCHECKED_HASH = (1).to_bytes(4, "little")  # PEP 552: valid whatever the source's time and content


def compile_file(path: Path, root: Path) -> None:
    """Compile a module beside itself; it is named as it will be without ``root``. Raises SyntaxError."""
    source = path.read_bytes()
    tree = ast.parse(source, path)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            match node.body[:1]:
                case [ast.Expr(value=ast.Constant(value=str()) as docstring)]:
                    docstring.value = "-"
                case [first, *_] if isinstance(node, ast.ClassDef) and _is_dataclass(node):
                    # With none at all, dataclasses writes the class signature, at every start, and loads inspect.
                    node.body.insert(0, ast.copy_location(ast.Expr(ast.copy_location(ast.Constant("-"), first)), first))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
    code = compile(tree, f"/{path.relative_to(root)}", "exec", dont_inherit=True)
    compiled = Path(cache_from_source(path))
    compiled.parent.mkdir(exist_ok=True)
    compiled.write_bytes(MAGIC_NUMBER + UNCHECKED_HASH + source_hash(source) + marshal.dumps(code))


def _is_dataclass(node: ast.ClassDef) -> bool:
    return any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)


if __name__ == "__main__":
    for file in sorted(Path(sys.argv[1]).rglob("*.py")):
        compile_file(file, Path(sys.argv[2]))
