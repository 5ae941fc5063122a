"""What `ngem fit`, `tune`, `predict`, `evaluate` and `report` do; `messages` has their text."""

import contextlib
import os
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from .. import _files
from .._console import Output
from .._errors import check_choice
from ..estimator.encoding import Encoded
from ..estimator.loading import MODEL_KINDS, load
from ..estimator.members import work_identity
from ..estimator.schema import Schema
from ..training import FitError
from . import messages, scores
from . import tune as tuning
from .encode import Rows
from .fingerprint import Overlap, fingerprint, overlap
from .formats import column_types
from .kinds import Estimator, kind_of
from .opening import STDIN, How, TableError, opened, with_decimal
from .opening import read_how as read_how
from .partitions import file_hash, is_partitioned, predict_partitions
from .predicting import Prediction, predict_table
from .predictions import (
    Wanted,
    central_mass,
    conformal_masses,
    read_wanted,
)
from .processes import make_team, start_fit
from .read import batches, read
from .source import Source
from .spaces import SPACES
from .streamed import open_stream, train_on
from .study import OwnTrials, SharedTrials
from .write import check_output

#: Held-out rows that a model keeps to calibrate intervals.
_MOST_PIT = 10_000


def fit(
    source: Source,
    settings: dict[str, Any],
    out: Path | None,
    output: Output,
    *,
    force: bool = False,
    processes: str | None = None,
    split: str | None = None,
) -> int:
    """Learn from a table, report the scores, and write the model; return the exit code.

    One of several processes alone reports and writes, see `Team`.
    """
    out = _model_path(out, source.path, force=force)
    estimator = _new_estimator(source, settings, output)
    if processes is not None and str(source.path) == STDIN:
        raise TableError(
            "DATA must be a file with --processes, because each process reads it, got standard "
            "input; save it to a file first."
        )
    code = start_fit(processes, out)
    if code is not None:
        return code
    team = make_team(processes, split, source.model, settings, out)
    if team is not None and not team.place.is_first:
        output = Output(quiet=True)
        estimator.set_params(verbose=0)
    working = contextlib.nullcontext() if team is None else team.at_work()
    if source.memory is None:
        with opened(source.path, source.how) as table:
            schema, rows, facts = source.load(table)
        output.text(messages.table_text(source.path, {**settings, **facts}))
        started = time.perf_counter()
        with working:
            _train_or_explain(estimator, source, schema, rows)
    else:
        started = time.perf_counter()
        stream = open_stream(source)
        output.text(messages.stream_text(source.path, stream))
        with _explained(source), working:
            schema, rows, facts = train_on(estimator, source, stream)
        output.text(messages.table_text(source.path, {**settings, **facts}))
    seconds = time.perf_counter() - started
    if team is not None and not team.place.is_first:
        return 0
    result = {
        **facts,
        **judge(estimator, rows, schema.targets),
        "seconds": seconds,
        "model": str(out),
    }
    estimator.save(out)
    output.text(messages.training_text(result))
    reason = getattr(estimator, "family_reason_", None)
    if reason is not None:
        result["family_reason"] = reason
        output.text(f"Family:   {reason}")
    output.text(messages.summary_text(result))
    output.text(messages.plain_text(result))
    output.text(f"Model written to {out}")
    output.json(result)
    return 0


