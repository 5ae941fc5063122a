"""What `ngem fit`, `predict`, `evaluate` and `tune` do, and the words in which they say it."""

import json
import os
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .. import _files
from .._errors import check_choice, check_fraction
from ..estimator import parameters
from ..estimator.prediction import Model
from ..estimator.preprocessing import split_rows
from ..estimator.regressor import MDNRegressor
from ..estimator.schema import MISSING, Schema
from ..training import FitError
from . import read as tables
from . import scores as table_scores
from . import tune as tuning
from .read import TableError


@dataclass(frozen=True)
class Source:
    """Which rows and columns to learn from.

    Attributes:
        path: The file.
        target: Columns to predict, "a,b".
        features: Columns to predict from; all others if None.
        exclude: Columns that are no features.
        categorical: Columns of numbers that are names.
        missing: "error", "drop" or "impute".
        max_rows: How many rows to take at most, at random.
        validation_fraction: Share of rows held out.
        seed: Of the choice of rows, of the split and of training.
    """

    path: Path
    target: str
    features: str | None = None
    exclude: str | None = None
    categorical: str | None = None
    missing: str = "error"
    max_rows: int | None = None
    validation_fraction: float = 0.1
    seed: int = 0


@dataclass(frozen=True)
class Voice:
    """How to speak: a text on standard output, one JSON object there, or nothing.

    Attributes:
        quiet: Say nothing.
        as_json: Print one JSON object at the end, and nothing else.
        to_errors: Standard output is for data; say what there is to say beside it.
    """

    quiet: bool = False
    as_json: bool = False
    to_errors: bool = False

    @property
    def talks(self) -> bool:
        """Whether a person reads along."""
        return not (self.quiet or self.as_json)

    def say(self, text: str) -> None:
        """Print a line for a person."""
        if self.talks:
            print(text, file=sys.stderr if self.to_errors else sys.stdout, flush=True)

    def result(self, found: dict[str, Any]) -> None:
        """Print what a script reads."""
        if self.as_json:
            print(json.dumps(found, indent=2, allow_nan=False))


@dataclass(frozen=True)
class Loaded:
    """A table in memory, split into rows to learn from and rows to judge by."""

    source: Source
    schema: Schema
    x: np.ndarray
    y: np.ndarray
    train: np.ndarray
    held_out: np.ndarray
    facts: dict[str, Any] = field(default_factory=dict)

    def fit(self, estimator: MDNRegressor) -> MDNRegressor:
        """Train an estimator, which then knows the table."""
        watched = (self.x[self.held_out], self._targets(self.held_out))
        eval_set = watched if len(self.held_out) else None
        estimator.fit(self.x[self.train], self._targets(self.train), eval_set=eval_set)
        estimator.table_ = self.schema._replace(command=_command(self.source, estimator))
        return estimator

    @property
    def judged(self) -> np.ndarray:
        """The rows to judge by; those learned from where none were held out."""
        return self.held_out if len(self.held_out) else self.train

    def _targets(self, rows: np.ndarray) -> np.ndarray:
        return self.y[rows, 0] if self.y.shape[1] == 1 else self.y[rows]


def fit(source: Source, settings: dict[str, Any], out: Path | None, voice: Voice) -> None:
    """Learn from a table, say how well it went, and write the model."""
    out = _model_path(out, source.path)
    estimator = _estimator(source, settings, voice)
    loaded = load_table(source, voice)
    started = time.perf_counter()
    try:
        loaded.fit(estimator)
    except FitError as error:
        raise TableError(f"{error} Or try a lower --learning-rate.") from error
    seconds = time.perf_counter() - started
    found = {**loaded.facts, **judge(estimator, loaded), "seconds": seconds, "model": str(out)}
    estimator.save(out)
    voice.say(_trained(found))
    voice.say(_summary(found))
    voice.say(f"Model written to {out}")
    voice.result(found)


