"""The text that commands print about tables, fits, trials and scores."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from . import tune as tuning
from .kinds import KINDS
from .scores import calibration_text

_KINDS = {"number": "numeric", "boolean": "true or false", "category": "categorical"}

#: Words for the settings that a search chooses.
_SETTINGS = {
    "n_components": "components",
    "hidden_sizes": "width",
    "num_leaves": "leaves",
    "min_rows_in_leaf": "rows in a leaf",
    "learning_rate": "learning rate",
}

#: Outlier rows that are named.
_NAMED = 5


def table_text(path: Path, facts: dict[str, Any]) -> str:
    """Return what was read from a table."""
    kinds = list(facts["features"].values())
    counts = ", ".join(
        f"{kinds.count(kind)} {word}" for kind, word in _KINDS.items() if kind in kinds
    )
    taken, dropped = facts["used_rows"] + facts["dropped_rows"], facts["dropped_rows"]
    sampled = f", {taken:,} of them sampled at random" if taken < facts["rows"] else ""
    gaps = f", {dropped:,} dropped because of gaps" if dropped else ""
    # Trees read each column as it is.
    inputs = f", {facts['inputs']} network inputs" if facts["kind"] != "trees" else ""
    rounded = "".join(
        f"\nNote:     {name} is rounded to steps of {step:.3g}. A density can be very high at "
        f"single values, so its likelihood has no bound. --resolution {step:.3g} bounds it."
        for name, step in zip(facts["targets"], facts["steps"], strict=True)
        if step is not None and facts.get("resolution") is None
    )
    supports = "".join(
        f"\nNote:     {name}: {reason}. Components of the default family reach beyond. --family "
        f"{family} does not."
        for name, (family, reason) in _proposals(facts)
    )
    return (
        f"Table:    {path.name}, {facts['rows']:,} rows{sampled}{gaps}\n"
        f"Features: {len(kinds)} columns ({counts}){inputs}\n"
        f"Targets:  {', '.join(facts['targets'])}{rounded}{supports}"
    )


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
        split = f"{rows:,} rows in {members} folds; each {kind.member} holds one fold out"
        kept = f"{kept}, each the best on its own fold"
    elif result["judged_by"] == "validation":
        split = f"{rows:,} rows for training, {result['validation_rows']:,} for validation"
        kept = f"{kept}, the best on the validation rows"
    else:
        split = f"{rows:,} rows for training, none for validation, because there are too few"
        kept = "kept the last epoch" if kind.step == "epoch" else "kept all of them"
    what = "" if kind.what == f"{kind.member}s" else f"{kind.what}, "
    trained = f"{members} {kind.member}s, at most " if members > 1 else ""
    steps = f"{result[f'{kind.step}s']:,} {kind.step}s in {result['seconds']:.1f} s"
    return f"Split:    {split} (seed {result['seed']})\nTraining: {what}{trained}{steps}; {kept}"


def _stack_text(result: dict[str, Any]) -> str:
    """Return what became of each kind of a stack."""
    kinds = result["kinds"]
    width = max(len(kind["name"]) for kind in kinds)
    count = "1 kind of model" if len(kinds) == 1 else f"{len(kinds)} kinds of models"
    lines = [
        _gains_text(result),
        f"Split:    {result['training_rows']:,} rows in {result['members']} folds; each member "
        f"holds one fold out (seed {result['seed']})",
        f"Training: {count} in {result['seconds']:.1f} s, weighted by held-out rows",
    ]
    for kind in kinds:
        if kind["oof_nll"] is not None:
            told = f"NLL {kind['oof_nll']:.3f}, weight {kind['weight']:.2f}, {kind['seconds']} s"
        else:
            told = kind["outcome"]
        lines.append(f"  {kind['name']:<{width}}  {told}")
    return "\n".join(lines)


def summary_text(result: dict[str, Any]) -> str:
    """Return the scores of a fit, its gains over simple models, and its components."""
    return "\n".join(_summary_lines(result))


def scores_text(scores: dict[str, Any]) -> str:
    """Return the scores of all targets jointly and of each target."""
    return "\n".join(_score_lines(scores))


def evaluated_text(path: Path, scores: dict[str, Any]) -> str:
    """Return the scores of a model on the rows of a file."""
    dropped = scores["dropped_rows"]
    gaps = f" ({dropped:,} more dropped because of gaps)" if dropped else ""
    return f"On the {scores['rows']:,} rows of {path.name}{gaps}:\n{scores_text(scores)}"


def predicted_text(rows: int, empty: int, out: Path | None) -> str:
    """Return how many rows were predicted, and where the predictions are."""
    gaps = f" ({empty:,} of them empty because of gaps)" if empty else ""
    return f"Predictions for {rows:,} rows{gaps} written to {out or 'standard output'}"


def settings_text(settings: dict[str, Any]) -> str:
    """Return the settings that a trial chooses."""
    return ", ".join(f"{_SETTINGS[name]} {_setting(value)}" for name, value in settings.items())


def _setting(value: Any) -> str:
    """Return a setting as text; of the widths of layers, which are equal, the first."""
    first = value[0] if isinstance(value, tuple) else value
    return f"{first:.2g}" if isinstance(first, float) else str(first)


def tuned_text(result: dict[str, Any]) -> str:
    """Return what the scores after a search mean."""
    if result["judged_by"] == "folds":
        return (
            f"The trials were single {KINDS[result['kind']].member}s, compared on some of these "
            "rows. The scores are those of the last fit, and slightly too good: expect slightly "
            "worse ones on new rows."
        )
    return "These rows also chose the settings: expect slightly worse scores on new rows."


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
    judged = f"{result['judged_by']} rows:"
    if result["judged_by"] == "folds":
        folds = f"held-out rows of {result['members']} folds"
        judged = f"{folds}, each by a {member} that had not seen it:"
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
        (result["gain_over_best_kind"], f"the best kind alone ({result['best_kind']})"),
    ]
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