def tune(
    source: Source,
    settings: dict[str, Any],
    budget: str,
    out: Path | None,
    output: Output,
    *,
    force: bool = False,
    study: Path | None = None,
) -> None:
    """Choose settings by validation likelihood; write the best model.

    Trials are single members, which train fast. The best settings are then fitted once more, with
    all members. Ctrl-C ends the search, and the best trial so far is written. A study is a file of
    trials that several processes share.
    """
    check_choice("--model of ngem tune", source.model, SPACES)
    limit = tuning.read_budget(budget)
    out = _model_path(out, source.path, force=force)
    new = _new_estimator(source, settings, output)  # refuses settings that no trial could use
    with opened(source.path, source.how) as table:
        schema, rows, facts = source.load(table)
    resolved = source.kind.resolve(new.get_params(), len(schema.targets), len(rows.x))
    output.text(messages.table_text(source.path, {**settings, **facts}))
    output.text(f"Budget:   {limit}; the first trial has the default settings")

    def fit_trial(chosen: dict[str, Any], callbacks: list[Callable]) -> tuple[Estimator, float]:
        settings_of_trial = {**settings, **chosen, "n_members": 1, "callbacks": callbacks}
        estimator = _new_estimator(source, settings_of_trial, output)
        _train(estimator, source, schema, rows)
        if not estimator.diagnostics_["validation_rows"]:
            raise TableError(
                f"tuning must have validation rows, got {len(rows.x)} rows, too few to hold some "
                "out; use `ngem fit`."
            )
        assert estimator.oof_log_prob_ is not None, "a fitted estimator knows its rows"
        nll = -float(np.nanmean(estimator.oof_log_prob_))
        return estimator, nll - estimator.diagnostics_["nll_offset"]

    record = OwnTrials(source.seed)
    if study is not None:
        known = {**settings, "model": source.model, "columns": repr(schema)}
        arrays = (rows.x, rows.y, source.validation_fraction)
        record = SharedTrials(study, work_identity(known, source.seed, arrays), source.seed)
    started = time.perf_counter()
    best, top, trials, was_interrupted = tuning.search(
        fit_trial,
        limit,
        space=SPACES[source.model],
        n_components=resolved["n_components"],
        record=record,
        report=lambda trial, top: output.text(
            messages.trial_text(trial, top, time.perf_counter() - started, limit)
        ),
    )
    if best is None or (new.n_members > 1 and not was_interrupted):
        chosen = top.settings
        single, best = best, _new_estimator(source, {**settings, **chosen}, output)
        members = f"{new.n_members} {source.kind.member}s"
        output.text(f"Last fit: {messages.settings_text(chosen)}, {members}")
        try:
            _train_or_explain(best, source, schema, rows)
        except KeyboardInterrupt:
            if single is None:
                raise
            best, was_interrupted = single, True
    result = {
        **facts,
        **judge(best, rows, schema.targets),
        "seconds": time.perf_counter() - started,
        "trials": [trial.as_dict() for trial in trials],
        "interrupted": was_interrupted,
        "model": str(out),
    }
    best.save(out)
    output.text(messages.summary_text(result))
    output.text(messages.tuned_text(result))
    output.text(f"Model written to {out}")
    output.json(result)
    if was_interrupted:
        raise KeyboardInterrupt  # the work is not done, though the best trial is kept


def predict(
    model: Path,
    path: Path,
    *,
    how: How | None = None,
    quantiles: str = "0.05,0.5,0.95",
    interval: float | None = None,
    kind: str = "equal-tailed",
    samples: int = 0,
    above: str | None = None,
    conformal: bool = False,
    calibration: Path | None = None,
    keep: str | None = None,
    formulas: bool = False,
    missing: str | None = None,
    seed: int = 0,
    out: Path | None = None,
    force: bool = False,
    processes: str | None = None,
    output: Output,
) -> int:
    """Write predictions for each row of a table or of many, a batch at a time.

    Returns:
        The exit code.
    """
    estimator, schema = _load_model(model, missing)
    wanted = read_wanted(quantiles, interval, kind, samples, above)
    if conformal or calibration is not None:
        rows = None if calibration is None else _read_rows(calibration, schema, how)
        wanted = _calibrated(estimator, wanted, rows, output)
    job = Prediction(estimator, schema, wanted, keep, formulas, how)
    if is_partitioned(path):
        asked = {"quantiles": quantiles, "interval": interval, "kind": kind, "samples": samples}
        asked |= {"above": above, "keep": keep, "missing": missing, "seed": seed}
        asked |= {"masses": None if wanted.masses is None else np.asarray(wanted.masses).tolist()}
        return predict_partitions(
            job, path, out, {**asked, "model": file_hash(model)}, seed, output, force=force,
            processes=processes,
        )  # fmt: skip
    if processes is not None:
        raise TableError(
            "--processes of ngem predict must come with a directory or a pattern of files, got one "
            f"file, {str(path)!r}; leave --processes out."
        )
    if out is not None:
        _check_out(out, model, path)
        check_output(out)
        if not force:
            _check_replaces_predictions(out, schema.targets)
    counts = predict_table(job, path, out, seed)
    output.text(messages.predicted_text(counts.rows, counts.empty, counts.unseen, out))
    if counts.quoted:
        output.text(messages.quoted_text(counts.quoted))
    output.json({**counts.facts(), "out": None if out is None else str(out)})
    return 0


