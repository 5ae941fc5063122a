"""Families by name, with options and atoms: "student(df=4)", "zero-inflated gamma", "gamma + 0"."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

#: Stands before a family that has zeros beside it, for "+ 0" behind it.
_ZERO = "zero-inflated "

#: A comma that stands in no parentheses, and the name of a column before a family.
_COMMA, _COLUMN = re.compile(r",(?![^()]*\))"), re.compile(r"\s*([^()=]+?)\s*=\s*(.*)")

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


def split_columns(family: Any) -> tuple[tuple[str | None, str], ...]:
    """Return names of target columns and the family of each; nothing where there is one for all.

    Args:
        family: A family by name; or families by column, as a mapping, as a sequence in the order of
            the columns, or as text.

    >>> split_columns("loss=gamma + 0, visits=binomial(trials=7)")
    (('loss', 'gamma + 0'), ('visits', 'binomial(trials=7)'))
    >>> split_columns(["gamma", "poisson"]), split_columns("student(df=4)")
    (((None, 'gamma'), (None, 'poisson')), ())
    """
    if isinstance(family, Mapping):
        return tuple(family.items())
    if not isinstance(family, str):
        return tuple((None, one) for one in family) if isinstance(family, Sequence) else ()
    found = [_COLUMN.fullmatch(part) for part in _COMMA.split(family)]
    if not any(found):
        return ()
    if not all(found):
        raise ValueError(
            f"each part of a family by column must be column=family, got {family!r}; for example "
            "'loss=gamma,visits=poisson'."
        )
    return tuple((one[1], one[2].strip()) for one in found if one)


def order_columns(family: Any, names: Sequence[str | None]) -> Any:
    """Return a family as it is, or the families of columns in the order of the columns.

    Args:
        family: As in `split_columns`.
        names: Names of the target columns, as far as they are known.

    >>> order_columns({"visits": "poisson", "loss": "gamma"}, ["loss", "visits"])
    ('gamma', 'poisson')
    """
    each = split_columns(family)
    if not each:
        return family
    keys = [key for key, _ in each]
    is_named = any(key is not None for key in keys)
    if len(each) != len(names) or (is_named and sorted(map(str, keys)) != sorted(map(str, names))):
        known = "unknown names" if None in names else ", ".join(map(str, names))
        raise ValueError(
            f"family must name each of {len(names)} target columns once ({known}), got "
            f"{', '.join(map(str, keys)) if is_named else len(keys)}; without names, give a list "
            "of families in the order of the columns."
        )
    by_name = dict(each)
    ordered = tuple(by_name[str(name)] for name in names) if is_named else by_place(each)
    return ordered[0] if len(ordered) == 1 else ordered


def by_place(each: Sequence[tuple[str | None, str]]) -> tuple[str, ...]:
    """Return the families of columns without the columns' names."""
    return tuple(family for _, family in each)


def text_of(family: Any) -> str:
    """Return how a user may write a family, in one line."""
    parts = [f"{key}={one}" if key else str(one) for key, one in split_columns(family)]
    return ", ".join(parts) or str(family)
