"""Mutation operators: the small faults that are planted in a function, one at a time, by changing its syntax tree.

What is not changed: docstrings and other strings, annotations, default values, assertions, and what is inside a
``raise`` or a call of the log, which is text for people. Everything else that has an operator here is.
"""

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Statements that run one after the other: a body of a function, of a branch, of a loop."""

    statements: list[ast.stmt]


@dataclass(frozen=True, slots=True)
class Change:
    """One fault: ``old``, which stands in a field of ``parent``, becomes ``new``."""

    parent: ast.AST
    field: str
    index: int | None  # in the field, if that is a list
    old: ast.AST
    new: ast.AST
    block: "Block"  # the statements among which it stands

    @property
    def shown(self) -> str:
        """The code before and after: ``a < b -> a <= b``. A number is shown with its neighbours."""
        if not isinstance(self.old, ast.Constant) or isinstance(self.parent, ast.If | ast.While | ast.For):
            return f"{text(self.old)} -> {text(self.new)}"
        before = text(self.parent)
        self.make()
        after = text(self.parent)
        self.undo()
        return f"{before} -> {after}"

    def make(self) -> None:
        """Plant the fault in the tree."""
        self._put(self.new)

    def undo(self) -> None:
        """Put back what was there."""
        self._put(self.old)

    def _put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


# The boundary, then the opposite.
_COMPARISONS: Final[dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
_ARITHMETIC: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
}
# The right operand of these may be left out as well: a subtrahend, a mask, a summand that is forgotten.
_DROPPED: Final = (ast.Sub, ast.Add, ast.BitAnd, ast.BitOr)
_OTHER_NAME: Final = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "union": "intersection",
    "intersection": "union",
    "issubset": "issuperset",
    "issuperset": "issubset",
    "sorted": "list",
    "reversed": "list",
    "startswith": "endswith",
    "endswith": "startswith",
}
_ORDER_KEYWORDS: Final = ("key", "reverse")
_LOGS: Final = ("log", "_log", "logger", "_logger", "warnings")

_BLOCKS: Final = ("body", "orelse", "finalbody")

_Replaced = Iterator[ast.AST]


def _compare(node: ast.Compare) -> _Replaced:
    for i, operator in enumerate(node.ops):
        for other in _COMPARISONS[type(operator)]:
            yield ast.Compare(node.left, [*node.ops[:i], other(), *node.ops[i + 1 :]], node.comparators)


def _without_one_condition(node: ast.BoolOp) -> _Replaced:
    for i in range(len(node.values)):
        left = [*node.values[:i], *node.values[i + 1 :]]
        yield left[0] if len(left) == 1 else ast.BoolOp(node.op, left)


def _unary(node: ast.UnaryOp) -> _Replaced:
    yield node.operand


def _arithmetic(node: ast.BinOp) -> _Replaced:
    if type(node.op) in _ARITHMETIC:
        yield ast.BinOp(node.left, _ARITHMETIC[type(node.op)](), node.right)
    if isinstance(node.op, _DROPPED):
        yield node.left


def _constant(node: ast.Constant) -> _Replaced:
    if isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node.value, int | float):
        yield ast.Constant(node.value + 1)


def _call(node: ast.Call) -> _Replaced:
    """Another function of the same shape, or the same without its order."""
    if isinstance(node.func, ast.Name) and node.func.id in _OTHER_NAME:
        yield ast.Call(ast.Name(_OTHER_NAME[node.func.id], ast.Load()), node.args, _no_order(node, node.func.id))
    elif isinstance(node.func, ast.Attribute) and node.func.attr in _OTHER_NAME:
        other = ast.Attribute(node.func.value, _OTHER_NAME[node.func.attr], ast.Load())
        yield ast.Call(other, node.args, node.keywords)
    for i, keyword in enumerate(node.keywords):
        if keyword.arg in _ORDER_KEYWORDS:
            yield ast.Call(node.func, node.args, [*node.keywords[:i], *node.keywords[i + 1 :]])


def _no_order(node: ast.Call, name: str) -> list[ast.keyword]:
    return [k for k in node.keywords if name != "sorted" or k.arg not in _ORDER_KEYWORDS]


def _choice(node: ast.IfExp) -> _Replaced:
    """The other one of two values; a condition that has an operator of its own is changed by that."""
    if not isinstance(node.test, ast.Compare | ast.UnaryOp):
        yield ast.IfExp(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse)


def _branch(node: ast.If | ast.While) -> _Replaced:
    if not isinstance(node.test, ast.Compare | ast.UnaryOp):
        yield type(node)(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse)


def _filter(node: ast.comprehension) -> _Replaced:
    for i in range(len(node.ifs)):
        yield ast.comprehension(node.target, node.iter, [*node.ifs[:i], *node.ifs[i + 1 :]], node.is_async)


def _result(node: ast.Return) -> _Replaced:
    """None, but for what is false already: hardly any caller can tell the two apart."""
    if node.value is None:
        yield ast.Pass()
    elif not (isinstance(node.value, ast.Constant) and (node.value.value is None or node.value.value is False)):
        yield ast.Return(ast.Constant(None))


def _nothing(_node: ast.AST) -> _Replaced:
    yield ast.Pass()


def _in_place(node: ast.AugAssign) -> _Replaced:
    yield ast.Pass()
    if type(node.op) in _ARITHMETIC:
        yield ast.AugAssign(node.target, _ARITHMETIC[type(node.op)](), node.value)


def _expression_statement(node: ast.Expr) -> _Replaced:
    if isinstance(node.value, ast.Call | ast.Await | ast.Yield | ast.YieldFrom):
        yield ast.Pass()


def _assignment(node: ast.Assign) -> _Replaced:
    if all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets):
        yield ast.Pass()


def _leave_out_of_loop(_node: ast.Break) -> _Replaced:
    yield ast.Continue()


def _leave_loop(_node: ast.Continue) -> _Replaced:
    yield ast.Break()
    yield ast.Pass()


_OPERATORS: Final[dict[type[ast.AST], Callable[..., _Replaced]]] = {
    ast.Compare: _compare,
    ast.BoolOp: _without_one_condition,
    ast.UnaryOp: _unary,
    ast.BinOp: _arithmetic,
    ast.Constant: _constant,
    ast.Call: _call,
    ast.IfExp: _choice,
    ast.If: _branch,
    ast.While: _branch,
    ast.comprehension: _filter,
    ast.Return: _result,
    ast.Raise: _nothing,
    ast.Delete: _nothing,
    ast.AugAssign: _in_place,
    ast.Expr: _expression_statement,
    ast.Assign: _assignment,
    ast.Break: _leave_out_of_loop,
    ast.Continue: _leave_loop,
}


def changes_of(function: Function) -> Iterator[Change]:
    """Yield every fault that can be planted in the body of a function, functions inside it included."""
    block = Block(function.body)
    for index, statement in enumerate(function.body):
        yield from _at(function, "body", index, statement, block)


def _at(parent: ast.AST, field: str, index: int | None, node: ast.AST, block: Block) -> Iterator[Change]:
    for new in _OPERATORS.get(type(node), _none)(node):
        ast.fix_missing_locations(ast.copy_location(new, node))
        yield Change(parent, field, index, node, new, block)
    for inner in _open_fields(node):
        value = getattr(node, inner)
        below = Block(value) if inner in _BLOCKS and isinstance(value, list) else block
        for i, child in enumerate(value) if isinstance(value, list) else ((None, value),):
            if isinstance(child, ast.AST):
                yield from _at(node, inner, i, child, below)


def _none(_node: ast.AST) -> _Replaced:
    return iter(())


def _open_fields(node: ast.AST) -> Sequence[str]:
    """The fields of a node below which faults are planted."""
    match node:
        case ast.Raise() | ast.Assert():
            return ()
        case ast.AnnAssign():
            return ("value",)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return ("body",)
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name))) if name in _LOGS:
            return ()
        case ast.Call(func=ast.Name(id="isinstance")) | ast.keyword(arg="strict"):
            return ()  # zip(strict=True) checks what is so already
        case _:
            return node._fields


def text(node: ast.AST) -> str:
    """A node as one line of code; of a compound statement its condition."""
    if isinstance(node, ast.If | ast.While):
        node = node.test
    return " ".join(ast.unparse(node).split())