def _read_rows(path: Path, schema: Schema, how: How | None, **settings: Any) -> Rows:
    """Return the complete rows of a file as numbers."""
    with opened(path, how) as table:
        batch, _ = read(with_decimal(table, schema.decimal), schema, **settings)
    return batch.encoded(schema)


def _calibrated(estimator: Estimator, wanted: Wanted, rows: Rows | None, output: Output) -> Wanted:
    """Return what to predict, with intervals that rows calibrate: given ones, or held-out ones."""
    if wanted.interval is None:
        raise TableError(
            "--conformal and --calibration must come with --interval, got none; for example "
            "--interval 0.9."
        )
    if rows is not None:
        model, x = estimator.model_.encoded(rows.x)
        is_region = wanted.kind == "hdr"
        masses = model.region_mass(x, rows.y) if is_region else central_mass(model.pit(x, rows.y))
    elif wanted.kind == "hdr":
        raise TableError(
            "--conformal with --kind hdr must have rows to calibrate by, got none; give some that "
            "the model was not fitted to: --calibration ROWS."
        )
    elif estimator.held_out_pit_ is None:
        raise TableError(
            "--conformal must have a model that knows its held-out rows, got one that `ngem fit` "
            "did not write, or that held none out; give rows to calibrate by: --calibration ROWS."
        )
    else:
        masses = central_mass(estimator.held_out_pit_)
    needed = conformal_masses(masses, wanted.interval)
    output.text(messages.conformal_text(len(masses), wanted.interval, needed))
    return wanted._replace(masses=needed)


def evaluate(
    model: Path,
    path: Path,
    *,
    how: How | None = None,
    missing: str | None = None,
    output: Output,
) -> None:
    """Report how good a model's predictions are on rows with known targets."""
    estimator, schema = _load_model(model, missing)
    parts, dropped, known = [], 0, Overlap(0, 0)
    with opened(path, how) as table:
        for batch in batches(with_decimal(table, schema.decimal), schema, with_targets=True):
            dropped += int(np.sum(~batch.complete))
            if batch.complete.any():
                rows = batch.encoded(schema)
                x, y = rows.x[rows.complete], rows.y[rows.complete]
                known += overlap(schema.fingerprint, x, y)
                parts.append(scores.score_rows(estimator.model_, x, y))
    if not parts:
        raise TableError(f"{path} must hold rows without gaps, got none ({dropped} were dropped).")
    result = scores.summarize(scores.join(parts), estimator.model_, schema.targets)
    result["dropped_rows"] = dropped
    result["rows_of_the_fit"] = known.fraction
    output.text(messages.evaluated_text(path, result))
    output.json(result)


def report(
    model: Path,
    path: Path,
    *,
    out: Path,
    how: How | None = None,
    missing: str | None = None,
    max_rows: int | None = None,
    seed: int = 0,
    force: bool = False,
    output: Output,
) -> None:
    """Write one page about a model and rows with known targets."""
    from .report import page  # the only command that needs Jinja2

    estimator, schema = _load_model(model, missing)
    _check_out(out, model, path)
    if not force:
        _check_replaces_page(out)
    rows = _read_rows(path, schema, how, max_rows=max_rows, seed=seed)
    title = f"{', '.join(schema.targets)}: {model.name} on {path.name}"
    of_the_fit = _of_the_fit(path, rows, estimator, schema)
    text = page.make_report(estimator, rows, schema, title=title, of_the_fit=of_the_fit)
    _files.replace(out, text.encode())
    output.text(f"Report written to {out}")
    output.json({"report": str(out), "rows": len(rows.x)})


