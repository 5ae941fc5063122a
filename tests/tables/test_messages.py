"""The text that commands print."""

import math
from pathlib import Path

import numpy as np
import pytest

from ngem.families import propose_family
from ngem.tables import messages
from ngem.tables.trials import Trial
from ngem.tables.tune import Budget

FACTS = {
    "rows": 5000,
    "used_rows": 1980,
    "dropped_rows": 20,
    "features": {"a": "number", "b": "category", "c": "number", "d": "boolean"},
    "inputs": 7,
    "targets": ["y", "z"],
    "steps": [None, None],
    "proposals": [None, None],
    "rows_without_target": 0,
    "target_notes": [],
    "file_notes": [],
    "column_notes": {},
    "gaps": {},
    "seed": 3,
    "kind": "network",
}

SCORES = {
    "rows": 198,
    "nll": 1.25,
    "nll_standardized": -0.5,
    "targets": {
        "y": {
            "crps": None,
            "rmse": 2.0,
            "coverage": {"0.5": 0.512, "0.9": 0.87},
            "calibration": "too wide",
            "pit_distance": 0.123,
            "pit_distance_range": [0.0265, 0.2195],
        }
    },
}

RESULT = {
    **FACTS,
    "training_rows": 1782,
    "validation_rows": 198,
    "members": 1,
    "judged_by": "validation",
    "scores": SCORES,
    "gain_over_gaussian": 0.5,
    "gain_over_least_squares": None,
    "components": 5,
    "effective_components": 3.21,
    "dead_components": [],
    "outlier_rows": [],
    "epochs": 1200,
    "best_epochs": [1100],
    "seconds": 12.34,
}

FOLDS = {
    **RESULT,
    "training_rows": 1980,
    "validation_rows": 1980,
    "members": 3,
    "judged_by": "folds",
    "best_epochs": [1100, 102, 1189],
}


TREES = {
    **{name: value for name, value in FOLDS.items() if "epoch" not in name},
    "kind": "trees",
    "rounds": 1200,
    "best_rounds": [1100, 102, 1189],
}


def test_a_table():
    assert messages.table_text(Path("some/table.csv"), FACTS) == (
        "Table:    table.csv, 5,000 rows, 2,000 of them sampled at random, 20 left out because of "
        "gaps\n"
        "Features: 4 columns (2 numeric, 1 true or false, 1 categorical), 7 network inputs\n"
        "Targets:  y, z"
    )
    whole = FACTS | {"rows": 1980, "dropped_rows": 0}
    assert "table.csv, 1,980 rows\n" in messages.table_text(Path("table.csv"), whole)


def test_training():
    assert messages.training_text(RESULT) == (
        "Split:    1,782 rows for training, 198 for validation (seed 3)\n"
        "Training: 1,200 epochs in 12.3 s; kept epoch 1,100, the best on the validation rows"
    )
    assert messages.training_text(FOLDS) == (
        "Split:    1,980 rows in 3 folds; each network holds one fold out (seed 3)\n"
        "Training: 3 networks, at most 1,200 epochs in 12.3 s; kept epochs 102 to 1,189, each the "
        "best on its own fold"
    )
    same = messages.training_text(FOLDS | {"best_epochs": [7, 7, 7]})
    assert "kept epoch 7, each" in same
    none = {"training_rows": 9, "validation_rows": 0, "judged_by": "training"}
    few = messages.training_text(RESULT | none)
    assert "9 rows for training, none for validation, because there are too few" in few
    assert few.endswith("kept the last epoch")


def test_training_of_trees():
    assert messages.training_text(TREES) == (
        "Split:    1,980 rows in 3 folds; each member holds one fold out (seed 3)\n"
        "Training: boosted trees, 3 members, at most 1,200 rounds in 12.3 s; kept 1,100, 102, "
        "1,189 rounds, each the best on its own fold"
    )
    many = messages.training_text(TREES | {"members": 20, "best_rounds": range(1, 21)})
    assert "kept 1 to 20 rounds, each" in many
    one = {"members": 1, "judged_by": "validation"}
    single = messages.training_text(TREES | one | {"best_rounds": [1]})
    assert "Training: boosted trees, 1,200 rounds in 12.3 s; kept 1 round, the best" in single
    few = messages.training_text(TREES | one | {"judged_by": "training"})
    assert few.endswith("kept all of them")


