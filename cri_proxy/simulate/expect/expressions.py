"""Parse and evaluate the expressions of ``expect``: a safe subset of Python's syntax, without ``eval``. Pure.

Values are truth values, whole numbers, texts, and sets of numbers or texts. There are no names but those of the
functions, no attributes, no subscripts and no arithmetic that grows: ``_NODES`` lists what an expression may hold. A
text beside a set of numbers is read as a CPU list.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from cri_proxy.simulate.errors import ExpectationError
from sysfs.cpuset import CpuSet, CpuSetError

Members = frozenset[int] | frozenset[str]
Value = bool | int | str | Members
Function = Callable[..., Value]

MAX_LENGTH = 2000
MAX_DEPTH = 30

# Operands that do not match (a set and a number) raise TypeError, which becomes an ExpectationError.
_COMPARE: Mapping[type[ast.cmpop], Callable[..., bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda a, b: operator.contains(b, a),
    ast.NotIn: lambda a, b: not operator.contains(b, a),
}
_ON_SETS: Mapping[type[ast.operator], Callable[[Members, Members], frozenset[object]]] = {
    ast.BitOr: lambda a, b: frozenset(a) | frozenset(b),
    ast.BitAnd: lambda a, b: frozenset(a) & frozenset(b),
    ast.Sub: lambda a, b: frozenset(a) - frozenset(b),
    ast.BitXor: lambda a, b: frozenset(a) ^ frozenset(b),
}
_ON_NUMBERS: Mapping[type[ast.operator], Callable[[int, int], int]] = {ast.Add: operator.add, ast.Sub: operator.sub}
_VALUES = (ast.Constant, ast.Set, ast.Dict, ast.Call, ast.Name, ast.Load)
_OPERATIONS = (ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.BinOp, ast.Compare)
_NODES = (ast.Expression, *_VALUES, *_OPERATIONS, *_COMPARE, *_ON_SETS, *_ON_NUMBERS)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Whether an expression is true; ``shown`` are the values that it compares, for when it is not."""

    is_true: bool
    shown: str


def check(text: str) -> str:
    """Return the syntax error of an expression; '' for none."""
    try:
        _parse(text)
    except ExpectationError as error:
        return str(error)
    return ""


def evaluate(text: str, functions: Mapping[str, Function]) -> Evaluation:
    """Evaluate an expression. Raises ExpectationError when it has no truth value."""
    tree = _parse(text)
    value = _Evaluator(functions).value(tree.body)
    return Evaluation(bool(value), _comparison(tree.body, functions) or show(value))


def show(value: object) -> str:
    """Return a value for people: a set of numbers as a CPU list.

    >>> show(frozenset({1, 2, 3})), show(frozenset())
    ('1-3', 'nothing')
    """
    if not isinstance(value, frozenset):
        return repr(value) if isinstance(value, str) else str(value).lower()
    if not value:
        return "nothing"
    if all(isinstance(member, int) for member in value):
        return str(CpuSet.of(cast(frozenset[int], value)))
    return ", ".join(sorted(map(str, value)))