def _of_the_fit(path: Path, rows: Rows, estimator: Estimator, schema: Schema) -> float:
    """Return the fraction of rows that the model was fitted to.

    Without rows to compare by, as in models of earlier versions, a file of the same name with as
    many rows counts as that of the fit.
    """
    fraction = overlap(schema.fingerprint, rows.x, rows.y).fraction
    if fraction is not None:
        return fraction
    fitted_to = shlex.split(schema.command)[2:3]  # ngem fit FILE
    counts = estimator.diagnostics_["training_rows"], estimator.diagnostics_["validation_rows"]
    same_name = [path.name] == [Path(one).name for one in fitted_to]
    return float(same_name and len(rows.x) in (counts[0], sum(counts)))


def judge(estimator: Estimator, rows: Rows, targets: Sequence[str]) -> dict[str, Any]:
    """Return plain numbers about a fit to these rows: scores, gains and components.

    The estimator keeps what calibrates its intervals.

    The scores are those of held-out rows, each by a member that has not seen it, or of all rows if
    the fit held none out.
    """
    held_out, facts = estimator.validation_rows_, estimator.diagnostics_
    assert held_out is not None, "a loaded estimator does not know its validation rows"
    kind = kind_of(estimator)
    members = len(estimator.folds_ or ())
    each = _honest_scores(estimator, rows)
    if len(held_out):
        # What calibrates intervals later; thousands of rows decide as well as more of them.
        some = np.random.default_rng(0).permutation(len(each.pit))[:_MOST_PIT]
        estimator.held_out_pit_ = np.clip(each.pit[np.sort(some)], 0, 1)
    return {
        "training_rows": facts["training_rows"],
        "validation_rows": len(held_out),
        "members": members,
        "judged_by": ("validation" if members == 1 else "folds") if len(held_out) else "training",
        "scores": scores.summarize(each, estimator.model_, targets),
        "gain_over_gaussian": facts["gain_over_gaussian"],
        "gain_over_least_squares": facts["gain_over_linear"],
        "outlier_rows": rows.numbers[facts["outlier_rows"]].tolist(),
        "components": estimator.n_components_,
        **kind.facts(estimator),
    }


def _honest_scores(estimator: Estimator, rows: Rows) -> scores.RowScores:
    """Return the scores of each held-out row once, or of all rows if none were held out."""
    assert estimator.oof_log_prob_ is not None, "a loaded estimator does not know its rows"
    parts = []
    for held_out, model in estimator.held_out_models():
        part = scores.score_rows(model, rows.x[held_out], rows.y[held_out])
        # Only the members have not seen these rows. For this density the linear model beside them
        # has left each of them out as well.
        parts.append(part._replace(nll=-estimator.oof_log_prob_[held_out]))
    return scores.join(parts) if parts else scores.score_rows(estimator.model_, rows.x, rows.y)


def _train(estimator: Estimator, source: Source, schema: Schema, rows: Rows) -> None:
    """Fit an estimator to a table, and record in it what the columns hold."""
    estimator.set_params(**source.kind.of_table(schema))
    y = rows.y[:, 0] if rows.y.shape[1] == 1 else rows.y
    estimator.fit(Encoded(rows.x, schema), y)
    estimator.table_ = schema._replace(
        command=source.command(estimator), fingerprint=fingerprint(rows.x, rows.y)
    )


def _train_or_explain(estimator: Estimator, source: Source, schema: Schema, rows: Rows) -> None:
    """Fit an estimator to a table; training that diverges is an error with advice."""
    with _explained(source):
        _train(estimator, source, schema, rows)


