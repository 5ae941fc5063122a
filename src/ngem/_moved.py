"""Module paths of version 0.1 that now lead elsewhere; importing one warns and still works."""

import importlib
import sys
import warnings
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

#: Old path below `ngem`, and the module that holds its public names now.
MOVED = {
    "callbacks": "training.callbacks",
    "checkpoints": "training.checkpoints",
    "conformal": "estimator.conformal",
    "diagnostics": "estimator.diagnostics",
    "files": "estimator.model_file",
    "prediction": "estimator.prediction",
    "preprocessing": "estimator.preprocessing",
    "scorers": "estimator.scorers",
    "univariate": "mixture.univariate",
}


class _Finder:
    """Makes old paths importable: their modules hold the names of the new ones."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        package, _, old = name.partition(".")
        return ModuleSpec(name, self) if package == "ngem" and old in MOVED else None  # type: ignore

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave it to Python to create an empty module."""

    def exec_module(self, module: ModuleType) -> None:
        old = module.__name__.removeprefix("ngem.")
        warnings.warn(
            f"ngem.{old} has moved to ngem.{MOVED[old]}; import it from there.",
            DeprecationWarning,
            stacklevel=2,
        )
        new = importlib.import_module(f"ngem.{MOVED[old]}")
        module.__dict__.update({name: getattr(new, name) for name in dir(new) if name[:2] != "__"})


def install() -> None:
    """Register the old paths with Python's import system."""
    sys.meta_path.append(_Finder())  # type: ignore