def tune(
    source: Source,
    settings: dict[str, Any],
    budget: str,
    out: Path | None,
    voice: Voice,
) -> None:
    """Choose components, width and learning rate by validation likelihood; write the best model."""
    limit = tuning.read_budget(budget)
    out = _model_path(out, source.path)
    _estimator(source, settings, voice)  # refuses settings that no trial could use
    loaded = load_table(source, voice)
    if not len(loaded.held_out):
        raise TableError(
            f"tuning must have rows to judge by, got {len(loaded.x)} rows, too few to hold some "
            "out; use `ngem fit`."
        )
    voice.say(f"Budget: {limit}. The first trial has the default settings.")
    started = time.perf_counter()
    best, trials = tuning.search(
        lambda chosen, callbacks: loaded.fit(
            _estimator(source, {**settings, **chosen, "callbacks": callbacks}, voice)
        ),
        limit,
        seed=source.seed,
        report=lambda trial, top: voice.say(_trial_line(trial, top, started, limit)),
    )
    found = {
        **loaded.facts,
        **judge(best, loaded),
        "seconds": time.perf_counter() - started,
        "trials": [trial.plain() for trial in trials],
        "model": str(out),
    }
    best.save(out)
    voice.say(_summary(found))
    voice.say("These rows chose among the trials, so that others will score a little lower.")
    voice.say(f"Model written to {out}")
    voice.result(found)


def predict(
    model: Path,
    path: Path,
    *,
    quantiles: str,
    interval: float | None,
    kind: str,
    samples: int,
    keep: str | None,
    missing: str | None,
    seed: int,
    out: Path | None,
    voice: Voice,
) -> None:
    """Write predictions for each row of a table, a batch at a time."""
    estimator, schema = _load_model(model, missing)
    levels = _read_quantiles(quantiles)
    check_choice("--kind", kind, ("equal-tailed", "hdr"))
    if interval is not None:
        check_fraction("--interval", interval)
    if out is not None:
        _check_place(out, model, path)
        tables.check_suffix(out)
    kept = tables.split_names(keep, tables.column_names(path))
    key = jax.random.key(seed)
    rows = empty = 0
    with tables.writing(out) as append:
        for batch in tables.batches(path, schema, with_targets=False, keep=kept):
            columns = _predictions(
                estimator.model_,
                schema.targets,
                batch.x[batch.complete],
                levels=levels,
                interval=interval,
                kind=kind,
                samples=samples,
                key=jax.random.fold_in(key, rows),
            )
            append(tables.beside(batch, columns))
            rows, empty = rows + len(batch.x), empty + int(np.sum(~batch.complete))
        if rows == 0:
            raise TableError(f"{path} must hold rows below its header, got none.")
    gaps = f", {empty} of them empty for gaps in their features" if empty else ""
    where = "standard output" if out is None else out
    voice.say(f"Predictions for {rows:,} rows{gaps}, written to {where}")
    voice.result({"rows": rows, "empty_rows": empty, "out": None if out is None else str(out)})


def evaluate(model: Path, path: Path, *, missing: str | None, voice: Voice) -> None:
    """Say how good a model's predictions are for rows whose targets are known."""
    estimator, schema = _load_model(model, missing)
    parts, dropped = [], 0
    for batch in tables.batches(path, schema, with_targets=True):
        dropped += int(np.sum(~batch.complete))
        if batch.complete.any():
            x, y = batch.x[batch.complete], batch.y[batch.complete]
            parts.append(table_scores.score_rows(estimator.model_, x, y))
    if not parts:
        raise TableError(f"{path} must hold rows without gaps, got none ({dropped} were dropped).")
    scores = table_scores.join(parts)
    found = table_scores.summarise(scores, estimator.model_, schema.targets)
    found["dropped_rows"] = dropped
    gaps = f" ({dropped:,} more dropped for their gaps)" if dropped else ""
    voice.say(f"On the {found['rows']:,} rows of {path.name}{gaps}:")
    voice.say("\n".join(_score_lines(found)))
    voice.result(found)