@contextlib.contextmanager
def _explained(source: Source) -> Iterator[None]:
    """Turn errors about parameters of the estimator into errors about options."""
    try:
        yield
    except FitError as error:
        text = source.kind.in_options(str(error))
        raise TableError(f"{text} Or try a lower --learning-rate.") from error
    except ValueError as error:
        raise TableError(source.kind.in_options(str(error))) from error


def _load_model(path: Path, missing: str | None) -> tuple[Estimator, Schema]:
    """Return a model and its columns, with another rule for gaps if one is given."""
    if not path.is_file():
        raise TableError(f"the model must be a file, got {str(path)!r}; `ngem fit` writes one.")
    estimator = load(path)
    schema = getattr(estimator, "table_", None)
    if schema is None or not hasattr(estimator, "feature_names_in_"):
        raise TableError(
            f"{path} must be a model that `ngem fit` wrote, got one fitted in Python to an "
            "array, which does not know the names of its columns; use it in Python, or fit it to a "
            "data frame."
        )
    if missing is None:
        return estimator, schema
    kind = kind_of(estimator)
    check_choice(f"--missing of --model {kind.name}", missing, kind.rules)
    if missing == "impute" and schema.missing != "impute":
        raise TableError(
            f"{path} must have been fitted with --missing impute to fill gaps, got one fitted with "
            f"--missing {schema.missing}; try --missing drop, which leaves such rows empty."
        )
    return estimator, schema._replace(missing=missing)


def _new_estimator(source: Source, settings: dict[str, Any], output: Output) -> Estimator:
    """Return an estimator to fit; bad settings are refused before a large file is read."""
    _ = source.rule  # refuses a rule that this kind of model does not have
    estimator = source.kind.estimator(
        **settings, random_state=source.seed, verbose=int(output.is_text)
    )
    if "validation_fraction" in estimator.get_params(deep=False):
        estimator.set_params(validation_fraction=source.validation_fraction)
    try:
        source.kind.check(estimator.get_params(deep=False))
    except ValueError as error:
        raise TableError(source.kind.in_options(str(error))) from error
    return estimator


def _model_path(out: Path | None, data: Path, *, force: bool) -> Path:
    """Return the file for a model; a bad one is refused before the training, not after it."""
    name = "table" if str(data) == STDIN else data.name.split(".")[0]
    out = Path(f"{name}.ngem") if out is None else out
    _check_out(out, data)
    if not force and out.exists() and _files.read_kind(out) not in MODEL_KINDS:
        _raise_other_file(out, "a model")
    return out


def _raise_other_file(out: Path, what: str) -> NoReturn:
    raise TableError(
        f"--out must be a new file or {what} to replace, got {str(out)!r}, which holds something "
        "else; choose another name, or replace it with --force."
    )


def _check_replaces_predictions(out: Path, targets: Sequence[str]) -> None:
    """Refuse to replace a table that is not one of predictions for these targets."""
    if not out.exists():
        return
    try:
        with opened(out) as table:
            columns = column_types(table)
    except TableError:
        columns = {}  # not even a table
    if f"{targets[0]}_mean" not in columns:
        _raise_other_file(out, "predictions")


def _check_replaces_page(out: Path) -> None:
    """Refuse to replace a file that is not a page."""
    if not out.exists():
        return
    with out.open("rb") as file:
        if not file.read(100).lstrip().lower().startswith(b"<!doctype html"):
            _raise_other_file(out, "a page")


def _check_out(out: Path, *inputs: Path) -> None:
    if any(out.resolve() == path.resolve() for path in inputs):
        raise TableError(
            f"--out must be another file, got {str(out)!r}, which is an input; choose another name."
        )
    if not out.parent.is_dir():
        raise TableError(
            f"--out must be a file in a directory that exists, got {str(out)!r}; create the "
            f"directory first: mkdir -p {shlex.quote(str(out.parent))}"
        )
    if out.is_dir() or not os.access(out.parent, os.W_OK):
        got = "which is a directory" if out.is_dir() else "whose directory you may not write to"
        raise TableError(
            f"--out must be a file in a directory that you may write to, got {str(out)!r}, {got}; "
            "choose another."
        )
