"""The text that commands print about tables, fits, trials and scores."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..families import get_family, is_known
from . import tune as tuning
from .kinds import KINDS
from .notes import unseen_text
from .scores import calibration_text

_KINDS = {
    "number": "numeric",
    "boolean": "true or false",
    "category": "categorical",
    "date": "of dates",
}

#: Words for the settings that a search chooses.
_SETTINGS = {
    "n_components": "components",
    "hidden_sizes": "width",
    "num_leaves": "leaves",
    "min_rows_in_leaf": "rows in a leaf",
    "learning_rate": "learning rate",
    "weight_rate": "rate of weights",
}

#: Nats per row from which on a gain is worth a word.
_GAIN = 0.02

#: Outlier rows that are named.
_NAMED = 5


def table_text(path: Path, facts: dict[str, Any]) -> str:
    """Return what was read from a table, and what was done about columns that need a word."""
    kinds = list(facts["features"].values())
    counts = ", ".join(
        f"{kinds.count(kind)} {word}" for kind, word in _KINDS.items() if kind in kinds
    )
    dropped, without = facts["dropped_rows"], facts["rows_without_target"]
    taken = facts["used_rows"] + dropped + without
    sampled = f", {taken:,} of them sampled at random" if taken < facts["rows"] else ""
    gaps = f", {dropped:,} left out because of gaps" if dropped else ""
    without = f", {without:,} left out for want of a target" if without else ""
    # Trees read each column as it is.
    inputs = f", {count(facts['inputs'], 'network input')}" if facts["kind"] != "trees" else ""
    name = "standard input" if str(path) == "-" else path.name
    lines = [
        f"Table:    {name}, {count(facts['rows'], 'row')}{sampled}{gaps}{without}",
        f"Features: {count(len(kinds), 'column')} ({counts}){inputs}",
        f"Targets:  {', '.join(facts['targets'])}",
        *(f"Note:     {note}." for note in _notes(facts)),
    ]
    return "\n".join(lines)


def stream_text(path: Path, stream: Any) -> str:
    """Return what a stream is, before its first pass."""
    pieces = stream.source.pieces
    files = len({piece.file for piece in pieces})
    rows = sum(piece.rows for piece in pieces)
    groups = f"{count(len(pieces), 'row group')} of {count(files, 'file')}"
    return f"Stream:   {path.name}, {count(rows, 'row')} in {groups}; reading once for its columns"


def _notes(facts: dict[str, Any]) -> Iterator[str]:
    """Yield what was done about the file and its columns, a sentence each."""
    yield from facts["file_notes"]
    columns: dict[str, list[str]] = {}
    for name, note in facts["column_notes"].items():
        columns.setdefault(note, []).append(name)
    for note, names in columns.items():
        yield f"{', '.join(names)}: {note}"
    if any(note.startswith("left out") for note in columns):
        yield "to use a column that was left out, name all columns to use in --features"
    gaps = sorted(facts["gaps"].items(), key=lambda item: -item[1])
    if gaps:
        some = ", ".join(f"{name} in {rows:,} rows" for name, rows in gaps[:_NAMED])
        more = f" and {len(gaps) - _NAMED} other columns" if len(gaps) > _NAMED else ""
        what = (
            "they are read as they are"
            if facts["kind"] == "trees"
            else "numbers are replaced by their median, and networks see where"
        )
        yield f"gaps: {some}{more}; {what}"
    yield from facts["target_notes"]
    for name, step in zip(facts["targets"], facts["steps"], strict=True):
        if step is not None and facts.get("resolution") is None and not _are_counts(facts):
            yield (
                f"{name} is rounded to steps of {step:.3g}, so a density can be very high at "
                f"single values and its likelihood has no bound; --resolution {step:.3g} bounds it"
            )
    for name, (family, reason) in _proposals(facts):
        # Names with spaces, such as those of families with an atom, need quotes.
        quoted = f"'{family}'" if set(family) & set(" (") else family
        yield (
            f"{name}: {reason}, and components of the default family reach beyond; --family "
            f"{quoted} does not"
        )


def count(number: int, what: str) -> str:
    """Return a number of things in words: 1 row, 2 rows."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _are_counts(facts: dict[str, Any]) -> bool:
    """Return whether the user has chosen a family of counts: rounding is then no fault."""
    family = facts.get("family") or ""
    return is_known(family, "diag") and not get_family(family).takes_intervals


