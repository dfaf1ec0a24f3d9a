"""Byte-compile packages as a node gets them, without what only takes memory there: compile.py DIRECTORY ROOT.

Our docstrings are a third of a megabyte of the daemon's memory. Columns, which only a traceback on a terminal would
underline, are half a megabyte: this must run with PYTHONNODEBUGRANGES=1.
"""

import sys
from compileall import compile_dir
from pathlib import Path
from py_compile import PycInvalidationMode

# No module of these asserts anything or reads a docstring; others may.
WITHOUT_DOCSTRINGS = ("sysfs", "policies", "cri_proxy")


def compile_tree(directory: Path, root: Path) -> None:
    """Compile everything below ``directory``; files are named as they will be without ``root``. Raises SystemExit."""
    mode = PycInvalidationMode.UNCHECKED_HASH
    is_compiled = compile_dir(directory, quiet=1, stripdir=root, invalidation_mode=mode, workers=0)
    for package in WITHOUT_DOCSTRINGS:
        is_compiled &= compile_dir(directory / package, quiet=1, stripdir=root, invalidation_mode=mode, optimize=2)
        for made in (directory / package).rglob("*.opt-2.pyc"):
            made.replace(made.with_name(made.name.replace(".opt-2", "")))
    if not is_compiled:
        raise SystemExit("not everything could be compiled")


if __name__ == "__main__":
    compile_tree(Path(sys.argv[1]), Path(sys.argv[2]))