def _parse(text: str) -> ast.Expression:
    if len(text) > MAX_LENGTH:
        raise ExpectationError(f"longer than {MAX_LENGTH} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        problem = error.msg if isinstance(error, SyntaxError) else str(error)
        raise ExpectationError(f"not an expression: {problem}") from None
    _check_nodes(tree)
    return tree


def _check_nodes(tree: ast.AST) -> None:
    # An explicit stack: recursion would end in an error before the depth is known.
    stack: list[tuple[ast.AST, int]] = [(tree, 0)]
    while stack:
        node, depth = stack.pop()
        if depth > MAX_DEPTH:
            raise ExpectationError("nested too deep")
        if not isinstance(node, _NODES):
            raise ExpectationError(f"{type(node).__name__.lower()} is not understood here; use sets and comparisons")
        if isinstance(node, ast.Constant) and not isinstance(node.value, bool | int | str):
            raise ExpectationError(f"{node.value!r} is neither a number nor a text")
        if isinstance(node, ast.Dict) and node.keys:
            raise ExpectationError("a set has no colons in it")
        if isinstance(node, ast.Call) and (node.keywords or not isinstance(node.func, ast.Name)):
            raise ExpectationError("a function is called by its name, with plain arguments")
        stack.extend((child, depth + 1) for child in ast.iter_child_nodes(node))


def _comparison(node: ast.expr, functions: Mapping[str, Function]) -> str:
    """Return the two sides of a comparison; '' for anything else."""
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return ""
    evaluator = _Evaluator(functions)
    left, right = _alike(evaluator.value(node.left), evaluator.value(node.comparators[0]))
    return f"left is {show(left)}, right is {show(right)}"


class _Evaluator:
    """Computes the value of each node, after ``_check_nodes``."""

    def __init__(self, functions: Mapping[str, Function]) -> None:
        self._functions = functions

    def value(self, node: ast.expr) -> Value:
        match node:
            case ast.Constant():
                return cast(Value, node.value)
            # {} is a dict to Python, and the empty set here.
            case ast.Set() | ast.Dict():
                return self._set(node)
            case ast.BoolOp():
                each = (bool(self.value(part)) for part in node.values)
                return all(each) if isinstance(node.op, ast.And) else any(each)
            case ast.UnaryOp() | ast.BinOp():
                return self._unary(node) if isinstance(node, ast.UnaryOp) else self._binary(node)
            case ast.Compare():
                return self._compare(node)
            case ast.Call():
                return self._call(node)
        raise ExpectationError(f"{ast.unparse(node)} is a function; call it, as in cpus('pod/container')")

    def _set(self, node: ast.Set | ast.Dict) -> Members:
        members = [self.value(part) for part in node.elts] if isinstance(node, ast.Set) else []
        # By type(), as True is an int to isinstance().
        if all(type(m) is int for m in members) or all(type(m) is str for m in members):
            return cast(Members, frozenset(members))
        raise ExpectationError(f"{ast.unparse(node)}: a set holds numbers or texts")

    def _unary(self, node: ast.UnaryOp) -> Value:
        value = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            return not value
        if type(value) is not int:
            raise ExpectationError(f"{ast.unparse(node)}: only a number can be negative")
        return -value

    def _binary(self, node: ast.BinOp) -> Value:
        left, right = _alike(self.value(node.left), self.value(node.right))
        on_sets, on_numbers = _ON_SETS.get(type(node.op)), _ON_NUMBERS.get(type(node.op))
        if isinstance(left, frozenset) and isinstance(right, frozenset) and on_sets is not None:
            return cast(Members, on_sets(left, right))
        if type(left) is int and type(right) is int and on_numbers is not None:
            return on_numbers(left, right)
        raise ExpectationError(f"{ast.unparse(node)}: cannot combine {show(left)} and {show(right)} this way")

    def _compare(self, node: ast.Compare) -> bool:
        left = self.value(node.left)
        for sign, part in zip(node.ops, node.comparators, strict=True):
            right = self.value(part)
            a, b = (left, right) if isinstance(sign, ast.In | ast.NotIn) else _alike(left, right)
            try:
                is_true = _COMPARE[type(sign)](a, b)
            except TypeError:
                raise ExpectationError(f"{ast.unparse(node)}: cannot compare {show(a)} with {show(b)}") from None
            if not is_true:
                return False
            left = right
        return True

    def _call(self, node: ast.Call) -> Value:
        name = cast(ast.Name, node.func).id
        function = self._functions.get(name)
        if function is None:
            raise ExpectationError(f"there is no function {name}; there are {', '.join(sorted(self._functions))}")
        try:
            return function(*(self.value(argument) for argument in node.args))
        except TypeError:
            raise ExpectationError(f"{ast.unparse(node)}: not what {name} takes") from None


def _alike(left: Value, right: Value) -> tuple[Value, Value]:
    """Return both operands; a text beside a set of numbers becomes a CPU list."""
    if isinstance(left, str) and _holds_numbers(right):
        return cpu_ids(left), right
    if isinstance(right, str) and _holds_numbers(left):
        return left, cpu_ids(right)
    return left, right


def _holds_numbers(value: Value) -> bool:
    return isinstance(value, frozenset) and all(isinstance(member, int) for member in value)


def cpu_ids(text: str) -> frozenset[int]:
    """Return the CPUs of a CPU list. Raises ExpectationError."""
    try:
        return frozenset(CpuSet.parse(text))
    except CpuSetError as error:
        raise ExpectationError(str(error)) from None
