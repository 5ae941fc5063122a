"""Families by name, with options and atoms: "student(df=4)", "zero-inflated gamma", "gamma + 0"."""

import re
from collections.abc import Sequence
from typing import NamedTuple

#: Stands before a family that has zeros beside it, for "+ 0" behind it.
_ZERO = "zero-inflated "

_FORM = re.compile(r"\s*([a-z][a-z -]*?)\s*(?:\(([^()]*)\))?\s*")


def parse_name(text: str) -> tuple[str, list[str]]:
    """Return the name of a family and what stands in the parentheses behind it."""
    found = _FORM.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return text, []
    name, inside = found.groups()
    return name, [part.strip() for part in inside.split(",")] if inside else []


def read_options(
    family: str, options: Sequence[str], values: Sequence[str], what: str = "family"
) -> dict[str, float]:
    """Return the options of a family, or of its covariance, as numbers by name."""
    read: dict[str, float] = {}
    for place, value in enumerate(values):
        key, _, number = value.rpartition("=")
        key = key.strip() or (options[place] if place < len(options) else "")
        try:
            known = key in options and key not in read
            read[key] = float(number) if known else float("nan")
        except ValueError:
            known = False
        if not known:
            takes = f"numbers {', '.join(options)}" if options else "no options"
            example = f"{family}({', '.join(f'{name}=1' for name in options)})"
            raise ValueError(
                f"{what} {family!r} must have {takes}, got {value!r}; for example "
                f"{example if options else family}."
            )
    return read


class Atom(NamedTuple):
    """A single value beside a family, and which fraction of targets it is, if that is known."""

    value: float
    fraction: float | None = None

    def __str__(self) -> str:
        return f"{self.value:.12g}" + ("" if self.fraction is None else f":{self.fraction:g}")


def split_atoms(text: str) -> tuple[str, list[Atom]]:
    """Return the name of a family, and the atoms that are added to it.

    >>> split_atoms("zero-inflated gamma"), split_atoms("logitnormal + 0 + 1:0.2")[1][1].fraction
    (('gamma', [Atom(value=0.0, fraction=None)]), 0.2)
    """
    if not isinstance(text, str):
        return text, []
    has_zero = text.strip().startswith(_ZERO)
    base, *parts = text.strip().removeprefix(_ZERO).split("+")
    return base.strip(), [*([Atom(0.0)] if has_zero else []), *map(_read_atom, parts)]


def _read_atom(text: str) -> Atom:
    value, _, fraction = text.partition(":")
    try:
        atom = Atom(float(value), float(fraction) if fraction else None)
    except ValueError:
        atom = Atom(float("nan"))
    is_fraction = atom.fraction is None or 0 < atom.fraction < 1
    if not (abs(atom.value) < 1e30 and is_fraction):
        raise ValueError(
            f"a number must follow each + of a family, got {text.strip()!r}; for example "
            "'gamma + 0', or 'logitnormal(0, 100) + 100'."
        )
    return atom
