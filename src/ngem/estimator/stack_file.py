"""Model files of stacks: the files of all parts in one, with their weights."""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .. import _files
from . import model_file, tree_file
from .file_parts import (
    OPTIONAL,
    UNKNOWN,
    FitInfo,
    check_columns,
    check_diagnostics,
    is_count,
    need,
    pit_arrays,
    read_file,
    read_fit_info,
    read_table,
    take_pit,
)
from .model_file import Saved
from .schema import Schema

KIND, _VERSION = "ngem.DensityStack", 1

#: How the parts of each kind are packed and unpacked.
_FORMATS = {module.KIND: module for module in (model_file, tree_file)}

#: Parameters that a file keeps.
SETTINGS = ("quality", "budget", "n_members", "n_repeats", "resolution")

_HEADER = {
    *SETTINGS,
    "feature_names",
    "n_features",
    "n_outputs",
    "target_ndim",
    "diagnostics",
    "reports",
    "parts",
}

_DIAGNOSTICS = {
    "gain_over_gaussian": float,
    "gain_over_linear": float,
    "nll_offset": float,
    "outlier_rows": list,
    "training_rows": int,
    "validation_rows": int,
    "oof_nll": float,
    "best_kind": str,
    "gain_over_best_kind": float,
    "width": float,
    "gain_of_width": float,
}

#: What files lack that were written before components became narrower.
_BEFORE_WIDTHS = {"width": 1.0, "gain_of_width": 0.0}


class SavedPart(NamedTuple):
    """A fitted estimator of a stack.

    Attributes:
        name: Name of its kind.
        kind: Kind of its own model file.
        weight: Its weight.
        saved: Everything that makes it up.
    """

    name: str
    kind: str
    weight: float
    saved: Saved


class SavedStack(NamedTuple):
    """Everything that makes up a fitted stack.

    Attributes:
        settings: Its parameters, except for the kinds.
        parts: The fitted estimators in use.
        reports: What became of each kind: name, seconds, held-out NLL, weight and outcome.
        feature_names: Names of the columns, if it was fitted on a table that had them.
        n_features: Number of features, as parts read them.
        target_ndim: 1 if the targets were a vector, 2 if they were columns.
        diagnostics: Plain numbers about the fit.
        table: How the columns of a user's file become features, if the model was fitted on one.
        fit_info: How the model came to be.
        held_out_pit: PIT of held-out rows, (rows, dim); None if unknown.
    """

    settings: dict[str, Any]
    parts: list[SavedPart]
    reports: list[list[Any]]
    feature_names: list[str] | None
    n_features: int
    target_ndim: int
    diagnostics: dict[str, Any]
    table: Schema | None = None
    fit_info: FitInfo = UNKNOWN
    held_out_pit: np.ndarray | None = None


def save(path: str | os.PathLike, stack: SavedStack) -> None:
    """Write a model file."""
    _files.write(path, *pack(stack), kind=KIND, version=_VERSION)