def test_columns_are_named_with_what_was_done():
    more = {
        "rows_without_target": 59,
        "file_notes": ["its text is in cp1252"],
        "column_notes": {"id": "left out, because A", "b": "read as B", "c": "left out, because A"},
        "gaps": {f"g{i}": i for i in range(1, 8)},
        "target_notes": ["y is 0 in 9% of the rows"],
    }
    facts = FACTS | more | {"used_rows": 1921}
    text = messages.table_text(Path("table.csv"), facts).splitlines()
    assert text[0].endswith(", 20 left out because of gaps, 59 left out for want of a target")
    assert text[3:] == [
        "Note:     its text is in cp1252.",
        "Note:     id, c: left out, because A.",
        "Note:     b: read as B.",
        "Note:     to use a column that was left out, name all columns to use in --features.",
        "Note:     gaps: g7 in 7 rows, g6 in 6 rows, g5 in 5 rows, g4 in 4 rows, g3 in 3 rows and "
        "2 other columns; numbers are replaced by their median, and networks see where.",
        "Note:     y is 0 in 9% of the rows.",
    ]


def test_rounded_targets_are_said_with_what_helps():
    facts = {**TREES, "steps": [0.25] * len(TREES["targets"])}
    text = messages.table_text(Path("table.csv"), facts)
    assert "is rounded to steps of 0.25, so" in text
    assert "--resolution 0.25 bounds it" in text
    assert "rounded" not in messages.table_text(Path("table.csv"), {**facts, "resolution": 0.25})


def test_positive_targets_are_said_with_the_family_that_keeps_to_them():
    proposal = propose_family(np.array([0.5, 1.0, 30.0]))
    facts = {**TREES, "proposals": [proposal] + [None] * (len(TREES["targets"]) - 1)}
    text = messages.table_text(Path("table.csv"), facts)
    assert f"Note:     {TREES['targets'][0]}: all values are positive, and components" in text
    assert "--family lognormal does not." in text
    assert "Note" not in messages.table_text(Path("table.csv"), {**facts, "family": "gaussian"})


@pytest.mark.parametrize(
    ("y", "family"),
    [
        ([0.1, 0.2, 5.0], "lognormal"),
        ([0.02, 0.5, 0.9], "logitnormal"),
        ([100.0, 101.0, 99.0], None),  # far from zero a Gaussian is as good
        ([0.0, 0.2, 5.0], None),
        ([-1.0, 0.2, 5.0], None),
    ],
)
def test_proposals_follow_from_where_targets_lie(y, family):
    proposal = propose_family(np.array(y))
    assert (proposal and proposal.family) == family


def test_nothing_about_trees_speaks_of_networks():
    texts = [
        messages.table_text(Path("table.csv"), TREES),
        messages.training_text(TREES),
        messages.summary_text(TREES),
        messages.tuned_text(TREES),
    ]
    assert "Features: 4 columns (2 numeric, 1 true or false, 1 categorical)\n" in texts[0]
    assert "each by a member that had not seen it" in texts[2]
    assert "components of each member: 5" in texts[2]
    assert "The trials were single members" in texts[3]
    assert not any("network" in text for text in texts)


def test_a_summary():
    assert messages.summary_text(RESULT) == (
        "\nOn the 198 validation rows:\n"
        "  NLL: 1.250 nat per row in your units, -0.500 in standardized units (can be negative: it "
        "is minus a log density)\n"
        "  y: RMSE 2, CRPS unknown; 50% intervals contain 51%, 90% intervals contain 87% of the "
        "rows\n"
        "  y: calibration: densities are too wide; probabilities of quantiles are off by 12 "
        "percentage points (between 2.6 and 22)\n"
        "  gain over one Gaussian for all rows: 0.500 nat per row\n"
        "  gain over linear least squares: unknown\n"
        "  components: 5, 3.2 effective, 0 unused"
    )
    unknown = RESULT | {"effective_components": None, "dead_components": [1, 3]}
    assert messages.summary_text(unknown).endswith("components: 5, 2 unused")


def test_a_fit_in_words():
    assert messages.plain_text(FOLDS | {"gain_over_least_squares": math.log(3)}) == (
        "In words: on rows that it had not seen, 87% of y lay in the 90% intervals, and predicted "
        "means were off by 2 (root mean square).\n"
        "          The density at the true value was 3 times that of a straight line with constant "
        "noise."
    )
    same = messages.plain_text(FOLDS | {"gain_over_least_squares": -0.01})
    assert same.endswith("A straight line with constant noise predicts about as well.")
    own = messages.plain_text(RESULT | {"judged_by": "training"})
    assert own.startswith("In words: on its own rows, 87%")
    assert "straight" not in own


