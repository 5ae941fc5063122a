"""Predictions for a data set of many files: one output for each input, done once."""

import glob
import hashlib
import json
import shutil
import zlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from .. import _files
from .._console import Output
from ..distributed import find_place, shared_work
from ..distributed.launch import is_worker
from ..training import run_shared
from .opening import SUFFIXES, TableError, check_suffix
from .predicting import Counts, NoRowsError, Prediction, predict_table
from .processes import SCHEDULER, count_processes, start_processes
from .write import SEPARATORS

#: Files in the directory of outputs that readers of data sets pass over: what was asked, and locks.
_ASKED, _WORK = "_predictions.json", "_work"


def is_partitioned(path: Path) -> bool:
    """Return whether a path stands for many files: a directory, or a pattern such as *.parquet."""
    return path.is_dir() or (glob.has_magic(str(path)) and not path.exists())


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def predict_partitions(
    job: Prediction,
    path: Path,
    out: Path | None,
    asked: Mapping[str, Any],
    seed: int,
    output: Output,
    *,
    force: bool = False,
    processes: str | None = None,
) -> int:
    """Write predictions for each file of a data set, and return the exit code.

    A file that has its output already is passed over, unless it is newer. So a run that was cut
    goes on, and several processes, here or on other machines, share the files.

    Args:
        job: What to predict.
        path: A directory or a pattern.
        out: Directory of the outputs; they have the names of the inputs.
        asked: What identifies the predictions; outputs of others are refused.
        seed: Seed of samples.
        output: Where to report.
        force: Replace the outputs that are there.
        processes: What --processes says.
    """
    inputs = find_inputs(path)
    if out is None or (out.exists() and not out.is_dir()):
        raise TableError(
            f"--out must be a directory for the predictions of {len(inputs)} files, got "
            f"{'none' if out is None else repr(str(out))}; for example --out predictions."
        )
    outputs = {name: out / _output_name(name) for name in inputs}
    _check_names(inputs, outputs)
    is_last = not is_worker() and processes != SCHEDULER
    _claim_directory(out, asked, replaced=outputs if force and is_last else None)
    code = start_processes(processes)
    if code is None:
        code = _predict_all(job, inputs, outputs, out, seed, output, processes)
    if code == 0 and is_last:
        shutil.rmtree(out / _WORK, ignore_errors=True)
    return code


def find_inputs(path: Path) -> dict[str, Path]:
    """Return the files of a data set by their names within it, in order."""
    if path.is_dir():
        found, root = sorted(file for file in path.rglob("*") if file.is_file()), path
    else:
        found = sorted(map(Path, glob.glob(str(path), recursive=True)))
        # The part of the pattern before its first wildcard.
        parts = path.parts
        fixed = next(i for i, part in enumerate(parts) if glob.has_magic(part))
        root = Path(*parts[:fixed])
    files = {file.relative_to(root).as_posix(): file for file in found if file.is_file()}
    tables = {name: file for name, file in files.items() if not _is_hidden(name)}
    if path.is_dir():
        tables = {name: file for name, file in tables.items() if file.suffix.lower() in SUFFIXES}
    if not tables:
        raise TableError(
            f"{path} must hold tables, got none; check the directory, and put a pattern in quotes."
        )
    for file in tables.values():
        check_suffix(file)
    return tables


def _is_hidden(name: str) -> bool:
    return any(part.startswith(("_", ".")) for part in Path(name).parts)


def _output_name(name: str) -> str:
    """Return the name of an output: that of its input where we write such files, else Parquet."""
    path = Path(name)
    plain = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    can_write = plain.suffix.lower() in (*SEPARATORS, ".parquet", ".pq")
    return plain.as_posix() if can_write else plain.with_suffix(".parquet").as_posix()


def _check_names(inputs: Mapping[str, Path], outputs: Mapping[str, Path]) -> None:
    taken: dict[Path, str] = {}
    for name, target in outputs.items():
        if target in taken or target.resolve() in {file.resolve() for file in inputs.values()}:
            other = taken.get(target, "an input")
            raise TableError(
                f"each output must have a name of its own, got {str(target)!r} for {name!r} and "
                f"for {other!r}; choose another --out, or rename one."
            )
        taken[target] = name


def _claim_directory(
    out: Path, asked: Mapping[str, Any], *, replaced: Mapping[str, Path] | None
) -> None:
    """Note what the outputs are, and refuse a directory of other ones.

    Args:
        out: The directory.
        asked: What the outputs are.
        replaced: Outputs to delete first, if they are there and were made by this command.
    """
    out.mkdir(parents=True, exist_ok=True)
    note, text = out / _ASKED, json.dumps(asked, sort_keys=True)
    if not note.exists() and any(out.iterdir()):
        raise TableError(
            f"--out must be a new directory or one of predictions, got {str(out)!r}, which holds "
            "something else; choose another name."
        )
    if replaced is not None and note.exists():
        for file in (note, *replaced.values()):
            file.unlink(missing_ok=True)
    if note.exists() and note.read_text() != text:
        raise TableError(
            f"--out must be a new directory or one of the same predictions to go on with, got "
            f"{str(out)!r}, where another model or other options were used; choose another name, "
            "or replace its files with --force."
        )
    _files.replace(note, text.encode())


def _predict_all(
    job: Prediction,
    inputs: Mapping[str, Path],
    outputs: Mapping[str, Path],
    out: Path,
    seed: int,
    output: Output,
    processes: str | None,
) -> int:
    is_alone = processes is None or count_processes(processes) == 1
    place = None if is_alone else find_place()
    turn = 0 if place is None else place.number
    names = list(inputs)
    # Each process begins elsewhere.
    first = turn * len(names) // (1 if place is None else place.n_processes)
    with shared_work(out / _WORK, turn=turn):
        pieces = {
            f"{zlib.crc32(name.encode()):08x}-{Path(name).name}": partial(
                _predict_one, job, inputs[name], outputs[name], seed, zlib.crc32(name.encode())
            )
            for name in names[first:] + names[:first]
        }
        counts = [one for one in run_shared(pieces, 1) if one is not None]
    if turn == 0:
        done = Counts(*map(sum, zip(*counts, strict=True))) if counts else Counts(0, 0, 0, 0)
        _report(done, len(inputs), len(counts), out, outputs, output)
    return 0


def _predict_one(
    job: Prediction, path: Path, out: Path, seed: int, number: int, file: Any, watch: Any
) -> Counts | None:
    """Predict for one file unless that is done; return what was done now."""
    del file, watch
    if out.exists() and out.stat().st_mtime >= path.stat().st_mtime:
        return None
    out.parent.mkdir(parents=True, exist_ok=True)
    for rest in out.parent.glob(f".{glob.escape(out.name)}.*"):
        rest.unlink()  # of a process that was killed: this one alone has the claim
    try:
        return predict_table(job, path, out, seed, number)
    except NoRowsError:
        return Counts(0, 0, 0, 0)


def _report(
    done: Counts,
    n_inputs: int,
    n_done: int,
    out: Path,
    outputs: Mapping[str, Path],
    output: Output,
) -> None:
    empty = sorted(name for name, target in outputs.items() if not target.exists())
    note = f" {len(empty)} have no rows and no output, {empty[0]} first." if empty else ""
    output.text(
        f"Predictions for {n_inputs:,} files are in {out}: this process wrote {n_done:,} of them, "
        f"with {done.rows:,} rows; the others were there, or other processes wrote them.{note}"
    )
    output.json(
        {**done.facts(), "files": n_inputs, "new_files": n_done, "no_rows": empty, "out": str(out)}
    )