def report(
    model: Path,
    path: Path,
    *,
    out: Path,
    missing: str | None,
    max_rows: int | None,
    seed: int,
    voice: Voice,
) -> None:
    """Write one page about a model and rows whose targets are known."""
    from .report import page as html_report  # draws, which no other command does

    estimator, schema = _load_model(model, missing)
    _check_place(out, model, path)
    rows = tables.read(path, schema, max_rows=max_rows, seed=seed)
    page = html_report.make_report(
        estimator,
        html_report.Table(rows.x, rows.y, schema, rows.numbers),
        title=f"{', '.join(schema.targets)}: {model.name} on {path.name}",
    )
    _files.replace(out, page.encode())
    voice.say(f"Report written to {out}")
    voice.result({"report": str(out), "rows": len(rows.x)})


def load_table(source: Source, voice: Voice) -> Loaded:
    """Read a table, split its rows, and say what was found."""
    names = tables.column_names(source.path)
    schema, rows = tables.describe(
        source.path,
        tables.split_names(source.target, names),
        features=tables.split_names(source.features, names),
        exclude=tables.split_names(source.exclude, names),
        categorical=tables.split_names(source.categorical, names),
        missing=source.missing,
    )
    found = tables.read(source.path, schema, rows=rows, max_rows=source.max_rows, seed=source.seed)
    if len(found.x) < 2:
        raise TableError(f"{source.path} must hold at least two rows to learn from, got one.")
    rng = np.random.default_rng(source.seed)
    train, held_out = split_rows(len(found.x), source.validation_fraction, rng)
    facts = {
        "rows": rows,
        "used_rows": len(found.x),
        "dropped_rows": found.dropped,
        "training_rows": len(train),
        "validation_rows": len(held_out),
        "features": {column.name: column.kind for column in schema.features},
        "inputs": schema.n_features,
        "targets": list(schema.targets),
        "seed": source.seed,
    }
    voice.say(_table_lines(source, facts))
    return Loaded(source, schema, found.x, found.y, train, held_out, facts)


def judge(estimator: MDNRegressor, loaded: Loaded) -> dict[str, Any]:
    """Return plain numbers about a fit: scores on the rows to judge by, gains and components."""
    x, y = loaded.x[loaded.judged], loaded.y[loaded.judged]
    scores = table_scores.score_rows(estimator.model_, x, y)
    told = estimator.diagnostics_
    return {
        "judged_by": "validation" if len(loaded.held_out) else "training",
        "scores": table_scores.summarise(scores, estimator.model_, loaded.schema.targets),
        "gain_over_gaussian": told["gain_over_gaussian"],
        "gain_over_least_squares": told["gain_over_linear"],
        "components": int(estimator.n_components),
        "effective_components": told["effective_components"],
        "dead_components": told["dead_components"],
        "epochs": estimator.n_iter_,
        "best_epoch": estimator.best_epoch_ + 1,
    }


def _load_model(path: Path, missing: str | None) -> tuple[MDNRegressor, Schema]:
    """Return a model and its table, with another rule for gaps if asked for."""
    if not path.is_file():
        raise TableError(f"the model must be a file, got {str(path)!r}; `ngem fit` writes one.")
    estimator = MDNRegressor.load(path)
    schema = estimator.table_
    if schema is None:
        raise TableError(
            f"{path} must be a model that `ngem fit` wrote, got one fitted in Python, which knows "
            "no columns; predict with it there: MDNRegressor.load(...)."
        )
    if missing is None:
        return estimator, schema
    check_choice("--missing", missing, MISSING)
    if missing == "impute" and schema.missing != "impute":
        raise TableError(
            f"{path} must have been fitted with --missing impute to fill gaps, got one fitted with "
            f"{schema.missing!r}; try --missing drop, which leaves such rows empty."
        )
    return estimator, schema._replace(missing=missing)


