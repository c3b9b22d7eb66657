"""What a projection program may say: an allow-list over its syntax tree, applied before anything of it runs.

The list is short on purpose. There is no import, no name or attribute outside the list, no string but an equation of
``einsum``, no comprehension, generator, lambda, class, ``while``, ``try`` or ``with``; functions call only functions
above them, so there is no recursion, and the number of steps is bounded before the program runs. The check is the
first of two walls: programs that pass it still run in :mod:`nco.projection.sandbox` alone.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from typing import Any

from nco.errors import NcoError

# What can be wrong with a program, in the order in which it is found out.
FAILURES = ("syntax", "forbidden", "crash", "memory", "timeout", "non-finite", "contract")

MAX_CHARACTERS = 8_000
MAX_NODES = 2_000
MAX_DEPTH = 40
MAX_ITERATIONS = 64  # of one loop
MAX_STEPS = 20_000  # of the whole program: syntax nodes visited, loops and calls unrolled
MAX_CONSTANT = 1e9

BUILTINS: tuple[Callable[..., Any], ...] = (abs, bool, float, int, len, max, min, range, round, sum)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ELEMENTWISE = """abs acos asin atan atan2 ceil clamp clip cos cosh div erf exp expm1 floor fmod hypot isfinite
log log1p log2 logical_and logical_not logical_or maximum minimum mul nan_to_num neg pow reciprocal relu remainder round
rsqrt sigmoid sign sin sinh softmax sqrt square sub tan tanh where add lerp"""
_REDUCTIONS = """all amax amin any argmax argmin argsort cummax cummin cumsum kthvalue logsumexp max mean median min
norm prod quantile sort std sum topk var"""
_SHAPES = """bmm broadcast_to diagonal flip gather matmul permute reshape squeeze take_along_dim transpose unbind
unsqueeze"""
_SHARED = _words(f"{_ELEMENTWISE} {_REDUCTIONS} {_SHAPES}")

TORCH = _SHARED | _words("""
    arange cat cdist det deg2rad diag_embed einsum eye full full_like linspace meshgrid ones ones_like stack tensor
    zeros zeros_like bool float32 float64 int64 pi""")
LINALG = _words("det eigh norm vector_norm")
MATH = _words("atan atan2 ceil cos e exp expm1 floor hypot log log1p log2 pi pow sin sqrt tan tanh")
# Of tensors and of the named tuples that sort, min and others return.
MEMBERS = _SHARED | _words("""
    bool clone contiguous detach device dim double dtype eq expand expand_as flatten float ge gt indices le long lt
    masked_fill mT ndim repeat shape size to values view""")
KEYWORDS = _words("""
    axis alpha correction descending device dim dim0 dim1 dims dtype end indexing input interpolation keepdim
    keepdims largest max min nan neginf ord other p posinf q sorted stable start steps unbiased""")

_STATEMENTS = (ast.Assign, ast.AugAssign, ast.Return, ast.If, ast.For, ast.Pass)
_EXPRESSIONS = (
    *(ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Call, ast.keyword, ast.Attribute),
    *(ast.Subscript, ast.Slice, ast.Tuple, ast.List, ast.Constant, ast.Name, ast.Load, ast.Store),
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.MatMult),
    *(ast.USub, ast.UAdd, ast.Not, ast.Invert, ast.And, ast.Or, ast.BitAnd, ast.BitOr, ast.BitXor),
    *(ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Is, ast.IsNot),
)
_MODULES = frozenset(("torch", "math"))
_BUILTIN_NAMES = frozenset(function.__name__ for function in BUILTINS)
_STRINGS = frozenset(("ij", "xy", "linear", "lower", "higher", "midpoint", "nearest"))


class ProgramFailure(NcoError):
    """A program that is refused or has failed.

    Attributes
    ----------
    kind : str
        One of :data:`FAILURES`.
    message : str
        What is wrong, in one line, for the one who wrote the program.
    """

    def __init__(self, kind: str, message: str):
        if kind not in FAILURES:
            raise ValueError(f"unknown kind of failure {kind!r}")
        self.kind = kind
        self.message = " ".join(message.split())[:400]
        super().__init__(f"{kind}: {self.message}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.kind, self.message)


def checked_tree(source: str) -> ast.Module:
    """Return the syntax tree of a program, without annotations and docstrings, if all of it is allowed.

    Raises
    ------
    ProgramFailure
        Of the kind "syntax", or "forbidden" with the line and the thing that is not allowed.
    """
    if len(source) > MAX_CHARACTERS:
        raise ProgramFailure("forbidden", f"the program has {len(source)} characters, above {MAX_CHARACTERS}")
    if not source.strip():
        raise ProgramFailure("syntax", "there is no program")
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise ProgramFailure("syntax", f"line {error.lineno}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise ProgramFailure("syntax", f"cannot be parsed: {error or type(error).__name__}") from None
    _check_size(tree)
    _Checker().check(tree)
    return ast.fix_missing_locations(tree)


def _check_size(tree: ast.Module) -> None:
    """Refuse trees that are too large or too deep for what follows."""
    level: Sequence[ast.AST] = [tree]
    nodes = depth = 0
    while level:
        nodes, depth = nodes + len(level), depth + 1
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if nodes > MAX_NODES or depth > MAX_DEPTH:
            raise ProgramFailure("forbidden", f"above {MAX_NODES} syntax nodes or {MAX_DEPTH} levels of nesting")


def _refuse(node: ast.AST, thing: str) -> ProgramFailure:
    line = getattr(node, "lineno", None)
    return ProgramFailure("forbidden", f"line {line}: {thing}" if line else thing)


class _Checker:
    """Walks through a module; knows the functions and constants defined so far."""

    def __init__(self) -> None:
        self.steps: dict[str, int] = {}  # by function
        self.constants: set[str] = set()

    def check(self, tree: ast.Module) -> None:
        for statement in tree.body:
            if isinstance(statement, ast.FunctionDef):
                self._function(statement)
            elif isinstance(statement, ast.Assign):
                self._module_constant(statement)
            elif not _is_text(statement):
                raise _refuse(statement, f"{_name(statement)} is not allowed outside a function")
        tree.body = [statement for statement in tree.body if not _is_text(statement)]
        if "project" not in self.steps:
            raise ProgramFailure("forbidden", "the program defines no function project(points)")
        [project] = [one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == "project"]
        if len(project.args.args) - len(project.args.defaults) != 1:
            raise _refuse(project, "project takes exactly one argument, points")

    def _module_constant(self, statement: ast.Assign) -> None:
        value = statement.value.operand if isinstance(statement.value, ast.UnaryOp) else statement.value
        if len(statement.targets) != 1 or not isinstance(statement.targets[0], ast.Name):
            raise _refuse(statement, "only a name can stand for a constant")
        if not isinstance(value, ast.Constant) or isinstance(value.value, str):
            raise _refuse(statement, "outside functions only numbers can be assigned")
        self._constant(value)
        self._new_name(statement, statement.targets[0].id)
        self.constants.add(statement.targets[0].id)

    def _function(self, function: ast.FunctionDef) -> None:
        arguments = function.args
        stars = (arguments.vararg, arguments.kwarg, arguments.kwonlyargs, arguments.posonlyargs)
        if any((*stars, function.decorator_list, getattr(function, "type_params", ()))):
            raise _refuse(function, "only plain arguments are allowed, and no decorators")
        if function.name in self.constants | set(self.steps):
            raise _refuse(function, f"{function.name!r} is defined twice")
        self._new_name(function, function.name)
        for default in arguments.defaults:
            if not isinstance(default, ast.Constant) or isinstance(default.value, str):
                raise _refuse(default, "a default must be a number")
            self._constant(default)
        function.returns = None
        for argument in arguments.args:
            argument.annotation = None
            self._new_name(function, argument.arg)
        if function.body and _is_text(function.body[0]):
            function.body = function.body[1:] or [ast.Pass()]
        local = {argument.arg for argument in arguments.args}
        for statement in function.body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    self._new_name(node, node.id)
                    local.add(node.id)
        steps = sum(self._steps(statement, local | self.constants) for statement in function.body)
        if steps > MAX_STEPS:
            raise _refuse(function, f"{function.name} may take {steps} steps, above {MAX_STEPS}")
        self.steps[function.name] = steps

    def _new_name(self, node: ast.AST, name: str) -> None:
        if name.startswith("_") and name != "_":
            raise _refuse(node, f"the name {name!r} begins with an underscore")
        if name in _MODULES or name in _BUILTIN_NAMES or name in self.steps:
            raise _refuse(node, f"the name {name!r} is taken")

    def _steps(self, node: ast.AST, local: set[str]) -> int:
        """Check a node and all below it; return how many nodes are visited when it runs."""
        if not isinstance(node, _STATEMENTS + _EXPRESSIONS) and not _is_text(node):
            raise _refuse(node, f"{_name(node)} is not allowed")
        if _is_text(node):
            return 0
        if isinstance(node, ast.Name):
            self._loaded(node, local)
            return 1
        if isinstance(node, ast.Constant):
            self._constant(node)
            return 1
        if isinstance(node, ast.Attribute):
            return self._attribute(node, local)
        if isinstance(node, ast.For):
            return self._loop(node, local)
        if isinstance(node, ast.Call):
            return self._call(node, local)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            self._power(node)
        return 1 + sum(self._steps(child, local) for child in ast.iter_child_nodes(node))

    def _loaded(self, node: ast.Name, local: set[str]) -> None:
        if node.id not in local:
            raise _refuse(node, f"the name {node.id!r} is not allowed here")

    def _constant(self, node: ast.Constant) -> None:
        value = node.value
        if value is None or value is Ellipsis or isinstance(value, bool):
            return
        if not isinstance(value, int | float):
            raise _refuse(node, f"a {type(value).__name__} is not allowed here")
        if not math.isfinite(value) or abs(value) > MAX_CONSTANT:
            raise _refuse(node, f"a number above {MAX_CONSTANT:g} is not allowed")

    def _attribute(self, node: ast.Attribute, local: set[str]) -> int:
        if not isinstance(node.ctx, ast.Load):
            raise _refuse(node, "attributes cannot be assigned")
        base = ast.unparse(node.value) if isinstance(node.value, ast.Name | ast.Attribute) else ""
        for module, listed in (("torch", TORCH), ("math", MATH), ("torch.linalg", LINALG)):
            if base == module:
                if node.attr not in listed:
                    raise _refuse(node, f"{module}.{node.attr} is not on the list")
                return 1
        if node.attr not in MEMBERS:
            raise _refuse(node, f"the attribute {node.attr!r} is not on the list")
        return 1 + self._steps(node.value, local)

    def _loop(self, node: ast.For, local: set[str]) -> int:
        times = _iterations(node.iter)
        if times is None or times > MAX_ITERATIONS:
            raise _refuse(node, f"a loop must go over range of numbers or a tuple of them, {MAX_ITERATIONS} at most")
        if node.orelse:
            raise _refuse(node, "a loop with else is not allowed")
        self._steps(node.target, local)
        return 1 + times * sum(self._steps(statement, local) for statement in node.body)

    def _call(self, node: ast.Call, local: set[str]) -> int:
        texts: list[ast.expr] = []
        steps = 1
        if isinstance(node.func, ast.Name):
            if node.func.id not in _BUILTIN_NAMES and node.func.id not in self.steps:
                raise _refuse(node, f"the call of {node.func.id!r} is not allowed here")
            if node.func.id == "range":
                raise _refuse(node, "range is for loops only")
            steps += self.steps.get(node.func.id, 0)
        elif isinstance(node.func, ast.Attribute):
            steps += self._attribute(node.func, local)
            if ast.unparse(node.func) == "torch.einsum" and node.args and _is_equation(node.args[0]):
                texts.append(node.args[0])
        else:
            raise _refuse(node, "only functions and methods with a name can be called")
        for keyword in node.keywords:
            if keyword.arg not in KEYWORDS and (keyword.arg is None or isinstance(node.func, ast.Attribute)):
                raise _refuse(node, f"the keyword {keyword.arg or '**'} is not on the list")
            if isinstance(keyword.value, ast.Constant) and keyword.value.value in _STRINGS:
                texts.append(keyword.value)
        values = [*node.args, *(keyword.value for keyword in node.keywords)]
        return steps + sum(self._steps(value, local) for value in values if value not in texts)

    def _power(self, node: ast.BinOp) -> None:
        if any(isinstance(child, ast.Name) for child in ast.walk(node.left)):
            return
        if (
            not isinstance(node.right, ast.Constant)
            or not isinstance(node.right.value, int | float)
            or node.right.value > 16
        ):
            raise _refuse(node, "a power of numbers needs a number up to 16 as its exponent")


def _iterations(iterable: ast.expr) -> int | None:
    """Return the length of ``range(numbers)`` or of a literal of numbers, None for anything else."""
    if isinstance(iterable, ast.Tuple | ast.List):
        return len(iterable.elts) if all(_number(element) is not None for element in iterable.elts) else None
    if not isinstance(iterable, ast.Call) or not isinstance(iterable.func, ast.Name) or iterable.func.id != "range":
        return None
    bounds = [_number(argument) for argument in iterable.args]
    if iterable.keywords or not 1 <= len(bounds) <= 3 or not all(type(bound) is int for bound in bounds):
        return None
    return len(range(*bounds)) if len(bounds) < 3 or bounds[2] else None  # type: ignore[arg-type]


def _number(node: ast.expr) -> int | float | None:
    sign = -1 if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else 1
    inner = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else node
    if (
        not isinstance(inner, ast.Constant)
        or not isinstance(inner.value, int | float)
        or abs(inner.value) > MAX_CONSTANT
    ):
        return None
    return sign * inner.value


def _is_equation(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) <= 40


def _is_text(node: ast.AST) -> bool:
    """Tell a docstring, or any string that stands alone."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _name(node: ast.AST) -> str:
    return "an expression that stands alone" if isinstance(node, ast.Expr) else type(node).__name__
