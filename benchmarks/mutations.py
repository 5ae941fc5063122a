"""Small changes of a source file, each of which some test should notice.

The operators are an explicit list: comparisons, arithmetic, numbers, truth values, the branches of
a choice, and functions that are easily confused.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

COMPARISONS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
SCOPES = (ast.FunctionDef, ast.ClassDef)
NAMES = {
    "minimum": "maximum",
    "maximum": "minimum",
    "min": "max",
    "max": "min",
    "mean": "sum",
    "sum": "mean",
    "exp": "expm1",
    "log1p": "log",
    "sqrt": "square",
    "any": "all",
    "all": "any",
    "argmin": "argmax",
    "argmax": "argmin",
}


class Mutation(NamedTuple):
    """One change.

    Attributes:
        file: The file, relative to the tree.
        scope: The function or class around it, such as `Mixture.cdf`; empty at the top.
        line, last: The first and the last line of what changes.
        start, end: Where it is, as offsets in the bytes of the file.
        before, after: What stands there, and what takes its place.
        number: Which of the equal changes in this scope it is, from 1 on.
    """

    file: str
    scope: str
    line: int
    last: int
    start: int
    end: int
    before: str
    after: str
    number: int

    @property
    def name(self) -> str:
        """What names a change, also after edits elsewhere in its file."""
        change = f"{' '.join(self.before.split())} -> {self.after}"
        nth = f" #{self.number}" if self.number > 1 else ""
        return f"{self.file.removeprefix('src/ngem/')}::{self.scope}: {change}{nth}"

    def apply(self, text: str) -> str:
        """Return the text of the file with the change."""
        content = text.encode()
        return (content[: self.start] + self.after.encode() + content[self.end :]).decode()


def mutations(tree: Path, file: str) -> list[Mutation]:
    """Return all changes of a file that are valid Python."""
    text = (tree / file).read_text(encoding="utf-8")
    offsets = [0]
    for line in text.encode().splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    found, counts = [], Counter()
    for scope, node in _visible(ast.parse(text)):
        start, end = (
            offsets[line - 1] + column
            for line, column in (
                (node.lineno, node.col_offset),
                (node.end_lineno, node.end_col_offset),
            )
        )
        before = text.encode()[start:end].decode()
        for after in _changes(node):
            counts[scope, before, after] += 1
            number, last = counts[scope, before, after], node.end_lineno or node.lineno
            change = Mutation(file, scope, node.lineno, last, start, end, before, after, number)
            if _is_valid(change.apply(text)):
                found.append(change)
    return found


def _visible(tree: ast.AST, scope: str = "") -> Iterator[tuple[str, ast.expr]]:
    """Yield what computes, with its scope: no annotations, and no texts of errors."""
    hidden = (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "bases"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, hidden):
                if isinstance(child, ast.expr):
                    yield scope, child
                inner = f"{scope}.{child.name}".lstrip(".") if isinstance(child, SCOPES) else scope
                yield from _visible(child, inner)


def _changes(node: ast.expr) -> Iterator[str]:
    """Yield what may take the place of an expression."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in COMPARISONS:
            yield _with(node, ops=[COMPARISONS[type(op)]()])
        case ast.BinOp(op=op) if type(op) in ARITHMETIC:
            yield _with(node, op=ARITHMETIC[type(op)]())
        case ast.BoolOp(op=op):
            yield _with(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.USub() | ast.Not() | ast.Invert(), operand=operand):
            yield f"({ast.unparse(operand)})"
        case ast.IfExp(body=body, orelse=orelse):
            yield _with(node, body=orelse, orelse=body)
        case ast.Constant(value=bool() as value):
            yield str(not value)
        case ast.Constant(value=int() as value):
            yield str(value + 1)
        case ast.Constant(value=float() as value):
            yield repr(2 * value if value else 1.0)
        case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in NAMES:
            yield _with(node, func=ast.Attribute(value, NAMES[name]))
        case ast.Call(func=ast.Name(id=name)) if name in NAMES:
            yield _with(node, func=ast.Name(NAMES[name]))


def _with(node: ast.expr, **fields: object) -> str:
    """Return an expression with other fields, as text in parentheses."""
    kept = {name: getattr(node, name) for name in node._fields}
    return f"({ast.unparse(type(node)(**{**kept, **fields}))})"


def _is_valid(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True