def _estimator(source: Source, settings: dict[str, Any], voice: Voice) -> MDNRegressor:
    """Return an estimator to be fitted, refusing settings before a large file is read."""
    check_choice("--missing", source.missing, MISSING)
    estimator = MDNRegressor(
        **settings,
        missing="impute" if source.missing == "impute" else "error",
        validation_fraction=source.validation_fraction,
        random_state=source.seed,
        verbose=int(voice.talks),
    )
    parameters.check(estimator.get_params(deep=False))
    return estimator


def _command(source: Source, estimator: MDNRegressor) -> str:
    """Return the command that would fit the same model to the same file."""
    chosen = {
        "target": source.target,
        "features": source.features,
        "exclude": source.exclude,
        "categorical": source.categorical,
        "missing": source.missing,
        "max-rows": source.max_rows,
        "validation-fraction": source.validation_fraction,
        "components": estimator.n_components,
        "hidden": ",".join(map(str, estimator.hidden_sizes)),
        "covariance": estimator.covariance,
        "objective": estimator.objective,
        "learning-rate": estimator.learning_rate,
        "epochs": estimator.max_epochs,
        "seed": source.seed,
    }
    words = ["ngem", "fit", str(source.path)]
    for name, value in chosen.items():
        words += [] if value is None else [f"--{name}", str(value)]
    return shlex.join(words)


def _model_path(out: Path | None, data: Path) -> Path:
    """Return where to write a model, refusing early rather than after an hour of training."""
    out = Path(f"{data.stem}.ngem") if out is None else out
    _check_place(out, data)
    return out


def _check_place(out: Path, *read: Path) -> None:
    if any(out.resolve() == path.resolve() for path in read):
        raise TableError(
            f"--out must be another file, got {str(out)!r}, which is read; choose another name."
        )
    if out.is_dir() or not out.parent.is_dir() or not os.access(out.parent, os.W_OK):
        raise TableError(
            f"--out must be a file in a directory that can be written to, got {str(out)!r}; make "
            f"the directory first: mkdir -p {str(out.parent)!r}."
        )


