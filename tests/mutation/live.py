"""Plant a mutant in the running program: its function's new code object takes the place of the old one.

So nothing is imported again, and nothing is written to disk. A value that was computed at import stays as it is.
"""

import ast
import builtins
import gc
from collections.abc import Iterator, Sequence
from functools import _lru_cache_wrapper
from types import CodeType, FunctionType
from typing import Final

from tests.mutation.mutants import Module, Mutant
from tests.mutation.operators import Block

_MARK: Final = "__met_by_a_test__"
_PRODUCT: Final = ("policies.", "sysfs.", "cri_proxy.")
_Place = tuple[str, str, int]


class NotLiveError(Exception):
    """No function of the running program has the code that was to be changed."""


class LiveFunctions:
    """The functions that exist now, by where their code stands, whatever wraps them."""

    def __init__(self) -> None:
        self._functions: dict[_Place, list[FunctionType]] = {}
        self._caches: list[_lru_cache_wrapper[object]] = []
        for found in gc.get_objects():
            if isinstance(found, FunctionType):
                self._functions.setdefault(_place(found.__code__), []).append(found)
            elif isinstance(found, _lru_cache_wrapper) and found.__module__.startswith(_PRODUCT):
                self._caches.append(found)

    def plant(self, mutant: Mutant) -> None:
        """Change the function. Raises NotLiveError if there is none."""
        mutant.change.make()
        if not self._replace(mutant.module, mutant.qualname):
            raise NotLiveError(mutant.name)

    def watch(self, mutants: Sequence[Mutant]) -> set[int]:
        """Change all functions of the mutants' modules so that they note which blocks run, by number, in this set."""
        met: set[int] = set()
        builtins.__dict__[_MARK] = met.add
        for block, number in numbered_blocks(mutants).items():
            mark = ast.Expr(ast.Call(ast.Name(_MARK, ast.Load()), [ast.Constant(number)], []))
            ast.fix_missing_locations(ast.copy_location(mark, block.statements[0]))
            block.statements.insert(0, mark)
        for module in {id(mutant.module): mutant.module for mutant in mutants}.values():
            self._replace(module, "")
        return met

    def forget_results(self) -> None:
        """Empty the caches of the product's functions: what one test leaves there, another does not compute."""
        for cached in self._caches:
            cached.cache_clear()

    def _replace(self, module: Module, qualname: str) -> bool:
        """Give the functions the code that their tree means now; ``qualname`` '' means all of the module."""
        is_done = False
        for code in _codes(compile(module.tree, str(module.file), "exec", dont_inherit=True)):
            if qualname in ("", code.co_qualname, outermost(code)):
                for function in self._functions.get(_place(code), ()):
                    function.__code__ = _with_cells(code, function.__code__)
                    is_done = True
        return is_done


def numbered_blocks(mutants: Sequence[Mutant]) -> dict[Block, int]:
    """The blocks that mutants stand in, numbered."""
    return {block: number for number, block in enumerate(dict.fromkeys(mutant.change.block for mutant in mutants))}


def outermost(code: CodeType) -> str:
    """The function that this code stands in: comprehensions, lambdas and inner functions change with it."""
    return code.co_qualname.split(".<locals>")[0]


def _place(code: CodeType) -> _Place:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _with_cells(code: CodeType, old: CodeType) -> CodeType:
    """The code with the free variables of the old one: a function keeps even a cell that nothing uses."""
    if code.co_freevars == old.co_freevars:
        return code
    if code.co_freevars:
        raise NotLiveError(f"{code.co_qualname}: some of its free variables are gone")
    return code.replace(co_freevars=old.co_freevars)
