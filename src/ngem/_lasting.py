"""Names of objects that are the same in every process, and pytree definitions in a file.

A program depends on more than arrays: on networks, plans, functions. Where all of these come from
libraries whose versions are known, they can be described without running anything. Objects from
elsewhere, such as a function of the user's own, have no lasting name, since their code may change.
"""

import enum
import functools
import hashlib
import io
import pickle
import platform
import sys
import types
from collections.abc import Mapping, Set
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.core
import numpy as np

#: Packages whose versions tell what their objects are.
_LIBRARIES = ("jax", "jaxlib", "equinox", "optax", "numpy")
_KNOWN = {"ngem", *_LIBRARIES, "builtins", "functools", "math", "operator"}

#: Packages whose objects hold what Python does not see.
_IN_C = {"jaxlib", "numpy", "builtins", "functools", "math", "operator"}

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), np.dtype, np.generic)


class _NoNameError(Exception):
    """An object that another process could not recognize."""


def lasting_name(*values: Any) -> str | None:
    """Return a hash that equal values have in every process with the same libraries, or None."""
    writer = _Writer()
    try:
        for value in values:
            writer.add(value)
    except _NoNameError:
        return None
    return hashlib.sha256("\n".join([*_surroundings(), *writer.words]).encode()).hexdigest()


@cache
def _surroundings() -> tuple[str, ...]:
    """Return what tells versions of all code apart; of our own by its text."""
    package = Path(__file__).parent
    own = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        own.update(f"{file.relative_to(package)}\n".encode() + file.read_bytes())
    return platform.python_version(), own.hexdigest(), *map(version, _LIBRARIES)


class _Writer:
    """Describes objects in words.

    Attributes:
        words: The words so far.
    """

    def __init__(self) -> None:
        self.words: list[str] = []
        self._met: dict[int, int] = {}
        self._kept: list[Any] = []  # an object that goes away would leave its id to another

    def add(self, value: Any) -> None:
        """Describe one more object."""
        if isinstance(value, _PLAIN):
            self._write(type(value).__name__, repr(value))
        elif isinstance(value, type | types.BuiltinFunctionType | np.ufunc):
            self._write("global", _place(value))
        elif id(value) in self._met:
            self._write("again", str(self._met[id(value)]))
        else:
            self._met[id(value)] = len(self._met)
            self._kept.append(value)
            self._add_parts(value)

    def _write(self, *words: str) -> None:
        self.words.extend(words)

    def _add_parts(self, value: Any) -> None:
        if isinstance(value, jax.tree_util.PyTreeDef):
            self._add_all("tree", [value.node_data(), *value.children()])
        elif isinstance(value, jax.core.ShapedArray):
            self._write("array", str(value.shape), str(value.dtype), str(value.weak_type))
        elif isinstance(value, enum.Enum):
            self._write("enum", _place(type(value)), value.name)
        elif isinstance(value, tuple | list):
            self._add_all(_place(type(value)), value)
        elif isinstance(value, Mapping):
            self._add_all(_place(type(value)), [part for pair in value.items() for part in pair])
        elif isinstance(value, Set):
            self._add_all(_place(type(value)), sorted(value, key=repr))
        elif isinstance(value, types.FunctionType):
            cells = [cell.cell_contents for cell in value.__closure__ or ()]
            parts = [value.__defaults__, value.__kwdefaults__, *cells]
            self._add_all(f"{_place(value)} {_code(value.__code__)}", parts)
        elif isinstance(value, types.MethodType):
            self._add_all("method", [value.__func__, value.__self__])
        elif isinstance(value, functools.partial):
            self._add_all("partial", [value.func, value.args, value.keywords])
        elif callable(getattr(value, "__wrapped__", None)):
            self._add_all(_place(type(value)), [value.__wrapped__])
        else:
            self._add_all(
                _place(type(value)), [part for pair in _attributes(value) for part in pair]
            )

    def _add_all(self, kind: str, parts: Any) -> None:
        parts = list(parts)
        self._write(kind, str(len(parts)))
        for part in parts:
            self.add(part)


def _place(value: Any) -> str:
    """Return where a known library defines a class or a function."""
    module = getattr(value, "__module__", None) or "numpy" * isinstance(value, np.ufunc)
    if module.split(".")[0] not in _KNOWN:
        raise _NoNameError
    return f"{module}.{getattr(value, '__qualname__', value.__name__)}"


def _code(code: types.CodeType) -> str:
    """Return what tells one function of a file from another one with its name."""
    inner = [_code(part) for part in code.co_consts if isinstance(part, types.CodeType)]
    plain = [repr(part) for part in code.co_consts if isinstance(part, _PLAIN)]
    return f"{code.co_firstlineno} {code.co_code.hex()} {code.co_names} {plain} {inner}"


def _attributes(value: Any) -> list[tuple[str, Any]]:
    """Return the attributes of an object by name; none may be hidden, as those of C types are."""
    kinds = type(value).__mro__[:-1]
    if any(kind.__module__.split(".")[0] in _IN_C for kind in kinds) or type(value) is object:
        raise _NoNameError
    slots = [name for kind in kinds for name in getattr(kind, "__slots__", ())]
    found = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return sorted({**found, **getattr(value, "__dict__", {})}.items())


def _constant_name(value: Any) -> tuple[str, str] | None:
    """Return module and name of a constant beside its class, such as a marker for no value."""
    module = type(value).__module__
    if module.split(".")[0] not in _KNOWN - {"builtins"}:
        return None
    names = (name for name, other in vars(sys.modules[module]).items() if other is value)
    name = next(names, None)
    return None if name is None else (module, name)


class _Pickler(pickle.Pickler):
    """Keeps the identity of markers: equal to nothing but themselves."""

    def persistent_id(self, obj: Any) -> tuple[str, str] | None:
        """Return where an object is a constant of a module."""
        return None if isinstance(obj, type | types.FunctionType) else _constant_name(obj)


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, pid: tuple[str, str]) -> Any:
        """Return a constant of a module."""
        return getattr(sys.modules[pid[0]], pid[1])


def write_tree(tree: Any) -> bytes | None:
    """Return a pytree definition as bytes for `read_tree`; None if it holds what has no name."""
    file = io.BytesIO()
    try:
        _Pickler(file).dump(tree)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
    return file.getvalue() if read_tree(file.getvalue()) == tree else None


def read_tree(content: bytes) -> Any:
    """Return a pytree definition. Like any pickle it runs code: only from a trusted place."""
    return _Unpickler(io.BytesIO(content)).load()
