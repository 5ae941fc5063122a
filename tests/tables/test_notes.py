"""What is said of targets and gaps."""

import numpy as np
import pytest

from ngem.estimator.schema import Column, Schema
from ngem.tables import notes

RNG = np.random.default_rng(0)
POSITIVE = RNG.exponential(size=200)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (POSITIVE, []),
        (np.ones(9), ["is 1 in all rows, so there is nothing to learn"]),
        (np.arange(200) % 6, ["has 6 whole numbers only (0, 1, 2, 3, 4 …)"]),
        (np.arange(200) % 2, ["has 2 whole numbers only (0, 1)"]),
        (
            np.where(np.arange(200) % 4, POSITIVE, 0.0),
            ["is 0, its smallest value, in 25% of the rows; a density without an atom "
             "can only put a narrow peak there"],
        ),
        (
            np.minimum(POSITIVE, 1.0),
            [f"is 1, its largest value, in {np.mean(POSITIVE >= 1):.0%} of the rows; a density "
             "without an atom can only put a narrow peak there"],
        ),
        (
            np.where(np.arange(200) % 4, POSITIVE - 1, 0.0),
            ["is 0, in 25% of the rows; a density without an atom can only put a "
             "narrow peak there"],
        ),
        (
            np.linspace(0.01, 0.99, 200),
            ["lies between 0.01 and 0.99, as a fraction does; densities may reach beyond"],
        ),
        (
            np.linspace(2, 98, 200),
            ["lies between 2 and 98, as a percentage does; densities may reach beyond"],
        ),
    ],
)  # fmt: skip
def test_what_is_special_about_a_target(values, expected):
    schema = Schema((Column("a", "number"),), ("y",))
    found = notes.target_notes(schema, values[:, None].astype(float))
    assert found == [f"y {note}" for note in expected]


def test_gaps_and_unseen_categories_are_counted():
    columns = (Column("a", "number"), Column("d", "date", parts=("elapsed days", "hour")))
    x = np.array([[1.0, np.nan, np.nan], [np.nan, 1, 2], [3, np.nan, np.nan]])
    assert notes.gap_counts(Schema(columns, ("y",)), x) == {"a": 1, "d": 2}
    assert notes.gap_counts(Schema(columns, ("y",)), np.ones((2, 3))) == {}
    assert notes.unseen_text(1).startswith("1 row has a category")
    assert notes.unseen_text(1200).startswith("1,200 rows have a category")