def _proposals(facts: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the targets to which another family is proposed, unless the user has chosen one."""
    if facts.get("family") is not None or "family" not in KINDS[facts["kind"]].options:
        return []
    pairs = zip(facts["targets"], facts["proposals"], strict=True)
    return [(name, proposal) for name, proposal in pairs if proposal is not None]


def training_text(result: dict[str, Any]) -> str:
    """Return how the rows were split, and how the training went."""
    kind, rows, members = KINDS[result["kind"]], result["training_rows"], result["members"]
    if "kinds" in result:
        return _stack_text(result)
    kept = kind.kept_text(result[f"best_{kind.step}s"])
    if result["judged_by"] == "folds":
        split = f"{count(rows, 'row')} in {members} folds; each {kind.member} holds one fold out"
        kept = f"{kept}, each the best on its own fold"
    elif result["judged_by"] == "validation":
        split = f"{count(rows, 'row')} for training, {result['validation_rows']:,} for validation"
        kept = f"{kept}, the best on the validation rows"
    else:
        split = f"{count(rows, 'row')} for training, none for validation, because there are too few"
        kept = "kept the last epoch" if kind.step == "epoch" else "kept all of them"
    what = "" if kind.what == f"{kind.member}s" else f"{kind.what}, "
    trained = f"{members} {kind.member}s, at most " if members > 1 else ""
    steps = f"{count(result[f'{kind.step}s'], kind.step)} in {result['seconds']:.1f} s"
    return f"Split:    {split} (seed {result['seed']})\nTraining: {what}{trained}{steps}; {kept}"


def _stack_text(result: dict[str, Any]) -> str:
    """Return what became of each kind of a stack."""
    kinds = result["kinds"]
    width = max(len(kind["name"]) for kind in kinds)
    number = "1 kind of model" if len(kinds) == 1 else f"{len(kinds)} kinds of models"
    members = f"{result['members']} members of each kind"
    lines = [
        _gains_text(result),
        f"Split:    {result['training_rows']:,} rows; {members}, and each holds out one row in "
        f"{result['folds']} (seed {result['seed']})",
        f"Training: {number} in {result['seconds']:.1f} s, weighted by held-out rows",
    ]
    for kind in kinds:
        if kind["oof_nll"] is not None:
            told = f"NLL {kind['oof_nll']:.3f}, weight {kind['weight']:.2f}, {kind['seconds']} s"
        else:
            told = kind["outcome"]
        lines.append(f"  {kind['name']:<{width}}  {told}")
    return "\n".join([*lines, f"Width:    {width_text(result['width'], result['gain_of_width'])}"])


def width_text(width: float, gain: float) -> str:
    """Return what held-out rows said of the width of a stack's components."""
    if width == 1.0:
        return "components are as wide as they were learned; held-out rows prefer that"
    narrower = f"components are {1 - width:.0%} narrower, chosen by held-out rows"
    return f"{narrower} ({gain:.3f} nat per row)"


def summary_text(result: dict[str, Any]) -> str:
    """Return the scores of a fit, its gains over simple models, and its components."""
    return "\n".join(_summary_lines(result))


def plain_text(result: dict[str, Any]) -> str:
    """Return what a fit means, in a sentence for each target."""
    scores = result["scores"]
    unseen = "rows that it had not seen" if result["judged_by"] != "training" else "its own rows"
    lines = [
        f"In words: on {unseen}, {target['coverage']['0.9']:.0%} of {name} lay in the 90% "
        f"intervals, and predicted means were off by {target['rmse']:.3g} (root mean square)."
        for name, target in scores["targets"].items()
    ]
    gain = gain_text(result["gain_over_least_squares"])
    lines += [f"          {gain}"] if gain else []
    return "\n".join(lines)


def gain_text(gain: float | None) -> str:
    """Return what a gain over a linear model means, as a sentence; empty if it is unknown."""
    if gain is None:
        return ""
    if gain <= _GAIN:
        return "A straight line with constant noise predicts about as well."
    return (
        f"The density at the true value was {math.exp(gain):.2g} times that of a straight line "
        "with constant noise."
    )


def scores_text(scores: dict[str, Any]) -> str:
    """Return the scores of all targets jointly and of each target."""
    return "\n".join(_score_lines(scores))


def evaluated_text(path: Path, scores: dict[str, Any]) -> str:
    """Return the scores of a model on the rows of a file."""
    dropped = scores["dropped_rows"]
    gaps = f" ({dropped:,} more dropped because of gaps)" if dropped else ""
    name = "standard input" if str(path) == "-" else path.name
    known = of_the_fit_text(scores.get("rows_of_the_fit"))
    note = f"Note: {known}\n" if known else ""
    return f"{note}On the {count(scores['rows'], 'row')} of {name}{gaps}:\n{scores_text(scores)}"


def of_the_fit_text(fraction: float | None) -> str:
    """Return a warning about rows that the model was fitted to; none if there are hardly any.

    Args:
        fraction: The fraction of such rows; None if it is not known.
    """
    if fraction is None or fraction < 0.01:
        return ""
    if fraction > 0.99:
        which = "These are the rows that the model was fitted to."
    else:
        which = (
            f"About {fraction:.0%} of these rows are equal to rows that the model was fitted to."
        )
    return f"{which} It knows them, so the scores are too good. Judge it by other rows."


def predicted_text(rows: int, empty: int, unseen: int, out: Path | None) -> str:
    """Return how many rows were predicted, and where the predictions are."""
    gaps = f" ({empty:,} of them empty because of gaps)" if empty else ""
    note = f"\nNote:     {unseen_text(unseen)}." if unseen else ""
    where = out or "standard output"
    return f"Predictions for {count(rows, 'row')}{gaps} written to {where}{note}"


def quoted_text(cells: int) -> str:
    """Return a note on cells that were changed because a spreadsheet would run them."""
    return (
        f"Note: {cells:,} cells begin with =, +, - or @, and a spreadsheet would run them as "
        "formulas; they have ' in front. --formulas writes them as they are."
    )


def settings_text(settings: dict[str, Any]) -> str:
    """Return the settings that a trial chooses."""
    return ", ".join(f"{_SETTINGS[name]} {_setting(value)}" for name, value in settings.items())


def _setting(value: Any) -> str:
    """Return a setting as text; of the widths of layers, which are equal, the first."""
    first = value[0] if isinstance(value, tuple) else value
    return f"{first:.2g}" if isinstance(first, float) else str(first)


def conformal_text(rows: int, level: float, masses: Sequence[float]) -> str:
    """Return how intervals were calibrated."""
    under = ", ".join(f"{mass:.1%}" for mass in masses)
    return (
        f"Intervals: calibrated by {count(rows, 'row')}; to hold {level:.0%} of the targets they "
        f"have probability {under} under the model"
    )


def tuned_text(result: dict[str, Any]) -> str:
    """Return what the scores after a search mean."""
    if result.get("interrupted"):
        return (
            "Interrupted: this is the best trial so far, a single "
            f"{KINDS[result['kind']].member}. Its rows also chose the settings: scores on new rows "
            "will be slightly worse."
        )
    if result["judged_by"] == "folds":
        return (
            f"The trials were single {KINDS[result['kind']].member}s, compared on some of these "
            "rows. These rows chose the settings, so scores on new rows will be slightly worse "
            "than the scores above."
        )
    return "These rows also chose the settings, so scores on new rows will be slightly worse."


def trial_text(
    trial: tuning.Trial, best: tuning.Trial, seconds: float, budget: tuning.Budget
) -> str:
    """Return the settings and the score of one trial, and the best score so far."""
    score = f"NLL {trial.nll:.3f}" if trial.ended == "complete" else f"stopped: {trial.ended}"
    return (
        f"{budget.progress(trial.number, seconds)}: {settings_text(trial.settings)}: {score}; best "
        f"so far {best.nll:.3f} (trial {best.number})"
    )


def _summary_lines(result: dict[str, Any]) -> Iterator[str]:
    scores, member = result["scores"], KINDS[result["kind"]].member
    judged = f"{result['judged_by']} row{'' if scores['rows'] == 1 else 's'}:"
    if result["judged_by"] == "folds":
        folds = f"held-out rows of {result['members']} folds"
        judged = f"{folds}, each by a {member} that had not seen it:"
    if "kinds" in result:
        judged = "held-out rows, each by the members that had not seen it:"
    yield f"\nOn the {scores['rows']:,} {judged}"
    yield from _score_lines(scores)
    if "kinds" in result:
        yield f"  components: {result['components']} of all members together"
    else:
        yield from _gain_lines(result)
        yield _components_text(result, member)
    if result["outlier_rows"]:
        yield f"  {_outlier_text(result['outlier_rows'])}"


def _gain_lines(result: dict[str, Any]) -> Iterator[str]:
    gains = (("one Gaussian for all rows", "gaussian"), ("linear least squares", "least_squares"))
    for label, name in gains:
        gain = result[f"gain_over_{name}"]
        yield f"  gain over {label}: {'unknown' if gain is None else f'{gain:.3f} nat per row'}"


def _gains_text(result: dict[str, Any]) -> str:
    """Return how much better a stack is than simple models and than its best kind."""
    gains = [
        (result["gain_over_least_squares"], "a straight line"),
        (result["gain_over_gaussian"], "one Gaussian for all rows"),
    ]
    if len(result["kinds"]) > 1:
        best = f"the best kind alone ({result['best_kind']})"
        gains.append((result["gain_over_best_kind"], best))
    known = [f"{gain:.3f} over {what}" for gain, what in gains if gain is not None]
    return f"Gain:     {', '.join(known)}, in nats per held-out row"


def _components_text(result: dict[str, Any], member: str) -> str:
    """Return how many components are in use."""
    effective, unused = result["effective_components"], len(result["dead_components"])
    in_use = "" if effective is None else f"{effective:.1f} effective, "
    components, members = result["components"], result["members"]
    if members == 1:
        return f"  components: {components}, {in_use}{unused} unused"
    of_all = f"{unused} of {components * members} unused"
    return f"  components of each {member}: {components}, {in_use}{of_all}"


def _outlier_text(rows: Sequence[int]) -> str:
    """Return which held-out rows surprise the model."""
    names = ", ".join(map(str, rows[:_NAMED]))
    if len(rows) == 1:
        return (
            f"outliers: 1 row, number {names}. It is far from what the model and similar rows "
            "expect. It did not decide when training stopped."
        )
    first = "the first are " if len(rows) > _NAMED else ""
    return (
        f"outliers: {len(rows):,} rows, {first}numbers {names}. They are far from what the model "
        "and similar rows expect. They did not decide when training stopped."
    )


def _score_lines(scores: dict[str, Any]) -> Iterator[str]:
    yield (
        f"  NLL: {scores['nll']:.3f} nat per row in your units, {scores['nll_standardized']:.3f} "
        "in standardized units (can be negative: it is minus a log density)"
    )
    for name, target in scores["targets"].items():
        coverages = ", ".join(
            f"{float(level):.0%} intervals contain {coverage:.0%}"
            for level, coverage in target["coverage"].items()
        )
        crps = "CRPS unknown" if target["crps"] is None else f"CRPS {target['crps']:.4g}"
        yield f"  {name}: RMSE {target['rmse']:.4g}, {crps}; {coverages} of the rows"
        yield f"  {name}: calibration: {calibration_text(scores['rows'], target)}"