def _read_quantiles(text: str) -> list[float]:
    try:
        levels = [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise ValueError(
            f"--quantiles must be numbers with commas between them, got {text!r}; for example "
            "--quantiles 0.05,0.5,0.95."
        ) from None
    if levels:
        check_fraction("--quantiles", np.array(levels))
    return levels


def _predictions(
    model: Model,
    targets: Sequence[str],
    x: np.ndarray,
    *,
    levels: Sequence[float],
    interval: float | None,
    kind: str,
    samples: int,
    key: jax.Array,
) -> dict[str, np.ndarray]:
    """Return the columns to write for complete rows, target by target."""
    # Where all rows of a batch have gaps there is nothing to compute; the columns are the same.
    rows = x if len(x) else np.zeros((1, x.shape[1]))
    blocks = [(["mean"], model.mean(rows)[:, None])]
    if levels:
        names = [f"q{level:g}" for level in levels]
        blocks.append((names, model.quantiles(rows, np.array(levels))))
    if interval is not None:
        blocks.append(_interval(model, rows, interval, kind))
    if samples:
        names = [f"sample{number + 1}" for number in range(samples)]
        blocks.append((names, model.sample(rows, samples, key)))
    return {
        f"{target}_{name}": values[: len(x), index, column]
        for column, target in enumerate(targets)
        for names, values in blocks
        for index, name in enumerate(names)
    }


def _interval(model: Model, x: np.ndarray, share: float, kind: str) -> tuple[list[str], np.ndarray]:
    """Return names and values of the ends of each row's region, NaN where it has fewer pieces."""
    found = model.interval(x, share, kind)
    pieces = found.shape[2]
    ends = found.reshape(*found.shape[:2], 2 * pieces).swapaxes(1, 2)
    numbers = [""] if kind == "equal-tailed" else [f"_{piece + 1}" for piece in range(pieces)]
    sides = ("lower", "upper")
    return [f"{side}{share:g}{number}" for number in numbers for side in sides], ends


def _table_lines(source: Source, facts: dict[str, Any]) -> str:
    kinds = list(facts["features"].values())
    words = {"number": "numbers", "boolean": "true and false", "category": "categories"}
    counted = ", ".join(
        f"{kinds.count(kind)} of {word}" for kind, word in words.items() if kind in kinds
    )
    taken = ""
    if facts["used_rows"] + facts["dropped_rows"] < facts["rows"]:
        taken = f", {facts['used_rows'] + facts['dropped_rows']:,} of them taken at random"
    if facts["dropped_rows"]:
        taken += f", {facts['dropped_rows']:,} dropped for their gaps"
    held_out = "none held out, as there are so few"
    if facts["validation_rows"]:
        held_out = f"{facts['validation_rows']:,} held out to stop in time and to judge by"
    return (
        f"Table:    {source.path.name}, {facts['rows']:,} rows{taken}\n"
        f"Features: {len(kinds)} columns ({counted}), {facts['inputs']} inputs of the network\n"
        f"Targets:  {', '.join(facts['targets'])}\n"
        f"Split:    {facts['training_rows']:,} rows to learn from, {held_out} (seed "
        f"{facts['seed']})"
    )


def _trained(found: dict[str, Any]) -> str:
    return (
        f"Trained {found['epochs']:,} epochs in {found['seconds']:.1f} s; kept those up to epoch "
        f"{found['best_epoch']:,}, the best on {found['judged_by']} rows."
    )


def _summary(found: dict[str, Any]) -> str:
    return "\n".join(_summary_lines(found))


def _summary_lines(found: dict[str, Any]) -> Iterator[str]:
    scores = found["scores"]
    yield f"\nOn the {scores['rows']:,} {found['judged_by']} rows:"
    yield from _score_lines(scores)
    gains = (("one Gaussian for all rows", "gaussian"), ("plain least squares", "least_squares"))
    for label, name in gains:
        gain = found[f"gain_over_{name}"]
        told = "cannot be told" if gain is None else f"{gain:.3f} nat a row"
        yield f"  gain over {label}: {told}"
    effective, dead = found["effective_components"], len(found["dead_components"])
    told = "" if effective is None else f"{effective:.1f} in use at a time, of "
    yield f"  components: {told}{found['components']}; {dead or 'none'} never used"


def _score_lines(scores: dict[str, Any]) -> Iterator[str]:
    yield (
        f"  NLL: {scores['nll']:.3f} nat a row in your units, {scores['nll_standardised']:.3f} in "
        "standardised ones (negative is fine: it is a log density)"
    )
    for name, told in scores["targets"].items():
        shares = ", ".join(
            f"{float(share):.0%} intervals hold {found:.0%}"
            for share, found in told["coverage"].items()
        )
        yield f"  {name}: RMSE {told['rmse']:.4g}, {_crps(told['crps'])}; {shares} of the rows"
        yield (
            f"  {name}: calibration {told['calibration']} (PIT uniformity p = "
            f"{told['pit_p_value']:.2g})"
        )


def _trial_line(
    trial: tuning.Trial, best: tuning.Trial, started: float, limit: tuning.Budget
) -> str:
    score = f"NLL {trial.nll:.3f}" if trial.ended == "complete" else f"stopped: {trial.ended}"
    components, sizes, rate = trial.settings.values()
    return (
        f"{limit.progress(trial.number, time.perf_counter() - started)}: K = {components}, width "
        f"{sizes[0]}, rate {rate:.2g}: {score}; best so far {best.nll:.3f} (trial {best.number})"
    )


def _crps(value: float | None) -> str:
    return "no CRPS of these components" if value is None else f"CRPS {value:.4g}"