def pack(stack: SavedStack) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays and the header of a model file."""
    arrays: dict[str, np.ndarray] = pit_arrays(stack.held_out_pit)
    parts = []
    for index, part in enumerate(stack.parts):
        own, header = _FORMATS[part.kind].pack(part.saved)
        arrays |= {f"{index}/{name}": array for name, array in own.items()}
        parts.append(
            {"name": part.name, "kind": part.kind, "weight": part.weight, "header": header}
        )
    header = {
        **stack.settings,
        "feature_names": stack.feature_names,
        "n_features": stack.n_features,
        "n_outputs": stack.parts[0].saved.model.network.dim,
        "target_ndim": stack.target_ndim,
        "diagnostics": stack.diagnostics,
        "reports": stack.reports,
        "parts": parts,
        "fit_info": stack.fit_info._asdict(),
    }
    if stack.table is not None:
        header["table"] = stack.table.to_header()
    return arrays, header


def load(path: str | os.PathLike) -> SavedStack:
    """Return what a model file holds.

    Raises:
        FileError: If the file is damaged, of another kind or newer, or if its parts do not fit
            together. No code of the file's is ever run.
    """
    return unpack(*read_file(path, kind=KIND, version=_VERSION))


def unpack(named: Mapping[str, np.ndarray], header: Any) -> SavedStack:
    """Return what the arrays and the header of a model file hold, after checking them."""
    arrays = dict(named)
    header = _as_today(header)
    need(isinstance(header, dict) and set(header) - OPTIONAL == _HEADER, str(_HEADER), header)
    most = sum(array.size for array in arrays.values())
    for size in (header["n_features"], header["n_outputs"]):
        need(is_count(size, 1, most), "sizes within those of the arrays", size)
    check_columns(header)
    check_diagnostics(header["diagnostics"], _DIAGNOSTICS)
    width = header["diagnostics"]["width"]
    need(isinstance(width, float) and 0 < width <= 1, "a width of its components", width)
    listed = isinstance(header["parts"], list) and 1 <= len(header["parts"]) <= len(arrays)
    need(listed, "a list of parts", header["parts"])
    held_out_pit = take_pit(arrays, header["n_outputs"])
    parts = [_read_part(part, index, arrays) for index, part in enumerate(header["parts"])]
    used = sum(name.startswith(f"{i}/") for name in arrays for i in range(len(parts)))
    need(used == len(arrays), "no arrays beyond those of its parts", sorted(arrays)[:5])
    _check_fit(parts, header)
    return SavedStack(
        settings={name: header[name] for name in SETTINGS},
        parts=parts,
        reports=_read_reports(header["reports"]),
        feature_names=header["feature_names"],
        n_features=header["n_features"],
        target_ndim=header["target_ndim"],
        diagnostics=header["diagnostics"],
        table=read_table(header, one_hot=False),
        fit_info=read_fit_info(header),
        held_out_pit=held_out_pit,
    )


def _as_today(header: Any) -> Any:
    """Return what the header of an older file would hold today."""
    known = isinstance(header, dict) and isinstance(header.get("diagnostics"), dict)
    if not known or "n_repeats" in header:
        return header
    return {**header, "n_repeats": 1, "diagnostics": {**header["diagnostics"], **_BEFORE_WIDTHS}}


def _read_part(part: Any, index: int, arrays: Mapping[str, np.ndarray]) -> SavedPart:
    names = {"name", "kind", "weight", "header"}
    need(isinstance(part, dict) and set(part) == names, f"a part with {names}", part)
    name, kind, weight = part["name"], part["kind"], part["weight"]
    need(isinstance(name, str), "a name of each part", name)
    need(isinstance(kind, str) and kind in _FORMATS, "parts of a known kind", kind)
    need(type(weight) is float and 0 < weight <= 1, "a weight of each part", weight)
    prefix = f"{index}/"
    own = {key[len(prefix) :]: array for key, array in arrays.items() if key.startswith(prefix)}
    return SavedPart(name, kind, weight, _FORMATS[kind].unpack(own, part["header"]))


def _check_fit(parts: list[SavedPart], header: Mapping[str, Any]) -> None:
    """Refuse parts that are not models of the same rows."""
    need(abs(sum(part.weight for part in parts) - 1) < 1e-6, "weights that add up to 1", parts)
    names = [part.name for part in parts]
    need(len(set(names)) == len(names), "parts of different names", names)
    first = parts[0].saved.model.network
    for part in parts:
        network, inputs = part.saved.model.network, part.saved.model.inputs
        need(network.family.kind == first.family.kind, "parts of one family", network.family)
        need(network.dim == header["n_outputs"], "parts of its targets", network.dim)
        need(inputs.n_features == header["n_features"], "parts of its features", inputs.n_features)


def _read_reports(reports: Any) -> list[list[Any]]:
    """Return what became of each kind; NaN, which JSON lacks, stands as None."""
    need(isinstance(reports, list), "a list of reports", reports)
    for report in reports:
        is_row = isinstance(report, list) and len(report) == 5
        need(is_row and isinstance(report[0], str) and isinstance(report[4], str), "rows", report)
        numbers = all(value is None or type(value) in (int, float) for value in report[1:4])
        need(numbers, "numbers of each kind", report)
    return reports
