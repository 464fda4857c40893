"""Text with ``{expressions}``: ``--steps={steps}``, ``rank={ranks // 2}@1ms``.

Hydra and Snakemake also substitute text, with Python's `str.format` or `eval`. Here an expression is only a name or
arithmetic with names: a value must not depend on code hidden in braces. This is not a security measure: a study names
a ``program``, or contains its text with ``kind: code``, which is run.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, Final

Scalar = str | int | float | bool
Value = Scalar | list[Scalar]

NAME: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)

_LONGEST_EXPRESSION: Final = 1000
_DEEPEST: Final = 50
_MOST_CHARACTERS: Final = 100_000
_MOST_BITS: Final = 1000  # floating-point numbers are as large

_PIECE: Final = re.compile(r"(?P<brace>\{\{|\}\})|\{(?P<expression>[^{}]*)\}|(?P<stray>[{}])|(?P<text>[^{}]+)")
_OPERATORS: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def is_number(value: object) -> bool:
    """Return True if a value is a number; True and False are words here."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_template(value: object) -> bool:
    """Return True if a value is text with expressions."""
    return isinstance(value, str) and ("{" in value or "}" in value)


def text_of(value: Scalar) -> str:
    """Return a value as on a command line."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class Template:
    """Text with expressions in braces; ``{{`` and ``}}`` are literal braces.

    `names` are the variables in it. Raises ValueError with the location if it is malformed.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._pieces = list(_pieces(text))
        found = {name for piece in self._pieces if isinstance(piece, _Expression) for name in piece.names()}
        self.names = frozenset(found)

    @property
    def lone(self) -> str | None:
        """The variable's name, if it is exactly one variable."""
        first = self._pieces[0] if len(self._pieces) == 1 else ""
        return first.lone if isinstance(first, _Expression) else None

    def fill(self, value_of: Callable[[str], Value]) -> Value:
        """Return the text with expressions substituted; if it is one expression, its value.

        Raise ValueError if an expression cannot be computed, a list is within text, or the result is too long.
        """
        if len(self._pieces) == 1 and isinstance(self._pieces[0], _Expression):
            return self._pieces[0].value(value_of)
        filled = "".join(self._text(piece, value_of) for piece in self._pieces)
        if len(filled) > _MOST_CHARACTERS:
            raise ValueError(f"{self.text!r} is too long when filled in (at most {_MOST_CHARACTERS:,} characters)")
        return filled

    def _text(self, piece: str | _Expression, value_of: Callable[[str], Value]) -> str:
        if isinstance(piece, str):
            return piece
        value = piece.value(value_of)
        if isinstance(value, list):
            raise ValueError(f"{{{piece.text}}} is a list, which cannot be part of {self.text!r}")
        return text_of(value)


def _pieces(text: str) -> Iterator[str | _Expression]:
    for match in _PIECE.finditer(text):
        if match["stray"]:
            other = "}" if match["stray"] == "{" else "{"
            raise ValueError(
                f"{text!r}: a {match['stray']} without its {other}; write {match['stray'] * 2} for the sign"
            )
        if match["expression"] is not None:
            yield _Expression(match["expression"].strip(), text)
        else:
            yield match["brace"][0] if match["brace"] else match["text"]


class _Expression:
    """A variable's name, or arithmetic with names and numbers."""

    def __init__(self, text: str, whole: str) -> None:
        self.text = text
        if not text:
            raise ValueError(f"{whole!r}: empty braces; name a variable")
        try:
            if len(text) > _LONGEST_EXPRESSION:
                raise ValueError(text)
            self._tree = ast.parse(text, mode="eval").body
            self._check(self._tree, 0)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise ValueError(
                f"{whole!r}: {{{text}}} is neither a variable nor arithmetic (+ - * / // %) with variables and numbers"
            ) from None

    def _check(self, node: ast.expr, depth: int) -> None:
        """Reject whatever `_compute` does not support, and too deep nesting."""
        if depth < _DEEPEST and isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            self._check(node.left, depth + 1)
            self._check(node.right, depth + 1)
        elif depth < _DEEPEST and isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            self._check(node.operand, depth + 1)
        elif not (isinstance(node, ast.Constant) and type(node.value) in (int, float)) and _name(node) is None:
            raise ValueError(self.text)

    def names(self) -> Iterator[str]:
        """Yield the variables in it."""
        todo: list[ast.AST] = [self._tree]
        while todo:
            node = todo.pop()
            name = _name(node)
            if name is not None:
                yield name
            else:
                todo += ast.iter_child_nodes(node)

    @property
    def lone(self) -> str | None:
        """The variable's name, if it is exactly that."""
        return _name(self._tree)

    def value(self, value_of: Callable[[str], Value]) -> Value:
        """Return its value; that of a single variable may be anything."""
        if self.lone is not None:
            return value_of(self.lone)
        try:
            result = self._compute(self._tree, value_of)
        except ZeroDivisionError:
            raise ValueError(f"{{{self.text}}} divides by zero") from None
        except OverflowError:
            raise ValueError(f"{{{self.text}}} is beyond all numbers") from None
        if isinstance(result, Fraction):
            return result.numerator if result.denominator == 1 else float(result)
        return result

    def _compute(self, node: ast.AST, value_of: Callable[[str], Value]) -> Fraction | float:
        """Return a number, exact if all operands are integers: half of 8 ranks is 4 and not 4.0."""
        if isinstance(node, ast.BinOp):
            left, right = self._compute(node.left, value_of), self._compute(node.right, value_of)
            return _bounded(_OPERATORS[type(node.op)](left, right))
        if isinstance(node, ast.UnaryOp):
            return -self._compute(node.operand, value_of)
        name = _name(node)
        value = value_of(name) if name is not None else node.value  # type: ignore[attr-defined]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{{{self.text}}} counts with {name}, which is {value!r} and no number")
        return _bounded(value)


def _bounded(value: Fraction | float) -> Fraction | float:
    """Return a number; raise OverflowError if it is infinite or too large for quick steps."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise OverflowError
        return value
    exact = Fraction(value)
    if max(exact.numerator.bit_length(), exact.denominator.bit_length()) > _MOST_BITS:
        raise OverflowError
    return exact


def _name(node: ast.AST) -> str | None:
    """Return the variable that a node names: ``ranks``, or a dotted ``network.latency``."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = _name(node.value)
        return None if before is None else f"{before}.{node.attr}"
    return None