def test_a_summary_of_folds():
    text = messages.summary_text(FOLDS | {"dead_components": [4]})
    assert text.startswith(
        "\nOn the 198 held-out rows of 3 folds, each by a network that had not seen it:\n  NLL:"
    )
    assert text.endswith("components of each network: 5, 3.2 effective, 1 of 15 unused")


def test_outliers_are_named():
    few = messages.summary_text(FOLDS | {"outlier_rows": [7, 1200]})
    assert few.endswith(
        "  outliers: 2 rows, numbers 7, 1200. They are far from what the model and similar rows "
        "expect. They did not decide when training stopped."
    )
    many = messages.summary_text(FOLDS | {"outlier_rows": list(range(3, 1103))})
    assert "outliers: 1,100 rows, the first are numbers 3, 4, 5, 6, 7. They are" in many
    one = messages.summary_text(FOLDS | {"outlier_rows": [9]})
    assert "outliers: 1 row, number 9. It is far from" in one


def test_what_scores_after_a_search_mean():
    assert "These rows also chose the settings, so scores on" in messages.tuned_text(RESULT)
    folds = messages.tuned_text(FOLDS)
    assert "The trials were single networks" in folds
    assert "scores on new rows will be slightly worse than the scores above" in folds
    interrupted = messages.tuned_text(FOLDS | {"interrupted": True})
    assert interrupted.startswith("Interrupted: this is the best trial so far, a single network.")


def test_one_of_a_thing_is_singular():
    one = RESULT | {"epochs": 1, "training_rows": 1, "rows": 1, "inputs": 1}
    assert "1 row for training" in messages.training_text(one)
    assert "1 epoch in" in messages.training_text(one)
    table = messages.table_text(Path("a.csv"), one | {"features": {"a": "number"}})
    assert "a.csv, 1 row" in table
    assert "Features: 1 column (1 numeric), 1 network input\n" in table
    evaluated = messages.evaluated_text(Path("a.csv"), SCORES | {"rows": 1, "dropped_rows": 0})
    assert evaluated.startswith("On the 1 row of a.csv:")


def test_calibrated_intervals_say_what_they_are():
    assert messages.conformal_text(277, 0.9, [0.843, 0.951]) == (
        "Intervals: calibrated by 277 rows; to hold 90% of the targets they have probability "
        "84.3%, 95.1% under the model"
    )


def test_an_evaluation_and_predictions():
    text = messages.evaluated_text(Path("test.csv"), SCORES | {"dropped_rows": 2})
    assert text.startswith("On the 198 rows of test.csv (2 more dropped because of gaps):\n  NLL:")
    assert "dropped" not in messages.evaluated_text(Path("a.csv"), SCORES | {"dropped_rows": 0})
    assert messages.predicted_text(1000, 0, 0, None) == (
        "Predictions for 1,000 rows written to standard output"
    )
    assert messages.predicted_text(4, 2, 0, Path("out.csv")) == (
        "Predictions for 4 rows (2 of them empty because of gaps) written to out.csv"
    )
    assert messages.predicted_text(1, 0, 1, Path("out.csv")) == (
        "Predictions for 1 row written to out.csv\nNote:     1 row has a category that the model "
        "has not seen; it is read as none that is known."
    )


def test_a_trial():
    settings = {"n_components": 3, "hidden_sizes": (64, 64), "learning_rate": 0.00123}
    best, trial = (Trial(n, settings, -0.5 + n, "complete", [], 8) for n in (1, 2))
    assert messages.trial_text(trial, best, 7.6, Budget(None, 9)) == (
        "trial 2 of 9, 8 s: components 3, width 64, learning rate 0.0012: NLL 1.500; best so far "
        "0.500 (trial 1)"
    )
    trees = {
        "n_components": 3,
        "num_leaves": 8,
        "min_rows_in_leaf": 20,
        "learning_rate": 0.05,
    }
    assert messages.settings_text(trees) == (
        "components 3, leaves 8, rows in a leaf 20, learning rate 0.05"
    )
    stopped = messages.trial_text(trial._replace(ended="hopeless"), best, 7.6, Budget(60.0, None))
    assert "trial 2, 8 of 60 s" in stopped
    assert "stopped: hopeless" in stopped
